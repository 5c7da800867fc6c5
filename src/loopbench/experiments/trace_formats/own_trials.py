"""Trials of loopbench's own in a document of another format: what that format has no place for is kept beside it.

It holds the trial's record, its arm, and how its trace differs from what the rest of the document says. A document whose content
was changed after the export is read as anybody's: the difference would not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopbench.experiments.import_runs.foreign_trials import ForeignArm, ForeignTrace, ForeignTrial
from loopbench.experiments.import_runs.values import mapping, name_of
from loopbench.metrics.record import Record
from loopbench.metrics.summary import PRIMARY
from loopbench.metrics.trace import Trace, TraceEvent, TraceHead, canonical
from loopbench.protocol.digest import digest, sha256
from loopbench.runs.manifest import ArmEntry

from .differences import difference, patched

FORM = 1
"""Version of what is kept."""
CHANGED = "it was changed after loopbench wrote it, and is read as anybody's"
_SAME = ("status", "reason", "stop", "answer", "cost_usd", "confidence", "cluster", "attempt")
"""Fields that a trial has in common with its record."""


@dataclass(frozen=True, slots=True)
class OwnTrial:
    """A trial that loopbench ran and exported."""

    record: Record
    trace: Trace
    arm: ForeignArm

    @property
    def question(self) -> str:
        """Digest of the question and the right answer; of the question alone where no answer is known, as in others' documents."""
        query, expected = self.trace.head.query, self.trace.head.expected
        return digest([query, expected]) if expected is not None else digest(query) if query else ""

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
        )


def own_part(content: Any, told: Sequence[TraceEvent], trace: Trace, record: Record, arm: ArmEntry) -> dict[str, Any]:
    """Return what is to be kept beside a document.

    `content`: what of the document the trace is read from. `told`: the events that are read from it.
    """
    return {
        "form": FORM,
        "content": _digest(content),
        "arm": {"loop": arm.loop, "options": arm.options, "model": arm.model, "profile": arm.profile},
        "record": {name: value for name, value in record.to_json().items() if name != "trace_at"},
        "trace": difference(Trace(TraceHead(), tuple(told)).to_json(), trace.to_json()),
    }


def own_trial(own: Any, content: Any, told: Sequence[TraceEvent]) -> OwnTrial | str | None:
    """Return the trial of which `own` is kept beside a document; None if nothing is, and a text if it does not fit.

    Raises ValueError if it fits and is damaged.
    """
    if own is None:
        return None
    if not isinstance(own, Mapping) or own.get("form") != FORM:
        return "what loopbench keeps beside it has a form that this version does not read: it is read as anybody's"
    if own.get("content") != _digest(content):
        return CHANGED
    try:
        trace = Trace.from_json(patched(Trace(TraceHead(), tuple(told)).to_json(), own.get("trace")))
        record = Record.from_json({**mapping(own.get("record"), "the record"), "trace_at": None})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"what loopbench keeps beside it: {' '.join(str(error).split())}") from None
    if (trace.head.arm, trace.head.task, trace.head.repeat) != record.key:
        raise ValueError("what loopbench keeps beside it: record and trace are of different trials")
    return OwnTrial(record, trace, _arm(record.arm, mapping(own.get("arm"), "the arm")))


def _arm(name: str, data: Mapping[str, Any]) -> ForeignArm:
    texts = {key: name_of(data.get(key), f"the arm's {key}") for key in ("loop", "model", "profile")}
    return ForeignArm(name_of(name, "an arm"), options=dict(mapping(data.get("options"), "options")), **texts)


def _digest(content: Any) -> str:
    return sha256(canonical(content))
