"""Run one trial, and sort at one boundary whatever went wrong by its cause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopbench.datasets.task import Environment, Task
from loopbench.datasets.validity import replay
from loopbench.metrics.judgement import Judgement
from loopbench.metrics.record import SCORER, UNREPLAYABLE, FaultRecord, Record
from loopbench.metrics.scorers import is_abstention, reads_state, scores_of
from loopbench.metrics.summary import false_success
from loopbench.metrics.trace import TraceHead
from loopbench.models.metering import MeteredModel, MeteredToolbox
from loopbench.models.receipts import Truth, call_digest, content_digest
from loopbench.models.scripted import Script
from loopbench.models.tunnel import Tunnel
from loopbench.models.waits import WAITS
from loopbench.protocol import HARNESS_STOPS, Model, Outcome, StopReason, Toolbox, Usage
from loopbench.protocol.current_call import ID_DIGITS
from loopbench.protocol.digest import digest
from loopbench.protocol.own_code import waiting_at
from loopbench.protocol.redact import logger_of
from loopbench.protocol.values import error_text
from loopbench.runs.schedule import Trial
from loopbench.runs.trial.record import (
    STANDS,
    breach,
    brief,
    confidence,
    errored,
    excluded,
    fault_records,
    head_of,
    injections,
    kept,
    short_reason,
    without_secrets,
)
from loopbench.runs.trial.setting import FinishedTrial, NotRun, TrialContext
from loopbench.runs.trial_models import RequestHooks, TrialModel, is_priced, model_for_trial
from loopbench.text.plain_text import json_safe

from .context_use import RetentionCount
from .guard import Guard, ends_within, stop
from .played_user import PlayedUser
from .pricing import Pricing
from .recorder import Recorder
from .script import script_of
from .trial_meter import TrialClock, TrialMeter
from .watchdog import BlockingTime

STALLED_SHARE = 0.25
"""Share of a trial's time: if the model was silent that long when time was up, the model failed and the loop was not slow."""
MAX_LOST = 60
"""Multiple of the time limit that a trial may lose to its provider's failures and our limits. After that it ends: a trial
that waits for something that it holds itself, or asks a dead provider again and again, would never end."""
MAX_PASSES = 10_000
"""Requests and calls after which a trial with a scripted model has no end: many times what any task takes."""
LOOK_S = 1.0
"""Seconds between two looks at whether a trial with a scripted model moves on."""
MIN_WAIT_S = 0.01
"""Minimum number of seconds between two checks of a trial's remaining time."""
GRACE_S = 2.0
"""Seconds that a loop has to end after it was cancelled; then it is abandoned."""
MAX_ORACLES = 4096
"""Maximum number of tasks whose replayed plan is kept: all arms of a task run one after the other."""
SWALLOWED = "cancellation was swallowed"
"""Reason of a trial whose loop had to be abandoned."""

logger = logger_of(__name__)


async def run_trial(trial: Trial, setting: TrialContext) -> FinishedTrial:
    """Run one cell of the schedule. Raises NotRun, and passes cancellation from outside on."""
    started_at, started = time.time(), time.perf_counter()
    try:
        truth = await _truth(trial, setting)
        if isinstance(truth, str):
            return excluded(trial, setting, truth)
        environment = setting.suite.open(trial.task)
        try:
            user = PlayedUser(setting.trial_models, trial, setting.meter)
            run = _TrialInProgress(trial, setting, user.play(environment), truth, user)
            run.clock.started = started
            await run.ask_loop()
            run.settle()
            return run.finished_trial(started_at)
        finally:
            _close(environment, trial)
    except NotRun:
        raise
    except Exception as error:  # the suite's environment, or a bug of ours: a loop's own exceptions are caught before
        logger.debug("trial %s", trial.key, exc_info=True)
        return errored(trial, setting, f"{type(error).__name__}: {error_text(error)}", started_at)


