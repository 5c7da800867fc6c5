"""The trace of one trial as lines to read: prompt, reply, move, observation, with faults marked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from loopbench.metrics.record import Record

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


def as_judged(trace: dict[str, Any], record: Record) -> dict[str, Any]:
    """A trial's trace with the scores that count, which are the record's: the answer may have been judged again since."""
    if trace.get("scores") == record.scores:
        return trace
    return {**trace, "scores": dict(record.scores), "status": record.status, "reason": record.reason, "judged_again": True}


def blocks(trace: Mapping[str, Any], *, full: bool = False) -> Iterator[Block]:
    """All pieces in order; long texts are cut unless `full`."""
    limit = None if full else MAX_CHARS
    shown: dict[str, str] = {}
    yield Block("head", f"{trace['arm']}/{trace['task']}/{trace['repeat']}", _cut(str(trace["query"]), limit))
    step = 0
    for event in trace["events"]:
        kind = event.get("event")
        if kind == "ask":
            step += 1
            yield from _ask(event, step, limit, shown)
        elif kind == "tool":
            if event.get("fault"):
                yield Block("fault", "fault", event["fault"])
            status = event["status"] if "error_type" not in event else f"{event['status']}, {event['error_type']}"
            yield Block("observation", f"{event['tool']} ({status})", _cut(event["data"], limit))
        elif kind == "note":
            rest = {name: value for name, value in event.items() if name not in ("event", "kind")}
            yield Block("note", str(event.get("kind")), _cut(_json(rest), limit))
    scores = ", ".join(f"{name} {value:g}" for name, value in trace["scores"].items()) or trace["status"]
    when = " when it ran" if trace.get("judged_again") else ""
    text = f"answer: {_text(trace['answer'])}\nexpected{when}: {_text(trace['expected'])}\n{scores}"
    if trace["scores"].get("state", 1.0) < 1:
        state = trace["end_state"]
        text += f"\nend state: {_text(state['found'])}"
        text += f"\nexpected{when}: {_text(state['expected'])}" if "expected" in state else ""
    yield Block("end", f"stop: {trace['stop']}", text + (f"\n{trace['reason']}" if trace.get("reason") else ""))


def _ask(event: Mapping[str, Any], step: int, limit: int | None, shown: dict[str, str]) -> Iterator[Block]:
    """`shown`: role and scope → the last message that was shown of them; only what is new in the next is."""
    scope = f" [{event['scope']}]" if event.get("scope") else ""
    if event.get("same"):
        yield Block("prompt", f"{step}. {event['role']}{scope}", f"({event['same']} messages as before)")
    for message in event["messages"]:
        text = str(message["content"])
        for call in message.get("tool_calls", ()):
            text += f"\n{call['function']['name']} {call['function']['arguments']}"
        key = f"{event['role']}{scope} {message['role']}"
        new = text if limit is None else _new_lines(shown.get(key, ""), text)
        shown[key] = text
        yield Block("prompt", f"{step}. {event['role']}{scope}, {message['role']}", _cut(new, limit))
    if event.get("fault"):
        yield Block("fault", "fault", event["fault"])
    if "error" in event:
        yield Block("error", event["error"]["kind"], event["error"]["message"])
        return
    calls = "".join(f"\n{call['name']} {call['arguments']}" for call in event.get("calls", ()))
    yield Block("reply", "reply", _cut(event["reply"] + calls, limit) or "(empty)")
    if "wire_error" in event:
        yield Block("error", "unreadable", _cut(event["wire_error"], limit))
    elif "move" in event:
        yield Block("move", str(event["move"]["move"]), _move(event["move"]))


def _new_lines(before: str, now: str) -> str:
    """A message without the lines at its start and end that the last one had too."""
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


def _move(move: Mapping[str, Any]) -> str:
    if move["move"] == "act":
        return "\n".join(f"{call['name']} {_json(call['arguments'])}" for call in move["calls"]) or "(no call)"
    if move["move"] == "answer":
        return "(ends; the answer is stated elsewhere)" if move["value"] is None else _text(move["value"])
    return _json({name: value for name, value in move.items() if name != "move"})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, limit: int | None) -> str:
    if limit is None or len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out; --full shows them …\n{text[-half:]}"
