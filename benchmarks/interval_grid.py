"""The intervals of scores on grids of many cells: how often they hold the truth, at what width; Markdown to stdout.

python benchmarks/interval_grid.py [--share S] [--only NAME …] [--write]

Pairs: 10 to 500 tasks, 1 to 10 repeats, tasks alike or not, arms equal or 2 or 10 points apart. One arm: accuracies of 0.5 to 0.995
(those below are their mirror image), single trials, repeats, graded scores and 5 to 45 templates.
--write renews the tables in docs/statistics.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pages import head, make_tables, row
from whichloop.metrics.bootstrap import FlipTails, sign_flip
from whichloop.metrics.paired import PairedFlip
from whichloop.metrics.statistics import accuracy_interval

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
LEAST = 0.94
"""What every cell is to cover."""
Z = float(-special.ndtri(0.025))
SAME = 20
"""Runs of each cell whose interval is held against the library's own."""
Array = NDArray[np.float64]
Ends = tuple[Array, Array]


def generator_of(*key: object) -> np.random.Generator:
    """The same in every process."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def rates(mean: float, spread: float, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Chances of success from a Beta distribution; a spread of infinity makes all alike."""
    return np.full(shape, mean) if np.isinf(spread) else generator.beta(mean * spread, (1 - mean) * spread, shape)


class Share(NamedTuple):
    """What one interval did in one cell."""

    covered: float
    width: float


@dataclass(frozen=True, slots=True)
class Found:
    """What one cell gave."""

    ours: Share
    others: tuple[Share, ...]
    differ: float = float("inf")
    """Mean number of units that differ between two arms."""

    @property
    def relative_width(self) -> float:
        """Beside the narrowest of ours and the others that covers 0.94 in this cell, and is not of no width; 1 if none does."""
        good = [one.width for one in (self.ours, *self.others) if one.covered >= LEAST and one.width > 0]
        return self.ours.width / min(good, default=self.ours.width)


def share(ends: Ends, truth: float) -> Share:
    low, high = ends
    return Share(float(np.mean((low <= truth + 1e-9) & (high >= truth - 1e-9))), float(np.mean(high - low)))


# --- pairs ---


@dataclass(frozen=True, slots=True)
class PairCell:
    tasks: int
    repeats: int
    mean: float
    spread: float
    apart: float

    def differences(self, runs: int) -> Array:
        """[run, task]"""
        generator = generator_of(astuple(self))
        rate = rates(self.mean, self.spread, (runs, self.tasks), generator)
        lower = rate * (1 - self.apart / self.mean)
        return np.asarray((generator.binomial(self.repeats, rate) - generator.binomial(self.repeats, lower)) / self.repeats)

    def found(self, runs: int) -> Found:
        d = self.differences(runs)
        ours = ends_of_pairs(d)
        for one, low, high in list(zip(d, *ours, strict=True))[:SAME]:
            told = PairedFlip(one).interval()
            assert np.allclose((told.low, told.high), (low, high), atol=1e-9), self
        others = tuple(share(ends, self.apart) for ends in (students(d), bonett_price(d)))
        return Found(share(ours, self.apart), others, float((d != 0).sum(1).mean()))


def ends_of_pairs(d: Array) -> Ends:
    """What `PairedFlip.interval` gives, for all runs at once."""
    tails = [sign_flip(row) if clear == 0 else clear for row, clear in zip(d, clearly(d), strict=True)]
    rejects_less = np.array([tail.greater < 0.025 if isinstance(tail, FlipTails) else tail > 1 for tail in tails])
    rejects_more = np.array([tail.less < 0.025 if isinstance(tail, FlipTails) else tail < -1 for tail in tails])
    low, high = low_end(d), -low_end(-d)
    low = np.where(rejects_less, np.maximum(low, 1e-12), np.minimum(low, 0.0))
    high = np.where(rejects_more, np.minimum(high, -1e-12), np.maximum(high, 0.0))
    mean = d.mean(1)
    return np.minimum(np.maximum(low, -1.0), mean), np.maximum(np.minimum(high, 1.0), mean)


