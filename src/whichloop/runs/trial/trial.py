"""One trial: what is to be run goes in, its record and its trace come out. Whatever goes wrong is sorted by its cause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from whichloop.datasets.task import Environment, Suite
from whichloop.datasets.validity import replay
from whichloop.metrics.answers import Judgement
from whichloop.metrics.record import SCORER, UNREPLAYABLE, FaultRecord, Record
from whichloop.metrics.scorers import false_success, is_abstention, reads_state, scores_of
from whichloop.metrics.trace import Trace, TraceHead
from whichloop.models.faults import IMPLICIT, Fault
from whichloop.models.metering import WAITS, Budget, Meter, MeteredModel, MeteredToolbox
from whichloop.models.receipts import Truth, call_digest, content_digest
from whichloop.models.tunnel import LoopModel, Tunnel
from whichloop.protocol import HARNESS_STOPS, Outcome, StopReason, render_value
from whichloop.protocol.json_text import Json, canonical_json, digest
from whichloop.protocol.own_code import raised_at, waiting_at
from whichloop.protocol.redact import logger_of, redact
from whichloop.protocol.tool_calls import ID_DIGITS
from whichloop.protocol.tools import DEFAULT_TIME_LIMIT_S
from whichloop.protocol.values import cap, error_text, json_safe
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.schedule import Trial
from whichloop.runs.trial_models import PlayedUser, TrialModels, is_priced, model_for_trial, script_of

from .counts import RetentionCount, TrialClock, TrialMeter, pricing_of
from .recorder import NoteTaker, Recorder, trace_line
from .watchdog import Blocked, Guard, ends_within, stop

logger = logger_of(__name__)

MAX_ANSWER_CHARS = 100_000
"""Maximum length of an answer that is scored and kept; the rest is cut off."""
MAX_REASON_CHARS = 2_000
MAX_ORACLES = 4096
"""Maximum number of tasks whose replayed plan is kept: all arms of a task run one after the other."""
MAX_PASSES = 10_000
"""Requests and calls after which a trial with a scripted model has no end: many times what any task takes."""
STALLED_SHARE = 0.25
"""Share of a trial's time: if the model was silent that long when time was up, the model failed and the loop was not slow."""
MAX_LOST = 60
"""Multiple of the time limit that a trial may lose to its provider's failures and our limits. After that it ends: a trial
that waits for something that it holds itself, or asks a dead provider again and again, would never end."""
LOOK_S = 1.0
"""Seconds between two looks at whether a trial with a scripted model moves on."""
GRACE_S = 2.0
"""Seconds that a loop has to end after it was cancelled; then it is abandoned."""
SWALLOWED = "cancellation was swallowed"
STANDS = frozenset({StopReason.FINISHED, StopReason.TIMEOUT, StopReason.BUDGET})
"""Stops that are scored: the loop reached them despite a request that its provider refused, or by its own limit."""


class NotRun(Exception):
    """The run's budget is used up: the trial waits for a resume."""


@dataclass(frozen=True, slots=True)
class TrialContext:
    """The context that all trials of a run share."""

    suite: Suite
    trial_models: TrialModels = field(default_factory=TrialModels)
    timeout_s: float = 60.0
    trial_budget: Budget = field(default_factory=Budget)
    meter: Meter = field(default_factory=Meter)
    real_time: bool = False
    tool_timeout_s: float = DEFAULT_TIME_LIMIT_S
    """Time limit in seconds for a tool that sets none of its own."""
    oracles: dict[str, Mapping[str, Truth] | str] = field(default_factory=dict)
    """Task → truth of its planned calls, or why its plan does not replay; filled as tasks come up."""


def setting_of(config: CompareConfig, suite: Suite, answers: TrialModels, meter: Meter) -> TrialContext:
    """Return what all trials of a run share in one process; `answers` is ready to answer in its event loop."""
    return TrialContext(
        suite, answers, config.trial_timeout_s, budget_of(config.trial_budget), meter, config.real_time, config.tool_timeout_s
    )


def budget_of(config: BudgetConfig) -> Budget:
    return Budget(config.calls, config.tokens, config.dollars, config.seconds)


