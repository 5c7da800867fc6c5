"""What the tests of the loops share: a model that answers from a list, and replies in the formats of two designs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from whichloop.protocol import CallDelta, Capabilities, Chunk, Observer, Reply, Request, RunEvent
from whichloop.protocol.moves import Answer, Codec, Inexpressible, Move, Role


def in_turn(names: Iterable[Any], others: Sequence[Any], *, whole: int = 1) -> list[tuple[Any, Any]]:
    """Each name with one of the others in turn, and the first `whole` names with all of them: for laws that hold for each pair."""
    pairs: list[tuple[Any, Any]] = []
    for place, name in enumerate(names):
        pairs += [(name, other) for other in others] if place < whole else [(name, others[place % len(others)])]
    return pairs


Said = Move | Reply | str | BaseException
Saying = Said | Callable[[Request], Said | Awaitable[Said]]
"""An answer, or what makes one of the request."""


def comes_back(codec: Codec, move: Move) -> bool:
    """The law of codecs for one move; False where it cannot be said."""
    try:
        reply = codec.render(move)
    except Inexpressible:
        return False
    assert codec.parse(reply) == move
    assert codec.parse(replace(reply)) == move  # read afresh: the first reader gets what rendering has read as a check
    return True


class Script:
    """A Model that gives the listed answers, then `then` for ever.

    An answer is a text, a Reply, a Move (said in the request's own codec), an exception to raise, or a function of the request.
    """

    name = "script"
    capabilities = Capabilities()

    def __init__(self, *answers: Saying, then: Saying | None = None) -> None:
        self.answers: list[Saying] = list(answers)
        self.then = then
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        answer: Any = self.answers.pop(0) if self.answers else self.then
        if callable(answer):
            answer = answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            return Reply(answer)
        if isinstance(answer, Reply):
            return answer
        assert answer is not None, "asked more often than scripted"
        assert request.codec is not None
        rendered: Reply = request.codec.render(answer)
        return rendered

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))

    @property
    def roles(self) -> list[Role]:
        return [request.role for request in self.requests]


class Streaming(Script):
    """Streams its replies in pieces of so many characters, and knows how many streams have been closed."""

    def __init__(self, *answers: Saying, size: int = 3, then: Saying | None = None) -> None:
        super().__init__(*answers, then=then)
        self.size, self.closed = size, 0

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        reply = await self.complete(request)
        try:
            for start in range(0, len(reply.text), self.size):
                yield Chunk(reply.text[start : start + self.size])
            for place, call in enumerate(reply.calls):
                yield Chunk(call=CallDelta(place, call.id, call.name))
                for start in range(0, len(call.arguments), self.size):
                    yield Chunk(call=CallDelta(place, arguments=call.arguments[start : start + self.size]))
            yield Chunk(reply=reply)
        finally:
            self.closed += 1


class Moves(Script):
    """Answers with moves, whatever the loop's format: an answer that another request must state waits for that request."""

    def __init__(self, *answers: Saying, then: Saying | None = None) -> None:
        super().__init__(*answers, then=then)
        self._stated = Answer("Nothing is known.", "not determined")

    async def complete(self, request: Request) -> Reply:
        if request.role is Role.ANSWER:
            self.requests.append(request)
            assert request.codec is not None
            return request.codec.render(self._stated)
        if self.answers and isinstance(self.answers[0], Answer) and request.codec is not None:
            self._stated = self.answers[0]
            try:
                request.codec.render(self._stated)
            except Inexpressible:
                self.answers[0] = Answer(self._stated.thought)
        return await super().complete(request)


class Notes(Observer):
    """Keeps what a loop tells."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, Any]]] = []

    def note(self, kind: str, **data: Any) -> None:
        self.notes.append((kind, data))


class Heard(Observer):
    """Keeps the events that it is told."""

    def __init__(self, streams: bool = False) -> None:
        self.streams = streams
        self.events: list[RunEvent] = []

    def on_event(self, event: RunEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def texts(model: Any) -> str:
    """All that the requests of a model have shown it."""
    return "\n".join(message.content for request in model.requests for message in request.messages)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call(tool: str, thought: str = "", **arguments: Any) -> str:
    """A bare reply that calls a tool."""
    return json.dumps({"thought": thought, "tool_name": tool, "arguments": arguments})


def answer(value: Any) -> str:
    """A bare reply that ends the run."""
    return json.dumps({"final_answer": value})


def react(tool: str, thought: str = "Go on.", **arguments: Any) -> str:
    """A React reply that calls a tool, or finishes."""
    return (
        f"[[ ## next_thought ## ]]\n{thought}\n\n[[ ## next_tool_name ## ]]\n{tool}\n\n"
        f"[[ ## next_tool_args ## ]]\n{json.dumps(arguments)}\n\n[[ ## completed ## ]]\n"
    )


def extract(value: str, reasoning: str = "It follows.") -> str:
    """An extract reply."""
    return f"[[ ## reasoning ## ]]\n{reasoning}\n\n[[ ## answer ## ]]\n{value}\n\n[[ ## completed ## ]]\n"


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, with nothing in its environment but what is given."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=env, check=False)
