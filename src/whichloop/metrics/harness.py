"""How much of accuracy is the loop, how much the model: loops × models (or fault profiles as stand-ins) × tasks, crossed.

The scores' task means y[loop, model, task] are split into sums of squares, exactly: they add up to that of all scores. Loops and
models are those that were run, tasks a sample. So the part of the loops is the variance of their mean accuracies,
Σ(mean of loop - mean)² / (loops - 1), less what the sample of tasks adds to it, (MS_loop - MS_loop×task) / (models · tasks), and
alike for models and for loop × model. The parts that vary from task to task are less by the variance of chance where repeats tell
it, else by that of loop × model × task (Cornfield & Tukey 1956, "Average Values of Mean Squares in Factorials"; Searle, Casella &
McCulloch 1992, "Variance Components", §4). An estimate may be negative, and then counts as 0.

Intervals of the parts of loops, models and loop × model invert a test, since a sum of squares is never without noise: a deviation
is in the interval if a move as large, in the direction that was found and with the noise that a bootstrap over units shows, comes
out as large as what was found in neither too few nor too many draws. (Where the noise is the same in all directions, that is the
interval of the noncentral F: Steiger 2004, "Beyond the F Test", Psychological Methods 9.) The interval of a difference of two
deviations is made of theirs (MOVER: Zou & Donner 2008, Statistics in Medicine 27); those of parts that vary from task to task are
BCa bootstraps. Where such a part is estimated as 0 in nearly all draws, its interval would have no width, and none is given.

A ranking reverses where, of two loops, one is more accurate under one model and the other under another: a share of all pairs of
loops and pairs of models. Loops that are alike reverse half of the time, by chance. The share has no interval: it jumps where two
loops are equal, so that percentiles of a bootstrap miss the truth the more often, the closer loops are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import scipy

from .arm_info import ArmInfo
from .bootstrap import bca, draw_sums, expanded, unit_sums
from .record import Record, records_by_arm
from .statistics import ALPHA, NO_SPREAD, Clusters, Floats, Interval, Plain, independent_difference
from .summary import METRICS, PRIMARY, task_values

DRAWS = 1_999
MIN_TASKS = 3
"""Fewer say nothing of how tasks differ."""
Kind = Literal["model", "fault profile"]
"""What stands beside loops."""
SOURCES = ("loop", "model", "task", "loop × model", "loop × task", "model × task", "loop × model × task", "chance")
"""What accuracy varies by; `chance` is that of repeats, and without any stands within `loop × model × task`."""
FIXED = ("loop", "model", "loop × model")
"""Those that do not vary from task to task."""
NO_WIDTH = 0.0005
"""An interval from 0 to less than this would be printed as `[0.000, 0.000]`."""


@dataclass(frozen=True, slots=True)
class SourcePart:
    """What one source moves accuracy by."""

    source: str
    deviation: Interval
    """Standard deviation of accuracy, in points from 0 to 1."""
    share: float
    """Of the variance of all sources."""

    @property
    def has_interval(self) -> bool:
        """False where a negative estimate counts as 0 and so do those of nearly all draws: no width would be claimed too much."""
        return self.deviation.high >= NO_WIDTH

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; the ends are None where there is no interval."""
        ends = {} if self.has_interval else {"low": None, "high": None}
        return {"source": self.source, "deviation": self.deviation.as_dict() | ends, "share": self.share}


@dataclass(frozen=True, slots=True)
class Harness(Plain):
    """How much is the harness, on one suite."""

    suite: str
    loops: tuple[str, ...]
    conditions: tuple[str, ...]
    """Models, or fault profiles."""
    kind: Kind
    """`model`, or `fault profile` where those stand in for models."""
    tasks: int
    parts: tuple[SourcePart, ...]
    difference: Interval
    """Deviation by loop minus deviation by model."""
    loops_reverse: float
    """Share of the pairs of loops and pairs of models in which the loops' order reverses."""
    conditions_reverse: float
    """The same of pairs of models under another loop."""


def harness(records: Sequence[Record], arms: Sequence[ArmInfo], alpha: float = ALPHA) -> tuple[Harness, ...]:
    """Return what is loop and what is model, for each suite on which at least two loops met at least two models, all crossed.

    Only tasks that are scored in every arm count; loops that did not meet every model are left out.
    """
    by_arm = records_by_arm(records, arms)
    suites = dict.fromkeys(info.suite for info in arms)
    of_suites = [_of_suite([info for info in arms if info.suite == suite], by_arm, alpha) for suite in suites]
    return tuple(of_suite for of_suite in of_suites if of_suite is not None)


