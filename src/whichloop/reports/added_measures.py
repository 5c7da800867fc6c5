"""Measures that somebody added, as columns of the table of trials."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields

from whichloop.metrics.measures import Measure
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import RecordTable
from whichloop.metrics.summary import METRICS, measured_value

_FIELDS = frozenset(item.name for item in fields(Record))


def added_columns(records: Sequence[Record], others: Collection[str]) -> dict[str, list[float | None]]:
    """Return the values of each added measure, one for each record; None where the trial was not scored, or the value is not known.

    A measure with the name of one of the `others`, the table's own columns, or of a field of records is left out.
    """
    added = {name: measure for name, measure in METRICS.items() if measure.in_trials}
    return {name: _values(records, measure) for name, measure in added.items() if name not in others and name not in _FIELDS}


def _values(records: Sequence[Record], measure: Measure) -> list[float | None]:
    """Return the measure of each record; of a table it is read once for each kind of trials, unless their own fields decide it."""
    if isinstance(records, RecordTable):
        try:
            by_kind = {code: measured_value(kind, measure) for code, kind in records.each_kind()}
        except AttributeError:  # a field of the trial's own, or a mistake of the measure's: then it is raised again
            return [measured_value(record, measure) for record in records]
        return [by_kind[code] for code in records.codes.tolist()]
    return [measured_value(record, measure) for record in records]
