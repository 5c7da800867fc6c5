"""What a rollout is told in words: what failed, which tool said so, and what the plan expected.

One sentence a line, in a fixed order: the answer, the end state, the plan's calls, tools' errors, unreadable replies. Optimizers
that reflect on failures (GEPA, SIMBA) are handed the text; the scripted proposer reads it back, so the sentences are a contract.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopbench.datasets.task import Task
from loopbench.metrics.record import Record
from loopbench.metrics.trace import ModelExchange, ToolRun, Trace
from loopbench.models.receipts import strip_receipts
from loopbench.protocol import Plan, PlannedCall, Ref, StopReason, render_value, resolve
from loopbench.protocol.redact import redact

MAX_CHARS = 400
"""Of a value, or of a text that is quoted."""
MAX_SENTENCE_CHARS = 1000
MAX_SENTENCES = 24
ALL_WELL = "Everything went as planned."

_LINE_ENDS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
"""What `str.splitlines` splits at."""
_ANSWERED = frozenset({StopReason.FINISHED.value, StopReason.FORCED.value})


def feedback(record: Record, trace: Trace | None, task: Task) -> str:
    """Sentences about one trial, without receipts and secrets; at most `MAX_SENTENCES`. Never raises.

    `trace`: None leaves what the record alone tells. What a plan lays down is held against the calls only where the trial went
    wrong: other ways to a right answer are right.
    """
    if record.status != "scored":
        return _sentence(f"The trial could not be scored: {_quoted(record.reason)}.")
    events = () if trace is None else trace.events
    made = [_made(event) for event in events if isinstance(event, ToolRun)]
    is_right = record.accuracy >= 1
    against_plan = _against(task.plan, made) if task.plan is not None and trace is not None else []
    sentences = [
        *([] if is_right else _outcome(record, trace, task)),
        *([] if is_right else against_plan),
        *(f"Tool {call.tool} failed: {_quoted(call.text)}." for call in made if call.failed and not call.was_to_fail),
        *(
            f"The reply could not be read: {_quoted(event.wire_error)}."
            for event in events
            if isinstance(event, ModelExchange) and event.wire_error is not None
        ),
    ]
    listed = list(dict.fromkeys(map(_sentence, sentences)))
    more = [f"({len(listed) - MAX_SENTENCES} more.)"] if len(listed) > MAX_SENTENCES else []
    return "\n".join([*listed[:MAX_SENTENCES], *more]) or (ALL_WELL if is_right else _missed(record))


def _missed(record: Record) -> str:
    """Of a trial whose answer and calls tell nothing: a scorer of the user's own, or one that judges something else."""
    return f"The score was {record.accuracy:g} of 1."


# --- the outcome ---


def _outcome(record: Record, trace: Trace | None, task: Task) -> Iterator[str]:
    if record.stop not in _ANSWERED or record.answer is None:
        yield f"No answer: {record.stop or 'unknown'}."
    elif record.scores.get("answer", record.accuracy) < 1:
        read = _as_object(record.answer) if isinstance(task.expected, Mapping) else record.answer
        answer, expected = _different(read, task.expected)
        yield f"The answer was {_shown(answer)}, expected {_shown(expected)}."
    state = None if trace is None else trace.head.end_state
    if task.end_state is not None and state is not None and record.scores.get("state", 1.0) < 1:
        found, expected = _different(state.get("found"), task.end_state)
        yield f"The end state was {_shown(found)}, expected {_shown(expected)}."


def _different(found: Any, expected: Any) -> tuple[Any, Any]:
    """Of two objects only what differs: whole, they would be cut before it."""
    if not isinstance(found, Mapping) or not isinstance(expected, Mapping):
        return found, expected
    keys = [
        key for key in [*expected, *(key for key in found if key not in expected)] if not _same(found.get(key), expected.get(key))
    ]
    if not keys:  # the scorer is stricter
        return found, expected
    return {key: found[key] for key in keys if key in found}, {key: expected[key] for key in keys if key in expected}


def _as_object(answer: Any) -> Any:
    """A text that says one, read; else the answer itself."""
    try:
        read = json.loads(answer) if isinstance(answer, str) else answer
    except (ValueError, RecursionError):
        return answer
    return read if isinstance(read, Mapping) else answer


# --- the calls, beside the plan's ---


