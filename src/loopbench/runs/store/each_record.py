"""The records of a run directory one by one, and one by its name: without NumPy, which takes longer to import than this to run."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from loopbench.metrics.record import Record, Shared
from loopbench.protocol.file_json import load_json
from loopbench.protocol.names import meant, several
from loopbench.runs.store.files import TRIALS, RunError
from loopbench.runs.store.seal import run_lines


def each_record(folder: Path) -> Iterator[Record]:
    """Yield every record as it was written, also those that a later one of the same trial replaces. Raises as `read_records`."""
    path = folder / TRIALS
    shared = Shared()
    for number, line in enumerate(run_lines(folder), 1):
        yield record_of(line, f"{path}:{number}", shared)


def record_of(line: bytes, where: str, shared: Shared | None = None) -> Record:
    """Read one line of `trials.jsonl`, without its checksum. RunError, which names `where`, is raised if it is not a record."""
    try:
        data = load_json(line, finite=True)
        record = Record.from_json(data if shared is None else shared.of(data))
        hash(record.key)  # TypeError where a name is a list
        return record
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise RunError(f"{where}: not a record of a trial: {type(error).__name__}: {error}") from None


def find_trial(folder: Path, trial: str) -> Record:
    """Return the record of `ARM/TASK/REPEAT`, or a part of that as `one_of` takes it; of all other lines only names are read.

    Raises RunError if none or several match.
    """
    path = folder / TRIALS
    places = {_name(line, f"{path}:{number}"): number for number, line in enumerate(run_lines(folder), 1)}
    number = places[one_of(places, trial, folder)]
    line = next(itertools.islice(run_lines(folder), number - 1, None))
    return record_of(line, f"{path}:{number}")


def one_of(names: Collection[str], trial: str, folder: Path) -> str:
    """Return the name `ARM/TASK/REPEAT` that is typed whole or in part, see `meant`. Raises RunError if none or several match."""
    matching = meant(trial, names)
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise RunError(f"{folder}: no trial {trial!r}; a trial is ARM/TASK/REPEAT, such as {next(iter(names), '(none)')}")
    raise RunError(f"{folder}: {trial!r} matches {len(matching)} trials: {several(matching)}")


def _name(line: bytes, where: str) -> str:
    """Return ARM/TASK/REPEAT of a line, read from its beginning if a journal wrote it."""
    found = _HEAD.match(line)
    if found is None:
        return record_of(line, where).name
    arm, task, repeat = found.groups()
    return f"{arm.decode()}/{task.decode()}/{int(repeat)}"


_TEXT = rb'"([ !#-\[\]-~]*)"'
"""A JSON string of ASCII without an escape."""
_HEAD = re.compile(
    rb'\{"arm": ?%b, ?"suite": ?"[^"\\]*", ?"suite_digest": ?"[^"\\]*", ?"task": ?%b, ?"repeat": ?(\d{1,9}),' % (_TEXT, _TEXT)
)
