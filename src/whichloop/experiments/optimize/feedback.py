"""Feedback on a rollout in words: the failures, the tools that reported them, and the expected plan.

One sentence a line, in a fixed order: the answer, the end state, the plan's calls, tools' errors, unreadable replies. Optimizers
that reflect on failures (GEPA, SIMBA) are handed the text; the scripted proposer reads it back, so the sentences are a contract.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.datasets.task import Task
from whichloop.metrics.record import Record
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace
from whichloop.protocol import Plan, PlannedCall, StopReason, render_value, resolve
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.redact import redact

MAX_CHARS, MAX_SENTENCE_CHARS, MAX_SENTENCES = 400, 1000, 24
"""Characters of a value or a quoted text, and of a sentence; sentences."""


def feedback(record: Record, trace: Trace | None, task: Task) -> str:
    """Return at most `MAX_SENTENCES` sentences about one trial, without receipts and secrets. Never raises.

    The calls are compared with the plan only if the trial failed, because other ways to a right answer are right; of a trial that
    was solved nothing says that it went as planned, since errors may cancel.
    """
    if record.status != "scored":
        return _bounded(f"The trial could not be scored: {_quoted(record.reason)}.", MAX_SENTENCE_CHARS)
    unique = dict.fromkeys(_bounded(text, MAX_SENTENCE_CHARS) for text in _sentences(record, trace, task))
    shown = [*unique][:MAX_SENTENCES] + ([f"({len(unique) - MAX_SENTENCES} more.)"] if len(unique) > MAX_SENTENCES else [])
    return "\n".join(shown) or f"The score was {record.accuracy:g} of 1."


def _sentences(record: Record, trace: Trace | None, task: Task) -> Iterator[str]:
    events = () if trace is None else trace.events
    calls = [_Call.of(event) for event in events if isinstance(event, ToolRun)]
    differences = [] if task.plan is None or trace is None else [*_plan_differences(task.plan, calls)]  # marks what was to fail
    if not record.is_solved:
        if record.stop not in (StopReason.FINISHED.value, StopReason.FORCED.value) or record.answer is None:
            yield f"No answer: {record.stop or 'unknown'}."
        elif record.scores.get("answer", record.accuracy) < 1:
            yield _beside("answer", record.answer, task.expected)
        state = None if trace is None else trace.head.end_state
        if task.end_state is not None and state is not None and record.scores.get("state", 1.0) < 1:
            yield _beside("end state", state.get("found"), task.end_state)
        yield from differences
    yield from (f"Tool {call.tool} failed: {_quoted(call.text)}." for call in calls if call.failed and not call.was_to_fail)
    for event in events:
        if isinstance(event, ModelExchange) and event.wire_error is not None:
            yield f"The reply could not be read: {_quoted(event.wire_error)}."


def _beside(what: str, value: Any, expected: Any) -> str:
    """Return a value beside the expected one: of two objects only what differs, which could otherwise be cut off."""
    if isinstance(expected, Mapping) and isinstance(value, str) and isinstance(read := _read(value), Mapping):
        value = read
    if isinstance(value, Mapping) and isinstance(expected, Mapping):
        keys = [key for key in dict.fromkeys([*expected, *value]) if not _same(value.get(key), expected.get(key))]
        if keys:  # else the scorer is stricter
            value, expected = ({key: item[key] for key in keys if key in item} for item in (value, expected))
    return f"The {what} was {_json(value)}, expected {_json(expected)}."


# --- calls and plan ---


@dataclass(slots=True)
class _Call:
    tool: str
    arguments: Mapping[str, Any]
    failed: bool
    text: str
    """The tool's result or error message."""
    is_true: bool
    """Whether no fault affected it."""
    is_planned: bool = False
    was_to_fail: bool = False

    @classmethod
    def of(cls, event: ToolRun) -> _Call:
        arguments = event.call.arguments if isinstance(event.call.arguments, Mapping) else {}
        return cls(event.call.tool, arguments, not event.ok, strip_receipts(event.data), not event.fault)

    def differences(self, target: Mapping[str, object]) -> list[str]:
        """Return the arguments in which it differs; an omitted one counts as null."""
        names = [name for name in dict.fromkeys([*target, *self.arguments]) if target.get(name) is not _UNKNOWN]
        return [name for name in names if not _same(self.arguments.get(name), target.get(name))]


_UNKNOWN = object()
"""An argument that depends on a missing result, so that any value matches."""


def _plan_differences(plan: Plan, calls: Sequence[_Call]) -> Iterator[str]:
    """Yield sentences about each missing call: its differences from the nearest call of the same tool, or that there is none."""
    results: dict[str, Any] = {}
    for planned in [planned for planned in plan.calls if not _is_made(planned, calls, results)]:
        target = _target(planned, results)
        made = [call for call in calls if call.tool == planned.tool]
        repeated = [call.arguments for call in made if call.is_planned]
        others = [call for call in made if not call.is_planned and not any(_same(call.arguments, each) for each in repeated)]
        if not others:
            told = {name: "<an earlier result>" if value is _UNKNOWN else value for name, value in target.items()}
            yield f"The plan's call {planned.tool}({_json(told)}) was never made."
            continue
        nearest = min(others, key=lambda call: len(call.differences(target)))
        nearest.is_planned = True
        for name in nearest.differences(target):
            was, planned_value = nearest.arguments.get(name), target.get(name)
            yield f"Argument {name} of {planned.tool} was {_json(was)}; the plan has {_json(planned_value)}."


def _is_made(planned: PlannedCall, calls: Sequence[_Call], results: dict[str, Any]) -> bool:
    """Whether a call was made as planned; if so, mark it and note its result by the planned id."""
    for form in (planned, *planned.alternatives):
        target = _target(form, results)
        for call in sorted(calls, key=lambda call: not call.is_true):
            if not call.is_planned and call.tool == form.tool and call.failed == form.fails and not call.differences(target):
                call.is_planned, call.was_to_fail = True, form.fails
                if call.is_true and _UNKNOWN not in target.values():
                    results[planned.id] = _read(call.text)
                return True
    return False


def _target(planned: PlannedCall, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the planned arguments, `_UNKNOWN` if they depend on a missing result."""

    def resolved(value: object) -> object:
        try:
            return resolve(value, results)
        except (KeyError, IndexError, TypeError):
            return _UNKNOWN

    return {name: resolved(value) for name, value in planned.arguments.items()}


def _same(a: object, b: object) -> bool:
    """Return whether two JSON values are equal; a text equals the value that it represents."""
    try:
        return bool(a == b) or render_value(a) == render_value(b)
    except RecursionError:
        return False


# --- values and texts in a sentence ---


def _read(text: str) -> Any:
    """Return the value of a text that is JSON, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _json(value: object) -> str:
    """Return a value as JSON of limited length; a cut-off text ends in "…" and is not JSON."""
    try:
        return _bounded(json.dumps(value, ensure_ascii=False), MAX_CHARS)
    except (TypeError, ValueError, RecursionError):
        return _bounded(json.dumps(render_value(value), ensure_ascii=False), MAX_CHARS)


def _quoted(value: object) -> str:
    """Return a text for use within a sentence, without its full stop."""
    return _bounded(" ".join(render_value(value).split()), MAX_CHARS).rstrip(" .") or "no reason given"


def _bounded(text: str, most: int) -> str:
    """Return a text as one line of limited length; secrets are removed before the cut, because they must be whole to match."""
    clean = redact(strip_receipts(" ".join(text.splitlines())))
    return clean if len(clean) <= most else f"{clean[:most]}…"
