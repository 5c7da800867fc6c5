"""What a trial's model and its tools share: receipts, faults on their way, virtual time, and calls that run at once.

A model that makes several calls in one reply leaves their order to the loop. Three kinds of fault ask what the loop makes of it:

- `calls.late`: a call ends only after those that run beside it, so that results come back in another order than calls were made in.
- `calls.same_ids`: the calls of a reply have one id, by which a loop cannot tell their results apart.
- `calls.too_early`: beside calls that change something stands one that needs the change done. Made one after the other they give
  what is true; where they run at once, the call that needs the change is done before it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, cast
from weakref import WeakKeyDictionary

from whichloop.protocol import Capabilities, Chunk, Model, Observation, Reply, Request, ToolCall, WrappedModel, refs

from .faults import Fault, FaultPoint, draw
from .instructions import TrialInstructions
from .profiles import OF_CALLS, TOOL, Profile
from .receipts import Ledger, PromptView, Truth, concrete

LATE, SAME_IDS, TOO_EARLY = "calls.late", "calls.same_ids", "calls.too_early"
HOLDING = frozenset({LATE, TOO_EARLY})
"""Kinds that hold a call back until those beside it have ended."""
TURNS = 8
"""Turns of the event loop in which a loop begins the calls that it makes at once; fewer than `TURNS_OF_REQUESTS`, so that a call
that is held back does not change which request is answered next."""


def early_call(view: PromptView, made_now: Collection[str]) -> tuple[ToolCall, tuple[str, ...]] | None:
    """Return the first planned call that waits for nothing but the effects of calls that are `made_now` now, and those calls; None
    if there is none.

    Its arguments are known: it takes no result of a call that is made now.
    """
    for planned in view.unknown:
        needs = view.plan.dependencies[planned.id] - view.results.keys()
        if planned.id in made_now or not needs or not needs <= set(made_now):
            continue
        if needs & {ref.call for ref in refs(planned.arguments)}:
            continue
        call = concrete(planned, view.values)
        if call is not None:
            return call, tuple(name for name in made_now if name in needs)
    return None


class CallsAtOnce:
    """The calls of one trial that run at the same time."""

    def __init__(self) -> None:
        self.others_s = 0.0
        """Seconds in which a program may begin the calls that it makes at once, beside `TURNS`: its calls come over HTTP."""
        self.chances = 0
        """Calls that were made beside what they need done, and that ran."""
        self.overlaps = 0
        """Of those, the ones that began before all of it was done."""
        self.awaited: dict[str, set[str]] = {}
        """CALL digest of a call that should wait → those of the calls that it needs done."""
        self._running: dict[object, str] = {}
        """A call that has begun and not ended → its scope, in the order in which they began."""
        self._held = set[object]()
        self._changed = asyncio.Event()
        """Set, and replaced, once a call begins, ends or is held."""

    @contextlib.contextmanager
    def running(self, digest: str, scope: str) -> Iterator[object]:
        """Count a call among the running ones for as long as this context lasts."""
        missing = self.awaited.pop(digest, None)
        if missing is not None:
            self.chances += 1
            self.overlaps += bool(missing)
        mine = object()
        self._running[mine] = scope
        self._tell()
        try:
            yield mine
        finally:
            del self._running[mine]
            self._held.discard(mine)
            for others in self.awaited.values():
                others.discard(digest)
            self._tell()

    async def let_others_pass(self, mine: object) -> None:
        """Wait until the calls that run beside this one have ended; of several that wait, the last that came goes first."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if self.others_s and self._beside(mine) == [mine]:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self.others_s)
        self._held.add(mine)
        self._tell()
        while not self._held.issuperset(self._beside(mine)) or self._beside(mine)[-1] is not mine:
            await self._changed.wait()
        self._held.discard(mine)

    def _beside(self, mine: object) -> list[object]:
        return [call for call, scope in self._running.items() if scope == self._running[mine]]

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


# --- the tunnel ---

SCOPE: ContextVar[str] = ContextVar("whichloop_scope", default="")
"""Scope of the running task's last request. No tool call says whose it is, but a branch calls its tools where it asks."""

STILL = Profile(name="still")


