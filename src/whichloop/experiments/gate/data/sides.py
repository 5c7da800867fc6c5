"""One arm in the baseline and in the run, paired trial by trial."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_warnings import MAX_ERRORED
from whichloop.metrics.record import Record
from whichloop.metrics.summary import GAINS, METRICS, PRIMARY, SHARES, TaskValues, dollars_of_trial
from whichloop.protocol import StopReason

from .baseline import NO_TRIAL, Baseline, TaskLine, answer_in_brief, outcome_of, stored_value
from .troubles import all_hung, short_arm


def is_share_of_some(metric: str) -> bool:
    """Whether a metric is a share that not every trial has, such as that of calls made twice, which takes a call."""
    return metric in SHARES and METRICS[metric].of_some


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
    def same_score(self) -> bool:
        """Whether the score is that of the baseline."""
        return self.same_value(PRIMARY)

    @property
    def same_result(self) -> bool:
        """Whether score and stop are those of the baseline."""
        return self.same_score and self.line.stop[self.record.repeat] == stop_of(self.record)

    @property
    def answers(self) -> tuple[str | None, str | None]:
        """Return both answers in brief; the first is None in an older baseline."""
        was = None if self.line.answer is None else self.line.answer[self.record.repeat]
        return was, answer_in_brief(self.record)

    def same_value(self, metric: str) -> bool:
        was, now = self.both_values(metric)
        return was == now

    def both_values(self, metric: str) -> tuple[float | None, float | None]:
        """Return the metric in the baseline and in the run; None where it is not known."""
        return self.line.values(metric)[self.record.repeat], stored_value(self.record, metric)

    def has_new_best(self, metric: str) -> bool:
        """Whether the metric is a share of which the baseline has no value, and the run the best possible one: no call of the
        blessed trial ran, and now each one runs once."""
        was, now = self.both_values(metric)
        return is_share_of_some(metric) and was is None and now == (1.0 if metric in GAINS else 0.0)

    @property
    def is_scored(self) -> bool:
        """Whether both have a score."""
        return self.line.accuracy[self.record.repeat] is not None and self.record.status == "scored"

    @property
    def was_solved(self) -> bool:
        """Whether the blessed trial has the full score."""
        return (self.line.accuracy[self.record.repeat] or 0.0) >= 1

    @property
    def is_solved(self) -> bool:
        """Whether the trial of the run has it."""
        return self.record.status == "scored" and self.record.is_solved

    @property
    def is_newly_solved(self) -> bool:
        """Whether both have a score, and it is solved now and was not in the baseline."""
        return self.is_scored and self.is_solved and not self.was_solved

    def no_worse(self, metric: str) -> bool:
        """Whether the metric is known on both sides, or on neither, and not worse than in the baseline; or has a new best value."""
        was, now = self.both_values(metric)
        if was is None or now is None:
            return was is now or self.has_new_best(metric)
        return now >= was if metric in GAINS else now <= was

    def no_better(self, metric: str) -> bool:
        """Whether the metric is the baseline's, or not no worse than it."""
        return self.same_value(metric) or not self.no_worse(metric)


