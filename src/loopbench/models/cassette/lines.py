"""The lines of a recording: parts of requests, stored once each, and exchanges that refer to them.

{"cassette": 1, "model": …, "capabilities": {…}}                 the first line
{"message": ID, "role": …, "content": …}                         ID: digits of the sha256 of what follows
{"tool": ID, "name": …, "description": …, "parameters": …}
{"schema": ID, "value": …}
{"request": DIGEST, "task": …, "arm": …, "repeat": …, …}         one request and what came of it
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from loopbench.models.faults import Clearing
from loopbench.models.tunnel import FaultState, ReplyEffects
from loopbench.protocol import Capabilities, ContextOverflow, ModelError, NativeCall, ProviderError, Reply, Usage
from loopbench.protocol.chat import FinishReason, MessageRole
from loopbench.protocol.digest import digest
from loopbench.protocol.model import ProviderTrouble
from loopbench.protocol.wire import from_json

from .canonical import MAX_DEPTH
from .fields import Fields

VERSION = 1
MAX_LINE = 1 << 26
"""Bytes."""
SHORT_ID, FULL_ID = 12, 64
"""Hex digits of a part's id; all of them where the first twelve stand for another part."""
SETTINGS = frozenset({"tool_choice", "parallel_calls", "temperature", "max_tokens", "top_p", "seed", "stop"})
_ENVELOPE = 4
"""Levels that a line adds round a part of a request."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def escaped(text: str) -> str:
    """What would act on a terminal, turn the direction of reading or break a line, written as JSON escapes."""
    if text.isprintable():
        return text
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in set(text) if not char.isprintable()})


def encode(value: Mapping[str, Any]) -> bytes:
    """One line, its end included. Raises ValueError for what JSON cannot say."""
    return (escaped(_ENCODER.encode(value)) + "\n").encode("utf-8")


def decode(line: bytes) -> dict[str, Any]:
    """Raises ValueError for what is no JSON object, or nested too deep."""
    value = from_json(line.decode("utf-8"))
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    _check_depth(value, MAX_DEPTH + _ENVELOPE)
    return value


def _check_depth(value: Any, depth: int) -> None:
    if not isinstance(value, dict | list):
        return
    if depth == 0:
        raise ValueError("nested too deep")
    for item in value.values() if isinstance(value, dict) else value:
        _check_depth(item, depth - 1)


@dataclass(frozen=True, slots=True)
class Lane:
    """The trial that asks."""

    arm: str
    task: str
    repeat: int
    """0-based."""

    def __str__(self) -> str:
        return f"{self.arm}/{self.task}/{self.repeat}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in the place of a reply, which a loop may act on for good."""

    kind: str
    """A `ProviderTrouble`, or `context_overflow`."""
    message: str
    status: int | None = None
    retry_after_s: float | None = None
    injected: bool = False
    failed_attempts: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: ModelError) -> Failure | None:
        """None for a failure that the next run need not meet: it is not recorded."""
        if isinstance(error, ContextOverflow):
            return cls("context_overflow", str(error))
        if isinstance(error, ProviderError) and (error.injected or error.kind in ("refused", "bad_request")):
            extra = (error.status, error.retry_after_s, error.injected, error.failed_attempts)
            return cls(error.kind, str(error), *extra)
        return None

    def error(self) -> ModelError:
        """What is raised in its place."""
        kind = next((kind for kind in get_args(ProviderTrouble) if kind == self.kind), None)
        if kind is None:
            return ContextOverflow(self.message)
        return ProviderError(
            self.message,
            kind,
            status=self.status,
            retry_after_s=self.retry_after_s,
            injected=self.injected,
            failed_attempts=self.failed_attempts,
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """A request, taken apart: ids of what is stored by itself, and the settings."""

    messages: tuple[str, ...]
    tools: tuple[str, ...] = ()
    schema: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """Which request of which trial."""

    request: str
    """Its canonical digest."""
    lane: Lane
    scope: str
    occurrence: int
    """How often the trial had asked the same in this scope before."""
    call: int
    """0-based, among all requests of the trial."""
    role: str

    @property
    def key(self) -> tuple[str, int, int]:
        """What a request is looked up by."""
        return (self.request, self.lane.repeat, self.occurrence)

    @property
    def own(self) -> tuple[str, str, str]:
        """Whose it is, among those of one key."""
        return (self.lane.arm, self.lane.task, self.scope)

    @property
    def place(self) -> tuple[str, str, int, int, str, int, str]:
        """Its place in a sorted recording."""
        return (self.lane.task, self.lane.arm, self.lane.repeat, self.call, self.scope, self.occurrence, self.request)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of a trial and what came of it."""

    asked: RecordedRequest
    parts: Parts
    answer: Reply | Failure
    cut: bool = False
    """The loop closed the stream before its end: the answer is what had come."""
    seconds: float = 0.0
    """Latency, without failed attempts and limits; 0 in the tunnel, where time is virtual."""
    effects: ReplyEffects | None = None
    """What the answer did to its trial in the tunnel."""


# --- the first line ---


def header_line(model: str, capabilities: Capabilities) -> dict[str, Any]:
    return {"cassette": VERSION, "model": model, "capabilities": dataclasses.asdict(capabilities)}


def read_header(line: Mapping[str, Any]) -> tuple[str, Capabilities]:
    """Model and capabilities. Raises ValueError."""
    if "cassette" not in line:
        raise ValueError("not the first line of a recording")
    fields = Fields(line)
    version = fields.whole("cassette")
    if version != VERSION:
        raise ValueError(f"a recording of version {version}, this loopbench reads {VERSION}")
    model, able = fields.text("model"), Fields(fields.taken("capabilities", dict))
    fields.end()
    context = able.taken("context_tokens", int, type(None))
    names = [item.name for item in dataclasses.fields(Capabilities) if item.name != "context_tokens"]
    capabilities = Capabilities(**{name: able.flag(name) for name in names if name in able}, context_tokens=context)
    able.end()
    return model, capabilities


# --- parts ---

PART_KINDS = ("message", "tool", "schema")


def part_id(kind: str, value: Mapping[str, Any], digits: int = SHORT_ID) -> str:
    """The same wherever the same content is recorded."""
    return digest([kind, value])[:digits]


def part_line(kind: str, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: name, **value}


def read_part(line: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Kind, id and content. Raises ValueError."""
    kind = next((kind for kind in PART_KINDS if kind in line), "")
    fields = Fields(line)
    name = fields.text(kind)
    if not re.fullmatch(f"[0-9a-f]{{{SHORT_ID}}}([0-9a-f]{{{FULL_ID - SHORT_ID}}})?", name):
        raise ValueError(f"{name!r} is no id")
    if kind == "message":
        _check_message(fields)
    elif kind == "tool":
        fields.text("name"), fields.text("description"), fields.taken("parameters", dict)
    else:
        fields.taken("value", dict)
    fields.end()
    return kind, name, {key: item for key, item in line.items() if key != kind}


def _check_message(fields: Fields) -> None:
    fields.one_of("role", get_args(MessageRole))
    fields.text("content")
    if "tool_call_id" in fields:
        fields.text("tool_call_id")
    for call in fields.objects("tool_calls"):
        call.text("id"), call.one_of("type", ("function",))
        function = Fields(call.taken("function", dict))
        function.text("name"), function.text("arguments")
        function.end()
        call.end()


# --- exchanges ---


def exchange_line(exchange: Exchange) -> dict[str, Any]:
    """As JSON; what is empty is left out."""
    asked, parts, effects = exchange.asked, exchange.parts, exchange.effects
    lane = asked.lane
    line: dict[str, Any] = {"request": asked.request, "task": lane.task, "arm": lane.arm, "repeat": lane.repeat}
    line |= {"call": asked.call, "role": asked.role}
    line |= _set(scope=asked.scope, occurrence=asked.occurrence)
    line["messages"] = list(parts.messages)
    line |= _set(tools=list(parts.tools), schema=parts.schema, rest=dict(parts.settings))
    if isinstance(exchange.answer, Reply):
        line["reply"] = _reply_line(exchange.answer)
    else:
        line["error"] = _without_defaults(exchange.answer)
    line |= _set(cut=exchange.cut, seconds=exchange.seconds)
    if effects is not None:
        line["effects"] = _without_defaults(effects) | _set(faults=[dataclasses.asdict(fault) for fault in effects.faults])
    return line


def read_exchange(line: Mapping[str, Any]) -> Exchange:
    """Raises ValueError."""
    fields = Fields(line)
    request = fields.text("request")
    if not re.fullmatch(f"[0-9a-f]{{{FULL_ID}}}", request):
        raise ValueError(f"{request!r} is no digest of a request")
    lane = Lane(arm=fields.text("arm"), task=fields.text("task"), repeat=fields.whole("repeat"))
    settings = fields.taken("rest", dict) if "rest" in fields else {}
    if not settings.keys() <= SETTINGS:
        raise ValueError(f"unknown setting {sorted(settings.keys() - SETTINGS)[0]!r}")
    schema = fields.text("schema") if "schema" in fields else None
    exchange = Exchange(
        asked=RecordedRequest(
            request=request,
            lane=lane,
            scope=fields.text("scope", ""),
            occurrence=fields.whole("occurrence", 0),
            call=fields.whole("call"),
            role=fields.text("role"),
        ),
        parts=Parts(fields.texts("messages"), fields.texts("tools"), schema, settings),
        answer=_read_failure(fields) if "error" in fields else _read_reply(fields),
        cut=fields.flag("cut"),
        seconds=fields.number("seconds", 0.0),
        effects=_read_effects(fields) if "effects" in fields else None,
    )
    fields.end()
    return exchange


def _set(**values: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in values.items() if value}


def _without_defaults(value: Any) -> dict[str, Any]:
    """The fields of a flat dataclass that differ from their defaults."""
    made = {}
    for item in dataclasses.fields(value):
        own = getattr(value, item.name)
        if own != item.default:
            made[item.name] = list(own) if isinstance(own, tuple) else own
    return made


def _reply_line(reply: Reply) -> dict[str, Any]:
    made = _without_defaults(reply)
    if reply.calls:
        made["calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls]
    if reply.usage is not None:
        made["usage"] = _without_defaults(reply.usage)
    return made


def _read_reply(fields: Fields) -> Reply:
    own = Fields(fields.taken("reply", dict))
    calls = []
    for call in own.objects("calls"):
        calls.append(NativeCall(call.text("id"), call.text("name"), call.text("arguments")))
        call.end()
    usage = _read_usage(own) if "usage" in own else None
    reply = Reply(
        text=own.text("text", ""),
        calls=tuple(calls),
        usage=usage,
        finish_reason=own.one_of("finish_reason", get_args(FinishReason), "stop"),
        failed_attempts=own.texts("failed_attempts"),
    )
    own.end()
    return reply


def _read_usage(fields: Fields) -> Usage:
    own = Fields(fields.taken("usage", dict))
    values: dict[str, Any] = {name: own.whole(name, 0) for name in ("input_tokens", "output_tokens", "cached_tokens")}
    values |= {name: own.maybe_number(name) for name in ("cost_usd", "nominal_usd")}
    usage = Usage(**values, estimated=own.flag("estimated"))
    own.end()
    return usage


def _read_failure(fields: Fields) -> Failure:
    own = Fields(fields.taken("error", dict))
    failure = Failure(
        kind=own.one_of("kind", (*get_args(ProviderTrouble), "context_overflow")),
        message=own.text("message"),
        status=own.whole("status") if "status" in own else None,
        retry_after_s=own.maybe_number("retry_after_s"),
        injected=own.flag("injected"),
        failed_attempts=own.texts("failed_attempts"),
    )
    own.end()
    return failure


def _read_effects(fields: Fields) -> ReplyEffects:
    own = Fields(fields.taken("effects", dict))
    effects = ReplyEffects(
        seconds=own.number("seconds", 0.0),
        struck=own.text("struck") if "struck" in own else None,
        injected=own.flag("injected"),
        unknown=own.texts("unknown"),
        faults=tuple(_read_fault(fault) for fault in own.objects("faults")),
    )
    own.end()
    return effects


def _read_fault(own: Fields) -> FaultState:
    values: dict[str, Any] = {name: own.whole(name) for name in ("number", "attempts", "landed_at")}
    values |= {name: own.text(name) for name in ("kind", "role", "call")}
    values |= {name: own.flag(name) for name in ("landed", "absorbed", "recovered", "seen")}
    values |= {"clearing": own.one_of("clearing", get_args(Clearing)), "armed": own.texts("armed")}
    own.end()
    return FaultState(**values)
