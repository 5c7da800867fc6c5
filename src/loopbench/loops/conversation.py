"""A conversation over several runs: earlier turns stand in the requests of any design, and a run adds its own turn to them.

Every design is told of earlier turns in the same way, as messages between its system text and demonstrations and the messages of
the run. An earlier answer is written in the format in which the request wants one, so that no model learns from its own earlier
words to leave the format. Earlier calls are native calls where the request offers tools natively; elsewhere they stand, with their
results, under the user's message.

A design whose requests grow, each beginning with the whole one before, shows an earlier turn of its own as that turn was sent, word
for word: a provider's prompt cache then holds all of it. Its codecs name the format in which they do so in `grows_as`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loopbench.protocol import (
    Answer,
    Chunk,
    Codec,
    Inexpressible,
    Message,
    Model,
    NativeCall,
    Observation,
    Outcome,
    Query,
    Reply,
    Request,
    Role,
    Toolbox,
    ToolCall,
    WrappedModel,
    render_value,
)
from loopbench.protocol.chat import SentTurn
from loopbench.protocol.json_text import Encoder
from loopbench.protocol.wire import from_json

from .toolbox_around import ToolboxAround

UNTOLD = frozenset({Role.RECOVER, Role.SUMMARIZE, Role.VALIDATE, Role.FORMAT})
"""Roles of requests about one text or one failure, which show no earlier turns."""
RESULTS = "Results of tools in this turn:"
ACCEPTED = "accepted"
"""The result of an earlier answer that is itself a call, such as `__finish__`: providers want one for every call."""

_ENCODER = Encoder(ensure_ascii=False)


class ConversationModel(WrappedModel):
    """A model whose requests show the earlier turns of a conversation."""

    def __init__(self, model: Model, history: Sequence[Message]) -> None:
        super().__init__(model)
        self.history = _without_changed(history)
        self.own: tuple[str, tuple[Message, ...]] | None = None
        """The run's own messages in its last request of a format that grows, and the name of that format."""

    async def complete(self, request: Request) -> Reply:
        return await self.model.complete(self._told(request))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return self.model.stream(self._told(request))

    def _told(self, request: Request) -> Request:
        own = request.messages
        place = request.examples + (1 if own and own[0].role == "system" else 0)
        if format_name := getattr(request.codec, "grows_as", ""):
            self.own = format_name, own[place:]
        if not self.history or request.role in UNTOLD:
            return request
        return replace(request, messages=(*own[:place], *turns_for(request, self.history), *own[place:]))


def turns_for(request: Request, history: Sequence[Message]) -> list[Message]:
    """Return earlier turns as a request shows them.

    A request of a guard's, whose codec says `asks_about_task`, shows what the user said and no more: neither a result of a tool nor
    what a model made of one may talk it into anything.
    """
    if getattr(request.codec, "asks_about_task", False):
        return [_plain(message) for message in history if message.role == "user"]
    format_name = getattr(request.codec, "grows_as", "")
    shown: list[Message] = []
    for turn in _turns(history):
        sent = turn[0].sent
        if sent is not None and sent.format == format_name:
            shown += sent.messages
            turn = [message for message in turn if message.role == "assistant" and not message.calls]
        elif not request.tools:
            turn = _with_results_as_text(turn)
        for message in turn:
            if message.role == "assistant" and not message.calls:
                shown += _answer(message, request.codec, f"earlier_{len(shown)}")
            else:
                shown.append(_plain(message))
    return shown


def _plain(message: Message) -> Message:
    """Return a message as a provider takes it."""
    return message if message.sent is None else replace(message, sent=None)


