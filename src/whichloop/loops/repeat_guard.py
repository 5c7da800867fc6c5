"""Any loop under a guard against repetition: a call that is repeated is first pointed out, and may then end the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from whichloop.loops.shared.boundary import bounded
from whichloop.loops.shared.option_checks import at_least, checked_options
from whichloop.protocol.cancellation import ended_before
from whichloop.protocol.events import SILENT, Observer
from whichloop.protocol.loop import WrappedLoop
from whichloop.protocol.model import Model
from whichloop.protocol.outcome import AnswerT, Outcome, Query, StopReason
from whichloop.protocol.tool_calls import Observation, ToolCall
from whichloop.protocol.tools import Toolbox, ToolboxAround
from whichloop.protocol.values import canonical

WARNING = "Note: this call has now been made {times} times with the same arguments. Use what it gave, or do something else."


@checked_options
@dataclass(frozen=True, slots=True)
class RepeatGuard(WrappedLoop):
    """A loop whose repeated calls are noticed. Raises ValueError for a `warn_at` below 2 or a `stop_at` below it."""

    warn_at: int = at_least(2, 3)
    """The number of equal calls from which on the result carries a warning."""
    stop_at: int | None = None
    """The number of equal calls of which the last ends the run instead of being made; None only warns."""

    name: ClassVar[str] = "repeat_guard"

    def __post_init__(self) -> None:
        if self.stop_at is not None and self.stop_at < self.warn_at:
            raise ValueError(f"stop_at must be at least warn_at ({self.warn_at}) or None, not {self.stop_at}")

    @property
    def stops(self) -> frozenset[StopReason]:
        return self.loop.stops if self.stop_at is None else self.loop.stops | {StopReason.TERMINATED}

    @bounded
    async def run(self, query: Query[AnswerT], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[AnswerT]:
        counting = RepeatCountingToolbox(tools, self.warn_at, self.stop_at)
        finished = await ended_before(counting.caught, self.loop.run(query, counting, model, observer))
        if finished is not None:
            return finished.result()
        observer.note("repeated", tool_name=counting.repeated, times=self.stop_at)
        reason = f"{counting.repeated} was called {self.stop_at} times with the same arguments"
        return Outcome[Any](None, StopReason.TERMINATED, counting.calls_made, None, {"reason": reason})


class RepeatCountingToolbox(ToolboxAround):
    """Counts equal calls of one run."""

    def __init__(self, tools: Toolbox, warn_at: int, stop_at: int | None) -> None:
        super().__init__(tools)
        self.caught = asyncio.Event()
        """Set when `stop_at` is reached; the call then waits for the end of the run."""
        self.repeated = ""
        self.calls_made = 0
        self._warn_at, self._stop_at = warn_at, stop_at
        self._times = Counter[str]()

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        key = f"{call.name} {canonical(call.arguments)}"  # the same text for any order
        self._times[key] += 1
        times = self._times[key]
        if self._stop_at is not None and times >= self._stop_at:
            self.repeated = call.name
            self.caught.set()
            await asyncio.Event().wait()  # until the run, which has to end, has cancelled this call
        self.calls_made += 1
        seen = await self.within.call(call, validate=validate)
        if times < self._warn_at:
            return seen
        note = WARNING.format(times=times)
        if not seen.ok:
            return replace(seen, data=f"{seen.data}\n{note}")
        # In front: later requests may recognise a result by its end.
        return replace(seen, data=f"{note}\n{seen.data}", value=f"{note}\n{seen.whole}")


LOOP = RepeatGuard
