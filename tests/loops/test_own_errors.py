"""What a tool or a model raises of its own that looks like an end of the run or an unreadable reply, and is neither."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests import designs
from tests.loops.helpers import Heard, add, in_turn
from tests.loops.shopper import PRICES, QUESTION, Shopper, price
from tests.loops.test_resumable import DESIGNS
from whichloop.loops import Bare, ProviderRetry, Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Loop, ProviderError, Query, Reply, Request, StopReason, Tool, Toolbox, run_sync
from whichloop.protocol.events import RequestFailed, ToolFinished
from whichloop.protocol.moves import WireError
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

LOOPS: dict[str, Callable[[], Loop]] = {name: lambda loop=loop: loop for name, loop in DESIGNS.items()} | {
    "resumable": lambda: Resumable(Bare())
}
CALLING = sorted(LOOPS.keys() - {"finish forced"})
"""Those that call tools."""


async def of_another_task() -> None:
    """Await a task that somebody else has cancelled."""
    other = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other


async def awaiting(item: str) -> str:
    """What an item costs."""
    await of_another_task()
    return PRICES[item]


def raising(item: str) -> str:
    """What an item costs."""
    raise asyncio.CancelledError


TOOLS: dict[str, Callable[[], Tool]] = {
    "async": lambda: Tool.from_function(awaiting, name="price"),
    "in a thread": lambda: Tool.from_function(raising, name="price"),
    "in place": lambda: Tool.from_function(raising, name="price", blocking=False),
    "async with a time limit": lambda: Tool.from_function(awaiting, name="price", time_limit_s=60),
}


@pytest.mark.parametrize(("name", "kind"), in_turn(CALLING, [*TOOLS]))
def test_a_tool_that_raises_it_has_failed_and_the_run_goes_on(name: str, kind: str) -> None:
    heard = Heard()

    async def main() -> Any:
        return await LOOPS[name]().with_step_limit(4).run(Query(QUESTION), Toolbox([TOOLS[kind]()]), Shopper(), heard)

    outcome = run_sync(main())
    assert isinstance(outcome.stop, StopReason)
    finished = [event.observation for event in heard.events if isinstance(event, ToolFinished)]
    assert finished
    assert {(seen.status, seen.error_type) for seen in finished} == {("error", "CancelledError")}


class Failing(Shopper):
    """A model whose first requests await what somebody else has cancelled."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures
        self.asked = 0

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked <= self.failures:
            await of_another_task()
        return await super().complete(request)


@pytest.mark.parametrize(("name", "is_watched"), in_turn(LOOPS, [True, False]))
def test_a_model_that_raises_it_gives_no_reply_which_is_the_providers_error(name: str, is_watched: bool) -> None:
    heard = Heard()
    observed = (heard,) if is_watched else ()
    outcome = run_sync(LOOPS[name]().run(Query(QUESTION), Toolbox([price]), Failing(100), *observed))
    assert (outcome.stop, outcome.ok) == (StopReason.PROVIDER_ERROR, False)
    assert "the model raised CancelledError" in str(outcome.error)
    if is_watched:
        assert {type(event.error) for event in heard.events if isinstance(event, RequestFailed)} == {ProviderError}


@pytest.mark.parametrize("name", ["bare", "phased", "stateless"])
def test_another_attempt_mends_it(name: str) -> None:
    loop = ProviderRetry(LOOPS[name](), attempts=3)
    assert run_sync(loop.run(Query(QUESTION), Toolbox([price]), Failing(2))).answer is not None


# --- a WireError of the model's own ---


@pytest.mark.parametrize("design", designs.DESIGNS)
def test_no_design_stumbles_over_it(design: str) -> None:
    model = FakeModel(then=WireError("of the model's own"))
    loop = make_loop(parse_spec(design), tool_steps=3)
    with contextlib.suppress(WireError, RuntimeError):  # and no other error
        outcome = loop.run_sync(Query("1 + 2?"), Toolbox([add]), model)  # type: ignore[attr-defined]
        assert outcome.stop != StopReason.FINISHED
