"""The lines of a recording: parts of requests, stored once each, and exchanges that refer to them.

{"cassette": 1, "model": …, "capabilities": {…}, "sealed": {…}}  the first line
{"message": ID, "role": …, "content": …}                         ID: digits of the sha256 of what follows
{"tool": ID, "name": …, "description": …, "parameters": …}
{"schema": ID, "value": …}
{"grammar": ID, "value": …}
{"request": DIGEST, "task": …, "arm": …, "repeat": …, …}         one request and what came of it
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from whichloop.protocol import Capabilities, ContextOverflow, ModelError, ProviderError, Reply
from whichloop.protocol.chat import MessageRole
from whichloop.protocol.digest import digest, open_line, seal_line
from whichloop.protocol.json_text import Json, load_json
from whichloop.protocol.model import ProviderTrouble

from .canonical import MAX_DEPTH, as_json, read_as

VERSION = 1
MAX_LINE = 1 << 24
"""The longest line, in bytes."""
SHORT_ID, FULL_ID = 12, 64
"""Hex digits of a part's id; all of them where the first twelve stand for another part."""
SETTINGS = frozenset({"tool_choice", "parallel_calls", "temperature", "max_tokens", "top_p", "seed", "stop"})
_SEAL_SIZE = 16
"""Bytes of the checksum of all lines."""
_ENVELOPE = 4
"""Levels that a line adds round a part of a request."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def escaped(text: str) -> str:
    """Write as JSON escapes what would act on a terminal, turn the direction of reading or break a line."""
    if text.isprintable():
        return text
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in set(text) if not char.isprintable()})


def encode(value: Mapping[str, object]) -> bytes:
    """Write one line, its checksum and its end included. Raises ValueError for what JSON cannot express."""
    return seal_line((escaped(_ENCODER.encode(value)) + "\n").encode("utf-8"))


def decode(line: bytes) -> dict[str, Json]:
    """Read one line. Raises ValueError for a damaged one, and for what is not a JSON object, or nested too deep."""
    value = load_json(open_line(line).decode("utf-8"), finite=True)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    _check_depth(value, MAX_DEPTH + _ENVELOPE)
    return value


def _check_depth(value: object, depth: int) -> None:
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

    kind: Literal[ProviderTrouble, "context_overflow"]
    message: str
    status: int | None = None
    retry_after_s: float | None = None
    injected: bool = False
    failed_attempts: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: ModelError) -> Failure | None:
        """Return an error as it is recorded; None for a failure that the next run need not meet."""
        if isinstance(error, ContextOverflow):
            return cls("context_overflow", str(error))
        if isinstance(error, ProviderError) and (error.injected or error.kind in ("refused", "bad_request")):
            extra = (error.status, error.retry_after_s, error.injected, error.failed_attempts)
            return cls(error.kind, str(error), *extra)
        return None

    def error(self) -> ModelError:
        """Return the error that a replay raises."""
        if self.kind == "context_overflow":
            return ContextOverflow(self.message)
        return ProviderError(
            self.message,
            self.kind,
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
    grammar: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """Which request of which trial."""

    digest: str
    """The canonical digest of the request."""
    lane: Lane
    scope: str
    occurrence: int
    """How often the trial had asked the same in this scope before."""
    call: int
    """0-based, among all requests of the trial."""
    role: str

    @property
    def key(self) -> tuple[str, int, int]:
        """The key by which a request is looked up."""
        return (self.digest, self.lane.repeat, self.occurrence)

    @property
    def owner(self) -> tuple[str, str, str]:
        """The owner of the request, which tells requests of one key apart."""
        return (self.lane.arm, self.lane.task, self.scope)

    @property
    def place(self) -> tuple[str, str, int, int, str, int, str]:
        """The place of the request in a sorted recording."""
        return (self.lane.task, self.lane.arm, self.lane.repeat, self.call, self.scope, self.occurrence, self.digest)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of a trial and what came of it."""

    request: RecordedRequest
    parts: Parts
    answer: Reply | Failure
    cut: bool = False
    """The loop closed the stream before its end: the answer is what had come."""
    seconds: float = 0.0
    """Latency, without failed attempts and limits."""


# --- the first line ---


@dataclass(frozen=True, slots=True)
class LinesSeal:
    """What followed the first line when the file was put in order; more lines may have been added since."""

    lines: int
    checksum: str
    """BLAKE2b of these lines in their order, as they are in the file."""


class LinesTally:
    """Takes in the lines after the first one by one, and gives the seal of those so far."""

    def __init__(self) -> None:
        self.lines = 0
        self._hash = blake2b(digest_size=_SEAL_SIZE)

    def add(self, line: bytes) -> None:
        self.lines += 1
        self._hash.update(line)

    def seal(self) -> LinesSeal:
        return LinesSeal(self.lines, self._hash.hexdigest())


