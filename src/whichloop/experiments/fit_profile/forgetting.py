"""Calls made again: which share was overlooked results, and which was a fault of the decision.

In the tunnel a result is overlooked with chance `forget` times its distance from the prompt's end, and the call that gave it is
made again; `decision.repeated_call` and `never_finish` make the last call again, at any distance. So distances and which call was
made again tell the two apart, by maximum likelihood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from whichloop.protocol.receipts import HALFWAY

BINS = 20
"""Distances from 0 to 1 are kept in so many bins."""
MIN_GAIN = 2.706
"""Twice the gain in log likelihood from which on results were overlooked at all: 5 % where they were not."""
_EDGE = 1e-6


class RecallPoint(NamedTuple):
    """A point at which results were shown, and a call may have been made again."""

    sort: str
    """Whether another call was due, or the end."""
    again: str
    """Which call was made again: last, earlier, or none (empty)."""
    earlier: int
    """Results before the last."""
    mean_bin: int
    """Bin of their mean distance."""
    last_bin: int
    """Bin of the last result's distance."""


def distance(behind: int) -> float:
    """Return how far a result stands from the prompt's end, by the characters behind it; see `Sighting.distance`."""
    return behind / (behind + HALFWAY)


def recall_point(sort: str, again: str, distances: Sequence[float]) -> RecallPoint:
    """Return a point by the distances of the results that its prompt shows, in the order of their calls."""
    *earlier, last = distances
    mean = sum(earlier) / len(earlier) if earlier else 0.0
    return RecallPoint(sort, again, len(earlier), round(mean * BINS), round(last * BINS))


def forgetting_rates(points: Counter[RecallPoint]) -> tuple[float, dict[str, float]]:
    """Return the rates under which the points are likeliest: `forget`, and by sort that of faults that make the last call again.

    `forget` is 0 unless it explains the points better by `MIN_GAIN`.
    """
    sorts = sorted({point.sort for point in points})
    if not points:
        return 0.0, {}
    which = np.array([sorts.index(point.sort) for point in points])
    columns, counts = _columns(list(points)), np.array(list(points.values()), float)

    def loss(values: np.ndarray) -> float:
        fault, overlooked = _chances(columns, values[0], values[1:][which])
        return float(-counts @ np.log(np.maximum(fault + overlooked, _EDGE)))

    bounds = [(_EDGE, 1 - _EDGE)] * (1 + len(sorts))
    free = scipy.optimize.minimize(loss, [0.2, *[0.05] * len(sorts)], method="L-BFGS-B", bounds=bounds)
    none = scipy.optimize.minimize(loss, [0.0, *[0.05] * len(sorts)], method="L-BFGS-B", bounds=[(0.0, 0.0), *bounds[1:]])
    best = free.x if 2 * (none.fun - free.fun) >= MIN_GAIN else none.x
    return float(best[0]), dict(zip(sorts, best[1:].tolist(), strict=True))


def fault_share(point: RecallPoint, forget: float, faults: Mapping[str, float]) -> float:
    """Return the chance that a call made again is a fault of the decision and not an overlooked result."""
    (fault,), (overlooked,) = _chances(_columns([point]), forget, np.array([faults.get(point.sort, 0.0)]))
    return float(fault / (fault + overlooked)) if point.again and fault + overlooked > 0 else 0.0


def _columns(points: Sequence[RecallPoint]) -> np.ndarray:
    """Return which call was made again (0: none, 1: the last), results before the last, their mean distance, and the last one's."""
    again = ("", "last", "earlier")
    return np.array([(again.index(one.again), one.earlier, one.mean_bin / BINS, one.last_bin / BINS) for one in points], float).T


def _chances(columns: np.ndarray, forget: float, fault: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the chance that a fault of the decision gave what was seen, and the chance that anything else gave it."""
    again, earlier, mean, last = columns
    remembered = (1 - forget * mean) ** earlier
    by_fault = np.where(again == 1, fault, 0.0)
    by_last, by_none = remembered * forget * last, remembered * (1 - forget * last)
    return by_fault, (1 - fault) * np.select([again == 0, again == 1], [by_none, by_last], default=1 - remembered)
