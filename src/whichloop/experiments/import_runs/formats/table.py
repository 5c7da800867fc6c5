"""Tables of trials, a row each: CSV, TSV, JSON lines, a JSON array as pandas writes it, or Parquet, with the same columns.

A column of chat messages is what happened in the trial. Many clients' messages do not say whether a call failed, but many agents
begin the result of one that did with `Error:` or an exception's name, or put it under `error`: these are read as failed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from whichloop.datasets.importing.columns import has_decimal_comma, with_point
from whichloop.protocol import StopReason
from whichloop.protocol.json_text import digest
from whichloop.protocol.values import shown_short
from whichloop.protocol.wire import from_json

from ..chats import parsed, read_chat
from ..columns import NEEDED, UNITS, FileRow, columns_named, columns_of, factor_of, list_of_rows, lists_in, named_by_user, rows_of
from ..conversation import CallResult, answer_in
from ..foreign_file import ROWS, ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, Format, ReadingOptions, Status, TrialKey
from ..values import (
    answer_of,
    count,
    is_nothing,
    label_of,
    list_of,
    located,
    name_of,
    names_in_a_line,
    nothing_at,
    number_from_zero,
    reason_line,
    score,
    share,
    value_at,
)

SUITE = "table"
"""The suite of a table that names none; fixed, because a gate requires equal ones."""
_TOKENS = ("tokens", "input_tokens", "output_tokens")
_WHOLE = ("steps", "lm_calls", "tool_calls", *_TOKENS)
_NUMBERS: Mapping[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(_WHOLE, count),
    **dict.fromkeys(("cost_usd", "seconds"), number_from_zero),
    "confidence": share,
}
"""Meaning of a column → what reads its cell, which is also given the column's name."""
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+", re.ASCII)
_STATUSES: Mapping[str, Status] = {
    **dict.fromkeys(("scored", "ok", "success", "succeeded", "pass", "passed", "complete", "completed", "done"), "scored"),
    **dict.fromkeys(("errored", "error", "crashed"), "errored"),
    **dict.fromkeys(("excluded", "skipped"), "excluded"),
}
_FAILED = ("fail", "failed", "failure")
"""Statuses of trials that ended without success: by an error if they have no score, at the task if they have one."""
_NO_ERROR = frozenset({"false", "f", "0", "0.0", "no", "n", "no error", "[]", "{}", "ok", "success", "completed"})
"""What a column of errors has where there was none."""
_FAILED_CALL = re.compile(r"\s*(?:\w+\.)*(\w*(?:Error|Exception))\s*:|\s*(Traceback) \(most recent call last\)")
"""How the result of a call that failed begins."""
_ARGUMENTS = ("arguments", "args", "input")


def recognizes(file: ForeignFile) -> bool:
    """Tell whether a file that is of no other format holds rows."""
    return file.suffix in ROWS or (file.suffix == ".json" and bool(lists_in({"": file.first})))


