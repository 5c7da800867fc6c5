"""The fields of the record of a trial."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from typing import Any

from whichloop.datasets.task import Suite
from whichloop.metrics.record import FaultRecord, Record
from whichloop.models.faults import IMPLICIT
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Outcome, StopReason, render_value
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.json_text import Json
from whichloop.protocol.own_code import raised_at
from whichloop.protocol.redact import redact
from whichloop.protocol.values import cap, error_text
from whichloop.runs.schedule import Trial
from whichloop.runs.trial.setting import MAX_ANSWER_CHARS, MAX_REASON_CHARS, FinishedTrial, TrialContext
from whichloop.text.output import json_safe

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
