"""Tables with a column per agent in the place of a row per trial: how such a table becomes one that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .columns import COLUMNS
from .foreign_trials import ReadingOptions
from .statuses import is_verdict
from .table_rows import Row
from .units import words_of
from .values import is_nothing, is_number, names_in_a_line, score

_Kind = Literal["numbers", "words"]
MEASURES = frozenset(
    ["cost", "costs", "usd", "latency", "duration", "seconds", "ms", "time", "tokens", "steps", "calls", "confidence"]
)
"""Words of columns that hold another measure than a score."""
_FLAGS = frozenset({"is", "has", "had", "was", "use", "uses", "with", "needs"})
"""First words of columns that say what a task or trial is, and not how an agent did."""


def melt_hint(names: Sequence[str], rows: Sequence[Row], reading: ReadingOptions) -> str:
    """Return how to make a row per agent and task of a table with a column per agent; empty where it is no such table.

    Such columns, at least two, hold scores of one kind, all numbers or all words such as `pass` and `false`, that differ from task
    to task; a table with several columns of either kind is not told, since which of them are agents is not clear.
    """
    taken_names = {*reading.columns.values(), *(word for words in COLUMNS.values() for word in words)}
    free = [name for name in names if not {name, name.lower()} & taken_names and not _is_flag(name) and not _is_measured(name)]
    kinds = {name: kind for name in free if (kind := _kind_of_scores(name, rows, reading)) is not None}
    groups = [[name for name in kinds if kinds[name] == kind] for kind in ("numbers", "words")]
    several = [group for group in groups if len(group) > 1]
    if len(several) != 1 or not any(_differs(name, rows) for name in several[0]):
        return ""
    agents = several[0]
    others = [name for name in names if name not in agents]
    melt = f'frame.melt(id_vars={others!r}, var_name="agent", value_name="score")'
    return f"; if {names_in_a_line(agents)} are agents with a column each, make a row of each score: {melt}"


def _is_measured(name: str) -> bool:
    """Tell whether a column is called as a measure of a trial, such as `metrics.estimated_cost`."""
    return bool(MEASURES & set(words_of(name.replace(".", " "))))


def _is_flag(name: str) -> bool:
    return name.lower().replace("-", " ").replace("_", " ").split()[:1] in [[word] for word in _FLAGS]


def _kind_of_scores(name: str, rows: Sequence[Row], reading: ReadingOptions) -> _Kind | None:
    """Return how a column writes its scores; None if it is blank, or some cell is none, or of the other kind."""
    kinds = set[_Kind]()
    for row in rows:
        value = row.cells.get(name)
        if is_nothing(value):
            continue
        if not is_verdict(value):
            try:
                score(value, reading.scale)
            except ValueError:
                return None
        kinds.add("numbers" if is_number(value) else "words")
    return next(iter(kinds)) if len(kinds) == 1 else None


def _differs(name: str, rows: Sequence[Row]) -> bool:
    return len({str(row.cells.get(name)) for row in rows if not is_nothing(row.cells.get(name))}) > 1
