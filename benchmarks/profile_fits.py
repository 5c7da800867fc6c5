"""How true a fitted profile is: fits to runs under each built-in profile, and the five designs under the fitted one.

python benchmarks/profile_fits.py [--fits N] [--tasks N] [--profile NAME …] [--write]

Markdown to stdout; --write renews the tables in docs/tunnel.md. A fit reads a run of the five designs, two repeats of each task.
Its intervals are held against the rates that were put in. Then the designs run under the fitted profile and under the true one, on
the suite's 120 tasks with another seed than the fit's. Kendall's tau-b says whether all pairs come in the same order, and the order
of decided pairs leaves out those of which the run under the true profile cannot say which design is better. The ceiling is the same
figure for the true profile in the place of the fitted one, with other faults: what luck alone leaves.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scipy import stats

from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import results
from loopbench.experiments.compare.run import run
from loopbench.experiments.fit_profile.fit import FittedProfile, fit_run
from loopbench.experiments.fit_profile.toml import to_toml
from loopbench.models.profiles import Profile, load_profile
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched

PAGE = Path(__file__).parents[1] / "docs" / "tunnel.md"
BLOCK = re.compile(r"(<!-- fits: .*? -->\n)(.*?)(<!-- /fits -->)", re.DOTALL)
LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
PROFILES = ("flaky-format", "flaky-tools", "forgetful", "stubborn")
SUITE = "arithmetic"
TASKS = 60
HELD_OUT = 120
"""Tasks of the runs whose orders are compared."""
FITS = 20


@dataclass(slots=True)
class KindFits:
    """The fits of one rate."""

    covered: int = 0
    fits: int = 0
    ratios: list[float] = field(default_factory=list)
    """Fitted rate by true rate."""


@dataclass(slots=True)
class ProfileFits:
    """The fits to runs under one profile."""

    name: str
    kinds: dict[str, KindFits] = field(default_factory=lambda: defaultdict(KindFits))
    untold: set[str] = field(default_factory=set)
    never: list[float] = field(default_factory=list)
    forget: list[float] = field(default_factory=list)
    decided: int = 0
    """Pairs of designs, of ten, that the run under the true profile decides."""
    taus: list[float] = field(default_factory=list)
    ceilings: list[float] = field(default_factory=list)
    """Kendall's tau of the true profile against itself, with other faults."""
    orders: list[float] = field(default_factory=list)
    """Decided pairs in the same order minus those in the other, by all decided pairs, per fit."""
    order_ceilings: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    """Largest difference of a design's accuracies under the fitted and the true profile, per fit."""

    def add(self, true: Profile, fitted: FittedProfile) -> None:
        for kind, rate in true.rates.items():
            interval = fitted.rates[kind].interval
            if interval is None:
                self.untold.add(kind)
                continue
            found = self.kinds[kind]
            found.fits += 1
            found.covered += interval.low <= rate <= interval.high
            found.ratios.append(interval.value / rate)
        self.never.append(fitted.profile.clears.never)
        self.forget.append(fitted.profile.forget)


def ran(profile: str, tasks: int, seed: int, runs: Path, repeats: int = 2) -> Path:
    """Run the five designs, and return the run's folder."""
    config = CompareConfig(
        loops=LOOPS, profiles=(profile,), suite=SUITE, tasks=tasks, repeats=repeats, seed=seed, runs=runs, mlflow=False
    )
    experiment = prepare(config)
    run(experiment, Unwatched())
    return experiment.folder


class Outcome(NamedTuple):
    """What a run of the five designs says."""

    accuracies: list[float]
    """Accuracy of each design, in the order of LOOPS."""
    decided: list[tuple[int, int]]
    """Pairs of places in LOOPS, the better design first, of which the run says that one is better."""


def outcome(folder: Path) -> Outcome:
    """Read what a run says."""
    found = results(folder).comparison
    loops = {arm.info.arm: arm.info.loop for arm in found.arms}
    by_loop = {arm.info.loop: arm.summary.accuracy.value for arm in found.arms if arm.summary.accuracy is not None}
    decided = []
    for pair in found.pairs:
        a, b = (LOOPS.index(loops[arm]) for arm in (pair.a, pair.b))
        if pair.metric == "accuracy" and pair.verdict.word in ("better", "worse"):
            decided.append((a, b) if by_loop[LOOPS[a]] > by_loop[LOOPS[b]] else (b, a))
    return Outcome([by_loop[loop] for loop in LOOPS], decided)


