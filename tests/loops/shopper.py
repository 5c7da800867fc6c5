"""A model for any design that decides by the request alone, so that a run can be taken up in the middle: it asks for two prices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

from whichloop.loops import Bare, Finish, Phased, ReactExtract, Stateless
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Capabilities, Chunk, Loop, Move, Reply, Request, ToolCall
from whichloop.protocol.json_text import digest
from whichloop.protocol.moves import Act, Answer, Completion, Inexpressible, PlanTask, Recovery, Role, Tasks, Text, Understanding

PRICES = {"tea": "41.5", "milk": "73.25"}
ANSWER = "114.75"
QUESTION = "What do both cost?"

DESIGNS: dict[str, Callable[[], Loop]] = {
    "bare": Bare,
    "native": lambda: Bare(decision_format="native"),
    "finish": lambda: Finish(max_steps=6),
    "finish in parallel": lambda: Finish(max_steps=6, parallel_tools=True),
    "phased": Phased,
    "phased agent": lambda: Phased(tool_layout="agent"),
    "react_extract": ReactExtract,
    "stateless": Stateless,
}


def price(item: str) -> str:
    """What an item costs."""
    return PRICES[item]


class Shopper:
    """Answers each request by what it shows of its own run; `spoiled`: one reply in so many is unreadable, always the same."""

    name = "shopper"

    def __init__(self, spoiled: int | None = None, capabilities: Capabilities | None = None) -> None:
        self.spoiled = spoiled
        self.capabilities = capabilities or Capabilities()
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.spoiled and int(digest(request.as_dict()), 16) % self.spoiled == 0:
            return Reply("{")
        assert request.codec is not None
        for move in _moves(request):
            try:
                return request.codec.render(move)
            except Inexpressible:
                continue
        raise AssertionError(f"no move for {request.codec.name}")

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        for chunk in pieces(await self.complete(request)):
            yield chunk


def _moves(request: Request) -> Iterator[Move]:
    """Yield what the request may be answered with, the first that its format can say is meant."""
    shown = "\n".join(message.content for message in request.messages[1:])
    left = [item for item, cost in PRICES.items() if cost not in shown]
    match request.role:
        case Role.UNDERSTAND:
            yield Understanding("prices", ("price",))
        case Role.PLAN:
            yield Tasks((PlanTask("t1", "Find the price of tea."), PlanTask("t2", "Find the price of milk.")))
        case Role.SELECT:
            item = "milk" if "milk" in request.messages[-1].content else "tea"
            yield Act("", (ToolCall("price", {"item": item}),))
        case Role.REFLECT | Role.CONFIRM:
            yield Completion(True, "All is known.")
        case Role.RECOVER:
            yield Recovery("skip", None, "It will not work.")
        case Role.DECIDE if left:
            yield Act("Look it up.", tuple(ToolCall("price", {"item": item}) for item in left))
            yield Act("Look it up.", (ToolCall("price", {"item": left[0]}),))
        case Role.DECIDE | Role.ANSWER:
            yield Answer("Add them.", ANSWER, 0.9)
            yield Answer("Add them.", ANSWER)
            yield Answer("", ANSWER)
            yield Answer("Add them.")
    yield Text(ANSWER)
