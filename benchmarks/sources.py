"""How often published models show each kind of fault, and what that makes of the built-in profiles.

python benchmarks/sources.py [--questions FOLDER] PATH… [--write]
python benchmarks/sources.py --from-page

A PATH is a file of tau-bench's trajectories, or one model's folder of BFCL's results, which takes --questions. To get what
docs/sources.md shows, clone
github.com/HuanzhiMao/BFCL-Result (commit b4adfc9) and github.com/sierra-research/tau-bench (59a200c), and check out
github.com/ShishirPatil/gorilla at de8307b for the questions, in `berkeley-function-call-leaderboard/data`:

    python benchmarks/sources.py --questions gorilla/berkeley-function-call-leaderboard/data \\
        tau-bench/historical_trajectories/gpt-4o-airline.json BFCL-Result/2024-08-11/result/{gpt-4o-2024-08-06,…}

Markdown to stdout; --write renews docs/sources.md, the measured profiles, and what every built-in profile says of its rates'
sources. --from-page renews the measured profiles by the shares that docs/sources.md holds, without these files.
A share has its exact 95 % interval (Clopper and Pearson 1934). Models are no random sample of anything, so the rate of
`native-2024` and `text-2024` is the plain mean of their shares, beside the lowest and the highest; a mean hides a share that is 0
for most models, so `native-2024-median` and `text-2024-median` have the median of each kind. `measured-2024` and
`measured-2024-median` name the two profiles of each for the two forms of calls.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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

from pages import block, write_block
from whichloop.models.profiles import FAULT_KINDS, Profile, built_in_profiles, load_profile

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sources.md"
PROFILES = ROOT / "src" / "whichloop" / "models" / "profiles"
SOURCES_TABLE = re.compile(r"\n*^\[sources\]\n.*\Z", re.MULTILINE | re.DOTALL)
EVIDENCE = re.compile(r"^evidence = .*\n", re.MULTILINE)
FITTED: Mapping[Form, str] = {"native": "native-2024", "text": "text-2024"}
FORMS: Mapping[Form, str] = {"native": "with native calls", "text": "with calls in text"}
NOTHING = "stress; no published rate"


class Average(NamedTuple):
    """How the shares of several models become one rate."""

    name: str
    of: Callable[[Sequence[float]], float]
    suffix: str
    """What the names of its profiles end in."""


MEAN, MEDIAN = Average("mean", statistics.fmean, ""), Average("median", statistics.median, "-median")
BY_FORM = "measured-2024"
MEASURED = frozenset(f"{name}{average.suffix}" for average in (MEAN, MEDIAN) for name in (*FITTED.values(), BY_FORM))
"""The names of the profiles that hold what was measured."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--questions", type=Path, help="folder of BFCL's questions, with possible_answer in it")
    parser.add_argument("--write", action="store_true", help="renew docs/sources.md and the built-in profiles")
    parser.add_argument("--from-page", action="store_true", help="renew the measured profiles by the shares in docs/sources.md")
    options = parser.parse_args(arguments)
    if options.from_page == bool(options.paths):
        parser.error("give the files of published replies, or --from-page for the shares that docs/sources.md holds")
    if options.from_page:
        write_measured(read_page(block(PAGE, "shares")))
        return
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
        if name not in MEASURED:
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


# --- the tables read back ---


def read_page(text: str) -> list[PublishedReplies]:
    """Return what the tables of docs/sources.md say that models showed: a share in tenths of a percent gives its count again.

    Kinds that no model of a form showed are in no table, and so in none of the counts. Raises ValueError for another text.
    """
    return [replies for form in FORMS for replies in _of_table(text, form)]


def _of_table(text: str, form: Form) -> Iterator[PublishedReplies]:
    lines = iter(text.partition(f"### Replies {FORMS[form]}\n")[2].splitlines())
    heads = next(([cell.strip("`*") for cell in _cells(line)] for line in lines if line.startswith("| model |")), [])
    if not heads:
        raise ValueError(f"no table of replies {FORMS[form]}")
    next(lines)  # what aligns the columns
    for line in lines:
        if not line.startswith("|"):
            return
        named = dict(zip(heads, _cells(line), strict=True))
        model, _, source = named["model"].rpartition(", ")
        replies = int(named["replies"].replace(",", ""))
        known = {kind: cell for kind, cell in named.items() if kind in (*FAULT_KINDS, *UNCOVERED) and cell != "–"}
        counts = {kind: round(float(cell.split()[0]) * replies / 100) for kind, cell in known.items()}
        yield PublishedReplies(source, model, form, replies, counts)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


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


