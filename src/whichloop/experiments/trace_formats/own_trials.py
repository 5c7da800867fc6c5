"""Trials of whichloop's own in a document of another format: what that format has no place for is kept beside it.

It holds the trial's record, its arm, and how its trace differs from what the rest of the document says. A document whose content
was changed after the export is read as anybody's: the difference would not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.experiments.import_runs.foreign_trials import ForeignArm, ForeignTrace, ForeignTrial, ImportedTasks
from whichloop.experiments.import_runs.values import count, mapping, name_of
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trace import Trace, TraceEvent, TraceHead, canonical
from whichloop.protocol.digest import digest, sha256, short_digest
from whichloop.protocol.json_text import Json
from whichloop.runs.manifest import ArmEntry, Manifest

from .atif import read_trajectory
from .conversation import events_of

IS, AT, DROP, MORE, LENGTH = "is", "at", "drop", "more", "length"
"""Keys of a difference: another value; by key or index, what differs inside; keys to drop; items to add; items to keep."""


def difference(old: object, new: object) -> dict[str, Any] | None:
    """Return what makes `new` of `old`; None if they are equal. 1, 1.0 and true differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        dropped = [key for key in old if key not in new]
        changed = {
            key: change
            for key, value in new.items()
            if (change := difference(old[key], value) if key in old else {IS: value}) is not None
        }
        patch: dict[str, Any] = {AT: changed} if changed else {}
        return (patch | {DROP: dropped} if dropped else patch) or None
    if isinstance(old, list) and isinstance(new, list):
        return _of_lists(old, new)
    return None if type(old) is type(new) and old == new else {IS: new}


def patched(old: Any, change: Any) -> Any:
    """Return `new` of `difference(old, new)`. Raises ValueError for a change that does not fit `old`."""
    if change is None:
        return old
    try:
        if IS in change:
            return change[IS]
        return _patched_list(old, change) if isinstance(old, list) else _patched_object(old, change)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        raise ValueError("the difference does not fit") from None


def _of_lists(old: Sequence[object], new: Sequence[object]) -> dict[str, Json] | None:
    common = min(len(old), len(new))
    pairs = zip(old[:common], new[:common], strict=True)
    changed = {str(place): change for place, (a, b) in enumerate(pairs) if (change := difference(a, b)) is not None}
    patch: dict[str, Any] = {AT: changed} if changed else {}
    if len(new) > common:
        patch[MORE] = list(new[common:])
    if len(old) > common:
        patch[LENGTH] = common
    return patch or None


def _patched_object(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Json]:
    kept_fields = {key: value for key, value in old.items() if key not in change.get(DROP, ())}
    return kept_fields | {key: patched(old.get(key), inner) for key, inner in change.get(AT, {}).items()}


def _patched_list(old: Sequence[Any], change: Mapping[str, Any]) -> list[Any]:
    items = list(old[: change.get(LENGTH, len(old))])
    for place, inner in change.get(AT, {}).items():
        items[int(place)] = patched(items[int(place)], inner)
    return [*items, *change.get(MORE, ())]


FORM = 1
"""Version of what is kept."""
CHANGED = "it was changed after whichloop wrote it, and is read as anybody's"
_SAME = ("status", "reason", "stop", "answer", "cost_usd", "confidence", "cluster", "attempt")
"""Fields that a trial has in common with its record."""


@dataclass(frozen=True, slots=True)
class ImportedTask:
    """What the import that a trial is exported from knows of its task, whatever format that was read from."""

    asked: str
    """Short digest of the task's question and right answer."""
    tasks: ImportedTasks

    @classmethod
    def of(cls, manifest: Manifest, task: str) -> ImportedTask | None:
        """Return what a run knows of a task; None for a run of whichloop's own, whose tasks are more than a trace tells."""
        digests = manifest.task_digests
        if manifest.imported is None or digests is None or task not in digests.tasks:
            return None
        return cls(digests.tasks[task], ImportedTasks(manifest.suite.digest, manifest.suite.tasks, digests.shared))

    @classmethod
    def from_json(cls, data: object) -> ImportedTask | None:
        """Return what `to_json` gave; None where an export says nothing of it. Raises ValueError."""
        if data is None:
            return None
        fields = mapping(data, "the task")
        texts = [name_of(fields.get(key), f"the task's {key}") for key in ("asked", "suite", "shared")]
        return cls(texts[0], ImportedTasks(texts[1], count(fields.get("tasks"), "the number of tasks") or 0, texts[2]))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"asked": self.asked, "suite": self.tasks.digest, "tasks": self.tasks.number, "shared": self.tasks.shared}


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
        if expected is not None:
            question_digest = digest([query, expected])
        elif query:
            question_digest = digest(query)
        else:
            question_digest = ""
        if self.task is None or self.task.asked == short_digest(question_digest):
            return question_digest
        return "" if self.task.asked == short_digest("") else self.task.asked

    @property
    def trial(self) -> ForeignTrial:
        """The trial as an importer takes it."""
        record, head = self.record, self.trace.head
        scores = dict(record.scores)
        return ForeignTrial(
            *record.key,
            **{name: getattr(record, name) for name in _SAME},
            score=scores.pop(PRIMARY, None),
            scores=scores,
            trace=ForeignTrace(self.trace.events, head.query, head.expected, head.end_state, head.details, head.untold),
            ours=record,
            imported_tasks=None if self.task is None else self.task.tasks,
        )