class FinishedTrial(NamedTuple):
    """A finished trial: its record, and its trace as one line of JSON (empty where nothing ran)."""

    record: Record
    trace: bytes = b""


async def run_trial(trial: Trial, setting: TrialContext) -> FinishedTrial:
    """Run one cell of the schedule. Raises NotRun, and passes cancellation from outside on."""
    started_at, started = time.time(), time.perf_counter()
    try:
        truth = await _truth(trial, setting)
        if isinstance(truth, str):
            return FinishedTrial(Record(**head_of(trial, setting.suite), status="excluded", reason=truth, started_at=time.time()))
        environment = setting.suite.open(trial.task)
        try:
            run = LoopRun(trial, setting, environment, truth, started)
            await run.run_to_its_end()
            return finished_trial(run, started_at)
        finally:
            try:
                environment.close()
            except Exception as error:  # what the trial gave stands all the same
                logger.warning("%s: closing its environment failed: %s: %s", trial.task.id, type(error).__name__, error_text(error))
    except NotRun:
        raise
    except Exception as error:  # the suite's environment, or a bug of ours: a loop's own exceptions are caught before
        logger.debug("trial %s", trial.key, exc_info=True)
        return _errored(trial, setting, f"{type(error).__name__}: {error_text(error)}", started_at)


def head_of(trial: Trial, suite: Suite) -> dict[str, Any]:
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


def _errored(trial: Trial, context: TrialContext, reason: str, started_at: float) -> FinishedTrial:
    """Return what is kept of a trial that failed outside of its loop, without a trace."""
    head, wall_s = head_of(trial, context.suite), time.time() - started_at
    record = Record(**head, status="errored", reason=_short(reason), started_at=started_at, wall_s=wall_s, attempt=trial.attempt)
    return FinishedTrial(record)


async def _truth(trial: Trial, context: TrialContext) -> Mapping[str, Truth] | str:
    """Return the truth of each planned call, replayed once per task on fresh tools; or why the task cannot be asked."""
    task = trial.task
    if task.quarantined:
        return f"quarantined: {task.quarantined}"
    if not trial.arm.is_scripted:
        return {}
    if task.plan is None:
        return f"no plan: {task.no_plan or 'the suite gives none'}"
    truths = context.oracles.get(task.id)
    if truths is None:
        try:
            calls = await replay(task, context.suite, context.tool_timeout_s)
            truths = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in calls}
            if len({truth.call for truth in truths.values()}) < len(truths):
                truths = f"{UNREPLAYABLE}two of its calls have the same receipt; change an argument or the tool's name"
        except ValueError as error:
            truths = f"{UNREPLAYABLE}{error}"
        if len(context.oracles) >= MAX_ORACLES:
            del context.oracles[next(iter(context.oracles))]
        context.oracles[task.id] = truths
    return truths


