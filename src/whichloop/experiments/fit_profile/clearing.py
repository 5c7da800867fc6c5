"""What clears a mistake: the share that never clears, and the chance of a retry by how much its prompt shows of the mistake.

A mistake that was still there when the loop gave up may have cleared at the next retry: it is censored, not permanent. So the share
that never clears is a cure fraction (Boag 1949; Farewell 1982) beside a chance per retry, which goes by what the request shows,
as in `whichloop.models.feedback`. A normal prior round the default decides what the runs leave open (maximum a posteriori).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, get_args

import numpy as np
import scipy

from whichloop.models.feedback import Level
from whichloop.models.profiles import Clears

LEVELS: tuple[Level, ...] = get_args(Level)
PRIOR_SD = 0.15
"""Standard deviation of the prior of each chance: the runs of a hundred retries outweigh it."""
_EDGE = 1e-4
"""Chances are kept so far from 0 and 1 while they are sought."""


class RetryRun(NamedTuple):
    """The retries of one mistake, by what their requests showed of it."""

    failed: tuple[Level, ...]
    cure: Level | None
    """That of the one that got through; None if none did."""


def estimate_clears(runs: Mapping[RetryRun, int], attempts: float | None = None) -> Clears:
    """Return the most probable chances, given the runs of retries; the default where no mistake was tried again.

    `attempts`: mean number of attempts that outages took; None: the default.
    """
    usual = Clears()
    given = {"attempts": usual.attempts if attempts is None else round(min(100.0, max(1.0, attempts)), 4)}
    if not sum(runs.values()):
        return Clears(**given)
    failed = np.array([[run.failed.count(level) for level in LEVELS] for run in runs], float)
    cures = np.array([-1 if run.cure is None else LEVELS.index(run.cure) for run in runs])
    counts = np.array(list(runs.values()), float)
    before = np.array([usual.never, *(getattr(usual, level) for level in LEVELS)])

    def loss(values: np.ndarray) -> float:
        never, cleared = values[0], values[1:]
        stays = failed @ np.log1p(-cleared)
        censored = np.log(never + (1 - never) * np.exp(stays))
        likely = np.where(cures < 0, censored, np.log1p(-never) + stays + np.log(cleared[cures]))
        return float(-counts @ likely + ((values - before) ** 2).sum() / (2 * PRIOR_SD**2))

    best = scipy.optimize.minimize(loss, before, method="L-BFGS-B", bounds=[(_EDGE, 1 - _EDGE)] * len(before)).x
    chances = np.maximum.accumulate(best[1:])  # a prompt that says more never helps less
    never = round(float(best[0]) if best[0] > 10 * _EDGE else 0.0, 4)
    return Clears(never=never, **given, **dict(zip(LEVELS, chances.round(4).tolist(), strict=True)))
