"""From a request to its answer: the codec, the exchange with the trial's model, and faults as a client meets them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection
from dataclasses import replace

from whichloop.protocol import Codec, ContextOverflow, ModelError, ProviderError, Reply
from whichloop.protocol.tokens import estimate_usage

from ..scripted import Scripted
from ..tunnel import Tunnel
from ..wires.contract import Stamp, Wire, WireRequest
from ..wires.fields import BadRequest
from .answers import DROPPED, Answering, WireAnswer
from .connections import logger
from .foreign import ForeignCodec, foreign_codec
from .limits import limits_after, stopped_at, within_limits
from .mcp_names import with_client_names, with_suite_names
from .memory import Memory
from .refusals import refusal_of
from .trials import ServedTrial

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
