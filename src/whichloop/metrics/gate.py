"""The gate's decision: is a new run worse than a baseline? Per arm and metric one line, with its result and the reason for it.

An effect is paired per task: of a share, such as accuracy, the difference run - baseline, of any other metric the ratio of what all
tasks together took, since that is what is paid. The first of these that holds is the reason:

1. `identical`, pass: every trial's outcome is that of the baseline.
2. `within_margin`, pass: the one-sided bound toward worse lies within the margin.
3. `unchanged`, pass: every trial has the value that it had.
4. `worse`, regression: the sign-flip test, adjusted over all lines (Holm), shows the run worse.
5. `tasks_gained`, pass: some trials have a higher score than they had, and none a lower one. Another metric of such an arm passes
   where its change lies within the margin on these tasks.
6. `tasks_lost`, regression: some trials have a lower score than they had, and none a higher one.
7. `undecided`: none of these.

Rules 3, 5 and 6 are for one seed and a model without chance alone. They and `identical` say of the tasks that were run what is
known of them without a test, and nothing of others.

All lines must pass for all to pass (intersection-union test, Berger 1982, which needs no adjustment): so a false alarm of the whole
gate is no more frequent than alpha, and neither is a pass that hides a worsening beyond a margin. Both rates are over draws of the
baseline and of the run; given one baseline they depend on how lucky it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from whichloop.protocol.names import nearest

from .outlook import gate_outlook
from .paired import PairedFlip, holm_steps
from .power import Levels, Spread, spread
from .statistics import ALPHA
from .summary import GAINS, METRICS, PRIMARY, SHARES, TaskValues
from .sums import PairedSums

Outcome = Literal["pass", "regression", "undecided", "invalid"]
WORST_FIRST: tuple[Outcome, ...] = ("invalid", "regression", "undecided", "pass")
LineReason = Literal["identical", "within_margin", "unchanged", "worse", "tasks_gained", "tasks_lost", "undecided"]

MARGIN = 0.02
"""A share, such as accuracy, may fall by so much, or one that is a harm rise: 2 points."""
MORE = 0.10
"""Any other metric may grow by so much: 10 %."""
ROUNDING = 1e-9
"""By which a mean of floats may lie beside a margin that it makes exactly."""
MAX_MORE = 10.0
"""Larger margins of such a metric are taken for a mistake: percents, or an amount."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """An estimate between its two one-sided bounds; they are infinite, or 0 of a ratio, where too few tasks are known."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float | None]:
        """Return plain JSON, with None for what is infinite, and 0.0 where it is -0.0."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return {name: number + 0.0 if math.isfinite(number) else None for name, number in numbers.items()}


@dataclass(frozen=True, slots=True)
class Held:
    """What is to be judged: one metric of one arm, in the baseline and in the run."""

    arm: str
    metric: str
    baseline: TaskValues
    run: TaskValues
    margin: float
    """For a share, such as accuracy, in points from 0 to 1, for any other metric the share that it may grow by; never negative."""
    identical: bool = False
    """Every trial of the arm gave what it gave in the baseline."""
    unchanged: bool = False
    """Seed and model leave nothing to chance, and every trial has the value that it had in the baseline."""
    gained: bool = False
    """Seed and model leave nothing to chance, some trials of the arm score higher, and none scores lower or has no score; of
    another share than accuracy, none has a worse value either.
    """
    lost: bool = False
    """Seed and model leave nothing to chance, every trial of the arm has a score, some score lower, and none scores higher."""
    grows: bool = False
    """A larger run with the baseline's seed repeats these trials and adds others, since nothing in them is left to chance."""


@dataclass(frozen=True, slots=True)
class GateLine:
    """One metric of one arm, judged over the tasks that are known on both sides."""

    arm: str
    metric: str
    baseline: float
    """Mean over tasks."""
    run: float
    effect: Bounds
    """For a share run - baseline; for any other metric run / baseline, of the sums over tasks."""
    margin: float
    tasks: int
    units: int
    """Clusters of tasks where templates are shared, else tasks."""
    p_worse: float
    """The p of the null that it is not worse at all."""
    p_holm: float
    """The same, adjusted over all lines."""
    p_beyond: float
    """The p of the null that it is worse by the margin or more."""
    result: Outcome = "undecided"
    reason: LineReason = "undecided"
    tasks_to_decide: int | None = None
    """How many tasks are likely to decide it; None where it is decided, or too many would be needed."""

    @property
    def is_ratio(self) -> bool:
        """Whether effect and margin are ratios."""
        return self.metric not in SHARES

    @property
    def is_within(self) -> bool:
        """Whether the change itself, if not its bound, is a loss of no more than the margin."""
        change = self.effect.value - 1 if self.is_ratio else self.effect.value
        return (-change if self.metric in GAINS else change) <= self.margin + ROUNDING

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        told = {name: getattr(self, name) for name in ("arm", "metric", "result", "reason")}
        sides = {"was": self.baseline, "is": self.run, "effect": self.effect.to_json(), "ratio": self.is_ratio}
        numbers = ("margin", "tasks", "units", "p_worse", "p_holm", "p_beyond", "tasks_to_decide")
        return told | sides | {name: getattr(self, name) for name in numbers}


def judge_lines(held: Sequence[Held], alpha: float = ALPHA) -> tuple[GateLine, ...]:
    """Decide all lines together, and say of the undecided ones how many tasks are likely to.

    Raises ValueError for a bad level or margin, an unknown metric, or no task in common.
    """
    return tuple(
        replace(line, tasks_to_decide=_tasks_to_decide(item, alpha, len(held))) if line.reason == "undecided" else line
        for item, line in zip(held, decide(held, alpha), strict=True)
    )


