"""The planned comparisons of an optimization: each design's prompts after against those before, one family over the designs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .comparison import Comparison
from .pairs import Pair, paired_test, pairs_of_family, with_outlook
from .record import Record
from .summary import METRICS, PRIMARY, TaskValues, task_values

NOTHING = TaskValues({}, {})


def planned_pairs(records: Sequence[Record], arms: Sequence[tuple[str, str]], alpha: float, margin: float) -> list[Pair]:
    """Return after minus before on accuracy for each pair of arms, before and after: the planned comparisons of an optimization.

    They are a family of their own, one test per design. A pair without a task in common is left out.
    """
    by_arm = by_arm_of(records)
    values = {arm: task_values(arm_records, METRICS[PRIMARY]) for arm, arm_records in by_arm.items()}
    arm_values = [(after, before, values.get(after, NOTHING), values.get(before, NOTHING)) for before, after in arms]
    tests = {(after, before): paired_test(PRIMARY, new, old, margin) for after, before, new, old in arm_values}
    return with_outlook(pairs_of_family(PRIMARY, tests, alpha), values, by_arm, alpha)


def with_planned_pairs(comparison: Comparison, records: Sequence[Record], arms: Sequence[tuple[str, str]]) -> Comparison:
    """Return a comparison in which the pairs of an optimization's arms, before and after, are judged as the gains are.

    All other pairs stay in the family of all pairs.
    """
    gain_pairs = planned_pairs(records, arms, comparison.alpha, comparison.margin)
    planned = {(pair.a, pair.b): pair for gain in gain_pairs for pair in (gain, gain.turned)}

    def judged(pair: Pair) -> Pair:
        gain = planned.get((pair.a, pair.b)) if pair.metric == PRIMARY else None
        return pair if gain is None else replace(gain, within=pair.within)

    return replace(comparison, pairs=tuple(map(judged, comparison.pairs)))


def by_arm_of(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each arm."""
    by_arm: dict[str, list[Record]] = {}
    for record in records:
        by_arm.setdefault(record.arm, []).append(record)
    return by_arm
