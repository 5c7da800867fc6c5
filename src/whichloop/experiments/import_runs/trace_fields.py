"""Fields of traces that are likely to name arms where the user named none: `--map arm=extra.metadata.variant`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from whichloop.protocol.json_text import Json

from .foreign_trials import ForeignTrial, ReadingOptions
from .places import value_at
from .pooled import pooled_by
from .table_rows import Row
from .values import MAX_NAME_CHARS, names_in_a_line

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
    _rows: list[Row] = field(default_factory=list)
    _arms: dict[str, None] = field(default_factory=dict)

    def add(self, trial: ForeignTrial, values: Mapping[str, object]) -> None:
        """Add what stands beside a trace's steps. `values`: the places that `--map` names are in it."""
        if self.reading.is_one_arm or "arm" in self.reading.columns:
            return
        mapped_places = set(self.reading.columns.values())
        fields = {place: value for place, value in fields_of(values).items() if place not in mapped_places}
        self._rows.append(Row(trial.task, fields | {_ARM: trial.arm, _TASK: trial.task}))
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
