"""Laws on interruptions: budgets, cancellation, a failing provider, replies in another order."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Literal

from whichloop.models.at_once import LATE
from whichloop.models.profiles import load_profile
from whichloop.models.receipts import paired_results
from whichloop.protocol import (
    BudgetExceeded,
    ContextOverflow,
    ForeignLoop,
    Loop,
    ModelError,
    Outcome,
    ProviderError,
    StopReason,
    render_value,
)
from whichloop.protocol.digest import canonical_json
from whichloop.runs.trial.watchdog import stop

from .contract import limited
from .law import Broken, NotApplicable, require
from .scene import APART, CHAIN, FAILING, GRACE_S, ONE_CALL, FinishedRun, RunLog, Scene, limit_s, play, scripted, settle, start

Kind = Literal["model", "tool"]
Place = tuple[Kind, int]


async def _places(loop: Loop, scene: Scene) -> list[Place]:
    """Return every model call and every tool call of a run without interruption."""
    clean = await play(loop, scene)
    assert clean.outcome  # raises Broken if there is none
    log = clean.log
    return [("model", k + 1) for k in range(len(log.requests))] + [("tool", k + 1) for k in range(len(log.calls))]


# --- concurrent runs ---

STALL_S = 0.1
"""Maximum seconds for which a run may block the event loop without working."""
STALLED_RUNS = 3
STOOD_STILL = "the event loop stood still"


async def never_blocks(loop: Loop) -> None:
    """A run never blocks the event loop while it waits.

    `time.sleep` or a synchronous HTTP client in a loop stops every other run of the process. Only idle time counts, and only if it
    recurs in several runs, because a busy machine is not the loop's fault.
    """
    if isinstance(loop, ForeignLoop):
        raise NotApplicable("its steps are taken in a process of their own, which competes for the processor")
    stalls = []
    for _ in range(STALLED_RUNS):
        stalls.append(await _longest_stall(loop))
        if stalls[-1] < STALL_S:
            return
    raise Broken(f"{STOOD_STILL} for {min(stalls):.2f} s in each of {STALLED_RUNS} runs; await, or use a thread")


async def _longest_stall(loop: Loop) -> float:
    """Return the longest time in seconds for which one clean run blocks the event loop without working."""
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

_HAS_FAILED: ContextVar[bool] = ContextVar("has_failed", default=False)


class _FailingGate:
    """A gate that raises at one place and at every later model call, and counts the forbidden later calls.

    Concurrent calls in other tasks that had already started are allowed.
    """

    def __init__(self, place: Place, error: Callable[[], Exception]) -> None:
        self.place = place
        self.error = error
        self.has_failed = False
        self.settled = False
        self.further = 0

    async def __call__(self, kind: Kind, count: int) -> None:
        if self.has_failed and kind == "model":
            if self.settled or _HAS_FAILED.get():
                self.further += 1
            raise self.error()
        if (kind, count) == self.place:
            self.has_failed = True
            _HAS_FAILED.set(True)
            self._soon_settled()
            raise self.error()

    def _soon_settled(self, turns: int = 5) -> None:
        if turns == 0:
            self.settled = True
        else:
            asyncio.get_running_loop().call_soon(self._soon_settled, turns - 1)


async def budget(loop: Loop) -> None:
    """BudgetExceeded from any model call or tool propagates from `run`, and no further model call follows.

    A loop that catches it goes on spending money.
    """
    for scene in (await scripted(CHAIN), await scripted(FAILING), await scripted(APART)):
        for kind, count in await _places(limited(loop), scene):
            gate = _FailingGate((kind, count), lambda: BudgetExceeded("the budget is used up"))
            finished = await play(limited(loop), scene, gate)
            where = f"BudgetExceeded at {kind} call {count}"
            require(not finished.hung, f"{where}: the run {finished.hung}; the exception must leave run()")
            is_right, ending = isinstance(finished.result, BudgetExceeded), _ending(finished.result)
            require(is_right, f"{where}: run() {ending}; the exception must leave it")
            require(not gate.further, f"{where}: {gate.further} further model calls were made; none may be")


def _ending(result: object) -> str:
    """Return the end of `run` in words."""
    if isinstance(result, BaseException):
        return f"raised {type(result).__name__}"
    return f"returned an Outcome with stop {result.stop}" if isinstance(result, Outcome) else f"returned a {type(result).__name__}"


async def provider_error(loop: Loop) -> None:
    """A provider's error ends the run with stop provider_error, without an answer and without a further model call.

    The model has already retried, so an answer would be invented. A loop that does not declare provider_error has its own rule. A
    loop with `provider_attempts` sends a request that often, and the client of a foreign loop may ask again.
    """
    if StopReason.PROVIDER_ERROR not in loop.stops:
        raise NotApplicable("the loop does not declare the stop provider_error: it has a rule of its own")
    allowed = getattr(loop, "provider_attempts", 1) - 1
    for scene in (await scripted(CHAIN), await scripted(FAILING), await scripted(APART)):
        for kind, count in await _places(limited(loop), scene):
            if kind == "tool":
                continue
            gate = _FailingGate((kind, count), lambda: ProviderError("500: internal server error", injected=True))
            outcome = (await play(limited(loop), scene, gate)).outcome
            where = f"provider error at model call {count}"
            require(
                outcome.stop is StopReason.PROVIDER_ERROR, f"{where}: the run stopped as {outcome.stop}; provider_error is right"
            )
            require(outcome.answer is None, f"{where}: the run answered {render_value(outcome.answer)[:100]!r}; it must give None")
            problem = f"{where}: {gate.further} further model calls were made; {allowed or 'none'} may be"
            require(isinstance(loop, ForeignLoop) or gate.further <= allowed, problem)


async def context_overflow(loop: Loop) -> None:
    """If no request fits into the context any more, the run ends by itself with stop context_overflow.

    A rule of the design, such as dropping the oldest part, may apply first, but must terminate.
    """
    if StopReason.CONTEXT_OVERFLOW not in loop.stops:
        raise NotApplicable("the loop does not declare the stop context_overflow: it has a rule of its own")
    for scene in (await scripted(CHAIN), await scripted(FAILING)):
        for kind, count in await _places(limited(loop), scene):
            if kind == "model":
                outcome = (await play(limited(loop), scene, _FailingGate((kind, count), _too_long))).outcome
                is_right = outcome.stop is StopReason.CONTEXT_OVERFLOW
                require(is_right, f"overflow from model call {count} on: the run stopped as {outcome.stop}, not context_overflow")


def _too_long() -> ModelError:
    return ContextOverflow("the request has about 9000 tokens, the context holds 4000")


# --- cancellation ---


class _BlockingGate:
    """A gate that blocks the run at one place forever, and every later model call."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.reached = asyncio.Event()
        self.cancelled = False
        self.further = 0

    async def __call__(self, kind: Kind, count: int) -> None:
        if self.cancelled and kind == "model":
            self.further += 1
        if (kind, count) == self.place or self.cancelled:
            self.reached.set()
            await asyncio.get_running_loop().create_future()


