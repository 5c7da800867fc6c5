"""What the server needs of whoever hands it trials, and answers as bytes: whole, as a stream, and broken on purpose.

Nothing here knows a socket."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from whichloop.models.metering import MeteredExchange
from whichloop.models.tunnel import Tunnel
from whichloop.models.wires.base import BadRequest, Refusal, Stamp, Wire, WireRequest, with_client_names, with_suite_names
from whichloop.protocol.chat import NativeCall, Reply, Usage
from whichloop.protocol.model import (
    CHARS_PER_TOKEN,
    ContextOverflow,
    ModelError,
    ProviderError,
    Request,
    Sampling,
    estimate_tokens,
    estimate_usage,
)
from whichloop.protocol.moves import Codec
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tool_calls import Observation, ToolListing

from .foreign import ForeignCodec

JSON = {"Content-Type": "application/json"}
SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
RETRY_AFTER_S = 1
HOLD_S = 600.0
"""Longest time that a connection is silent for a time-out in real time: as long as the official client waits by default."""
MAX_ANSWERS, MAX_ANSWERS_BYTES = 4_096, 64 * 1024 * 1024
"""Answers that a later request can refer to; the one that was used least recently is forgotten first."""
_BROKEN_OFF = Reply("Let me think about this.")
"""What a reply that never comes begins with: nothing in it is of use to the loop."""

logger = logger_of(__package__)


MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServedTrial:
    """One trial's model as the server needs it."""

    ask: Callable[[Request], Awaitable[MeteredExchange]]
    """Asks the model and says what came of it. Raises what is no failure of the model, such as BudgetExceeded."""
    tunnel: Tunnel
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    """Codecs by the name that the client's metadata gives."""
    tools: Collection[str] = ()
    """Names of the tools that the task is solved with."""
    recount: Callable[[Usage, Usage], None] | None = None
    """Takes the usage of a reply as the model gave it, and as it was sent, where the request made it another."""


class Trials(Protocol):
    """Where a server finds its models."""

    def models(self) -> Collection[str]:
        """Return the names for the pages that list models."""

    def find(self, trial: str | None, request: WireRequest) -> ServedTrial:
        """Return the trial of a request. Raises LookupError, in one line, for an unknown trial (None: none was named)."""


class McpTrial(Protocol):
    """One trial's tools as MCP offers them."""

    def listed(self) -> ToolListing:
        """Return the tools as a server of them lists them now."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Run a tool. Raises Refusal for a trial that is over."""


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """A request to a page that no vendor's API has."""

    method: str
    path: tuple[str, ...]
    body: Any = None

    def require(self, method: str) -> None:
        """Raise Refusal for another method than that of the page."""
        if self.method != method:
            raise Refusal(405, f"{self.method} is not allowed here, {method} is.", code="method_not_allowed")

    @property
    def fields(self) -> dict[str, Any]:
        """The body's fields. Raises BadRequest for a body that is no JSON object."""
        if not isinstance(self.body, dict):
            raise BadRequest("The body must be a JSON object.")
        return self.body


More = Callable[[OwnRequest], Awaitable[Any]]
"""A function that answers further pages with JSON. Raises LookupError (no such page) and Refusal."""


# --- answers ---


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """What a client gets."""

    pieces: tuple[bytes, ...] = ()
    """The body, as it is written."""
    headers: Mapping[str, str] = field(default_factory=dict)
    ending: Literal["whole", "cut", "dropped"] = "whole"
    """`cut`: the connection closes after the pieces, before the body's end; `dropped`: it is reset, and nothing is sent."""
    status: int = 200


def json_bytes(data: object) -> bytes:
    """Return compact JSON in ASCII."""
    return json.dumps(data, separators=(",", ":")).encode()


