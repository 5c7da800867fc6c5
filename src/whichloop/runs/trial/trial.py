"""Run one trial, and sort at one boundary whatever went wrong by its cause."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from whichloop.datasets.task import Environment, Task
from whichloop.datasets.validity import replay
from whichloop.metrics.answers import Judgement
from whichloop.metrics.record import SCORER, UNREPLAYABLE, Record
from whichloop.metrics.scorers import is_abstention, reads_state, scores_of
from whichloop.metrics.summary import false_success
from whichloop.metrics.trace import TraceHead
from whichloop.models.receipts import Truth, call_digest, content_digest
from whichloop.protocol import Outcome
from whichloop.protocol.json_text import Json
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import error_text
from whichloop.runs.schedule import Trial
from whichloop.runs.trial_models import is_priced
from whichloop.text.output import json_safe

from .loop_run import (
    LoopEnd,
    LoopRun,
    brief,
    confidence,
    errored,
    excluded,
    fault_records,
    head_of,
    injections,
    plain_answer,
    short_reason,
    without_secrets,
)
from .setting import FinishedTrial, NotRun, TrialContext
from .trial_parts import PlayedUser, TrialParts


def finished_trial(parts: TrialParts, end: LoopEnd, started_at: float) -> FinishedTrial:
    """Score the answer, and put the record and the trace together."""
    trial, recorder, tunnel, outcome = parts.trial, parts.recorder, parts.tunnel, end.outcome
    if tunnel is not None:
        tunnel.settle(parts.truth)
    faults = () if tunnel is None else fault_records(tunnel)
    answer = plain_answer(outcome.answer)
    wall_s, errored = parts.clock.wall_s, end.errored
    scores: dict[str, float] = {}
    end_state: object = None
    if not errored:
        scores, end_state, errored = _scored(parts, outcome, answer)
    abstained = isinstance(answer, str) and is_abstention(answer) and not outcome.gave_up
    plan_unseen = tunnel is not None and bool(tunnel.unknown)
    record = Record(
        **head_of(trial, parts.setting.suite),
        status="errored" if errored else "scored",
        reason=short_reason(errored or end.why),
        stop=outcome.stop.value,
        answer=without_secrets(answer),
        scores=scores,
        steps=recorder.steps,
        calls=dict(sorted(recorder.calls.items())),
        tool_calls=recorder.tool_calls,
        repeated_calls=recorder.repeated_calls,
        gave_up=bool(outcome.gave_up),
        plan_unseen=plan_unseen,
        answer_unseen=_answer_unseen(parts),
        **_spent(parts),
        retries=dict(sorted(recorder.retries.items())),
        errors=dict(sorted(recorder.errors.items())),
        faults=faults,
        faults_unmet=0 if tunnel is None else tunnel.unmet(),
        call_counts=_call_counts(parts),
        injections=injections(tunnel, answer, abstained=abstained),
        false_success=not errored
        and false_success(
            accuracy=scores.get("accuracy", 0.0),
            stop=outcome.stop.value,
            abstained=abstained,
            faults=faults,
            planned_call_unknown=plan_unseen,
        ),
        abstained=abstained,
        confidence=confidence(outcome.confidence),
        trace_digest=recorder.digest(),
        **recorder.context.fields(),
        seconds=parts.clock.seconds(wall_s),
        wall_s=wall_s,
        simulated_s=0.0 if tunnel is None else tunnel.simulated_s,
        started_at=started_at,
        attempt=trial.attempt,
    )
    return FinishedTrial(record, recorder.line(_trace_head(trial.task, record, outcome, end_state)))


def _scored(parts: TrialParts, outcome: Outcome, answer: object) -> tuple[dict[str, float], Any, str]:
    """Return the scores, the end state that they rest on, and what went wrong with the scoring itself."""
    task, end_state = parts.trial.task, None
    try:
        end_state = parts.environment.state()
    except Exception as error:  # the suite's, or that of its tools: the trial is errored, not wrong
        return {}, end_state, f"end state: {type(error).__name__}: {error}"
    try:
        stated = None if outcome.gave_up else answer
        return scores_of(Judgement(task, stated, outcome.stop.value, end_state)), end_state, ""
    except Exception as error:  # our bug or the suite's, never the loop's: the trial is errored, not wrong
        return {}, end_state, f"{SCORER}{task.scorer}: {type(error).__name__}: {error}"


def _spent(parts: TrialParts) -> dict[str, Any]:
    """Return the fields of what the trial took; a model whose price is known was paid nothing where it gave no reply."""
    usage = parts.recorder.usage
    is_unpaid = not parts.recorder.is_answered and is_priced(parts.setting.trial_models, parts.trial.arm)
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "tokens_estimated": usage.estimated,
        "cost_usd": 0.0 if is_unpaid else usage.cost_usd,
        "nominal_usd": 0.0 if is_unpaid else usage.nominal_usd,
        "user_counts": parts.user.counts(),
        "user_cost_usd": parts.user.cost_usd,
    }


def _answer_unseen(parts: TrialParts) -> bool:
    """Say whether the scripted model never knew what the planned answer rests on, or was never asked."""
    plan = parts.trial.task.plan
    if parts.tunnel is None or plan is None:
        return False
    return not parts.recorder.calls or not plan.rests_on <= parts.tunnel.ever_shown


def _call_counts(parts: TrialParts) -> dict[str, int]:
    """Return what became of the model's calls."""
    recorder, retention = parts.recorder, parts.recorder.context.retention
    unshown = 0 if retention is None else retention.unshown
    if parts.tunnel is None:
        return recorder.call_use.fields(unshown, 0, 0)
    at_once = parts.tunnel.at_once
    return recorder.call_use.fields(unshown, at_once.chances, at_once.overlaps)


