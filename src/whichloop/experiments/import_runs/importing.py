"""Import files of other tools into one run directory: recognize the format, read, join, write."""

from __future__ import annotations

import secrets
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from whichloop.metrics.record import Record
from whichloop.protocol.modules import names_in, offered_by
from whichloop.protocol.values import counted
from whichloop.runs.folders import RUNS, new_folder
from whichloop.runs.manifest import write_manifest
from whichloop.runs.store.files import RunError, read_manifest_json
from whichloop.runs.store.traces import MAX_TEXT
from whichloop.runs.store.trials import BATCH, TrialFile
from whichloop.runs.trial.recorder import trace_line

from .column_hints import is_measured
from .columns import columns_of
from .foreign_file import ForeignFile, GivenRows, documents, open_file
from .foreign_trials import ForeignLog, Format, ReadingOptions, half_told_tokens, told_totals
from .joining import (
    ImportRequest,
    Joined,
    errors_as_failures,
    errors_may_be_failures,
    errors_not_as_failures,
    join,
    names_alike,
    nothing_in_common,
    rename_arms,
    scale_hardly_used,
    tasks_alike,
)
from .places import with_places
from .pooled import can_be_typed, numbers_repeats, row_cell_text
from .table_rows import FileRow, answers_cut, holds_lists, list_of_rows, rows_of
from .values import MAX_NAME_CHARS, SeveralScoresError, is_nothing, located, short_value

OTHER_TASKS = "another name of the tasks: --map task=…"
MIN_SHARED = 2
"""Fewest values in common of such a column."""
MIN_OVERLAP = 0.5
"""Least share of an arm's values that stand in another arm, too."""
MIN_VARIETY = 0.1
"""Fewest values of an arm, as a share of its rows: fewer name kinds of tasks, not tasks."""

_RowsOfArms = list[tuple[str, FileRow]]


def task_column_hint(paths: Sequence[Path | GivenRows], request: ImportRequest) -> str:
    """Return what names the tasks otherwise, for tables that were read and whose arms have no task in common."""
    names, rows = list[str](), _RowsOfArms()
    for number, path in enumerate(paths):
        free, rows_of_file = _table_of(path, request, number)
        names = free if not number else [name for name in names if name in free]
        rows += rows_of_file
    arms = Counter(arm for arm, _ in rows)
    shared = {name: _shared(name, rows, arms) for name in names}
    best = max(shared, key=lambda name: shared[name], default="")
    if not best or shared[best] < MIN_SHARED:
        return OTHER_TASKS
    typed = shlex.quote(f"task={best}")
    return f"column {short_value(best)} has {shared[best]} values that stand in several arms; if it names the tasks: --map {typed}"


def _table_of(path: Path | GivenRows, request: ImportRequest, number: int) -> tuple[list[str], _RowsOfArms]:
    """Return the columns of a table that may name its tasks, and its rows, each with its arm. `number`: the file's."""
    with open_file(path) as file:
        names, rows = with_places(*rows_of(file, request.reading), request.reading)
        columns = columns_of(names, request.reading)
        whole = request.arms[number] if request.arms else file.path.stem
    used = {column for meaning, column in columns.items() if meaning != "asked"}
    free = [
        name
        for name in names
        if can_be_typed(name) and name not in used and not numbers_repeats(name) and not is_measured(name, rows)
    ]
    by_row = columns.get("arm") if not request.arms else None
    return free, [(whole if by_row is None else row_cell_text(row, by_row), row) for row in rows]


def _shared(name: str, rows: _RowsOfArms, arms: Counter[str]) -> int:
    """Return how many values a column has in several arms; 0 if it names no tasks."""
    values: dict[str, dict[str, None]] = {arm: {} for arm in arms}
    for arm, value in ((arm, row_cell_text(row, name)) for arm, row in rows if not is_nothing(row.cells.get(name))):
        if len(value) > MAX_NAME_CHARS:
            return 0
        values[arm][value] = None
    if any(len(distinct) < MIN_VARIETY * arms[arm] or _counts_rows(list(distinct)) for arm, distinct in values.items()):
        return 0
    standing = Counter(value for distinct in values.values() for value in distinct)
    shared = {value for value, number in standing.items() if number > 1}
    is_in_all = all(len(distinct.keys() & shared) >= MIN_OVERLAP * len(distinct) for distinct in values.values())
    return len(shared) if is_in_all else 0


def _counts_rows(values: Sequence[str]) -> bool:
    """Tell whether values are the numbers of rows in turn, from 0 or 1 on, as an index that pandas writes."""
    return any(list(values) == [str(first + number) for number in range(len(values))] for first in (0, 1))


