"""The intervals of scores on grids of many cells: how often they hold the truth, at what width; Markdown to stdout.

python benchmarks/interval_grid.py [--share S] [--only NAME …] [--write]

Pairs: losses spread evenly, of whole tasks and of whole clusters, 60 to 600 tasks, clusters of 1, 4 and 10, 1, 3 and 5 repeats. One
arm: accuracies of 0.5 to 0.995 (those below are their mirror image), single trials, repeats, graded scores and 5 to 45 templates.
--write renews the tables in docs/statistics.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pages import head, make_tables, row
from whichloop.metrics.bootstrap import sign_flip
from whichloop.metrics.paired import PairedFlip
from whichloop.metrics.statistics import accuracy_interval

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
SAME = 20
"""Runs of each cell whose interval is held against the library's own."""
Array = NDArray[np.float64]


def generator_of(*key: object) -> np.random.Generator:
    """The same in every process."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def rates(mean: float, spread: float, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Chances of success from a Beta distribution; a spread of infinity makes all alike."""
    return np.full(shape, mean) if np.isinf(spread) else generator.beta(mean * spread, (1 - mean) * spread, shape)


def is_covered(low: Array, high: Array, truth: float) -> float:
    return float(np.mean((low <= truth + 1e-9) & (high >= truth - 1e-9)))


# --- pairs ---

Kind = Literal["even", "tasks", "clusters"]
CHANCES: Mapping[str, tuple[float, float]] = {"flaky": (0.83, 7.0), "alike": (0.95, float("inf")), "always or never": (0.8, 0.05)}
"""Worlds, by mean and a + b of the Beta distribution of a cluster's chances of success."""


