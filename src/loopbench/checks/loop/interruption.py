"""Laws on what breaks a run off or stirs it up: budgets, cancellation, a failing provider, replies in another order."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Literal

from loopbench.protocol import (
    BudgetExceeded,
    ContextOverflow,
    Loop,
    ModelError,
    Outcome,
    ProviderError,
    StopReason,
    render_value,
)
from loopbench.protocol.digest import canonical_json
from loopbench.runs.trial.guard import stop

from .contract import limited
from .law import Broken, NotApplicable, require
from .scene import APART, CHAIN, FAILING, GRACE_S, LIMIT_S, ONE_CALL, Played, Scene, Seen, play, scripted, settle, start

Kind = Literal["model", "tool"]
Place = tuple[Kind, int]


async def _places(loop: Loop, scene: Scene) -> list[Place]:
    """Every model call and every tool call of an undisturbed run."""
    clean = await play(loop, scene)
    assert clean.outcome  # Broken, where there is none
    seen = clean.seen
    return [("model", k + 1) for k in range(len(seen.requests))] + [("tool", k + 1) for k in range(len(seen.calls))]


# --- others at the same time ---

STALL_S = 0.1
"""Seconds for which a run may keep the event loop from everybody else without working."""
STALLED_RUNS = 3
STOOD_STILL = "the event loop stood still"


async def never_blocks(loop: Loop) -> None:
    """The event loop never stands still while a run waits for something.

    `time.sleep` or a synchronous HTTP client inside a loop stops every other run of the process. Only idle time counts, and only
    what happens in each of several runs: a busy machine is not the loop's doing.
    """
    stalls = []
    for _ in range(STALLED_RUNS):
        stalls.append(await _longest_stall(loop))
        if stalls[-1] < STALL_S:
            return
    raise Broken(f"{STOOD_STILL} for {min(stalls):.2f} s in each of {STALLED_RUNS} runs; await, or use a thread")


async def _longest_stall(loop: Loop) -> float:
    """Seconds without a turn for others and without work, at most, in one clean run."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            started, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(0)
            waited = time.perf_counter() - started
            longest = max(longest, waited - (time.process_time() - worked))

    watcher = asyncio.create_task(watch())
    try:
        await play(limited(loop), await scripted(CHAIN))
    finally:
        await stop(watcher, GRACE_S)
    return longest


# --- budget and provider ---

_STRUCK: ContextVar[bool] = ContextVar("struck", default=False)


class _Strike:
    """A gate that raises at one place, and at every model call from then on; it counts those that should not have been made.

    Calls that were on their way when it struck, in tasks of their own, are no fault.
    """

    def __init__(self, place: Place, error: Callable[[], Exception]) -> None:
        self.place = place
        self.error = error
        self.struck = False
        self.settled = False
        self.further = 0

    async def __call__(self, kind: Kind, count: int) -> None:
        if self.struck and kind == "model":
            if self.settled or _STRUCK.get():
                self.further += 1
            raise self.error()
        if (kind, count) == self.place:
            self.struck = True
            _STRUCK.set(True)
            self._soon_settled()
            raise self.error()

    def _soon_settled(self, turns: int = 5) -> None:
        if turns == 0:
            self.settled = True
        else:
            asyncio.get_running_loop().call_soon(self._soon_settled, turns - 1)


async def budget(loop: Loop) -> None:
    """BudgetExceeded, from any model call or tool, leaves `run`, and no further model call is made.

    A budget is a promise to whoever pays; a loop that catches it goes on spending.
    """
    for scene in (await scripted(CHAIN), await scripted(FAILING), await scripted(APART)):
        for kind, count in await _places(limited(loop), scene):
            strike = _Strike((kind, count), lambda: BudgetExceeded("the budget is used up"))
            played = await play(limited(loop), scene, strike)
            where = f"BudgetExceeded at {kind} call {count}"
            require(not played.hung, f"{where}: the run {played.hung}; the exception must leave run()")
            require(isinstance(played.left, BudgetExceeded), f"{where}: run() {_ending(played.left)}; the exception must leave it")
            require(not strike.further, f"{where}: {strike.further} further model calls were made; none may be")


def _ending(left: object) -> str:
    """What `run` did at its end, in words."""
    if isinstance(left, BaseException):
        return f"raised {type(left).__name__}"
    return f"returned an Outcome with stop {left.stop}" if isinstance(left, Outcome) else f"returned a {type(left).__name__}"


async def provider_error(loop: Loop) -> None:
    """A provider's error ends the run with stop provider_error, without an answer and without a further model call.

    The model has retried already; an answer given in spite of it would be made up. A loop that does not declare provider_error has
    a rule of its own.
    """
    if StopReason.PROVIDER_ERROR not in loop.stops:
        raise NotApplicable("the loop does not declare the stop provider_error: it has a rule of its own")
    for scene in (await scripted(CHAIN), await scripted(FAILING), await scripted(APART)):
        for kind, count in await _places(limited(loop), scene):
            if kind == "tool":
                continue
            strike = _Strike((kind, count), lambda: ProviderError("500: internal server error", injected=True))
            outcome = (await play(limited(loop), scene, strike)).outcome
            where = f"provider error at model call {count}"
            require(
                outcome.stop is StopReason.PROVIDER_ERROR, f"{where}: the run stopped as {outcome.stop}; provider_error is right"
            )
            require(outcome.answer is None, f"{where}: the run answered {render_value(outcome.answer)[:100]!r}; it must give None")
            require(not strike.further, f"{where}: {strike.further} further model calls were made; none may be")


