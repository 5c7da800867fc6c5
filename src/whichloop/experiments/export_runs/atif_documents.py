"""A trial as an ATIF document."""

from __future__ import annotations

from typing import Any

from whichloop.experiments.trace_formats.atif import VERSION, steps_of
from whichloop.experiments.trace_formats.atif_own import with_own
from whichloop.experiments.trace_formats.differences import patched
from whichloop.experiments.trace_formats.own_trials import ImportedTask
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace
from whichloop.protocol.json_text import Json
from whichloop.runs.manifest import ArmEntry

ATIF = "atif"
UNVERSIONED = "unknown"
"""What stands for the version of an agent that has none: ATIF demands one."""


def atif_of(trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None = None) -> dict[str, Any]:
    """Return the document of a trial; of one that was read from ATIF, that document. Raises ValueError for damaged details.

    `task`: what the import that the trial is of knows of its task.
    """
    steps = steps_of(trace.events)
    details = trace.head.details
    if record.unknown and isinstance(details, dict) and ATIF in details:  # imported: no loop of ours can write that
        document = patched({"steps": steps}, details[ATIF])
    else:
        document = _document(steps, record, arm)
    return with_own(document, trace, record, arm, task)


def _document(steps: list[dict[str, Any]], record: Record, arm: ArmEntry) -> dict[str, Json]:
    if not steps:  # a document has at least one step
        steps = [{"step_id": 1, "source": "user", "message": ""}]
    agent: dict[str, Any] = {"name": arm.loop, "version": arm.version or UNVERSIONED, "model_name": arm.model}
    if arm.options:
        agent["extra"] = {"options": arm.options}
    totals: dict[str, Any] = {"total_steps": len(steps)}
    if "tokens" not in record.unknown:
        totals |= {"total_prompt_tokens": record.input_tokens, "total_completion_tokens": record.output_tokens}
    if "cached_tokens" not in record.unknown:
        totals["total_cached_tokens"] = record.cached_tokens
    if record.cost_usd is not None:
        totals["total_cost_usd"] = record.cost_usd
    return {
        "schema_version": VERSION,
        "session_id": record.name,
        "trajectory_id": record.name,
        "agent": agent,
        "steps": steps,
        "final_metrics": totals,
    }