def read_table(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read a table."""
    in_file, whole_rows = rows_of(file, reading)
    names, by_column = _with_places(in_file, whole_rows, reading)
    columns = {
        meaning: name
        for meaning, name in columns_of(names, reading).items()
        if meaning in NEEDED or not all(is_nothing(row.cells.get(name)) for row in by_column)
    }
    units = {
        meaning: 1.0 if meaning == "score" and reading.scale else factor_of(meaning, name) for meaning, name in columns.items()
    }
    rows = [FileRow(row.place, _by_meaning(row, columns, units, reading)) for row in by_column]
    log, keys, arms = ForeignLog(SUITE), _trial_keys(rows, file.path.stem), _arms(rows, file.path.stem)
    for row, key in zip(rows, keys, strict=True):
        question, suite = row.cells.get("question"), row.cells.get("suite")
        asked = "" if is_nothing(question) else digest(str(question))
        with located(row.place):
            trial = _trial(row.cells, key, columns, reading)
            log.add(arms[key[0]], trial, asked, SUITE if is_nothing(suite) else name_of(suite, "the suite"))
    if len(log.suites) > 1:
        raise ValueError(f"suites {names_in_a_line(sorted(log.suites))} in one table; import one at a time")
    holding = {name.split(".")[0] for name in columns.values() if name not in in_file}
    meanings = {name: meaning if units[meaning] == 1 else f"{meaning} × {units[meaning]:g}" for meaning, name in columns.items()}
    shown = [name for name in names if name in meanings or (name and name in in_file and name not in holding)]
    log.columns = {name: meanings.get(name, "") for name in shown}
    repeats = Counter((arm, task) for arm, task, _ in keys)
    if "repeat" not in columns and (most := max(repeats.values(), default=1)) > 1:
        told = f"{sum(number > 1 for number in repeats.values())} of {len(repeats)} tasks of an arm have several rows"
        log.notes.append(f"no column of the repeat: {told}, at most {most}, as repeats")
    place = list_of_rows(file.json_value, reading)[0] if file.suffix == ".json" else ""
    log.readings += [f"rows of {place}"] if place else []
    return log


FORMAT = Format("csv", recognizes, read_table)


# --- columns ---


def _with_places(names: Sequence[str], rows: Sequence[FileRow], reading: ReadingOptions) -> tuple[list[str], Sequence[FileRow]]:
    """Return the columns and rows with a column for each place inside of a cell that the user named, and for a row's usage."""
    places: dict[str, None] = {}
    for meaning, place in named_by_user(reading).items():
        outer = place.partition(".")[0]
        holding = next((row.cells for row in rows if isinstance(row.cells.get(outer), Mapping | list)), None)
        if "." in place and place not in names and holding is not None:
            if all(value_at(row.cells, place) is None for row in rows):
                raise ValueError(nothing_at(holding, meaning, place))
            places[place] = None
    if not any(meaning in reading.columns or columns_named(meaning, names) for meaning in _TOKENS):
        usages = [usage for row in rows if isinstance(usage := row.cells.get("usage"), Mapping)]
        places |= dict.fromkeys(f"usage.{key}" for usage in usages for key in usage)
    if not places:
        return list(names), rows
    inside = [FileRow(row.place, {**row.cells, **{place: value_at(row.cells, place) for place in places}}) for row in rows]
    return [*names, *places], inside


def _by_meaning(row: FileRow, columns: Mapping[str, str], units: Mapping[str, float], reading: ReadingOptions) -> dict[str, Any]:
    """Return a row's cells by their meanings, numbers in texts as Python reads them and in the field's own unit.

    `units`: meaning → how many of the field's unit one of the column's is.
    """
    cells = {meaning: row.cells.get(name) for meaning, name in columns.items()}
    for meaning, name in columns.items():
        if meaning not in _NUMBERS and meaning != "score":
            continue
        cell, factor = cells[meaning], units[meaning]
        if isinstance(cell, str):
            if reading.decimal_comma:
                cell = with_point(cell)
            elif meaning in _WHOLE and _THOUSANDS.fullmatch(cell.strip()):
                cell = cell.replace(",", "")
            elif has_decimal_comma(cell):
                raise ValueError(f"{row.place}: {name} is not a number: {shown_short(cell)}; with decimal commas: --decimal-comma")
            bare = cell.strip()
            if "%" in UNITS.get(meaning, {}) and bare.endswith("%") and not reading.scale:
                cell, factor = bare[:-1], 1e-2
            elif meaning == "cost_usd":
                cell = bare.removeprefix("$")
        cells[meaning] = cell if factor == 1 else _in_unit(cell, factor)
    return cells


def _in_unit(cell: Any, factor: float) -> Any:
    """Return how many of the field's unit a number is; a part of it divides, so that 350 ms are 0.35 s. Other cells stay."""
    try:
        number = None if is_nothing(cell) or isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return cell
    return cell if number is None else number / round(1 / factor) if factor < 1 else number * factor


# --- messages ---


def read_messages(cell: Any) -> tuple[ForeignTrace, str] | None:
    """Return what the messages of a cell say, also where they are the text of a JSON array; None for an empty cell."""
    if is_nothing(cell):
        return None
    if isinstance(cell, str):
        with located("the cell is a text that is no JSON array"):
            cell = from_json(cell)
    items = [_with_error(item) if isinstance(item, CallResult) else item for item in read_chat(list_of(cell, "the cell"))]
    return ForeignTrace.of(items, ("provider", *(() if _has_raw_arguments(cell) else ("wire",)))), answer_in(items)


def _with_error(result: CallResult) -> CallResult:
    begins, data = _FAILED_CALL.match(result.text), parsed(result.text) if result.text.lstrip().startswith("{") else None
    kind = (begins[1] or "Error") if begins else "Error" if isinstance(data, Mapping) and data.get("error") else ""
    return replace(result, failed=True, error_type=kind) if kind else result


def _has_raw_arguments(value: Any) -> bool:
    """Tell whether the arguments of all calls are texts, as the model wrote them."""
    if isinstance(value, list):
        return all(map(_has_raw_arguments, value))
    if not isinstance(value, Mapping):
        return True
    return all(isinstance(item, str) if key in _ARGUMENTS else _has_raw_arguments(item) for key, item in value.items())


# --- trials ---


def _trial_keys(rows: Sequence[FileRow], default_arm: str) -> list[TrialKey]:
    """Return each row's arm, task and repeat. Repeats are 0-based: in the order of their column, or counted if there is none.

    If all tasks have the same repeats, equal names are equal numbers, whatever they begin with: 0, 1, or seeds.
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}
    named: list[tuple[tuple[str, str], str]] = []
    for row in rows:
        with located(row.place):
            cell = (_arm_of(row, default_arm), name_of(row.cells["task"], "the task"))
            lines = cells.setdefault(cell, {})
            name = _repeat_of(row.cells["repeat"]) if "repeat" in row.cells else str(len(lines))
            if name in lines:
                raise ValueError(f"arm {cell[0]}, task {cell[1]}, repeat {name} is in {lines[name]} already")
            lines[name] = row.place
            named.append((cell, name))
    everywhere = _numbered({name for lines in cells.values() for name in lines})
    if len(everywhere) == max(map(len, cells.values()), default=0):
        return [(*cell, everywhere[name]) for cell, name in named]
    within = {cell: _numbered(lines) for cell, lines in cells.items()}
    return [(*cell, within[cell][name]) for cell, name in named]


def _arm_of(row: FileRow, default: str) -> str:
    """Return the arm that a row names, or else its model, or the default."""
    meaning = next((meaning for meaning in ("arm", "model") if meaning in row.cells), "")
    return name_of(row.cells[meaning], f"the {meaning}") if meaning else default


def _repeat_of(cell: Any) -> str:
    """Return the name of a repeat; 1 for 1.0, the form that data frames write for integers in a column with gaps."""
    text = str(cell).strip()
    return name_of(text.removesuffix(".0") if re.fullmatch(r"\d{1,9}\.0", text) else cell, "the repeat")


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Number names: those that are numbers by size, then words."""
    ordered = sorted(names, key=lambda name: (0, int(name), "") if re.fullmatch(r"\d{1,15}", name, re.ASCII) else (1, 0, name))
    return {name: number for number, name in enumerate(ordered)}


def _trial(
    cells: Mapping[str, Any],
    key: TrialKey,
    columns: Mapping[str, str],
    reading: ReadingOptions,
) -> ForeignTrial:
    in_score = _STATUSES.get(cells["score"].strip().lower()) if isinstance(cells["score"], str) else None
    in_score = None if in_score == "scored" else in_score
    value = score(cells["score"], reading.scale) if in_score is None else None
    status = _status(cells.get("status"), value, in_score)
    error = error_in(cells.get("error"))
    with located("messages, which --map messages= leaves out"):
        chat = read_messages(cells.get("messages"))
    measures = {meaning: parsed(cells.get(meaning), columns.get(meaning, meaning)) for meaning, parsed in _NUMBERS.items()}
    told_stop = "" if is_nothing(cells.get("stop")) else str(cells["stop"]).strip().lower()
    if told_stop and told_stop not in {*StopReason}:
        raise ValueError(f"stop {shown_short(cells['stop'])} is none of {', '.join(StopReason)}; --map stop=")
    ended_by_error = status == "errored" and bool(error or in_score or not is_nothing(cells.get("status")))
    answered = "" if chat is None else answer_of(chat[1])
    spelled = cells["score"].strip() if isinstance(cells["score"], str) else ""
    blank = f"the score is '{spelled}'" if spelled else "the score is blank"
    return ForeignTrial(
        *key,
        status=status,
        reason=error or (blank if status == "errored" and value is None else ""),
        score=value if status == "scored" else None,
        stop=told_stop or (StopReason.CRASHED if ended_by_error else StopReason.FINISHED if answered else None),
        answer=answered or None if is_nothing(cells.get("answer")) else answer_of(cells["answer"]),
        trace=None if chat is None else chat[0],
        cluster="" if is_nothing(cells.get("cluster")) else label_of(cells["cluster"], columns["cluster"]),
        **measures,
    )


def _status(cell: Any, value: float | None, in_score: Status | None) -> Status:
    """Return a trial's status: what its score's cell says, or else its status's; with neither, a blank score is errored."""
    if is_nothing(cell):
        return in_score or ("errored" if value is None else "scored")
    word = str(cell).strip().lower()
    status = _STATUSES.get(word) if word not in _FAILED else "errored" if value is None else "scored"
    if status is None:
        raise ValueError(f"status {shown_short(cell)} is none of {', '.join((*_STATUSES, *_FAILED))}; --map error=COLUMN,status=")
    if status == "scored" and value is None:
        raise ValueError(f"status {shown_short(cell)}, and there is no score")
    return status if status == "excluded" else in_score or status


def error_in(cell: Any) -> str:
    """Return the text of the error that a cell names; empty where there was none."""
    return "" if is_nothing(cell) or str(cell).strip().lower() in _NO_ERROR else reason_line(cell)


def _arms(rows: Iterable[FileRow], default: str) -> dict[str, ForeignArm]:
    models: dict[str, set[str]] = {}
    for row in rows:
        names = models.setdefault(_arm_of(row, default), set())
        if not is_nothing(row.cells.get("model")):
            names.add(name_of(row.cells["model"], "the model"))
    told = {arm: min(names) if len(names) == 1 else "several" if names else "unknown" for arm, names in models.items()}
    return {arm: ForeignArm(arm, model=model) for arm, model in told.items()}
