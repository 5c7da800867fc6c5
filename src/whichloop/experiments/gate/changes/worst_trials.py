"""The trial in which each metric beside accuracy got most worse, for lines that a run is held to, or that are open."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from whichloop.experiments.compare.results import results
from whichloop.experiments.gate.data.baseline import Baseline, TaskLine, stored_value
from whichloop.experiments.gate.data.findings import Growth, WorstTrial
from whichloop.experiments.gate.data.outcome import GateArm
from whichloop.experiments.gate.data.sides import Sides, TrialPair, show_command
from whichloop.experiments.gate.data.troubles import by_arm_of
from whichloop.metrics.gate import GateLine
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import records_digest
from whichloop.metrics.summary import GAINS, PRIMARY
from whichloop.metrics.trace import ToolRun, Trace
from whichloop.metrics.trajectory.failure_text import times
from whichloop.metrics.trajectory.failures import TracedTrial
from whichloop.metrics.trajectory.trajectory import TracedStep, call_text, unmatched
from whichloop.metrics.trajectory.written_calls import OwnRun, RequestCounts, own_runs
from whichloop.protocol.values import counted
from whichloop.runs.store.traces import Traces

from .traced_trials import TracedTrials

LONGER = 1.1
"""How many times as long a call of the model is that is told of beside others: 10 % more, as of a bill that nothing judges."""


@dataclass(frozen=True)
class Counterpart:
    """The blessed trial: what the baseline keeps of it, and, where the blessed run is at hand, what it says itself."""

    line: TaskLine
    repeat: int
    record: Record | None = None
    requests: RequestCounts | None = None
    """None where its trace is not at hand."""

    def value(self, metric: str) -> float | None:
        """Return what the baseline keeps of a metric; None where it is not known."""
        return self.line.values(metric)[self.repeat]


def cause_of(trial: TracedTrial, was: Counterpart) -> str:
    """Return why a trial took more; empty where nothing of it is known.

    It tells of more calls of the model, and how many of these the loop made again; of tool calls that it made again, or that are
    new; and of longer calls of the model, of those that are longer by little where there is nothing else to tell.
    """
    requests = RequestCounts.of(trial.trace)
    more = [*_more_model_calls(trial.record, requests, was), *_more_tool_calls(trial)]
    longer = [*_longer_calls(trial.record, requests, was, LONGER)]
    return "; ".join([*more, *longer] or _longer_calls(trial.record, requests, was, 1.0))


def _more_model_calls(record: Record, requests: RequestCounts, was: Counterpart) -> Iterator[str]:
    now, before = record.lm_calls, was.value("lm_calls")
    if before is None or now <= before:
        return
    yield f"{counted(now, 'model call')}, not {before:,.0f}{_sent_again(requests, was.requests)}"


def _sent_again(now: RequestCounts, was: RequestCounts | None) -> str:
    """Return how often the loop sent a request again as it was, and how often after an error; empty where it did so no more often
    than in the blessed trial."""
    if now.again <= (0 if was is None else was.again):
        return ""
    after = ""
    if now.again_after_error:
        of_them = "" if now.again_after_error == now.again else f", {times(now.again_after_error)}"
        after = f"{of_them} after an error or a reply that it could not read"
    return f": the loop sent the same request again {times(now.again)}{after}"


def _more_tool_calls(trial: TracedTrial) -> Iterator[str]:
    """Yield the tool calls that the blessed trial lacks: those that the loop made again by itself, else any that are new."""
    if not trial.other:
        return
    signatures = [step.signature for step in trial.course]
    new_places, missing = unmatched(trial.other, signatures), unmatched(signatures, trial.other)
    new_calls = [step for place, step in enumerate(trial.course) if place in new_places and _ran(trial, step)]
    new_events = {step.event for step in new_calls}
    again = [run for run in own_runs(trial) if run.event in new_events]
    if again:
        yield _made_again(again)
    elif len(new_calls) > len(missing):  # and not others in the place of as many
        first = f", the first {new_calls[0].text}" if len(new_calls) > 1 else f", {new_calls[0].text}"
        yield f"{counted(len(new_calls), 'tool call')} that the blessed trial does not have{first}"


def _ran(trial: TracedTrial, step: TracedStep) -> bool:
    """Whether a step is a call that a tool ran, and not one that was passed over."""
    return step.event is not None and isinstance(trial.events[step.event], ToolRun)


def _made_again(runs: list[OwnRun]) -> str:
    """Return which call the loop made again most often, whether it had failed, and how many others it made again."""
    often = Counter(run.call.key for run in runs)
    first = max(runs, key=lambda run: often[run.call.key])
    others = len(often) - 1
    though = "after it had failed" if first.after_failure else "though it had given a result"
    also = f", and {counted(others, 'other call')}, too" if others else ""
    how_often = "" if often[first.call.key] == 1 else f" {times(often[first.call.key])}"
    return f"the loop made the call {call_text(first.call)} again by itself{how_often}, {though}{also}"


def _longer_calls(record: Record, requests: RequestCounts, was: Counterpart, at_least: float) -> Iterator[str]:
    """Yield how much longer a call of the model is, in its prompt and in its reply where both are known, and how many messages the
    longest request shows. `at_least`: how many times as long it is to be; one that is as long is never told."""
    calls, before, tokens = record.lm_calls, was.value("lm_calls"), was.value("tokens")
    if not (calls and before and tokens):
        return
    same = f"the same {counted(calls, 'model call')}: " if calls == before else ""
    parts = list(_parts_longer(record, was.record, calls, before, at_least))
    if was.record is None and _is_longer(record.tokens / calls, tokens / before, at_least):
        prompts = f", of which prompts are {100 * record.input_tokens / record.tokens:.0f} %" if record.input_tokens else ""
        now_text, before_text = _told_apart(record.tokens / calls, tokens / before)
        parts = [f"{now_text} tokens a model call, not {before_text}{prompts}"]
    blessed = was.requests
    if blessed is not None and requests.most_messages > blessed.most_messages:
        parts.append(f"up to {counted(requests.most_messages, 'message')} in a request, not {blessed.most_messages:,}")
    if parts:
        yield f"{same}{', '.join(parts)}"


def _parts_longer(now: Record, was: Record | None, calls: int, calls_before: float, at_least: float) -> Iterator[str]:
    if was is None:
        return
    for name, tokens, before in (
        ("prompts", now.input_tokens, was.input_tokens),
        ("replies", now.output_tokens, was.output_tokens),
    ):
        if before and _is_longer(tokens / calls, before / calls_before, at_least):
            now_text, before_text = _told_apart(tokens / calls, before / calls_before)
            yield f"longer {name} ({now_text} tokens a call, not {before_text})"


def _is_longer(now: float, before: float, at_least: float) -> bool:
    return now >= at_least * before and now > before


def _told_apart(now: float, before: float) -> tuple[str, str]:
    """Return both numbers of tokens, whole, or with so many digits that they differ as written, at most two."""
    digits = next((digits for digits in (0, 1) if f"{now:.{digits}f}" != f"{before:.{digits}f}"), 2)
    return f"{now:,.{digits}f}", f"{before:,.{digits}f}"


_Key = tuple[str, str, int]
"""The arm's name in the baseline, task and repeat of a trial."""


