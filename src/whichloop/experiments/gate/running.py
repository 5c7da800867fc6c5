"""Running what is to be judged or blessed: to its end, or until it is plain that a loop hangs.

Each trial of such a loop takes its whole time limit, many of them one after another, and the first few tell as much as all. A
baseline of the scripted model, which never lets a loop wait, knows how long its trials took, and so when one hangs: long before the
usual limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.run import run_apart
from whichloop.metrics.record import Record
from whichloop.protocol import StopReason
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Progress

from .comparable import match_arms
from .data.baseline import Baseline
from .data.troubles import HANG_TRIALS, MIN_LIMIT_S, TIMES_SLOWEST, hung, short_arm, stall_limit_s, was_interrupted

Run = Callable[[Experiment, Progress], str]
"""Runs the missing trials, and returns the reason for an early stop, or an empty text."""


class _Hangs(Exception):
    """A loop hangs; the text says which trials show it."""


class _Watching:
    """Progress that ends the run, by an exception, once the first trials of an arm have all ended at their time limit, or the first
    of the whole run, where it is judged, or as many of it were interrupted."""

    def __init__(
        self,
        progress: Progress,
        arms: Collection[str],
        limit: str,
        *,
        counts_all: bool,
        is_judged: bool = True,
        slowest_s: float | None = None,
        at_once: int = 1,
    ) -> None:
        """`arms`: those that may end the run. `limit`: the trials' time limit, in words. `counts_all`: whether trials that were
        interrupted end it wherever they stand. `is_judged`: whether the run is held against a baseline. `slowest_s`: wall time of
        the slowest blessed trial; None where a trial that takes far longer is nothing to tell. `at_once`: how many trials run
        beside each other."""
        self._progress = progress
        self._limit = limit
        self._able = frozenset(arms)
        self._only_hung = set(arms)
        """Arms of which no trial has ended otherwise."""
        self._hung = Counter[str]()
        self._counts_all = counts_all
        self._nothing_else_ended = is_judged
        """Whether all trials of a judged run that have ended are trials that hang."""
        self._interrupted = 0
        self._slowest_s = slowest_s
        self._at_once = at_once
        self._slow: Record | None = None
        """The first trial that took far longer than the slowest blessed one."""
        self._ended_since = 0
        """How many trials have ended after that one."""

    def finished(self, record: Record) -> None:
        """Pass a record on. Raises _Hangs."""
        self._progress.finished(record)
        self._watch_time(record)
        if not hung(record) or record.arm not in self._able:
            self._nothing_else_ended = False
        if not hung(record):
            self._only_hung.discard(record.arm)
        elif record.arm in self._able:
            self._hung[record.arm] += 1
            self._interrupted += was_interrupted(record)
            if self._hung.total() == 1:
                in_all = f"{HANG_TRIALS} trials are interrupted, or " if self._counts_all else ""
                where = f"{in_all}the first {HANG_TRIALS} of an arm end there"
                self._progress.noted(
                    f"{short_arm(record.arm)}: a trial ended at its time limit, {self._limit}; if {where}, the run ends"
                )
            if record.arm in self._only_hung and self._hung[record.arm] == HANG_TRIALS:
                raise _Hangs(f"{short_arm(record.arm)} hangs: its first {HANG_TRIALS} trials ended at their time limit")
            if self._nothing_else_ended and self._hung.total() == HANG_TRIALS:
                raise _Hangs(f"the first {HANG_TRIALS} trials of all ended at their time limit")
            if self._counts_all and self._interrupted == HANG_TRIALS:
                raise _Hangs(f"{HANG_TRIALS} trials hung and were interrupted, the last of them {record.name}")

    def _watch_time(self, record: Record) -> None:
        """Note a trial that took far longer than the blessed ones, unless one hangs: it may only have waited for that one.

        It is told once as many others have ended as run beside it, since one of these that hangs has ended by then.
        """
        if self._slowest_s is None:
            return
        if hung(record):
            self._slowest_s = None
        elif self._slow is not None:
            self._ended_since += 1
            if self._ended_since >= self._at_once:
                self.tell_slow_trial()
        elif record.wall_s > stall_limit_s(self._slowest_s):
            self._slow = record

    def tell_slow_trial(self) -> None:
        """Note the trial that took far longer than the blessed ones, if there is one and it was not told yet."""
        if self._slowest_s is not None and self._slow is not None:
            self._progress.noted(
                f"{self._slow.name} took {self._slow.wall_s:.0f} s, and the slowest blessed trial {self._slowest_s:.2f} s; the "
                "time limit is on the time without a request or a call, so trials that go on are not ended, and the run may take "
                "long"
            )
            self._slowest_s = None  # once is enough

    def noted(self, text: str) -> None:
        """Pass a note on."""
        self._progress.noted(text)

    def interrupted(self, text: str) -> None:
        """Pass on what an interrupted run waits for."""
        self._progress.interrupted(text)


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
    if not derived:
        return f"{limit_s:g} s"
    return f"{limit_s:g} s ({TIMES_SLOWEST} times what the slowest blessed trial took, and at least {MIN_LIMIT_S:g} s)"


def run_unless_it_hangs(experiment: Experiment, progress: Progress, baseline: Baseline | None = None, run: Run = run_apart) -> str:
    """Run the missing trials like `run`, and end the run, with a note, once a loop hangs that did not hang in the baseline: at the
    first trials of an arm, if all of them hang, and with the scripted model at as many that were interrupted, wherever they stand.

    Return the reason for another early stop, or an empty text. Without a `baseline` any loop that hangs ends the run.
    """
    arms = [arm.name for arm in experiment.arms]
    if baseline is not None:
        matched = match_arms(experiment.manifest, baseline)
        arms = [arm for old, arm in matched.items() if arm is not None and not ever_hung(baseline, old)]
    try:
        is_scripted = _is_scripted(experiment, baseline)
        slowest_s = baseline.slowest_s if baseline is not None and is_scripted else None
        limit = _limit_words(experiment, baseline)
        watching = _Watching(
            progress,
            arms,
            limit,
            counts_all=is_scripted,
            is_judged=baseline is not None,
            slowest_s=slowest_s,
            at_once=experiment.config.in_flight,
        )
        stopped = run(experiment, watching)
        watching.tell_slow_trial()
        return stopped
    except _Hangs as error:
        progress.noted(f"{error}, so the run ends, and the other trials are left out")
        return ""


def _is_scripted(experiment: Experiment, baseline: Baseline | None) -> bool:
    """Whether a run is judged whose trials need no other time than their loop takes."""
    return baseline is not None and not experiment.config.opened_models and not experiment.config.real_time


def ever_hung(baseline: Baseline, arm: str) -> bool:
    """Whether a trial of one of the baseline's arms ended at its time limit."""
    return any(StopReason.TIMEOUT in line.stop for line in baseline.arms[arm].tasks.values())
