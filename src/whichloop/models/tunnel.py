"""What a trial's scripted model and its tools share: receipts, faults on their way, and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from whichloop.protocol import Observation, Request

from .at_once import TOO_EARLY, CallsAtOnce, RunningCall
from .faults import Clearing, Fault, FaultPoint
from .instructions import TrialInstructions
from .receipts import Ledger, Truth

_SCOPE: ContextVar[str] = ContextVar("whichloop_scope", default="")
"""Scope of the running task's last request. No tool call says whose it is, but a branch calls its tools where it asks."""


@dataclass(frozen=True, slots=True)
class FaultState:
    """One fault as a reply left it: what the model's side of the tunnel knows of it."""

    number: int
    """0-based, in the order in which the trial's faults came up."""
    kind: str
    role: str
    call: str
    """Role and call are the point."""
    clearing: Clearing
    attempts: int
    landed: bool
    landed_at: int
    """Number of receipts issued when it landed last."""
    absorbed: bool
    recovered: bool
    believed: bool
    cured: bool
    armed: tuple[str, ...]
    """CALL digests of the calls that it strikes."""


@dataclass(frozen=True, slots=True)
class ReplyEffects:
    """What one reply did to its trial, beside being given: enough to do it again without the model."""

    seconds: float = 0.0
    """Simulated."""
    struck: str | None = None
    """Kind of the fault that the reply suffered."""
    injected: bool = False
    """In the place of a reply came a failure that is the treatment, no infrastructure's."""
    unknown: tuple[str, ...] = ()
    faults: tuple[FaultState, ...] = ()
    """The faults that came up or changed."""
    shown: tuple[str, ...] = ()
    """Planned calls whose results the request showed."""
    illegible: tuple[str, ...] = ()
    """Receipts that the request showed without the values that are used of their results."""
    instructed: tuple[str, ...] = ()
    """Labels of the instructions in results that the trial's prompts have shown so far."""
    obeyed: tuple[str, ...] = ()
    """Of those, the ones that the model has obeyed so far."""


