"""A model that gives listed answers: for tests of what a product does with a loop, and for examples that run offline."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from whichloop.protocol import Capabilities, Move, Reply, Request, ToolCall
from whichloop.protocol.model import estimate_input, estimate_usage
from whichloop.protocol.values import error_text

from .scripted_calls import NATIVE, ScriptedCalls, StreamsInPieces

FakeAnswer = Move | Reply | str | BaseException
FakeItem = FakeAnswer | Callable[[Request], FakeAnswer | Awaitable[FakeAnswer]]


class FakeModel(StreamsInPieces):
    """Answers the n-th request with the n-th item, and every request after the list with `then`.

        model = FakeModel(Act("Add them.", (ToolCall("add", {"a": 2, "b": 3}),)), Answer("That is it.", "5"))

    An item is a move, which is written in the request's own format; a text; a whole Reply, which is given as it is (an invalid
    answer, for example); an error, which is raised (`ProviderError("down")` ends a run as a provider's failure does, while an
    exception that is no ModelError leaves the loop, as it would from any model); or a function of the request, async or not,
    that returns one of these. `requests` keeps the requests. Raises LookupError for a request after the list where `then` is
    not given, and ValueError for a move that the request's format cannot express.

    Designs ask for different moves; `FakeModel.script(calls, answer)` is a model for any of them.
    """

    def __init__(
        self, *items: FakeItem, then: FakeItem | None = None, name: str = "fake", capabilities: Capabilities | None = None
    ) -> None:
        self.items = items
        self.then = then
        self.name = name
        self.capabilities = capabilities or Capabilities()
        self.requests: list[Request] = []
        self._calls = 0

    @classmethod
    def script(cls, calls: Iterable[ToolCall], answer: Any, *, name: str = "fake") -> FakeModel:
        """Return a model that makes calls, one after the other, and answers then, in any built-in design.

        It says what the design asks for on the way: a plan with a task for each call, say, or that the work is done. Arguments and
        answer may be instances, such as dataclasses, pydantic's models, enums or dates, which are written as JSON. An answer of
        None is null; the model raises ValueError where it is to be said and the query's type does not take it. Raises TypeError for
        what is no ToolCall.
        """
        return cls(then=ScriptedCalls(calls, answer), name=name)

    async def complete(self, request: Request) -> Reply:
        """Return the next item's reply, or raise its error."""
        self.requests.append(request)
        count = len(self.requests)
        item = self.items[count - 1] if count <= len(self.items) else self.then
        if item is None:
            raise LookupError(f"request {count} (role {request.role.value}) has no item: the list has {len(self.items)}")
        answer = item(request) if callable(item) else item
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Reply):
            return answer
        codec = request.codec or NATIVE
        try:
            reply = Reply(answer) if isinstance(answer, str) else codec.render(answer)
        except Exception as error:  # Inexpressible, or what a field of a wrong type raises
            place = f"item {count}" if count <= len(self.items) else "then"
            raise ValueError(
                f"{place} cannot answer request {count}, of role {codec.role.value} in the format {codec.name}, with {answer}: "
                f"{error_text(error) or type(error).__name__}"
            ) from None
        # ids that no call before had, as a provider's
        calls = tuple(replace(call, id=f"call_{self._calls + place}") for place, call in enumerate(reply.calls))
        self._calls += len(calls)
        return Reply(reply.text, calls, estimate_usage(estimate_input(request), reply), reply.finish_reason)