@dataclass(slots=True)
class _Made:
    """A call that was made."""

    tool: str
    arguments: Mapping[str, Any]
    failed: bool
    text: str
    """What the tool gave, or said when it failed."""
    is_true: bool
    """Nothing disturbed it."""
    is_planned: bool = False
    was_to_fail: bool = False

    @property
    def value(self) -> Any:
        """The result, read as JSON where it is."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return self.text


def _made(event: ToolRun) -> _Made:
    arguments = event.call.arguments if isinstance(event.call.arguments, Mapping) else {}
    return _Made(event.call.tool, arguments, not event.ok, strip_receipts(event.data), not event.fault)


class _Unknown:
    """An argument that depends on a result that was not had: anything may stand there."""


_UNKNOWN = _Unknown()


@dataclass(slots=True)
class _Comparison:
    """A plan's calls beside those made."""

    plan: Plan
    made: Sequence[_Made]
    results: dict[str, Any] = field(default_factory=dict)
    """Planned id → its result, of calls that were made as planned."""

    def missing(self) -> list[PlannedCall]:
        """The planned calls that were not made as planned; the others are marked in `made`."""
        return [call for call in self.plan.calls if not self._find(call)]

    def _find(self, planned: PlannedCall) -> bool:
        for form in (planned, *planned.alternatives):
            wanted = self.wanted(form)
            for call in sorted(self.made, key=lambda call: not call.is_true):
                if not call.is_planned and call.tool == form.tool and call.failed == form.fails and not _differences(call, wanted):
                    call.is_planned, call.was_to_fail = True, form.fails
                    if call.is_true and _UNKNOWN not in wanted.values():
                        self.results[planned.id] = call.value
                    return True
        return False

    def wanted(self, planned: PlannedCall) -> dict[str, Any]:
        """The planned arguments, `_UNKNOWN` where they depend on what was not had."""
        return {name: self._resolved(value) for name, value in planned.arguments.items()}

    def _resolved(self, value: Any) -> Any:
        try:
            return resolve(value, self.results)
        except (KeyError, IndexError, TypeError):
            return _UNKNOWN


def _against(plan: Plan, made: Sequence[_Made]) -> list[str]:
    """What is different from the plan: for each call that is missing, the nearest one of the same tool, or that there is none."""
    comparison = _Comparison(plan, made)
    told = []
    for planned in comparison.missing():
        wanted = comparison.wanted(planned)
        rest = [call for call in made if not call.is_planned and call.tool == planned.tool and not _repeats(call, made)]
        nearest = min(rest, key=lambda call: len(_differences(call, wanted)), default=None)
        if nearest is None:
            shown = {
                name: _in_words(planned.arguments[name], plan) if value is _UNKNOWN else value for name, value in wanted.items()
            }
            told.append(f"The plan's call {planned.tool}({_shown(shown)}) was never made.")
            continue
        nearest.is_planned = True
        for name in _differences(nearest, wanted):
            was, has = nearest.arguments.get(name), wanted.get(name)
            told.append(f"Argument {name} of {planned.tool} was {_shown(was)}; the plan has {_shown(has)}.")
    return told


def _repeats(call: _Made, made: Sequence[_Made]) -> bool:
    """Whether it is a planned call, made once more."""
    return any(other.is_planned and other.tool == call.tool and _same(other.arguments, call.arguments) for other in made)


def _differences(call: _Made, wanted: Mapping[str, Any]) -> list[str]:
    """Arguments in which a call differs; one that is left out counts as null."""
    names = [*wanted, *(name for name in call.arguments if name not in wanted)]
    return [name for name in names if wanted.get(name) is not _UNKNOWN and not _same(call.arguments.get(name), wanted.get(name))]


def _in_words(value: Any, plan: Plan) -> Any:
    """References in words."""
    if isinstance(value, Ref):
        return next((f"<result of {call.tool}>" for call in plan.calls if call.id == value.call), "<result>")
    if isinstance(value, Mapping):
        return {key: _in_words(item, plan) for key, item in value.items()}
    return [_in_words(item, plan) for item in value] if isinstance(value, list | tuple) else value


def _same(one: Any, other: Any) -> bool:
    """As JSON values; a text and what it says count as equal, since results are read from their text."""
    try:
        return bool(one == other) or render_value(one) == render_value(other)
    except RecursionError:
        return False


# --- values and texts in a sentence ---


def _shown(value: Any) -> str:
    """As JSON, bounded: what is cut off ends in "…" and is no JSON any more."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(render_value(value), ensure_ascii=False)
    return _bounded(text, MAX_CHARS)


def _quoted(value: Any) -> str:
    """A text within a sentence, without its own full stop."""
    return _bounded(" ".join(render_value(value).split()), MAX_CHARS).rstrip(" .") or "no reason given"


def _sentence(text: str) -> str:
    return _bounded(text, MAX_SENTENCE_CHARS)


def _bounded(text: str, most: int) -> str:
    """In one line; cleaned before it is cut, since a secret must be whole to be known."""
    clean = redact(strip_receipts(_LINE_ENDS.sub(" ", text)))
    return clean if len(clean) <= most else f"{clean[:most]}…"