async def _truth(trial: Trial, setting: TrialContext) -> Mapping[str, Truth] | str:
    """Return what a scripted model goes by; or why the task cannot be asked."""
    task = trial.task
    if task.quarantined:
        return f"quarantined: {task.quarantined}"
    if not trial.arm.is_scripted:
        return {}
    if task.plan is None:
        return f"no plan: {task.no_plan or 'the suite gives none'}"
    known = await _oracle(task, setting)
    return f"{UNREPLAYABLE}{known}" if isinstance(known, str) else known


def _close(environment: Environment, trial: Trial) -> None:
    try:
        environment.close()
    except Exception as error:  # what the trial gave stands all the same
        logger.warning("%s: closing its environment failed: %s: %s", trial.task.id, type(error).__name__, error_text(error))


async def _oracle(task: Task, setting: TrialContext) -> Mapping[str, Truth] | str:
    """Return the truth of each planned call, replayed once per task on fresh tools."""
    known = setting.oracles.get(task.id)
    if known is None:
        try:
            with BlockingTime(f"the replay of {task.id}").inherited():  # a tool of the suite may hang in place
                calls = await replay(task, setting.suite, setting.tool_timeout_s)
            known = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in calls}
            if len({truth.call for truth in known.values()}) < len(known):
                known = "two of its calls have the same receipt; change an argument or the tool's name"
        except ValueError as error:
            known = str(error)
        if len(setting.oracles) >= MAX_ORACLES:
            del setting.oracles[next(iter(setting.oracles))]
        setting.oracles[task.id] = known
    return known


