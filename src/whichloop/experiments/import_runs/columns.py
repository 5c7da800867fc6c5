"""Tables of trials, whatever file they stand in: CSV, TSV, JSON lines, one JSON value, or Parquet.

What a column means is said by its name or by the user. Nothing is guessed from what its cells hold.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.datasets.csv import csv_table
from whichloop.datasets.parquet import parquet_table
from whichloop.protocol.values import counted, shown_short

from .foreign_file import JSON_LINES, PARQUET, ForeignFile, documents
from .foreign_trials import ReadingOptions
from .values import names_in_a_line

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "arm": ("arm", "agent", "loop", "variant", "system"),
    "task": ("task", "task_id", "example_id", "instance_id", "id"),
    "repeat": ("repeat", "epoch", "trial", "run", "repetition_number"),
    "score": ("score", "success", "correct", "passed", "resolved"),
    "steps": ("steps", "turns", "num_steps", "num_turns"),
    "lm_calls": ("lm_calls", "llm_calls", "model_calls"),
    "tool_calls": ("tool_calls", "num_tool_calls"),
    "tokens": ("tokens", "total_tokens", "usage.total_tokens"),
    "input_tokens": ("input_tokens", "prompt_tokens", "usage.input_tokens", "usage.prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens", "usage.output_tokens", "usage.completion_tokens"),
    "cost_usd": ("cost_usd", "cost", "price", "total_cost"),
    "seconds": ("seconds", "duration", "latency", "elapsed", "execution_time"),
    "confidence": ("confidence",),
    "status": ("status",),
    "stop": ("stop", "stop_reason"),
    "error": ("error", "error_message", "exception"),
    "cluster": ("cluster", "template"),
    "model": ("model", "model_name"),
    "answer": ("answer", "output", "prediction", "response"),
    "question": ("question", "input", "prompt"),
    "suite": ("suite", "dataset", "benchmark"),
    "messages": ("messages",),
}
"""Meaning of a column → the names that a column of it may have, the preferred first; in any case, with any marks between words."""
UNITS: Mapping[str, Mapping[str, float]] = {
    "seconds": {
        **dict.fromkeys(("s", "sec", "secs", "seconds"), 1.0),
        **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), 1e-3),
        **dict.fromkeys(("us", "µs", "microseconds"), 1e-6),
        **dict.fromkeys(("ns", "nanoseconds"), 1e-9),
        **dict.fromkeys(("min", "mins", "minutes"), 60.0),
        **dict.fromkeys(("h", "hours"), 3600.0),
    },
    "cost_usd": {"usd": 1.0, "$": 1.0, "dollars": 1.0, "cents": 1e-2, "¢": 1e-2},
    **dict.fromkeys(("score", "confidence"), dict.fromkeys(("%", "pct", "percent"), 1e-2)),
}
"""Meaning → the units that may end a column's name, and how many of the field's unit one is."""
NEEDED = ("task", "score")
MAX_LOOKED_AT = 100
MAX_LEVELS = 8
_CAMEL = re.compile(r"(?<=[a-zµ0-9])(?=[A-Z])")
_WORDS = re.compile(r"[^\W_]+(?:\.[^\W_]+)*|[$¢%]")


def words_of(name: str) -> list[str]:
    """Return the words of a column's name in small letters: `latencyMs` and `Latency (ms)` are `latency`, `ms`."""
    return _WORDS.findall(_CAMEL.sub(" ", name).lower()) or [name.lower()]


def factor_of(meaning: str, column: str) -> float:
    """Return how many of the field's unit one of the unit is that ends the column's name; 1 if the name says none."""
    return UNITS.get(meaning, {}).get(words_of(column)[-1], 1.0)


def columns_named(meaning: str, names: Iterable[str]) -> list[str]:
    """Return the columns whose names are one of a meaning, the preferred first; a unit may end them."""
    ranks: dict[str, int] = {}
    for name in names:
        words = words_of(name)
        bare = words[:-1] if words[-1] in UNITS.get(meaning, {}) else words
        for word in ("_".join(words), "_".join(bare)):
            if word in COLUMNS[meaning]:
                ranks.setdefault(name, COLUMNS[meaning].index(word))
    return sorted(ranks, key=lambda name: ranks[name])


def parse_map(texts: Iterable[str]) -> dict[str, str]:
    """Read `task=COLUMN,arm=COLUMN`, quoted like a line of CSV where a name holds a comma."""
    columns: dict[str, str] = {}
    for part in (part for cells in csv.reader(texts) for part in cells):
        meaning, equals, column = (text.strip() for text in part.partition("="))
        if not equals or meaning in columns:
            raise ValueError(f"--map {shown_short(part)}: write MEANING=COLUMN, each meaning once")
        columns[meaning] = column
    return check_map(columns)


