"""Feedback on a rollout in words: the failures, the tools that reported them, and the expected plan.

One sentence a line, in a fixed order: the answer, the end state, the plan's calls, tools' errors, unreadable replies. Optimizers
that reflect on failures (GEPA, SIMBA) are handed the text; the scripted proposer reads it back, so the sentences are a contract.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.datasets.task import Task
from whichloop.metrics.record import Record
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace
from whichloop.protocol import Plan, PlannedCall, Ref, StopReason, render_value, resolve
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.redact import redact

MAX_CHARS = 400
"""Maximum length of a value or a quoted text."""
MAX_SENTENCE_CHARS = 1000
MAX_SENTENCES = 24
ALL_WELL = "Everything went as planned."

_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
"""The line ends of `str.splitlines`."""
_ANSWERED = frozenset({StopReason.FINISHED.value, StopReason.FORCED.value})


def feedback(record: Record, trace: Trace | None, task: Task) -> str:
    """Return at most `MAX_SENTENCES` sentences about one trial, without receipts and secrets. Never raises.

    Without a `trace`, only the record is used. The calls are compared with the plan only if the trial failed, because other ways to
    a right answer are right.
    """
    if record.status != "scored":
        return _sentence(f"The trial could not be scored: {_quoted(record.reason)}.")
    events = () if trace is None else trace.events
    calls = [_call_of(event) for event in events if isinstance(event, ToolRun)]
    is_right = record.is_solved
    against_plan = _plan_differences(task.plan, calls) if task.plan is not None and trace is not None else []
    sentences = [
        *([] if is_right else _outcome(record, trace, task)),
        *([] if is_right else against_plan),
        *(f"Tool {call.tool} failed: {_quoted(call.text)}." for call in calls if call.failed and not call.was_to_fail),
        *(
            f"The reply could not be read: {_quoted(event.wire_error)}."
            for event in events
            if isinstance(event, ModelExchange) and event.wire_error is not None
        ),
    ]
    unique = list(dict.fromkeys(map(_sentence, sentences)))
    omitted = [f"({len(unique) - MAX_SENTENCES} more.)"] if len(unique) > MAX_SENTENCES else []
    return "\n".join([*unique[:MAX_SENTENCES], *omitted]) or (ALL_WELL if is_right else f"The score was {record.accuracy:g} of 1.")


# --- the outcome ---


def _outcome(record: Record, trace: Trace | None, task: Task) -> Iterator[str]:
    if record.stop not in _ANSWERED or record.answer is None:
        yield f"No answer: {record.stop or 'unknown'}."
    elif record.scores.get("answer", record.accuracy) < 1:
        read = _as_object(record.answer) if isinstance(task.expected, Mapping) else record.answer
        answer, expected = _differing_parts(read, task.expected)
        yield f"The answer was {_json(answer)}, expected {_json(expected)}."
    state = None if trace is None else trace.head.end_state
    if task.end_state is not None and state is not None and record.scores.get("state", 1.0) < 1:
        actual, expected = _differing_parts(state.get("found"), task.end_state)
        yield f"The end state was {_json(actual)}, expected {_json(expected)}."


def _differing_parts(value: object, expected: object) -> tuple[Any, Any]:
    """Return the different items of two objects, which could otherwise be cut off."""
    if not isinstance(value, Mapping) or not isinstance(expected, Mapping):
        return value, expected
    keys = [
        key for key in [*expected, *(key for key in value if key not in expected)] if not _same(value.get(key), expected.get(key))
    ]
    if not keys:  # the scorer is stricter
        return value, expected
    return {key: value[key] for key in keys if key in value}, {key: expected[key] for key in keys if key in expected}


def _as_object(answer: object) -> object:
    """Return the object that a text contains as JSON; else the answer itself."""
    try:
        read = json.loads(answer) if isinstance(answer, str) else answer
    except (ValueError, RecursionError):
        return answer
    return read if isinstance(read, Mapping) else answer


# --- calls and plan ---


@dataclass(slots=True)
class _Call:
    """A call in the trial."""

    tool: str
    arguments: Mapping[str, Any]
    failed: bool
    text: str
    """The tool's result or error message."""
    is_true: bool
    """Whether no fault affected it."""
    is_planned: bool = False
    was_to_fail: bool = False

    @property
    def value(self) -> Any:
        """The result, parsed if it is JSON."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return self.text


def _call_of(event: ToolRun) -> _Call:
    arguments = event.call.arguments if isinstance(event.call.arguments, Mapping) else {}
    return _Call(event.call.tool, arguments, not event.ok, strip_receipts(event.data), not event.fault)


class _Unknown:
    """An argument that depends on a missing result, so that any value matches."""


_UNKNOWN = _Unknown()


@dataclass(slots=True)
class _Comparison:
    """The comparison of a plan's calls with the actual ones."""

    plan: Plan
    calls: Sequence[_Call]
    results: dict[str, Any] = field(default_factory=dict)
    """Planned id → result of a call made as planned."""

    def missing(self) -> list[PlannedCall]:
        """Return the planned calls without an actual call, and mark the actual calls that were planned."""
        return [call for call in self.plan.calls if not self._find(call)]

    def _find(self, planned: PlannedCall) -> bool:
        for form in (planned, *planned.alternatives):
            target = self.expected_arguments(form)
            for call in sorted(self.calls, key=lambda call: not call.is_true):
                if not call.is_planned and call.tool == form.tool and call.failed == form.fails and not _differences(call, target):
                    call.is_planned, call.was_to_fail = True, form.fails
                    if call.is_true and _UNKNOWN not in target.values():
                        self.results[planned.id] = call.value
                    return True
        return False

    def expected_arguments(self, planned: PlannedCall) -> dict[str, Any]:
        """Return the planned arguments, `_UNKNOWN` if they depend on a missing result."""
        return {name: self._resolved(value) for name, value in planned.arguments.items()}

    def _resolved(self, value: object) -> object:
        try:
            return resolve(value, self.results)
        except (KeyError, IndexError, TypeError):
            return _UNKNOWN


