"""Run a trial's loop under the trial's limits, and tell whether how it ended says something about the loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from whichloop.models.limits import WAITS
from whichloop.protocol import HARNESS_STOPS, Outcome, StopReason
from whichloop.protocol.own_code import waiting_at

from .guard import ends_within, stop
from .record import STANDS, breach
from .setting import NotRun
from .trial_parts import TrialParts
from .watchdog import BlockingTime

STALLED_SHARE = 0.25
"""Share of a trial's time: if the model was silent that long when time was up, the model failed and the loop was not slow."""
MAX_LOST = 60
"""Multiple of the time limit that a trial may lose to its provider's failures and our limits. After that it ends: a trial
that waits for something that it holds itself, or asks a dead provider again and again, would never end."""
LOOK_S = 1.0
"""Seconds between two looks at whether a trial with a scripted model moves on."""
MIN_WAIT_S = 0.01
"""Minimum number of seconds between two checks of a trial's remaining time."""
GRACE_S = 2.0
"""Seconds that a loop has to end after it was cancelled; then it is abandoned."""
SWALLOWED = "cancellation was swallowed"
"""Reason of a trial whose loop had to be abandoned."""


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """How a loop's run on a task ended."""

    outcome: Outcome
    why: str
    """Why there is no answer, or none that counts; empty where the loop says that itself."""
    errored: str
    """Why the trial says nothing about the loop; empty if it does."""


