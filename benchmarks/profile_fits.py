"""How true a fitted profile is: fits to runs under each built-in profile, and the five designs under the fitted one.

python benchmarks/profile_fits.py [--share S] [--write]

--write renews the tables in docs/real-models.md. A fit reads a run of the five designs, two repeats of each task.
Its intervals are held against the rates that were put in. Then the designs run under the fitted profile and under the true one, on
the same tasks with another seed than the fit's, and Kendall's tau-b says whether they come in the same order. The true profile also
runs under further seeds: their mean tau between themselves is what noise leaves of the same profile. Pairs of designs that these
true runs together do not tell apart (95 % paired t interval over tasks) are in no order; the ruled tau counts the other pairs only.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import stats

from comparing import DESIGNS, folder_of_run
from pages import head, make_tables, row
from whichloop.experiments.fit_profile.fit import FittedProfile, fit_run, to_toml
from whichloop.models.profiles import Profile, load_profile
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.trials import each_record

PAGE = Path(__file__).parents[1] / "docs" / "real-models.md"
PROFILES = ("flaky-format", "flaky-tools", "forgetful", "stubborn")
SUITE = "arithmetic"
TASKS = 60
FITS = 20
TRUE_RUNS = 4
"""Runs under the true profile, each under a seed of its own; the first is the one that a fitted profile is held against."""


@dataclass(slots=True)
class ProfileFits:
    """The fits to runs under one profile."""

    name: str
    covered: list[bool] = field(default_factory=list)
    """Whether its interval has the true rate, for each rate that a run tells, of each fit."""
    taus: list[float] = field(default_factory=list)
    ruled: list[float] = field(default_factory=list)
    """Tau over the pairs of designs that the true runs tell apart, per fit."""
    same: list[float] = field(default_factory=list)
    """Tau between two runs under the true profile."""
    pairs: int = 0
    """Pairs of designs that the true runs tell apart."""
    gaps: list[float] = field(default_factory=list)
    """Largest difference of a design's accuracies under the fitted and the true profile, per fit."""

    def add(self, true: Profile, fitted: FittedProfile) -> None:
        told = [(rate, found) for kind, rate in true.rates.items() if (found := fitted.rates[kind].interval) is not None]
        self.covered += [found.low <= rate <= found.high for rate, found in told]


def ran(profile: str, tasks: int, seed: int, runs: Path, repeats: int = 2) -> Path:
    """Run the five designs, and return the run's folder."""
    return folder_of_run(DESIGNS, SUITE, (profile,), runs, tasks=tasks, repeats=repeats, seed=seed)


def scores(folder: Path) -> np.ndarray:
    """Return the mean score of each design on each task, (designs, tasks), in the order of DESIGNS."""
    arms = {arm.arm: arm.loop for arm in read_manifest(folder).arms}
    found: dict[str, dict[str, list[float]]] = {loop: defaultdict(list) for loop in DESIGNS}
    for record in each_record(folder):
        found[arms[record.arm]][record.task].append(record.accuracy)
    tasks = sorted(found[DESIGNS[0]])
    return np.array([[statistics.mean(found[loop][task]) for task in tasks] for loop in DESIGNS])


def told_apart(true: Sequence[np.ndarray]) -> dict[tuple[int, int], float]:
    """Return the pairs of designs that the true runs together tell apart → the sign of their difference."""
    pooled, apart = np.mean(true, axis=0), {}
    for one, other in combinations(range(len(DESIGNS)), 2):
        differences = pooled[one] - pooled[other]
        if not np.ptp(differences):
            continue
        low, high = stats.t.interval(0.95, len(differences) - 1, differences.mean(), stats.sem(differences))
        if not low <= 0 <= high:
            apart[one, other] = float(np.sign(differences.mean()))
    return apart


def ruled_tau(apart: Mapping[tuple[int, int], float], found: Sequence[float]) -> float:
    """Return the share of the pairs told apart that come in the same order, less that in the other; 1 if there is no such pair."""
    return statistics.mean(sign * np.sign(found[one] - found[other]) for (one, other), sign in apart.items()) if apart else 1.0


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
        true_runs = [scores(ran(name, tasks, fits + extra, folder)) for extra in range(TRUE_RUNS)]
        apart, held_out = told_apart(true_runs), true_runs[0].mean(axis=1)
        found.pairs = len(apart)
        found.same = [tau(one.mean(axis=1), other.mean(axis=1)) for one, other in combinations(true_runs, 2)]
        for seed in range(fits):
            fitted = fit_run(ran(name, tasks, seed, folder), name="fitted")
            found.add(true, fitted)
            (folder / "fitted.toml").write_text(to_toml(fitted), encoding="utf-8")
            again = scores(ran(str(folder / "fitted.toml"), tasks, fits, folder)).mean(axis=1)
            found.taus.append(tau(held_out, again))
            found.ruled.append(ruled_tau(apart, again))
            found.gaps.append(float(np.abs(held_out - again).max()))
    return found


def lines(share: float) -> list[str]:
    fits = round(share * FITS)
    columns = "profile|tau, mean|lowest|true against itself|pairs told apart|tau of these|gap of accuracy|rates covered"
    rows = head(*columns.split("|"))
    for found in (fitted_to(name, fits, TASKS) for name in PROFILES):
        means = (statistics.mean(found.ruled), statistics.mean(found.gaps), statistics.mean(found.covered))
        taus = (statistics.mean(found.taus), min(found.taus), statistics.mean(found.same))
        pairs = f"{found.pairs} of {math.comb(len(DESIGNS), 2)}"
        rows.append(row(found.name, *map("{:.2f}".format, taus), pairs, *map("{:.2f}".format, means)))
    return [f"{fits} fits each to {TASKS} tasks of `{SUITE}`, two repeats, five designs.", "", *rows]


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {"fits": lines})
