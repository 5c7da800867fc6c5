"""Trials of whichloop's own in a document of another format: what that format has no place for is kept beside it.

It holds the trial's record, its arm and its trace. A document whose content was changed after the export is read as anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class OwnTrial:
    """A trial that whichloop exported."""

    record: Record
    trace: Trace
    arm: ForeignArm
    task: ImportedTask | None
    """What its import knew of the task; None if whichloop ran the trial."""

    @property
    def question(self) -> str:
        """Digest of the question and the right answer; of the question alone where no answer is known, as in others' documents.

        Where the trial's import took something else as the question, or knew none, it is the same as there.
        """
        query, expected = self.trace.head.query, self.trace.head.expected
        asked = digest([query, expected]) if expected is not None else digest(query) if query else ""
        if self.task is None or self.task.asked == short_digest(asked):
            return asked
        return "" if self.task.asked == short_digest("") else self.task.asked

    def add_to(self, log: ForeignLog) -> None:
        """Add the trial as an importer takes it."""
        record, head, scores = self.record, self.trace.head, dict(self.record.scores)
        trial = ForeignTrial(
            *record.key,
            **{name: getattr(record, name) for name in SAME_IN_RECORD},
            score=scores.pop(PRIMARY, None),
            scores=scores,
            trace=ForeignTrace(self.trace.events, head.query, head.expected, head.end_state, head.details, head.untold),
            ours=record,
            imported=self.task,
        )
        log.add(self.arm, trial, self.question, record.suite)


def own_part(content: object, trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None) -> dict[str, Json]:
    """Return what is to be kept beside a document. `content`: what of the document other tools read."""
    return {
        "form": FORM,
        "content": sha256(canonical(content)),
        "arm": {"loop": arm.loop, "options": arm.options, "model": arm.model, "profile": arm.profile},
        "record": {name: value for name, value in record.to_json().items() if name != "trace_at"},
        "trace": trace.to_json(),
        **({} if task is None else {"task": task._asdict()}),
    }


def own_trial(own: Any, content: object) -> OwnTrial | str:
    """Return the trial that is kept beside a document; a text if it does not fit."""
    if not isinstance(own, Mapping) or own.get("form") != FORM or own.get("content") != sha256(canonical(content)):
        return CHANGED
    try:
        trace = Trace.from_json(own.get("trace"))
        record = Record.from_json({**mapping(own.get("record"), "the record"), "trace_at": 0})
        kept = mapping(own.get("task"), "the task")
        names = {name: name_of(kept.get(name), f"the task's {name}") for name in ("asked", "suite", "shared")} if kept else {}
        task = ImportedTask(tasks=count(kept.get("tasks"), "the number of tasks") or 0, **names) if kept else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"what whichloop keeps beside it: {' '.join(str(error).split())}") from None
    if (trace.head.arm, trace.head.task, trace.head.repeat) != record.key:
        raise ValueError("what whichloop keeps beside it: record and trace are of different trials")
    data = mapping(own.get("arm"), "the arm")
    loop, model, profile = (name_of(data.get(key), f"the arm's {key}") for key in ("loop", "model", "profile"))
    return OwnTrial(
        record, trace, ForeignArm(name_of(record.arm, "an arm"), loop, object_at(data, "options"), model, profile), task
    )