def json_answer(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> WireAnswer:
    """Return an answer in JSON."""
    body = json_bytes(data)
    return WireAnswer((body,), {**(headers or {}), **JSON, "Content-Length": str(len(body))}, status=status)


def refused(wire: Wire, failure: Refusal) -> WireAnswer:
    """Return a failure in the vendor's form."""
    status, body, headers = wire.failure(failure)
    return json_answer(body, status, headers)


def failure_of(error: ModelError) -> Refusal:
    """Return a model's failure as OpenAI has it."""
    message = str(error)
    if isinstance(error, ContextOverflow):
        return Refusal(400, message, "messages", "context_length_exceeded")
    kind = error.kind if isinstance(error, ProviderError) else "server"
    if isinstance(error, ProviderError) and kind == "rate_limit":
        wait_s = RETRY_AFTER_S if error.retry_after_s is None else error.retry_after_s
        return Refusal(429, message, code="rate_limit_exceeded", wait_s=wait_s)
    status, param, code = {
        "refused": (400, "tool_choice", "unsupported_parameter"),
        "bad_request": (400, None, None),
        "auth": (401, None, "invalid_api_key"),
        "timeout": (504, None, "timeout"),
        "overloaded": (503, None, None),
    }.get(kind, (500, None, None))
    return Refusal(status, message, param, code)


class Chat:
    """Answers requests for a reply on any wire, each under an id of its own."""

    def __init__(self) -> None:
        self.started = int(time.time())
        self._served = self._bytes = 0
        self.kept: OrderedDict[str, tuple[Sequence[Any], int]] = OrderedDict()
        """Answers by id, each with its size as JSON, in bytes."""

    def keep(self, answer: tuple[str, Sequence[Any]] | None) -> None:
        """Keep what a later request may recall by an id."""
        if answer is not None:
            self.kept[answer[0]] = answer[1], len(json_bytes(answer[1]))
            self._bytes += self.kept[answer[0]][1]
            while len(self.kept) > MAX_ANSWERS or self._bytes > MAX_ANSWERS_BYTES:
                self._bytes -= self.kept.popitem(last=False)[1][1]

    def recall(self, answer_id: str) -> Sequence[Any] | None:
        """Return what was kept of an answer, None if nothing is."""
        if answer_id not in self.kept:
            return None
        self.kept.move_to_end(answer_id)
        return self.kept[answer_id][0]

    async def answer(self, wire: Wire, request: WireRequest, served: ServedTrial, trial: str | None) -> WireAnswer:
        """Return the answer of a trial's model. Raises Refusal."""
        request, names = with_suite_names(request, served.tools)
        name = request.metadata.get("codec")
        if name is not None and name not in [*served.codecs]:
            raise BadRequest(f"metadata.codec: '{name}' is none of {[*served.codecs]}", "metadata.codec")
        codec = ForeignCodec(request.request, served.tools) if name is None else served.codecs[name]
        question = replace(request.request, codec=codec)
        self._served += 1
        key = f"{self.started}/{trial}/{self._served}"
        stamp = Stamp(hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:24], int(time.time()))
        exchange = await served.ask(question)
        reply, struck = exchange.reply, exchange.fault or ""
        if reply is None:
            error = exchange.error
            assert error is not None
            if isinstance(error, ContextOverflow) and isinstance(codec, ForeignCodec):  # clients look for these words
                error = ContextOverflow(f"This model's maximum context length is exceeded: {error}")
            return await self._failed(wire, request, stamp, error, struck, real_time=served.tunnel.real_time)
        if isinstance(codec, ForeignCodec):
            asked = reply if struck.startswith("wire.") else codec.constrained(reply)  # what the wire has spoiled is not repaired
            sent, stopped_at = within_limits(asked, question.sampling)
            if sent is not reply and reply.usage is not None:
                sent = replace(sent, usage=estimate_usage(reply.usage.input_tokens, sent))
                if served.recount is not None and sent.usage is not None and sent.usage != reply.usage:
                    served.recount(reply.usage, sent.usage)
            reply, stamp = sent, replace(stamp, stopped_at=stopped_at)
        reply = with_client_names(reply, names)
        self.keep(wire.remembered(request, reply, stamp))
        return whole(wire, request, stamp, reply)

    async def _failed(
        self, wire: Wire, request: WireRequest, stamp: Stamp, error: ModelError, struck: str, *, real_time: bool
    ) -> WireAnswer:
        """Return what a client meets of a failure: an error, or an answer that is broken as the fault has it."""
        failure = failure_of(error)
        if struck == "provider.cut":
            answer = whole(wire, request, stamp, _BROKEN_OFF)
            *kept, last = answer.pieces[:2]
            return replace(answer, pieces=(*kept, last[: len(last) // 2]), ending="cut")
        if struck == "provider.garbled":
            half = json_bytes(wire.reply(request, _BROKEN_OFF, stamp))
            half = half[: len(half) // 2]
            if not request.stream:
                return WireAnswer((half,), {**JSON, "Content-Length": str(len(half))})
            name = next(wire.events(request, _BROKEN_OFF, stamp)).get("type", "")
            return _stream(request, iter([(name, half)]), wire.stream_end)
        if struck == "provider.interrupted" and request.stream:
            return _stream(request, wire.failed_events(request, _BROKEN_OFF, failure, stamp), b"")
        if isinstance(error, ProviderError) and error.kind == "connection":
            return WireAnswer(ending="dropped")
        if isinstance(error, ProviderError) and error.kind == "timeout" and real_time:
            await asyncio.sleep(HOLD_S)
        return refused(wire, failure)


def whole(wire: Wire, request: WireRequest, stamp: Stamp, reply: Reply) -> WireAnswer:
    """Return a reply, as a stream if that is what the request asks for."""
    if not request.stream:
        return json_answer(wire.reply(request, reply, stamp))
    return _stream(request, wire.events(request, reply, stamp), wire.stream_end)


def _stream(request: WireRequest, events: Iterator[dict[str, Any] | tuple[str, bytes]], end: bytes) -> WireAnswer:
    """Write events as they are sent (html.spec.whatwg.org, "Server-sent events"), or as one list of them."""
    pieces = []
    for place, event in enumerate(events):
        name, data = event if isinstance(event, tuple) else (event.get("type", ""), json_bytes(event))
        if request.listed:
            pieces.append((b",\r\n" if place else b"[") + data)
        else:
            pieces.append((f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n")
    pieces.append(b"]" if request.listed else end)
    return WireAnswer(tuple(filter(None, pieces)), JSON if request.listed else SSE)


def within_limits(reply: Reply, sampling: Sampling) -> tuple[Reply, str]:
    """Return what is left of a reply that ends at the first stop sequence in its text, or after `max_tokens` tokens.

    And the stop sequence at which it ends; empty if at none. Tokens are estimated, as everywhere. A call whose name has no room is
    not made; one whose arguments have not is cut.
    """
    found = [(reply.text.find(stop), stop) for stop in sampling.stop if stop and stop in reply.text]
    stopped_at = min(found, default=(0, ""))[1]
    if stopped_at:
        reply = replace(reply, text=reply.text[: min(found)[0]], calls=(), finish_reason="stop")
    limit = sampling.max_tokens
    if limit is None or estimate_usage(0, reply).output_tokens <= limit:
        return reply, stopped_at
    text = reply.text[: limit * CHARS_PER_TOKEN]
    tokens_left = limit - estimate_tokens(text)
    calls: list[NativeCall] = []
    for call in reply.calls:
        tokens_left -= estimate_tokens(call.name)
        if tokens_left < 0 or len(text) < len(reply.text):
            break
        calls.append(replace(call, arguments=call.arguments[: tokens_left * CHARS_PER_TOKEN]))
        tokens_left -= estimate_tokens(calls[-1].arguments)
    return replace(reply, text=text, calls=tuple(calls), finish_reason="length"), ""
