"""The trace of one trial: every request, reply, move and observation, kept as plain JSON."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from loopbench.metrics.record import RECORDING
from loopbench.metrics.trace import GARBAGE, NEVER_RAN, TracedCall
from loopbench.models.cassette import RecordingError
from loopbench.models.tokens import estimate_input
from loopbench.protocol import (
    STEP_ROLES,
    Act,
    Answer,
    Chunk,
    ContextOverflow,
    Message,
    ModelError,
    Move,
    Observation,
    Observer,
    ProviderError,
    Reply,
    Request,
    Text,
    ToolArgumentError,
    Toolbox,
    ToolCall,
    Usage,
    WireError,
    render_value,
)
from loopbench.protocol.digest import sha256
from loopbench.protocol.json_text import Encoder
from loopbench.protocol.moves import MOVE_NAMES
from loopbench.protocol.redact import redact
from loopbench.protocol.values import own_copy

TRIAL_NAMES = ("arm", "task", "repeat")


class Recorder(Observer):
    """Hears all that happens in one trial: counts it, and keeps it as the trace's events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.steps = 0
        self.calls = Counter[str]()
        self.tool_calls = 0
        self.repeated_calls = 0
        self.usage = Usage()
        self.errors = Counter[str]()
        self.retries = Counter[str]()
        self.provider_failure: ProviderError | None = None
        """The failure of a real provider that the last request met, if it did."""
        self.provider_trouble: ProviderError | None = None
        """The last failure of a real provider in which the request had no part, whatever came after it."""
        self.tools: Toolbox | None = None
        """What calls are checked against."""
        self._digested: list[Any] = []
        self._gave: set[str] = set()
        """Keys of the calls that have given a result."""
        self._shown: dict[str, tuple[Message, ...]] = {}

    # --- what the metered model and toolbox tell ---

    def exchange(self, request: Request, reply: Reply | None, error: ModelError | None, seconds: float, fault: str | None) -> None:
        role = request.role.value
        self.calls[role] += 1
        event = self._asked(request, role)
        if fault is not None:
            event["fault"] = fault
        if seconds >= 0.001:
            event["seconds"] = round(seconds, 3)
        if reply is not None:
            self._replied(event, request, reply)
        elif error is not None:
            self._failed(event, request, error)
        self.events.append(event)

    def tool_call(self, call: ToolCall, seen: Observation, fault: str | None) -> None:
        self.tool_calls += seen.error_type not in NEVER_RAN
        key = TracedCall(call.name, call.arguments).key
        self.repeated_calls += key in self._gave
        if seen.ok and fault != GARBAGE:
            self._gave.add(key)
        if seen.error_type is not None and seen.error_type not in NEVER_RAN:
            self.errors[f"tool.{seen.error_type}"] += 1
        event: dict[str, Any] = {"event": "tool", "tool": call.name, "arguments": call.arguments, "status": seen.status}
        if seen.error_type is not None:
            event["error_type"] = seen.error_type
        event["data"] = seen.data
        if fault is not None:
            event["fault"] = fault
        self.events.append(event)
        self._digested.append((_AT_ONCE, call.name, call.arguments, seen.status, seen.error_type, seen.data))

    # --- what the loop tells ---

    def note(self, kind: str, **data: Any) -> None:
        self.events.append({**data, "event": "note", "kind": kind})

    def chunk(self, chunk: Chunk) -> None:
        """Streams are recorded by their whole replies."""

    # --- results ---

    def digest(self) -> str:
        """sha256 of moves and observations: the run's course, without times and wording of prompts."""
        return sha256(_encoded(_in_order(self._digested)))

    def line(self, head: Mapping[str, Any]) -> bytes:
        """The whole trace as one line of JSON, without secrets; `head` begins with what names the trial, which is kept as it is."""
        names = {key: head[key] for key in TRIAL_NAMES}
        rest = {key: value for key, value in head.items() if key not in names} | {"events": self.events}
        return f"{_encoded(names)[:-1]},{redact(_encoded(rest))[1:]}\n".encode("ascii")

    # --- the parts of an exchange ---

    def _asked(self, request: Request, role: str) -> dict[str, Any]:
        """The request; messages that the last request of this scope and role showed already are only counted."""
        key = f"{role}/{request.scope}"
        before = self._shown.get(key, ())
        same = len(before)
        if request.messages[:same] != before:
            same = next(n for n, old in enumerate(before) if request.messages[n : n + 1] != (old,))
        self._shown[key] = request.messages
        event: dict[str, Any] = {"event": "ask", "role": role}
        if request.scope:
            event["scope"] = request.scope
        event["same"] = same
        event["messages"] = [message.as_dict() for message in request.messages[same:]]
        if request.tool_choice is not None:
            event["tool_choice"] = request.tool_choice
        return event

    def _replied(self, event: dict[str, Any], request: Request, reply: Reply) -> None:
        self.provider_failure = None
        self._asked_again(event, reply.failed_attempts)
        usage = reply.usage or Usage()
        self.usage += usage
        self.steps += request.role in STEP_ROLES
        event["reply"] = reply.text
        if reply.calls:
            event["calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls]
        event["tokens"] = [usage.input_tokens, usage.output_tokens]
        if request.codec is None:
            self._note_move(request, reply.text)
            return
        try:
            move = request.codec.parse(reply)
        except WireError as error:
            self.errors["wire"] += 1
            event["wire_error"] = str(error)
            self._note_move(request, "wire")
            return
        event["move"] = move_to_json(move)
        self._note_move(request, event["move"])
        if isinstance(move, Act) and self.tools is not None:
            self._check_calls(move)

    def _check_calls(self, move: Act) -> None:
        """Calls that cannot run are errors of the model, wherever a design notices them."""
        assert self.tools is not None
        for call in move.calls:
            tool = self.tools.get(call.name)
            if tool is None:
                self.errors["call.unknown_tool"] += 1
            elif tool.arguments is not None:
                try:
                    tool.arguments.check(call.arguments)
                except ToolArgumentError:
                    self.errors["call.invalid_arguments"] += 1

    def _failed(self, event: dict[str, Any], request: Request, error: ModelError) -> None:
        self.usage += Usage(estimate_input(request), 0, estimated=True) if isinstance(error, ContextOverflow) else Usage()
        kind = "context_overflow" if isinstance(error, ContextOverflow) else "provider"
        if isinstance(error, RecordingError):
            kind = RECORDING
        elif isinstance(error, ProviderError):
            kind = f"provider.{error.kind}"
            self._asked_again(event, error.failed_attempts)
            if not error.injected:
                self.provider_failure = error
                if error.is_transient or error.kind == "auth":
                    self.provider_trouble = error
        self.errors[kind] += 1
        event["error"] = {"kind": kind, "message": str(error)}
        self._note_move(request, kind)

    def _asked_again(self, event: dict[str, Any], failed: Sequence[str]) -> None:
        if failed:
            self.retries.update(failed)
            event["failed_attempts"] = list(failed)

    def _note_move(self, request: Request, what: Any) -> None:
        self._digested.append((_AT_ONCE if request.scope else _IN_TURN, str(request.role), request.scope, what))


_AT_ONCE, _IN_TURN = "at once", "in turn"


def _in_order(digested: list[Any]) -> list[Any]:
    """What may happen at once, tools' runs and replies of a scope, sorted between two replies without one: it ends in any order."""
    ordered: list[Any] = []
    for at_once, items in itertools.groupby(digested, key=lambda item: item[0] == _AT_ONCE):
        group = list(items)
        ordered.extend(sorted(group, key=_encoded) if at_once and len(group) > 1 else group)
    return ordered


def move_to_json(move: Move) -> dict[str, Any]:
    """A move as plain JSON, its kind under `move`; nothing of it is the loop's, which may do with its move what it likes."""
    if isinstance(move, Act):
        calls = [{"name": call.name, "arguments": own_copy(call.arguments)} for call in move.calls]
        return {"move": "act", "thought": move.thought, "calls": calls}
    if isinstance(move, Answer):
        made: dict[str, Any] = {"move": "answer", "thought": move.thought, "value": own_copy(move.value)}
        return made if move.confidence is None else made | {"confidence": move.confidence}
    if isinstance(move, Text):
        return {"move": "text", "text": move.text}
    return {"move": MOVE_NAMES[type(move)], **_fields(move)}


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass by its fields, those within it too."""
    return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return _fields(value) if dataclasses.is_dataclass(value) else own_copy(value)


_ENCODER = Encoder(ensure_ascii=True, sort_keys=False, separators=(",", ":"), allow_nan=False, default=render_value)
MAX_DEPTH = 12
"""Levels at which what JSON cannot say is looked for; deeper than that it is text."""


def _encoded(value: Any, depth: int = 0) -> str:
    """Return a line of JSON; what JSON cannot say stands as text in its place."""
    try:
        return _ENCODER.encode(value)
    except Exception:  # NaN, a key that is no text, a cycle, or whatever a class of the loop's own raises
        if depth < MAX_DEPTH and type(value) is dict:
            items = (f"{_ENCODER.encode(render_value(key))}:{_encoded(item, depth + 1)}" for key, item in value.items())
            return f"{{{','.join(items)}}}"
        if depth < MAX_DEPTH and type(value) in (list, tuple):
            return f"[{','.join(_encoded(item, depth + 1) for item in value)}]"
        return _ENCODER.encode(render_value(value))