class LoopRun:
    """A loop's run on a task: its tools and its model, made anew, what counts, guards and records, and how it ended."""

    def __init__(
        self, trial: Trial, context: TrialContext, environment: Environment, truth: Mapping[str, Truth], started: float
    ) -> None:
        """`truth`: what a scripted model goes by, by planned call. `started`: on the clock of `time.perf_counter`."""
        self.trial, self.context, self.truth = trial, context, truth
        self.user = PlayedUser(context.trial_models, trial, context.meter)
        self.environment = self.user.play(environment)
        self.recorder = recorder = Recorder()
        models, plan = context.trial_models, trial.task.plan
        self.tunnel: Tunnel | None = None
        """Where the trial meets its faults; None for a real model under no profile."""
        self.is_scripted = trial.arm.is_scripted
        profile = trial.arm.profile_met if self.is_scripted else trial.arm.profile.outside
        if self.is_scripted or profile.kinds:
            self.tunnel = Tunnel(signs=self.is_scripted, real_time=context.real_time)
            self.tunnel.blow(profile, trial.draws)
        if self.is_scripted:
            assert plan is not None
            assert self.tunnel is not None
            recorder.call_use.planned = {truth[call.id].call: call.id for call in plan.calls if call.id in truth}
            recorder.retention = RetentionCount(plan, truth, self.tunnel.ledger.issued)
        self.guard = Guard(MAX_PASSES if self.is_scripted else None)
        self.tools = MeteredToolbox(
            self.environment.tools, recorder.tool_call, self.tunnel, time_limit_s=context.tool_timeout_s, admit=self.guard.admit
        )
        self.tools.run_id = digest([trial.run_seed, *trial.key])[:ID_DIGITS]  # a tool that asks for it is told the same again
        recorder.tools = {tool.name: tool for tool in self.tools}
        self.clock = TrialClock(started, self.tunnel, self.is_scripted)
        self.meter = TrialMeter(context.trial_budget, context.meter, lambda: recorder.usage, self.clock)
        script = pricing = None
        if self.is_scripted:
            script = script_of(trial.task, truth, profile, trial.run_seed, trial.repeat, self.tools)
            pricing = None if models.scripted_price is None else pricing_of(models.scripted_price)
        model, self.clock.recorded = model_for_trial(models, trial, script, self.tunnel)
        self.model = MeteredModel(model, self.meter, recorder.exchange, self.tunnel, self.guard.admit, pricing)
        self.outcome = Outcome(None, StopReason.CRASHED, 0)
        self.why = ""
        """Why there is no answer, or none that counts; empty where the loop says that itself."""
        self.stalled_s = 0.0
        """Seconds that the last request had waited for its reply when the time limit was reached."""
        self.held_up = False
        """Whether the provider's failures and our limits, or a slow machine, took all the time that a trial can lose to them."""

    async def run_to_its_end(self) -> None:
        """Run the loop to its end, its crash or the time limit. Raises NotRun when the run's budget is used up."""
        waits_before = WAITS.set(self.clock.waits)
        running = asyncio.create_task(self._returned_or_raised())
        WAITS.reset(waits_before)
        has_stopped, at = True, ""
        try:
            ended_itself = await self._until_time_is_up(running)
            if not ended_itself:
                self.stalled_s, at = self.model.waiting_s, waiting_at(running)
                has_stopped = await stop(running, GRACE_S)
        except asyncio.CancelledError:  # Ctrl-C: the trial runs again on resume
            await stop(running, GRACE_S)
            raise
        finally:
            self.guard.shut = True
        if self.meter.refused or self.user.refused:  # whether the loop let BudgetExceeded through or swallowed it
            if self.context.meter.exhausted:
                raise NotRun(self.context.meter.exhausted)
            self._end_without_answer(StopReason.BUDGET, self.meter.refused)
        elif not ended_itself:
            swallowed = "" if has_stopped else f", and {SWALLOWED}"
            why = f"no end within {self.context.timeout_s:g} s"
            if self.guard.used_up:
                why = f"no end after {self.guard.max_passes:,} requests and calls"
            elif self.is_scripted:
                why = f"no end, and no request or call for {self.context.timeout_s:g} s"
            self._end_without_answer(StopReason.TIMEOUT, f"{why}{swallowed}{f' at {at}' if at else ''}")
        elif running.cancelled():
            self._end_without_answer(StopReason.CANCELLED, "the loop cancelled itself")
        elif problem := breach(result := running.result()):
            self._end_without_answer(StopReason.CRASHED, problem)
            self.recorder.errors["crash"] += 1
        else:
            assert isinstance(result, Outcome)
            self.outcome = result
        self.clock.wall_s = time.perf_counter() - self.clock.started

    def _end_without_answer(self, stop: StopReason, why: str) -> None:
        self.outcome, self.why = Outcome(None, stop, self.recorder.steps), why

    async def _returned_or_raised(self) -> object:
        """Return what the loop returned, or the exception that left it: asyncio would let a SystemExit end the whole process."""
        trial, observer = self.trial, NoteTaker(self.recorder.note)
        try:
            return await trial.arm.loop.run(trial.task.query.for_design, self.tools, LoopModel(self.model), observer)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # the boundary to the design under test: whatever leaves it is a crash of it
            return error

    async def _until_time_is_up(self, running: asyncio.Task[object]) -> bool:
        """Say whether the loop ended by itself. What its provider's failures and our limits cost is added to its time."""
        limit_s, waits = self.context.timeout_s, self.clock.waits
        await asyncio.sleep(0)  # a scripted model never waits: mostly that is all that it takes
        if running.done():
            return True
        if self.is_scripted:  # it may take as long as it likes while it moves on: that is the machine's doing
            look_s, silent_s, past_s, before = min(LOOK_S, limit_s), 0.0, 0.0, (0, 0.0)
            while silent_s < limit_s and not self.guard.used_up:
                if past_s >= MAX_LOST * limit_s:
                    self.held_up = True
                    return False
                if await ends_within(running, look_s):
                    return True
                now = self.guard.passes, waits.seconds
                past_s += look_s
                silent_s, before = (silent_s + look_s if now == before else 0.0), now
            return False
        left_s, blocked_s, most_s, granted_s = limit_s, Blocked.seconds, MAX_LOST * limit_s, 0.0
        while left_s > 0:
            if await ends_within(running, max(left_s, 0.01)):
                return True
            left_s = min(waits.seconds + Blocked.seconds - blocked_s, most_s) - granted_s
            granted_s += left_s
        self.held_up = waits.seconds >= most_s
        return False

    def why_no_verdict(self) -> str:
        """Return why the trial says nothing about the loop; empty if it does."""
        if self.user.failure:
            return self.user.failure
        if self.clock.recorded is not None and self.clock.recorded.failure is not None:
            return str(self.clock.recorded.failure)
        stop, limit_s = self.outcome.stop, self.context.timeout_s
        failure = self.recorder.provider_trouble if stop is not StopReason.FINISHED else None
        if failure is None and stop not in STANDS:
            failure = self.recorder.provider_failure
        if failure is not None:
            return f"provider: {failure}"
        if self.held_up:
            took = "still at work after" if self.is_scripted else "provider: its failures and our limits took"
            return f"{took} {MAX_LOST} times the trial's {limit_s:g} s"
        if not self.is_scripted and self.stalled_s >= STALLED_SHARE * limit_s:
            return f"provider: no reply for {self.stalled_s:.1f} s when the trial's time was up"
        return ""


