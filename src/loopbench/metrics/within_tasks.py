"""Two arms on these very tasks: what their repeats show, where tasks are too few to speak for others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .permutation import sign_flip
from .record import Record


@dataclass(frozen=True, slots=True)
class WithinTasks:
    """Two arms over the trials of equal task and repeat that were scored in both."""

    tasks: int
    trials: int
    a: float
    """The first arm's scores together: of single 0/1 scores the number of trials that it solved."""
    b: float
    p: float
    """Two-sided, of the null that in each such trial either arm might as well have had the other one's score."""

    def is_ahead(self, alpha: float) -> bool:
        """Whether the first arm is shown to have solved more of these tasks."""
        return self.p < alpha and self.a > self.b


def within_tasks(a: Sequence[Record], b: Sequence[Record]) -> WithinTasks | None:
    """Return what the repeats of two arms show; None where no task has two trials that were scored in both.

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
    p = sign_flip([first[key] - second[key] for key in common]).two_sided
    return WithinTasks(
        len(tasks), len(common), math.fsum(first[key] for key in common), math.fsum(second[key] for key in common), p
    )
