"""A trial as a document of ATIF 1.7, which `import` reads back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.trace import UNTOLD, ModelExchange, ToolRun, Trace, TracedCall, TraceEvent
from whichloop.protocol import Message
from whichloop.runs.manifest import ArmEntry

from ..import_runs.chats import as_text, parsed
from ..import_runs.foreign_trials import ImportedTask
from ..import_runs.formats.atif import ATIF, EXTRA, NEVER_RAN, OWN, RAW
from ..import_runs.own_trials import own_part

VERSION = "ATIF-v1.7"
"""The version that is written: the first in which results and calls have an `extra`."""
UNVERSIONED = "unknown"
"""What stands for the version of an agent that has none: ATIF demands one."""
MAX_WAITING = 64
"""Steps with calls that nothing has answered which a later result may still answer."""


def atif_of(trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None = None) -> dict[str, Any]:
    """Return the document of a trial; what was imported from ATIF says besides its steps what it said.

    `task`: what the import that the trial is of knows of its task.
    """
    steps = steps_of(trace.events) or [{"step_id": 1, "source": "user", "message": ""}]  # a document has at least one step
    details = trace.head.details
    imported = details.get(ATIF) if record.unknown and isinstance(details, dict) else None  # no loop of ours can write that
    about = imported if isinstance(imported, dict) else _about(steps, record, arm)
    extra = about.get(EXTRA)
    own = own_part(steps, trace, record, arm, task)
    return {**about, "steps": steps, EXTRA: {**(extra if isinstance(extra, Mapping) else {}), OWN: own}}


def _about(steps: Sequence[Any], record: Record, arm: ArmEntry) -> dict[str, Any]:
    agent: dict[str, Any] = {"name": arm.loop, "version": arm.version or UNVERSIONED, "model_name": arm.model}
    totals: dict[str, Any] = {
        "total_steps": len(steps),
        "total_prompt_tokens": None if "tokens" in record.unknown else record.input_tokens,
        "total_completion_tokens": None if "tokens" in record.unknown else record.output_tokens,
        "total_cached_tokens": None if "cached_tokens" in record.unknown else record.cached_tokens,
        "total_cost_usd": record.cost_usd,
    }
    return {
        "schema_version": VERSION,
        "session_id": record.name,
        "trajectory_id": record.name,
        "agent": agent | ({"extra": {"options": arm.options}} if arm.options else {}),
        "final_metrics": {name: value for name, value in totals.items() if value is not None},
    }


@dataclass(slots=True)
class _WrittenStep:
    """A step of an agent, and its calls that nothing has answered yet."""

    step: dict[str, Any]
    open: list[tuple[str, TracedCall]] = field(default_factory=list)

    def answered(self, result: Mapping[str, Any]) -> None:
        self.step.setdefault("observation", {"results": []})["results"].append(result)


def steps_of(events: Sequence[TraceEvent]) -> list[dict[str, Any]]:
    """Return the steps of a trajectory: what was said to the model, its replies, and what came of its calls.

    What ATIF has no place for is left out: roles, faults, the loop's own notes, and what a loop leaves out of a later prompt.
    """
    steps: list[dict[str, Any]] = []
    written: list[_WrittenStep] = []
    for event in events:
        if isinstance(event, ModelExchange):
            for message in event.messages:
                _add_answer(message, written)
            steps.extend(_step(message.role, message.content) for message in event.messages if message.role in ("system", "user"))
            written = [*[one for one in written if one.open][-MAX_WAITING:], _agent_step(event, len(steps) + 1)]
            steps.append(written[-1].step)
        elif isinstance(event, ToolRun) and (event.status != UNTOLD or event.data):
            if not written:
                written.append(_WrittenStep(_step("agent", "") | {"llm_call_count": 0}))
                steps.append(written[-1].step)
            _add_result(event, written)
    return [{"step_id": number, **step} for number, step in enumerate(steps, 1)]


def _step(source: str, message: str) -> dict[str, Any]:
    return {"source": source, "message": message}


def _agent_step(event: ModelExchange, number: int) -> _WrittenStep:
    written = _WrittenStep(_step("agent", event.reply or ""))
    calls = [(call.id, call.name, call.arguments) for call in event.native_calls]
    calls = calls or [("", call.tool, as_text(call.arguments)) for call in event.calls]
    listed: list[dict[str, Any]] = []
    for place, (call_id, name, raw) in enumerate(calls, 1):
        value = parsed(raw)
        is_unique = bool(call_id) and all(call_id != one["tool_call_id"] for one in listed)
        unique = call_id if is_unique else f"call_{number}_{place}"
        call = {"tool_call_id": unique, "function_name": name, "arguments": value if isinstance(value, dict) else {}}
        is_told = isinstance(value, dict) and as_text(value) == raw
        listed.append(call if is_told else call | {EXTRA: {RAW: raw}})
        written.open.append((unique, TracedCall(name, value)))
    if listed:
        written.step["tool_calls"] = listed
    if event.tokens is not None:
        written.step["metrics"] = {"prompt_tokens": event.tokens[0], "completion_tokens": event.tokens[1]}
    if event.error is not None:
        written.step[EXTRA] = {"error": {"kind": event.error.kind, "message": event.error.message}}
    return written


def _add_result(run: ToolRun, written: Sequence[_WrittenStep]) -> None:
    """Add what came of a run to the latest step with such a call; if there is none, to the last step, beside its calls."""
    opened = [(one, call) for one in reversed(written) for call in one.open if call[1].tool == run.call.tool]
    found = next((item for item in opened if item[1][1].key == run.call.key), opened[0] if opened else None)
    extra: dict[str, Any] = {} if run.status == UNTOLD else {"is_error": not run.ok}
    extra |= {} if run.error_type is None else {"error_type": run.error_type}
    if found is None:
        extra |= {"tool": run.call.tool, "arguments": run.call.arguments}
        named: dict[str, Any] = {}
    else:
        found[0].open.remove(found[1])
        named = {"source_call_id": found[1][0]}
    (written[-1] if found is None else found[0]).answered({**named, "content": run.data} | ({EXTRA: extra} if extra else {}))


def _add_answer(message: Message, written: Sequence[_WrittenStep]) -> None:
    """Add what a loop said in a tool's place: a message that answers a call which no tool has run."""
    found = next(((one, call) for one in reversed(written) for call in one.open if call[0] == message.call_id), None)
    if message.role == "tool" and found is not None:
        one, call = found
        one.open.remove(call)
        one.answered({"source_call_id": call[0], "content": message.content, EXTRA: {"is_error": True, NEVER_RAN: True}})