def breach(result: object) -> str:
    """Return what is wrong with what came out of `run`, in words; empty for a sound Outcome. Of an exception, also where in the
    user's code it came up."""
    if isinstance(result, BaseException):
        at = raised_at(result)
        text = cap(f"{type(result).__name__}: {error_text(result)}", MAX_REASON_CHARS // 2)  # behind it is room for the line
        return f"{text} at {at}" if at else text
    if not isinstance(result, Outcome):
        return f"TypeError: run() gave a {type(result).__name__}, not an Outcome"
    stop: object = result.stop
    if not isinstance(stop, StopReason):
        return f"TypeError: the outcome's stop is {render_value(stop)!r}, not a StopReason"
    is_ours = stop in (StopReason.TIMEOUT, StopReason.BUDGET, StopReason.CRASHED)
    return f"ValueError: the outcome's stop is {stop.value!r}, which only the harness sets" if is_ours else ""


# --- what came of it ---


def finished_trial(run: LoopRun, started_at: float) -> FinishedTrial:
    """Score the answer, and put the record and the trace together."""
    trial, recorder, tunnel, outcome = run.trial, run.recorder, run.tunnel, run.outcome
    errored, why = run.why_no_verdict(), run.why
    if not errored and outcome.stop not in HARNESS_STOPS and (exceeded := run.meter.exceeded):
        # The answer of a trial whose last call went beyond a limit is kept, and counts nothing.
        outcome, why = replace(outcome, stop=StopReason.BUDGET, confidence=None), exceeded
    answer, end_state = json_safe(outcome.answer), None
    if len(text := answer if isinstance(answer, str) else canonical_json(answer)) > MAX_ANSWER_CHARS:
        answer = text = cap(text, MAX_ANSWER_CHARS)
    scores: dict[str, float] = {}
    if not errored:
        place = "end state: "
        try:
            end_state = run.environment.state()
            place = f"{SCORER}{trial.task.scorer}: "
            stated = None if outcome.gave_up else answer
            scores = scores_of(Judgement(trial.task, stated, outcome.stop.value, end_state))
        except Exception as error:  # ours or the suite's, never the loop's: the trial is errored, not wrong
            errored = f"{place}{type(error).__name__}: {error}"
    fields = _counted(run)
    abstained = isinstance(answer, str) and is_abstention(answer) and not outcome.gave_up
    clean = redact(text)  # the answer itself may hold what a tool read from the environment
    record = Record(
        **head_of(trial, run.context.suite),
        **fields,
        status="errored" if errored else "scored",
        reason=_short(errored or why),
        stop=outcome.stop.value,
        answer=answer if clean == text else clean,
        scores=scores,
        gave_up=bool(outcome.gave_up),
        injections={} if tunnel is None else tunnel.instructions.counts(answer, abstained=abstained or answer is None),
        false_success=not errored
        and false_success(
            accuracy=scores.get("accuracy", 0.0),
            answered=answer is not None and not abstained and not outcome.gave_up,
            faults=fields["faults"],
            planned_call_unknown=fields["plan_unseen"],
        ),
        abstained=abstained,
        confidence=float(sure) if isinstance(sure := outcome.confidence, int | float) and 0 <= sure <= 1 else None,
        started_at=started_at,
        attempt=trial.attempt,
    )
    try:
        Record.from_json(record.to_json())  # numbers that a model, a loop or a clock gave
    except ValueError as error:
        return _errored(trial, run.context, f"record: {error}", started_at)
    return FinishedTrial(record, trace_line(Trace(_head(run, record, outcome, end_state), tuple(recorder.events))))


def _head(run: LoopRun, record: Record, outcome: Outcome, end_state: object) -> TraceHead:
    """Return what a trace begins with. The end state is in it where the answer's scores depend on it."""
    task, state = run.trial.task, None
    if task.end_state is not None:
        state = {"expected": task.end_state, "found": json_safe(end_state)}
    elif reads_state(task.scorer):
        state = {"found": json_safe(end_state)}
    return TraceHead(
        *run.trial.key,
        query=task.query.full_text,
        expected=task.expected,
        end_state=state,
        answer=record.answer,
        stop=record.stop,
        status=record.status,
        reason=record.reason,
        scores=record.scores,
        details=brief(outcome.details),
    )


def _counted(run: LoopRun) -> dict[str, Any]:
    recorder, tunnel, plan = run.recorder, run.tunnel, run.trial.task.plan
    fields: dict[str, Any] = recorder.fields()
    if not recorder.is_answered and is_priced(run.context.trial_models, run.trial.arm):
        fields |= {"cost_usd": 0.0, "nominal_usd": 0.0}  # a model whose price is known was paid nothing where it gave no reply
    fields |= {
        "user_counts": run.user.counts(),
        "user_cost_usd": run.user.cost_usd,
        "seconds": run.clock.seconds,
        "wall_s": run.clock.wall_s,
        "simulated_s": 0.0,
    }
    struck: Sequence[Fault] = ()
    if tunnel is not None:
        tunnel.settle()
        struck, fields["simulated_s"] = tunnel.faults, tunnel.simulated_s
    fields["faults"] = tuple(
        FaultRecord(f.kind, str(f.point), f.landed, f.absorbed, f.recovered, f.kind in IMPLICIT, believed=f.landed and f.believed)
        for f in struck
    )
    if tunnel is None or plan is None or recorder.retention is None:
        return fields | {"call_counts": recorder.call_use.fields(0, None), "plan_unseen": False}
    return fields | {
        **recorder.retention.fields(),
        "call_counts": recorder.call_use.fields(recorder.retention.unshown, tunnel),
        "plan_unseen": bool(tunnel.unknown),
        # The scripted model never knew what the planned answer rests on, or was never asked.
        "answer_unseen": not recorder.calls or not plan.rests_on <= tunnel.ever_shown,
    }


def _short(text: str) -> str:
    """Return a reason as it is written down: without secrets, which must be whole to be known, then without what is too long."""
    return cap(redact(text), MAX_REASON_CHARS) if text else ""


def brief(details: object) -> dict[str, Json]:
    """Return what a design adds that the events do not show already: short plain values."""
    if not isinstance(details, Mapping):
        return {}
    try:
        return {str(key): value for key, value in details.items() if isinstance(value, str | int | float | bool)}
    except Exception:  # whatever a class of the loop's own raises
        return {}