def _trace_head(task: Task, record: Record, outcome: Outcome, end_state: object) -> TraceHead:
    """Return what a trace begins with: the task, and what came of it."""
    return TraceHead(
        arm=record.arm,
        task=record.task,
        repeat=record.repeat,
        query=task.query.full_text,
        expected=task.expected,
        end_state=_end_state_for_trace(task, end_state),
        answer=record.answer,
        stop=record.stop,
        status=record.status,
        reason=record.reason,
        scores=record.scores,
        details=brief(outcome.details),
    )


def _end_state_for_trace(task: Task, end_state: object) -> dict[str, Json] | None:
    """Return the end state; None if the answer's scores do not depend on it."""
    if task.end_state is not None:
        return {"expected": task.end_state, "found": json_safe(end_state)}
    return {"found": json_safe(end_state)} if reads_state(task.scorer) else None


MAX_ORACLES = 4096
"""Maximum number of tasks whose replayed plan is kept: all arms of a task run one after the other."""

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
            parts = TrialParts(trial, setting, user.play(environment), truth, user)
            parts.clock.started = started
            run = LoopRun(parts)
            await run.run_to_its_end()
            return finished_trial(parts, run.end(), started_at)
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
    truths = await _oracle(task, setting)
    return f"{UNREPLAYABLE}{truths}" if isinstance(truths, str) else truths


def _close(environment: Environment, trial: Trial) -> None:
    try:
        environment.close()
    except Exception as error:  # what the trial gave stands all the same
        logger.warning("%s: closing its environment failed: %s: %s", trial.task.id, type(error).__name__, error_text(error))


async def _oracle(task: Task, setting: TrialContext) -> Mapping[str, Truth] | str:
    """Return the truth of each planned call, replayed once per task on fresh tools."""
    truths = setting.oracles.get(task.id)
    if truths is None:
        try:
            calls = await replay(task, setting.suite, setting.tool_timeout_s)
            truths = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in calls}
            if len({truth.call for truth in truths.values()}) < len(truths):
                truths = "two of its calls have the same receipt; change an argument or the tool's name"
        except ValueError as error:
            truths = str(error)
        if len(setting.oracles) >= MAX_ORACLES:
            del setting.oracles[next(iter(setting.oracles))]
        setting.oracles[task.id] = truths
    return truths
