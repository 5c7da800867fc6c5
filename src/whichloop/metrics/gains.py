"""What an optimization gained: each design before and after on the same tasks, the ranking, and what the gain cost.

A design is an arm twice: with its own program (before) and with the optimized one (after). The gains are one family, one test per
design (Holm); the pairs of designs before, those after, and the differences between gains are families of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from .comparison import Comparison
from .measures import Measure
from .paired import SCORES, PairedFlip
from .pairs import Pair, paired_test, pairs_of_family, with_outlook
from .record import Record, records_by_arm
from .statistics import ALPHA, Interval, Plain, independent_difference, interval_json, plain
from .summary import METRICS, PRIMARY, ArmSummary, TaskValues, task_values
from .sums import PairedSums


def with_planned_pairs(comparison: Comparison, records: Sequence[Record], arms: Sequence[tuple[str, str]]) -> Comparison:
    """Return a comparison in which the pairs of an optimization's arms, before and after, are judged as the gains are.

    All other pairs stay in the family of all pairs.
    """
    gain_pairs = _planned_pairs(records_by_arm(records, comparison.infos), arms, comparison.alpha, comparison.margin)
    planned = {(pair.a, pair.b, PRIMARY): pair for gain in gain_pairs for pair in (gain, gain.turned)}
    pairs = (replace(planned.get((pair.a, pair.b, pair.metric), pair), within=pair.within) for pair in comparison.pairs)
    return replace(comparison, pairs=tuple(pairs))


def _planned_pairs(
    by_arm: Mapping[str, Sequence[Record]], arms: Sequence[tuple[str, str]], alpha: float, margin: float
) -> list[Pair]:
    """Return after minus before on accuracy for each pair of arms, before and after: the planned comparisons of an optimization.

    They are a family of their own, one test per design. A pair without a task in common is left out.
    """
    values = {arm: _scores(by_arm[arm]) for pair in arms for arm in pair}
    tests = {(after, before): paired_test(PRIMARY, values[after], values[before], margin) for before, after in arms}
    return with_outlook(pairs_of_family(PRIMARY, tests.items(), alpha), values, by_arm, alpha)


def _scores(records: Sequence[Record]) -> TaskValues:
    return task_values(records, METRICS[PRIMARY])


_RATIOS = {"token_ratio": "tokens", "nominal_usd_ratio": "nominal_usd", "cost_usd_ratio": "cost_usd"}
"""Field of `Gain` → the metric whose ratio it is."""
_TESTED = ("difference", "over_templates", "units", "p", "p_holm", "level", "margin", "verdict", "within_margin", "outlook")


@dataclass(frozen=True, slots=True)
class Arms:
    """The names of a design's two arms in the records."""

    design: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Gain:
    """One design before and after its optimization."""

    design: str
    before: Interval | None
    """Accuracy; None where no trial was scored."""
    after: Interval | None
    test: Pair | None
    """After minus before, adjusted over the designs: `better` is a gain. None where no task was scored in both arms."""
    alone: Interval | None = None
    """The same difference at the level of one design alone, for a comparison with its gain on other tasks."""
    token_ratio: Interval | None = None
    """How many times the tokens of before after takes in all, over the tasks that were scored in both arms."""
    nominal_usd_ratio: Interval | None = None
    """The same of dollars without any cache, over the tasks whose dollars are known in both arms; None if there are none."""
    cost_usd_ratio: Interval | None = None
    """The same of dollars as billed."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with None for what is not known."""
        test = {} if self.test is None else self.test.to_json()
        return {
            "before": interval_json(self.before),
            "after": interval_json(self.after),
            **{name: test.get(name) for name in _TESTED},
            **{name: interval_json(getattr(self, name)) for name in _RATIOS},
        }


@dataclass(frozen=True, slots=True)
class Ranked(Plain):
    """A design's place."""

    design: str
    place: int
    """1 is the highest; equal means share a place."""
    accuracy: Interval


@dataclass(frozen=True, slots=True)
class Ranking:
    """Designs by accuracy, the highest first."""

    designs: tuple[Ranked, ...]
    pairs: tuple[Pair, ...]
    """All pairs of designs, adjusted for each other (Holm)."""

    def is_better(self, a: str, b: str) -> bool:
        """Whether a is better than b beyond chance."""
        found = {(pair.a, pair.b): pair for of in self.pairs for pair in (of, of.turned)}.get((a, b))
        return found is not None and found.verdict.word == "better"


