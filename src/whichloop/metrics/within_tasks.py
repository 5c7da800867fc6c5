"""Two arms on these very tasks: what their repeats show, where tasks are too few to speak for others.

Repeats that met the same draws are paired. Others are compared by the exact test of Cochran, Mantel and Haenszel: under the null
that two arms are alike within each task, the trials that one arm solved are a draw without replacement from those that both
solved, hypergeometric given the margins, and over all tasks their law is the convolution of these (Mehta, Patel and Gray 1985).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .bootstrap import FlipTails, sign_flip
from .record import Record
from .statistics import Floats, log_choices
from .summary import METRICS, PRIMARY, task_values


class WithinTasks(NamedTuple):
    """What the repeats of two arms show of the tasks that both have."""

    p: float
    """Two-sided, of the null that within each task either arm might as well have had the other one's scores."""
    excess: float
    """How far the first arm's scores together lie above what the null expects of them."""

    @property
    def turned(self) -> WithinTasks:
        """The same with b as the first arm."""
        return WithinTasks(self.p, -self.excess)

    def is_apart(self, alpha: float) -> bool:
        """Whether the two arms are shown to differ on these tasks."""
        return self.p < alpha


def paired_within_tasks(a: Sequence[Record], b: Sequence[Record]) -> WithinTasks | None:
    """Return what the repeats of two arms show that met the same draws; None where no task has two trials scored in both.

    The exact test of `sign_flip` with trials as units, each paired with the other arm's of the same task and repeat: of 0/1 scores
    it is McNemar's (1947). It says nothing of any other task.
    """
    first, second = (
        {(record.task, record.repeat): record.accuracy for record in arm if record.status == "scored"} for arm in (a, b)
    )
    common = [key for key in first if key in second]
    if not common or len(common) < 2 * len({task for task, _ in common}):
        return None
    apart = np.array([first[key] - second[key] for key in common])
    return WithinTasks(sign_flip(apart).two_sided, float(apart.sum()) / 2)


def unpaired_within_tasks(a: Sequence[Record], b: Sequence[Record]) -> WithinTasks | None:
    """Return what the repeats of two arms show that share nothing but the task, as those of imported runs.

    None where some score is neither 0 nor 1, and where an arm has no two trials of a task.
    """
    first, second = (task_values(arm, METRICS[PRIMARY]).values for arm in (a, b))
    common = [task for task in first if task in second]
    of_a, of_b = ([score for task in common for score in arm[task]] for arm in (first, second))
    if not common or min(len(of_a), len(of_b)) < 2 * len(common) or not {*of_a, *of_b} <= {0.0, 1.0}:
        return None
    both = [(first[task], second[task]) for task in common]
    tails, excess = drawn_sum([Stratum(int(sum(a)), len(a), int(sum(a) + sum(b)), len(a) + len(b)) for a, b in both])
    return WithinTasks(tails.two_sided, excess)


class Stratum(NamedTuple):
    """The trials of both arms on one task."""

    solved: int
    """By the first arm."""
    trials: int
    """Of the first arm."""
    all_solved: int
    """By both."""
    all_trials: int

    @property
    def least(self) -> int:
        """The fewest trials that the first arm may have solved, given the margins."""
        return max(0, self.all_solved - (self.all_trials - self.trials))

    @property
    def law(self) -> Floats:
        """The chance of each number of solved trials of the first arm, from `least` on."""
        solved = np.arange(self.least, min(self.trials, self.all_solved) + 1.0)
        rest = log_choices(self.all_trials - self.all_solved, self.trials - solved)
        law = np.exp(log_choices(self.all_solved, solved) + rest - log_choices(self.all_trials, self.trials))
        return np.asarray(law / law.sum(), dtype=np.float64)


def drawn_sum(strata: Sequence[Stratum]) -> tuple[FlipTails, float]:
    """Return the tails of the first arm's solved trials over all strata, and how many there are above those expected."""
    law, above_least, excess = np.ones(1), 0, 0.0
    for stratum in strata:
        law = np.convolve(law, stratum.law)
        above_least += stratum.solved - stratum.least
        excess += stratum.solved - stratum.trials * stratum.all_solved / stratum.all_trials
    tails = FlipTails(min(1.0, float(law[above_least:].sum())), min(1.0, float(law[: above_least + 1].sum())))
    return tails, excess