def fitted_toml(form: Form, sets: Sequence[PublishedReplies], average: Average = MEAN) -> str:
    """Return the file of a profile that holds the mean or median shares of the models of one form; a rate of 0 is left out."""
    rates, sources, of_form = {}, {}, [replies for replies in sets if replies.form == form]
    for kind in FAULT_KINDS:
        found = shares(sets, form, [kind])
        rate = round(average.of(found), 5) if found else 0.0
        if rate:
            rates[kind] = rate
            sources[kind] = f"measured: {_spread(found)}, of which this is the {average.name}; {_names(of_form, [kind])}"
    who = "models of 2024" if average is MEAN else "the median model of 2024"
    wrong = f"What {who} {FORMS[form]} {'were' if average is MEAN else 'was'} measured to do wrong"
    kinds = "" if average is MEAN else ", kind by kind"
    measured = f"Measured: {average.name} shares of {len(of_form)} models' published replies"
    about = _differing(form, sets) if average is MEAN else _never_by_most(form, sets)
    lines = [
        f'name = "{FITTED[form]}{average.suffix}"',
        f'description = "{wrong}{kinds}; providers and tools never fail."',
        f'evidence = "{measured} (docs/sources.md); what clears them is assumed.{about}"',
        f'measured_of = "{form}"',
        "",
        "[rates]",
        *(f'"{kind}" = {rate}' for kind, rate in rates.items()),
    ]
    return "\n".join(lines) + "\n" + _sources_table(sources)


def by_form_toml(average: Average) -> str:
    """Return the file of the profile under which each loop meets what was measured of its own form of calls."""
    own = {form: f"{name}{average.suffix}" for form, name in FITTED.items()}
    meets = " and ".join(f"loops {FORMS[form]} meet {name}" for form, name in own.items())
    lines = [
        f'name = "{BY_FORM}{average.suffix}"',
        'description = "What models of 2024 were measured to do wrong in the form in which a loop has its calls written: '
        f'{meets}."',
        f'evidence = "Measured: {average.name} shares of published replies (docs/sources.md), of native calls and of calls in '
        'text; what clears them is assumed."',
        "",
        "[by_form]",
        *(f'{form} = "{name}"' for form, name in own.items()),
    ]
    return "\n".join(lines) + "\n"


def _differing(form: Form, sets: Sequence[PublishedReplies]) -> str:
    """Return a sentence on the kinds whose mean share is at least 1 % and more than four times the median."""
    told = []
    for kind in FAULT_KINDS:
        found = shares(sets, form, [kind])
        mean, median = (statistics.fmean(found), statistics.median(found)) if found else (0.0, 0.0)
        if mean >= 0.01 and mean > 4 * median:
            told.append(f"{kind} is {_percent(mean)} on average and {_percent(median)} for the median model")
    return f" Models differ: {'; '.join(told)}." if told else ""


def _never_by_most(form: Form, sets: Sequence[PublishedReplies]) -> str:
    """Return a sentence on the kinds that some models showed, and most never did."""
    found = {kind: shares(sets, form, [kind]) for kind in FAULT_KINDS}
    none = [kind for kind, values in found.items() if any(values) and not statistics.median(values)]
    return f" Most models never showed these, which have no rate: {', '.join(none)}." if none else ""


def _sources_table(sources: Mapping[str, str]) -> str:
    return "\n[sources]\n" + "".join(f'"{kind}" = "{text}"\n' for kind, text in sources.items()) if sources else ""


def measured_files(sets: Sequence[PublishedReplies]) -> dict[str, str]:
    """Return name → file of each profile that holds what was measured."""
    made = {f"{BY_FORM}{average.suffix}": by_form_toml(average) for average in (MEAN, MEDIAN)}
    for average in (MEAN, MEDIAN):
        made |= {f"{name}{average.suffix}": fitted_toml(form, sets, average) for form, name in FITTED.items()}
    return made


def write_measured(sets: Sequence[PublishedReplies]) -> None:
    """Write the profiles that hold what was measured."""
    for name, text in measured_files(sets).items():
        (PROFILES / f"{name}.toml").write_text(text, "utf-8")


def write_profiles(sets: Sequence[PublishedReplies]) -> None:
    """Write the measured profiles, and into every other built-in one what is known of its rates."""
    write_measured(sets)
    for path in sorted(PROFILES.glob("*.toml")):
        if path.stem not in MEASURED:
            profile = load_profile(path.stem)
            text = EVIDENCE.sub("", SOURCES_TABLE.sub("\n", path.read_text("utf-8")))
            head, mark, rest = text.partition("\ndescription = ")
            first, _, more = rest.partition("\n")
            evidence = f'evidence = "{evidence_of(profile, sets)}"\n'
            text = f"{head}{mark}{first}\n{evidence}{more}"
            path.write_text(text.rstrip("\n") + "\n" + _sources_table(sources_of(profile.rates, sets)), "utf-8")


if __name__ == "__main__":
    main()