def check_replaceable(folder: Path, *, wanted: bool) -> None:
    """Raise ValueError unless the user wants to replace what is there, and it is an imported run.

    What whichloop ran itself cannot be made again from a file, and any other folder is none of ours.
    """
    if not wanted:
        raise ValueError(f"{folder}: exists already; take another --name, or replace the run that is there: --replace")
    if folder.is_symlink() or not folder.is_dir():
        raise ValueError(f"{folder}: not a run directory, so it is not replaced; take another --name")
    try:
        imported = read_manifest_json(folder).get("imported")
    except RunError as error:
        raise ValueError(f"{error}; it is not replaced; take another --name") from None
    if imported is None:
        raise ValueError(f"{folder}: not an imported run, so it is not replaced; take another --name")


def place_beside(folder: Path) -> Path:
    """Return a path in the same folder, whose name begins with a point: a run that is not whole yet."""
    return folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")


def take_place(run: Path, folder: Path) -> None:
    """Move a run to the place of another, and remove that; if the move fails, the other one stays. Raises OSError."""
    old = place_beside(folder)
    folder.rename(old)
    try:
        run.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


FORMATS_PACKAGE = f"{__package__}.formats"
TABLE = "csv"
"""The format of tables, whatever file they stand in."""
SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
"""Suffixes of workbooks, which may hold several sheets."""
MAX_REASONS = 20
"""Maximum number of reasons for left-out trials that the user is told."""


def known_formats() -> Mapping[str, Format]:
    """Return the formats of the files in `formats/` by name, in the order of the files."""
    formats: list[Format] = [
        offered_by(FORMATS_PACKAGE, name, "FORMAT", lambda offered: isinstance(offered, Format), "a Format")
        for name in names_in(FORMATS_PACKAGE)
    ]
    return {item.name: item for item in formats}


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run directory that `import_files` wrote."""

    folder: Path
    notes: tuple[str, ...]
    """Remarks for the user; not in the directory."""
    readings: tuple[str, ...] = ()
    """What was read as what, for the user to check."""
    trials: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason → number of trials that have no score for it, the most frequent first."""
    apart: str = ""
    """That no two arms have a task in common, which were to be compared, and which tasks they have; empty where some have."""
    cure: str = ""
    """What counts trials that are left out as failures, if that is what they are; empty where an error ended none."""

    @property
    def remarks(self) -> list[str]:
        """What the user is told besides the results: what was not read, and which trials have no score, by their reasons."""
        reasons = list(self.left_out.items())
        lines = [f"left out: {count:,} of {counted(self.trials, 'trial')}, {reason}" for reason, count in reasons[:MAX_REASONS]]
        if len(reasons) > MAX_REASONS:
            rest = sum(count for _, count in reasons[MAX_REASONS:])
            lines.append(f"left out: {rest:,} of {counted(self.trials, 'trial')}, {len(reasons) - MAX_REASONS} other reasons")
        return [*self.notes, *lines, *filter(None, [self.cure, self.apart])]

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
    replaced = _replaced_folder(folder, request)
    logs, joined = _read_and_joined(paths, request)
    written, untraced = _write_run(joined, folder, replaced, runs)
    return ImportedRun(
        folder or written,
        tuple(_notes(logs, joined, request, untraced)),
        tuple(_readings(logs, joined, request)),
        len(joined.records),
        _left_out(joined.records),
        _why_not_comparable(paths, logs, joined, request),
        "" if request.reading.errors_as_failures else errors_may_be_failures(joined),
    )


def _replaced_folder(folder: Path | None, request: ImportRequest) -> Path | None:
    """Return the existing run directory that the new one is to replace; None if it replaces none.

    Raises ValueError if there is one that must not be replaced, or a replacement is wanted of no run in particular.
    """
    if folder is None:
        if request.replace:
            raise ValueError("--replace: say which run, --name NAME")
        return None
    if not folder.exists() and not folder.is_symlink():
        return None
    check_replaceable(folder, wanted=request.replace)
    return folder


def _write_run(joined: Joined, folder: Path | None, replaced: Path | None, runs: Path) -> tuple[Path, int]:
    """Write a run directory, whole or not at all; return it, and the number of traces that are too long to be kept.

    `replaced`: a directory whose place the new one takes once it is whole.
    """
    if folder is None:
        written = new_folder(runs, joined.manifest.suite.name)
    else:
        written = folder if replaced is None else place_beside(folder)
    written.mkdir(parents=True, exist_ok=folder is None)
    try:
        untraced = _write_trials(written, joined)
        write_manifest(written, joined.manifest.model_copy(update={"rows": len(joined.records)}))
        if replaced is not None:
            take_place(written, replaced)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise
    return written, untraced


def _notes(logs: Sequence[ForeignLog], joined: Joined, request: ImportRequest, untraced: int) -> Iterator[str]:
    """Yield the remarks for the user: those on each file, those on all files together, and the traces that are not kept."""
    for log in logs:
        of_trials = () if log.format == TABLE else _notes_on_trials(log)
        yield from (f"{log.path}: {note}" for note in (*log.notes, *of_trials))
    yield from half_told_tokens(joined.records)
    yield from names_alike(joined)
    yield from filter(None, [tasks_alike(joined), scale_hardly_used(joined, request.reading.scale)])
    if request.reading.errors_as_failures:
        yield from filter(None, [errors_not_as_failures(joined)])
    if untraced:
        longer = f"longer than {MAX_TEXT >> 20} MB and"
        yield f"{counted(untraced, f'trace is {longer} was', f'traces are {longer} were')} not kept"


