"""From a request to its answer: the codec, the exchange with the trial's model, and faults as a client meets them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from whichloop.models.scripted import Scripted
from whichloop.models.tunnel import Tunnel
from whichloop.models.wires.contract import CacheMark, Stamp, Wire, WireRequest
from whichloop.models.wires.fields import BadRequest
from whichloop.protocol import Codec, ContextOverflow, ModelError, ProviderError, Reply
from whichloop.protocol.tokens import estimate_usage
from whichloop.protocol.wire import from_json

from .answers import DROPPED, Answering, WireAnswer
from .bodies import json_bytes
from .connections import logger
from .foreign import ForeignCodec, foreign_codec
from .limits import limits_after, stopped_at, within_limits
from .mcp_names import with_client_names, with_suite_names
from .refusals import refusal_of
from .trials import ServedTrial

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
            return await self._failed(answer, served.tunnel, struck, failure)
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

    async def _failed(self, answer: Answering, tunnel: Tunnel, struck: str | None, error: ModelError) -> WireAnswer:
        """Return what the client meets in the place of a reply, or raise the refusal."""
        if isinstance(error, ProviderError):
            if struck == "provider.cut":
                return answer.cut()
            if struck == "provider.garbled":
                return answer.garbled()
            if struck == "provider.interrupted" and answer.request.stream:
                return answer.interrupted(refusal_of(error).failure)
            if error.kind == "connection":
                return DROPPED
            if error.kind == "timeout" and tunnel.real_time:
                await asyncio.sleep(self.hold_s)
        raise refusal_of(error)


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
