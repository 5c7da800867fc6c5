"""The records of a run directory one by one, and one by its name: without NumPy, which takes longer to import than this to run."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from zstandard import ZstdError

from whichloop.metrics.record import Record, Shared
from whichloop.protocol.digest import open_line
from whichloop.protocol.files import open_regular
from whichloop.protocol.json_text import load_json
from whichloop.protocol.names import meant, most_like, several
from whichloop.runs.store.files import TRIALS, RunError, sealed_lines
from whichloop.runs.store.index import blocks_of, row_of
from whichloop.runs.store.seal import run_lines


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
    """Return the record of `ARM/TASK/REPEAT`, or a part of that as `name_meant` takes it; of all other lines only names are read.

    In a file of more than `MAX_SCANNED` bytes a trial whose name is typed whole is found by the index, and only its own line is
    checked. Raises RunError if none or several match.
    """
    path = folder / TRIALS
    if (line := _indexed(folder, trial)) is not None:
        return record_of(line, f"{path}: trial {trial}")
    places = {_name(line, f"{path}:{number}"): number for number, line in enumerate(run_lines(folder), 1)}
    number = places[name_meant(places, trial, folder)]
    line = next(itertools.islice(run_lines(folder), number - 1, None))
    return record_of(line, f"{path}:{number}")


MAX_SCANNED = 1 << 26
"""Bytes of a file of records up to which all of it is checked before one trial is shown: half a second."""


def _indexed(folder: Path, trial: str) -> bytes | None:
    """Return the last line of a trial of a large run by the index, without its checksum; None where that does not help."""
    path = folder / TRIALS
    if not path.exists() or path.stat().st_size <= MAX_SCANNED:
        return None
    line_found = None
    with suppress(OSError, ValueError, IndexError, RunError, ZstdError, struct.error):
        *_, last = (None, *(block.header for block in blocks_of(folder)))
        place = None if last is None else row_of(folder, trial, lambda line: _name(line, str(path)))
        if last is None or last.end > path.stat().st_size:
            return None
        if place is not None:
            with open_regular(path) as file:
                file.seek(place[0])
                line_found = open_line(file.read(place[1]))
        for line in sealed_lines(path, last.end, last.lines):
            if _name(line, str(path)) == trial:
                line_found = line
    return line_found if line_found is not None and _name(line_found, str(path)) == trial else None


def name_meant(names: Collection[str], trial: str, folder: Path) -> str:
    """Return the name `ARM/TASK/REPEAT` that is typed whole or in part, see `meant`. Raises RunError if none or several match."""
    matching = meant(trial, names)
    if len(matching) == 1:
        return matching[0]
    if not matching:
        question, example = _nearest_trial(names, trial)
        raise RunError(f"{folder}: no trial {trial!r}; {question}a trial is ARM/TASK/REPEAT, such as {example}")
    arms = [name.removesuffix(f"/{trial}") for name in matching]
    if all(name == f"{arm}/{trial}" for arm, name in zip(arms, matching, strict=True)):
        raise RunError(f"{folder}: {trial!r} is in {len(arms)} arms, {several(arms)}; put one before it, such as {matching[0]}")
    whole = f"give more of one's ARM/TASK/REPEAT, such as {matching[0]}"
    raise RunError(f"{folder}: {trial!r} matches {len(matching)} trials: {several(matching)}; {whole}")


MAX_LIKENED = 2_000
"""Trials among which the one is looked for that is most like a mistyped name: some tenths of a second."""


def _nearest_trial(names: Collection[str], typed: str) -> tuple[str, str]:
    """Return a question after the arm, or the trial, that is most like a mistyped one, empty if none is, and a trial of that arm.

    Where an arm has more than `MAX_LIKENED` trials, only the arm is looked for.
    """
    first = next(iter(names), "(none)")
    arms = dict.fromkeys(_arm(name) for name in names)
    arm = next((arm for arm in arms if typed.startswith(f"{arm}/")), None) or most_like(typed, arms)
    arm = arm or most_like(_arm(typed), arms)
    if arm is None:
        return "", first
    own = [name for name in names if _arm(name) == arm]
    is_whole = typed.count("/") >= first.count("/") and len(own) <= MAX_LIKENED
    trial = most_like(f"{arm}{typed.removeprefix(_arm(typed))}", own) if is_whole else None
    return (f"did you mean {trial or arm!r}? ", trial or own[0])


def _arm(trial: str) -> str:
    return trial.rsplit("/", 2)[0]


def _name(line: bytes, where: str) -> str:
    """Return ARM/TASK/REPEAT of a line, read from its beginning if a journal wrote it."""
    head = _HEAD.match(line)
    if head is None:
        return record_of(line, where).name
    arm, task, repeat = head.groups()
    return f"{arm.decode()}/{task.decode()}/{int(repeat)}"


_TEXT = rb'"([ !#-\[\]-~]*)"'
"""A JSON string of ASCII without an escape."""
_HEAD = re.compile(
    rb'\{"arm": ?%b, ?"suite": ?"[^"\\]*", ?"suite_digest": ?"[^"\\]*", ?"task": ?%b, ?"repeat": ?(\d{1,9}),' % (_TEXT, _TEXT)
)
