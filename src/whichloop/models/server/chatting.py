"""From a request to its answer: aiohttp's server, the wire, the codec, the exchange with the trial's model, and faults as a client
meets them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop.models.scripted import Scripted
from whichloop.models.wires.chat import CHAT
from whichloop.models.wires.contract import CacheMark, Path, Stamp, Wire, WireRequest, with_client_names, with_suite_names
from whichloop.models.wires.fields import MAX_BODY_BYTES, BadRequest, json_bytes
from whichloop.models.wires.gemini import GEMINI
from whichloop.models.wires.messages import MESSAGES
from whichloop.models.wires.responses import RESPONSES
from whichloop.protocol import Codec, ContextOverflow, ProviderError, Reply
from whichloop.protocol.redact import logger_of
from whichloop.protocol.tokens import estimate_usage
from whichloop.protocol.wire import from_json

from .answers import DROPPED, Answering, WireAnswer
from .foreign import ForeignCodec, foreign_codec
from .refusals import Refusal, limits_after, refusal_of, stopped_at, within_limits
from .trials import ServedTrial

LINGER_S = 1.0
"""Seconds that the rest of a body is read and thrown away, so that a client that is still sending hears why it is refused."""

BACKLOG = 1024
"""Connections that wait to be accepted."""
MAX_UNCHECKED = 16
"""Accepted connections up to which those that are closed are not looked for."""
CLOSED = -1
"""File descriptor of a closed socket."""

logger = logger_of(__package__)
logger.addHandler(logging.NullHandler())


class ListeningSocket(socket.socket):
    """A listening socket that closes the connections which nobody has taken over.

    asyncio takes an accepted connection over in a task of its own. If the event loop ends before that task begins, as beside an
    agent that goes on asking, asyncio forgets the connection without closing it.
    """

    def __init__(self, host: str, port: int) -> None:
        """Raises OSError if the port is taken."""
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        super().__init__(fileno=socket.create_server(address[:2], family=family, backlog=BACKLOG).detach())
        self._accepted: list[socket.socket] = []
        self._most = MAX_UNCHECKED

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, and remember it until it is closed."""
        connection, address = super().accept()
        self._accepted.append(connection)
        if len(self._accepted) > self._most:
            self._accepted = [each for each in self._accepted if each.fileno() != CLOSED]
            self._most = max(MAX_UNCHECKED, 2 * len(self._accepted))
        return connection, address

    def close_accepted(self) -> None:
        """Close every connection that is still open."""
        for connection in self._accepted:
            connection.close()
        self._accepted.clear()


class HttpServer(web.Server):
    """aiohttp's server, with connections of our own kind."""

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=self._loop, logger=logger, access_log=None, lingering_time=LINGER_S)  # type: ignore[arg-type]  # None: no log

    def _make_request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> BaseRequest:
        return BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=MAX_BODY_BYTES)


class Connection(web.RequestHandler):
    """One connection."""

    __slots__ = ()

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer bytes that are not an HTTP request. Raises ConnectionError if an answer has begun."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        logger.info("refused bytes that are not an HTTP request")
        response = Refusal(400, "This is not an HTTP request that the server understands.").response(CHAT)
        response.force_close()
        return response


MAX_ANSWERS = 4_096
MAX_ANSWERS_BYTES = 64 * 1024 * 1024
"""Answers that can be referred to, and what is kept of them; the one that was used least recently is forgotten first."""
MAX_CACHED = 16_384
"""Beginnings of requests in the prompt cache, forgotten in the same order."""