def _of_suite(arms: Sequence[ArmInfo], by_arm: Mapping[str, Sequence[Record]], alpha: float) -> Harness | None:
    kind, cells = _crossed(arms)
    conditions = tuple(dict.fromkeys(condition for row in cells.values() for condition in row))
    crossed = {loop: row for loop, row in cells.items() if len(row) == len(conditions)}
    if len(crossed) < 2 or len(conditions) < 2:
        return None
    values = [[task_values(by_arm[row[condition]], METRICS[PRIMARY]) for condition in conditions] for row in crossed.values()]
    flat = [cell for row in values for cell in row]
    tasks = [task for task in flat[0].values if all(task in cell.values for cell in flat)]
    if len(tasks) < MIN_TASKS:
        return None
    means = np.array([[[cell.means[task] for task in tasks] for cell in row] for row in values])
    repeats = [[cell.values[task] for cell in flat] for task in tasks]
    chance: Floats | None = None  # the variance that it gives a task mean, over cells; not known where a cell ran once
    if all(len(trials) > 1 for of_task in repeats for trials in of_task):
        chance = np.array([np.mean([np.var(trials, ddof=1) / len(trials) for trials in of_task]) for of_task in repeats])
    clusters = [flat[0].clusters[task] for task in tasks]
    found = Crossed(means, chance, clusters)
    return Harness(
        suite=arms[0].suite,
        loops=tuple(crossed),
        conditions=conditions,
        kind=kind,
        tasks=len(tasks),
        parts=found.parts(alpha),
        difference=found.difference(alpha),
        loops_reverse=reversals(found.cells),
        conditions_reverse=reversals(found.cells.T),
    )


def _crossed(arms: Sequence[ArmInfo]) -> tuple[Kind, dict[str, dict[str, str]]]:
    """Return what stands beside the loops, and loop → condition → arm.

    That is the model where there are several, else the fault profile. Where there is one of each, as in a table of another tool,
    what stands behind the last `/` of the arms' names is the model.
    """
    kind: Kind = "fault profile" if len({info.model for info in arms}) == 1 < len({info.profile for info in arms}) else "model"
    named = len({(info.model, info.profile) for info in arms}) == 1
    cells: dict[str, dict[str, str]] = {}
    for info in arms:
        loop, _, condition = info.arm.rpartition("/")
        if not named:
            condition = info.model if kind == "model" else info.profile
            loop = info.arm.removesuffix(f"/{condition}")
        cells.setdefault(loop, {})[condition] = info.arm
    return kind, cells


def reversals(cells: Floats) -> float:
    """Return the share of pairs of loops and pairs of models in which the loops' order reverses, from `cells[loop, model]`."""
    (a, b), (m, o) = (np.triu_indices(size, 1) for size in cells.shape)
    apart = cells[a] - cells[b]
    return float(np.mean(apart[:, m] * apart[:, o] < 0))


