"""Trials of whichloop's own in a document of another format: what that format has no place for is kept beside it.

It holds the trial's record, its arm and its trace. A document whose content was changed after the export is read as anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trace import Trace
from whichloop.protocol.json_text import Json, digest, sha256
from whichloop.protocol.values import canonical
from whichloop.runs.manifest import ArmEntry

from .foreign_trials import SAME_IN_RECORD, ForeignArm, ForeignLog, ForeignTrace, ForeignTrial
from .values import mapping, name_of, object_at

FORM = 2
"""Version of what is kept."""
CHANGED = "it was changed after whichloop wrote it, and is read as anybody's"


def own_part(content: object, trace: Trace, record: Record, arm: ArmEntry) -> dict[str, Json]:
    """Return what is to be kept beside a document. `content`: what of the document other tools read."""
    return {
        "form": FORM,
        "content": sha256(canonical(content)),
        "arm": {"loop": arm.loop, "options": arm.options, "model": arm.model, "profile": arm.profile},
        "record": {name: value for name, value in record.to_json().items() if name != "trace_at"},
        "trace": trace.to_json(),
    }


def add_own_trial(log: ForeignLog, own: Any, content: object, where: str) -> bool:
    """Add the trial that is kept beside a document, if it fits the document, and return whether it does; else note that."""
    if not isinstance(own, Mapping) or own.get("form") != FORM or own.get("content") != sha256(canonical(content)):
        log.notes.append(f"{where}: {CHANGED}")
        return False
    try:
        trace = Trace.from_json(own.get("trace"))
        record = Record.from_json({**mapping(own.get("record"), "the record"), "trace_at": 0})
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
    )
    # Of the question alone where no answer is known, as in others' documents.
    asked = digest([head.query, head.expected]) if head.expected is not None else digest(head.query) if head.query else ""
    if record.unknown:  # it was imported, and prompts of one task may differ: the first counts
        asked = log.questions.get(record.task) or asked
    log.add(ForeignArm(name_of(record.arm, "an arm"), loop, object_at(data, "options"), model, profile), trial, asked, record.suite)
    return True
