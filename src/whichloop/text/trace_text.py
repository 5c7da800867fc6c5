"""The trace of one trial as lines to read: prompt, reply, move, observation, with faults marked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from whichloop.metrics.record import Record
from whichloop.metrics.trace import NO_CONTENT, ModelExchange, ToolRun, Trace, TracedCall
from whichloop.metrics.trajectory.trajectory import runs_not_as_written

Kind = Literal["head", "prompt", "reply", "move", "error", "observation", "note", "fault", "end"]
MAX_CHARS = 1_200
MIN_LINES = 4
"""Fewer lines in common than this are shown again."""


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a trace."""

    kind: Kind
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgedTrace:
    """A trial's trace with the scores that count."""

    trace: Trace
    judged_again: bool
    """Whether the answer was judged again after the trial ran."""
    is_imported: bool = False
    """Whether another tool ran the trial, whose log may not say what was expected."""
    limit: int | None = None
    """The step limit that was set for its loop, where the loop may end by itself before it."""

    @property
    def is_blank(self) -> bool:
        """Whether nothing is known of its steps."""
        return self.is_imported and self.trace.lacks_content

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return self.trace.to_json() | ({"judged_again": True} if self.judged_again else {})


def as_judged(trace: Trace, record: Record, limit: int | None = None) -> JudgedTrace:
    """Return a trial's trace with the scores of its record: the answer may have been judged again since the trial ran."""
    if trace.head.scores == record.scores:
        return JudgedTrace(trace, judged_again=False, is_imported=bool(record.unknown), limit=limit)
    head = replace(trace.head, scores=dict(record.scores), status=record.status, reason=record.reason)
    return JudgedTrace(replace(trace, head=head), judged_again=True, is_imported=bool(record.unknown), limit=limit)


def blocks(judged: JudgedTrace, *, full: bool = False) -> Iterator[Block]:
    """Yield all pieces in order; long texts are cut unless `full`. A call stands beside its result where the model did not write it
    so."""
    limit, trace = None if full else MAX_CHARS, judged.trace
    head = trace.head
    texts_before: dict[str, str] = {}
    yield Block("head", f"{head.arm}/{head.task}/{head.repeat}", _cut(head.query, limit))
    if judged.is_blank:
        yield Block("note", "steps", NO_CONTENT)
    run_otherwise = runs_not_as_written(trace.events)
    for place, event in enumerate(() if judged.is_blank else trace.events):
        if isinstance(event, ModelExchange):
            yield from _exchange(event, limit, texts_before)
        elif isinstance(event, ToolRun):
            if event.fault:
                yield Block("fault", "fault", event.fault)
            if place in run_otherwise:
                yield Block("move", "run as", _cut(_call(event.call), limit))
            yield Block("observation", f"{event.call.tool} ({_status(event)})", _cut(event.data, limit))
        else:
            yield Block("note", event.kind, _cut(_json(event.data), limit))
    stop, *end = ending(judged)
    yield Block("end", f"stop: {stop[1]}", "\n".join(f"{label.lower()}: {text}" for label, text in end))


def _status(run: ToolRun) -> str:
    """Return how a run of a tool ended; one that gave noise is no success, whatever the loop was told."""
    if run.ok and not run.gave_result:
        return "noise, which the loop was told is a success"
    return run.status if run.error_type is None else f"{run.status}, {run.error_type}"


def ending(judged: JudgedTrace) -> list[tuple[str, str]]:
    """Return how a trial ended, each part with its label; the end state only if it is wrong.

    Of a trial that was imported, a stop, an answer or an expected answer that is not there is one that its source does not tell.
    """
    head, is_imported = judged.trace.head, judged.is_imported
    judges_state = head.end_state is not None and "expected" not in head.end_state
    nothing = "none stated" if judges_state else "that it cannot be determined"  # without an expected answer it is right to say so
    answer, expected = ("–", "–") if is_imported else ("none given", nothing)
    when = "Expected then" if judged.judged_again else "Expected"
    parts = [
        ("Stop", "–" if is_imported and not head.stop else str(head.stop)),
        ("Answer", answer if head.answer is None else _value_text(head.answer)),
        (when, expected if head.expected is None else _value_text(head.expected)),
        ("Scores", ", ".join(f"{name} {value:g}" for name, value in head.scores.items()) or head.status),
    ]
    if head.end_state is not None and head.scores.get("state", 1.0) < 1:
        parts.append(("End state", _value_text(head.end_state.get("found"))))
        parts += [(when, _value_text(head.end_state["expected"]))] if "expected" in head.end_state else []
    return [*parts, *([("Reason", head.reason)] if head.reason else [])]


def _exchange(event: ModelExchange, limit: int | None, texts_before: dict[str, str]) -> Iterator[Block]:
    """Yield the pieces of one request and its reply.

    `texts_before`: role and scope → the last message that was shown of them; only what is new in the next is shown.
    """
    asker = f"{event.role} [{event.scope}]" if event.scope else event.role
    if event.same:
        yield Block("prompt", f"{event.number}. {asker}", f"({event.same} messages as before)")
    for message, text in zip(event.messages, event.texts, strict=True):
        key = f"{asker} {message.role}"
        new = text if limit is None else _new_lines(texts_before.get(key, ""), text)
        texts_before[key] = text
        yield Block("prompt", f"{event.number}. {asker}, {message.role}", _cut(new, limit))
    if event.fault:
        yield Block("fault", "fault", event.fault)
    if event.error is not None:
        yield Block("error", event.error.kind, event.error.message)
        return
    yield Block("reply", "reply", _cut(event.reply_text, limit) or "(empty)")
    if event.wire_error is not None:
        yield Block("error", "unreadable", _cut(event.wire_error, limit))
    elif event.move is not None:
        yield Block("move", event.move_kind, _move(event, event.move))


def _new_lines(before: str, now: str) -> str:
    """Return a message without the lines at its start and end that the last one had too."""
    old, new = before.split("\n"), now.split("\n")
    shortest = min(len(old), len(new))
    head = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    tail = next((i for i in range(shortest - head) if old[-1 - i] != new[-1 - i]), shortest - head)
    if head + tail < MIN_LINES:
        return now
    middle = "\n".join(new[head : len(new) - tail])
    above = f"… {head} lines as before …\n" if head else ""
    below = f"\n… {tail} lines as before …" if tail else ""
    return f"{above}{middle}{below}"


def _move(event: ModelExchange, move: Mapping[str, Any]) -> str:
    if event.move_kind == "act":
        return "\n".join(map(_call, event.calls)) or "(no call)"
    if event.move_kind == "answer":
        return "(ends; the answer is stated elsewhere)" if event.value is None else _value_text(event.value)
    return _json({name: value for name, value in move.items() if name != "move"})


def _call(call: TracedCall) -> str:
    return f"{call.tool} {_json(call.arguments)}"


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, limit: int | None) -> str:
    if limit is None or len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out; --full shows them …\n{text[-half:]}"