class Tunnel:
    """The state of one trial in the tunnel; never shared between trials."""

    def __init__(self, *, real_time: bool = False, slow_s: float = 20.0) -> None:
        """`real_time`: delays are slept, not only counted. `slow_s`: seconds that a slow tool takes."""
        self.real_time = real_time
        self.slow_s = slow_s
        self.ledger = Ledger()
        self.instructions = TrialInstructions()
        self.at_once = CallsAtOnce()
        self.faults: list[Fault] = []
        self.simulated_s = 0.0
        self.unknown: tuple[str, ...] = ()
        """Planned calls whose results the last prompt did not show that asked for a decision or the answer."""
        self.ever_shown: set[str] = set()
        """Planned calls whose results any prompt of the trial showed."""
        self._calls_shown: dict[str, tuple[str, ...]] = {}
        """Scope → those of its last prompt."""
        self._illegible: dict[str, tuple[str, ...]] = {}
        """Scope → receipts that its last prompt showed without the values that are used of their results."""
        self._last_results: dict[tuple[str, str], Observation] = {}
        """Scope and CALL digest → what the last run of the call gave the loop."""
        self.keeps_effects = False
        """Whether `effects` are asked for: a recording does."""
        self._effects: dict[str, tuple[Any, ...]] = {}
        """Fields of ReplyEffects by scope."""
        self._armed: dict[str, list[tuple[str, Fault]]] = {}
        self._failed: set[str] = set()
        """Scopes in which a call has failed since their last request."""
        self._struck: dict[str, str] = {}
        self._repeated: dict[tuple[int, str, FaultPoint], Fault] = {}

    async def spend(self, seconds: float) -> None:
        """Let simulated time pass."""
        if seconds <= 0:
            return
        if self.real_time:
            await asyncio.sleep(seconds)
        else:
            self.simulated_s += seconds

    def note_request(self, scope: str) -> None:
        """Note that the running task has sent a request of this scope: the calls that follow in it are the scope's."""
        _SCOPE.set(scope)
        self._effects.pop(scope, None)  # those of an earlier reply do not belong to this one
        if scope not in self._failed:  # where a call failed, a loop may leave out those behind it
            for waiting in self._armed.values():
                for own, fault in waiting:
                    fault.passed_over = fault.passed_over or (own == scope and not fault.strikes)
        self._failed.discard(scope)

    def arm(self, call: str, fault: Fault) -> None:
        """Let a fault strike the scope's runs of the call with this digest until it clears."""
        waiting = self._armed.setdefault(call, [])
        if not any(fault is other for _, other in waiting):
            waiting.append((_SCOPE.get(), fault))

    @property
    def has_armed(self) -> bool:
        """Whether a fault may strike any call."""
        return bool(self._armed)

    def take(self, call: str) -> Fault | None:
        """Return the fault that strikes this run of a call, if any, whether a model decided on it or a loop tries again by itself.

        It strikes its own scope, in whatever order scopes run. A call that no scope's request came before may be of any scope.
        """
        for scope, fault in self._armed.get(call, ()):
            if _SCOPE.get() in ("", scope) and fault.active(fault.strikes):
                fault.strikes += 1
                return fault
        return None

    def running(self, call: str) -> AbstractContextManager[RunningCall]:
        """Count a run of a call with this digest among those of the running scope."""
        return self.at_once.running(call, _SCOPE.get())

    def note_result(self, call: str, observation: Observation) -> None:
        """Note what a run of a call gave the running scope."""
        self._last_results[_SCOPE.get(), call] = observation
        if not observation.ok:
            self._failed.add(_SCOPE.get())

    def result_text(self, call: str, scope: str) -> str:
        """Return what the scope's last run of a call gave, as text; that of a task without a scope if there is none of its own."""
        observation = self._last_results.get((scope, call)) or self._last_results.get(("", call))
        return "" if observation is None else f"{observation.error_type or ''} {observation.data}"

    def land(self, fault: Fault, request: Request | None, landed: bool) -> None:
        """Note that the loop has received a fault, with the request that it struck."""
        if not landed:
            return
        fault.landed = True
        fault.landed_at = len(self.ledger.issued)
        if request is not None:
            self.mark_struck(request, fault.kind)

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

    def unmet(self) -> int:
        """Return how many faults of tools still waited for a call that the loop had been told to make when the trial ended."""
        waiting = {id(fault): fault for pairs in self._armed.values() for _, fault in pairs}
        return sum(not (fault.landed or fault.passed_over) for fault in waiting.values())

    def fault_states(self) -> list[FaultState]:
        """Return the state of all faults, which `keep_effects` compares."""
        if not self.faults or not self.keeps_effects:
            return []
        armed: dict[int, list[str]] = {}
        for digest, waiting in self._armed.items():
            for _, fault in waiting:
                armed.setdefault(id(fault), []).append(digest)
        states = []
        for number, fault in enumerate(self.faults):
            landed = fault.landed and not fault.strikes_tools  # a tool's lands where the tool runs
            landed_at, armed_at = fault.landed_at if landed else 0, tuple(armed.get(id(fault), ()))
            done = (landed, landed_at, fault.absorbed, fault.recovered, fault.believed, fault.cured, armed_at)
            role, call = fault.point
            states.append(FaultState(number, fault.kind, role, call, fault.clearing, fault.attempts, *done))
        return states

    def keep_effects(self, request: Request, before: Sequence[FaultState], seconds: float, injected: bool) -> None:
        """Keep the effects of a reply that found the faults as `before`, under its scope, if they are to be kept."""
        if not self.keeps_effects:
            return
        after = self.fault_states()
        changed = tuple([now for number, now in enumerate(after) if number >= len(before) or before[number] != now])
        struck = self._struck.get(request.scope)
        illegible = self._illegible.get(request.scope, ())
        planted, scope = self.instructions, request.scope
        labels = (tuple(sorted(planted.shown_labels)), tuple(sorted(planted.obeyed))) if planted.by_label else ()
        self._effects[scope] = (seconds, struck, injected, self.unknown, changed, self.calls_shown(scope), illegible, *labels)

    def effects(self, scope: str) -> ReplyEffects | None:
        """Return the effects of the scope's last reply; None from its next request until the reply to that."""
        fields = self._effects.get(scope)
        return None if fields is None else ReplyEffects(*fields)

    async def repeat(self, request: Request, effects: ReplyEffects) -> None:
        """Do to this trial what a recorded reply did to its own."""
        self.note_request(request.scope)
        self.unknown = effects.unknown
        self.note_shown(request.scope, effects.shown, effects.illegible)
        self.instructions.shown_labels |= set(effects.instructed)
        self.instructions.obeyed |= set(effects.obeyed)
        for state in effects.faults:
            point = FaultPoint(state.role, state.call)
            which = (state.number, state.kind, point)  # a number alone may be another's, where replies of two trials are mixed
            fault = self._repeated.get(which)
            if fault is None:
                fault = self._repeated[which] = Fault(state.kind, point, state.clearing, state.attempts, believed=state.believed)
                self.faults.append(fault)
            if state.landed:
                fault.landed, fault.landed_at = True, min(state.landed_at, len(self.ledger.issued))
            fault.absorbed, fault.recovered, fault.cured = state.absorbed, state.recovered, state.cured
            for call in state.armed:
                self.arm(call, fault)
        self.mark_struck(request, effects.struck)
        await self.spend(effects.seconds)

    def mark_struck(self, request: Request, kind: str | None) -> None:
        """Note that the request's reply suffered a fault of this kind."""
        if kind is not None:
            self._struck[request.scope] = kind

    def _is_put_right(self, oracle: Mapping[str, Truth]) -> bool:
        """Whether each planned call that gave a result gave its true one in the end."""
        last = {entry.call: entry.content for entry in self.ledger.issued}
        return all(last.get(truth.call, truth.content) == truth.content for truth in oracle.values())

    def settle(self, oracle: Mapping[str, Truth]) -> None:
        """Note, at the trial's end, which disturbed calls later gave their true result, and put the faults in one order.

        Scopes may be answered in any order; the record must not show in which.
        """
        for fault in self.faults:
            if fault.family == "inject":
                fault.recovered = fault.landed and not self.instructions.is_obeyed(fault)
                continue
            if fault.kind == TOO_EARLY:
                fault.recovered = fault.landed and self._is_put_right(oracle)
                continue
            truth = oracle.get(fault.point.call)
            if truth is None or not fault.landed or fault.recovered:
                continue
            later = self.ledger.issued[fault.landed_at :]
            fault.recovered = any((entry.call, entry.content) == (truth.call, truth.content) for entry in later)
        self.faults.sort(key=lambda fault: (str(fault.point), fault.kind, fault.landed, fault.absorbed, fault.recovered))
