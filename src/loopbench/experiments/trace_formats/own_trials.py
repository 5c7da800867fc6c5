"""Trials of loopbench's own in a document of another format: what that format has no place for stands below one key.

`extra.loopbench` holds the trial's record, its arm, and how its trace differs from what the rest of the document says. A document
whose steps were changed after the export is read as anybody's: the difference would not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopbench.experiments.import_runs.foreign_trials import ForeignArm
from loopbench.experiments.import_runs.values import mapping, name_of
from loopbench.metrics.record import Record
from loopbench.metrics.trace import Trace, TraceEvent, TraceHead, canonical
from loopbench.protocol.digest import sha256
from loopbench.runs.manifest import ArmEntry

from .atif import read_trajectory
from .conversation import events_of
from .differences import difference, patched

EXTRA, OWN = "extra", "loopbench"
FORM = 1
"""Version of what stands below the key."""


@dataclass(frozen=True, slots=True)
class OwnTrial:
    """A trial that loopbench ran and exported."""

    record: Record
    trace: Trace
    arm: ForeignArm


def with_own(document: Mapping[str, Any], trace: Trace, record: Record, arm: ArmEntry) -> dict[str, Any]:
    """Return the document with what it does not say of the trial."""
    told = Trace(TraceHead(), _told(document)).to_json()
    own = {
        "form": FORM,
        "steps": _digest(document),
        "arm": {"loop": arm.loop, "options": arm.options, "model": arm.model, "profile": arm.profile},
        "record": {name: value for name, value in record.to_json().items() if name != "trace_at"},
        "trace": difference(told, trace.to_json()),
    }
    extra = document.get(EXTRA)
    return {**document, EXTRA: {**(extra if isinstance(extra, Mapping) else {}), OWN: own}}


def without_own(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document as it is without what `with_own` adds."""
    extra = document.get(EXTRA)
    if not isinstance(extra, Mapping) or OWN not in extra:
        return dict(document)
    rest = {name: value for name, value in extra.items() if name != OWN}
    bare = {name: value for name, value in document.items() if name != EXTRA}
    return bare | {EXTRA: rest} if rest else bare


def own_trial(document: Mapping[str, Any]) -> OwnTrial | str | None:
    """Return the trial that `with_own` put into a document; None if there is none, and a text if it does not fit the document."""
    extra = document.get(EXTRA)
    own = extra.get(OWN) if isinstance(extra, Mapping) else None
    if own is None:
        return None
    if not isinstance(own, Mapping) or own.get("form") != FORM:
        return "what loopbench wrote beside the steps has a form that this version does not read: it is read as any trajectory"
    if own.get("steps") != _digest(document):
        return "the steps were changed after loopbench wrote them: it is read as any trajectory"
    told = Trace(TraceHead(), _told(document)).to_json()
    try:
        trace = Trace.from_json(patched(told, own.get("trace")))
        record = Record.from_json({**mapping(own.get("record"), "the record"), "trace_at": None})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"extra.loopbench: {' '.join(str(error).split())}") from None
    if (trace.head.arm, trace.head.task, trace.head.repeat) != record.key:
        raise ValueError("extra.loopbench: record and trace are of different trials")
    return OwnTrial(record, trace, _arm(record.arm, mapping(own.get("arm"), "the arm")))


def _arm(name: str, data: Mapping[str, Any]) -> ForeignArm:
    texts = {key: name_of(data.get(key), f"extra.loopbench.arm.{key}") for key in ("loop", "model", "profile")}
    return ForeignArm(name_of(name, "an arm"), options=dict(mapping(data.get("options"), "options")), **texts)


def _told(document: Mapping[str, Any]) -> tuple[TraceEvent, ...]:
    return events_of(read_trajectory(document).items)


def _digest(document: Mapping[str, Any]) -> str:
    steps: Sequence[Any] = document.get("steps") or ()
    return sha256(canonical(steps))