NO_LINES = LinesTally().seal()


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """The first line."""

    cassette: int
    model: str
    capabilities: Capabilities
    sealed: LinesSeal = NO_LINES


def header_line(model: str, capabilities: Capabilities, sealed: LinesSeal) -> dict[str, Json]:
    """Return the first line of a recording."""
    seal = {"sealed": dataclasses.asdict(sealed)} if sealed.lines else {}
    return {"cassette": VERSION, "model": model, "capabilities": dataclasses.asdict(capabilities), **seal}


def read_header(line: Mapping[str, object]) -> RecordingHeader:
    """Read the first line. Raises ValueError."""
    version = line.get("cassette")
    if version is None:
        raise ValueError("not the first line of a recording")
    if version != VERSION:
        raise ValueError(f"a recording of version {version}, this whichloop reads {VERSION}")
    return read_as(RecordingHeader, line)


# --- parts ---


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class _Call:
    id: str
    type: Literal["function"]
    function: _Function


@dataclass(frozen=True, slots=True)
class _Message:
    role: MessageRole
    content: str | list[Any]
    """A list of text and images in OpenAI's chat format, where a message has images."""
    tool_calls: tuple[_Call, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Schema:
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Grammar:
    value: Mapping[str, Any]


PART_KINDS: Mapping[str, type] = {"message": _Message, "tool": _Tool, "schema": _Schema, "grammar": _Grammar}


def part_id(kind: str, value: Mapping[str, object], digits: int = SHORT_ID) -> str:
    """Return the id of a part, which depends on its content alone."""
    return digest([kind, value])[:digits]


def part_line(kind: str, name: str, value: Mapping[str, object]) -> dict[str, Any]:
    """Return the line of a part that several requests share, which `read_part` reads."""
    return {kind: name, **value}


def read_part(line: Mapping[str, object]) -> tuple[str, str, dict[str, Any]]:
    """Read kind, id and content of a part. Raises ValueError."""
    kind = next((kind for kind in PART_KINDS if kind in line), None)
    if kind is None:
        raise ValueError("not a line of a recording")
    name = line[kind]
    if not isinstance(name, str) or not re.fullmatch(f"[0-9a-f]{{{SHORT_ID}}}([0-9a-f]{{{FULL_ID - SHORT_ID}}})?", name):
        raise ValueError(f"{name!r} is not an id")
    content = {key: item for key, item in line.items() if key != kind}
    read_as(PART_KINDS[kind], content)
    return kind, name, content


# --- exchanges ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExchangeLine:
    """One exchange as its line has it, in this order."""

    request: str
    task: str
    arm: str
    repeat: int
    call: int
    role: str
    scope: str = ""
    occurrence: int = 0
    messages: tuple[str, ...]
    tools: tuple[str, ...] = ()
    schema: str | None = None
    grammar: str | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)
    """The settings."""
    reply: Reply | None = None
    error: Failure | None = None
    cut: bool = False
    seconds: float = 0.0


def exchange_line(exchange: Exchange) -> dict[str, Json]:
    """Write an exchange as JSON, without what is empty."""
    request, parts, answer = exchange.request, exchange.parts, exchange.answer
    line = _ExchangeLine(
        request=request.digest,
        task=request.lane.task,
        arm=request.lane.arm,
        repeat=request.lane.repeat,
        call=request.call,
        role=request.role,
        scope=request.scope,
        occurrence=request.occurrence,
        messages=parts.messages,
        tools=parts.tools,
        schema=parts.schema,
        grammar=parts.grammar,
        rest=dict(parts.settings),
        reply=answer if isinstance(answer, Reply) else None,
        error=answer if isinstance(answer, Failure) else None,
        cut=exchange.cut,
        seconds=exchange.seconds,
    )
    written: dict[str, Any] = as_json(line)
    return written


def read_exchange(value: Mapping[str, object]) -> Exchange:
    """Read one exchange. Raises ValueError."""
    request = value["request"]
    if not isinstance(request, str) or not re.fullmatch(f"[0-9a-f]{{{FULL_ID}}}", request):
        raise ValueError(f"{request!r} is not the digest of a request")
    line = read_as(_ExchangeLine, value)
    if not line.rest.keys() <= SETTINGS:
        raise ValueError(f"unknown setting {min(line.rest.keys() - SETTINGS)!r}")
    answer = line.reply if line.error is None else line.error
    if answer is None or (line.reply is not None and line.error is not None):
        raise ValueError("needs either a reply or an error")
    identity = RecordedRequest(request, Lane(line.arm, line.task, line.repeat), line.scope, line.occurrence, line.call, line.role)
    parts = Parts(line.messages, line.tools, line.schema, line.grammar, line.rest)
    return Exchange(identity, parts, answer, line.cut, line.seconds)
