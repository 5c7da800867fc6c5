"""How often published models show each kind of fault, and what that makes of the built-in profiles.

python benchmarks/sources.py [--questions FOLDER] PATH… [--write]

A PATH is a file of tau-bench's trajectories, or one model's folder of BFCL's results, which takes --questions. To get what
docs/sources.md shows, clone
github.com/HuanzhiMao/BFCL-Result (commit b4adfc9) and github.com/sierra-research/tau-bench (59a200c), and check out
github.com/ShishirPatil/gorilla at de8307b for the questions, in `berkeley-function-call-leaderboard/data`:

    python benchmarks/sources.py --questions gorilla/berkeley-function-call-leaderboard/data \\
        tau-bench/historical_trajectories/gpt-4o-airline.json BFCL-Result/2024-08-11/result/{gpt-4o-2024-08-06,…}

Markdown to stdout; --write renews docs/sources.md, the profiles `native-2024` and `text-2024`, and what every built-in profile
says of its rates' sources. A share has its exact 95 % interval (Clopper and Pearson 1934).
Models are no random sample of anything, so a profile's rate is the plain mean of their shares, beside the lowest and the highest.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from published_replies import (
    UNCOVERED,
    UNREADABLE,
    Form,
    PublishedReplies,
    read_bfcl,
    read_questions,
    read_tau_bench,
)
from scipy.stats import binomtest

from loopbench.models.profiles import FAULT_KINDS, Profile, built_in_profiles, load_profile
from pages import write_block

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sources.md"
PROFILES = ROOT / "src" / "loopbench" / "models" / "profiles"
SOURCES_TABLE = re.compile(r"\n*^\[sources\]\n.*\Z", re.MULTILINE | re.DOTALL)
EVIDENCE = re.compile(r"^evidence = .*\n", re.MULTILINE)
FITTED: Mapping[Form, str] = {"native": "native-2024", "text": "text-2024"}
FORMS: Mapping[Form, str] = {"native": "with native calls", "text": "with calls in text"}
NOTHING = "stress; no published rate"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--questions", type=Path, help="folder of BFCL's questions, with possible_answer in it")
    parser.add_argument("--write", action="store_true", help="renew docs/sources.md and the built-in profiles")
    options = parser.parse_args(arguments)
    folder = next((path for path in options.paths if path.is_dir()), None)
    if folder is not None and options.questions is None:
        parser.error(f"{folder} is a folder of BFCL's results, which takes the questions: --questions FOLDER")
    try:
        questions = {} if options.questions is None else read_questions(options.questions)
        sets = [read_bfcl(path, questions) if path.is_dir() else read_tau_bench(path) for path in options.paths]
    except (OSError, ValueError) as error:
        sys.exit(f"sources.py: {error}")
    text = "\n".join(page(sets))
    print(text)
    if options.write:
        write_block(PAGE, "shares", text)
        write_profiles(sets)


# --- the tables ---


def page(sets: Sequence[PublishedReplies]) -> Iterable[str]:
    """Return the tables of docs/sources.md, line by line."""
    for form in FORMS:
        models = [replies for replies in sets if replies.form == form]
        if models:
            yield from [f"### Replies {FORMS[form]}", "", "Percent of replies, with exact 95 % intervals.", ""]
            yield from (*_share_table(models), "")
    yield from [
        "### What the profiles say",
        "",
        "| profile | points at which a reply cannot be read | fence round a reply | evidence |",
    ]
    yield "|---|---|---|---|"
    for name in built_in_profiles():
        if name not in FITTED.values():
            profile = load_profile(name)
            unreadable, fenced = (_sum(profile, kinds) for kinds in (UNREADABLE, ("wire.fenced",)))
            yield f"| `{name}` | {_percent(unreadable)} | {_percent(fenced)} | {evidence_of(profile, sets)} |"


def _share_table(models: Sequence[PublishedReplies]) -> Iterable[str]:
    kinds = [kind for kind in (*FAULT_KINDS, *UNCOVERED) if any(replies.counts.get(kind) for replies in models)]
    never = [kind for kind in FAULT_KINDS if any(kind in replies.counts for replies in models) and kind not in kinds]
    heads = [f"*{kind}*" if kind in UNCOVERED else f"`{kind}`" for kind in kinds]
    yield f"| model | replies | {' | '.join(heads)} | right, by our count | as published |"
    yield "|---|" + "---:|" * (len(kinds) + 3)
    for replies in models:
        cells = [_cell(replies, kind) for kind in kinds]
        right = (
            ("–", "–")
            if replies.accuracy is None
            else tuple("–" if share is None else f"{share:.3f}" for share in replies.accuracy)
        )
        yield f"| {replies.model}, {replies.source} | {replies.replies:,} | {' | '.join([*cells, *right])} |"
    if never:
        yield f"\nNever seen where it could be: {', '.join(f'`{kind}`' for kind in never)}."


def _cell(replies: PublishedReplies, kind: str) -> str:
    count = replies.counts.get(kind)
    if count is None:
        return "–"
    interval = binomtest(count, replies.replies).proportion_ci(method="exact")
    if not count:
        return f"0 [≤ {100 * interval.high:.1f}]"
    return f"{100 * count / replies.replies:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _sum(profile: Profile, kinds: Iterable[str]) -> float:
    return sum(profile.rates.get(kind, 0.0) for kind in kinds)


# --- what it means for the profiles ---


def shares(sets: Sequence[PublishedReplies], form: Form, kinds: Sequence[str]) -> list[float]:
    """Return each model's share of replies that show one of the kinds; a model whose files cannot show them has none."""
    return [
        sum(replies.counts[kind] for kind in kinds) / replies.replies
        for replies in sets
        if replies.form == form and all(kind in replies.counts for kind in kinds)
    ]