class BlessedTrials:
    """Reads trials of the blessed run. A run of the same name with other records is another one."""

    def __init__(self, run_folder: Path, baseline: Baseline) -> None:
        """`run_folder`: the directory of the run that is judged, beside which the blessed one is looked for."""
        self._folder = run_folder.parent / baseline.run
        self._baseline = baseline

    @cached_property
    def _records(self) -> Mapping[_Key, Record]:
        """The records of the arms that are the blessed ones; none where the run is not there, or cannot be read."""
        if not self._baseline.run or not self._folder.is_dir():
            return {}
        try:
            by_arm = by_arm_of(results(self._folder))
        except (ValueError, OSError):  # an example is told without it
            return {}
        return {
            record.key: record
            for arm, blessed in self._baseline.arms.items()
            if arm in by_arm and records_digest(by_arm[arm]) == blessed.digest
            for record in by_arm[arm]
        }

    def record(self, arm: str, task: str, repeat: int) -> Record | None:
        """Return the record of a blessed trial; None where the run is not there."""
        return self._records.get((arm, task, repeat))

    def trace(self, arm: str, task: str, repeat: int) -> Trace | None:
        """Return the trace of a blessed trial; None where there is none that can be read."""
        record = self.record(arm, task, repeat)
        try:
            return None if record is None or record.trace_at is None else Traces(self._folder).read(record)
        except (ValueError, OSError):
            return None

    def command(self, arm: str, task: str, repeat: int) -> str:
        """Return the command that shows a blessed trial; empty where there is nothing to show."""
        record = self.record(arm, task, repeat)
        return "" if record is None else show_command(self._folder, arm, record)


HELD = ("regression", "undecided")
"""Outcomes of a line of which a trial is named."""
Loss = tuple[float, float, float, Record]
"""By how much a trial got worse, both values, and its record."""


def worst_trials(
    traced: TracedTrials, baseline: Baseline, sides: Sequence[Sides], arms: Iterable[GateArm], *, paired: bool
) -> tuple[WorstTrial, ...]:
    """Return the worst trial of each line that a run is held to, or that is open, accuracy aside: its lost tasks are told.

    It is the one with the largest difference, since sums over trials are judged, and not the one with the largest ratio. Of an
    amount it is one that both sides solved, if any of these got worse: a trial that failed early took little.
    `paired`: whether trials have their counterparts; where they have none, it is one of the task whose mean got most worse.
    """
    blessed, by_arm = BlessedTrials(traced.folder, baseline), {side.arm: side for side in sides}
    lines = [line for arm in arms for line in arm.lines if line.metric != PRIMARY and line.outcome in HELD]
    candidates = (_worst(traced, blessed, by_arm[line.arm], line, paired=paired) for line in lines)
    return tuple(worst for worst in candidates if worst is not None)