Change = Literal["same", "by chance", "gains differ", "crossed"]
"""same: the highest design stayed. Else another became the highest, and: by chance: their gains do not differ beyond chance.
gains differ: they do. crossed: moreover the one was better than the other before, and worse after (Gail & Simon 1985)."""


@dataclass(frozen=True, slots=True)
class Gains:
    """What optimization did to all designs."""

    gains: tuple[Gain, ...]
    """In the order of the designs."""
    before: Ranking
    after: Ranking
    interactions: tuple[Pair, ...]
    """a's gain minus b's, for all pairs of designs, adjusted for each other (Holm): so one of them may be picked afterwards."""
    alpha: float

    @property
    def highest(self) -> tuple[str, str] | None:
        """The highest design before and after; the same twice where one of those that share the place stayed. None: not known."""
        before, after = ([one.design for one in ranking.designs if one.place == 1] for ranking in (self.before, self.after))
        if not before or not after:
            return None
        stayed = [design for design in before if design in after]
        return (stayed[0], stayed[0]) if stayed else (before[0], after[0])

    @property
    def interaction(self) -> Pair | None:
        """The gain of the highest design after minus that of the highest before; None where that is the same one, or not known."""
        turned = {(pair.b, pair.a): pair for of in self.interactions for pair in (of, of.turned)}
        return None if self.highest is None else turned.get(self.highest)

    @property
    def change(self) -> Change | None:
        """Whether another loop is the best; None where that is not known."""
        if self.highest is None:
            return None
        before, after = self.highest
        if before == after:
            return "same"
        if self.interaction is None or self.interaction.verdict.word != "better":
            return "by chance"
        crossed = self.before.is_better(before, after) and self.after.is_better(after, before)
        return "crossed" if crossed else "gains differ"

    def to_json(self) -> dict[str, Any]:
        """Return the ranking as plain JSON."""
        before, after = self.highest or (None, None)
        return {
            "before": plain(self.before.designs),
            "after": plain(self.after.designs),
            "pairs_before": plain(self.before.pairs),
            "pairs_after": plain(self.after.pairs),
            "highest_before": before,
            "highest_after": after,
            "top_changed": None if self.change is None else self.change != "same",
            "change": self.change,
            "interaction": plain(self.interaction),
            "interactions": plain(self.interactions),
        }


def gains(comparison: Comparison, records: Sequence[Record], designs: Sequence[Arms]) -> Gains:
    """Return what optimization made of each design, at the comparison's level and margin.

    Raises ValueError for an arm that the comparison does not have.
    """
    alpha, margin = comparison.alpha, comparison.margin
    accuracy = {arm.info.arm: arm.summary.accuracy for arm in comparison.arms}
    for name in (arm for design in designs for arm in (design.before, design.after)):
        if name not in accuracy:
            raise ValueError(f"no arm is called {name!r}")
    by_arm = records_by_arm(records, comparison.infos)
    values = {arm: _scores(own) for arm, own in by_arm.items()}
    tested = {pair.a: pair for pair in _planned_pairs(by_arm, [(d.before, d.after) for d in designs], alpha, margin)}

    def gain(design: Arms) -> Gain:
        before, after = accuracy[design.before], accuracy[design.after]
        if design.after not in tested:
            return Gain(design.design, before, after, None)
        new, old = by_arm[design.after], by_arm[design.before]
        ratios = {name: _ratio(METRICS[of], new, old, alpha) for name, of in _RATIOS.items()}
        return Gain(design.design, before, after, tested[design.after], _alone(new, old, alpha), **ratios)

    by_task = {}  # what each task gained, within [-1, 1]; only tasks that were scored in both arms count
    for d in designs:
        old, new = values[d.before], values[d.after]
        gained = {task: [new.means[task] - mean] for task, mean in old.means.items() if task in new.means}
        by_task[d.design] = TaskValues(gained, old.clusters)
    tests = {(a, b): paired_test(PRIMARY, by_task[a], by_task[b], margin, reach=2 * SCORES) for a, b in combinations(by_task, 2)}
    before, after = (
        _ranking({name: (accuracy[arm], values[arm]) for name, arm in side.items()}, alpha, margin)
        for side in ({d.design: d.before for d in designs}, {d.design: d.after for d in designs})
    )
    return Gains(tuple(map(gain, designs)), before, after, tuple(pairs_of_family(PRIMARY, tests.items(), alpha)), alpha)


