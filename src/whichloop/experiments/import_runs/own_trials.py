"""Trials of whichloop's own in a document of another format: what that format has no place for is kept beside it.

It holds the trial's record, its arm and its trace. A document whose content was changed after the export is read as anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trace import Trace
from whichloop.protocol.json_text import Json, digest, sha256, short_digest
from whichloop.protocol.values import canonical
from whichloop.runs.manifest import ArmEntry, Manifest

from .foreign_trials import SAME_IN_RECORD, ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, ImportedTask
from .values import count, mapping, name_of, object_at

FORM = 2
"""Version of what is kept."""
CHANGED = "it was changed after whichloop wrote it, and is read as anybody's"


def imported_task(manifest: Manifest, task: str) -> ImportedTask | None:
    """Return what a run knows of a task; None for a run of whichloop's own, whose tasks are more than a trace tells."""
    digests = manifest.task_digests
    if manifest.imported is None or digests is None or task not in digests.tasks:
        return None
    return ImportedTask(digests.tasks[task], manifest.suite.digest, manifest.suite.tasks, digests.shared)


def own_part(content: object, trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None = None) -> dict[str, Json]:
    """Return what is to be kept beside a document. `content`: what of the document other tools read."""
    return {
        "form": FORM,
        "content": sha256(canonical(content)),
        "arm": {"loop": arm.loop, "options": arm.options, "model": arm.model, "profile": arm.profile},
        "record": {name: value for name, value in record.to_json().items() if name != "trace_at"},
        "trace": trace.to_json(),
        **({} if task is None else {"task": task._asdict()}),
    }


def add_own_trial(log: ForeignLog, own: Any, content: object, where: str) -> bool:
    """Add the trial that is kept beside a document, if it fits the document, and return whether it does; else note that."""
    if not isinstance(own, Mapping) or own.get("form") != FORM or own.get("content") != sha256(canonical(content)):
        log.notes.append(f"{where}: {CHANGED}")
        return False
    try:
        trace = Trace.from_json(own.get("trace"))
        record = Record.from_json({**mapping(own.get("record"), "the record"), "trace_at": 0})
        kept = mapping(own.get("task"), "the task")
        names = {name: name_of(kept.get(name), f"the task's {name}") for name in ("asked", "suite", "shared")} if kept else {}
        task = ImportedTask(tasks=count(kept.get("tasks"), "the number of tasks") or 0, **names) if kept else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"what whichloop keeps beside it: {' '.join(str(error).split())}") from None
    head = trace.head
    if (head.arm, head.task, head.repeat) != record.key:
        raise ValueError("what whichloop keeps beside it: record and trace are of different trials")
    data, scores = mapping(own.get("arm"), "the arm"), dict(record.scores)
    loop, model, profile = (name_of(data.get(key), f"the arm's {key}") for key in ("loop", "model", "profile"))
    trial = ForeignTrial(
        *record.key,
        **{name: getattr(record, name) for name in SAME_IN_RECORD},
        score=scores.pop(PRIMARY, None),
        scores=scores,
        trace=ForeignTrace(trace.events, head.query, head.expected, head.end_state, head.details, head.untold),
        ours=record,
        imported=task,
    )
    # Of the question alone where no answer is known, as in others' documents.
    asked = digest([head.query, head.expected]) if head.expected is not None else digest(head.query) if head.query else ""
    if task is not None:  # its import may have taken something else as the question, or known none
        asked = "" if task.asked == short_digest("") else task.asked
    elif record.unknown:  # it was imported, and prompts of one task may differ: the first counts
        asked = log.questions.get(record.task) or asked
    log.add(ForeignArm(name_of(record.arm, "an arm"), loop, object_at(data, "options"), model, profile), trial, asked, record.suite)
    return True
