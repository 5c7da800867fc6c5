"""What an ATIF document keeps of whichloop's own trials, below `extra.whichloop`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace, TraceEvent
from whichloop.runs.manifest import ArmEntry

from .atif import read_trajectory
from .conversation import events_of
from .own_trials import ImportedTask, OwnTrial, own_part, own_trial

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