async def cancellation(loop: Loop) -> None:
    """A run cancelled at any model or tool call raises CancelledError at once and leaves nothing running.

    Time limits and Ctrl-C use cancellation; a loop that swallows it, or a task left running, wastes money. The connections of a
    foreign loop's program outlast its runs.
    """
    for scene in (await scripted(CHAIN), await scripted(APART)):
        for place in await _places(limited(loop), scene):
            await _cancelled_at(limited(loop), scene, place)


async def _cancelled_at(loop: Loop, scene: Scene, place: Place) -> None:
    where = f"cancelled at {place[0]} call {place[1]}"
    earlier_tasks = asyncio.all_tasks()
    hold, log = _BlockingGate(place), RunLog()
    running = start(loop, scene, log, hold)
    reached = asyncio.create_task(hold.reached.wait())
    try:
        await asyncio.wait({running, reached}, timeout=limit_s(loop), return_when=asyncio.FIRST_COMPLETED)
        require(hold.reached.is_set(), f"{where}: the run never got there, as it does without interruption")
        hold.cancelled = True
        has_ended = await stop(running, GRACE_S)
        require(has_ended, f"{where}: the run did not end within {GRACE_S:g} s; CancelledError must leave run()")
        ending = "" if running.cancelled() else _ending(running.result())
        require(running.cancelled(), f"{where}: run() {ending}; CancelledError must leave it")
        await settle()
        require(not hold.further, f"{where}: {hold.further} further model calls were made; none may be")
        require(not log.tools_running, f"{where}: a tool is still running; it must be cancelled too")
        leftover = set() if isinstance(loop, ForeignLoop) else asyncio.all_tasks() - earlier_tasks - {reached}
        require(not leftover, f"{where}: {len(leftover)} asyncio tasks are still running; a run must end the tasks that it starts")
    finally:
        reached.cancel()
        for task in set() if isinstance(loop, ForeignLoop) else asyncio.all_tasks() - earlier_tasks - {reached}:
            await stop(task, 0.1)


