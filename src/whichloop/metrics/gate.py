"""The gate's decision: is a new run worse than a baseline? Per arm and metric one line, one outcome over all of them.

An effect is paired per task: of a share, such as accuracy, the difference run - baseline, of any other metric the ratio of what all
tasks together took, since that is what is paid. The outcome of a line is the first of these that holds:

1. `identical`: every trial's outcome is that of the baseline.
2. `pass`: the one-sided bound toward worse lies within the margin.
3. `unchanged`: every trial has the value that it had.
4. `regression`: the sign-flip test, adjusted over all lines (Holm), shows the run worse, so that the other bound lies beyond no
   change.
5. `better here`: some trials have a higher score than they had, and none a lower one.
6. `worse here`: some trials have a lower score than they had, and none a higher one.
7. `within here`: of another metric of an arm that is better here, the change lies within the margin.
8. `undecided`: none of these.

`unchanged` and the outcomes that end in `here` are for one seed and a model without chance alone. They and `identical` say of the
tasks that were run what is known of them without a test, and nothing of others.

All lines must pass for all to pass (intersection-union test, Berger 1982, which needs no adjustment): so a false alarm of the whole
gate is no more frequent than alpha, and neither is a pass that hides a worsening beyond a margin. Both rates are over draws of the
baseline and of the run; given one baseline they depend on how lucky it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from whichloop.protocol.names import nearest

from .outlook import MoreRepeats, Outlook, gate_outlook, gate_repeats
from .paired import HolmStep, PairedFlip, holm_steps
from .power import Levels, Spread, spread
from .statistics import ALPHA, log_ratios
from .summary import GAINS, METRICS, PRIMARY, SHARES, TaskValues
from .sums import MAX_LOG, PairedSums

LineOutcome = Literal["identical", "pass", "unchanged", "better here", "within here", "worse here", "regression", "undecided"]

RunOutcome = Literal["identical", "pass", "unchanged", "better here", "worse here", "regression", "undecided"]

MARGIN = 0.02
"""A share, such as accuracy, may fall by so much, or one that is a harm rise: 2 points."""
MORE = 0.10
"""Any other metric may grow by so much: 10 %."""
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
    cost_usd: float | None = None
    """US dollars of one trial of the run; None if no price is known."""
    unchanged: bool = False
    """Seed and model leave nothing to chance, and every trial has the value that it had in the baseline; of accuracy, none has a
    graver stop.
    """
    gained: bool = False
    """Seed and model leave nothing to chance, some trials of the arm score higher, and none scores lower, ends more gravely or has
    no score; of another share than accuracy, none has a worse value either.
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
    outcome: LineOutcome
    worse: bool
    """Shown to be worse, be it within the margin."""
    outlook: Outlook | None = None
    """What more tasks are likely to decide; None where it is decided, or too many would be needed."""
    more_repeats: MoreRepeats | None = None
    """What more repeats of the same tasks do; None where it is decided, or too few tasks are known."""
    typical: float | None = None
    """How many times as much a typical task takes: the geometric mean over tasks of run / baseline. None for a share."""
    better: bool = False
    """Shown to be better: the bound toward worse, at alpha over all lines together (Bonferroni), lies beyond no change."""
    lost: bool = False
    """Of accuracy: where nothing but the change of the loop can be the cause, trials score lower here, and none scores higher."""

    @property
    def is_ratio(self) -> bool:
        """Whether effect and margin are ratios."""
        return self.metric not in SHARES

    @property
    def may_rise(self) -> bool:
        """Whether the margin is how much the metric may rise by, not fall."""
        return self.metric not in GAINS

    @property
    def is_within(self) -> bool:
        """Whether the change itself, if not its bound, is a loss of less than the margin."""
        if self.is_ratio:
            return self.effect.value < 1 + self.margin
        return self.effect.value < self.margin if self.may_rise else self.effect.value > -self.margin

    @property
    def loss_in_margins(self) -> float:
        """By how many of its own margins the metric got worse: 1 at its margin, 10 where tokens double under a margin of 10 %.

        Points of a share and times of a sum have no other unit in common: a margin is the change that does not matter to whoever
        set it. It is infinite for a loss under a margin of 0, and 0 where nothing got worse.
        """
        change = self.effect.value - 1 if self.is_ratio else self.effect.value if self.may_rise else -self.effect.value
        loss = max(0.0, change)
        return loss / self.margin if self.margin else math.inf if loss else 0.0

    @property
    def weight(self) -> tuple[bool, bool, float]:
        """What sorts lines of one outcome, the weightiest first: those whose loss lies beyond the margin, and among these accuracy,
        since it is what the loop is for, and then the metric that is farthest past its margin; the others in the same order."""
        return self.is_within, self.metric != PRIMARY, -self.loss_in_margins

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "metric": self.metric,
            "outcome": self.outcome,
            "baseline": self.baseline,
            "run": self.run,
            "effect": self.effect.to_json(),
            "typical": self.typical,
            "ratio": self.is_ratio,
            "margin": self.margin,
            "tasks": self.tasks,
            "units": self.units,
            "p_worse": self.p_worse,
            "p_holm": self.p_holm,
            "p_beyond": self.p_beyond,
            "worse": self.worse,
            "better": self.better,
            "lost": self.lost,
            "outlook": None if self.outlook is None else self.outlook.to_json(),
            "more_repeats": None if self.more_repeats is None else self.more_repeats.to_json(),
        }


