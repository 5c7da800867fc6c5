"""One arm in the baseline and in the run, paired trial by trial."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from whichloop.experiments.compare.results import Results
from whichloop.metrics.record import Record
from whichloop.metrics.summary import GAINS, METRICS, PRIMARY, SHARES, TaskValues
from whichloop.protocol import StopReason

from .baseline import NO_TRIAL, Baseline, BaselineArm, TaskLine, answer_in_brief, hung_before, outcome_of, stop_of, stored_value
from .reasons import hung

ANSWERED, LIMITED, FAILED, CRASHED = range(4)
GRAVITY: Mapping[str, int] = MappingProxyType(
    {
        StopReason.FINISHED: ANSWERED,
        StopReason.FORCED: ANSWERED,
        StopReason.MAX_STEPS: LIMITED,
        StopReason.UNFINISHED: LIMITED,
        StopReason.BUDGET: LIMITED,
        StopReason.CRASHED: CRASHED,
    }
)
"""How grave a stop is: the model answered, a limit that the user set was reached, or the loop crashed; all other stops failed."""
HANG_TRIALS = 3
"""Trials that tell that a loop hangs: the first of an arm, if all of them end at their time limit."""


def is_graver(was: str | None, now: str | None) -> bool:
    """Whether a trial ends more gravely than it did: by a limit in place of an answer, by a failure, or by a crash."""
    return was is not None and now is not None and GRAVITY.get(now, FAILED) > GRAVITY.get(was, FAILED)


@dataclass(frozen=True)
class TrialPair:
    """A trial and its counterpart in the baseline."""

    line: TaskLine
    record: Record

    @cached_property
    def same(self) -> bool:
        """Whether both results are the same; trials that gave none, as on both sides the infrastructure failed, are alike."""
        return self.line.outcome[self.record.repeat] == outcome_of(self.record)

    @property
    def stops(self) -> tuple[str | None, str | None]:
        return self.line.stop[self.record.repeat], stop_of(self.record)

    @property
    def answers(self) -> tuple[str | None, str | None]:
        return self.line.answer[self.record.repeat], answer_in_brief(self.record)

    def values(self, metric: str) -> tuple[float | None, float | None]:
        """Return the metric in the baseline and in the run; None where it is not known."""
        return self.line.values(metric)[self.record.repeat], stored_value(self.record, metric)

    def gain(self, metric: str = PRIMARY) -> float | None:
        """Return by how much a metric is better, below 0 for worse; None where one side does not know it.

        0 for a share of some that the baseline has no value of, and the run the best one: no call ran, and now each runs once.
        """
        was, now = self.values(metric)
        if was is None or now is None:
            best = 1.0 if metric in GAINS else 0.0
            return 0.0 if was is now or (is_share_of_some(metric) and was is None and now == best) else None
        return now - was if metric in GAINS else was - now

    @property
    def is_scored(self) -> bool:
        return None not in self.values(PRIMARY)


def is_share_of_some(metric: str) -> bool:
    """Whether a metric is a share that not every trial has, such as that of calls made twice, which takes a call."""
    return metric in SHARES and METRICS[metric].of_some


@dataclass(frozen=True)
class Sides:
    """An arm in the baseline and in the run."""

    arm: str
    """The arm's name in the run."""
    blessed: BaselineArm
    old: Mapping[str, TaskLine]
    new: Mapping[str, Mapping[int, Record]]
    """Task → repeat → record."""

    @classmethod
    def of(cls, run: Results, arm: str, baseline: Baseline, old: str, only: Collection[str] | None = None) -> Sides:
        """Return both sides of an arm; `old`: its name in the baseline. `only`: the tasks to judge by; None: all of them."""
        new: dict[str, dict[int, Record]] = {}
        for record in sorted(run.records, key=lambda record: record.key):  # the order in which trials ended decides nothing
            if record.arm == arm and (only is None or record.task in only):
                new.setdefault(record.task, {})[record.repeat] = record
        blessed = baseline.arms[old]
        return cls(arm, blessed, {task: line for task, line in blessed.tasks.items() if only is None or task in only}, new)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for by_repeat in self.new.values() for record in by_repeat.values())

    @cached_property
    def pairs(self) -> tuple[TrialPair, ...]:
        """The trials with their counterparts; only equal seeds and repeats make the pairs meaningful."""
        return tuple(
            TrialPair(self.old[record.task], record)
            for record in self.records
            if record.task in self.old and record.repeat < len(self.old[record.task].stop)
        )

    @property
    def errored_before(self) -> float:
        """The share of the baseline's trials that errored."""
        outcomes = [outcome for line in self.old.values() for outcome in line.outcome if outcome != NO_TRIAL]
        return outcomes.count(None) / max(len(outcomes), 1)

    def values(self, metric: str, *, paired: bool = False) -> tuple[TaskValues, TaskValues]:
        """Return the values by which a metric is judged, of the baseline and of the run.

        `paired`: of a share that not every trial has, those of the trials that have it on both sides: else a trial in which a call
        runs for the first time would count on one side alone, and make the means differ though nothing got worse.
        """
        old: dict[str, list[float]] = {}
        new: dict[str, list[float]] = {}
        clusters = {record.task: record.cluster for record in self.records}
        if paired and is_share_of_some(metric):
            for pair in self.pairs:
                was, now = pair.values(metric)
                if was is not None and now is not None:
                    old.setdefault(pair.record.task, []).append(was)
                    new.setdefault(pair.record.task, []).append(now)
        else:
            old = {task: [value for value in line.values(metric) if value is not None] for task, line in self.old.items()}
            for record in self.records:
                if (value := stored_value(record, metric)) is not None:
                    new.setdefault(record.task, []).append(value)
        return TaskValues({task: each for task, each in old.items() if each}, {}), TaskValues(new, clusters)

    @property
    def whole(self) -> bool:
        """Whether every trial of the baseline has its counterpart, and none is without one."""
        blessed = sum(outcome != NO_TRIAL for line in self.old.values() for outcome in line.outcome)
        return len(self.pairs) == blessed == len(self.records)

    def identical(self, metrics: Iterable[str]) -> bool:
        """Whether every trial of the baseline has the same result in the run, these metrics included."""
        return self.whole and all(pair.same and all(was == now for was, now in map(pair.values, metrics)) for pair in self.pairs)

    def unchanged(self, metric: str) -> bool:
        """Whether every trial of the baseline ran again with the same value of the metric; the stop is another question."""
        return self.whole and all(pair.gain(metric) == 0 and (pair.record.status != "errored" or pair.same) for pair in self.pairs)

    def none_worse(self, metric: str) -> bool:
        """Whether every trial of the baseline ran again, has a score on both sides, and none has a worse value of the metric."""
        gains = [pair.gain(metric) for pair in self.pairs]
        return self.whole and all(pair.is_scored for pair in self.pairs) and all(gain is not None and gain >= 0 for gain in gains)

    @property
    def gained(self) -> bool:
        """Whether some trials score higher than in the baseline, and none lower; the stops are another question."""
        return self.none_worse(PRIMARY) and any(pair.gain() for pair in self.pairs)

    @property
    def lost(self) -> bool:
        """Whether some trials score lower than in the baseline, and none higher; every one of them has a score on both sides."""
        gains = [pair.gain() for pair in self.pairs if pair.is_scored]
        return self.whole and len(gains) == len(self.pairs) and any(gains) and all((gain or 0) <= 0 for gain in gains)

    @property
    def graver(self) -> list[TrialPair]:
        """The trials of the same score that end more gravely."""
        return [pair for pair in self.pairs if pair.gain() == 0 and is_graver(*pair.stops)]

    @property
    def crashes(self) -> list[Record]:
        """The trials that crash now, and did not."""
        return [pair.record for pair in self.pairs if pair.stops[1] == StopReason.CRASHED != pair.stops[0]]

    @property
    def other_answers(self) -> list[TrialPair]:
        """The trials with a score above 0, and the same score and stop, that have another answer."""
        return [
            pair
            for pair in self.pairs
            if pair.gain() == 0 and pair.values(PRIMARY)[1] and len(set(pair.stops)) == 1 and len(set(pair.answers)) == 2
        ]

    @property
    def hung_before(self) -> bool:
        return hung_before(self.blessed)

    @property
    def hangs(self) -> bool:
        """Whether all trials that the arm has, three at least, or as many as it is to have, end at their time limit."""
        least = min(HANG_TRIALS, sum(len(line.stop) for line in self.old.values()))
        return not self.hung_before and len(self.records) >= least > 0 and all(map(hung, self.records))


def show_command(folder: Path, record: Record) -> str:
    """Return the command that shows a trial of the run in this directory; empty if it has no trace to show."""
    return "" if not record.trace_at else f"whichloop show {shlex.quote(str(folder))} {shlex.quote(record.name)}"
