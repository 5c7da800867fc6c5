"""Laws on interruptions: blocking, budgets, cancellation, a failing provider, replies and calls in another order."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar

from whichloop.datasets.task import Task
from whichloop.models.profiles import load_profile
from whichloop.models.receipts import paired_results
from whichloop.models.tunnel import LATE
from whichloop.protocol import BudgetExceeded, ContextOverflow, ForeignLoop, Loop, Outcome, ProviderError, StopReason, render_value
from whichloop.protocol.json_text import canonical_json
from whichloop.runs.trial.watchdog import stop

from ..shared.law import Broken, NotApplicable, law, require
from .scene import APART, CHAIN, FAILING, GRACE_S, ONE_CALL, FinishedRun, Kind, RunLog, limit_s, limited, scripted, solve, start

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
    stalls: list[float] = []

    async def watch() -> None:
        """Note the longest time for which a clean run blocks the event loop without working."""
        stalls.append(0.0)
        while True:
            started, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(0)
            waited = time.perf_counter() - started
            stalls[-1] = max(stalls[-1], waited - (time.process_time() - worked))

    for _ in range(STALLED_RUNS):
        watcher = asyncio.create_task(watch())
        try:
            await solve(loop, CHAIN)
        finally:
            await stop(watcher, GRACE_S)
        if stalls[-1] < STALL_S:
            return
    stood = f"the event loop stood still for {min(stalls):.2f} s in each of {STALLED_RUNS} runs"
    raise Broken(f"{stood}; await, or use a thread", ends=True)


_HAS_STRUCK: ContextVar[bool] = ContextVar("has_struck", default=False)


class _Interruption:
    """A gate that raises at one place and at each later model call, or stops the run there; and counts those later calls.

    Calls of other tasks that have started already are allowed.
    """

    def __init__(self, place: tuple[Kind, int], error: Callable[[], Exception] | None = None) -> None:
        self.place, self.error = place, error
        self.reached = asyncio.Event()
        self.is_over = False
        self.further = 0

    async def __call__(self, kind: Kind, count: int) -> None:
        if kind == "model" and (self.is_over or _HAS_STRUCK.get()):
            self.further += 1
        is_later = self.reached.is_set() and (kind == "model" or self.error is None)
        if not is_later and (kind, count) != self.place:
            return
        if not self.reached.is_set():
            self.reached.set()
            _HAS_STRUCK.set(True)
            self._soon_over()
        if self.error is not None:
            raise self.error()
        await asyncio.get_running_loop().create_future()

    def _soon_over(self, turns: int = 10) -> None:
        self.is_over = turns == 0
        if turns:
            asyncio.get_running_loop().call_soon(self._soon_over, turns - 1)


async def _places(loop: Loop, task: Task) -> list[tuple[Kind, int]]:
    """Return every model call and every tool call of a run without interruption."""
    clean = await solve(loop, task)
    assert clean.outcome  # raises Broken if there is none
    return [("model", k + 1) for k in range(len(clean.log.requests))] + [("tool", k + 1) for k in range(len(clean.log.calls))]


async def _failing(
    loop: Loop, error: Callable[[], Exception], *kinds: Kind
) -> AsyncIterator[tuple[str, FinishedRun, _Interruption]]:
    """Yield runs that fail at each call of these kinds, and after it."""
    for task in (CHAIN, FAILING, APART):
        for kind, count in await _places(loop, task):
            if kind in kinds:
                gate = _Interruption((kind, count), error)
                yield f"at {kind} call {count}", await solve(loop, task, gate), gate


@law("budget", "run lets BudgetExceeded through, and makes no further model call")
async def budget(loop: Loop) -> None:
    """A loop that catches it goes on spending money."""
    async for place, finished, gate in _failing(loop, lambda: BudgetExceeded("the budget is used up"), "model", "tool"):
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
    async for place, finished, gate in _failing(loop, lambda: ProviderError("500: internal server error", injected=True), "model"):
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
    async for place, finished, _ in _failing(loop, lambda: ContextOverflow(too_long), "model"):
        is_right = finished.outcome.stop is StopReason.CONTEXT_OVERFLOW
        require(is_right, f"overflow {place} and later: the run stopped as {finished.outcome.stop}, not context_overflow")


@law("cancellation", "run lets CancelledError through at once, and leaves no task or tool running")
async def cancellation(loop: Loop) -> None:
    """Time limits and Ctrl-C use cancellation; a loop that swallows it, or a task left running, wastes money."""
    for task in (CHAIN, APART):
        for place in await _places(loop, task):
            await _check_cancelled(limited(loop), task, place)


async def _check_cancelled(loop: Loop, task: Task, place: tuple[Kind, int]) -> None:
    where, scene = f"cancelled at {place[0]} call {place[1]}", await scripted(task)
    earlier_tasks = asyncio.all_tasks()
    gate, log = _Interruption(place), RunLog()
    running = start(loop, scene, log, gate)
    reached = asyncio.create_task(gate.reached.wait())

    def leftover() -> set[asyncio.Task[object]]:
        # The connections of a foreign loop's program outlast its runs.
        return set() if isinstance(loop, ForeignLoop) else asyncio.all_tasks() - earlier_tasks - {reached}

    try:
        await asyncio.wait({running, reached}, timeout=limit_s(loop), return_when=asyncio.FIRST_COMPLETED)
        require(gate.reached.is_set(), f"{where}: the run never got there, as it does without interruption")
        has_ended = await stop(running, GRACE_S)
        require(has_ended, f"{where}: the run did not end within {GRACE_S:g} s; CancelledError must leave run()")
        ending = "" if running.cancelled() else _ending(running.result())
        require(running.cancelled(), f"{where}: run() {ending}; CancelledError must leave it")
        for _ in range(10):  # what is ready runs
            await asyncio.sleep(0)
        require(not gate.further, f"{where}: {gate.further} further model calls were made; none may be")
        require(not log.tools_running, f"{where}: a tool is still running; it must be cancelled too")
        left = len(leftover())
        require(not left, f"{where}: {left} asyncio tasks are still running; a run must end the tasks that it starts")
    finally:
        reached.cancel()
        for each in leftover():
            await stop(each, 0.1)


@law("order", "the order of concurrent replies changes nothing; their scopes differ")
async def shuffled(loop: Loop) -> None:
    """Otherwise results depend on the network, and no two runs can be compared."""
    rng = random.Random()

    async def wait_for_a_while(kind: Kind, count: int) -> None:
        for _ in range(rng.randrange(60) if kind == "model" else 1):
            await asyncio.sleep(0)

    for task in (APART, CHAIN, ONE_CALL):
        in_order = await solve(loop, task)
        for seed in range(5):
            rng.seed(seed)
            finished = await solve(loop, task, wait_for_a_while)
            clash = finished.log.clash
            require(clash is None, f"two requests of scope {clash!r} are in flight together; give each branch its own scope")
            sent = [sorted(map(canonical_json, run.requests)) for run in (in_order, finished)]
            require(sent[0] == sent[1], f"with replies in another order (seed {seed}) the requests differ")
            for part, a, b in zip(("answer", "stop"), *map(_answer_and_stop, (in_order, finished)), strict=True):
                require(a == b, f"with replies in another order (seed {seed}) the {part} is {b} instead of {a}")


@law("calls at once", "calls of one reply that end in another order are made once each, and each result is given for its own call")
async def calls_at_once(loop: Loop) -> None:
    """A model takes a result for that of the call that it is given for."""
    all_late = load_profile("clean").model_copy(update={"rates": {LATE: 1.0}})
    for task in (APART, CHAIN):
        in_order, finished = await solve(loop, task), await solve(loop, task, profile=all_late)
        for request in finished.log.requests:
            mixed = [one for one in paired_results(request.messages) if not one.is_right]
            require(not mixed, f"with calls that end in another order {len(mixed)} results are given for another call")
        calls = [sorted(f"{call.name}{canonical_json(call.arguments)}" for call in run.log.calls) for run in (in_order, finished)]
        ends = [(calls[0], *_answer_and_stop(in_order)), (calls[1], *_answer_and_stop(finished))]
        for part, a, b in zip(("calls", "answer", "stop"), *ends, strict=True):
            require(a == b, f"with calls that end in another order: {part}: {b} instead of {a}")


def _answer_and_stop(finished: FinishedRun) -> tuple[str, str]:
    return render_value(finished.outcome.answer), str(finished.outcome.stop)
