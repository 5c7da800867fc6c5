"""A conversation over several runs: earlier turns stand in the requests of any design, and a run adds its own turn to them.

Every design is told of earlier turns in the same way, as messages between its system text and demonstrations and the messages of
the run. An earlier answer is written in the format in which the request wants one, so that no model learns from its own earlier
words to leave the format. Earlier calls are native calls where the request offers tools natively; elsewhere they stand, with their
results, under the user's message.

A design whose requests grow, each beginning with the whole one before, shows an earlier turn of its own as that turn was sent, word
for word: a provider's prompt cache then holds all of it. Its codecs name the format in which they do so in `grows_as`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from whichloop.protocol.cancellation import failure_of_model
from whichloop.protocol.chat import Chunk, Message, NativeCall, Reply, SentTurn, Usage
from whichloop.protocol.model import Asks, Model, ModelAround, ModelError, Request
from whichloop.protocol.moves import Answer, Codec, Inexpressible, Role
from whichloop.protocol.outcome import Outcome, Query, RunUsage
from whichloop.protocol.tool_calls import Observation, ToolCall
from whichloop.protocol.tools import Toolbox, ToolboxAround
from whichloop.protocol.values import render_value
from whichloop.protocol.wire import from_json

from .call_ids import CallIds, RunFailure, as_asked

UNTOLD = frozenset({Role.RECOVER, Role.SUMMARIZE, Role.VALIDATE, Role.FORMAT})
"""Roles of requests about one text or one failure, which show no earlier turns."""
RESULTS = "Results of tools in this turn:"
REJECTED = "Rejected"
"""The type of the error of a call that a person has refused, so that no tool was called."""
ACCEPTED = "accepted"
"""The result of an earlier answer that is itself a call, such as `__finish__`: providers want one for every call."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)


class ConversationModel(ModelAround):
    """A model whose requests show the earlier turns of a conversation, and are counted."""

    def __init__(self, model: Model, history: Sequence[Message], failure: RunFailure) -> None:
        """`failure`: of the run; a design that has caught it gets it again."""
        super().__init__(model)
        self._failure = failure
        self._turns = earlier_turns(history)
        self.last_sent: tuple[str, tuple[Message, ...]] | None = None
        """The run's own messages in its last request of a format that grows, and the name of that format."""
        self.requests = 0
        self.uncounted = 0
        """Replies whose tokens nobody has told, those that broke off among them."""
        self.tokens: Usage | None = None
        self.failure: ModelError | None = None

    async def chunks(self, request: Request, ask: Asks) -> AsyncGenerator[Chunk, None]:
        self._failure.check_request()
        self.requests += 1
        reply: Reply | None = None
        try:
            async with contextlib.aclosing(ask(self._with_earlier_turns(request))) as chunks:
                async for chunk in chunks:
                    reply = reply or chunk.reply
                    yield chunk
        except (ModelError, asyncio.CancelledError) as error:
            failure = self.failure = failure_of_model(error)
            self.requests += len(getattr(failure, "failed_attempts", ()))  # which the model has made by itself before
            raise failure from failure.__cause__
        finally:
            usage = None if reply is None else reply.usage
            self.requests += 0 if reply is None else len(reply.failed_attempts)
            if usage is not None:
                self.tokens = usage if self.tokens is None else self.tokens + usage
            elif not isinstance(sys.exception(), ModelError):
                self.uncounted += 1

    def _with_earlier_turns(self, request: Request) -> Request:
        messages, place = request.messages, request.demonstrations.stop
        if format_name := getattr(request.codec, "grows_as", ""):
            self.last_sent = format_name, messages[place:]
        if not self._turns or request.role in UNTOLD:
            return request
        return replace(request, messages=(*messages[:place], *turns_for(request, self._turns), *messages[place:]))


Turn = tuple[list[Message], tuple[Message, ...] | None]
"""A turn as the conversation has it, and as it was sent, if it was and nobody has changed it since."""


def earlier_turns(history: Iterable[Message]) -> list[Turn]:
    """Return the turns of a conversation, each with what was sent of it.

    Each begins with a user's message; what stands before the first is a turn, too.
    """
    turns: list[list[Message]] = []
    for message in history:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return [(turn, None if turn[0].sent is None else turn[0].sent.shown(turn)) for turn in turns]


def turns_for(request: Request, turns: Iterable[Turn]) -> list[Message]:
    """Return earlier turns as a request shows them.

    A request of a guard's, whose codec says `asks_about_task`, shows what the user said and no more: neither a result of a tool nor
    what a model made of one may talk it into anything.
    """
    if getattr(request.codec, "asks_about_task", False):
        return [Message("user", message.content) for turn, _ in turns for message in turn if message.role == "user"]
    format_name = getattr(request.codec, "grows_as", "")
    messages: list[Message] = []
    for turn, as_sent in turns:
        if as_sent is not None and turn[0].sent is not None and turn[0].sent.format == format_name:
            messages += as_sent
            turn = [message for message in turn if message.role == "assistant" and not message.calls]
        elif not request.tools:
            turn = _with_results_as_text(turn)
        for message in turn:
            if message.role == "assistant" and not message.calls:
                messages += _answer(message, request.codec, f"earlier_{len(messages)}")
            else:
                messages.append(message if message.sent is None else replace(message, sent=None))
    return messages


