"""What a trial's scripted model and its tools share: receipts, faults on their way, and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar

from loopbench.protocol import Request

from .faults import Disturbance
from .receipts import Ledger, Truth

_SCOPE: ContextVar[str] = ContextVar("loopbench_scope", default="")
"""Scope of the running task's last request. No tool call says whose it is, but a branch calls its tools where it asks."""


class Tunnel:
    """The state of one trial in the tunnel; never shared between trials."""

    def __init__(self, *, real_time: bool = False, slow_s: float = 20.0) -> None:
        """`real_time`: delays are slept, not only counted. `slow_s`: seconds that a slow tool takes."""
        self.real_time = real_time
        self.slow_s = slow_s
        self.ledger = Ledger()
        self.disturbances: list[Disturbance] = []
        self.simulated_s = 0.0
        self._armed: dict[str, list[tuple[str, Disturbance]]] = {}
        self._struck: dict[int, str] = {}

    async def spend(self, seconds: float) -> None:
        """Let simulated time pass."""
        if seconds <= 0:
            return
        if self.real_time:
            await asyncio.sleep(seconds)
        else:
            self.simulated_s += seconds

    def asked(self, scope: str) -> None:
        """The running task has sent a request of this scope: the calls that follow in it are the scope's."""
        _SCOPE.set(scope)

    def arm(self, call: str, fault: Disturbance) -> None:
        """The scope's runs of the call with this digest are disturbed until the fault clears."""
        waiting = self._armed.setdefault(call, [])
        if not any(fault is other for _, other in waiting):
            waiting.append((_SCOPE.get(), fault))

    @property
    def has_armed(self) -> bool:
        """Whether any call may be disturbed."""
        return bool(self._armed)

    def take(self, call: str) -> Disturbance | None:
        """The fault that strikes this run of a call, if any, whether a model decided on it or a loop tries again by itself.

        It strikes its own scope, in whatever order scopes run; calls of a task that has sent no scope's request are anyone's.
        """
        for scope, fault in self._armed.get(call, ()):
            if _SCOPE.get() in ("", scope) and fault.active(fault.strikes, fault.seen):
                fault.strikes += 1
                return fault
        return None

    def land(self, fault: Disturbance, request: Request | None, landed: bool) -> None:
        """The loop has received a fault; remembered with the request that it struck."""
        if not landed:
            return
        fault.landed = True
        fault.landed_at = len(self.ledger.issued)
        if request is not None:
            self._struck[id(request)] = fault.kind

    def struck(self, request: Request) -> str | None:
        """The kind of fault that a request's reply suffered, if any; asked once."""
        return self._struck.pop(id(request), None)

    def settle(self, oracle: Mapping[str, Truth]) -> None:
        """At the trial's end: note which disturbed calls later gave their true result, and put the faults in one order.

        Scopes may be answered in any order; the record must not show in which.
        """
        for fault in self.disturbances:
            truth = oracle.get(fault.point.call)
            if truth is None or not fault.landed or fault.recovered:
                continue
            later = self.ledger.issued[fault.landed_at :]
            fault.recovered = any((entry.call, entry.content) == (truth.call, truth.content) for entry in later)
        self.disturbances.sort(key=lambda fault: (str(fault.point), fault.kind, fault.landed, fault.absorbed, fault.recovered))
