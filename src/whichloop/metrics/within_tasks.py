"""Two arms on these very tasks: what their repeats show, where tasks are too few to speak for others.

Repeats that met the same draws are paired. Others are compared by the exact test of Cochran, Mantel and Haenszel: under the null
that two arms are alike within each stratum, the trials that one arm solved are a draw without replacement from those that both
solved, hypergeometric given the margins, and over all strata their law is the convolution of these (Mehta, Patel and Gray 1985).
Only sums of probabilities are added up, so that the smallest p is as exact as the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from .bootstrap import FlipTails, sign_flip
from .record import Record
from .statistics import Floats

WithinTest = Callable[[Sequence[Record], Sequence[Record]], "WithinTasks | None"]
"""A test of two arms by their repeats; None where these cannot show anything."""


@dataclass(frozen=True, slots=True)
class WithinTasks:
    """Two arms over their scored trials of the tasks that both have."""

    tasks: int
    a: float
    """The first arm's scores together: of single 0/1 scores the number of trials that it solved."""
    b: float
    excess: float
    """How far `a` lies above what the null expects of it."""
    p: float
    """Two-sided, of the null that within each task either arm might as well have had the other one's scores."""
    spread: float = 0.0
    """Sum of the squared differences of paired trials: of 0/1 scores the number of trials in which they differ."""
    repeats: float = 0.0
    """Trials of a task, on average; 0 where trials are not paired."""
    tested: int = 1
    """Number of pairs that `p` is adjusted for (Bonferroni)."""

    @property
    def trials(self) -> float:
        """Number of paired trials."""
        return self.tasks * self.repeats

    @property
    def turned(self) -> WithinTasks:
        """The same with b as the first arm."""
        return replace(self, a=self.b, b=self.a, excess=-self.excess)

    def is_apart(self, alpha: float) -> bool:
        """Whether the two arms are shown to differ on these tasks."""
        return self.p < alpha


def paired_within_tasks(a: Sequence[Record], b: Sequence[Record]) -> WithinTasks | None:
    """Return what the repeats of two arms show that met the same draws; None where no task has two trials scored in both.

    The test is the exact one of `sign_flip` with trials as units, each paired with the other arm's of the same task and repeat, so
    that tasks are strata: of 0/1 scores it is McNemar's. It says nothing of any other task.
    """
    first, second = (
        {(record.task, record.repeat): record.accuracy for record in arm if record.status == "scored"} for arm in (a, b)
    )
    common = [key for key in first if key in second]
    tasks = {task for task, _ in common}
    if len(common) < 2 * len(tasks) or not common:
        return None
    apart = [first[key] - second[key] for key in common]
    p, spread = sign_flip(apart).two_sided, math.fsum(each * each for each in apart)
    one, other = math.fsum(first[key] for key in common), math.fsum(second[key] for key in common)
    return WithinTasks(len(tasks), one, other, (one - other) / 2, p, spread, len(common) / len(tasks))


def unpaired_within_tasks(a: Sequence[Record], b: Sequence[Record]) -> WithinTasks | None:
    """Return what the repeats of two arms show that share nothing but the task, as those of imported runs.

    The test is the exact one of Cochran, Mantel and Haenszel with tasks as strata (`drawn_sum`): the order and the numbers of the
    repeats do not matter. None where some score is neither 0 nor 1, and where an arm has no two trials of a task.
    """
    first, second = (_by_task(arm) for arm in (a, b))
    common = [task for task in first if task in second]
    of_a, of_b = ([score for task in common for score in arm[task]] for arm in (first, second))
    if not common or min(len(of_a), len(of_b)) < 2 * len(common) or not {*of_a, *of_b} <= {0.0, 1.0}:
        return None
    counts = [(first[task], second[task]) for task in common]
    total = drawn_sum([Stratum(int(sum(a)), len(a), int(sum(a) + sum(b)), len(a) + len(b)) for a, b in counts])
    return WithinTasks(len(common), math.fsum(of_a), math.fsum(of_b), total.excess, total.tails.two_sided)


def _by_task(arm: Sequence[Record]) -> Mapping[str, list[float]]:
    tasks: dict[str, list[float]] = {}
    for record in arm:
        if record.status == "scored":
            tasks.setdefault(record.task, []).append(record.accuracy)
    return tasks


# Trials drawn within strata.


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
    return np.asarray(
        scipy.special.gammaln(n + 1.0) - scipy.special.gammaln(k + 1.0) - scipy.special.gammaln(n - k + 1.0), dtype=np.float64
    )
