"""Run a trial's loop under the trial's limits, tell whether how it ended says something about the loop, and record what failed."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from whichloop.datasets.task import Suite
from whichloop.metrics.record import FaultRecord, Record
from whichloop.models.faults import IMPLICIT
from whichloop.models.limits import WAITS
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import HARNESS_STOPS, Outcome, StopReason, render_value
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.json_text import Json
from whichloop.protocol.own_code import raised_at, waiting_at
from whichloop.protocol.redact import redact
from whichloop.protocol.values import cap, error_text
from whichloop.runs.schedule import Trial
from whichloop.text.output import json_safe

from .recorder import face_of
from .setting import MAX_ANSWER_CHARS, MAX_REASON_CHARS, FinishedTrial, NotRun, TrialContext
from .trial_parts import TrialParts
from .watchdog import LAST_ACTIVITY, ends_within, stop

STANDS = frozenset({StopReason.FINISHED, StopReason.TIMEOUT, StopReason.BUDGET})
"""Stops that are scored: the loop reached them despite a request that its provider refused, or by its own limit."""
MAX_ERROR_CHARS = MAX_REASON_CHARS // 2
"""Characters of an exception's text, behind which there is room for the line that it comes from."""
_HARNESS_ONLY = frozenset({StopReason.TIMEOUT, StopReason.BUDGET, StopReason.CRASHED})


def breach(result: object) -> str:
    """Return what is wrong with what came out of `run`, in words; empty for a sound Outcome. Of an exception, also where in the
    user's code it came up."""
    if isinstance(result, BaseException):
        at = raised_at(result)
        return f"{cap(f'{type(result).__name__}: {error_text(result)}', MAX_ERROR_CHARS)}{f' at {at}' if at else ''}"
    if not isinstance(result, Outcome):
        if inspect.iscoroutine(result):
            result.close()  # Python would warn later, at a line of ours
        return f"TypeError: run() gave a {type(result).__name__}, not an Outcome"
    stop: object = result.stop
    if not isinstance(stop, StopReason):
        return f"TypeError: the outcome's stop is {render_value(stop)!r}, not a StopReason"
    return f"ValueError: the outcome's stop is {stop.value!r}, which only the harness sets" if stop in _HARNESS_ONLY else ""


def head_of(trial: Trial, suite: Suite) -> dict[str, Any]:
    """Return the fields of a record that identify its trial."""
    return {
        "arm": trial.arm.name,
        "suite": suite.name,
        "suite_digest": suite.digest,
        "task": trial.task.id,
        "repeat": trial.repeat,
        "seed": trial.seed,
        "cluster": suite.cluster_of(trial.task),
        "template": str(trial.task.labels.get("template", "")),
    }


def excluded(trial: Trial, setting: TrialContext, reason: str) -> FinishedTrial:
    """Return what is kept of a trial whose task cannot be asked."""
    return FinishedTrial(Record(**head_of(trial, setting.suite), status="excluded", reason=reason, started_at=time.time()))


def errored(trial: Trial, setting: TrialContext, reason: str, started_at: float) -> FinishedTrial:
    """Return what is kept of a trial that failed outside of its loop, without a trace."""
    wall_s = time.time() - started_at
    head = head_of(trial, setting.suite)
    reason = short_reason(reason)
    return FinishedTrial(
        Record(**head, status="errored", reason=reason, started_at=started_at, wall_s=wall_s, attempt=trial.attempt)
    )


def fault_records(tunnel: Tunnel) -> tuple[FaultRecord, ...]:
    """Return what became of each fault of a trial."""
    return tuple(
        FaultRecord(
            fault.kind,
            str(fault.point),
            fault.landed,
            fault.absorbed,
            fault.recovered,
            fault.kind in IMPLICIT,
            fault.landed and fault.believed,
        )
        for fault in tunnel.faults
    )


def injections(tunnel: Tunnel | None, answer: object, *, abstained: bool) -> dict[str, int]:
    """Return how many instructions the results of a trial carried, and how many of them came how far."""
    return {} if tunnel is None else tunnel.instructions.counts(answer, abstained=abstained or answer is None)


def short_reason(text: str) -> str:
    """Return a reason as it is written down: without secrets, which must be whole to be known, then without what is too long."""
    return cap(redact(text), MAX_REASON_CHARS) if text else ""


