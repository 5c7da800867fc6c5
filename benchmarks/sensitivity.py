"""How much hangs on a loop's words, and on the numbers of a built-in profile; Markdown.

python benchmarks/sensitivity.py [--jobs N] [--write]

Each design is run in twelve innocent rewordings, and hiding its tools' errors. And every rate, every clearing rule and every other
chance of a profile is multiplied by 1/3, 2/3, 4/3 and 5/3, one at a time. Tasks and seeds stay the same. --write renews the tables
in docs/sensitivity.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rewording import HOWS
from scipy.stats import kendalltau

import whichloop
from pages import head, row, write_block
from whichloop.models.profiles import Profile, load_profile

PAGE = Path(__file__).parents[1] / "docs" / "sensitivity.md"
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "flaky-tools")
SUITES = ("events",)
TASKS = 60
FACTORS = {"1/3": 1 / 3, "2/3": 2 / 3, "4/3": 4 / 3, "5/3": 5 / 3}
LEVELS = ("nothing", "failed", "words")
WORDED = ("flaky-format", "flaky-tools")
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


def _changed(data: Mapping[str, object], number: str, factor: float) -> dict[str, object]:
    section, _, name = number.partition(".")
    made = dict(data)
    if section == "rates":
        rates = dict(made["rates"])  # type: ignore[call-overload]
        made["rates"] = rates | {name: rates[name] * factor}
    elif section == "clears":
        made["clears"] = _cleared(dict(made["clears"]), name, factor)  # type: ignore[call-overload]
    elif number == "patience":
        made["patience"] = max(1, round(made["patience"] * factor))  # type: ignore[operator]
    else:
        made[number] = min(1.0, made[number] * factor)  # type: ignore[operator]
    return made


def _cleared(clears: dict[str, float], name: str, factor: float) -> dict[str, float]:
    """Return other clearing rules: chances stop at 1, and one that says more never helps less."""
    if name == "attempts":
        return clears | {name: max(1.0, clears[name] * factor)}
    made = clears | {name: min(1.0, clears[name] * factor)}
    if name in LEVELS:
        place = LEVELS.index(name)
        made |= {level: min(made[level], made[name]) for level in LEVELS[:place]}
        made |= {level: max(made[level], made[name]) for level in LEVELS[place:]}
    return made


# --- runs ---


def result(suite: str, profile: Profile, tasks: int | None) -> RunResult:
    """Compare the five designs under a profile."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "varied.toml"
        file.write_text(profile.model_copy(update={"name": f"{profile.name}-varied"}).to_toml(), encoding="utf-8")
        made = whichloop.compare(LOOPS, suite, [str(file)], tasks=tasks, runs=Path(folder), mlflow=False, progress=False)
        found = made.results.comparison
    designs = {arm.info.arm: arm.info.loop for arm in found.arms}
    accuracies = {arm.info.loop: arm.summary.accuracy.value for arm in found.arms if arm.summary.accuracy is not None}
    words = {(designs[pair.a], designs[pair.b]): pair.verdict.word for pair in found.pairs if pair.family == "primary"}
    return RunResult(accuracies, words)


def _job(work: tuple[str, Profile, int | None]) -> RunResult:
    return result(*work)


def changes(loops: Mapping[str, str], profiles: Sequence[str], tasks: int) -> dict[tuple[str, str], float]:
    """Return by design and way of saying how far accuracy is from the design's own, as a mean over profiles and tasks.

    `loops`: way of saying → spec of a loop with {} in the place of the design.
    """
    specs = {(loop, how): spec.format(loop) for loop in LOOPS for how, spec in {"": "{}", **loops}.items()}
    with tempfile.TemporaryDirectory() as folder:
        made = whichloop.compare(
            list(specs.values()), "arithmetic", profiles, tasks=tasks, runs=Path(folder), mlflow=False, progress=False
        )
        arms = made.results.comparison.arms
    found = [0.0 if arm.summary.accuracy is None else arm.summary.accuracy.value for arm in arms]  # profile by profile
    means = {key: sum(found[at :: len(specs)]) / len(profiles) for at, key in enumerate(specs)}
    return {(loop, how): mean - means[loop, ""] for (loop, how), mean in means.items() if how}


# --- tables ---


def summary_row(suite: str, name: str, made: Sequence[tuple[Variant, RunResult]], tasks: int) -> str:
    """The row of one profile on one suite."""
    base, others = made[0][1], made[1:]
    decided = [pair for pair, word in base.words.items() if word in DECIDED]
    turned = [
        (pair, base.words[pair], word) for _, found in others for pair, word in found.words.items() if word != base.words[pair]
    ]
    lost = {pair for pair, _, _ in turned if pair in decided}
    reversals = sum({before, after} == DECIDED for _, before, after in turned)
    order = [base.accuracies[loop] for loop in LOOPS]
    taus = [(float(kendalltau(order, [found.accuracies[loop] for loop in LOOPS]).statistic), variant) for variant, found in others]
    tau, least = min(taus, key=lambda item: item[0])
    ranking = " > ".join(sorted(LOOPS, key=lambda loop: -base.accuracies[loop]))
    return (
        f"| `{suite}` | {name} | {tasks} | {ranking} | {len(decided)} of {len(base.words)} | {len(decided) - len(lost)} | "
        f"{len(turned)} of {len(base.words) * len(others)} | {reversals} | {tau:.2f} (`{least.number}` × {least.factor}) |"
    )


def of_numbers(tasks: int, jobs: int) -> str:
    """Return the table of what hangs on the profiles' numbers."""
    rows = head(
        "suite", "profile", "tasks", "ranking", "pairs decided", "decided in every variant", "verdicts that turn", "reversed",
        "least Kendall tau",
    )  # fmt: skip
    with ProcessPoolExecutor(jobs) as pool:
        for suite in SUITES:
            for name in PROFILES:
                varied = list(variants(load_profile(name)))
                made = list(zip(varied, pool.map(_job, [(suite, each.profile, tasks) for each in varied]), strict=True))
                rows.append(summary_row(suite, name, made, tasks))
                print(rows[-1], flush=True)
    return "\n".join(rows)


def of_wording(tasks: int) -> str:
    """Return the table of what hangs on a loop's words, and on what it keeps from the model."""
    reworded = {how: f'rewording:Reworded(loop="{{}}", how="{how}")' for how in HOWS}
    hidden = {f"tools' errors: {what} hidden": f'rewording:Hiding(loop="{{}}", what="{what}")' for what in ("words", "all")}
    found = changes(reworded, WORDED, tasks) | changes(hidden, WORDED[-1:], tasks)
    rows = {f"{len(HOWS)} rewordings, the largest change": [max((found[loop, how] for how in HOWS), key=abs) for loop in LOOPS]}
    rows |= {what: [found[loop, what] for loop in LOOPS] for what in hidden}
    return "\n".join([*head("change", *LOOPS), *(row(what, *(f"{each:+.3f}" for each in cells)) for what, cells in rows.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for name in ("rewordings", "sensitivity"):
        table = of_wording(TASKS) if name == "rewordings" else of_numbers(TASKS, given.jobs)
        print(table, flush=True)
        if given.write:
            write_block(PAGE, name, table)


if __name__ == "__main__":
    main()
