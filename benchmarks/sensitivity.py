"""How much hangs on the numbers of a built-in profile: each is varied, and the verdicts among five designs are compared; Markdown.

python benchmarks/sensitivity.py [--suite NAME …] [--profile NAME …] [--tasks N] [--jobs N] [--write]

Every rate, every clearing rule and every other chance of a profile is multiplied by 1/3, 2/3, 4/3 and 5/3, one at a time, with the
same tasks and seeds. Shares that must add up to 1 are scaled with it. --write renews the tables in docs/sensitivity.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from scipy.stats import kendalltau

import whichloop
from pages import head, write_block
from whichloop.models.profiles import FEEDBACK_PARTS, Profile, load_profile

PAGE = Path(__file__).parents[1] / "docs" / "sensitivity.md"
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "stubborn", "flaky-tools", "unreliable-tools", "forgetful", "provider-trouble", "bad-network")
SUITES = ("events",)
TASKS = 120
FACTORS = {"1/3": 1 / 3, "2/3": 2 / 3, "4/3": 4 / 3, "5/3": 5 / 3}
CLEARINGS = ("feedback", "after", "never")
IMPLICIT = ("tool.garbage", "tool.lies", "tool.stale", "tool.empty", "tool.partial")


class Variant(NamedTuple):
    """A profile in which one number is another."""

    number: str
    """Its name in the profile; empty for the profile as it is."""
    factor: str
    profile: Profile


class PairResult(NamedTuple):
    """The difference in accuracy between two designs, its 95 % interval, and the verdict."""

    value: float
    low: float
    high: float
    n: int
    word: str

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}] {self.word}"


class RunResult(NamedTuple):
    """What one run gave."""

    accuracies: Mapping[str, float]
    """By design."""
    pairs: Mapping[tuple[str, str], PairResult]


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
    found += [f"clears.{name}" for name in CLEARINGS if 0 < getattr(clears, name) < 1]
    found += ["clears.attempts"] if clears.after else []
    found += ["clears.resample", "clears.parts"] if clears.feedback else []
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
    """Return other clearing rules: shares that must add up to 1 make room for each other, and chances stop at 1."""
    if name in CLEARINGS:
        share = min(1.0, clears[name] * factor)
        rest = sum(clears[other] for other in CLEARINGS if other != name)
        others = {other: clears[other] * (1 - share) / rest for other in CLEARINGS if other != name}
        return clears | {name: share} | others
    if name == "attempts":
        return clears | {name: max(1.0, clears[name] * factor)}
    changed = FEEDBACK_PARTS if name == "parts" else (name,)
    room = 1 - sum(clears[part] for part in ("resample", *FEEDBACK_PARTS) if part not in changed)
    factor = min(factor, room / sum(clears[part] for part in changed))
    return clears | {part: clears[part] * factor for part in changed}


# --- runs ---


def result(suite: str, profile: Profile, tasks: int | None) -> RunResult:
    """Compare the five designs under a profile."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "varied.toml"
        file.write_text(_toml(profile), encoding="utf-8")
        made = whichloop.compare(LOOPS, suite, [str(file)], tasks=tasks, runs=Path(folder), mlflow=False, progress=False)
        found = made.results.comparison
    designs = {arm.info.arm: arm.info.loop for arm in found.arms}
    accuracies = {arm.info.loop: arm.summary.accuracy.value for arm in found.arms if arm.summary.accuracy is not None}
    pairs = {
        (designs[pair.a], designs[pair.b]): PairResult(gap.value, gap.low, gap.high, gap.n, pair.verdict.word)
        for pair in found.pairs
        if pair.family == "primary" and (gap := pair.difference) is not None
    }
    return RunResult(accuracies, pairs)


def _toml(profile: Profile) -> str:
    lines = [f"{name} = {getattr(profile, name)!r}" for name in ("forget", "bluff", "notices", "patience", "latency_s", "slow_s")]
    lines = [
        f'name = "{profile.name}-varied"',
        *lines,
        "",
        "[rates]",
        *(f'"{kind}" = {rate!r}' for kind, rate in profile.rates.items()),
    ]
    return "\n".join([*lines, "", "[clears]", *(f"{name} = {value!r}" for name, value in profile.clears.model_dump().items())])