def decide(held: Sequence[Held], alpha: float = ALPHA) -> tuple[GateLine, ...]:
    """Decide all lines together, as `judge_lines` does, and say nothing of more tasks.

    Of each, the bound toward worse is at alpha, and the other at the level that the family leaves.
    """
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha: a level above 0 and below 0.5 is needed, got {alpha!r}")
    changes = [_change(item) for item in held]
    lines = []
    steps = holm_steps([p_worse for _, _, p_worse, _ in changes], alpha)
    for item, (means, pair, p_worse, p_beyond), step in zip(held, changes, steps, strict=True):
        (low, high), (other_low, other_high) = pair.bounds(alpha), pair.bounds(step.level)
        line = GateLine(
            arm=item.arm,
            metric=item.metric,
            baseline=means[0],
            run=means[1],
            effect=Bounds(pair.value, low, other_high) if item.metric in GAINS else Bounds(pair.value, other_low, high),
            margin=item.margin,
            tasks=pair.tasks,
            units=pair.units,
            p_worse=p_worse,
            p_holm=step.p_holm,
            p_beyond=p_beyond,
        )
        result, reason = _decided(item, line, alpha)
        lines.append(replace(line, result=result, reason=reason))
    return tuple(lines)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the gravest of these outcomes; undecided where there is none."""
    found = set(outcomes) or {"undecided"}
    return next(outcome for outcome in WORST_FIRST if outcome in found)


def _decided(held: Held, line: GateLine, alpha: float) -> tuple[Outcome, LineReason]:
    """Return the result of a line, and the first reason that holds."""
    is_primary = held.metric == PRIMARY
    reasons: tuple[tuple[bool, Outcome, LineReason], ...] = (
        (held.identical, "pass", "identical"),
        (line.p_beyond < alpha, "pass", "within_margin"),
        (held.unchanged, "pass", "unchanged"),
        (line.p_holm < alpha, "regression", "worse"),
        (held.gained and (is_primary or line.is_within), "pass", "tasks_gained"),
        (held.lost and is_primary, "regression", "tasks_lost"),
    )
    return next(((result, reason) for holds, result, reason in reasons if holds), ("undecided", "undecided"))


def check_margin(metric: str, margin: float) -> None:
    """Raise ValueError for an unknown metric, or a margin that is negative, no number, or more than all of a score."""
    if metric not in METRICS:
        raise ValueError(f"unknown metric {metric!r}; {nearest(metric, METRICS)}")
    if not 0 <= margin < (1 if metric in SHARES else math.inf):
        below = ", below 1" if metric in SHARES else ""
        raise ValueError(f"metric {metric}: a margin of 0 or more is needed{below}, got {margin!r}")
    if margin > MAX_MORE and metric not in SHARES:
        grown = f"{margin:g} would let it grow to ×{1 + margin:g}"
        raise ValueError(f"metric {metric}: a margin is a share, such as 0.1 for 10 %; {grown}")


def _change(held: Held) -> tuple[tuple[float, float], PairedFlip | PairedSums, float, float]:
    """Pair the run with the baseline, task by task: the means, the effect, and its p of the nulls: not worse, beyond the margin.

    Raises ValueError for a bad margin, or no task in common.
    """
    check_margin(held.metric, held.margin)
    tasks = _tasks(held)
    before, after = (np.array([side.means[task] for task in tasks]) for side in (held.baseline, held.run))
    means, clusters = (float(before.mean()), float(after.mean())), [held.run.clusters[task] for task in tasks]
    if held.metric in SHARES:
        pair = PairedFlip(after - before, clusters)
        if held.metric in GAINS:
            return means, pair, pair.p(0.0, "less"), pair.p(-held.margin, "greater")
        return means, pair, pair.p(0.0, "greater"), pair.p(held.margin, "less")
    sums = PairedSums(after, before, clusters)
    return means, sums, sums.p(1.0, "greater"), sums.p(1 + held.margin, "less")


def _tasks(held: Held) -> list[str]:
    """Return the tasks of which the metric is known both in the run and in the baseline."""
    tasks = [task for task in held.run.values if task in held.baseline.values]
    if not tasks:
        raise ValueError(f"{held.arm}: no task whose {held.metric} is known on both sides")
    return tasks


def _tasks_to_decide(held: Held, alpha: float, lines: int) -> int | None:
    """Return the number of tasks that is likely to decide a line; the spread is turned so that above 0 is better."""
    if held.metric in SHARES:
        varies = spread(held.run, held.baseline) if held.metric in GAINS else spread(held.baseline, held.run)
    else:
        varies = _spread_of_sums(held)
    margin = held.margin if held.metric in SHARES else math.log1p(held.margin)
    levels = Levels(alpha / lines, alpha)
    outlook = None if varies is None else gate_outlook(varies, margin=margin, levels=levels, grows=held.grows)
    return None if outlook is None else outlook.more.tasks


def _spread_of_sums(held: Held) -> Spread | None:
    """Return how -log(Σrun/Σbaseline) varies: by the amounts' shares of their mean (delta method). None where a side took
    nothing."""
    tasks = _tasks(held)
    means = [math.fsum(side.means[task] for task in tasks) / len(tasks) for side in (held.run, held.baseline)]
    if not all(means):
        return None
    run, baseline = (
        TaskValues({task: [-value / mean for value in side.values[task]] for task in tasks}, side.clusters)
        for side, mean in zip((held.run, held.baseline), means, strict=True)
    )
    log_spread = spread(run, baseline, scores=False)
    return None if log_spread is None else replace(log_spread, difference=math.log(means[1] / means[0]))
