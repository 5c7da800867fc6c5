"""Running what is to be judged or blessed: to its end, or until it is plain that a loop hangs.

Each trial of such a loop takes its whole time limit, many of them one after another, and the first few tell as much as all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from loopbench.experiments.compare.prepare import Experiment
from loopbench.experiments.compare.run import run_apart
from loopbench.metrics.record import Record
from loopbench.protocol import StopReason
from loopbench.runs.engine.runner import Progress

from .baseline import Baseline
from .comparable import match_arms
from .hangs import HANG_TRIALS, hung
from .names import short_arm

Run = Callable[[Experiment, Progress], str]
"""Runs the missing trials, and returns the reason for an early stop, or an empty text."""


class _Hangs(Exception):
    """A loop hangs; the text names its arm."""


class _Watching:
    """Progress that ends the run, by an exception, once the first trials of an arm have all ended at their time limit."""

    def __init__(self, progress: Progress, arms: Collection[str]) -> None:
        """`arms`: those that may end the run."""
        self._progress = progress
        self._arms = set(arms)
        """Arms of which no trial has ended otherwise."""
        self._hung = Counter[str]()

    def finished(self, record: Record) -> None:
        """Pass a record on. Raises _Hangs."""
        self._progress.finished(record)
        if not hung(record):
            self._arms.discard(record.arm)
        elif record.arm in self._arms:
            self._hung[record.arm] += 1
            if self._hung[record.arm] == HANG_TRIALS:
                raise _Hangs(record.arm)

    def noted(self, text: str) -> None:
        """Pass a note on."""
        self._progress.noted(text)


def run_unless_it_hangs(experiment: Experiment, progress: Progress, baseline: Baseline | None = None, run: Run = run_apart) -> str:
    """Run the missing trials like `run`, and end the run, with a note, once a loop hangs that did not hang in the baseline.

    Return the reason for another early stop, or an empty text. Without a `baseline` any loop that hangs ends the run.
    """
    arms = [arm.name for arm in experiment.arms]
    if baseline is not None:
        matched = match_arms(experiment.manifest, baseline)
        arms = [arm for old, arm in matched.items() if arm is not None and not _ever_hung(baseline, old)]
    try:
        return run(experiment, _Watching(progress, arms))
    except _Hangs as error:
        progress.noted(
            f"{short_arm(str(error))} hangs: its first {HANG_TRIALS} trials ended at their time limit, so the run ends, and the "
            "other trials are left out"
        )
        return ""


def _ever_hung(baseline: Baseline, arm: str) -> bool:
    return any(StopReason.TIMEOUT in line.stop for line in baseline.arms[arm].tasks.values())
