"""How much hangs on a loop's words, and on the numbers of a built-in profile; Markdown.

python benchmarks/sensitivity.py [--share S] [--only NAME …] [--write]

Each design is run in twelve innocent rewordings, and hiding its tools' errors. And every rate, every clearing rule and every other
chance of a profile is multiplied by 1/3, 2/3, 4/3 and 5/3, one at a time. Tasks and seeds stay the same. --write renews the tables
in docs/sensitivity.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rewording import HOWS
from scipy.stats import kendalltau

from comparing import DESIGNS, compared
from pages import head, make_tables, row
from whichloop.models.profiles import Profile, load_profile

PAGE = Path(__file__).parents[1] / "docs" / "sensitivity.md"
PROFILES = ("flaky-format", "flaky-tools")
SUITE = "events"
TASKS = 60
FACTORS = {"1/3": 1 / 3, "2/3": 2 / 3, "4/3": 4 / 3, "5/3": 5 / 3}
LEVELS = ("nothing", "failed", "words")
DECIDED = {"better", "worse"}
IMPLICIT = ("tool.garbage", "tool.lies", "tool.stale", "tool.empty", "tool.partial")


class Variant(NamedTuple):
    """A profile in which one number is another."""

    number: str
    """Its name in the profile; empty for the profile as it is."""
    factor: str
    profile: Profile


class RunResult(NamedTuple):
    """What one run gave."""

    accuracies: Mapping[str, float]
    """By design."""
    words: Mapping[tuple[str, str], str]
    """Pair of designs → verdict."""


# --- variants ---


def variants(profile: Profile) -> Iterator[Variant]:
    """Yield the profile as it is, then all others in which one number differs; what changes nothing is left out."""
    yield Variant("", "", profile)
    data = profile.model_dump()
    for number in numbers(profile):
        for name, factor in FACTORS.items():
            changed = Profile.model_validate(_changed(data, number, factor))
            if changed != profile:
                yield Variant(number, name, changed)


def numbers(profile: Profile) -> list[str]:
    """Return the names of the numbers that have a part in what the profile does."""
    clears = profile.clears
    found = [f"rates.{kind}" for kind in profile.rates]
    families = {kind.partition(".")[0] for kind in profile.rates}
    found += ["clears.never"] if clears.never else []
    found += ["clears.attempts"] if families & {"tool", "mcp", "provider"} else []
    found += [f"clears.{level}" for level in LEVELS] if families & {"wire", "decision"} else []
    found += ["forget"] if profile.forget else []
    found += ["notices"] if profile.rates.keys() & set(IMPLICIT) else []
    return [*found, "bluff", "patience"]


def _changed(data: Mapping[str, Any], number: str, factor: float) -> dict[str, Any]:
    """Return a profile's fields with another number. Chances stop at 1, and a level that says more never clears less."""
    section, _, name = number.partition(".")
    if section == "rates":
        return {**data, "rates": data["rates"] | {name: data["rates"][name] * factor}}
    if number == "patience":
        return {**data, number: max(1, round(data[number] * factor))}
    if section != "clears":
        return {**data, number: min(1.0, data[number] * factor)}
    value = data["clears"][name] * factor
    made = data["clears"] | {name: max(1.0, value) if name == "attempts" else min(1.0, value)}
    if name in LEVELS:
        place = LEVELS.index(name)
        made |= {level: min(made[level], made[name]) for level in LEVELS[:place]}
        made |= {level: max(made[level], made[name]) for level in LEVELS[place:]}
    return {**data, "clears": made}


# --- runs ---


