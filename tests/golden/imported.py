"""What is read of documents of other tools: golden values."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.trials import read_records, read_trace

FILES = Path(__file__).parents[1] / "experiments" / "import_runs" / "files"
IMPORTS: Mapping[str, dict[str, Any]] = json.loads((FILES / "options.json").read_text("utf-8"))
"""Case → a document of another tool, or a folder of them, and how it is read."""


def import_case(case: str) -> Any:
    """What is read of a document: its arms, notes, records and traces, without what is empty."""
    file, reading = FILES / IMPORTS[case]["file"], {name: value for name, value in IMPORTS[case].items() if name != "file"}
    with tempfile.TemporaryDirectory() as folder:
        made = import_files([file], ImportRequest(reading=ReadingOptions(**reading)), Path(folder) / "run")
        manifest, found = read_manifest(made.folder), read_records(made.folder)
        told: dict[str, Any] = {
            "suite": manifest.suite.name,
            "arms": [[arm.arm, arm.loop, dict(arm.options), arm.model] for arm in manifest.arms],
            "notes": [note.replace(f"{FILES}/", "") for note in made.notes],
            "left out": sorted(made.left_out.values()),
            "digest": manifest.suite.digest,
        }
        for record in found:
            events = read_trace(made.folder, record).to_json() if record.trace_at else {}
            values = {name: value for name, value in record.to_json().items() if name not in UNTOLD_FIELDS}
            told[record.name] = filled(values | {"trace": {key: value for key, value in events.items() if key not in values}})
        return told


UNTOLD_FIELDS = ("version", "suite", "suite_digest", "trace_at", "trace_digest", "arm", "task", "repeat")


def filled(value: Any) -> Any:
    """Plain JSON without what is empty or nothing."""
    if isinstance(value, dict):
        return {name: part for name, inner in value.items() if (part := filled(inner)) not in (None, "", [], {})}
    return list(map(filled, value)) if isinstance(value, list) else value


def imports() -> Iterator[tuple[str, Any]]:
    yield from ((case, import_case(case)) for case in IMPORTS)