def _notes_on_trials(log: ForeignLog) -> Iterator[str]:
    """Yield the remarks on the trials of a log that is no table; a table's own notes name the lines of its rows."""
    yield from told_totals(log.trials)
    yield from answers_cut((f"task {trial.task}", trial.answer) for trial in log.trials)


def _readings(logs: Sequence[ForeignLog], joined: Joined, request: ImportRequest) -> Iterator[str]:
    """Yield what was read as what."""
    for log in logs:
        yield from (f"{log.path}: {reading}" for reading in log.readings)
    if request.reading.errors_as_failures:
        yield from filter(None, [errors_as_failures(logs, joined)])


def _left_out(records: Sequence[Record]) -> dict[str, int]:
    """Return reason → number of trials that have no score for it, the most frequent first."""
    reasons = Counter(f"{record.status}: {record.reason or 'no reason'}" for record in records if record.status != "scored")
    return dict(reasons.most_common())


def _why_not_comparable(
    paths: Sequence[Path | GivenRows], logs: Sequence[ForeignLog], joined: Joined, request: ImportRequest
) -> str:
    """Return that no two arms have a task in common, and what may help; empty where some have."""
    problem = nothing_in_common(joined)
    if not problem:
        return ""
    are_tables = all(log.format == TABLE for log in logs)
    return f"{problem}; {task_column_hint(paths, request) if are_tables else OTHER_TASKS}"


def _read_and_joined(paths: Sequence[Path | GivenRows], request: ImportRequest) -> tuple[list[ForeignLog], Joined]:
    """Return the files' logs and what they are together.

    Where the user has to say which score is the accuracy, what they have to say besides is told at once.
    """
    try:
        logs = rename_arms([read_file(path, request) for path in paths], request)
    except SeveralScoresError as error:
        with_choice = replace(request, reading=replace(request.reading, scorer=error.choice))
        try:
            _read_and_joined(paths, with_choice)
        except ValueError as second:
            raise ValueError(f"{error}; and then, with --scorer {shlex.quote(error.choice)}: {second}") from None
        raise
    return logs, join(logs, request)


def _write_trials(folder: Path, joined: Joined) -> int:
    """Write traces and records; return the number of traces that are too long to be kept."""
    untraced = 0
    pairs = zip(joined.records, joined.traces, strict=True)
    with closing(TrialFile(folder)) as file:
        while batch := list(islice(pairs, BATCH)):
            trials = []
            for record, trace in batch:
                line = b"" if trace is None else trace_line(trace.trace(record))
                untraced += len(line) > MAX_TEXT
                digested = record if trace is None or record.trace_digest else replace(record, trace_digest=trace.digest)
                trials.append((digested, line if len(line) <= MAX_TEXT else b""))
            file.add(trials)
    return untraced


def read_file(path: Path | GivenRows, request: ImportRequest) -> ForeignLog:
    """Read one file in the format of `request`, or else in the one that recognizes it; rows are a table.

    Raises ValueError and OSError.
    """
    with located(str(path)):
        try:
            with open_file(path) as file:
                selected = _format_of(file, TABLE if isinstance(path, GivenRows) else request.format, request.reading)
                if request.reading.columns and not selected.mapped:
                    raise ValueError(f"--map names columns of a table or places in a document; {selected.name} has neither")
                log = selected.read(file, replace(request.reading, is_one_arm=bool(request.arms)))
                return replace(log, path=file.path, format=selected.name, sha256=file.sha256)
        except RecursionError:
            raise ValueError("nested too deep") from None
        except MemoryError:
            raise ValueError("too large for this machine's memory") from None


def _format_of(file: ForeignFile, name: str | None, reading: ReadingOptions) -> Format:
    """Return the format of this name, or else the one that recognizes the file. Raises ValueError if there is none."""
    formats = known_formats()
    hint = f"say what it is: --format {'|'.join(formats)}"
    if name is not None:
        if name not in formats:
            raise ValueError(f"no format {name!r}; {hint}")
        return formats[name]
    if file.path.suffix.lower() in SPREADSHEETS:
        raise ValueError("a workbook of a spreadsheet; save its sheet as CSV UTF-8")
    match = next((item for item in formats.values() if item.recognizes(file)), None)
    if match is not None:
        return match
    if file.tree is not None:
        next(documents(file), None)  # a broken one is why no format recognizes them
        raise ValueError(f"no format recognizes the files in it; {hint}" if file.tree.names else "it holds no file")
    try:
        data = file.json_object
    except ValueError as error:
        raise ValueError(f"{error}; {hint}") from None
    if holds_lists(data):
        with located("no format recognizes it"):
            list_of_rows(data, reading)
        return formats[TABLE]
    raise ValueError(f"no format recognizes it; {hint}")
