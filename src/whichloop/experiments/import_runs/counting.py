"""What a trial's trace says of its measurements, where its file does not name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.trace import ModelExchange, ToolRun, TraceEvent
from whichloop.protocol.values import counted as number_of

from .foreign_trials import ForeignTrial
from .values import ToldTotal, total_is_less, total_is_more


def with_counts(trial: ForeignTrial) -> ForeignTrial:
    """Return the trial with what its events count: replies, requests, tokens, calls and errors; what the file says stays."""
    if trial.trace is None or trial.ours is not None:
        return trial
    events = trial.trace.events
    requests = [event for event in events if isinstance(event, ModelExchange)]
    runs = [event for event in events if isinstance(event, ToolRun)]
    replies = [request for request in requests if request.reply is not None]
    counts: dict[str, Any] = {
        "steps": len(replies),
        "lm_calls": len(requests),
        "tool_calls": sum(not run.never_ran for run in runs),
        "repeated_calls": None if "tool" in trial.trace.untold else _repeated(runs),
    }
    if trial.split_tokens is None and replies and all(reply.tokens is not None for reply in replies):
        tokens_told = [reply.tokens for reply in replies if reply.tokens is not None]
        counts |= {
            "input_tokens": sum(tokens[0] for tokens in tokens_told),
            "output_tokens": sum(tokens[1] for tokens in tokens_told),
        }
    if not trial.trace.has_all_requests:
        counts = {name: value for name, value in counts.items() if name not in ("steps", "lm_calls")}
    missing = {name: value for name, value in counts.items() if getattr(trial, name) is None}
    return replace(trial, **missing, errors=trial.errors or _errors(events))


def half_told_tokens(records: Sequence[Record]) -> Iterator[str]:
    """Yield for each kind of tokens in how many trials it is the only one that is told, so that their total is not known."""
    for kind, other in (("input", "output"), ("output", "input")):
        alone = sum(
            f"{other}_tokens" in record.unknown and f"{kind}_tokens" not in record.unknown and "tokens" in record.unknown
            for record in records
        )
        if alone:
            many = "has" if alone == 1 else "have"
            yield f"{number_of(alone, 'trial')} {many} a count of {kind} tokens and none of {other} tokens: their total is unknown"


def told_totals(trials: Sequence[ForeignTrial]) -> Iterator[str]:
    """Yield what the user is told of the trials of a log whose total of tokens is not the sum of input and output."""
    more, less = list[ToldTotal](), list[ToldTotal]()
    for trial in trials:
        beyond = trial.told_beyond_parts
        split = with_counts(trial).split_tokens if beyond else None
        if split is not None:
            parts = sum(split) - max(beyond, 0)
            place = f"{trial.arm}/{trial.task}/{trial.repeat}"
            (more if beyond > 0 else less).append(ToldTotal(place, parts + beyond, parts))
    of = number_of(len(trials), "trial")
    if more:
        yield total_is_more("the total of tokens", more, of)
    if less:
        yield f"{total_is_less('the total of tokens', less, of)}: input + output is counted"


def _repeated(runs: Sequence[ToolRun]) -> int:
    """Count runs equal to an earlier one that had given a result."""
    gave: set[str] = set()
    repeated = 0
    for run in runs:
        repeated += run.call.key in gave
        if run.gave_result:
            gave.add(run.call.key)
    return repeated


def _errors(events: Sequence[TraceEvent]) -> dict[str, int]:
    """Count unreadable replies, failed requests, and failed runs of tools by their type."""
    errors = Counter[str]()
    for event in events:
        if isinstance(event, ModelExchange):
            errors["wire"] += event.wire_error is not None
            if event.error is not None:
                errors[event.error.kind] += 1
        elif isinstance(event, ToolRun) and not event.ok:
            errors[f"tool.{event.error_type or 'Error'}"] += 1
    return {kind: count for kind, count in errors.items() if count}