class Crossed:
    """Task means of loops × models × tasks, `means[loop, model, task]`, and what their variance is made of."""

    def __init__(self, means: Floats, chance: Floats | None = None, clusters: Clusters = None) -> None:
        """`chance`: for each task the variance that chance gives a task mean; None: not known."""
        loops, models, self.tasks = means.shape
        self._has_chance = chance is not None
        self._size = {"loop": models, "model": loops, "loop × model": 1}
        """Cells that one move of such a source is a mean over."""
        self._degrees = {"loop": loops - 1, "model": models - 1, "task": 1, "loop × model": (loops - 1) * (models - 1)}
        task = means.mean((0, 1))
        moves = {"loop": means.mean(1) - task, "model": means.mean(0) - task}
        both = means - task - moves["loop"][:, None] - moves["model"][None]
        moves["loop × model"] = both.reshape(-1, self.tasks)
        rows = {"n": np.ones(self.tasks), "task": task, "task²": task**2, "chance": 0 * task if chance is None else chance}
        rows |= {f"{source}²": (each**2).sum(0) for source, each in moves.items()}
        columns = {name: row[None] for name, row in rows.items()} | moves
        self._names, self._ends = list(columns), np.cumsum([len(each) for each in columns.values()])[:-1]
        self._sums = unit_sums(np.concatenate(list(columns.values())).T, clusters)
        self._whole = self._sums.sum(0)[None]
        self.cells = np.round(means.mean(2), 9)
        """Mean accuracy of each loop with each model; rounded, so that equal ones are equal."""

    @cached_property
    def _drawn(self) -> Floats:
        """The columns' sums in each draw of units."""
        return draw_sums(self._sums, DRAWS)

    def _parts(self, totals: Floats) -> dict[str, Floats]:
        """Return the columns of sums by their names, `[draw, which]`; `n`, `task`, `chance` and squares have one each."""
        return dict(zip(self._names, np.split(totals, self._ends, axis=1), strict=True))

    def _moves(self, totals: Floats, source: str) -> Floats:
        """Return how far loops, models, or loop × model move the mean, `[draw, which]`."""
        parts = self._parts(totals)
        return parts[source] / parts["n"]

    def sums_of_squares(self, totals: Floats | None = None) -> dict[str, Floats]:
        """Return source → sum of squares in each draw, `totals[draw, column]`; None: of all tasks. They add up to the whole."""
        parts = self._parts(self._whole if totals is None else totals)
        n, task, square = (parts[name][:, 0] for name in ("n", "task", "task²"))
        sums = {"task": self._size["loop"] * self._size["model"] * (square - task**2 / n)}
        for source, size in self._size.items():
            fixed = (parts[source] ** 2).sum(1) / n
            sums |= {source: size * fixed, f"{source} × task": size * (parts[f"{source}²"][:, 0] - fixed)}
        return sums

    def variances(self, totals: Floats | None = None) -> dict[str, Floats]:
        """Return source → estimate of its variance, which may be negative."""
        totals = self._whole if totals is None else totals
        parts = self._parts(totals)
        n = np.maximum(parts["n"][:, 0], 2.0)  # one task alone has no variance
        mean = {
            source: squares / (self._degrees[source.removesuffix(" × task")] * (n - 1 if "task" in source else 1))
            for source, squares in self.sums_of_squares(totals).items()
        }
        of_all = mean["loop × model × task"]
        chance = parts["chance"][:, 0] / n
        rest = chance if self._has_chance else of_all
        found = {"task": (mean["task"] - rest) / (self._size["loop"] * self._size["model"])}
        for source, size in self._size.items():
            found[source] = (mean[source] - mean[f"{source} × task"]) / (size * n)
            found[f"{source} × task"] = (mean[f"{source} × task"] - rest) / size
        return found | {"loop × model × task": of_all - chance} | ({"chance": chance} if self._has_chance else {})

    def parts(self, alpha: float = ALPHA) -> tuple[SourcePart, ...]:
        """Return what each source moves accuracy by; `chance` of a task mean of so many repeats."""
        values = {source: max(0.0, float(value[0])) for source, value in self.variances().items()}
        whole = sum(values[source] for source in SOURCES if source in values) or 1.0
        return tuple(
            SourcePart(source, self._interval(source, alpha), values[source] / whole) for source in SOURCES if source in values
        )

    def _deviation(self, source: str, totals: Floats) -> Floats:
        """Return the square root of a source's variance; 0 of a negative estimate."""
        return np.sqrt(np.maximum(self.variances(totals)[source], 0.0))

    def _interval(self, source: str, alpha: float) -> Interval:
        """Return a source's deviation, of what was chosen (loops, models or both) with the interval that inverts a test."""
        value, units = float(self._deviation(source, self._whole)[0]), len(self._sums)
        low, high = value, value
        if units > 1 and source in FIXED:
            low, high = self._inverted(source, alpha)
        elif units > 1:
            low, high = bca(partial(self._deviation, source), self._sums, expanded(alpha, units), draws=DRAWS)
        return Interval(value, min(low, value), max(high, value), self.tasks)

    def _inverted(self, source: str, alpha: float) -> tuple[float, float]:
        units, estimate = len(self._sums), self._moves(self._whole, source)[0]
        # the spread of n units is short by (n-1)/n, and its own error makes the tails Student's
        wider = (
            math.sqrt(units / (units - 1)) * scipy.special.stdtrit(units - 1, 1 - alpha / 2) / scipy.special.ndtri(1 - alpha / 2)
        )
        noise = (self._moves(self._drawn, source) - estimate) * wider
        size = float(np.linalg.norm(estimate))
        along = noise @ (estimate / size) if size > NO_SPREAD else noise[:, 0]
        squares = (noise**2).sum(1)
        # What was found may be smaller than noise alone gives, whatever moved: then that nothing moved fits best.
        room = along**2 - squares + max(size**2, float(np.median(squares)))
        moved = np.where(room < 0, 0.0, np.maximum(0.0, np.sqrt(np.maximum(room, 0.0)) - along))  # |moved + noise| = size
        low, high = np.quantile(moved, (alpha / 2, 1 - alpha / 2)) / math.sqrt(self._degrees[source])
        return float(low), float(high)

    def difference(self, alpha: float = ALPHA) -> Interval:
        """Return the deviation by loop minus that by model.

        Where one of the two may be 0, the least that it can be, its estimate lies above the truth rather than round it. That end is
        made of the ends of the two intervals then, since MOVER's would hold the truth too seldom.
        """
        loop, model = (self._interval(source, alpha) for source in ("loop", "model"))
        interval = independent_difference(loop, model)
        low = loop.low - model.high if loop.low == 0 else interval.low
        high = loop.high - model.low if model.low == 0 else interval.high
        return Interval(interval.value, low, high, self.tasks)
