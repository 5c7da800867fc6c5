"""The suite of an imported run, made of its traces: what was asked, the right answer, and tools that give what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from whichloop.datasets.importing.own_tools import RECORDED, recorded_tools
from whichloop.datasets.task import Suite, Task
from whichloop.metrics.answers import Judgement
from whichloop.metrics.record import Record
from whichloop.metrics.scorers import scores_of
from whichloop.metrics.trace import ToolRun, Trace
from whichloop.protocol import Query, StopReason, render_value
from whichloop.protocol.json_text import Json
from whichloop.runs.manifest import Manifest
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import Traces


def imported_suite(folder: Path, manifest: Manifest, records: Iterable[Record]) -> Suite:
    """Return the suite of the tasks that were solved with a trace, a question and an answer. Raises RunError if there is none."""
    by_task: dict[str, list[Record]] = {}
    for record in records:
        if record.trace_at:
            by_task.setdefault(record.task, []).append(record)
    if not by_task:
        raise RunError(f"{folder}: imported from another tool's files, and they hold no traces to learn from")
    traces = Traces(folder)
    tasks = [task for name, task_records in by_task.items() if (task := _task(name, task_records, traces)) is not None]
    if not tasks:
        raise RunError(f"{folder}: no task was solved by a trial whose trace tells its question and its answer")
    return Suite(manifest.suite.name, manifest.suite.version, tuple(tasks), recorded_tools)


def _task(name: str, records: Sequence[Record], traces: Traces) -> Task | None:
    solved = sorted((record for record in records if record.status == "scored" and record.is_solved), key=size_of)
    read = [(record, traces.read(record)) for record in (*solved, *(other for other in records if other not in solved))]
    if not solved or not read[0][1].head.query:
        return None
    record, trace = read[0]
    task = Task(name, Query(trace.head.query), trace.head.expected, world={RECORDED: _calls(trace for _, trace in read)})
    judged = Judgement(task, render_value(record.answer), StopReason.FINISHED.value, None)
    if task.expected is None or scores_of(judged)["accuracy"] < 1:
        if record.answer is None:
            return None
        task = Task(name, task.query, record.answer, world=task.world)  # its own scorer took it for right
    return task


def size_of(record: Record) -> tuple[int, int, str, int]:
    """Order trials as plans are learned from them: those with the fewest calls first."""
    return record.tool_calls, record.steps, record.arm, record.repeat


def _calls(traces: Iterable[Trace]) -> list[Mapping[str, Json]]:
    """Return every call that ran, each once: those of the first trace come first.

    A call has its first result in the first trace that made it; one that failed and got through when it was made again, that one.
    """
    calls: dict[str, Mapping[str, Any]] = {}
    for trace in traces:
        own_calls: dict[str, Mapping[str, Any]] = {}
        for event in trace.events:
            if isinstance(event, ToolRun) and not event.never_ran and isinstance(event.call.arguments, dict):
                call = {"tool": event.call.tool, "arguments": event.call.arguments, "result": event.result, "failed": not event.ok}
                if own_calls.setdefault(event.call.key, call)["failed"] and event.ok:
                    own_calls[event.call.key] = call
        calls = own_calls | calls
    return list(calls.values())
