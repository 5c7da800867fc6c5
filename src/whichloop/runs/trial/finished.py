"""The record and the trace of a trial whose loop has ended: its answer is scored, and all that was counted is put together."""

from __future__ import annotations

from typing import Any

from whichloop.datasets.task import Task
from whichloop.metrics.answers import Judgement
from whichloop.metrics.record import SCORER, Record
from whichloop.metrics.scorers import is_abstention, reads_state, scores_of
from whichloop.metrics.summary import false_success
from whichloop.metrics.trace import TraceHead
from whichloop.protocol import Outcome
from whichloop.protocol.json_text import Json
from whichloop.runs.trial_models import is_priced
from whichloop.text.output import json_safe

from .loop_run import LoopEnd
from .record import brief, confidence, fault_records, head_of, injections, plain_answer, short_reason, without_secrets
from .setting import FinishedTrial
from .trial_parts import TrialParts


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
