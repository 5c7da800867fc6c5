"""What columns mean, and the options with which a user says so.

A column is found by its name (`NAMES`, the first one there) or named by an option, in any case. What a cell means:

- `answer`: text as it is, in a CSV file a number or a JSON list or object as that value. A task without one can only be scored by
  a scorer of the user's own.
- `scorer`: for this row; else the option `scorer`; else by the answer: `schema` where the row has a schema, `numeric` for numbers
  (whole ones exactly), `exact` for lists and objects (as JSON), `normalized` for text.
- `tools`: names of the only tools that the task has, with commas between them or as a JSON list; all if left out.
- `schema`, `plan`, `world`, `end_state`: JSON, as `Task.as_dict` writes it.

A row of JSON lines with an object in `query` is a whole task, as `Task.as_dict` writes it: a learned suite is one.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict

from whichloop.protocol.names import CLOSE, near, nearest

NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "prompt", "input", "query"),
    "answer": ("answer", "expected", "gold", "target", "output"),
    **{name: (name,) for name in ("id", "context", "schema", "tools", "scorer", "split", "plan", "end_state", "world")},
}
"""What a column may mean, and the names by which it is found, the first one there."""


class RowOptions(TypedDict, total=False):
    """The options that every importer of rows takes; None is the same as leaving one out."""

    question: str | None
    """name of the column with the question; left out, it is found by its name"""
    answer: str | None
    """name of the column with the answer; left out, it is found by its name"""
    columns: Mapping[str, str] | None
    """names of the others, by what they mean; an empty name: there is none, whatever the columns are called"""
    scorer: str | None
    """of rows that name none"""
    labels: str | Sequence[str] | None
    """columns that become labels, as a list or with commas between them"""
    limit: int | None
    """only the first so many rows"""


class Columns:
    """What the user says of the columns, and what holds for all rows."""

    def __init__(self, options: RowOptions) -> None:
        """Raises ValueError for an unknown meaning of a column."""
        self._named = dict(options.get("columns") or {})
        if unknown := [meaning for meaning in self._named if meaning not in NAMES]:
            raise ValueError(f"columns: no column is meant as {unknown[0]!r}; {nearest(unknown[0], NAMES)}")
        own = {"question": options.get("question"), "answer": options.get("answer")}
        self._named |= {meaning: name for meaning, name in own.items() if name is not None}
        self.scorer = options.get("scorer") or ""
        """The scorer of rows that name none."""
        labels = options.get("labels") or ()
        self.labels = tuple(between_commas(labels) if isinstance(labels, str) else filter(None, labels))
        """Columns that become labels."""

    def named(self, meaning: str) -> str | None:
        """Return the column that the user named for a meaning: None if none was named, empty if no column is to have it."""
        return self._named.get(meaning)


def between_commas(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def column_named(name: str, columns: Collection[str]) -> str | None:
    """Find the column that the user means: by its exact name, else the only one that differs from it in case."""
    if name in columns:
        return name
    alike = [column for column in columns if column.strip().casefold() == name.strip().casefold()]
    return alike[0] if len(alike) == 1 else None


def no_column(name: str, columns: Sequence[str]) -> str:
    return f"no column {name!r}; {' '.join(filter(None, (near(name, columns), its_columns(columns))))}"


def its_columns(columns: Sequence[str]) -> str:
    return f"its columns: {quoted(columns)}"


def not_used(columns: Mapping[str, Collection[str]]) -> str:
    """Return which columns nothing is read from, with the names that may be meant.

    `columns`: a column → the meanings that its row has no column for.
    """
    notes = {}
    for column, meanings in columns.items():
        names = [name for meaning in meanings for name in NAMES[meaning]]
        for meant in difflib.get_close_matches(column.strip().casefold(), names, 1, CLOSE):
            notes[column] = f" (did you mean {meant!r}?)"
    return f"columns not used: {quoted([*columns], notes)}"


def quoted(columns: Sequence[str], notes: Mapping[str, str] = {}) -> str:
    """Return names in quotes, the first 30. `notes`: name → what stands behind it."""
    names = [f"{(name if len(name) <= 40 else f'{name[:40]}…')!r}{notes.get(name, '')}" for name in columns[:30]]
    return (", ".join(names) or "none") + (", …" if len(columns) > 30 else "")