# --- order ---


class _ShufflingGate:
    """A gate that delays model calls and lets them through one by one in a seeded order."""

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
        """Repeatedly let one waiting call through once everything else is idle."""
        while True:
            await settle()
            self.waiting = [turn for turn in self.waiting if not turn.done()]
            if self.waiting:
                self.rng.choice(self.waiting).set_result(None)


async def shuffled(loop: Loop) -> None:
    """Another order of concurrent replies changes neither the answer, nor the stop, nor the requests, and no two requests of
    equal scope are in flight together.

    Otherwise results depend on the network, and no two runs can be compared.
    """
    for scene in (await scripted(APART), await scripted(CHAIN), await scripted(ONE_CALL)):
        ordered = await play(limited(loop), scene)
        expected = _comparable_result(ordered)
        for seed in range(5):
            finished = await _shuffled_run(limited(loop), scene, seed)
            clash = finished.log.clash
            require(clash is None, f"two requests of scope {clash!r} are in flight together; give each branch its own scope")
            actual = _comparable_result(finished)
            for part, a, b in zip(("answer", "stop", "set of requests"), expected, actual, strict=True):
                require(a == b, f"with replies in another order (seed {seed}) the {part} differs; it must not")


async def _shuffled_run(loop: Loop, scene: Scene, seed: int) -> FinishedRun:
    shuffle = _ShufflingGate(seed)
    dealer = asyncio.create_task(shuffle.deal())
    try:
        return await play(loop, scene, shuffle)
    finally:
        dealer.cancel()


async def calls_at_once(loop: Loop) -> None:
    """Calls of one reply that end in another order are made as ever, and each result is given for its own call.

    A model takes a result for that of the call that it is given for.
    """
    all_late = load_profile("clean").model_copy(update={"rates": {LATE: 1.0}})
    for task in (APART, CHAIN):
        in_order = await play(limited(loop), await scripted(task))
        finished = await play(limited(loop), await scripted(task, profile=all_late))
        for request in finished.log.requests:
            mixed = [one for one in paired_results(request.messages) if not one.is_right]
            require(not mixed, f"with calls that end in another order {len(mixed)} results are given for another call")
        for part, a, b in zip(("calls", "answer", "stop"), _made_and_said(in_order), _made_and_said(finished), strict=True):
            differ = "calls differ" if part == "calls" else f"{part} differs"
            require(a == b, f"with calls that end in another order the {differ}: {b} instead of {a}")


def _made_and_said(finished: FinishedRun) -> tuple[str, str, str]:
    calls = sorted(f"{call.name}{canonical_json(call.arguments)}" for call in finished.log.calls)
    outcome = finished.outcome
    return ", ".join(calls), render_value(outcome.answer), str(outcome.stop)


def _comparable_result(finished: FinishedRun) -> tuple[str, str, Counter[str]]:
    outcome = finished.outcome
    return render_value(outcome.answer), str(outcome.stop), Counter(map(canonical_json, finished.requests))