@dataclass(frozen=True, slots=True)
class PairCell:
    """A run against its baseline: a loss on average, spread evenly over tasks, or of whole tasks or clusters."""

    tasks: int
    per_cluster: int
    repeats: int
    world: str
    kind: Kind
    loss: float

    def differences(self, runs: int) -> Array:
        """[run, cluster], run minus baseline"""
        generator, (mean, spread) = generator_of(astuple(self)), CHANCES[self.world]
        shape, size = (runs, self.tasks // self.per_cluster), self.per_cluster
        before = rates(mean, spread, shape, generator).repeat(size, axis=1)
        share = self.loss / mean
        kept: Array | float = 1 - share
        if self.kind != "even":
            units = generator.random(shape if self.kind == "clusters" else before.shape) >= share
            kept = units.repeat(before.shape[1] // units.shape[1], axis=1).astype(np.float64)
        d = (generator.binomial(self.repeats, before * kept) - generator.binomial(self.repeats, before)) / self.repeats
        return np.asarray(d.reshape(*shape, size).mean(2))

    def found(self, runs: int) -> PairsFound:
        """How often the interval holds the loss, and how often a gate passes with a margin as large as the loss."""
        d = self.differences(runs)
        low, high = p_above(d, -self.loss), p_above(-d, self.loss)
        z = d.sum(1) / np.sqrt(np.maximum((d**2).sum(1), 1e-12))
        # Elsewhere the test of 0 changes nothing.
        for place in np.flatnonzero(((z > 1) & (low >= 0.025)) | ((z < -1) & (high < 0.025))):
            tails = sign_flip(d[place])
            low[place], high[place] = min(low[place], tails.greater), max(high[place], tails.less)
        for one, above, below in list(zip(d, low, high, strict=True))[:SAME]:
            told = PairedFlip(one)
            assert (told.p(-self.loss, "greater") < 0.05) == (above < 0.05), self
            assert (told.p(-self.loss, "less") < 0.025) == (below < 0.025), self
        return PairsFound(float(((low >= 0.025) & (high >= 0.025)).mean()), float((low < 0.05).mean()))


class PairsFound(NamedTuple):
    covered: float
    missed: float


def p_above(d: Array, bound: float) -> Array:
    """p of the null that the mean is at most `bound`, as of `PairedFlip`, before the test of 0: for all runs at once."""
    n, mean, square = d.shape[1], d.mean(1), (d**2).sum(1)
    size = ((d**4).sum(1) + 1) / (square + 1)
    center, skew = d.sum(1) / (n + 2), np.minimum(((d**3).sum(1) - 1) / (square + 2), 0)
    error = np.sqrt(((square + 2 * size) / (n + 2) - center**2) / (n + 2))
    p = special.ndtr((bound - center - skew / (n + 2)) / error)
    if bound >= 0:
        return np.asarray(p)
    lost = np.maximum(-mean * n, 0)
    few = np.where(
        mean >= 0, np.maximum(1 + bound - mean, 0) ** n, special.betainc(np.maximum(n - lost, 1e-12), lost + 1, 1 + bound)
    )
    return np.asarray(np.maximum(p, few), dtype=np.float64)


KINDS: tuple[Kind, ...] = ("even", "tasks", "clusters")
PAIR_TASKS, CLUSTERS, REPEATS, LOSSES = (60, 120, 200, 300, 600), (1, 4, 10), (1, 3, 5), (0.02, 0.05)


def pairs(runs: int) -> Iterator[str]:
    yield from head("tasks to a cluster", *(f"{kind}: {what}" for kind in KINDS for what in ("least coverage", "most misses")))
    for size in CLUSTERS:
        cells: list[str] = []
        for kind in KINDS:
            at = product(PAIR_TASKS, REPEATS, CHANCES, LOSSES) if kind != "clusters" or size > 1 else ()
            found = [PairCell(tasks, size, repeats, world, kind, loss).found(runs) for tasks, repeats, world, loss in at]
            cells += [f"{min(one.covered for one in found):.3f}", f"{max(one.missed for one in found):.3f}"] if found else ["–"] * 2
        yield row(size, *cells)


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

    def covered(self, runs: int) -> float:
        scores = self.scores(runs)
        units = scores.reshape(runs, self.units, -1).mean(2)
        trials = scores[0].size if self.repeats else float("inf")
        ours = ends_of(units, trials)
        clusters = None if self.per_unit == 1 else [str(task // self.per_unit) for task in range(self.units * self.per_unit)]
        for one, low, high in list(zip(scores, *ours, strict=True))[:SAME]:
            told = accuracy_interval(list(one), clusters)
            assert np.allclose((told.low, told.high), (low, high), atol=1e-9), self
        return is_covered(*ours, self.mean)


def ends_of(units: Array, trials: float) -> tuple[Array, Array]:
    """What `accuracy_interval` gives, for all runs at once."""
    n, value = units.shape[1], units.mean(1)
    rare = np.where(value[:, None] > 0.5, 1 - units, units)
    mean = (rare.sum(1) + 1) / (n + 1)
    effective = np.minimum(n * mean * (1 - mean) / (((rare**2).sum(1) + 1) / (n + 1) - mean**2), trials)
    solved, lost = value * effective, (1 - value) * effective
    low = np.where(solved > 1e-12, special.betaincinv(np.maximum(solved, 1e-12), lost + 1, 0.025), 0.0)
    high = np.where(lost > 1e-12, special.betaincinv(solved + 1, np.maximum(lost, 1e-12), 0.975), 1.0)
    return low, high


MEANS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.995)
SPREADS = (0.05, 0.5, 2.0, 20.0, float("inf"))
SIZES = (10, 20, 30, 60, 120, 500)
ARMS: Mapping[str, tuple[ArmCell, ...]] = {
    "10 to 500 tasks × 1": tuple(ArmCell(n, 1, 1, mean, float("inf")) for n in SIZES for mean in MEANS),
    "10 to 500 tasks × 2, 3, 10": tuple(ArmCell(n, 1, k, *at) for n, k, *at in product(SIZES, (2, 3, 10), MEANS, SPREADS)),
    "10 to 500 tasks, graded": tuple(ArmCell(n, 1, 0, *at) for n, *at in product(SIZES, MEANS, SPREADS[:-1])),
    "5 to 45 templates": tuple(
        ArmCell(n, size, k, *at) for n, (size, k), *at in product((5, 8, 12, 24, 45), ((3, 1), (5, 3), (10, 1)), MEANS, SPREADS)
    ),
}
"""Row of the table → its cells."""


def arms(runs: int) -> Iterator[str]:
    yield from head("one arm", "cells", "least coverage")
    for name, cells in ARMS.items():
        yield row(name, len(cells), f"{min(cell.covered(runs) for cell in cells):.3f}")


# --- the page ---

TABLES: Mapping[str, tuple[Callable[[int], Iterator[str]], int]] = {
    "grid of one arm": (arms, 4_000),
    "grid of losses": (pairs, 10_000),
}
"""Name → the table, and how many runs each of its cells has."""


def of_share(made: Callable[[int], Iterator[str]], runs: int, share: float) -> Iterator[str]:
    return made(round(share * runs))


if __name__ == "__main__":
    make_tables(__doc__, PAGE, {name: partial(of_share, *table) for name, table in TABLES.items()})
