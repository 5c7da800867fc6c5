"""Values that the user says where to find: `--map score=extra.reward` names a place in a JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from whichloop.protocol.json_text import Json
from whichloop.protocol.names import near

from .foreign_trials import ForeignTrial, ReadingOptions
from .pooled import pooled_by
from .table_rows import FileRow
from .values import MAX_NAME_CHARS, is_nothing, names_in_a_line, short_value

MAX_PLACES = 8
"""Most places that a message names."""


def value_at(data: Any, place: str) -> Any:
    """Return what stands at a place such as `extra.rewards.0`: keys, and indices of lists, with points between; None if absent.

    A key of the whole that has points itself comes first.
    """
    if isinstance(data, Mapping) and place in data:
        return data[place]
    for key in place.split("."):
        if isinstance(data, Mapping):
            data = data.get(key)
        elif isinstance(data, Sequence) and not isinstance(data, str) and key.isdecimal() and int(key) < len(data):
            data = data[int(key)]
        else:
            return None
    return data


def with_places(names: Sequence[str], rows: Sequence[FileRow], reading: ReadingOptions) -> tuple[list[str], list[FileRow]]:
    """Return the columns and rows of a table with a column for each place inside of cells that the user named: `meta.agent`.

    Raises ValueError where a column holds objects, and nothing stands at the place in any.
    """
    named_columns = {"score": reading.scorer, "cluster": reading.cluster, **reading.columns}
    wanted = {place: meaning for meaning, place in named_columns.items() if place and "." in place and place not in names}
    places = []
    for place, meaning in wanted.items():
        holding = next((row.cells for row in rows if isinstance(row.cells.get(place.split(".")[0]), Mapping | list)), None)
        if holding is None:
            continue
        if all(value_at(row.cells, place) is None for row in rows):
            raise ValueError(nothing_at(holding, meaning, place))
        places.append(place)
    inside = [FileRow(row.place, {**row.cells, **{place: value_at(row.cells, place) for place in places}}) for row in rows]
    return [*names, *places], inside


def with_filled_places(names: Sequence[str], rows: Sequence[FileRow], places: Iterable[str]) -> tuple[list[str], list[FileRow]]:
    """Return the columns and rows of a table with a column for each of these places inside of objects that has something."""
    there = [place for place in places if place not in names and any(not is_nothing(_inside(row, place)) for row in rows)]
    if not there:
        return list(names), list(rows)
    inside = [FileRow(row.place, {**row.cells, **{place: _inside(row, place) for place in there}}) for row in rows]
    return [*names, *there], inside


def _inside(row: FileRow, place: str) -> Any:
    return value_at(row.cells, place) if isinstance(row.cells.get(place.partition(".")[0]), Mapping) else None


def _instead(data: Any, place: str) -> str:
    """Return which places there are where nothing stands at one: the most similar one, or else the first ones beside it."""
    before, point, _ = place.rpartition(".")
    beside = value_at(data, before) if before else data
    if not isinstance(beside, Mapping):
        before, point, beside = "", "", data
    if not isinstance(beside, Mapping) or not beside:
        return ""
    places = [f"{before}{point}{key}" for key in beside]
    nearest_place = near(place, places)
    return (
        f"; {nearest_place}"
        if nearest_place
        else f"; there are {names_in_a_line(places[:MAX_PLACES])}{', …' if len(places) > MAX_PLACES else ''}"
    )


def check_meanings(reading: ReadingOptions, meanings: Sequence[str]) -> None:
    """Raise ValueError for a meaning of --map that this format has no use for."""
    for meaning in reading.columns:
        if meaning not in meanings:
            raise ValueError(f"--map {meaning}: this format takes {names_in_a_line(meanings)}")


def mapped(data: Any, meaning: str, reading: ReadingOptions) -> Any:
    """Return what stands at the place that the user named for a meaning; None if none was named.

    Raises ValueError if nothing stands there.
    """
    place = reading.columns.get(meaning)
    if not place:
        return None
    value = value_at(data, place)
    if value is None:
        raise ValueError(nothing_at(data, meaning, place))
    return value


def nothing_at(data: Any, meaning: str, place: str) -> str:
    """Return what to tell where nothing stands at the place of a meaning: which places there are."""
    return f"--map {meaning}: nothing stands at {short_value(place)}{_instead(data, place)}"


MAX_FIELDS = 100
"""Most fields of a trace that are looked at."""
MAX_DEPTH = 4
"""Most keys of a field's place."""
MAX_NAMED_ARMS = 3
"""Arms that a message names."""
_ARM, _TASK = " arm", " task"
"""Columns of what a trace was read as, which no place is called."""
_CONTENT = frozenset({"inputs", "outputs", "input", "output", "error", "events", "steps", "feedback_stats", "final_metrics"})
"""First keys of what was said, scored or counted, which names no arm."""


@dataclass(slots=True)
class TraceFields:
    """The fields of the traces read so far."""

    reading: ReadingOptions
    _rows: list[FileRow] = field(default_factory=list)
    _arms: dict[str, None] = field(default_factory=dict)

    def add(self, trial: ForeignTrial, values: Mapping[str, object]) -> None:
        """Add what stands beside a trace's steps. `values`: the places that `--map` names are in it."""
        if self.reading.is_one_arm or "arm" in self.reading.columns:
            return
        mapped_places = set(self.reading.columns.values())
        fields = {place: value for place, value in fields_of(values).items() if place not in mapped_places}
        self._rows.append(FileRow(trial.task, fields | {_ARM: trial.arm, _TASK: trial.task}))
        self._arms[trial.arm] = None

    def notes(self) -> Iterator[str]:
        """Yield which field tells trials apart that count as those of one arm, and how its values become arms."""
        names = list(dict.fromkeys(name for row in self._rows for name in row.cells))
        pooled = pooled_by(names, self._rows, {"arm": _ARM, "task": _TASK})
        if pooled is not None:
            arms = list(self._arms)
            named = f"as one arm, {arms[0]}" if len(arms) == 1 else f"within each arm ({names_in_a_line(arms, MAX_NAMED_ARMS)})"
            yield pooled.note(named, kind="field")


def fields_of(values: Mapping[str, object]) -> dict[str, Json]:
    """Return the first short texts, numbers and truth values beside a trace's steps, each by the place that `--map` names."""
    return dict(islice(_leaves(values), MAX_FIELDS))


def _leaves(values: Mapping[str, object], before: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield place and value of each short text, number or truth value that `value_at` finds by its place."""
    for key, value in values.items():
        place = f"{before}{key}"
        if depth == 1 and str(key).split(".")[0] in _CONTENT:
            continue
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            inside = _leaves(value, f"{place}.", depth + 1)
            yield from ((name, leaf) for name, leaf in inside if before or value_at(values, name) is leaf)
        elif isinstance(value, bool | int | float) or (isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS):
            yield place, value