class Memory:
    """Answers by id, and the digests of cached beginnings."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        """As JSON, which takes less room than the objects."""
        self._bytes = 0
        self._cached: OrderedDict[tuple[str | None, str], None] = OrderedDict()

    def keep(self, answer: tuple[str, Sequence[object]] | None) -> None:
        """Keep what a later request may recall by an id."""
        if answer is None:
            return
        encoded = self._answers[answer[0]] = json_bytes(answer[1])
        self._bytes += len(encoded)
        while len(self._answers) > MAX_ANSWERS or self._bytes > MAX_ANSWERS_BYTES:
            self._bytes -= len(self._answers.popitem(last=False)[1])

    def recall(self, answer_id: str) -> Sequence[Any] | None:
        """Return what was kept of an answer, None if nothing is."""
        encoded = self._answers.get(answer_id)
        if encoded is None:
            return None
        self._answers.move_to_end(answer_id)
        items: list[Any] = from_json(encoded.decode())
        return items

    def cached(self, trial: str | None, marks: Sequence[CacheMark]) -> tuple[int, int]:
        """Put the beginnings of a request into its trial's prompt cache. Return the tokens found there, and those put there.

        A trial never meets what another one has cached: its result would depend on which of them came first.
        """
        cached_tokens = max((mark.tokens for mark in marks if (trial, mark.digest) in self._cached), default=0)
        written = [mark for mark in marks if mark.is_written]
        for mark in written:
            self._cached[trial, mark.digest] = None
            self._cached.move_to_end((trial, mark.digest))
        while len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)
        longest = max((mark.tokens for mark in written), default=0)
        return cached_tokens, longest - cached_tokens


MAX_TOOLS_SAID = 5
HOLD_S = 600.0
"""Longest time that a connection is held silent, in seconds: as long as the official client waits by default."""


class Chat:
    """Answers requests for a reply on any wire, each under an id of its own."""

    def __init__(self, hold_s: float = HOLD_S) -> None:
        """`hold_s`: how long a time-out in real time keeps the line silent."""
        self.hold_s = hold_s
        self.started = int(time.time())
        self.memory = Memory()
        self._served = 0

    async def answer(self, wire: Wire, request: WireRequest, served: ServedTrial, trial: str | None) -> WireAnswer:
        """Return the answer of a trial's model. Raises Refusal and BadRequest."""
        request, names = with_suite_names(request, _task_tools(served))
        codec = _codec(request, served)
        question = replace(request.request, codec=codec)
        read, written = self.memory.cached(trial, request.marks)
        stamp = Stamp(self._next_id(trial), int(time.time()), read, written)
        answer = Answering(wire, request, stamp, wire.limit_headers(limits_after(question), stamp))
        exchange = await served.exchange(question)
        reply, failure, struck = exchange.reply, exchange.error, exchange.fault
        if failure is not None:
            if isinstance(failure, ContextOverflow) and isinstance(codec, ForeignCodec):  # clients look for these words
                failure = ContextOverflow(f"This model's maximum context length is exceeded: {failure}")
            if isinstance(failure, ProviderError):
                if struck == "provider.cut":
                    return answer.cut()
                if struck == "provider.garbled":
                    return answer.garbled()
                if struck == "provider.interrupted" and answer.request.stream:
                    return answer.interrupted(refusal_of(failure).failure)
                if failure.kind == "connection":
                    return DROPPED
                if failure.kind == "timeout" and served.tunnel.real_time:
                    await asyncio.sleep(self.hold_s)
            raise refusal_of(failure)
        assert reply is not None
        if isinstance(codec, ForeignCodec):
            if served.tunnel.unknown and (why := unread(request, codec.task_tools)):
                which = f"of trial {trial}" if trial else "that names no trial"
                logger.info("a request %s (wire %s) leaves the scripted model without its task's calls: %s", which, wire.name, why)
            constrained = _as_asked(codec, reply, spoiled=(struck or "").startswith("wire."))
            sent = within_limits(constrained, question.sampling)
            stamp = replace(stamp, stopped_at=stopped_at(constrained, sent, question.sampling.stop))
            answer = replace(answer, stamp=stamp)
            if served.recount is not None and sent.usage != reply.usage and reply.usage and sent.usage:
                served.recount(reply.usage, sent.usage)
            reply = sent
        reply = with_client_names(reply, names)
        self.memory.keep(wire.remembered(request, reply, stamp))
        return answer.whole(reply)

    def _next_id(self, trial: str | None) -> str:
        self._served += 1
        key = f"{self.started}/{trial}/{self._served}"
        return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:24]


def _codec(request: WireRequest, served: ServedTrial) -> Codec:
    name = request.metadata.get("codec")
    if name is None:
        return foreign_codec(request, _task_tools(served))
    if name not in served.codecs:
        names = ", ".join(served.codecs) or "none"
        raise BadRequest(f"Unknown codec '{name}': this trial has {names}.", "metadata.codec", "unknown_codec")
    return served.codecs[name]


def _task_tools(served: ServedTrial) -> Collection[str]:
    if served.task_tools is not None:
        return served.task_tools
    return tuple(served.model.script.tools) if isinstance(served.model, Scripted) else ()


def unread(request: WireRequest, task_tools: Collection[str]) -> str:
    """Say why a scripted model cannot make the calls that its task wants in this request; empty if it can."""
    offered = [tool.name for tool in request.request.tools]
    if not task_tools or not set(task_tools).isdisjoint(offered):
        return ""
    if not offered:
        return "it offers no tools, and the model cannot call tools that a prompt only describes in words"
    named, wanted = (", ".join(names[:MAX_TOOLS_SAID]) for names in (offered, sorted(task_tools)))
    return f"it offers the tools {named}, and the task is solved with {wanted}"


def _as_asked(codec: ForeignCodec, reply: Reply, *, spoiled: bool) -> Reply:
    """Return the reply as constrained decoding leaves it; what the wire has spoiled is not repaired."""
    constrained = reply if spoiled else codec.constrained(reply)
    if constrained is not reply and reply.usage is not None:
        constrained = replace(constrained, usage=estimate_usage(reply.usage.input_tokens, constrained))
    return constrained


WIRES: tuple[Wire, ...] = (RESPONSES, MESSAGES, GEMINI, CHAT)
"""The first to which a request is addressed answers it; the last takes what no other one does."""


VERSIONS = ("v1", "v1beta")
"""First segments of the vendors' pages."""


def segments(target: str) -> Path:
    """Return the decoded segments of a request's target as it was sent, without its query."""
    return tuple(unquote(part, errors="replace") for part in target.partition("?")[0].split("/")[1:])


def wire_for(path: Path, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request; `headers`: a mapping in which the case of a name does not count."""
    return next(wire for wire in WIRES if wire.is_addressed(path, headers))


def page_meant(path: Path, headers: Mapping[str, str]) -> Path | None:
    """Return the page that a path without a version, or with more than one, stands for; None if there is none.

    A vendor's client adds the version to its base address or does not: so a wrong address shows in the path.
    """
    bare = tuple(dropwhile(lambda part: part in VERSIONS, path))
    if len(path) - len(bare) == 1:
        return None
    # The client adds its version behind the one in its base address.
    added = path[len(path) - len(bare) - 1 : len(path) - len(bare)]
    guesses = [(version, *bare) for version in sorted(VERSIONS, key=lambda version: version not in added)]
    return next((guess for guess in guesses if wire_for(guess, headers).page(guess) is not None), None)