class LoopRun:
    """A loop's run on a task: `run_to_its_end`, then `end`, each once."""

    def __init__(self, parts: TrialParts) -> None:
        self.parts = parts
        self.model = parts.make_model()
        self.outcome = Outcome(None, StopReason.CRASHED, 0)
        self.why = ""
        self.stalled_s = 0.0
        """Seconds that the last request had waited for its reply when the time limit was reached."""
        self.held_up = False
        """Whether the provider's failures and our limits, or a slow machine, took all the time that a trial can lose to them."""

    async def run_to_its_end(self) -> None:
        """Run the loop to its end, its crash or the time limit. Raises NotRun when the run's budget is used up."""
        waits_before, blocking = WAITS.set(self.parts.clock.waits), BlockingTime(" ".join(map(str, self.parts.trial.key)))
        with blocking.inherited():
            running = blocking.task = asyncio.create_task(self._returned_or_raised())
        WAITS.reset(waits_before)
        has_stopped, at = True, ""
        try:
            ended_itself = await self._until_time_is_up(running)
            if not ended_itself:
                self.stalled_s, at = self.model.metered.waiting_s, waiting_at(running)
                has_stopped = await stop(running, GRACE_S)
        except asyncio.CancelledError:  # Ctrl-C: the trial runs again on resume
            await stop(running, GRACE_S)
            raise
        finally:
            self.parts.guard.shut, blocking.task = True, None
        if self.parts.meter.refused or self.parts.user.refused:  # whether the loop let BudgetExceeded through or swallowed it
            if self.parts.setting.meter.exhausted:
                raise NotRun(self.parts.setting.meter.exhausted)
            self._end_without_answer(StopReason.BUDGET, self.parts.meter.refused)
        elif blocking.reason:
            self._end_without_answer(StopReason.TIMEOUT, blocking.reason)
        elif not ended_itself:
            swallowed = "" if has_stopped else f", and {SWALLOWED}"
            self._end_without_answer(StopReason.TIMEOUT, f"{self._why_it_was_ended()}{swallowed}{f' at {at}' if at else ''}")
        else:
            self._keep_what_it_returned(running)

    def _why_it_was_ended(self) -> str:
        """Return why a loop that did not end by itself was ended."""
        if self.parts.tunnel is None:
            return f"no end within {self.parts.setting.timeout_s:g} s"
        if self.parts.guard.used_up:
            return f"no end after {self.parts.guard.max_passes:,} requests and calls"
        return f"no end, and no request or call for {self.parts.setting.timeout_s:g} s"

    async def _until_time_is_up(self, running: asyncio.Task[object]) -> bool:
        """Say whether the loop ended by itself. What its provider's failures and our limits cost is added to its time."""
        if self.parts.tunnel is not None:
            limit_s = self.parts.setting.timeout_s
            look_s, silent_s, past_s, before = min(LOOK_S, limit_s), 0.0, 0.0, (0, 0.0)
            while silent_s < limit_s and not self.parts.guard.used_up:
                if past_s >= MAX_LOST * limit_s:
                    self.held_up = True
                    return False
                if await ends_within(running, look_s):
                    return True
                now = self.parts.guard.passes, self.parts.clock.waits.seconds
                past_s += look_s
                silent_s, before = (silent_s + look_s if now == before else 0.0), now
            return False
        left_s, waits = self.parts.setting.timeout_s, self.parts.clock.waits
        most_s, granted_s = MAX_LOST * left_s, 0.0
        while left_s > 0:
            if await ends_within(running, max(left_s, MIN_WAIT_S)):
                return True
            left_s = min(waits.seconds, most_s) - granted_s
            granted_s += left_s
        self.held_up = waits.seconds >= most_s
        return False

    async def _returned_or_raised(self) -> object:
        """Return what the loop returned, or the exception that left it: asyncio would let a SystemExit end the whole process."""
        trial = self.parts.trial
        try:
            return await trial.arm.loop.run(trial.task.query.for_design, self.parts.tools, self.model.metered, self.parts.recorder)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # the boundary to the design under test: whatever leaves it is a crash of it
            return error

    def _keep_what_it_returned(self, running: asyncio.Task[object]) -> None:
        """Take the outcome or the exception of a loop that ended by itself."""
        if running.cancelled():
            self._end_without_answer(StopReason.CANCELLED, "the loop cancelled itself")
            return
        result = running.result()
        problem = breach(result)
        if isinstance(result, Outcome) and not problem:
            self.outcome = result
        else:
            self._end_without_answer(StopReason.CRASHED, problem)
            self.parts.recorder.errors["crash"] += 1

    def _end_without_answer(self, stop: StopReason, why: str) -> None:
        self.outcome, self.why = Outcome(None, stop, self.parts.recorder.steps), why

    def end(self) -> LoopEnd:
        """Stop the clock, and return how the loop ended.

        A trial whose last call went beyond a limit of the trial ends by its budget; its answer is kept, and counts nothing.
        """
        self.parts.clock.stop()
        errored = self._why_no_verdict()
        if not errored and self.outcome.stop not in HARNESS_STOPS and (exceeded := self.parts.meter.exceeded):
            outcome = self.outcome
            self.outcome = Outcome(
                outcome.answer, StopReason.BUDGET, outcome.steps, details=outcome.details, gave_up=outcome.gave_up
            )
            self.why = exceeded
        return LoopEnd(self.outcome, self.why, errored)

    def _why_no_verdict(self) -> str:
        """Return why the trial says nothing about the loop; empty if it does."""
        if self.parts.user.failure:
            return self.parts.user.failure
        if self.model.recorded is not None and self.model.recorded.failure is not None:
            return str(self.model.recorded.failure)
        stop = self.outcome.stop
        failure = self.parts.recorder.provider_trouble if stop is not StopReason.FINISHED else None
        if failure is None and stop not in STANDS:
            failure = self.parts.recorder.provider_failure
        if failure is not None:
            return f"provider: {failure}"
        if self.held_up and self.parts.tunnel is not None:
            return f"still at work after {MAX_LOST} times the trial's {self.parts.setting.timeout_s:g} s"
        if self.held_up:
            return f"provider: its failures and our limits took {MAX_LOST} times the trial's {self.parts.setting.timeout_s:g} s"
        if self.parts.tunnel is None and self.stalled_s >= STALLED_SHARE * self.parts.setting.timeout_s:
            return f"provider: no reply for {self.stalled_s:.1f} s when the trial's time was up"
        return ""