@dataclass(frozen=True)
class Sides:
    """An arm in the baseline and in the run."""

    arm: str
    """The arm's name in the run."""
    baseline_arm: str
    old: Mapping[str, TaskLine]
    new: Mapping[str, Mapping[int, Record]]
    """Task → repeat → record."""

    @classmethod
    def of(
        cls,
        run: Results,
        arm: str,
        baseline: Baseline,
        baseline_arm: str,
        only: Collection[str] | None = None,
        repeats: int | None = None,
    ) -> Sides:
        """Return both sides of an arm. `only`: the tasks to judge by, `repeats`: how many of the first repeats; None: all of
        them."""
        chosen = None if only is None else frozenset(only)
        new: dict[str, dict[int, Record]] = {}
        for record in sorted(run.records, key=lambda record: record.key):  # the order in which trials ended decides nothing
            is_judged = (chosen is None or record.task in chosen) and (repeats is None or record.repeat < repeats)
            if record.arm == arm and is_judged:
                new.setdefault(record.task, {})[record.repeat] = record
        blessed = baseline.arms[baseline_arm].tasks
        old = {task: line for task, line in blessed.items() if chosen is None or task in chosen}
        return cls(arm, baseline_arm, old if repeats is None else {task: line.first(repeats) for task, line in old.items()}, new)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for by_repeat in self.new.values() for record in by_repeat.values())

    @property
    def scored(self) -> int:
        return sum(record.status == "scored" for record in self.records)

    @property
    def cost_usd(self) -> float | None:
        """The mean cost of a trial of the run without cache discounts; None if no price is known."""
        costs = [value for record in self.records if (value := dollars_of_trial(record)) is not None]
        return sum(costs) / len(costs) if costs else None

    def troubles(self) -> Iterator[str]:
        """Yield the reasons why the baseline is invalid."""
        outcomes = [outcome for line in self.old.values() for outcome in line.outcome]
        errored = outcomes.count(None)
        if errored > MAX_ERRORED * len(outcomes):
            yield f"{short_arm(self.baseline_arm)}: {errored / len(outcomes):.1%} of its trials are errored in the baseline"

    def old_values(self, metric: str) -> TaskValues:
        """Return the baseline's values; a baseline has no clusters."""
        values_by_task = {task: [value for value in line.values(metric) if value is not None] for task, line in self.old.items()}
        return TaskValues({task: values for task, values in values_by_task.items() if values}, {})

    def new_values(self, metric: str) -> TaskValues:
        values: dict[str, list[float]] = {}
        clusters: dict[str, str] = {}
        for record in self.records:
            value = stored_value(record, metric)
            if value is not None:
                values.setdefault(record.task, []).append(value)
                clusters[record.task] = record.cluster
        return TaskValues(values, clusters)

    def knows(self, metric: str) -> bool:
        """Whether any trial has a metric, in the baseline or in the run."""
        return bool(self.old_values(metric).values or self.new_values(metric).values)

    def judged_values(self, metric: str, *, paired: bool) -> tuple[TaskValues, TaskValues]:
        """Return the values by which a metric is judged, of the baseline and of the run.

        Of a share that not every trial has, such as that of calls made twice, these are the values of the trials that have it on
        both sides, where trials have their counterparts (`paired`): else a trial in which a call runs for the first time would
        count on one side alone, and make the means differ though nothing got worse.
        """
        if not (paired and is_share_of_some(metric)):
            return self.old_values(metric), self.new_values(metric)
        before: dict[str, list[float]] = {}
        after: dict[str, list[float]] = {}
        clusters = {pair.record.task: pair.record.cluster for pair in self.pairs}
        for pair in self.pairs:
            was, now = pair.both_values(metric)
            if was is not None and now is not None:
                before.setdefault(pair.record.task, []).append(was)
                after.setdefault(pair.record.task, []).append(now)
        return TaskValues(before, {}), TaskValues(after, {task: clusters[task] for task in after})

    def compares(self, metric: str, *, paired: bool) -> bool:
        """Whether any task has a metric both in the baseline and in the run; of those that `judged_values` pairs, any trial."""
        before, after = self.judged_values(metric, paired=paired)
        return bool(before.values.keys() & after.values.keys())

    @cached_property
    def pairs(self) -> tuple[TrialPair, ...]:
        """The trials with their counterparts; only equal seeds and repeats make the pairs meaningful."""
        return tuple(
            TrialPair(self.old[record.task], record)
            for record in self.records
            if record.task in self.old and record.repeat < len(self.old[record.task].stop)
        )

    @property
    def whole(self) -> bool:
        """Whether every trial of the baseline has its counterpart, and none is without one."""
        blessed = sum(outcome != NO_TRIAL for line in self.old.values() for outcome in line.outcome)
        return len(self.pairs) == blessed == len(self.records)

    def unchanged(self, metric: str) -> bool:
        """Whether every trial of the baseline ran again with the same value of the metric, or with a new best one where it had
        none; the stop is another question."""
        return self.whole and all(
            (pair.same_value(metric) or pair.has_new_best(metric)) and (pair.record.status != "errored" or pair.same)
            for pair in self.pairs
        )

    def none_worse(self, metric: str) -> bool:
        """Whether every trial of the baseline ran again, has a score on both sides, and none has a worse value of the metric."""
        return self.whole and all(pair.is_scored and pair.no_worse(metric) for pair in self.pairs)

    @property
    def gained(self) -> bool:
        """Whether some trials score higher than in the baseline, and none lower; the stops are another question."""
        return self.none_worse(PRIMARY) and not all(pair.same_score for pair in self.pairs)

    @property
    def lost(self) -> bool:
        """Whether some trials score lower than in the baseline, and none higher; every one of them has a score on both sides."""
        all_scored = self.whole and all(pair.is_scored for pair in self.pairs)
        return (
            all_scored and all(pair.no_better(PRIMARY) for pair in self.pairs) and not all(pair.same_score for pair in self.pairs)
        )

    @property
    def died(self) -> bool:
        """Whether every scored trial crashes, where not every one of the baseline did."""
        now = [stop_of(record) for record in self.records if record.status == "scored"]
        was = [stop for line in self.old.values() for stop in line.stop if stop is not None]
        return bool(now) and set(now) == {StopReason.CRASHED} != set(was)

    @cached_property
    def hung(self) -> bool:
        """Whether the run's trials say that the loop hangs, where no trial of the baseline ended at its time limit."""
        scheduled = sum(len(line.stop) for line in self.old.values())
        return not self.hung_before and all_hung(self.records, scheduled)

    @property
    def hung_before(self) -> bool:
        """Whether a trial of the baseline ended at its time limit."""
        return any(StopReason.TIMEOUT in line.stop for line in self.old.values())

    @property
    def dead(self) -> bool:
        """Whether it crashes or hangs in every trial, and did not in the baseline."""
        return self.died or self.hung

    def identical(self, metrics: Iterable[str]) -> bool:
        """Whether every trial of the baseline has the same result in the run, these metrics included."""
        names = tuple(metrics)
        return self.whole and all(pair.same and all(map(pair.same_value, names)) for pair in self.pairs)


def show_command(folder: Path, arm: str, record: Record) -> str:
    """Return the command that shows a trial of the run in this directory; empty if it has no trace to show."""
    if record.trace_at is None:
        return ""
    return f"whichloop show {shlex.quote(str(folder))} {shlex.quote(f'{arm}/{record.task}/{record.repeat}')}"


def stop_of(record: Record) -> str | None:
    """Return a record's stop as a baseline stores it."""
    return record.stop if record.status == "scored" else None