def result(profile: Profile, tasks: int) -> RunResult:
    """Compare the five designs under a profile."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "varied.toml"
        file.write_text(profile.model_copy(update={"name": f"{profile.name}-varied"}).to_toml(), encoding="utf-8")
        found = compared(DESIGNS, SUITE, [str(file)], folder, tasks=tasks).comparison
    designs = {arm.info.arm: arm.info.loop for arm in found.arms}
    accuracies = {arm.info.loop: arm.summary.accuracy.value for arm in found.arms if arm.summary.accuracy is not None}
    words = {(designs[pair.a], designs[pair.b]): pair.verdict.word for pair in found.pairs if pair.family == "primary"}
    return RunResult(accuracies, words)


def changes(loops: Mapping[str, str], profiles: Sequence[str], tasks: int) -> dict[tuple[str, str], float]:
    """Return by design and way of saying how far accuracy is from the design's own, as a mean over profiles and tasks.

    `loops`: way of saying → spec of a loop with {} in the place of the design.
    """
    specs = {(loop, how): spec.format(loop) for loop in DESIGNS for how, spec in {"": "{}", **loops}.items()}
    with tempfile.TemporaryDirectory() as folder:
        arms = compared([*specs.values()], "arithmetic", profiles, folder, tasks=tasks).comparison.arms
    found = [0.0 if arm.summary.accuracy is None else arm.summary.accuracy.value for arm in arms]  # profile by profile
    means = {key: sum(found[at :: len(specs)]) / len(profiles) for at, key in enumerate(specs)}
    return {(loop, how): mean - means[loop, ""] for (loop, how), mean in means.items() if how}


# --- tables ---


def summary_row(name: str, made: Sequence[tuple[Variant, RunResult]], tasks: int) -> str:
    """The row of one profile."""
    base, others = made[0][1], made[1:]
    decided = [pair for pair, word in base.words.items() if word in DECIDED]
    turned = [
        (pair, base.words[pair], word) for _, found in others for pair, word in found.words.items() if word != base.words[pair]
    ]
    lost = {pair for pair, _, _ in turned if pair in decided}
    reversals = sum({before, after} == DECIDED for _, before, after in turned)
    order = [base.accuracies[loop] for loop in DESIGNS]
    orders = [(each, [found.accuracies[loop] for loop in DESIGNS]) for each, found in others]
    tau, least = min(((float(kendalltau(order, other).statistic), each) for each, other in orders), key=lambda item: item[0])
    return row(
        f"`{SUITE}`",
        name,
        tasks,
        " > ".join(sorted(DESIGNS, key=lambda loop: -base.accuracies[loop])),
        f"{len(decided)} of {len(base.words)}",
        len(decided) - len(lost),
        f"{len(turned)} of {len(base.words) * len(others)}",
        reversals,
        f"{tau:.2f} (`{least.number}` × {least.factor})",
    )


def of_numbers(share: float) -> Iterator[str]:
    """Yield the table of what hangs on the profiles' numbers."""
    columns = "suite|profile|tasks|ranking|pairs decided|decided in every variant|verdicts that turn|reversed|least Kendall tau"
    yield from head(*columns.split("|"))
    for name in PROFILES:
        tasks = round(share * TASKS)
        yield summary_row(name, [(each, result(each.profile, tasks)) for each in variants(load_profile(name))], tasks)


def of_wording(share: float) -> Iterator[str]:
    """Yield the table of what hangs on a loop's words, and on what it keeps from the model."""
    tasks = round(share * TASKS)
    reworded = {how: f'rewording:Reworded(loop="{{}}", how="{how}")' for how in HOWS}
    hidden = {f"tools' errors: {what} hidden": f'rewording:Hiding(loop="{{}}", what="{what}")' for what in ("words", "all")}
    found = changes(reworded, PROFILES, tasks) | changes(hidden, PROFILES[-1:], tasks)
    rows = {f"{len(HOWS)} rewordings, the largest change": [max((found[loop, how] for how in HOWS), key=abs) for loop in DESIGNS]}
    rows |= {what: [found[loop, what] for loop in DESIGNS] for what in hidden}
    yield from head("change", *DESIGNS)
    yield from (row(what, *(f"{each:+.3f}" for each in cells)) for what, cells in rows.items())


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {"rewordings": of_wording, "sensitivity": of_numbers})
