"""Which of the calls that failed were flaky: those fail a fixed number of times, all others clear with a chance at each retry.

A call whose loop gave up says only how long it had failed by then: it is censored. The share of flaky calls is fitted by maximum
likelihood beside a share that never clears (a cure fraction; Boag 1949, Farewell 1982) and two chances per retry, a high and a low
one, since retries that say what was wrong clear more than blind ones. So a flaky call whose loop gave up too early is counted as
what it probably was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy

from whichloop.models.faults import FLAKY_ATTEMPTS

_EDGE = 1e-4
"""Chances are kept so far from 0 and 1 while they are sought."""
_BOUNDS = [(_EDGE, 1 - _EDGE)] * 3 + [(0.5, 1 - _EDGE), (_EDGE, 0.5)]
"""Of the shares of flaky calls, of those that never clear and of those that clear slowly, and of the high and the low chance."""


class Strikes(NamedTuple):
    """How a call went that failed at first."""

    failures: int
    """Failures in a row."""
    worked: bool
    """Whether it worked then; else the loop gave up."""


def flaky_shares(counts: Mapping[Strikes, int]) -> dict[Strikes, float]:
    """Return for each way to go the chance that such a call was flaky, under the likeliest shares; empty for no count."""
    ways = list(counts)
    if not ways:
        return {}
    failures = np.array([way.failures for way in ways], float)
    worked = np.array([way.worked for way in ways])
    numbers = np.array([counts[way] for way in ways], float)
    can_be_flaky = np.where(worked, failures == FLAKY_ATTEMPTS, failures <= FLAKY_ATTEMPTS)

    def chances(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flaky, never, slow, high, low = values
        usual = never * ~worked
        for share, clears in (((1 - never) * (1 - slow), high), ((1 - never) * slow, low)):
            usual = usual + share * (1 - clears) ** (failures - 1) * np.where(worked, clears, 1.0)
        return flaky * can_be_flaky, (1 - flaky) * usual

    def loss(values: np.ndarray) -> float:
        return float(-numbers @ np.log(np.add(*chances(values))))

    starts = ((0.1, 0.1, 0.2, 0.8, 0.3), (0.4, 0.02, 0.1, 0.9, 0.2), (0.05, 0.3, 0.5, 0.7, 0.4))
    fits = [scipy.optimize.minimize(loss, start, method="L-BFGS-B", bounds=_BOUNDS) for start in starts]
    best = min(fits, key=lambda one: float(one.fun))
    flaky, usual = chances(best.x)
    return dict(zip(ways, (flaky / (flaky + usual)).tolist(), strict=True))
