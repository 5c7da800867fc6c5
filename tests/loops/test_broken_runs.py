"""A store or an observer that raises: that leaves the run in every design, nothing is asked after it, and nothing is paid twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper
from whichloop.loops import Bare, Checkpoint, Finish, Guarded, Microcompact, Phased, ProviderRetry, RepeatGuard, Stateless
from whichloop.loops.resumable import ApprovalRequired, Resumable
from whichloop.loops.shared.boundary import run_of
from whichloop.protocol import Loop, Observation, Outcome, Query, Reply, StopRun, Toolbox, ToolCall, WrappedLoop, run_sync
from whichloop.protocol.events import SILENT, Observer, RunEnded, RunEvent
from whichloop.protocol.model import Model, ProviderError, Request, WrappedModel
from whichloop.protocol.tools import ToolboxAround


class TakesAllForErrors(ToolboxAround):
    """What is raised at a call is an error of the tool."""

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        try:
            return await self.within.call(call, validate=validate)
        except Exception as error:
            return Observation(call.name, "error", str(error), type(error).__name__)


class TakesAllForFailures(WrappedModel):
    """What is raised at a request is a failure of the provider."""

    async def complete(self, request: Request) -> Reply:
        try:
            return await self.model.complete(request)
        except Exception as error:
            raise ProviderError(str(error), "server") from error


@dataclass(frozen=True, slots=True)
class Stubborn(WrappedLoop):
    """A design of a user's own that nothing stops."""

    async def run(self, query: Query[Any], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[Any]:
        return await self.loop.run(query, TakesAllForErrors(tools), TakesAllForFailures(model), observer)


LOOPS: dict[str, Callable[[], Loop]] = DESIGNS | {
    "stateless in parallel": lambda: Stateless(execution_mode="parallel"),
    "guarded": lambda: Guarded(loop=Finish(max_steps=6), writes="confirmed"),
    "repeat_guard": lambda: RepeatGuard(loop=Stateless()),
    "microcompact": lambda: Microcompact(loop=Bare()),
    "provider_retry": lambda: ProviderRetry(loop=Phased(tool_layout="agent")),
    "stubborn bare": lambda: Stubborn(Bare(on_provider_error="observe")),
    "stubborn phased": lambda: Stubborn(Phased()),
    "stubborn stateless": lambda: Stubborn(Stateless()),
}


class Broken(Exception):
    """What the store or the observer raises."""


class Ended(StopRun):
    """The process ends after the tool has acted."""


class Shop(Observer):
    """A tool that needs approval, its store, and an observer; one of them raises when something has happened so many times."""

    def __init__(self, at: int, breaks: str) -> None:
        """`breaks`: `entry` before it is stored, `stored entry` after that, `event`, or `call`, when the tool has acted."""
        self.at, self.breaks = at, breaks
        self.is_let = at % 2 == 0
        """Whether a rule lets the calls run, or each waits for a person."""
        self.count = 0
        self.lines: list[str] = []
        self.paid = Counter[str]()
        self.approved = Counter[str]()
        self.events: list[RunEvent] = []
        self.model = Shopper()
        self.asked_before = 0

    def _happens(self, what: str) -> None:
        if what != self.breaks:
            return
        self.count += 1
        if self.count == self.at:
            self.asked_before = len(self.model.requests)
            raise Ended if what == "call" else Broken(what)

    def on_event(self, event: RunEvent) -> None:
        self.events.append(event)
        self._happens("event")

    def store(self, entry: dict[str, Any]) -> None:
        self._happens("entry")
        self.lines.append(json.dumps(entry))
        self._happens("stored entry")

    def price(self, item: str) -> str:
        """What an item costs."""
        self.paid[item] += 1
        self._happens("call")
        return PRICES[item]

    def run(self, loop: Loop, checkpoint: Checkpoint | None = None) -> Outcome[Any]:
        given = loop if checkpoint is None else Resumable(loop, checkpoint)
        return run_sync(run_of(given)(Query(QUESTION), Toolbox([self.price]), self.model, self))

    def checkpoint(self, entries: list[dict[str, Any]] | None = None) -> Checkpoint:
        stored = map(json.loads, list(self.lines)) if entries is None else entries
        rule = {"price": lambda arguments: False} if self.is_let else ["price"]
        return Checkpoint(stored, needs_approval=rule, on_entry=self.store)

    def goes_on(self, loop: Loop, checkpoint: Checkpoint) -> Any:
        """Carry the run out until it ends; a person lets what waits be called."""
        for _ in range(9):
            try:
                return self.run(loop, checkpoint).answer
            except ApprovalRequired as stopped:
                for waiting in stopped.pending:
                    try:
                        checkpoint.approve(waiting)
                    except Broken:  # the decision is not known to be stored
                        checkpoint = self.checkpoint()
                        if waiting not in checkpoint.pending:
                            self.approved[waiting.call.arguments["item"]] += 1
                        break
                    self.approved[waiting.call.arguments["item"]] += 1
            except (Broken, Ended) as error:
                if isinstance(error, Broken):
                    assert len(self.model.requests) == self.asked_before
                    assert isinstance(self.events[-1], RunEnded)
                checkpoint = checkpoint if self.breaks == "entry" and self.at % 4 > 1 else self.checkpoint()
        raise AssertionError("it waits for ever")


EVERY = [3, pytest.param(1, marks=pytest.mark.slow)]
"""At every third of the places where a run may break, the last one among them; the slow tests take every place."""
LESS = ("native", "phased agent", "finish in parallel", "repeat_guard", "microcompact", "stubborn phased", "stubborn stateless")
CHOSEN = [pytest.param(name, marks=pytest.mark.slow) if name in LESS else name for name in LOOPS]
"""Each design, in parallel and with each kind of loop around it; the slow tests take the rest."""


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("breaks", ["entry", "stored entry", "event", "call"])
@pytest.mark.parametrize("name", CHOSEN)
def test_whatever_ends_a_run_anywhere_nothing_is_paid_undecided_or_twice_on_one_decision(
    name: str, breaks: str, every: int
) -> None:
    """An observer or a store raises, or the process ends."""
    if breaks == "call" and "stubborn" in name:
        return  # a design that takes the end of its process for an error
    loop = LOOPS[name]()
    whole = Shop(0, breaks)
    assert whole.goes_on(loop, whole.checkpoint()) == ANSWER
    for at in range(whole.count + 4, 0, -every):  # there are more where calls wait
        shop = Shop(at, breaks)
        assert shop.goes_on(loop, shop.checkpoint()) == ANSWER, at
        for item in PRICES:
            assert shop.paid[item] <= shop.is_let + shop.approved[item], at


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("name", CHOSEN)
def test_what_an_observer_raises_leaves_a_run_without_a_checkpoint(name: str, every: int) -> None:
    loop = LOOPS[name]()
    whole = Shop(0, "event")
    assert whole.run(loop).answer == ANSWER
    for at in range(whole.count, 0, -every):
        shop = Shop(at, "event")
        with pytest.raises(Broken):
            shop.run(loop)
        assert len(shop.model.requests) == shop.asked_before, at


@pytest.mark.parametrize("name", ["stubborn bare", "stubborn phased", "stubborn stateless"])
def test_a_design_that_takes_a_stop_for_an_error_does_not_end_the_run(name: str) -> None:
    shop = Shop(0, "")
    checkpoint = Checkpoint(needs_approval=["price"])
    with pytest.raises(ApprovalRequired):
        shop.run(LOOPS[name](), checkpoint)
    asked = len(shop.model.requests)
    with pytest.raises(ApprovalRequired):
        shop.run(LOOPS[name](), checkpoint)
    assert (len(shop.model.requests), shop.paid) == (asked, Counter())
    assert shop.goes_on(LOOPS[name](), checkpoint) == ANSWER
    assert shop.paid == shop.approved == Counter(PRICES.keys())


def test_an_observer_of_notes_alone_ends_the_run_too() -> None:
    class Notes(Observer):
        def note(self, kind: str, **data: Any) -> None:
            raise Broken(kind)

    shop = Shop(0, "")
    with pytest.raises(Broken):
        run_sync(run_of(Stubborn(Phased()))(Query(QUESTION), Toolbox([shop.price]), shop.model, Notes()))