def judge_lines(held: Sequence[Held], alpha: float = ALPHA) -> tuple[GateLine, ...]:
    """Decide all lines together, and say of the undecided ones what more tasks are likely to.

    Raises ValueError for a bad level or margin, an unknown metric, or no task in common.
    """
    return tuple(
        _with_outlook(line, item, alpha, len(held)) if line.outcome in OPEN else line
        for item, line in zip(held, decide(held, alpha), strict=True)
    )


def decide(held: Sequence[Held], alpha: float = ALPHA) -> tuple[GateLine, ...]:
    """Decide all lines together, as `judge_lines` does, and say nothing of what more tasks are likely to decide."""
    check_level(alpha)
    changes = [_change(item) for item in held]
    adjusted = holm_steps([change.p_worse for change in changes], alpha)
    lines = [_line(item, change, step, alpha) for item, change, step in zip(held, changes, adjusted, strict=True)]
    return tuple(
        replace(line, better=_better(line, change, alpha / len(held))) for line, change in zip(lines, changes, strict=True)
    )


def overall(lines: Sequence[GateLine]) -> RunOutcome:
    """Return the outcome of all lines together: a regression if any line is one, else a loss here, else undecided if a line is, or
    if there is no line.

    A line that is `within here` stands beside a score that got better, so that the whole is `better here`. It is `unchanged` only
    where accuracy is, and not where another metric alone stayed in every trial: that passes.
    """
    outcomes = {line.outcome for line in lines} or {"undecided"}
    gravest = next(outcome for outcome in GRAVEST_FIRST if outcome in outcomes)
    of_accuracy = {line.outcome for line in lines if line.metric == PRIMARY}
    if gravest == "unchanged" and "unchanged" not in of_accuracy and "pass" in of_accuracy:
        return "pass"
    return "better here" if gravest == "within here" else gravest


OPEN: tuple[LineOutcome, ...] = ("worse here", "undecided")
"""Outcomes that say nothing of what more tasks would show."""
GRAVEST_FIRST: tuple[LineOutcome, ...] = (
    "regression",
    "worse here",
    "undecided",
    "better here",
    "within here",
    "unchanged",
    "pass",
    "identical",
)
"""What says least stands before what says more: an unchanged line claims nothing of other tasks, and one that passes does."""


def agreeing_tasks(margin: float, alpha: float = ALPHA) -> int:
    """Return how many tasks a score needs to pass where all of them agree: with fewer, (1 - margin)^n >= alpha.

    `margin`: in points, from 0 to 1, 1 excluded. Raises ValueError for one at which no number of tasks is enough.
    """
    check_level(alpha)
    if not 0 < margin < 1:
        raise ValueError(f"margin: a number above 0 and below 1 is needed, got {margin!r}")
    return math.floor(math.log(alpha) / math.log1p(-margin)) + 1


def _outcome(held: Held, line: GateLine, within: bool) -> LineOutcome:
    """Return the first outcome that holds. `within`: the bound toward worse lies within the margin."""
    if held.identical:
        return "identical"
    if within:
        return "pass"
    if held.unchanged:
        return "unchanged"
    if line.worse:
        return "regression"
    if held.gained and held.metric == PRIMARY:
        return "better here"
    if line.lost:
        return "worse here"
    return "within here" if held.gained and line.is_within else "undecided"