def _job(work: tuple[str, Profile, int | None]) -> RunResult:
    return result(*work)


# --- tables ---


class Turn(NamedTuple):
    """A verdict that turned in a variant."""

    variant: Variant
    pair: tuple[str, str]
    before: PairResult
    after: PairResult

    @property
    def is_reversed(self) -> bool:
        return {self.before.word, self.after.word} == {"better", "worse"}


def turns(made: Sequence[tuple[Variant, RunResult]]) -> list[Turn]:
    """Return the verdicts of all variants that differ from those of the profile as it is, which comes first."""
    base = made[0][1].pairs
    return [
        Turn(variant, pair, base[pair], after)
        for variant, found in made[1:]
        for pair, after in found.pairs.items()
        if after.word != base[pair].word
    ]


def summary_row(suite: str, name: str, made: Sequence[tuple[Variant, RunResult]]) -> str:
    """The row of one profile on one suite."""
    base, others = made[0][1], made[1:]
    decided = [pair for pair, found in base.pairs.items() if found.word in ("better", "worse")]
    turned = turns(made)
    lost = {turn.pair for turn in turned if turn.pair in decided}
    reversals = sum(turn.is_reversed for turn in turned)
    order = [base.accuracies[loop] for loop in LOOPS]
    taus = [(float(kendalltau(order, [found.accuracies[loop] for loop in LOOPS]).statistic), variant) for variant, found in others]
    tau, least = min(taus, key=lambda item: item[0])
    n = next(iter(base.pairs.values())).n
    ranking = " > ".join(sorted(LOOPS, key=lambda loop: -base.accuracies[loop]))
    total = len(base.pairs) * len(others)
    return (
        f"| `{suite}` | {name} | {n} | {ranking} | {len(decided)} of {len(base.pairs)} | {len(decided) - len(lost)} | "
        f"{len(turned)} of {total} | {reversals} | {tau:.2f} (`{least.number}` × {least.factor}) |"
    )


def turn_rows(suite: str, name: str, made: Sequence[tuple[Variant, RunResult]]) -> Iterator[str]:
    """A row for each pair that turns: the verdict as it is, by which numbers it turns, and the variant that differs most."""
    turned = turns(made)
    for pair in dict.fromkeys(turn.pair for turn in turned):
        own = [turn for turn in turned if turn.pair == pair]
        by: dict[str, list[str]] = {}
        for turn in own:
            by.setdefault(turn.variant.number, []).append(turn.variant.factor)
        causes = "; ".join(f"`{number}` × {', '.join(factors)}" for number, factors in by.items())
        most = max(own, key=lambda turn: abs(turn.after.value - turn.before.value))
        far = f"{most.after} (`{most.variant.number}` × {most.variant.factor})"
        yield f"| `{suite}` | {name} | {pair[0]} against {pair[1]} | {own[0].before} | {causes} | {far} |"


def tables(suites: Sequence[str], profiles: Sequence[str], tasks: int | None, jobs: int) -> Iterator[dict[str, str]]:
    """Yield the tables as far as they are known, by the name of the block that they stand in, after each profile."""
    short = head(
        "suite", "profile", "tasks", "ranking", "pairs decided", "decided in every variant", "verdicts that turn", "reversed",
        "least Kendall tau",
    )  # fmt: skip
    rows = head("suite", "profile", "pair", "as it is", "turns with", "farthest")
    with ProcessPoolExecutor(jobs) as pool:
        for suite in suites:
            for name in profiles:
                varied = list(variants(load_profile(name)))
                made = list(zip(varied, pool.map(_job, [(suite, each.profile, tasks) for each in varied]), strict=True))
                short.append(summary_row(suite, name, made))
                rows += turn_rows(suite, name, made)
                yield {"sensitivity": "\n".join(short), "verdicts that turn": "\n".join(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append")
    parser.add_argument("--profile", action="append", choices=PROFILES)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    made: dict[str, str] = {}
    for made in tables(given.suite or SUITES, given.profile or PROFILES, given.tasks, given.jobs):
        print(made["sensitivity"].splitlines()[-1], flush=True)
        for name, table in made.items() if given.write else ():
            write_block(PAGE, name, table)
    if not given.write:
        print(*made.values(), sep="\n\n")


if __name__ == "__main__":
    main()