def _answer(message: Message, codec: Codec | None, call_id: str) -> list[Message]:
    """Return an earlier answer in the format of a request; as it is, where the format has no place for it."""
    reply = None if codec is None else _rendered(message.content, codec)
    if reply is None:
        return [message]
    calls = tuple(replace(call, id=f"{call_id}_{place}") for place, call in enumerate(reply.calls))
    results = [Message("tool", ACCEPTED, call_id=call.id) for call in calls]
    return [Message("assistant", reply.text, calls), *results]


def _rendered(answer: str, codec: Codec) -> Reply | None:
    """Return an answer in a format; None if that has no place for it. One that wants a confidence shows that of an answer given."""
    values: list[Any] = [answer]
    if answer[:1] in ("{", "["):  # an answer under a schema, as messages hold it
        with contextlib.suppress(ValueError):
            values.insert(0, from_json(answer))
    for value in values:
        for confidence in (None, 1.0):
            try:
                return codec.render(Answer("", value, confidence))
            except Inexpressible:
                continue
    return None


def _with_results_as_text(history: Iterable[Message]) -> list[Message]:
    """Return the messages without native calls: each call and its result is a line under the user's message."""
    messages: list[Message] = []
    results_at = -1
    called: dict[str, NativeCall] = {}
    for message in history:
        if message.role == "tool":
            call = called[message.call_id]
            line = f"- {call.name} {call.arguments}: {message.content}"
            if results_at < 0:
                results_at = len(messages)
                messages.append(Message("user", RESULTS))
            text = messages[results_at].content
            with_line = f"{text}\n{line}" if RESULTS in text else f"{text}\n\n{RESULTS}\n{line}"
            messages[results_at] = Message("user", with_line, images=messages[results_at].images)
            continue
        called |= {call.id: call for call in message.calls}
        if message.role == "user":
            results_at = len(messages)
        if message.content or not message.calls:
            messages.append(Message(message.role, message.content, images=message.images))
    return messages


# --- the run's own turn ---


class RecordedToolbox(ToolboxAround):
    """A toolbox that keeps the calls of a run and what the model read of their results."""

    def __init__(self, within: Toolbox, ids: CallIds) -> None:
        super().__init__(within)
        self.calls: dict[str, tuple[ToolCall, Observation | None]] = {}
        """By their ids, in the order in which they began; None until there is a result."""
        self._ids = ids

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        self._ids.failure.check_call()
        named = self._ids.named(call)
        self.calls[named.call_id] = named, None
        seen = await self.within.call(named, validate=validate)
        self.calls[named.call_id] = named, seen
        self._ids.failure.check_call()  # the observer may have raised when it was told of the result
        return as_asked(seen, call)


def usage_of(model: ConversationModel, tools: RecordedToolbox) -> RunUsage:
    """Return what a run has taken."""
    made = sum(seen is not None and call.name in tools and seen.error_type != REJECTED for call, seen in tools.calls.values())
    return RunUsage(model.requests, made, model.tokens, model.uncounted)


def call_messages(call: ToolCall, seen: Observation) -> list[Message]:
    """Return a call and its result as a conversation has them, under the run's id: those of a model may repeat."""
    made = NativeCall(str(call.call_id), call.name, _ENCODER.encode(dict(call.arguments)))
    text = seen.data if seen.ok else f"{seen.error_type}: {seen.data}"
    return [Message("assistant", "", (made,)), Message("tool", text, call_id=made.id)]


def messages_after(
    query: Query[Any],
    calls: Iterable[tuple[ToolCall, Observation | None]],
    outcome: Outcome[Any],
    answer: Any,
    last_sent: tuple[str, tuple[Message, ...]] | None,
) -> tuple[Message, ...]:
    """Return the conversation with the turn that a run was.

    `answer`: the outcome's as the design gave it, text or JSON value. `last_sent`: that of the run's `ConversationModel`.
    """
    messages = [Message("user", query.full_text, images=query.images)]
    for call, seen in calls:
        if seen is not None:  # else it was cancelled by the run itself
            messages += call_messages(call, seen)
    if outcome.ok:
        answer_text = answer if isinstance(answer, str) else "null" if answer is None else render_value(answer)
        messages.append(Message("assistant", answer_text))
        if last_sent is not None and all(
            message.role != "system" and message.images in ((), query.images) for message in last_sent[1]
        ):
            messages[0] = replace(messages[0], sent=SentTurn.of(messages, *last_sent))
    return (*(query.history or ()), *messages)
