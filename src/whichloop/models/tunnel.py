"""What a trial's model and its tools share: receipts, faults on their way, and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, cast
from weakref import WeakKeyDictionary

from whichloop.protocol import Capabilities, Chunk, Model, Observation, Reply, Request

from .at_once import TOO_EARLY, CallsAtOnce, RunningCall
from .faults import Fault, FaultPoint, ListFaults, draw
from .instructions import TrialInstructions
from .profiles import OF_CALLS, TOOL, Profile
from .receipts import Ledger, Truth

_SCOPE: ContextVar[str] = ContextVar("whichloop_scope", default="")
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
        self.list_faults = ListFaults()
        self.faults: list[Fault] = []
        self.simulated_s = 0.0
        self.oracle: Mapping[str, Truth] = {}
        """The truth of each planned call."""
        self.unknown: tuple[str, ...] = ()
        """Planned calls whose results the last prompt did not show that asked for a decision or the answer."""
        self.ever_shown: set[str] = set()
        """Planned calls whose results any prompt of the trial showed."""
        self.held: dict[str, Fault] = {}
        """CALL digest of a call that the next run holds back → why."""
        self.blow(STILL)
        self.of_call: dict[str, Fault | None] = {}
        """CALL digest → what strikes that call; drawn when it first runs."""
        self._calls_shown: dict[str, tuple[str, ...]] = {}
        """Scope → planned calls whose results its last prompt showed."""
        self._illegible: dict[str, tuple[str, ...]] = {}
        """Scope → receipts that its last prompt showed without the values that are used of their results."""
        self._last_results: dict[str, Observation] = {}
        """CALL digest → what the last run of the call gave the loop."""
        self._struck: dict[str, str] = {}

    def blow(self, profile: Profile, key: tuple[object, ...] = ()) -> None:
        """Let a profile's faults strike. `key`: of the trial; every draw starts from it."""
        self.profile, self._key = profile, key

    async def spend(self, seconds: float) -> None:
        """Let simulated time pass."""
        if not self.real_time:
            self.simulated_s += seconds
        elif seconds > 0:
            await asyncio.sleep(seconds)

    def note_request(self, scope: str) -> None:
        """Note that the running task has sent a request of this scope: the calls that follow in it are the scope's."""
        _SCOPE.set(scope)

    # --- calls ---

    def fault_of(self, digest: str) -> Fault | None:
        """Return the fault that this run of a call meets, if any: by tool, arguments and how often the call was made.

        So it is the same for every loop, whoever decided on the call and from where. `strike` counts it once it has done something.
        """
        if digest in self.held:
            return self.held.pop(digest)
        if digest not in self.of_call:
            if self.instructions.asks_for(digest):  # no instruction leads to the next
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

    def running(self, call: str) -> AbstractContextManager[RunningCall]:
        """Count a run of a call with this digest among those of the running scope."""
        return self.at_once.running(call, _SCOPE.get())

    def note_result(self, call: str, observation: Observation, *, is_true: bool) -> None:
        """Note what a run of a call gave the loop. `is_true`: it is what the tool gives where nothing disturbs it."""
        self._last_results[call] = observation
        fault = self.of_call.get(call)
        if fault is not None and is_true and observation.ok:
            fault.recovered = True

    def result_text(self, call: str) -> str:
        """Return what the last run of a call gave, as text; empty if it has not run."""
        seen = self._last_results.get(call)
        return "" if seen is None else f"{seen.error_type or ''} {seen.data}"

    # --- requests ---

    def land(self, fault: Fault, request: Request | None = None) -> None:
        """Note that the loop has received a fault, with the request that it struck."""
        fault.landed, fault.landed_at = True, len(self.ledger.issued)
        if request is not None:
            self.mark_struck(request, fault.kind)

    def mark_struck(self, request: Request, kind: str) -> None:
        """Note that the request's reply suffered a fault of this kind."""
        self._struck[request.scope] = kind

    def note_shown(self, scope: str, calls: Collection[str], illegible: tuple[str, ...]) -> None:
        """Note which planned calls' results a scope's prompt showed, and which receipts without their values."""
        self._calls_shown[scope] = tuple(calls)
        self.ever_shown.update(calls)
        self._illegible[scope] = illegible

    def calls_shown(self, scope: str) -> tuple[str, ...]:
        """Return the planned calls whose results a scope's last prompt showed."""
        return self._calls_shown.get(scope, ())

    def illegible(self, request: Request) -> tuple[str, ...]:
        """Return the receipts that a request showed without the values that are used of their results, and forget them."""
        return self._illegible.pop(request.scope, ())

    def struck(self, request: Request) -> str | None:
        """Return the kind of fault that a request's reply suffered, if any, and forget it."""
        return self._struck.pop(request.scope, None)

    # --- the end ---

    def settle(self) -> None:
        """Note, at the trial's end, which disturbed calls later gave their true result, and put the faults in one order.

        Scopes may be answered in any order; the record must not show in which.
        """
        last = {entry.call: entry.content for entry in self.ledger.issued}
        for fault in self.faults:
            if fault.family == "inject":
                fault.recovered = fault.landed and not self.instructions.is_obeyed(fault)
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

    @property
    def own_attempts(self) -> int:
        return int(KEPT[self].own_attempts)

    def complete(self, request: Request) -> Coroutine[Any, Any, Reply]:
        return cast(Model, KEPT[self]).complete(request)

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        return cast(Model, KEPT[self]).stream(request)