def _plan_differences(plan: Plan, calls: Sequence[_Call]) -> list[str]:
    """Return sentences about each missing call: its differences from the nearest call of the same tool, or that there is none."""
    comparison = _Comparison(plan, calls)
    sentences = []
    for planned in comparison.missing():
        target = comparison.expected_arguments(planned)
        unplanned = [call for call in calls if not call.is_planned and call.tool == planned.tool and not _is_repeat(call, calls)]
        nearest = min(unplanned, key=lambda call: len(_differences(call, target)), default=None)
        if nearest is None:
            arguments = {
                name: _in_words(planned.arguments[name], plan) if value is _UNKNOWN else value for name, value in target.items()
            }
            sentences.append(f"The plan's call {planned.tool}({_json(arguments)}) was never made.")
            continue
        nearest.is_planned = True
        for name in _differences(nearest, target):
            actual_value, planned_value = nearest.arguments.get(name), target.get(name)
            sentences.append(f"Argument {name} of {planned.tool} was {_json(actual_value)}; the plan has {_json(planned_value)}.")
    return sentences


def _is_repeat(call: _Call, calls: Sequence[_Call]) -> bool:
    """Return whether a call repeats a planned call."""
    return any(other.is_planned and other.tool == call.tool and _same(other.arguments, call.arguments) for other in calls)


def _differences(call: _Call, target: Mapping[str, object]) -> list[str]:
    """Return the arguments in which a call differs; an omitted one counts as null."""
    names = [*target, *(name for name in call.arguments if name not in target)]
    return [name for name in names if target.get(name) is not _UNKNOWN and not _same(call.arguments.get(name), target.get(name))]


def _in_words(value: object, plan: Plan) -> object:
    """Return a value with its references in words."""
    if isinstance(value, Ref):
        return next((f"<result of {call.tool}>" for call in plan.calls if call.id == value.call), "<result>")
    if isinstance(value, Mapping):
        return {key: _in_words(item, plan) for key, item in value.items()}
    return [_in_words(item, plan) for item in value] if isinstance(value, list | tuple) else value


def _same(a: object, b: object) -> bool:
    """Return whether two JSON values are equal; a text equals the value that it represents."""
    try:
        return bool(a == b) or render_value(a) == render_value(b)
    except RecursionError:
        return False


# --- values and texts in a sentence ---


def _json(value: object) -> str:
    """Return a value as JSON of limited length; a cut-off text ends in "…" and is not JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(render_value(value), ensure_ascii=False)
    return _bounded(text, MAX_CHARS)


def _quoted(value: object) -> str:
    """Return a text for use within a sentence, without its full stop."""
    return _bounded(" ".join(render_value(value).split()), MAX_CHARS).rstrip(" .") or "no reason given"


def _sentence(text: str) -> str:
    return _bounded(text, MAX_SENTENCE_CHARS)


def _bounded(text: str, most: int) -> str:
    """Return a text as one line of limited length; secrets are removed before the cut, because they must be whole to match."""
    clean = redact(strip_receipts(_LINE_ENDS.sub(" ", text)))
    return clean if len(clean) <= most else f"{clean[:most]}…"
