"""What to type so that more of a table is read: for columns whose names hint at a meaning, and whose cells can have it."""

from __future__ import annotations

import re
import shlex
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from whichloop.metrics.statistics import ALPHA, too_few_units
from whichloop.text.numbers import listed_names

from .columns import COLUMNS, CURRENCIES, IN_NAMES, KEPT_AS, columns_of, unit_in, words_of
from .foreign_trials import ReadingOptions
from .places import value_at, with_places
from .pooled import PooledBy, can_be_typed, pooled_by, row_cell_text
from .table_rows import FileRow, is_verdict
from .values import MAX_NAME_CHARS, count, is_nothing, is_number, names_in_a_line, number_from_zero, score, short_value
from .written_numbers import WHOLE, NumberColumn, read_numbers

_Kind = Literal["numbers", "words"]
MEASURES = frozenset(
    ["cost", "costs", "usd", "latency", "duration", "seconds", "ms", "time", "tokens", "steps", "calls", "confidence"]
)
"""Words of columns that hold another measure than a score."""
_FLAGS = frozenset({"is", "has", "had", "was", "use", "uses", "with", "needs"})
"""First words of columns that say what a task or trial is, and not how an agent did."""


def melt_hint(names: Sequence[str], rows: Sequence[FileRow], reading: ReadingOptions) -> str:
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


def _kind_of_scores(name: str, rows: Sequence[FileRow], reading: ReadingOptions) -> _Kind | None:
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


def _differs(name: str, rows: Sequence[FileRow]) -> bool:
    return len({str(row.cells.get(name)) for row in rows if not is_nothing(row.cells.get(name))}) > 1