def order(true: Outcome, values: Sequence[float]) -> float:
    """Return the decided pairs that come in the same order minus those in the other, by all decided pairs; 1 for no such pair."""
    signs = [(values[better] > values[worse]) - (values[better] < values[worse]) for better, worse in true.decided]
    return sum(signs) / len(signs) if signs else 1.0


def tau(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's tau-b; 1 where neither tells any two designs apart, 0 where only one does."""
    if len(set(a)) == 1 or len(set(b)) == 1:
        return float(len(set(a)) == len(set(b)))
    return float(stats.kendalltau(a, b).statistic)


def fitted_to(name: str, fits: int, tasks: int) -> ProfileFits:
    """Fit to `fits` runs under a profile, of a seed each."""
    true, found = load_profile(name), ProfileFits(name)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        held_out = outcome(ran(name, HELD_OUT, fits, folder))
        found.decided = len(held_out.decided)
        for seed in range(fits):
            source = ran(name, tasks, seed, folder)
            fitted = fit_run(source, name="fitted")
            found.add(true, fitted)
            (folder / "fitted.toml").write_text(to_toml(fitted), encoding="utf-8")
            again = outcome(ran(str(folder / "fitted.toml"), HELD_OUT, fits, folder)).accuracies
            luck = outcome(ran(name, HELD_OUT, fits + 1 + seed, folder)).accuracies
            found.taus.append(tau(held_out.accuracies, again))
            found.ceilings.append(tau(held_out.accuracies, luck))
            found.orders.append(order(held_out, again))
            found.order_ceilings.append(order(held_out, luck))
            found.gaps.append(max(abs(one - other) for one, other in zip(held_out.accuracies, again, strict=True)))
    return found


def tables(listed: Iterable[ProfileFits]) -> str:
    """Return the two tables: by profile, and by kind of fault."""
    all_fits = list(listed)
    by_profile = [
        "| profile | Kendall's tau, mean | lowest | ceiling | order of decided pairs, mean | lowest | ceiling | decided pairs | "
        "largest gap of accuracy, mean | never, true | fitted | forget, true | fitted |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    by_kind = ["| profile | kind | fits | covered | fitted / true |", "|---|---|---|---|---|"]
    for found in all_fits:
        true = load_profile(found.name)
        by_profile.append(
            f"| {found.name} | {statistics.mean(found.taus):.2f} | {min(found.taus):.2f} | {statistics.mean(found.ceilings):.2f} | "
            f"{statistics.mean(found.orders):.2f} | {min(found.orders):.2f} | {statistics.mean(found.order_ceilings):.2f} | "
            f"{found.decided} of 10 | {statistics.mean(found.gaps):.2f} | "
            f"{true.clears.never:.2f} | {statistics.mean(found.never):.2f} | "
            f"{true.forget:.2f} | {statistics.mean(found.forget):.2f} |"
        )
        for kind, fits in found.kinds.items():
            share = f"{fits.covered / fits.fits:.2f}"
            by_kind.append(f"| {found.name} | {kind} | {fits.fits} | {share} | {statistics.mean(fits.ratios):.2f} |")
        by_kind += [f"| {found.name} | {kind} | 0 | not told | – |" for kind in sorted(found.untold)]
    return "\n".join([*by_profile, "", *by_kind])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=FITS)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--profile", action="append", choices=PROFILES)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    made = tables(fitted_to(name, given.fits, given.tasks) for name in given.profile or PROFILES)
    made = f"{given.fits} fits each to {given.tasks} tasks of `{SUITE}`, two repeats, five designs; held out: {HELD_OUT} tasks.\n\n{made}"
    print(made)
    if given.write:
        PAGE.write_text(BLOCK.sub(lambda found: f"{found[1]}\n{made}\n\n{found[3]}", PAGE.read_text("utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
