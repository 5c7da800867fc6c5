"""A script of calls and an answer as the moves that any design asks for, natively or in text, whole or in pieces of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import Any

from whichloop.protocol.chat import CallDelta, Chunk, Reply
from whichloop.protocol.model import Model, Request
from whichloop.protocol.moves import (
    Act,
    Answer,
    Codec,
    Completion,
    Inexpressible,
    Move,
    PlanTask,
    Recovery,
    Role,
    Tasks,
    Text,
    Understanding,
)
from whichloop.protocol.tool_calls import ToolCall
from whichloop.protocol.values import argument_json, render_value
from whichloop.protocol.wire import native_call, read_call


class NativeCodec:
    """Native tool calls; text without calls is the answer.

    Cannot say: an answer with a thought or a confidence, or that is not text; calls of arguments that JSON does not give back.
    """

    name = "native"
    role = Role.DECIDE
    max_calls = 64

    def render(self, move: Move) -> Reply:
        if isinstance(move, Act) and move.calls:
            return Reply(move.thought, tuple(native_call(call, place) for place, call in enumerate(move.calls)), None, "tool_calls")
        if isinstance(move, Answer) and isinstance(move.value, str) and not move.thought and move.confidence is None:
            return Reply(move.value)
        raise Inexpressible(f"the {type(move).__name__} is neither calls nor a plain text")

    def parse(self, reply: Reply) -> Move:
        if not reply.calls:
            return Answer("", reply.text)
        return Act(reply.text, tuple(read_call(call) for call in reply.calls))


NATIVE = NativeCodec()


class ScriptedCalls:
    """A function of a request: makes the next of the calls where one can be made, and answers once all are made."""

    def __init__(self, calls: Iterable[ToolCall], answer: Any) -> None:
        """Arguments and the answer may be instances; None is null. Raises TypeError for what is no ToolCall."""
        listed = list(calls)
        if other := [call for call in listed if not isinstance(call, ToolCall)]:
            raise TypeError(f"calls: give ToolCalls, not {other[0]!r}")
        self._calls_left = [replace(call, arguments=_as_written(call.arguments)) for call in listed]
        self._answer = _as_written(answer)

    def __call__(self, request: Request) -> Move:
        """Return the first move that the request's format can say. Raises ValueError where it can say none."""
        codec = request.codec or NATIVE
        reasons: list[str] = []
        for move in self._moves(codec):
            try:
                codec.render(move)
            except Inexpressible as error:
                reasons += [str(error)] if isinstance(move, Answer) else []  # the first is of the answer as it was given
                continue
            if isinstance(move, Act):
                del self._calls_left[: len(move.calls)]
            return move
        why = "null needs a type that takes it, such as schema=int | None" if self._answer is None else "".join(reasons[:1])
        raise ValueError(f"the script cannot say the answer {self._answer!r} in the format {codec.name}: {why}")

    def _moves(self, codec: Codec) -> Iterator[Move]:
        calls_left = self._calls_left
        match codec.role:
            case Role.UNDERSTAND:
                yield Understanding("a script")
            case Role.PLAN:
                planned = [PlanTask(f"t{number}", f"Call {call.name}.") for number, call in enumerate(calls_left, 1)]
                yield Tasks(tuple(planned) or (PlanTask("t1", "Answer.", "reason"),))
            case Role.REFLECT | Role.CONFIRM | Role.VALIDATE:
                yield Completion(not calls_left, "By the script.")
                yield Completion(not calls_left, "By the script.", confidence=0.9)
            case Role.RECOVER:
                yield Recovery("skip", None, "By the script.")
            case Role.DECIDE | Role.SELECT if calls_left:
                yield Act("By the script.", (calls_left[0],))
                yield Act("", (calls_left[0],))
        answer, is_null = self._answer, self._answer is None
        text = "null" if is_null else render_value(answer)
        rated = not is_null or getattr(codec, "takes_null", False)  # `stateless` says by None that it has no words of the model's
        for value in [answer] if is_null else [answer, text]:  # the text is for designs whose answers are text; null is none
            for thought in ("By the script.", ""):
                yield Answer(thought, value)
                if rated:
                    yield Answer(thought, value, 0.9)
        yield Answer("By the script.")
        if not is_null or codec.role is not Role.FORMAT:
            yield Text(text)


def _as_written(value: object) -> Any:
    """Return a value as a model writes it in JSON; what JSON cannot say is left to the format, which names it."""
    try:
        return argument_json(value)
    except Exception:  # of JSON's, or of a user's own type
        return value


def pieces(reply: Reply) -> Iterator[Chunk]:
    """Yield the text word by word, then each call's name and its arguments in pieces; the last chunk holds the reply."""
    for index, word in enumerate(reply.text.split(" ") if reply.text else ()):
        yield Chunk(word if index == 0 else f" {word}")
    for index, call in enumerate(reply.calls):
        yield Chunk(call=CallDelta(index, call.id, call.name))
        for start in range(0, len(call.arguments), 12):
            yield Chunk(call=CallDelta(index, arguments=call.arguments[start : start + 12]))
    yield Chunk(reply=reply)


class StreamsInPieces:
    """Gives a model `stream`, which yields the reply of its `complete` in pieces."""

    async def stream(self: Model, request: Request) -> AsyncIterator[Chunk]:
        """Yield the same reply in pieces."""
        for chunk in pieces(await self.complete(request)):
            yield chunk