def evidence_of(profile: Profile, sets: Sequence[PublishedReplies]) -> str:
    """Return one sentence on how a built-in profile's rates stand to what was measured."""
    rate = _sum(profile, UNREADABLE)
    if not profile.rates:
        return "No fault strikes at random."
    if not rate:
        return "Stress test: its rates are chosen, and come from no measurement."
    native, text = shares(sets, "native", UNREADABLE), shares(sets, "text", UNREADABLE)
    return (
        f"Stress test: {_percent(rate)} of its replies cannot be read, {rate / max(native):.0f} times the most that was measured "
        f"of native calls ({_percent(max(native))}, {len(native)} models); of calls in text it was {_spread(text)} "
        f"({_names(sets, UNREADABLE)})."
    )


def _spread(values: Sequence[float]) -> str:
    """Return what models' shares are, in words."""
    if not any(values):
        return f"0 % ({_models(values)})"
    if len(values) == 1:
        return f"{_percent(values[0])} (1 model)"
    return f"{_percent(min(values))} to {_percent(max(values))}, median {_percent(statistics.median(values))} ({_models(values)})"


def _models(values: Sequence[float]) -> str:
    return f"{len(values)} model{'s' if len(values) > 1 else ''}"


def _names(sets: Sequence[PublishedReplies], kinds: Sequence[str]) -> str:
    """Return the sets of replies that can show all of the kinds."""
    return " and ".join(sorted({replies.source for replies in sets if all(kind in replies.counts for kind in kinds)}))


def sources_of(kinds: Iterable[str], sets: Sequence[PublishedReplies]) -> dict[str, str]:
    """Return kind of fault → what was measured of it, as a stress profile says it."""
    made = {}
    for kind in kinds:
        found = {form: shares(sets, form, [kind]) for form in FORMS}
        parts = [f"{FORMS[form]} {_spread(values)}" for form, values in found.items() if values]
        made[kind] = f"stress; measured {', '.join(parts)}; {_names(sets, [kind])}" if parts else NOTHING
    return made


def fitted_toml(form: Form, sets: Sequence[PublishedReplies]) -> str:
    """Return the file of a profile that holds the mean shares of the models of one form."""
    rates, sources = {}, {}
    for kind in FAULT_KINDS:
        found = shares(sets, form, [kind])
        if found and any(found):
            rates[kind] = round(statistics.fmean(found), 5)
            of_form = [replies for replies in sets if replies.form == form]
            sources[kind] = f"measured: {_spread(found)}, of which this is the mean; {_names(of_form, [kind])}"
    measured = f"Measured: mean shares of {sum(replies.form == form for replies in sets)} models' published replies"
    lines = [
        f'name = "{FITTED[form]}"',
        f'description = "What models of 2024 {FORMS[form]} were measured to do wrong; providers and tools never fail."',
        f'evidence = "{measured} (docs/sources.md); what clears them is assumed.{_differing(form, sets)}"',
        f'measured_of = "{form}"',
        "",
        "[rates]",
        *(f'"{kind}" = {rate}' for kind, rate in rates.items()),
    ]
    return "\n".join(lines) + "\n" + _sources_table(sources)


def _differing(form: Form, sets: Sequence[PublishedReplies]) -> str:
    """Return a sentence on the kinds whose mean share is at least 1 % and more than four times the median."""
    told = []
    for kind in FAULT_KINDS:
        found = shares(sets, form, [kind])
        mean, median = (statistics.fmean(found), statistics.median(found)) if found else (0.0, 0.0)
        if mean >= 0.01 and mean > 4 * median:
            told.append(f"{kind} is {_percent(mean)} on average and {_percent(median)} for the median model")
    return f" Models differ: {'; '.join(told)}." if told else ""


def _sources_table(sources: Mapping[str, str]) -> str:
    return "\n[sources]\n" + "".join(f'"{kind}" = "{text}"\n' for kind, text in sources.items()) if sources else ""


def write_profiles(sets: Sequence[PublishedReplies]) -> None:
    """Write the fitted profiles, and into every other built-in one what is known of its rates."""
    for form, name in FITTED.items():
        (PROFILES / f"{name}.toml").write_text(fitted_toml(form, sets), "utf-8")
    for path in sorted(PROFILES.glob("*.toml")):
        if path.stem not in FITTED.values():
            profile = load_profile(path.stem)
            text = EVIDENCE.sub("", SOURCES_TABLE.sub("\n", path.read_text("utf-8")))
            head, mark, rest = text.partition("\ndescription = ")
            first, _, more = rest.partition("\n")
            evidence = f'evidence = "{evidence_of(profile, sets)}"\n'
            text = f"{head}{mark}{first}\n{evidence}{more}"
            path.write_text(text.rstrip("\n") + "\n" + _sources_table(sources_of(profile.rates, sets)), "utf-8")


if __name__ == "__main__":
    main()
