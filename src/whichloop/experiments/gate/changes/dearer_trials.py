"""Why a trial took more than its counterpart, as far as a baseline and the traces of both say it, in a clause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from whichloop.experiments.gate.data.baseline import TaskLine
from whichloop.metrics.record import Record
from whichloop.metrics.trace import ToolRun
from whichloop.metrics.trajectory.failure_text import times
from whichloop.metrics.trajectory.failures import TracedTrial
from whichloop.metrics.trajectory.trajectory import TracedStep, call_text, unmatched
from whichloop.metrics.trajectory.written_calls import OwnRun, RequestCounts, own_runs
from whichloop.protocol.values import counted

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
