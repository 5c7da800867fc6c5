"""Write an arm's trials as a Parquet table: as metrics or traces they would take too long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from whichloop.metrics.record import Record
from whichloop.protocol import render_value
from whichloop.protocol.digest import canonical_json

from .store import MAX_PARAM, clean

_ROWS = 10_000
"""Rows that are written at a time."""

_COLUMNS = pa.schema(
    {
        "task": pa.string(), "repeat": pa.int64(), "seed": pa.int64(), "attempt": pa.int64(), "status": pa.string(),
        "reason": pa.string(), "stop": pa.string(), "accuracy": pa.float64(), "steps": pa.int64(), "lm_calls": pa.int64(),
        "tool_calls": pa.int64(), "repeated_calls": pa.int64(), "input_tokens": pa.int64(), "output_tokens": pa.int64(),
        "tokens": pa.int64(), "cost_usd": pa.float64(), "nominal_usd": pa.float64(), "seconds": pa.float64(),
        "retries": pa.string(), "errors": pa.string(), "faults": pa.string(),
        "faults_landed": pa.int64(), "faults_absorbed": pa.int64(), "faults_recovered": pa.int64(), "false_success": pa.bool_(),
        "abstained": pa.bool_(), "confidence": pa.float64(), "cluster": pa.string(), "answer": pa.string(),
    }
)  # fmt: skip


def write_trials(records: Sequence[Record], path: Path) -> None:
    """Write all trials as a Parquet file, in the table's order, some at a time to save memory."""
    ordered = sorted(records, key=lambda record: record.key)
    with pq.ParquetWriter(path, _COLUMNS) as file:
        for start in range(0, len(ordered), _ROWS):
            file.write_table(_table(ordered[start : start + _ROWS]))


def trials_table(records: Sequence[Record]) -> pa.Table:
    """Return a row per trial, sorted by task and repeat; mappings are JSON, the answer is text, accuracy is null if not scored.

    What an imported record does not tell is null.
    """
    return _table(sorted(records, key=lambda record: record.key))


def _table(records: Sequence[Record]) -> pa.Table:
    return pa.table([pa.array(_cells(field.name, records), field.type) for field in _COLUMNS], _COLUMNS)


def _cells(name: str, records: Sequence[Record]) -> list[Any]:
    cell_of = _MADE.get(name)
    if cell_of is not None:
        return [cell_of(record) for record in records]
    return [None if record.unknown and name in record.unknown else getattr(record, name) for record in records]


def _json_of(name: str) -> Callable[[Record], str]:
    """Return a function that gives a mapping of a record as JSON; most are empty."""
    return lambda record: canonical_json(mapping) if (mapping := getattr(record, name)) else "{}"


def _faults(record: Record) -> str:
    return canonical_json([fault.to_json() for fault in record.faults]) if record.faults else "[]"


def _answer(record: Record) -> str | None:
    return None if record.answer is None else render_value(record.answer)


_MADE: Mapping[str, Callable[[Record], Any]] = {
    "reason": lambda record: clean(record.reason, MAX_PARAM) if record.reason else "",
    "accuracy": lambda record: record.accuracy if record.status == "scored" else None,
    "retries": _json_of("retries"),
    "errors": _json_of("errors"),
    "faults": _faults,
    "faults_landed": lambda record: sum(fault.landed for fault in record.faults),
    "faults_absorbed": lambda record: sum(fault.landed and fault.absorbed for fault in record.faults),
    "faults_recovered": lambda record: sum(fault.landed and fault.recovered and not fault.absorbed for fault in record.faults),
    "answer": _answer,
}
"""Columns that are not a field of a record, or have another form."""