class Tunnel:
    """The state of one trial in the tunnel; never shared between trials."""

    def __init__(self, *, signs: bool = True, real_time: bool = False) -> None:
        """`signs`: results get receipts, which a scripted model reads. `real_time`: delays are slept, not only counted."""
        self.signs = signs
        self.real_time = real_time
        self.ledger = Ledger()
        self.instructions = TrialInstructions()
        self.at_once = CallsAtOnce()
        self.changes_of: dict[str, list[Fault]] = {}
        """Tool → the faults that have changed what a server lists of it, in order."""
        self.faults: list[Fault] = []
        self.simulated_s = 0.0
        self.oracle: Mapping[str, Truth] = {}
        self.unknown: tuple[str, ...] = ()
        """Planned calls whose results the last prompt did not show that asked for a decision or the answer."""
        self.ever_shown: set[str] = set()
        """Planned calls whose results any prompt of the trial showed."""
        self.held: dict[str, Fault] = {}
        """CALL digest of a call that the next run holds back → why."""
        self.blow(STILL)
        self.of_call: dict[str, Fault | None] = {}
        """CALL digest → what strikes that call; drawn when it first runs."""
        self.calls_shown: dict[str, tuple[str, ...]] = {}
        """Scope → planned calls whose results its last prompt showed."""
        self.illegible: dict[str, tuple[str, ...]] = {}
        """Scope → receipts that its last prompt showed without the values that are used of their results."""
        self.struck: dict[str, str] = {}
        """Scope → the kind of fault that the reply to its last request suffered."""
        self.last_results: dict[str, Observation] = {}
        """CALL digest → what the last run of the call gave the loop."""

    def blow(self, profile: Profile, key: tuple[object, ...] = ()) -> None:
        """Let a profile's faults strike. `key`: of the trial; every draw starts from it."""
        self.profile, self._key = profile, key

    async def spend(self, seconds: float) -> None:
        """Let simulated time pass."""
        if not self.real_time:
            self.simulated_s += seconds
        elif seconds > 0:
            await asyncio.sleep(seconds)

    # --- calls ---

    def fault_of(self, digest: str) -> Fault | None:
        """Return the fault that this run of a call meets, if any: by tool, arguments and how often the call was made.

        So it is the same for every loop, whoever decided on the call and from where. `strike` counts it once it has done something.
        """
        if digest in self.held:
            return self.held.pop(digest)
        if digest not in self.of_call:
            if digest in self.instructions.calls:  # no instruction leads to the next
                return None
            name = next((name for name, truth in self.oracle.items() if truth.call == digest), digest)
            self.of_call[digest] = draw(self.profile, self._key, FaultPoint(TOOL, name), None, False, digest)
        fault = self.of_call[digest]
        return fault if fault is not None and fault.active(fault.strikes) else None

    def strike(self, fault: Fault) -> None:
        """Note that a run of a call has suffered a fault."""
        fault.strikes += 1
        fault.believed = fault.believed and self.signs  # of a real model nobody knows
        if not any(fault is other for other in self.faults):
            self.faults.append(fault)
        self.land(fault)

    # --- requests ---

    def land(self, fault: Fault, request: Request | None = None) -> None:
        """Note that the loop has received a fault, with the request that it struck."""
        fault.landed, fault.landed_at = True, len(self.ledger.issued)
        if request is not None:
            self.struck[request.scope] = fault.kind

    # --- the end ---

    def settle(self) -> None:
        """Note, at the trial's end, which disturbed calls later gave their true result, and put the faults in one order.

        Scopes may be answered in any order; the record must not show in which.
        """
        last = {entry.call: entry.content for entry in self.ledger.issued}
        for fault in self.faults:
            if fault.family == "inject":
                fault.recovered = fault.landed and fault.label not in self.instructions.obeyed
            elif fault.kind == TOO_EARLY:  # the planned calls that gave a result gave their true one in the end
                right = all(last.get(truth.call, truth.content) == truth.content for truth in self.oracle.values())
                fault.recovered = fault.landed and right
            elif fault.kind not in OF_CALLS and fault.landed and not fault.recovered:
                truth, later = self.oracle.get(fault.point.call), self.ledger.issued[fault.landed_at :]
                fault.recovered = truth is not None and any((one.call, one.content) == (truth.call, truth.content) for one in later)
        self.faults.sort(key=lambda fault: (str(fault.point), fault.kind, fault.landed, fault.absorbed, fault.recovered))


KEPT: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What loops hold → what it belongs to. No attribute leads there: else a loop could read the script that its model follows."""


class LoopModel:
    """The model as a loop gets it."""

    def __init__(self, model: Model) -> None:
        KEPT[self] = model

    def __copy__(self) -> LoopModel:
        return self

    def __deepcopy__(self, memo: object) -> LoopModel:
        return self

    @property
    def name(self) -> str:
        return str(KEPT[self].name)

    @property
    def capabilities(self) -> Capabilities:
        return cast(Model, KEPT[self]).capabilities

    def complete(self, request: Request) -> Coroutine[Any, Any, Reply]:
        return cast(Model, KEPT[self]).complete(request)

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return cast(Model, KEPT[self]).stream(request)


# --- requests that wait at the same time ---

TURNS_OF_REQUESTS = 24
"""Turns of the event loop that a design has to act on the last reply, and to send what it sends at the same time: each task within
a task takes one or two of them."""


class InOrder(WrappedModel):
    """One trial's model in virtual time: of the requests that wait at the same time the first by scope is answered, then the next.

    A design that ends its concurrent work at the first failure would otherwise send one request more or less as machine and wire
    have it. Requests without a scope are never concurrent, and pass at once.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._busy = False
        """A request is being answered, or turns are counted before one is."""

    async def complete(self, request: Request) -> Reply:
        async with self._turn(request.scope):
            return await self.model.complete(request)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Take a turn for each chunk: between two of them a design may wait for what it asks in another scope."""
        async with contextlib.aclosing(cast(AsyncGenerator[Chunk, None], self.model.stream(request))) as chunks:
            while True:
                async with self._turn(request.scope):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk

    @contextlib.asynccontextmanager
    async def _turn(self, scope: str) -> AsyncIterator[None]:
        """Wait until a request of this scope is to be answered; the next one is, once this context ends."""
        if not scope:
            yield
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append((scope, mine))
        self._go_on()
        try:
            await mine
            yield
        finally:
            if (scope, mine) in self._waiting:  # cancelled while it waited
                self._waiting.remove((scope, mine))
            else:
                self._busy = False
                self._go_on()

    def _go_on(self) -> None:
        if not self._busy and self._waiting:
            self._busy = True
            _after(TURNS_OF_REQUESTS, self._answer_first, asyncio.get_running_loop().call_soon)

    def _answer_first(self) -> None:
        still = [waiting for waiting in self._waiting if not waiting[1].cancelled()]
        if still:
            first = min(still, key=lambda waiting: waiting[0])
            self._waiting.remove(first)
            first[1].set_result(None)
        else:
            self._busy = False


def _after(turns: int, act: Callable[[], None], call_soon: Callable[..., object]) -> None:
    """Act once so many turns of the event loop have passed. The scheduling is handed on, because each turn would look it up."""
    if turns:
        call_soon(_after, turns - 1, act, call_soon)
    else:
        act()
