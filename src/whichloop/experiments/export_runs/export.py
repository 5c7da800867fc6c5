"""Writes the kept trials of a run in another tool's format: a folder of files, or one file of lines."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichloop.experiments.trace_formats.atif import VERSION, steps_of
from whichloop.experiments.trace_formats.otlp_out import request_line, resource_spans
from whichloop.experiments.trace_formats.own_trials import ImportedTask, patched, with_own
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace
from whichloop.protocol.digest import digest
from whichloop.protocol.json_text import Json
from whichloop.runs.manifest import ArmEntry, read_manifest
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import Traces, read_records

ATIF = "atif"
UNVERSIONED = "unknown"
"""What stands for the version of an agent that has none: ATIF demands one."""


def atif_of(trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None = None) -> dict[str, Any]:
    """Return the document of a trial; of one that was read from ATIF, that document. Raises ValueError for damaged details.

    `task`: what the import that the trial is of knows of its task.
    """
    steps = steps_of(trace.events)
    details = trace.head.details
    if record.unknown and isinstance(details, dict) and ATIF in details:  # imported: no loop of ours can write that
        document = patched({"steps": steps}, details[ATIF])
    else:
        document = _document(steps, record, arm)
    return with_own(document, trace, record, arm, task)


def _document(steps: list[dict[str, Any]], record: Record, arm: ArmEntry) -> dict[str, Json]:
    if not steps:  # a document has at least one step
        steps = [{"step_id": 1, "source": "user", "message": ""}]
    agent: dict[str, Any] = {"name": arm.loop, "version": arm.version or UNVERSIONED, "model_name": arm.model}
    if arm.options:
        agent["extra"] = {"options": arm.options}
    totals: dict[str, Any] = {"total_steps": len(steps)}
    if "tokens" not in record.unknown:
        totals |= {"total_prompt_tokens": record.input_tokens, "total_completion_tokens": record.output_tokens}
    if "cached_tokens" not in record.unknown:
        totals["total_cached_tokens"] = record.cached_tokens
    if record.cost_usd is not None:
        totals["total_cost_usd"] = record.cost_usd
    return {
        "schema_version": VERSION,
        "session_id": record.name,
        "trajectory_id": record.name,
        "agent": agent,
        "steps": steps,
        "final_metrics": totals,
    }


KeptTrial = tuple[Trace, Record, ArmEntry, ImportedTask | None]
"""Trace, record and arm of a trial, and what an import knows of its task."""
MAX_NAME = 120
"""Characters of a file's name; a longer one ends in a digest."""
_OTHER_KINDS = (".csv", ".tsv", ".parquet", ".eval")
"""Endings by which `import` takes a file for a table, or for a log of Inspect, whatever it holds."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    out: Path
    trials: int
    untraced: int
    """Trials of which the run keeps no trace; they are left out."""

    @property
    def read_back(self) -> str:
        """The command that imports what was written; it names the format of a file that is called as one of another kind."""
        command = ["whichloop", "import", str(self.out)]
        is_misnamed = self.out.is_file() and self.out.suffix.lower() in _OTHER_KINDS
        return shlex.join([*command, "--format", "otlp"] if is_misnamed else command)


def export_run(folder: Path, name: str, out: Path) -> Exported:
    """Write the trials of a run to `out`, which must not exist. If anything fails, nothing is left.

    Raises RunError for a run that cannot be read or has no trace, ValueError for an unknown format or an existing `out`, OSError.
    """
    if name not in FORMATS:
        raise ValueError(f"--format {name}: there are {', '.join(FORMATS)}")
    if out.exists() or out.is_symlink():
        raise ValueError(f"--output {out}: exists already; take another name")
    records = read_records(folder)
    traced = traced_of(folder, records)
    try:
        FORMATS[name](kept_trials(folder, traced), out)
    except BaseException:
        if out.is_dir():
            shutil.rmtree(out, ignore_errors=True)
        else:
            out.unlink(missing_ok=True)
        raise
    return Exported(out, len(traced), len(records) - len(traced))


def traced_of(folder: Path, records: Sequence[Record]) -> list[Record]:
    """Return the records that have a trace. Raises RunError if none has."""
    traced = [record for record in records if record.trace_at]
    if not traced:
        raise RunError(f"{folder}: keeps no trace of any trial, so there is nothing to export")
    return traced


def kept_trials(folder: Path, records: Sequence[Record]) -> Iterator[KeptTrial]:
    """Yield each of these trials, which have a trace. Raises RunError."""
    manifest = read_manifest(folder)
    traces = Traces(folder)
    for record in records:
        arm = manifest.arm(record.arm)
        if arm is None:
            raise RunError(f"{folder}: the manifest has no arm {record.arm!r}")
        yield traces.read(record), record, arm, ImportedTask.of(manifest, record.task)


def _write_atif(trials: Iterator[KeptTrial], out: Path) -> None:
    """Write a folder with a file for each trial."""
    out.mkdir(parents=True)
    names: set[str] = set()
    for trace, record, arm, task in trials:
        text = json.dumps(atif_of(trace, record, arm, task), ensure_ascii=False, indent=1, allow_nan=False)
        (out / _file_name(record, names)).write_bytes(f"{text}\n".encode("utf-8", "surrogatepass"))


def _write_otlp(trials: Iterator[KeptTrial], out: Path) -> None:
    """Write a file with a line for each trial."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("xb") as file:
        file.writelines(request_line([resource_spans(*trial)]) for trial in trials)


FORMATS: Mapping[str, Callable[[Iterator[KeptTrial], Path], None]] = {"atif": _write_atif, "otlp": _write_otlp}
"""Name of a format → what writes it."""
SUFFIXES: Mapping[str, str] = {"atif": "", "otlp": ".jsonl"}
"""Name of a format → ending of what is written."""


def _file_name(record: Record, names: set[str]) -> str:
    """Return a name that any file system takes, and that no other trial has."""
    plain = _UNSAFE.sub("_", f"{record.arm}__{record.task}__{record.repeat}").lstrip(".")
    if len(plain) > MAX_NAME or plain.lower() in names:
        plain = f"{plain[: MAX_NAME - 17]}-{digest(list(record.key))[:16]}"
    names.add(plain.lower())
    return f"{plain}.json"
