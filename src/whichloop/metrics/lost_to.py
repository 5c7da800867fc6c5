"""What an arm lost, by the kind of fault that it was lost to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .record import Record
from .record_table import alike

NO_FAULT = ""
"""Stands for what was lost in trials without any fault that the loop noticed."""


def lost_to(scored: Sequence[Record]) -> Mapping[str, float]:
    """Return kind of fault → accuracy lost to it, as a mean over scored trials; all kinds together make 1 minus the mean accuracy.

    What a trial lost is put down to its faults that landed, that the codec did not absorb and that the loop never got past; where
    it got past all of them, to all that landed. Of several each has an equal part.
    """
    losses: dict[str, float] = {}
    for record in alike(scored):
        if not record.is_solved:
            felt = [fault for fault in record.faults if fault.landed and not fault.absorbed]
            lasting = [fault for fault in felt if not fault.recovered]
            kinds = [fault.kind for fault in lasting or felt] or [NO_FAULT]
            for kind in kinds:
                losses[kind] = losses.get(kind, 0.0) + (1 - record.accuracy) / len(kinds)
    return {kind: total / len(scored) for kind, total in sorted(losses.items())}
