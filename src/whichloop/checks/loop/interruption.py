"""Laws on interruptions: blocking, budgets, cancellation, a failing provider, replies and calls in another order."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar

from whichloop.datasets.task import Task
from whichloop.models.at_once import LATE
from whichloop.models.profiles import load_profile
from whichloop.models.receipts import paired_results
from whichloop.protocol import BudgetExceeded, ContextOverflow, ForeignLoop, Loop, Outcome, ProviderError, StopReason, render_value
from whichloop.protocol.digest import canonical_json
from whichloop.runs.trial.watchdog import stop

from ..shared.law import Broken, NotApplicable, law, require
from .scene import APART, CHAIN, FAILING, GRACE_S, ONE_CALL, FinishedRun, Kind, RunLog, limit_s, limited, play, scripted, start

STALL_S = 0.1
"""Maximum seconds for which a run may block the event loop without working."""
STALLED_RUNS = 3


@law("waiting", "the event loop never stands still while a run waits")
async def never_blocks(loop: Loop) -> None:
    """`time.sleep` or a synchronous HTTP client in a loop stops every other run of the process.

    Only idle time counts, and only if it recurs in several runs, because a busy machine is not the loop's fault.
    """
    if isinstance(loop, ForeignLoop):
        raise NotApplicable("its steps are taken in a process of their own, which competes for the processor")
    stalls = []
    for _ in range(STALLED_RUNS):
        stalls.append(await _longest_stall(loop))
        if stalls[-1] < STALL_S:
            return
    stood = f"the event loop stood still for {min(stalls):.2f} s in each of {STALLED_RUNS} runs"
    raise Broken(f"{stood}; await, or use a thread", ends=True)


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


# --- what fails ---

_HAS_FAILED: ContextVar[bool] = ContextVar("has_failed", default=False)


class _FailingGate:
    """A gate that raises at one place and at every later model call, and counts the forbidden later calls.

    Concurrent calls in other tasks that had already started are allowed.
    """

    def __init__(self, place: tuple[Kind, int], error: Callable[[], Exception]) -> None:
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


async def _places(loop: Loop, task: Task) -> list[tuple[Kind, int]]:
    """Return every model call and every tool call of a run without interruption."""
    clean = await play(limited(loop), await scripted(task))
    assert clean.outcome  # raises Broken if there is none
    return [("model", k + 1) for k in range(len(clean.log.requests))] + [("tool", k + 1) for k in range(len(clean.log.calls))]


async def _failing(
    loop: Loop, error: Callable[[], Exception], tools: bool = False
) -> AsyncIterator[tuple[str, FinishedRun, _FailingGate]]:
    """Yield runs that fail at each model call, and with `tools` at each call of a tool, and after it."""
    for task in (CHAIN, FAILING, APART):
        for kind, count in await _places(loop, task):
            if kind == "model" or tools:
                gate = _FailingGate((kind, count), error)
                yield f"at {kind} call {count}", await play(limited(loop), await scripted(task), gate), gate


@law("budget", "run lets BudgetExceeded through, and makes no further model call")
async def budget(loop: Loop) -> None:
    """A loop that catches it goes on spending money."""
    async for place, finished, gate in _failing(loop, lambda: BudgetExceeded("the budget is used up"), tools=True):
        where = f"BudgetExceeded {place}"
        require(not finished.hung, f"{where}: the run {finished.hung}; the exception must leave run()")
        is_right = isinstance(finished.result, BudgetExceeded)
        require(is_right, f"{where}: run() {_ending(finished.result)}; the exception must leave it")
        require(not gate.further, f"{where}: {gate.further} further model calls were made; none may be")


def _ending(result: object) -> str:
    """Return the end of `run` in words."""
    if isinstance(result, BaseException):
        return f"raised {type(result).__name__}"
    return f"returned an Outcome with stop {result.stop}" if isinstance(result, Outcome) else f"returned a {type(result).__name__}"


@law("provider error", "a provider error ends the run without an answer")
async def provider_error(loop: Loop) -> None:
    """The model has retried already, so an answer would be invented.

    A loop with `provider_attempts` sends a request that often, and the client of a foreign loop may ask again.
    """
    if StopReason.PROVIDER_ERROR not in loop.stops:
        raise NotApplicable("the loop does not declare the stop provider_error: it has a rule of its own")
    allowed = getattr(loop, "provider_attempts", 1) - 1
    async for place, finished, gate in _failing(loop, lambda: ProviderError("500: internal server error", injected=True)):
        where, outcome = f"provider error {place}", finished.outcome
        is_right = outcome.stop is StopReason.PROVIDER_ERROR
        require(is_right, f"{where}: the run stopped as {outcome.stop}; provider_error is right")
        require(outcome.answer is None, f"{where}: the run answered {render_value(outcome.answer)[:100]!r}; it must give None")
        problem = f"{where}: {gate.further} further model calls were made; {allowed or 'none'} may be"
        require(isinstance(loop, ForeignLoop) or gate.further <= allowed, problem)


@law("context overflow", "a permanent context overflow ends the run with stop context_overflow")
async def context_overflow(loop: Loop) -> None:
    """A rule of the design, such as dropping the oldest part, may apply first, but must terminate."""
    if StopReason.CONTEXT_OVERFLOW not in loop.stops:
        raise NotApplicable("the loop does not declare the stop context_overflow: it has a rule of its own")
    too_long = "the request has about 9000 tokens, the context holds 4000"
    async for place, finished, _ in _failing(loop, lambda: ContextOverflow(too_long)):
        is_right = finished.outcome.stop is StopReason.CONTEXT_OVERFLOW
        require(is_right, f"overflow {place} and later: the run stopped as {finished.outcome.stop}, not context_overflow")


# --- cancellation ---


class _BlockingGate:
    """A gate that blocks the run at one place forever, and every later model call."""

    def __init__(self, place: tuple[Kind, int]) -> None:
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


@law("cancellation", "run lets CancelledError through at once, and leaves no task or tool running")
async def cancellation(loop: Loop) -> None:
    """Time limits and Ctrl-C use cancellation; a loop that swallows it, or a task left running, wastes money."""
    for task in (CHAIN, APART):
        for place in await _places(loop, task):
            await _check_cancelled(limited(loop), task, place)


async def _check_cancelled(loop: Loop, task: Task, place: tuple[Kind, int]) -> None:
    where, scene = f"cancelled at {place[0]} call {place[1]}", await scripted(task)
    earlier_tasks = asyncio.all_tasks()
    gate, log = _BlockingGate(place), RunLog()
    running = start(loop, scene, log, gate)
    reached = asyncio.create_task(gate.reached.wait())

    def leftover() -> set[asyncio.Task[object]]:
        # The connections of a foreign loop's program outlast its runs.
        return set() if isinstance(loop, ForeignLoop) else asyncio.all_tasks() - earlier_tasks - {reached}

    try:
        await asyncio.wait({running, reached}, timeout=limit_s(loop), return_when=asyncio.FIRST_COMPLETED)
        require(gate.reached.is_set(), f"{where}: the run never got there, as it does without interruption")
        gate.cancelled = True
        has_ended = await stop(running, GRACE_S)
        require(has_ended, f"{where}: the run did not end within {GRACE_S:g} s; CancelledError must leave run()")
        ending = "" if running.cancelled() else _ending(running.result())
        require(running.cancelled(), f"{where}: run() {ending}; CancelledError must leave it")
        await _settle()
        require(not gate.further, f"{where}: {gate.further} further model calls were made; none may be")
        require(not log.tools_running, f"{where}: a tool is still running; it must be cancelled too")
        left = len(leftover())
        require(not left, f"{where}: {left} asyncio tasks are still running; a run must end the tasks that it starts")
    finally:
        reached.cancel()
        for each in leftover():
            await stop(each, 0.1)


async def _settle() -> None:
    """Let every ready task run."""
    for _ in range(10):
        await asyncio.sleep(0)


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
            await _settle()
            self.waiting = [turn for turn in self.waiting if not turn.done()]
            if self.waiting:
                self.rng.choice(self.waiting).set_result(None)


@law("order", "the order of concurrent replies changes nothing; their scopes differ")
async def shuffled(loop: Loop) -> None:
    """Otherwise results depend on the network, and no two runs can be compared."""
    for task in (APART, CHAIN, ONE_CALL):
        scene = await scripted(task)
        expected = _comparable_result(await play(limited(loop), scene))
        for seed in range(5):
            gate = _ShufflingGate(seed)
            dealer = asyncio.create_task(gate.deal())
            try:
                finished = await play(limited(loop), scene, gate)
            finally:
                dealer.cancel()
            clash = finished.log.clash
            require(clash is None, f"two requests of scope {clash!r} are in flight together; give each branch its own scope")
            actual = _comparable_result(finished)
            for part, a, b in zip(("answer", "stop", "set of requests"), expected, actual, strict=True):
                require(a == b, f"with replies in another order (seed {seed}) the {part} differs; it must not")


def _comparable_result(finished: FinishedRun) -> tuple[str, str, Counter[str]]:
    outcome = finished.outcome
    return render_value(outcome.answer), str(outcome.stop), Counter(map(canonical_json, finished.requests))


@law("calls at once", "calls of one reply that end in another order are made once each, and each result is given for its own call")
async def calls_at_once(loop: Loop) -> None:
    """A model takes a result for that of the call that it is given for."""
    all_late = load_profile("clean").model_copy(update={"rates": {LATE: 1.0}})
    for task in (APART, CHAIN):
        in_order = await play(limited(loop), await scripted(task))
        finished = await play(limited(loop), await scripted(task, profile=all_late))
        for request in finished.log.requests:
            mixed = [one for one in paired_results(request.messages) if not one.is_right]
            require(not mixed, f"with calls that end in another order {len(mixed)} results are given for another call")
        for part, a, b in zip(("calls", "answer", "stop"), _made_and_said(in_order), _made_and_said(finished), strict=True):
            require(a == b, f"with calls that end in another order: {part}: {b} instead of {a}")


def _made_and_said(finished: FinishedRun) -> tuple[str, str, str]:
    calls = sorted(f"{call.name}{canonical_json(call.arguments)}" for call in finished.log.calls)
    return ", ".join(calls), render_value(finished.outcome.answer), str(finished.outcome.stop)