class _TrialInProgress:
    """One trial from its set-up to its record: `ask_loop`, `settle` and `finished_trial`, each once and in this order."""

    def __init__(
        self, trial: Trial, setting: TrialContext, environment: Environment, truth: Mapping[str, Truth], user: PlayedUser
    ) -> None:
        self.trial = trial
        self.user = user
        self.setting = setting
        self.environment = environment
        self.truth = truth
        self.recorder = Recorder()
        self.tunnel: Tunnel | None = None
        if trial.arm.is_scripted:
            assert trial.task.plan is not None
            self.tunnel = Tunnel(real_time=setting.real_time, slow_s=trial.arm.met.slow_s)
            self.tunnel.unknown = tuple(call.id for call in trial.task.plan.calls)
            self.recorder.call_use.planned = {truth[call.id].call: call.id for call in trial.task.plan.calls if call.id in truth}
            self.recorder.context.retention = RetentionCount(trial.task.plan, truth, self.tunnel.ledger.issued)
        self.guard = Guard(None if self.tunnel is None else MAX_PASSES)
        self.tools = MeteredToolbox(
            environment.tools, self.recorder, self.tunnel, time_limit_s=setting.tool_timeout_s, admit=self.guard.admit
        )
        self.tools.ids.run_id = digest([trial.run_seed, *trial.key])[:ID_DIGITS]  # a tool that asks for it is told the same again
        self.recorder.tools = Toolbox(environment.tools)  # not those that tell it: a circle waits for the garbage collector
        self.clock = TrialClock(self.tunnel)
        self.waits = self.clock.waits
        self.meter = TrialMeter(setting.trial_budget, setting.meter, self.recorder, self.clock)
        self.outcome = Outcome(None, StopReason.CRASHED, 0)
        self.crash = ""
        self.errored = ""
        """Why the trial says nothing about the loop; empty if it does."""
        self.end_state: Any = None
        self.model: TrialModel | None = None
        self.stalled_s = 0.0
        """Seconds that the last request had waited for its reply when the time limit was reached."""
        self.held_up = False
        """Whether the provider's failures and our limits, or a slow machine, took all the time that a trial can lose to them."""

    def _script(self) -> Script | None:
        """Return what a scripted model follows; None for an arm with a real one."""
        if self.tunnel is None:
            return None
        trial = self.trial
        return script_of(trial.task, self.truth, trial.arm.met, trial.run_seed, trial.repeat, self.tools)

    def _pricing(self) -> Pricing | None:
        """Return what gives replies a cost; None where the model is a real one, or has no price."""
        price = self.setting.trial_models.scripted_price
        return None if price is None or self.tunnel is None else Pricing(price)

    def _usage(self) -> Usage:
        """Return what the trial took; a model whose price is known was paid nothing for a trial in which it gave no reply."""
        usage = self.recorder.usage
        is_unpaid = not self.recorder.is_answered and is_priced(self.setting.trial_models, self.trial.arm)
        return replace(usage, cost_usd=0.0, nominal_usd=0.0) if is_unpaid else usage

    async def ask_loop(self) -> None:
        """Run the loop to its end, its crash or the time limit. Raises NotRun when the run's budget is used up."""
        self.model = model_for_trial(
            self.setting.trial_models,
            self.trial,
            self._script(),
            self.tunnel,
            self.tools.specs,
            RequestHooks(self.meter, self.recorder, self.guard.admit, self._pricing()),
        )
        self.clock.recorded = self.model.recorded
        await self._run_loop(self.model.asked)

    async def _run_loop(self, model: MeteredModel) -> None:
        lost, hold = WAITS.set(self.waits), BlockingTime(" ".join(map(str, self.trial.key)))
        with hold.inherited():
            running = hold.task = asyncio.create_task(self._returned_or_raised(model))
        WAITS.reset(lost)
        has_stopped, at = True, ""
        try:
            done = await self._until_time_is_up(running)
            if not done:
                self.stalled_s, at = model.waiting_s, waiting_at(running)
                has_stopped = await stop(running, GRACE_S)
        except asyncio.CancelledError:  # Ctrl-C: the trial runs again on resume
            await stop(running, GRACE_S)
            raise
        finally:
            self.guard.shut, hold.task = True, None
        if self.meter.refused or self.user.refused:  # whether the loop let BudgetExceeded through or swallowed it
            if self.setting.meter.exhausted:
                raise NotRun(self.setting.meter.exhausted)
            self._end_without_answer(StopReason.BUDGET, self.meter.refused)
        elif hold.reason:
            self._end_without_answer(StopReason.TIMEOUT, hold.reason)
        elif not done:
            swallowed = "" if has_stopped else f", and {SWALLOWED}"
            self._end_without_answer(StopReason.TIMEOUT, f"{self._why_it_was_ended()}{swallowed}{f' at {at}' if at else ''}")
        else:
            self._keep_what_it_returned(running)

    def _why_it_was_ended(self) -> str:
        """Return why a loop that did not end by itself was ended."""
        if self.tunnel is None:
            return f"no end within {self.setting.timeout_s:g} s"
        if self.guard.used_up:
            return f"no end after {MAX_PASSES:,} requests and calls"
        return f"no end, and no request or call for {self.setting.timeout_s:g} s"

    async def _until_time_is_up(self, running: asyncio.Task[object]) -> bool:
        """Say whether the loop ended by itself. What its provider's failures and our limits cost is added to its time."""
        if self.tunnel is not None:
            return await self._until_it_stands_still(running)
        left_s = self.setting.timeout_s
        most_s, granted_s = MAX_LOST * left_s, 0.0
        while left_s > 0:
            if await ends_within(running, max(left_s, MIN_WAIT_S)):
                return True
            left_s = min(self.waits.seconds, most_s) - granted_s
            granted_s += left_s
        self.held_up = self.waits.seconds >= most_s
        return False

    async def _until_it_stands_still(self, running: asyncio.Task[object]) -> bool:
        """Say whether a loop with a scripted model ended by itself, before it did nothing for its time limit or asked without end.

        How long it takes in all depends on the machine, and must not decide over its result.
        """
        limit_s = self.setting.timeout_s
        look_s, silent_s, past_s, before = min(LOOK_S, limit_s), 0.0, 0.0, (0, 0.0)
        while silent_s < limit_s and not self.guard.used_up:
            if past_s >= MAX_LOST * limit_s:
                self.held_up = True
                return False
            if await ends_within(running, look_s):
                return True
            now = self.guard.passed, self.waits.seconds
            past_s += look_s
            silent_s, before = (silent_s + look_s if now == before else 0.0), now
        return False

    async def _returned_or_raised(self, model: Model) -> object:
        """Return what the loop returned, or the exception that left it: asyncio would let a SystemExit end the whole process."""
        trial = self.trial
        try:
            return await trial.arm.loop.run(trial.task.query.for_design, self.tools, model, self.recorder)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # the boundary to the design under test: whatever leaves it is a crash of it
            return error

    def _keep_what_it_returned(self, running: asyncio.Task[object]) -> None:
        """Take the outcome or the exception of a loop that ended by itself."""
        if running.cancelled():
            self._end_without_answer(StopReason.CANCELLED, "the loop cancelled itself")
            return
        left = running.result()
        problem = breach(left)
        if isinstance(left, Outcome) and not problem:
            self.outcome = left
        else:
            self._end_without_answer(StopReason.CRASHED, problem)
            self.recorder.errors["crash"] += 1

    def _end_without_answer(self, stop: StopReason, why: str) -> None:
        self.outcome, self.crash = Outcome(None, stop, self.recorder.steps), why

    def settle(self) -> None:
        """Stop the clock. End by its budget a trial whose last call went beyond a limit; its answer is kept, and counts nothing."""
        self.clock.stop()
        self.errored = self._why_no_verdict()
        if not self.errored and self.outcome.stop not in HARNESS_STOPS and (exceeded := self.meter.exceeded):
            own = self.outcome
            self.outcome = Outcome(own.answer, StopReason.BUDGET, own.steps, details=own.details, gave_up=own.gave_up)
            self.crash = exceeded

    def finished_trial(self, started_at: float) -> FinishedTrial:
        """Score the answer, and put the record and the trace together."""
        trial, recorder = self.trial, self.recorder
        faults, unmet = self._faults()
        answer = kept(self.outcome.answer)
        wall_s, errored = self.clock.wall_s, self.errored
        scores: dict[str, float] = {}
        if not errored:
            scores, errored = self._score(answer)
        usage = self._usage()
        abstained = isinstance(answer, str) and is_abstention(answer) and not self.outcome.gave_up
        simulated_s = self.tunnel.simulated_s if self.tunnel is not None else 0.0
        plan_unseen = self.tunnel is not None and bool(self.tunnel.unknown)
        record = Record(
            **head_of(trial, self.setting.suite),
            status="errored" if errored else "scored",
            reason=short_reason(errored or self.crash),
            stop=self.outcome.stop.value,
            answer=without_secrets(answer),
            scores=scores,
            steps=recorder.steps,
            calls=dict(sorted(recorder.calls.items())),
            tool_calls=recorder.tool_calls,
            repeated_calls=recorder.repeated_calls,
            gave_up=bool(self.outcome.gave_up),
            plan_unseen=plan_unseen,
            answer_unseen=self._answer_unseen(),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            tokens_estimated=usage.estimated,
            cost_usd=usage.cost_usd,
            nominal_usd=usage.nominal_usd,
            user_counts=self.user.counts(),
            user_cost_usd=self.user.cost_usd,
            retries=dict(sorted(recorder.retries.items())),
            errors=dict(sorted(recorder.errors.items())),
            faults=faults,
            faults_unmet=unmet,
            call_counts=self._call_counts(),
            injections=injections(self.tunnel, answer, abstained=abstained),
            false_success=not errored
            and false_success(
                accuracy=scores.get("accuracy", 0.0),
                stop=self.outcome.stop.value,
                abstained=abstained,
                faults=faults,
                planned_call_unknown=plan_unseen,
            ),
            abstained=abstained,
            confidence=confidence(self.outcome.confidence),
            trace_digest=recorder.digest(),
            **recorder.context.fields(),
            seconds=self.clock.seconds(wall_s),
            wall_s=wall_s,
            simulated_s=simulated_s,
            started_at=started_at,
            attempt=trial.attempt,
        )
        return FinishedTrial(record, recorder.line(self._trace_head(record)))

    def _faults(self) -> tuple[tuple[FaultRecord, ...], int]:
        """Return what became of each fault, and how many the trial ended before."""
        if self.tunnel is None:
            return (), 0
        self.tunnel.settle(self.truth)
        return fault_records(self.tunnel), self.tunnel.unmet()

    def _call_counts(self) -> dict[str, int]:
        """Return what became of the model's calls."""
        recorder, retention = self.recorder, self.recorder.context.retention
        unshown = 0 if retention is None else retention.unshown
        at_once = None if self.tunnel is None else self.tunnel.at_once
        return recorder.call_use.fields(unshown, *((at_once.chances, at_once.overlaps) if at_once is not None else (0, 0)))

    def _answer_unseen(self) -> bool:
        """Say whether the scripted model never knew what the planned answer rests on, or was never asked."""
        plan = self.trial.task.plan
        if self.tunnel is None or plan is None:
            return False
        return not self.recorder.calls or not plan.rests_on <= self.tunnel.ever_shown

    def _why_no_verdict(self) -> str:
        """Return why the trial says nothing about the loop; empty if it does."""
        if self.user.failure:
            return self.user.failure
        if self.model is not None and self.model.recorded is not None and self.model.recorded.failure is not None:
            return str(self.model.recorded.failure)
        stop = self.outcome.stop
        failure = self.recorder.provider_trouble if stop is not StopReason.FINISHED else None
        if failure is None and stop not in STANDS:
            failure = self.recorder.provider_failure
        if failure is not None:
            return f"provider: {failure}"
        if self.held_up and self.tunnel is not None:
            return f"still at work after {MAX_LOST} times the trial's {self.setting.timeout_s:g} s"
        if self.held_up:
            return f"provider: its failures and our limits took {MAX_LOST} times the trial's {self.setting.timeout_s:g} s"
        if self.tunnel is None and self.stalled_s >= STALLED_SHARE * self.setting.timeout_s:
            return f"provider: no reply for {self.stalled_s:.1f} s when the trial's time was up"
        return ""

    def _score(self, answer: Any) -> tuple[dict[str, float], str]:
        """Return the scores, and what went wrong with the scoring itself."""
        task = self.trial.task
        try:
            self.end_state = self.environment.state()
        except Exception as error:  # the suite's, or that of its tools: the trial is errored, not wrong
            return {}, f"end state: {type(error).__name__}: {error}"
        try:
            said = None if self.outcome.gave_up else answer
            return scores_of(Judgement(task, said, self.outcome.stop.value, self.end_state)), ""
        except Exception as error:  # our bug or the suite's, never the loop's: the trial is errored, not wrong
            return {}, f"{SCORER}{task.scorer}: {type(error).__name__}: {error}"

    def _trace_head(self, record: Record) -> TraceHead:
        task = self.trial.task
        return TraceHead(
            arm=record.arm,
            task=record.task,
            repeat=record.repeat,
            query=task.query.full_text,
            expected=task.expected,
            end_state=self._end_state_for_trace(),
            answer=record.answer,
            stop=record.stop,
            status=record.status,
            reason=record.reason,
            scores=record.scores,
            details=brief(self.outcome.details),
        )

    def _end_state_for_trace(self) -> dict[str, Any] | None:
        """Return the end state; None if the answer's scores do not depend on it."""
        task = self.trial.task
        if task.end_state is not None:
            return {"expected": task.end_state, "found": json_safe(self.end_state)}
        return {"found": json_safe(self.end_state)} if reads_state(task.scorer) else None