def own_part(
    content: object, events: Sequence[TraceEvent], trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None
) -> dict[str, Json]:
    """Return what is to be kept beside a document.

    `content`: what of the document the trace is read from. `events`: the events that are read from it.
    """
    return {
        "form": FORM,
        "content": _digest(content),
        "arm": {"loop": arm.loop, "options": arm.options, "model": arm.model, "profile": arm.profile},
        "record": {name: value for name, value in record.to_json().items() if name != "trace_at"},
        "trace": difference(Trace(TraceHead(), tuple(events)).to_json(), trace.to_json()),
        **({} if task is None else {"task": task.to_json()}),
    }


def own_trial(own: object, content: object, events: Sequence[TraceEvent]) -> OwnTrial | str | None:
    """Return the trial of which `own` is kept beside a document; None if nothing is, and a text if it does not fit.

    Raises ValueError if it fits and is damaged.
    """
    if own is None:
        return None
    if not isinstance(own, Mapping) or own.get("form") != FORM:
        return "what whichloop keeps beside it has a form that this version does not read: it is read as anybody's"
    if own.get("content") != _digest(content):
        return CHANGED
    try:
        trace = Trace.from_json(patched(Trace(TraceHead(), tuple(events)).to_json(), own.get("trace")))
        record = Record.from_json({**mapping(own.get("record"), "the record"), "trace_at": 0})
        task = ImportedTask.from_json(own.get("task"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"what whichloop keeps beside it: {' '.join(str(error).split())}") from None
    if (trace.head.arm, trace.head.task, trace.head.repeat) != record.key:
        raise ValueError("what whichloop keeps beside it: record and trace are of different trials")
    return OwnTrial(record, trace, _arm(record.arm, mapping(own.get("arm"), "the arm")), task)


def _arm(name: str, data: Mapping[str, object]) -> ForeignArm:
    texts = {key: name_of(data.get(key), f"the arm's {key}") for key in ("loop", "model", "profile")}
    return ForeignArm(name_of(name, "an arm"), options=dict(mapping(data.get("options"), "options")), **texts)


def _digest(content: object) -> str:
    return sha256(canonical(content))


EXTRA, OWN = "extra", "whichloop"


def with_own(
    document: Mapping[str, object], trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None
) -> dict[str, Any]:
    """Return the document with what it does not say of the trial."""
    extra = document.get(EXTRA)
    own = own_part(document.get("steps"), _events_told(document), trace, record, arm, task)
    return {**document, EXTRA: {**(extra if isinstance(extra, Mapping) else {}), OWN: own}}


def without_own(document: Mapping[str, object]) -> dict[str, Any]:
    """Return the document as it is without what `with_own` adds."""
    extra = document.get(EXTRA)
    if not isinstance(extra, Mapping) or OWN not in extra:
        return dict(document)
    rest = {name: value for name, value in extra.items() if name != OWN}
    bare = {name: value for name, value in document.items() if name != EXTRA}
    return bare | {EXTRA: rest} if rest else bare


def own_of(document: Mapping[str, object]) -> OwnTrial | str | None:
    """Return the trial that `with_own` put into a document, as `own_trial` does."""
    extra = document.get(EXTRA)
    own = extra.get(OWN) if isinstance(extra, Mapping) else None
    return None if own is None else own_trial(own, document.get("steps"), _events_told(document))


def _events_told(document: Mapping[str, object]) -> tuple[TraceEvent, ...]:
    return events_of(read_trajectory(document).items)
