"""An arm's trials as a table, for Parquet: all of them would take too long as metrics or traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from loopbench.metrics.record import Record
from loopbench.protocol import render_value
from loopbench.protocol.digest import canonical_json

from .store import MOST_PARAM, clean

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


def trials_table(records: Sequence[Record]) -> pa.Table:
    """One row per trial, sorted by task and repeat; mappings as JSON, the answer as text, accuracy only where scored.

    What an imported record does not tell is null.
    """
    return pa.Table.from_pylist([_row(record) for record in sorted(records, key=lambda r: r.key)], _COLUMNS)


def _row(record: Record) -> dict[str, Any]:
    row = {name: None if name in record.unknown else getattr(record, name, None) for name in _COLUMNS.names}
    landed = [fault for fault in record.faults if fault.landed]
    return row | {
        "reason": clean(record.reason, MOST_PARAM),
        "accuracy": record.accuracy if record.status == "scored" else None,
        "retries": canonical_json(record.retries),
        "errors": canonical_json(record.errors),
        "faults": canonical_json([asdict(fault) for fault in record.faults]),
        "faults_landed": len(landed),
        "faults_absorbed": sum(fault.absorbed for fault in landed),
        "faults_recovered": sum(fault.recovered and not fault.absorbed for fault in landed),
        "answer": None if record.answer is None else render_value(record.answer),
    }