def difference(records: Sequence[Record], earlier: Sequence[Record], arm: str, alpha: float) -> Interval | None:
    """Return what an arm solved more than in an earlier run of the same tasks; None without a task in common."""
    new, old = ([record for record in run if record.arm == arm] for run in (records, earlier))
    return _alone(new, old, alpha)


def _alone(after: Sequence[Record], before: Sequence[Record], alpha: float) -> Interval | None:
    """Return the difference at the level of one design alone; None without a task in common."""
    test = paired_test(PRIMARY, _scores(after), _scores(before), 0.0)
    return None if test is None else test.flip.interval(alpha)


def _ratio(measure: Measure, after: Sequence[Record], before: Sequence[Record], alpha: float) -> Interval | None:
    """Return Σafter/Σbefore of a cost, over the tasks where it is known in both; None if there are none.

    Tasks that are too few to bound it on either side give it no interval.
    """
    new, old = (task_values(records, measure) for records in (after, before))
    tasks = [task for task in new.means if task in old.means]
    if not tasks:
        return None
    above, below = ([values.means[task] for task in tasks] for values in (new, old))
    sums = PairedSums(above, below, [new.clusters[task] for task in tasks])
    low, high = sums.bounds(alpha / 2)
    return Interval(sums.value, -math.inf if low == 0 and math.isinf(high) else low, high, len(tasks))


def _ranking(arms: Mapping[str, tuple[Interval | None, TaskValues]], alpha: float, margin: float) -> Ranking:
    """Rank designs. `arms`: design → accuracy and scores."""
    accuracies = {name: interval for name, (interval, _) in arms.items() if interval is not None}
    tests = {(a, b): paired_test(PRIMARY, arms[a][1], arms[b][1], margin) for a, b in combinations(accuracies, 2)}
    pairs = tuple(pairs_of_family(PRIMARY, tests.items(), alpha))
    # Sums of equal scores differ with their order.
    means = {name: round(interval.value, 9) for name, interval in accuracies.items()}
    places = {name: 1 + sum(other > mean for other in means.values()) for name, mean in means.items()}
    ordered = sorted(accuracies, key=lambda name: places[name])
    return Ranking(tuple(Ranked(name, places[name], accuracies[name]) for name in ordered), pairs)


# --- the gain that the optimizer saw ---


@dataclass(frozen=True, slots=True)
class DevGain:
    """A design's means on the dev tasks that an optimizer searched by: chosen by them, they flatter."""

    before: float
    after: float
    difference: Interval
    """After minus before, paired over the dev tasks."""

    def optimism(self, gain: Gain) -> Interval | None:
        """Return how much larger this gain is than `gain` on the locked tasks, which are other ones; None if unknown."""
        return None if gain.alone is None else independent_difference(self.difference, gain.alone)

    def to_json(self) -> dict[str, float | int]:
        """Return plain JSON."""
        return {"before": self.before, "after": self.after, "gain": self.difference.value, "tasks": self.difference.n}


def dev_gain(
    before: Mapping[str, float], after: Mapping[str, float], clusters: Mapping[str, str] | None = None, alpha: float = ALPHA
) -> DevGain | None:
    """Return the means over the tasks whose scores are known of both programs (task → score); None if one has no scores.

    `clusters`: task → cluster, where it has one.
    """
    tasks = sorted(before.keys() & after.keys())
    if not tasks:
        return None
    old, new = (math.fsum(scores[task] for task in tasks) / len(tasks) for scores in (before, after))
    flip = PairedFlip([after[task] - before[task] for task in tasks], [(clusters or {}).get(task, "") for task in tasks])
    return DevGain(old, new, flip.interval(alpha))


# --- what it cost ---


@dataclass(frozen=True, slots=True)
class Cost(Plain):
    """Calls of models, tokens and US dollars; None where they are not known."""

    calls: float | None = None
    tokens: float | None = None
    cost_usd: float | None = None


def use_of(summary: ArmSummary) -> Cost | None:
    """Return what one of an arm's scored trials used, in the mean; None if there are none."""
    if summary.accuracy is None:
        return None
    means = (summary.means[name] for name in ("lm_calls", "tokens", "cost_usd"))
    return Cost(*(None if interval is None else interval.value for interval in means))