_NUMBER = re.compile(r"[+-]?\d*\.?\d+(?:[eE][+-]?\d+)?", re.ASCII)
_TIME = re.compile(r"(?:\d{4}-\d\d-\d\d)?[T ]?(?:\d{1,3}:\d\d(?::\d\d)?(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
"""A date, a time of day, or both."""
MAX_TOLD = 6
"""Most columns that are told how to read."""
LONG = 120.0
"""Median of numbers without a unit from which on they may be milliseconds."""
MIN_CLUSTERS = 8
"""Clusters below which it is told what so few can decide."""
_IN_BRACKETS = re.compile(r"(?:\s|_)[(\[]\s*[^\s()\[\]]+\s*[)\]]$")
"""A unit in brackets that ends a column's name, whatever language the rest of it is in."""
_TELLING: Mapping[str, Sequence[frozenset[str]]] = {
    "repeat": [frozenset({word}) for word in ("seed", "attempt", "rollout", "repetition")],
    "input_tokens": [frozenset({"input", "tokens"}), frozenset({"prompt", "tokens"})],
    "output_tokens": [frozenset({"output", "tokens"}), frozenset({"completion", "tokens"})],
    "tokens": [frozenset({"tokens"}), frozenset({"token", "count"})],
    "cost_usd": [frozenset({word}) for word in ("cost", "usd", "spend", "price")],
    "seconds": [frozenset({word}) for word in ("latency", "duration", "elapsed", "runtime", "wall", "seconds", "took")],
    "tool_calls": [frozenset({"tool", "calls"})],
    "lm_calls": [frozenset({"llm", "calls"}), frozenset({"model", "calls"})],
    "steps": [frozenset({"steps"}), frozenset({"turns"}), frozenset({"iterations"})],
    "cluster": [frozenset({word}) for word in ("category", "topic", "template", "cluster")],
    "error": [frozenset({word}) for word in ("error", "exception")],
    "answer": [frozenset({word}) for word in ("answer", "output", "response", "prediction")],
}
"""Meaning → sets of words: a name with all words of one hints at the meaning."""
_NAMING_TASKS = ("nodeid", "test", "question", "prompt", "problem", "query", "input", "inputs", "name", "title", "description")
"""Words of columns that may name the tasks, the likeliest first."""
_NO_TASKS = frozenset(
    ["agent", "model", "system", "provider", "user", "expected", "reference", "ideal", "target", "gold", "truth", "eval", "judge"]
)
"""Words of columns that name something else."""
_SCORING = frozenset(
    ["feedback", "score", "scores", "eval", "evals", "metric", "metrics", "correct", "correctness", "accuracy", "passed"]
)
"""Words of columns that may hold the score."""
_OTHER_THINGS = frozenset(
    [
        *("avg", "average", "mean", "median", "std", "min", "max", "p50", "p90", "p95", "p99", "rate", "per", "k", "thousand"),
        *(
            "limit",
            "budget",
            "expected",
            "reference",
            "ideal",
            "target",
            "gold",
            "truth",
            "type",
            "id",
            "cached",
            "eval",
            "evaluation",
            "judge",
        ),
    ]
)
"""Words of columns that hold something else than a trial's own value."""


def how_to_read(names: Sequence[str], rows: Sequence[FileRow], columns: Mapping[str, str]) -> str:
    """Return the `--map` that reads columns which are left out; empty where none can be. `columns`: meaning → column, as read."""
    hinted_columns: dict[str, str] = {}
    for meaning, column in _hinted([*names, *places_inside(names, rows)]):
        is_free = meaning not in columns.keys() | hinted_columns.keys() and column not in hinted_columns.values()
        if is_free and _can_be(meaning, column, rows, columns):
            hinted_columns[meaning] = column
    named_columns = dict(list(hinted_columns.items())[:MAX_TOLD])
    hints = _cluster_hints(named_columns, rows)
    if hints:
        named_columns.pop("cluster")
    if named_columns:
        hints.insert(0, f"to read {'it' if len(names) == 1 else 'more of them'}: {_map_of(named_columns)}")
    return "".join(f"; {hint}" for hint in [*hints, *_other_money(names, rows, columns)])


def _map_of(columns: Mapping[str, str]) -> str:
    return f"--map {shlex.quote(','.join(f'{meaning}={column}' for meaning, column in columns.items()))}"


def _cluster_hints(columns: Mapping[str, str], rows: Sequence[FileRow]) -> list[str]:
    """Return what a column of clusters would do that has only a few."""
    clusters = {row_cell_text(row, columns["cluster"]) for row in rows} if "cluster" in columns else set[str]()
    if not 0 < len(clusters) < MIN_CLUSTERS:
        return []
    column, decides = columns["cluster"], "nothing" if too_few_units(len(clusters), ALPHA) else "little"
    few = f"{len(clusters)} clusters decide {decides}"
    return [f"{_map_of({'cluster': column})} would make the clusters of {short_value(column)} count in place of tasks, and {few}"]


def _other_money(names: Sequence[str], rows: Sequence[FileRow], columns: Mapping[str, str]) -> Iterator[str]:
    """Yield how a cost in another currency than US dollars, by the name of its column, is read, where none is read."""
    if "cost_usd" in columns:
        return
    for name in names:
        unit = unit_in("cost_usd", name)
        if unit is not None and unit.note and can_be_typed(name) and _can_be("cost_usd", name, rows, columns):
            cure = f"convert it, or have it taken as US dollars: {_map_of({'cost_usd': name})}"
            yield f"{short_value(name)} is not in US dollars by its name: {cure}"
            return


def maps_hint(missing: Sequence[str], names: Sequence[str], rows: Sequence[FileRow], reading: ReadingOptions) -> str:
    """Return the one `--map` for a table that lacks a column of the task or score, as far as its columns tell; else empty.

    It names what tells arms apart, too, if a table with these columns would pool them.
    """
    columns, meanings = dict[str, str](), list[str]()
    if "task" in missing and (task := _task_column(names, rows)):
        columns["task"] = task
        meanings.append(f"{short_value(task)} names the tasks")
    if "score" in missing and (column := _score_column(*opened(names, rows), columns.get("task", ""))):
        words = dict.fromkeys(row_cell_text(row, column) for row in opened(names, rows)[1] if not is_nothing(row.cells.get(column)))
        columns["score"] = column
        meanings.append(f"{short_value(column)} is the score, which holds {names_in_a_line(list(words), 4)}")
    if len(columns) == len(missing) and not reading.is_one_arm and "arm" not in reading.columns:
        pooled = _still_pooled(names, rows, replace(reading, columns={**reading.columns, **columns}))
        if pooled is not None:
            columns["arm"] = pooled.column
            meanings.append(f"{short_value(pooled.column)} tells the arms apart ({names_in_a_line(pooled.values, 4)})")
    return f"; if {listed_names(meanings)}: {_map_of(columns)}" if columns else ""


def _still_pooled(names: Sequence[str], rows: Sequence[FileRow], reading: ReadingOptions) -> PooledBy | None:
    """Return the column that tells arms apart that would be pooled, once the table is read with these columns."""
    try:
        inside, table = with_places(names, rows, reading)
        return pooled_by(*opened(inside, table), columns_of(inside, reading))
    except ValueError:  # something else is wrong, too, and is told once these columns are there
        return None


def _task_column(names: Sequence[str], rows: Sequence[FileRow]) -> str:
    """Return the first column that may name the tasks, by the words of its name; empty if there is none."""
    for word in _NAMING_TASKS:
        for name in names:
            words = _words_in(name)
            if word in words and not words & _NO_TASKS and can_be_typed(name) and _holds(name, rows, _is_name):
                return name
    return ""


def is_measured(name: str, rows: Sequence[FileRow]) -> bool:
    """Tell whether a column holds what was measured, and names nothing: amounts, scores, times, by its name or by its cells."""
    if _words_in(name) & (MEASURES | _SCORING):
        return True
    cells = [row_cell_text(row, name) for row in rows if not is_nothing(row.cells.get(name))]
    numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    return bool(cells) and (
        (len(numbers) == len(cells) and any("." in number for number in numbers)) or all(map(_TIME.fullmatch, cells))
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int) and 0 < len(str(value)) <= MAX_NAME_CHARS


def _score_column(names: Sequence[str], rows: Sequence[FileRow], task: str) -> str:
    """Return the one column of verdicts, such as PASS and FAIL, or else the one that is called as a score; empty if there is none.

    `task`: the column that is taken for the tasks.
    """
    typed = [name for name in names if can_be_typed(name) and name != task]
    judged = [name for name in typed if _holds(name, rows, is_verdict)] or [
        name for name in typed if _SCORING & _words_in(name) and not MEASURES & _words_in(name) and _holds(name, rows, is_score)
    ]
    return judged[0] if len(judged) == 1 else ""


def taken_as_seconds(columns: Mapping[str, str], rows: Sequence[FileRow]) -> Iterator[str]:
    """Yield that a column without any unit is taken as seconds, and may be in milliseconds, as its numbers are large."""
    column = columns.get("seconds", "")
    cells = [row.cells["seconds"] for row in rows if not is_nothing(row.cells["seconds"])] if column else []
    try:
        numbers = [float(cell) for cell in cells]
    except (TypeError, ValueError):  # a cell says its unit
        return
    if numbers and unit_in("seconds", column) is None and "seconds" not in words_of(column):
        median = statistics.median(numbers)
        if median > LONG:
            remark = f"column {short_value(column)} is taken as seconds, as nothing says its unit: {median:,.0f} in the median"
            yield f"{remark}; if they are milliseconds, call it {short_value(f'{column}_ms')}"


def _words_in(name: str) -> set[str]:
    return set(words_of(name.replace(".", " ")))


def is_score(value: Any) -> bool:
    """Tell whether a value can be a score from 0 to 1, also as a word."""
    try:
        return score(value, None) is not None
    except ValueError:
        return False


def _holds(name: str, rows: Sequence[FileRow], test: Callable[[Any], bool]) -> bool:
    cells = [row.cells.get(name) for row in rows]
    filled = [cell for cell in cells if not is_nothing(cell)]
    return bool(filled) and all(map(test, filled)) and len({str(cell) for cell in filled}) > 1


def places_inside(names: Sequence[str], rows: Sequence[FileRow]) -> list[str]:
    """Return the places inside of the first row's objects, one level deep: `usage.total_tokens`."""
    first = rows[0].cells if rows else {}
    places = list[str]()
    for name in names:
        cell = first.get(name)
        if isinstance(cell, Mapping):
            places += [f"{name}.{key}" for key in cell]
        elif isinstance(cell, list) and cell and isinstance(cell[0], Mapping):
            places += [f"{name}.0.{key}" for key in cell[0]]
    return places


def opened(names: Sequence[str], rows: Sequence[FileRow]) -> tuple[Sequence[str], Sequence[FileRow]]:
    """Return columns and rows with the places inside of objects in the place of the objects, one level deep."""
    places = places_inside(names, rows)
    if not places:
        return names, rows
    whole = {place.partition(".")[0] for place in places}
    inside = [FileRow(row.place, {**row.cells, **{place: value_at(row.cells, place) for place in places}}) for row in rows]
    return [*(name for name in names if name not in whole), *places], inside


def _hinted(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each meaning with the columns whose names hint at it, in the order of the meanings."""
    words_by_name = {name: frozenset(words_of(name.replace(".", " "))) for name in names if can_be_typed(name)}
    for meaning, sets in _TELLING.items():
        accepted = {frozenset(word.split("_")) for word in COLUMNS[meaning]}
        for name, words_of_name in words_by_name.items():
            hints = any(telling <= words_of_name for telling in sets) or words_of_name in accepted or _says_unit(meaning, name)
            if hints and not words_of_name & (_OTHER_THINGS | CURRENCIES):
                yield meaning, name


def _says_unit(meaning: str, name: str) -> bool:
    """Tell whether a name ends with a unit of time or money in brackets: `Dauer (s)`."""
    return meaning in KEPT_AS and _IN_BRACKETS.search(name) is not None and words_of(name)[-1] in IN_NAMES[meaning]


def _can_be(meaning: str, column: str, rows: Sequence[FileRow], columns: Mapping[str, str]) -> bool:
    """Tell whether all cells of a column can have a meaning, and some has it."""
    cells = [FileRow(row.place, {meaning: value_at(row.cells, column)}) for row in rows]
    if all(is_nothing(row.cells[meaning]) for row in cells):
        return False
    parser = _PARSERS.get(meaning)
    if parser is not None:
        return _is_read(meaning, column, cells, parser)
    if any(isinstance(row.cells[meaning], Mapping | list) for row in cells) and meaning != "answer":
        return False
    tasks = [tuple(row_cell_text(row, columns[key]) for key in ("arm", "task") if key in columns) for row in rows]
    texts = [row_cell_text(row, meaning) for row in cells]
    if meaning == "repeat":
        return not any(is_nothing(row.cells[meaning]) for row in cells) and len(set(zip(tasks, texts, strict=True))) == len(rows)
    if meaning == "cluster":
        of_task = dict(zip((task[-1] for task in tasks), texts, strict=True))
        return len(set(texts)) > 1 and all(of_task[task[-1]] == text for task, text in zip(tasks, texts, strict=True))
    return True


def _is_read(meaning: str, column: str, cells: Sequence[FileRow], parser: Callable[[Any, str], object]) -> bool:
    try:
        for row in read_numbers(cells, [NumberColumn(meaning, column, unit_in(meaning, column))]).rows:
            parser(row.cells[meaning], column)
    except ValueError:
        return False
    return True


_PARSERS: Mapping[str, Callable[[Any, str], object]] = {
    **dict.fromkeys(WHOLE, count),
    "cost_usd": number_from_zero,
    "seconds": number_from_zero,
}
