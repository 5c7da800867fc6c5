"""Import files of other tools into one run directory: recognize the format, read, join, write."""

from __future__ import annotations

import secrets
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice
from pathlib import Path

from whichloop.metrics.record import Record
from whichloop.protocol import StopReason
from whichloop.protocol.modules import names_in
from whichloop.protocol.values import counted
from whichloop.runs.folders import RUNS, new_folder
from whichloop.runs.manifest import Manifest, write_manifest
from whichloop.runs.store.files import MAX_TEXT, RunError, read_manifest_json
from whichloop.runs.store.trials import BATCH, TrialFile
from whichloop.runs.trial.recorder import trace_line

from .foreign_file import ForeignFile, GivenRows, documents, open_file
from .foreign_trials import ForeignLog, ForeignTrace, Format
from .joining import ImportRequest, join, nothing_in_common, rename_arms
from .values import located

FORMATS_PACKAGE = f"{__package__}.formats"
TABLE = "csv"
"""The format of tables, whatever file they stand in: what no other format is may be one."""
MAX_REASONS = 20
"""Reasons that are told, of as many as there are."""


def known_formats() -> Mapping[str, Format]:
    """Return the formats of the files in `formats/` by name, in the order of the files, tables last."""
    formats: list[Format] = [import_module(f"{FORMATS_PACKAGE}.{name}").FORMAT for name in names_in(FORMATS_PACKAGE)]
    return {item.name: item for item in sorted(formats, key=lambda item: item.name == TABLE)}


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run directory that `import_files` wrote."""

    folder: Path
    notes: tuple[str, ...]
    """Remarks for the user; not in the directory."""
    readings: tuple[str, ...] = ()
    """What was read as what, for the user to check, but for the columns of tables."""
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """File → column of its table → what it is read as; empty: it is not read."""
    trials: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason → number of trials that have no score for it, the most frequent first."""
    crashed: int = 0
    """Trials that are left out because an error ended them."""
    apart: str = ""
    """That no two arms have a task in common, which were to be compared, and which tasks they have; empty where some have."""

    @property
    def remarks(self) -> list[str]:
        """What the user is told besides the results: what was not read, and which trials have no score, by their reasons."""
        of = counted(self.trials, "trial")
        lines = [f"left out: {count:,} of {of}, {reason}" for reason, count in islice(self.left_out.items(), MAX_REASONS)]
        if self.crashed:
            lines.append(f"ended by an error: {self.crashed:,} of {of}; --errors-as-failures scores them 0")
        return [*self.notes, *lines, *([f"{self.apart}; another name of the tasks: --map task=…"] if self.apart else [])]

    @property
    def share_left_out(self) -> float:
        return sum(self.left_out.values()) / max(self.trials, 1)


def run_place(name: str | Path | None, runs: Path = RUNS) -> Path | None:
    """Return the directory of a run that was given a name below `runs`, or a path; None if it was given none."""
    path = None if name is None else Path(name)
    return path if path is None or len(path.parts) > 1 else runs / path


def import_files(
    paths: Sequence[Path | GivenRows], request: ImportRequest, folder: Path | None = None, runs: Path = RUNS
) -> ImportedRun:
    """Write a run directory, `folder` or a new one below `runs`; if anything is wrong, leave none behind, and an older one whole.

    Raises ValueError with a one-line message that names the file and the place in it or an existing `folder`, and OSError.
    """
    if folder is None and request.replace:
        raise ValueError("--replace: say which run, --name NAME")
    is_there = folder is not None and (folder.exists() or folder.is_symlink())
    if folder is not None and is_there:
        _check_replaceable(folder, wanted=request.replace)
    logs = [read_file(path, request) for path in paths]
    rename_arms(logs, request)
    manifest, trials = join(logs, request)
    written, untraced = _write_run(manifest, trials, folder, runs, replaces=is_there)
    notes = [f"{log.path}: {note}" for log in logs for note in log.notes]
    if untraced:
        notes.append(f"traces longer than {MAX_TEXT >> 20} MB, not kept: {untraced:,}")
    records = [record for record, _ in trials]
    unscored = [record for record in records if record.status != "scored"]
    crashed = [one for one in unscored if one.status == "errored" and one.stop == StopReason.CRASHED]
    return ImportedRun(
        written,
        tuple(notes),
        tuple(f"{log.path}: {reading}" for log in logs for reading in log.readings),
        {str(log.path): log.columns for log in logs if log.columns},
        len(records),
        dict(Counter(f"{record.status}: {record.reason or 'no reason'}" for record in unscored).most_common()),
        0 if request.reading.errors_as_failures else len(crashed),
        nothing_in_common(manifest, records),
    )


def _check_replaceable(folder: Path, *, wanted: bool) -> None:
    """Raise ValueError unless the user wants to replace what is there, and it is an imported run, which can be made again."""
    if not wanted:
        raise ValueError(f"{folder}: exists already; take another --name, or replace the run that is there: --replace")
    try:
        is_import = not folder.is_symlink() and read_manifest_json(folder).get("imported") is not None
    except (RunError, OSError):
        is_import = False
    if not is_import:
        raise ValueError(f"{folder}: not an imported run, so it is not replaced; take another --name")


def _write_run(
    manifest: Manifest, trials: Sequence[tuple[Record, ForeignTrace | None]], folder: Path | None, runs: Path, *, replaces: bool
) -> tuple[Path, int]:
    """Write a run directory, whole or not at all; return it, and the number of traces that are too long to be kept.

    `replaces`: the folder is there, and the new one takes its place once it is whole.
    """
    place = new_folder(runs, manifest.suite.name) if folder is None else folder
    written = place.with_name(f".{place.name}-{secrets.token_hex(4)}") if replaces else place
    written.mkdir(parents=True, exist_ok=folder is None)
    try:
        untraced, left = 0, iter(trials)
        with closing(TrialFile(written)) as file:
            while batch := list(islice(left, BATCH)):
                lines = []
                for record, trace in batch:
                    line = b"" if trace is None else trace_line(trace.trace(record))
                    untraced += len(line) > MAX_TEXT
                    digested = record if trace is None or record.trace_digest else replace(record, trace_digest=trace.digest)
                    lines.append((digested, line if len(line) <= MAX_TEXT else b""))
                file.add(lines)
        write_manifest(written, manifest)
        if replaces:
            old = place.rename(written.with_name(f"{written.name}-old"))
            written.rename(place)
            shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise
    return place, untraced


def read_file(path: Path | GivenRows, request: ImportRequest) -> ForeignLog:
    """Read one file in the format of `request`, or else in the one that recognizes it; rows are a table.

    Raises ValueError and OSError.
    """
    with located(str(path)):
        try:
            with open_file(path) as file:
                selected = _format_of(file, TABLE if isinstance(path, GivenRows) else request.format)
                log = selected.read(file, request.reading)
                log.path, log.format, log.sha256, log.by = file.path, selected.name, file.sha256, log.by or selected.name
                return log
        except RecursionError:
            raise ValueError("nested too deep") from None
        except MemoryError:
            raise ValueError("too large for this machine's memory") from None


def _format_of(file: ForeignFile, name: str | None) -> Format:
    formats = known_formats()
    hint = f"say what it is: --format {'|'.join(formats)}"
    if name is not None:
        if name not in formats:
            raise ValueError(f"no format {name!r}; {hint}")
        return formats[name]
    match = next((item for item in formats.values() if item.recognizes(file)), None)
    if match is None:
        next(documents(file), None)  # a broken one is why no format recognizes it
        raise ValueError(f"no format recognizes {'it' if file.tree is None else 'the files in it'}; {hint}")
    return match
