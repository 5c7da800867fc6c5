"""Running what is to be judged or blessed: to its end, or until it is plain that a loop hangs.

Each trial of such a loop takes its whole time limit, many of them one after another, and the first few tell as much as all. A
baseline of the scripted model, which never lets a loop wait, knows how long its trials took, and so when one hangs: long before the
usual limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from loopbench.experiments.compare.prepare import Experiment
from loopbench.experiments.compare.run import run_apart
from loopbench.metrics.record import Record
from loopbench.protocol import StopReason
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Progress

from .baseline import Baseline
from .comparable import match_arms
from .hangs import HANG_TRIALS, MIN_LIMIT_S, TIMES_SLOWEST, hung, stall_limit_s
from .names import short_arm

Run = Callable[[Experiment, Progress], str]
"""Runs the missing trials, and returns the reason for an early stop, or an empty text."""


class _Hangs(Exception):
    """A loop hangs; the text names its arm."""


class _Watching:
    """Progress that ends the run, by an exception, once the first trials of an arm have all ended at their time limit."""

    def __init__(self, progress: Progress, arms: Collection[str], limit: str) -> None:
        """`arms`: those that may end the run. `limit`: the trials' time limit, in words."""
        self._progress = progress
        self._limit = limit
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
            if self._hung[record.arm] == 1:
                self._progress.noted(
                    f"{short_arm(record.arm)}: a trial ended at its time limit, {self._limit}; if the first {HANG_TRIALS} do, "
                    "the run ends"
                )
            if self._hung[record.arm] == HANG_TRIALS:
                raise _Hangs(record.arm)

    def noted(self, text: str) -> None:
        """Pass a note on."""
        self._progress.noted(text)


def with_stall_limit(experiment: Experiment, baseline: Baseline) -> Experiment:
    """Return the experiment with a time limit by which a trial that hangs is known soon, where nobody typed one.

    The run's manifest keeps the configured limit, which holds where the run is continued. With a real model, or in real time, a
    trial may have to wait for as long as that.
    """
    limit_s = _stall_limit_s(experiment.config, baseline)
    if limit_s is None:
        return experiment
    return replace(experiment, config=experiment.config.model_copy(update={"trial_timeout_s": limit_s}))


def _stall_limit_s(config: CompareConfig, baseline: Baseline) -> float | None:
    """Return the limit, in seconds; None where the configured one, which somebody chose or which is as short, holds."""
    chosen = config.trial_timeout_s != CompareConfig.model_fields["trial_timeout_s"].default
    if chosen or baseline.slowest_s is None or config.opened_models or config.real_time:
        return None
    limit_s = stall_limit_s(baseline.slowest_s)
    return limit_s if limit_s < config.trial_timeout_s else None


def _limit_words(experiment: Experiment, baseline: Baseline | None) -> str:
    """Return `10 s (20 times what the slowest blessed trial took, and at least 10 s)`."""
    limit_s = experiment.config.trial_timeout_s
    derived = baseline is not None and baseline.slowest_s is not None and limit_s == stall_limit_s(baseline.slowest_s)
    return (
        f"{limit_s:g} s{f' ({TIMES_SLOWEST} times what the slowest blessed trial took, and at least {MIN_LIMIT_S:g} s)' * derived}"
    )


def run_unless_it_hangs(experiment: Experiment, progress: Progress, baseline: Baseline | None = None, run: Run = run_apart) -> str:
    """Run the missing trials like `run`, and end the run, with a note, once a loop hangs that did not hang in the baseline.

    Return the reason for another early stop, or an empty text. Without a `baseline` any loop that hangs ends the run.
    """
    arms = [arm.name for arm in experiment.arms]
    if baseline is not None:
        matched = match_arms(experiment.manifest, baseline)
        arms = [arm for old, arm in matched.items() if arm is not None and not _ever_hung(baseline, old)]
    try:
        return run(experiment, _Watching(progress, arms, _limit_words(experiment, baseline)))
    except _Hangs as error:
        progress.noted(
            f"{short_arm(str(error))} hangs: its first {HANG_TRIALS} trials ended at their time limit, so the run ends, and the "
            "other trials are left out"
        )
        return ""


def _ever_hung(baseline: Baseline, arm: str) -> bool:
    return any(StopReason.TIMEOUT in line.stop for line in baseline.arms[arm].tasks.values())