def _worst(traced: TracedTrials, blessed: BlessedTrials, side: Sides, line: GateLine, *, paired: bool) -> WorstTrial | None:
    losses = _paired_losses(side, line) if paired else [*_losses_of_tasks(side, line.metric)]
    loss, was, now, record = max(losses, key=lambda each: each[0], default=(0.0, 0.0, 0.0, None))
    if record is None or loss <= 0:
        return None
    blessed_name = (side.baseline_arm, record.task, record.repeat)
    return WorstTrial(
        arm=side.arm,
        metric=line.metric,
        task=record.task,
        repeat=record.repeat,
        was=was,
        now=now,
        newly_solved=paired and any(pair.is_newly_solved for pair in side.pairs if pair.record is record),
        cause=_cause(traced, blessed, side, record) if paired else "",
        command=show_command(traced.folder, side.arm, record),
        blessed_command=blessed.command(*blessed_name) if paired else "",
    )


def _loss(metric: str, was: float, now: float) -> float:
    return was - now if metric in GAINS else now - was


def _paired_losses(side: Sides, line: GateLine) -> list[Loss]:
    """Return the losses of the trials that both sides solved, where the line is of an amount and any of these got worse; else of
    all trials."""
    of_solved = [*_losses_of(line.metric, [pair for pair in side.pairs if pair.was_solved and pair.is_solved])]
    if line.is_ratio and any(loss > 0 for loss, *_ in of_solved):
        return of_solved
    return [*_losses_of(line.metric, side.pairs)]


def _losses_of(metric: str, pairs: Iterable[TrialPair]) -> Iterator[Loss]:
    """Yield by how much each trial got worse, both values and the record."""
    for pair in pairs:
        was, now = pair.both_values(metric)
        if was is not None and now is not None:
            yield _loss(metric, was, now), was, now, pair.record


def _losses_of_tasks(side: Sides, metric: str) -> Iterator[Loss]:
    """Yield by how much each task got worse on average, both means and the record of its worst trial."""
    before, after = side.old_values(metric).means, side.new_values(metric).means
    for task in after:
        if task in before:
            measured_records = [record for record in side.new[task].values() if stored_value(record, metric) is not None]
            worst = max(measured_records, key=lambda record: _loss(metric, 0.0, stored_value(record, metric) or 0.0))
            yield _loss(metric, before[task], after[task]), before[task], after[task], worst


def _cause(traced: TracedTrials, blessed: BlessedTrials, side: Sides, record: Record) -> str:
    """Return why the trial took more; empty where no readable trace says it."""
    try:
        trial = traced.read(record, side.old[record.task], record.repeat)
    except (ValueError, OSError):
        return ""
    place = (side.baseline_arm, record.task, record.repeat)
    trace = blessed.trace(*place)
    requests = None if trace is None else RequestCounts.of(trace)
    return cause_of(trial, Counterpart(side.old[record.task], record.repeat, blessed.record(*place), requests))


def growths(sides: Sequence[Sides], arms: Iterable[GateArm], *, paired: bool) -> Iterator[Growth]:
    """Yield the growth of each such amount that grew in an arm in which trials are solved now and were not.

    `paired`: whether trials have their counterparts; without these nobody knows which trials are newly solved.
    """
    by_arm = {side.arm: side for side in sides}
    lines = [line for arm in arms for line in arm.lines if line.is_ratio and line.outcome in HELD]
    for line in lines if paired else ():
        growth = _growth(by_arm[line.arm], line)
        if growth.newly_solved and growth.of_all > 0:
            yield growth


def _growth(side: Sides, line: GateLine) -> Growth:
    both = [(pair, *pair.both_values(line.metric)) for pair in side.pairs if pair.is_scored]
    amounts = [(pair, was, now) for pair, was, now in both if was is not None and now is not None]
    newly_solved = [(was, now) for pair, was, now in amounts if pair.is_newly_solved]
    return Growth(
        arm=side.arm,
        metric=line.metric,
        newly_solved=len(newly_solved),
        of_newly_solved=math.fsum(now - was for was, now in newly_solved),
        of_all=math.fsum(now - was for _, was, now in amounts),
        solved_before=sum(pair.was_solved for pair, _, _ in amounts),
        solved_now=sum(pair.is_solved for pair, _, _ in amounts),
        before=math.fsum(was for _, was, _ in amounts),
        now=math.fsum(now for _, _, now in amounts),
    )
