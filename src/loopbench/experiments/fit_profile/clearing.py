"""What clears a fault: chances per retry, and the share that never clears, from runs of retries that a loop may break off.

A fault that was still there when the loop gave up may have cleared at the next retry: it is censored, not permanent. So the share
that never clears is a cure fraction beside two chances per retry, one where the request shows more than the one before and one
where it does not (Boag 1949; Farewell 1982), by maximum likelihood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import optimize

from loopbench.models.profiles import FEEDBACK_PARTS, Clears

MIN_RETRIED = 30
"""An estimate from fewer faults that were tried again says little, and the profile notes it."""
_EDGE = 1e-4
"""Chances are kept so far from 0 and 1 while they are sought."""


class RetryRun(NamedTuple):
    """The retries of one fault."""

    blind: int
    """Retries that failed and showed nothing new."""
    told: int
    """Retries that failed though they showed more."""
    end: str
    """How the last one, not counted above, got through: blind or told; empty if none did."""


class ClearingChances(NamedTuple):
    """The estimate."""

    blind: float
    """Chance that a blind retry clears a fault that can be cleared."""
    told: float
    never: float


def clearing_chances(runs: Mapping[RetryRun, int]) -> ClearingChances:
    """Return the chances under which the runs of retries are likeliest. Raises ValueError for no run."""
    if not sum(runs.values()):
        raise ValueError("no retries to learn from")
    blind, told = (np.array([run[place] for run in runs], float) for place in (0, 1))
    ends = np.array([("", "blind", "told").index(run.end) for run in runs])
    counts = np.array(list(runs.values()), float)

    def loss(values: np.ndarray) -> float:
        by_blind, by_told, never = values
        stays = (1 - by_blind) ** blind * (1 - by_told) ** told
        likely = np.select([ends == 0, ends == 1], [never + (1 - never) * stays, (1 - never) * stays * by_blind])
        likely = np.where(ends == 2, (1 - never) * stays * by_told, likely)
        return float(-counts @ np.log(likely))

    starts = ((0.5, 0.7, 0.1), (0.3, 0.4, 0.01), (0.8, 0.9, 0.4))
    tries = [optimize.minimize(loss, start, method="L-BFGS-B", bounds=[(_EDGE, 1 - _EDGE)] * 3) for start in starts]
    best = min(tries, key=lambda found: float(found.fun)).x
    return ClearingChances(*(float(value) for value in best))


def estimate_clears(runs: Counter[RetryRun], notes: dict[str, str]) -> Clears:
    """Return what clears faults; how many failed and cleared, and what cannot be told, goes into the notes."""
    retried = runs.total()
    if not retried:
        notes["clears"] = "the default: no failure was tried again"
        return Clears()
    usual, found = Clears(), clearing_chances(runs)
    has_told = any(run.told or run.end == "told" for run in runs)
    has_blind = any(run.blind or run.end == "blind" for run in runs)
    told = found.told if has_told else usual.resample + sum(getattr(usual, part) for part in FEEDBACK_PARTS)
    blind = found.blind if has_blind else min(usual.resample, told)
    never = round(found.never if found.never > 10 * _EDGE else 0.0, 4)
    cleared = sum(count for run, count in runs.items() if run.end)
    notes["clears"] = (
        f"of {retried} first failures that were tried again, {cleared} were seen to clear; the others are censored. "
        "A trace does not tell feedback from time, nor which part of the feedback clears: those are shared out as in the default"
    )
    if retried < MIN_RETRIED:
        notes["clears"] += f"; fewer than {MIN_RETRIED}: this says little"
    whole = sum(getattr(usual, part) for part in FEEDBACK_PARTS)
    gain = max(0.0, told - blind)
    parts = {part: round(getattr(usual, part) * gain / whole, 4) for part in FEEDBACK_PARTS}
    resample = round(min(blind, 1 - sum(parts.values())), 4)
    return Clears(feedback=round(1 - never, 4), after=0.0, never=never, resample=resample, **parts)
