"""A comparison in the order in which people read it: the most accurate arm of each suite and profile first."""

from __future__ import annotations

import math
from dataclasses import replace

from .comparison import ArmResult, Comparison


def ranked(comparison: Comparison) -> Comparison:
    """Return the same comparison, the most accurate arm of each suite and profile first, the cheaper one of two equally accurate.

    The first arm of a pair is the one that stands higher, and pairs are in the order of their arms.
    """
    groups: dict[tuple[str, str], list[ArmResult]] = {}
    for arm in comparison.arms:
        groups.setdefault((arm.info.suite, arm.info.profile), []).append(arm)
    arms = tuple(arm for members in groups.values() for arm in sorted(members, key=_height))
    place = {arm.info.arm: number for number, arm in enumerate(arms)}
    metrics = {metric: number for number, metric in enumerate(dict.fromkeys(pair.metric for pair in comparison.pairs))}
    turned = (pair.turned if place[pair.a] > place[pair.b] else pair for pair in comparison.pairs)
    pairs = tuple(sorted(turned, key=lambda pair: (metrics[pair.metric], place[pair.a], place[pair.b])))
    return replace(comparison, arms=arms, pairs=pairs)


def _height(arm: ArmResult) -> tuple[float, float, str]:
    accuracy, tokens = arm.summary.accuracy, arm.summary.means["tokens"]
    mean = -math.inf if accuracy is None else round(accuracy.value, 9)  # the order of a sum changes its last digits
    return -mean, math.inf if tokens is None else tokens.value, arm.info.arm
