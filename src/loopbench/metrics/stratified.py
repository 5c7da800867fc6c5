"""The exact test of Cochran, Mantel and Haenszel: two arms within strata, where no trial of one belongs to a trial of the other.

Under the null that the arms are alike within each stratum, the trials that one arm solved are a draw without replacement from those
that both solved: hypergeometric, given the margins. Over all strata the law of its solved trials is the convolution of these
(Mehta, Patel and Gray 1985). Only sums of probabilities are added up, so that the smallest p is as exact as the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import special
from .permutation import FlipTails
from .statistics import Floats


@dataclass(frozen=True, slots=True)
class Stratum:
    """The trials of both arms in one stratum, such as a task."""

    solved: int
    """By the first arm."""
    trials: int
    """Of the first arm."""
    all_solved: int
    """By both."""
    all_trials: int
    """Of both."""

    @property
    def least(self) -> int:
        """The fewest trials that the first arm may have solved, given the margins."""
        return max(0, self.all_solved - (self.all_trials - self.trials))

    @property
    def law(self) -> Floats:
        """The chance of each number of solved trials of the first arm, from `least` on."""
        solved = np.arange(self.least, min(self.trials, self.all_solved) + 1.0)
        logs = (
            _log_choose(self.all_solved, solved)
            + _log_choose(self.all_trials - self.all_solved, self.trials - solved)
            - _log_choose(self.all_trials, np.float64(self.trials))
        )
        law = np.exp(logs)
        return np.asarray(law / law.sum(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class DrawnSum:
    """The first arm's solved trials beside what is drawn under the null."""

    tails: FlipTails
    excess: float
    """Solved trials above those expected."""


def drawn_sum(strata: Sequence[Stratum]) -> DrawnSum:
    """Return the test of the first arm's solved trials over all strata. Raises ValueError for no strata."""
    if not strata:
        raise ValueError("there are no strata")
    law, above_least, excess = np.ones(1), 0, 0.0
    for stratum in strata:
        law = np.convolve(law, stratum.law)
        above_least += stratum.solved - stratum.least
        excess += stratum.solved - stratum.trials * stratum.all_solved / stratum.all_trials
    tails = FlipTails(min(1.0, float(law[above_least:].sum())), min(1.0, float(law[: above_least + 1].sum())))
    return DrawnSum(tails, excess)


def _log_choose(n: int, k: NDArray[np.float64] | np.float64) -> Floats:
    return np.asarray(special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0), dtype=np.float64)