def clearly(d: Array) -> Array:
    """±2 where the sign-flip test rejects at 0.05 for sure, by Hoeffding's bound (1963); ±1 where it does not, since a sum of signs
    reaches its standard deviation in one of nine cases; 0 where it has to be asked."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.nan_to_num(d.sum(1) / np.sqrt((d**2).sum(1)))
    return np.asarray(np.select([np.abs(z) > 2.72, np.abs(z) < 1], [2 * np.sign(z), np.where(z < 0, -1, 1)], 0), dtype=np.float64)


def low_end(d: Array) -> Array:
    """The lower end for scores, as of `PairedFlip`, before the test of 0."""
    n, mean, square = d.shape[1], d.mean(1), (d**2).sum(1)
    size = np.sqrt((square + 1) / ((d != 0).sum(1) + 1))
    center = d.sum(1) / (n + 2)
    low = center - Z * np.sqrt(((square + 2 * size**2) / (n + 2) - center**2) / (n + 2))
    gained = np.clip(mean / size, -1, 1)
    lost = np.maximum(-gained * n, 0)
    share_lost = np.where(
        gained >= 0, 1 - gained - 0.025 ** (1 / n), special.betaincinv(lost + 1, np.maximum(n - lost, 1e-12), 0.975)
    )
    return np.asarray(np.where(share_lost > 0, np.minimum(low, -share_lost * size), low), dtype=np.float64)


def students(d: Array) -> Ends:
    n, mean = d.shape[1], d.mean(1)
    half = -special.stdtrit(n - 1, 0.025) * d.std(1, ddof=1) / np.sqrt(n)
    return mean - half, mean + half


def bonett_price(d: Array) -> Ends:
    """A unit of +1 and one of -1 are added (Bonett & Price 2012)."""
    n = d.shape[1] + 2
    center = d.sum(1) / n
    half = Z * np.sqrt((((d**2).sum(1) + 2) / n - center**2) / n)
    return np.maximum(center - half, -1.0), np.minimum(center + half, 1.0)


PAIRS: Mapping[str, tuple[PairCell, ...]] = {
    f"{tasks} × {repeats}": tuple(
        PairCell(tasks, repeats, mean, spread, apart)
        for mean, spread, apart in product((0.5, 0.7, 0.9, 0.98), (0.05, 0.5, 2.0, 20.0), (0.0, 0.02, 0.1))
    )
    for tasks, repeats in product((10, 20, 30, 50, 120, 500), (1, 3, 10))
}


def pairs(runs: int) -> Iterator[str]:
    columns = ("tasks × repeats", "cells", "least coverage", "median coverage", "relative width, median")
    yield from head(*columns, "where 5 tasks or more differ")
    for name, cells in PAIRS.items():
        found = [one.found(runs) for one in cells]
        widths = [[one.relative_width for one in found if one.differ >= least] for least in (0, 5)]
        medians = [f"{np.median(known):.2f}" if known else "–" for known in widths]
        yield row(name, len(found), *coverage(found), *medians)


def coverage(found: Sequence[Found]) -> tuple[str, str]:
    covered = [one.ours.covered for one in found]
    return f"{min(covered):.3f}", f"{np.median(covered):.3f}"


# --- one arm ---


@dataclass(frozen=True, slots=True)
class ArmCell:
    units: int
    """Tasks, or templates of `per_unit` tasks."""
    per_unit: int
    repeats: int
    """0: graded scores, the chances themselves."""
    mean: float
    spread: float

    def scores(self, runs: int) -> Array:
        """[run, task, repeat]"""
        generator = generator_of(astuple(self))
        rate = np.repeat(rates(self.mean, self.spread, (runs, self.units), generator), self.per_unit, axis=1)[:, :, None]
        if not self.repeats:
            return rate
        return (generator.random((*rate.shape[:2], self.repeats)) < rate).astype(np.float64)

    def found(self, runs: int) -> Found:
        scores = self.scores(runs)
        units = scores.reshape(runs, self.units, -1).mean(2)
        trials = scores[0].size if self.repeats else float("inf")
        ours = ends_of(units, trials)
        clusters = None if self.per_unit == 1 else [str(task // self.per_unit) for task in range(self.units * self.per_unit)]
        for one, low, high in list(zip(scores, *ours, strict=True))[:SAME]:
            told = accuracy_interval(list(one), clusters)
            assert np.allclose((told.low, told.high), (low, high), atol=1e-9), self
        return Found(share(ours, self.mean), (share(on_effective_number(units, trials), self.mean),))


def ends_of(units: Array, trials: float) -> Ends:
    """What `accuracy_interval` gives, for all runs at once."""
    n, value = units.shape[1], units.mean(1)
    rare = np.where(value[:, None] > 0.5, 1 - units, units)
    mean = (rare.sum(1) + 1) / (n + 1)
    effective = np.minimum(n * mean * (1 - mean) / (((rare**2).sum(1) + 1) / (n + 1) - mean**2), trials)
    solved, lost = value * effective, (1 - value) * effective
    low = np.where(solved > 1e-12, special.betaincinv(np.maximum(solved, 1e-12), lost + 1, 0.025), 0.0)
    high = np.where(lost > 1e-12, special.betaincinv(solved + 1, np.maximum(lost, 1e-12), 0.975), 1.0)
    return low, high


def on_effective_number(units: Array, trials: float) -> Ends:
    """Wilson's interval on p(1-p)/SE² units, at most the number of trials: what ours was."""
    n, mean, variance = units.shape[1], units.mean(1), units.var(1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(variance < 1e-15, n, np.minimum(n * mean * (1 - mean) / variance, trials))
    middle, scale = mean + Z**2 / (2 * effective), 1 + Z**2 / effective
    half = Z * np.sqrt(np.maximum(mean * (1 - mean), 0) / effective + (Z / (2 * effective)) ** 2)
    return (middle - half) / scale, (middle + half) / scale


MEANS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.995)
SPREADS = (0.05, 0.5, 2.0, 20.0, float("inf"))
SIZES = (10, 20, 30, 60, 120, 500)
ARMS: Mapping[str, tuple[ArmCell, ...]] = {
    **{f"{n} tasks × 1": tuple(ArmCell(n, 1, 1, mean, float("inf")) for mean in MEANS) for n in SIZES},
    **{f"{n} tasks × {k}": tuple(ArmCell(n, 1, k, *at) for at in product(MEANS, SPREADS)) for n, k in product(SIZES, (2, 3, 10))},
    **{f"{n} tasks, graded": tuple(ArmCell(n, 1, 0, *at) for at in product(MEANS, SPREADS[:-1])) for n in SIZES},
    **{
        f"{n} templates of {size} × {k}": tuple(ArmCell(n, size, k, *at) for at in product(MEANS, SPREADS))
        for n, (size, k) in product((5, 8, 12, 24, 45), ((3, 1), (5, 3), (10, 1)))
    },
}


def arms(runs: int) -> Iterator[str]:
    columns = ("one arm", "cells", "least coverage", "median coverage", "*Wilson: least coverage*")
    yield from head(*columns, "width beside Wilson's, median")
    for name, cells in ARMS.items():
        found = [one.found(runs) for one in cells]
        before = [one.others[0] for one in found]
        ratio = np.median([one.ours.width / old.width for one, old in zip(found, before, strict=True)])
        yield row(name, len(found), *coverage(found), f"{min(old.covered for old in before):.3f}", f"{ratio:.2f}")


# --- the page ---

TABLES: Mapping[str, tuple[Callable[[int], Iterator[str]], int]] = {
    "grid of one arm": (arms, 4_000),
    "grid of pairs": (pairs, 1_000),
}
"""Name → the table, and how many runs each of its cells has."""


def of_share(made: Callable[[int], Iterator[str]], runs: int, share: float) -> Iterator[str]:
    return made(round(share * runs))


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {name: partial(of_share, *table) for name, table in TABLES.items()})