def _turns(history: Iterable[Message]) -> list[list[Message]]:
    """Return the messages in turns, each of which begins with a user's message; what stands before the first is one, too."""
    turns: list[list[Message]] = []
    for message in history:
        if message.role == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def _without_changed(history: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages; a turn that was changed since it was sent, as by somebody who took a name out, is shown as it is now."""
    made: list[Message] = []
    for first, *rest in _turns(history):
        is_changed = first.sent is not None and not first.sent.is_of([first, *rest])
        made += [replace(first, sent=None) if is_changed else first, *rest]
    return tuple(made)


def _answer(said: Message, codec: Codec | None, call_id: str) -> list[Message]:
    """Return an earlier answer in the format of a request; as it is, where the format has no place for it."""
    reply = None if codec is None else _rendered(said.content, codec)
    if reply is None:
        return [said]
    calls = tuple(replace(call, id=f"{call_id}_{place}") for place, call in enumerate(reply.calls))
    results = [Message("tool", ACCEPTED, call_id=call.id) for call in calls]
    return [Message("assistant", reply.text, calls), *results]


def _rendered(answer: str, codec: Codec) -> Reply | None:
    """Return an answer in a format; None if that has no place for it. One that wants a confidence shows that of an answer given."""
    for value in [*_structured(answer), answer]:
        for confidence in (None, 1.0):
            try:
                return codec.render(Answer("", value, confidence))
            except Inexpressible:
                continue
    return None


def _structured(answer: str) -> list[Any]:
    """Return the object or list that an answer under a schema is, as messages hold it."""
    try:
        value = from_json(answer) if answer[:1] in ("{", "[") else None
    except ValueError:
        value = None
    return [value] if isinstance(value, dict | list) else []


def _with_results_as_text(history: Iterable[Message]) -> list[Message]:
    """Return the messages without native calls: each call and its result is a line under the user's message."""
    shown: list[Message] = []
    asked = -1
    called: dict[str, NativeCall] = {}
    for message in history:
        if message.role == "tool":
            call = called[message.call_id]
            line = f"- {call.name} {call.arguments}: {message.content}"
            if asked < 0:
                asked = len(shown)
                shown.append(Message("user", RESULTS))
            text = shown[asked].content
            shown[asked] = Message("user", f"{text}\n{line}" if RESULTS in text else f"{text}\n\n{RESULTS}\n{line}")
            continue
        called |= {call.id: call for call in message.calls}
        if message.role == "user":
            asked = len(shown)
        if message.content or not message.calls:
            shown.append(Message(message.role, message.content))
    return shown


# --- the run's own turn ---


@dataclass(slots=True)
class MadeCall:
    """A call of a run, in the order in which calls began; `seen` is None until it has a result."""

    call: ToolCall
    seen: Observation | None = None


class RecordedToolbox(ToolboxAround):
    """A toolbox that keeps the calls of a run and what the model read of their results."""

    def __init__(self, within: Toolbox) -> None:
        super().__init__(within)
        self.made: list[MadeCall] = []

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        made = MadeCall(call)
        self.made.append(made)
        made.seen = await self.within.call(call, validate=validate)
        return made.seen


def messages_after(
    query: Query[Any], calls: Sequence[MadeCall], outcome: Outcome[Any], answer: Any, own: tuple[str, tuple[Message, ...]] | None
) -> tuple[Message, ...]:
    """Return the conversation with the turn that a run was.

    `answer`: the outcome's as the design gave it, text or JSON value. `own`: that of the run's `ConversationModel`.
    """
    history = query.history or ()
    messages = [Message("user", query.full_text)]
    for number, made in enumerate(calls):
        if made.seen is None:  # cancelled by the run itself
            continue
        name = f"call_{len(history)}_{number}"  # providers want ids that differ; those of a model may repeat
        arguments = _ENCODER.encode(dict(made.call.arguments))
        messages.append(Message("assistant", "", (NativeCall(name, made.call.name, arguments),)))
        seen = made.seen
        messages.append(Message("tool", seen.data if seen.ok else f"{seen.error_type}: {seen.data}", call_id=name))
    if outcome.ok:
        said = answer if isinstance(answer, str) else "null" if answer is None else render_value(answer)
        messages.append(Message("assistant", said))
        if own is not None and all(message.role != "system" for message in own[1]):  # a history may not hold what a hook put in
            messages[0] = replace(messages[0], sent=SentTurn.of(messages, *own))
    return (*history, *messages)
