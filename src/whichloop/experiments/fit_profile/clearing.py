"""What clears a fault: the share that never clears, the chance of any retry, and what each part of the feedback adds.

A fault that was still there when the loop gave up may have cleared at the next retry: it is censored, not permanent. So the share
that never clears is a cure fraction (Boag 1949; Farewell 1982) beside a chance per retry, which goes by what the request shows,
as in `whichloop.models.feedback`. Loops show much the same parts together, so that runs say little about each part alone: a normal
prior round the default decides what they leave open (maximum a posteriori).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy

from whichloop.models.profiles import FEEDBACK_PARTS, Clears

PRIOR_SD = 0.15
"""Standard deviation of the prior of each chance: the runs of a hundred retries outweigh it."""
_EDGE = 1e-4
"""Chances are kept so far from 0 and 1 while they are sought."""


class Retry(NamedTuple):
    """What the request of a retry showed of the failure before it: parts of `FEEDBACK_PARTS`."""

    shown: frozenset[str] = frozenset()
    tellable: frozenset[str] = frozenset(FEEDBACK_PARTS)
    """The parts of which there was something to show."""


class RetryRun(NamedTuple):
    """The retries of one fault."""

    failed: tuple[Retry, ...]
    cure: Retry | None
    """The one that got through; None if none did."""


class ClearingChances(NamedTuple):
    """The estimate."""

    never: float
    resample: float
    """Chance that a blind retry clears a fault that can be cleared."""
    parts: Mapping[str, float]
    """What each part of the feedback adds."""


def clearing_chances(runs: Mapping[RetryRun, int]) -> ClearingChances:
    """Return the most probable chances, given the runs of retries. Raises ValueError for no run."""
    if not sum(runs.values()):
        raise ValueError("no retries to learn from")
    kinds = sorted({retry for run in runs for retry in (*run.failed, *_one(run.cure))}, key=lambda retry: tuple(map(sorted, retry)))
    shown, tellable = (np.array([[part in retry[place] for part in FEEDBACK_PARTS] for retry in kinds], float) for place in (0, 1))
    failed = np.array([[run.failed.count(retry) for retry in kinds] for run in runs], float)
    cures = np.array([-1 if run.cure is None else kinds.index(run.cure) for run in runs])
    counts = np.array(list(runs.values()), float)
    usual = _values(Clears())

    def loss(values: np.ndarray) -> float:
        never, resample, parts = values[0], values[1], values[2:]
        by_feedback = (shown @ parts) / np.maximum(tellable @ parts, _EDGE) * parts.sum()
        cleared = np.clip(resample + by_feedback, _EDGE, 1 - _EDGE)
        stays = failed @ np.log1p(-cleared)
        censored = np.log(never + (1 - never) * np.exp(stays))
        likely = np.where(cures < 0, censored, np.log1p(-never) + stays + np.log(cleared[cures]))
        return float(-counts @ likely + ((values - usual) ** 2).sum() / (2 * PRIOR_SD**2))

    bounds = [(_EDGE, 1 - _EDGE)] * len(usual)
    best = scipy.optimize.minimize(loss, usual, method="L-BFGS-B", bounds=bounds).x
    scale = min(1.0, (1 - best[1]) / best[2:].sum())
    return ClearingChances(float(best[0]), float(best[1]), dict(zip(FEEDBACK_PARTS, (best[2:] * scale).tolist(), strict=True)))


def _one(retry: Retry | None) -> tuple[Retry, ...]:
    return () if retry is None else (retry,)


def _values(clears: Clears) -> np.ndarray:
    return np.array([clears.never, clears.resample, *(getattr(clears, part) for part in FEEDBACK_PARTS)])


def estimate_clears(runs: Counter[RetryRun]) -> Clears:
    """Return what clears faults; the default where no failure was tried again. A trace does not tell feedback from time."""
    if not runs.total():
        return Clears()
    chances = clearing_chances(runs)
    never = round(chances.never if chances.never > 10 * _EDGE else 0.0, 4)
    parts = {part: np.floor(share * 1e4) / 1e4 for part, share in chances.parts.items()}
    return Clears(feedback=round(1 - never, 4), after=0.0, never=never, resample=np.floor(chances.resample * 1e4) / 1e4, **parts)