def check_map(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return meaning → column. Raises ValueError for a meaning that there is not, and a column that is no text."""
    for meaning, column in columns.items():
        if meaning not in COLUMNS:
            raise ValueError(f"--map {shown_short(meaning)}: no such meaning; the meanings are {', '.join(COLUMNS)}")
        if not isinstance(column, str):
            raise ValueError(f"--map {meaning}: give the name of a column; got {shown_short(column)}")
    return dict(columns)


def named_by_user(reading: ReadingOptions) -> dict[str, str]:
    """Return the columns that the user named, by meaning; an empty name: no column has it."""
    if reading.scorer is not None and "score" in reading.columns:
        raise ValueError("--scorer and --map score=… both name a column; give one of them")
    return {**reading.columns, **({} if reading.scorer is None else {"score": reading.scorer})}


def columns_of(names: Sequence[str], reading: ReadingOptions) -> dict[str, str]:
    """Return the name of the column for each meaning."""
    names = [name for name in names if name]
    if not names:
        raise ValueError("the table is empty")
    mapped = named_by_user(reading)
    for meaning, column in mapped.items():
        option = f"--map {meaning}" if meaning in reading.columns else "--scorer"
        if column and column not in names:
            raise ValueError(f"{option}: no column {shown_short(column)}; there are {names_in_a_line(names)}")
        if column and list(mapped.values()).count(column) > 1:
            raise ValueError(f"{option}: column {shown_short(column)} is mapped twice")
    free = [name for name in names if name not in mapped.values()]
    scores = columns_named("score", free)
    if "score" not in mapped and len(scores) > 1:
        raise ValueError(f"columns {names_in_a_line(scores)}; say which is the accuracy: --scorer {scores[0]}")
    found = {meaning: called[0] for meaning in COLUMNS if (called := columns_named(meaning, free))}
    columns = {meaning: name for meaning, name in (found | mapped).items() if name}
    if missing := [meaning for meaning in NEEDED if meaning not in columns]:
        said = "; ".join(f"no column of the {meaning} ({', '.join(COLUMNS[meaning])})" for meaning in missing)
        typed = ",".join(f"{meaning}=COLUMN" for meaning in missing)
        raise ValueError(f"{said}; there are {names_in_a_line(names)}; say which: --map {typed}")
    return columns


# --- rows ---


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row."""

    place: str
    """Where it stands: `line 3`, its first line in a file of lines, or `row 3`."""
    cells: Mapping[str, Any]
    """Cells by column name, later by the meaning of the column."""


def rows_of(file: ForeignFile, reading: ReadingOptions) -> tuple[Sequence[str], list[FileRow]]:
    """Return the names of the columns and the rows. Raises ValueError that names the place of what is wrong.

    `reading`: which of several lists of a JSON object holds the trials may depend on the columns that the user named.
    """
    if file.suffix == ".json":
        return _objects((f"row {number}", cells) for number, cells in enumerate(list_of_rows(file.json_value, reading)[1], 1))
    if file.suffix in JSON_LINES:
        return _objects(documents(file))
    try:
        table = parquet_table(file.path) if file.suffix == PARQUET else csv_table(file.path)
        rows = [FileRow(f"{table.unit} {number}", json.loads(as_json(cells))) for number, cells in table.rows(None)]
    except ValueError as error:
        raise ValueError(str(error).removeprefix(str(file.path)).lstrip(":, ")) from None  # whoever reads a file names it
    return table.columns or (), rows


def as_json(rows: Any) -> str:
    """Return a row, or a list of them, as JSON: numbers and lists of another type as JSON has them, all else as text."""
    return json.dumps(rows, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))


def _objects(objects: Iterable[tuple[str, Any]]) -> tuple[Sequence[str], list[FileRow]]:
    """Return the names of all fields and the rows. `objects`: place and content of each."""
    rows = [FileRow(place, cells) for place, cells in objects]
    for row in rows:
        if not isinstance(row.cells, dict):
            raise ValueError(f"{row.place}: not a JSON object")
    return list(dict.fromkeys(name for row in rows for name in row.cells)), rows


# --- the list in a JSON value ---


def list_of_rows(data: Any, reading: ReadingOptions) -> tuple[str, Sequence[Any]]:
    """Return the place and the rows of the one list in a file's JSON value that holds trials."""
    if isinstance(data, list):
        return "", data
    lists = lists_in(data)
    named = names_in_a_line([f"{place} ({counted(len(rows), 'row')})" for place, rows in lists.items()], 3)
    if reading.rows is not None:
        if reading.rows not in lists:
            raise ValueError(f"--rows: no list of rows stands at {shown_short(reading.rows)}; there are {named or 'none'}")
        return reading.rows, lists[reading.rows]
    fitting = {place: rows for place, rows in lists.items() if _holds_trials(rows, reading)}
    if len(fitting) == 1:
        return fitting.popitem()
    if fitting:
        raise ValueError(f"several lists in it hold trials: {named}; say which is meant: --rows {next(iter(fitting))}")
    if lists:
        raise ValueError(f"no list in it has a task and a score by its names, of {named}: --map task=FIELD,score=FIELD")
    raise ValueError("not a JSON array of rows")


def _holds_trials(rows: Sequence[Any], reading: ReadingOptions) -> bool:
    """Tell whether rows have a field for the task and one for the score, by their names or as the user named them."""
    names = list(dict.fromkeys(name for row in rows[:MAX_LOOKED_AT] for name in row))
    named = named_by_user(reading)
    wanted = [named.get(meaning) or next(iter(columns_named(meaning, names)), "") for meaning in NEEDED]
    return all(name in names or name.partition(".")[0] in names for name in wanted)


def lists_in(data: Any) -> dict[str, Sequence[Any]]:
    """Return the lists of objects in an object, below objects alone, by place."""
    waiting: list[tuple[str, Any]] = [*data.items()] if isinstance(data, Mapping) else []
    lists: dict[str, Sequence[Any]] = {}
    while waiting:
        place, value = waiting.pop(0)
        if isinstance(value, Mapping) and place.count(".") < MAX_LEVELS - 1:
            waiting[:0] = [(f"{place}.{key}", item) for key, item in value.items()]
        elif isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            lists[place] = value
    return lists