async def context_overflow(loop: Loop) -> None:
    """When no request fits into the context any more, the run ends by itself with stop context_overflow.

    A rule of the design, such as leaving out the oldest part, may come first; it must have an end.
    """
    if StopReason.CONTEXT_OVERFLOW not in loop.stops:
        raise NotApplicable("the loop does not declare the stop context_overflow: it has a rule of its own")
    for scene in (await scripted(CHAIN), await scripted(FAILING)):
        for kind, count in await _places(limited(loop), scene):
            if kind == "model":
                outcome = (await play(limited(loop), scene, _Strike((kind, count), _too_long))).outcome
                right = outcome.stop is StopReason.CONTEXT_OVERFLOW
                require(right, f"overflow from model call {count} on: the run stopped as {outcome.stop}; context_overflow is right")


def _too_long() -> ModelError:
    return ContextOverflow("the request has about 9000 tokens, the context holds 4000")


# --- cancellation ---


class _Hold:
    """A gate that holds the run up for good at one place, and every model call after it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.held = asyncio.Event()
        self.cancelled = False
        self.further = 0

    async def __call__(self, kind: Kind, count: int) -> None:
        if self.cancelled and kind == "model":
            self.further += 1
        if (kind, count) == self.place or self.cancelled:
            self.held.set()
            await asyncio.get_running_loop().create_future()


async def cancellation(loop: Loop) -> None:
    """Cancelled at any model call or tool call, a run raises CancelledError at once and leaves nothing running.

    Time limits and Ctrl-C work by cancellation; what swallows it, or what is left behind, spends money nobody asked for.
    """
    for scene in (await scripted(CHAIN), await scripted(APART)):
        for place in await _places(limited(loop), scene):
            await _cancelled_at(limited(loop), scene, place)


async def _cancelled_at(loop: Loop, scene: Scene, place: Place) -> None:
    where = f"cancelled at {place[0]} call {place[1]}"
    before = asyncio.all_tasks()
    hold, seen = _Hold(place), Seen()
    running = start(loop, scene, seen, hold)
    held = asyncio.create_task(hold.held.wait())
    try:
        await asyncio.wait({running, held}, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
        require(hold.held.is_set(), f"{where}: the run never came there, though it does so undisturbed")
        hold.cancelled = True
        ended = await stop(running, GRACE_S)
        require(ended, f"{where}: the run did not end within {GRACE_S:g} s; CancelledError must leave run()")
        how = "" if running.cancelled() else _ending(running.result())
        require(running.cancelled(), f"{where}: run() {how}; CancelledError must leave it")
        await settle()
        require(not hold.further, f"{where}: {hold.further} further model calls were made; none may be")
        require(not seen.tools_running, f"{where}: a tool is still running; it must be cancelled too")
        left = asyncio.all_tasks() - before - {held}
        require(not left, f"{where}: {len(left)} asyncio tasks are still running; a run must end what it began")
    finally:
        held.cancel()
        for task in asyncio.all_tasks() - before - {held}:
            await stop(task, 0.1)


# --- order ---


class _Shuffle:
    """A gate that holds model calls up and lets them through one by one, in a seeded order."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.waiting: list[asyncio.Future[None]] = []

    async def __call__(self, kind: Kind, count: int) -> None:
        if kind == "tool":
            await asyncio.sleep(0)
            return
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn

    async def deal(self) -> None:
        """Without end: once nothing else goes on, let one waiting call through."""
        while True:
            await settle()
            self.waiting = [turn for turn in self.waiting if not turn.done()]
            if self.waiting:
                self.rng.choice(self.waiting).set_result(None)


async def shuffled(loop: Loop) -> None:
    """Answering concurrent requests in another order changes neither the answer, nor the stop, nor what is asked; and two requests
    of equal scope are never in flight together.

    Otherwise results depend on the network, and no two runs can be compared.
    """
    for scene in (await scripted(APART), await scripted(CHAIN), await scripted(ONE_CALL)):
        ordered = await play(limited(loop), scene)
        expected = _gist(ordered)
        for seed in range(5):
            played = await _dealt(limited(loop), scene, seed)
            clash = played.seen.clash
            require(clash is None, f"two requests of scope {clash!r} are in flight together; give each branch a scope of its own")
            found = _gist(played)
            for what, one, other in zip(("answer", "stop", "set of requests"), expected, found, strict=True):
                require(one == other, f"with replies in another order (seed {seed}) the {what} differs; it must not")


async def _dealt(loop: Loop, scene: Scene, seed: int) -> Played:
    shuffle = _Shuffle(seed)
    dealer = asyncio.create_task(shuffle.deal())
    try:
        return await play(loop, scene, shuffle)
    finally:
        dealer.cancel()


def _gist(played: Played) -> tuple[str, str, Counter[str]]:
    outcome = played.outcome
    return render_value(outcome.answer), str(outcome.stop), Counter(map(canonical_json, played.asked))