def check_level(alpha: float) -> None:
    """Raise ValueError for what is not a level of a one-sided test."""
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha: a level above 0 and below 0.5 is needed, got {alpha!r}")


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


class _Change(NamedTuple):
    """The run against the baseline, before the other lines are known."""

    baseline: float
    run: float
    effect: PairedFlip | PairedSums
    p_worse: float
    p_beyond: float


def _change(held: Held) -> _Change:
    """Pair the run with the baseline, task by task. Raises ValueError for a bad margin, or no task in common."""
    check_margin(held.metric, held.margin)
    tasks = _tasks(held)
    before, after = (np.array([side.means[task] for task in tasks]) for side in (held.baseline, held.run))
    means, clusters = (float(before.mean()), float(after.mean())), [held.run.clusters[task] for task in tasks]
    if held.metric in SHARES:
        pair = PairedFlip(after - before, clusters)
        if held.metric in GAINS:
            return _Change(*means, pair, pair.p(0.0, "less"), pair.p(-held.margin, "greater"))
        return _Change(*means, pair, pair.p(0.0, "greater"), pair.p(held.margin, "less"))
    sums = PairedSums(after, before, clusters)
    return _Change(*means, sums, sums.p(1.0, "greater"), sums.p(1 + held.margin, "less"))


def _line(held: Held, change: _Change, step: HolmStep, alpha: float) -> GateLine:
    """Return a line whose bound toward worse is at alpha, and whose other bound is at the level that the family leaves."""
    pair, worse, is_gain = change.effect, step.p_holm < alpha, held.metric in GAINS
    toward, other = pair.bounds(alpha), pair.bounds(step.level)
    line = GateLine(
        arm=held.arm,
        metric=held.metric,
        baseline=change.baseline,
        run=change.run,
        effect=Bounds(pair.value, toward[0], other[1]) if is_gain else Bounds(pair.value, other[0], toward[1]),
        margin=held.margin,
        tasks=pair.tasks,
        units=pair.units,
        p_worse=change.p_worse,
        p_holm=step.p_holm,
        p_beyond=change.p_beyond,
        outcome="undecided",
        worse=worse,
        lost=held.lost and held.metric == PRIMARY,
        typical=None if held.metric in SHARES else _typical(held),
    )
    return replace(line, outcome=_outcome(held, line, change.p_beyond < alpha))


def _better(line: GateLine, change: _Change, alpha: float) -> bool:
    low, high = change.effect.bounds(alpha)
    return low > 0 if line.metric in GAINS else high < (1 if line.is_ratio else 0)


def _tasks(held: Held) -> list[str]:
    """Return the tasks of which the metric is known both in the run and in the baseline."""
    tasks = [task for task in held.run.values if task in held.baseline.values]
    if not tasks:
        raise ValueError(f"{held.arm}: no task whose {held.metric} is known on both sides")
    return tasks


def _typical(held: Held) -> float:
    """Return the geometric mean over tasks of run / baseline, from as many trials of each as the side with fewer has.

    The logarithm of a mean grows with the number of trials (Jensen): a run of more repeats would look dearer.
    """
    tasks = _tasks(held)
    old, new = ([side.values[task] for task in tasks] for side in (held.baseline, held.run))
    sizes = [min(len(before), len(after)) for before, after in zip(old, new, strict=True)]
    after, before = ([math.fsum(v[:n]) / n for v, n in zip(side, sizes, strict=True)] for side in (new, old))
    mean = float(log_ratios(after, before).mean())
    return math.exp(mean) if mean < MAX_LOG else math.inf


def _with_outlook(line: GateLine, held: Held, alpha: float, lines: int) -> GateLine:
    is_score = held.metric in SHARES
    spread = _spread_of_shares(held) if is_score else _spread_of_sums(held)
    if spread is None:
        return line
    margin, levels = held.margin if is_score else math.log1p(held.margin), Levels(alpha / lines, alpha)
    return replace(
        line,
        outlook=gate_outlook(spread, margin=margin, levels=levels, cost_usd=held.cost_usd, grows=held.grows),
        more_repeats=gate_repeats(spread, margin=margin, levels=levels),
    )


def _spread_of_shares(held: Held) -> Spread | None:
    """Return how run - baseline varies, or baseline - run where the metric is a harm, so that above 0 is better."""
    return spread(held.run, held.baseline) if held.metric in GAINS else spread(held.baseline, held.run)


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