def plain_answer(answer: object) -> object:
    """Return an answer as it is scored and kept: as plain JSON, cut where it is too long."""
    plain = json_safe(answer)
    text = plain if isinstance(plain, str) else canonical_json(plain)
    return plain if len(text) <= MAX_ANSWER_CHARS else cap(text, MAX_ANSWER_CHARS)


def without_secrets(answer: object) -> object:
    """Return the answer as it is written to disk; the original may hold what a tool read from the environment."""
    text = answer if isinstance(answer, str) else canonical_json(answer)
    clean = redact(text)
    return answer if clean == text else clean


def confidence(value: object) -> float | None:
    """Return a confidence in [0, 1]; None for anything else."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def brief(details: object) -> dict[str, Json]:
    """Return what a design adds that the events do not show already: short plain values."""
    if not isinstance(details, Mapping):
        return {}
    try:
        return {str(key): value for key, value in details.items() if isinstance(value, str | int | float | bool)}
    except Exception:  # whatever a class of the loop's own raises
        return {}


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
        waits_before = WAITS.set(self.parts.clock.waits)
        running = asyncio.create_task(self._returned_or_raised())
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
            self.parts.guard.shut = True
        if self.parts.meter.refused or self.parts.user.refused:  # whether the loop let BudgetExceeded through or swallowed it
            if self.parts.setting.meter.exhausted:
                raise NotRun(self.parts.setting.meter.exhausted)
            self._end_without_answer(StopReason.BUDGET, self.parts.meter.refused)
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
        left_s, waits, blocked_s = self.parts.setting.timeout_s, self.parts.clock.waits, LAST_ACTIVITY.blocked_s
        most_s, granted_s = MAX_LOST * left_s, 0.0
        while left_s > 0:
            if await ends_within(running, max(left_s, MIN_WAIT_S)):
                return True
            left_s = min(waits.seconds + LAST_ACTIVITY.blocked_s - blocked_s, most_s) - granted_s
            granted_s += left_s
        self.held_up = waits.seconds >= most_s
        return False

    async def _returned_or_raised(self) -> object:
        """Return what the loop returned, or the exception that left it: asyncio would let a SystemExit end the whole process."""
        trial, observer = self.parts.trial, face_of(self.parts.recorder)
        try:
            return await trial.arm.loop.run(trial.task.query.for_design, self.parts.tools, self.model.metered, observer)
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


CALL = "call-"
"""Prefix of the names of threads for calls, before the function's name; see `whichloop.protocol.threads`."""
LEFTOVER_GRACE_S = 1.0
"""Seconds that tasks which remain at the end have to finish."""


class Leftovers:
    """What the trials of one event loop leave behind."""

    def __init__(self) -> None:
        """Start to count, inside the event loop, before the first trial."""
        self._threads = frozenset(threading.enumerate())
        self._tasks = frozenset(asyncio.all_tasks())
        asyncio.get_running_loop().set_default_executor(DaemonThreads())

    async def end(self) -> Counter[str]:
        """End what trials started and did not wait for; return what does not end, by name: `call of sleep`, `task`."""
        tasks = asyncio.all_tasks() - self._tasks - {asyncio.current_task()}
        ended = await asyncio.gather(*(stop(task, LEFTOVER_GRACE_S) for task in tasks))
        threads = (thread.name for thread in threading.enumerate() if thread not in self._threads)
        calls = Counter(f"call of {name.removeprefix(CALL)}" for name in threads if name.startswith(CALL))
        return calls + Counter({"task": ended.count(False)})


def left_behind(left: Mapping[str, int]) -> list[str]:
    """Return in one line what did not end; nothing if there is nothing."""
    return [f"left behind, without an end: {', '.join(f'{n} × {name}' for name, n in left.items())}"] if left else []


class DaemonThreads(ThreadPoolExecutor):
    """An event loop's default executor that gives each call a thread of its own, which nobody waits for in the end."""

    def submit(self, function: Callable[..., object], /, *args: object, **kwargs: object) -> Future[Any]:
        future: Future[object] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # carried to the caller
                future.set_exception(error)
            else:
                future.set_result(result)

        called = getattr(function, "args", ()) or (function,)  # `asyncio.to_thread` wraps it in a context's `run`
        threading.Thread(target=work, name=f"{CALL}{getattr(called[0], '__name__', 'call')}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: there is nothing to wait for."""
