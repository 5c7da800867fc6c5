"""Tables of trials, a row each: CSV, TSV, or JSON lines with the same columns."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from loopbench.protocol import StopReason
from loopbench.protocol.digest import digest

from .foreign_trials import ForeignLog, ForeignTrial, ReadingOptions, ToldArm
from .values import amount, answer_of, count, is_nothing, label_of, located, name_of, names_in_a_line, one_line, score, share, shown

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "arm": ("arm", "agent", "loop", "design", "variant", "system", "solver"),
    "task": (
        "task",
        "task_id",
        "sample",
        "sample_id",
        "case",
        "case_id",
        "example",
        "example_id",
        "item",
        "instance_id",
        "question_id",
        "id",
    ),
    "repeat": ("repeat", "epoch", "run", "trial", "replicate", "iteration"),
    "score": ("score", "accuracy", "correct", "is_correct", "success", "solved", "passed", "pass", "reward"),
    "steps": ("steps", "n_steps", "num_steps", "turns", "n_turns", "num_turns"),
    "lm_calls": ("lm_calls", "llm_calls", "model_calls", "n_calls", "requests", "calls"),
    "tool_calls": ("tool_calls", "n_tool_calls"),
    "tokens": ("tokens", "total_tokens", "n_tokens"),
    "input_tokens": ("input_tokens", "prompt_tokens", "tokens_in"),
    "output_tokens": ("output_tokens", "completion_tokens", "tokens_out"),
    "cost_usd": ("cost_usd", "cost", "usd", "dollars", "price", "total_cost"),
    "seconds": ("seconds", "duration", "duration_s", "latency", "latency_s", "time", "time_s", "elapsed", "elapsed_s", "runtime"),
    "confidence": ("confidence",),
    "status": ("status",),
    "stop": ("stop", "stop_reason"),
    "reason": ("reason", "error", "error_message"),
    "cluster": ("cluster", "template"),
    "model": ("model", "model_name"),
    "answer": ("answer", "output", "prediction", "response"),
    "asked": ("question", "input", "prompt"),
    "suite": ("suite", "dataset", "benchmark"),
}
"""What a column means → the names it may have, in the order in which they are taken."""
NEEDED = ("task", "score")
_STATUSES: Mapping[str, Literal["scored", "errored", "excluded"]] = {
    "scored": "scored",
    "ok": "scored",
    "errored": "errored",
    "error": "errored",
    "excluded": "excluded",
}
T = TypeVar("T")
_DELIMITERS = (",", "\t", ";")
BLANK = "the score is blank"
SUITE = "table"


@dataclass(frozen=True, slots=True)
class _Row:
    """One row; `line` is where it ends in the file."""

    line: int
    cells: Mapping[str, Any]
    """Column → cell."""


@dataclass(frozen=True, slots=True)
class _Table:
    names: tuple[str, ...]
    rows: tuple[_Row, ...]


def read_table(raw: bytes, path: Path, sha256: str, reading: ReadingOptions) -> ForeignLog:
    """Raises ValueError in one line that says where, line included, it is no table of trials."""
    text = _decoded(raw)
    table = _json_lines(text) if path.suffix.lower() in (".jsonl", ".ndjson") else _csv(text)
    columns = _columns(table.names, reading)
    rows = [(row, {meaning: row.cells.get(name) for meaning, name in columns.items()}) for row in table.rows]
    repeats = _repeats(rows, path.stem)
    trials, asked = [], dict[str, str]()
    for (row, cells), repeat in zip(rows, repeats, strict=True):
        with located(f"line {row.line}"):
            key = (_arm(cells, path.stem), name_of(cells["task"], "the task"), repeat)
            trials.append(_told(cells, key, columns, reading))
            digested = "" if is_nothing(cells.get("asked")) else digest(str(cells["asked"]))
            known = asked.get(trials[-1].task) or digested
            if digested and known != digested:
                raise ValueError(f"task {shown(trials[-1].task)} asks something else than in an earlier line")
            asked[trials[-1].task] = known
    left = [name for name in table.names if name not in columns.values()]
    return ForeignLog(
        path=path,
        format="csv",
        sha256=sha256,
        by="",
        suite=_suite(rows),
        arms=_arms(rows, path.stem),
        trials=tuple(trials),
        asked=asked,
        repeats=max([1, *(repeat + 1 for repeat in repeats)]),
        notes=(f"columns left out: {names_in_a_line(left)}",) if left else (),
    )


# --- rows ---


def _decoded(raw: bytes) -> str:
    try:
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return raw.decode("utf-16")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"line {raw[: error.start].count(10) + 1}: no UTF-8 text") from None


def _csv(text: str) -> _Table:
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    names: tuple[str, ...] = ()
    rows = []
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = _names([cell.strip() for cell in cells])
            elif len(cells) != len(names):
                raise ValueError(f"line {lines.line_num}: {len(cells)} cells, and the first line names {len(names)} columns")
            else:
                rows.append(_Row(lines.line_num, dict(zip(names, cells, strict=True))))
    except csv.Error as error:
        raise ValueError(f"line {lines.line_num}: {error}") from None
    return _Table(names, tuple(rows))


def _delimiter(text: str) -> str:
    """That of the first line: comma, tab or semicolon."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=first.count)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two columns are called {shown(name)}")
    return tuple(names)


def _json_lines(text: str) -> _Table:
    rows = []
    for line, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        with located(f"line {line}"):
            cells = _json(raw)
            if not isinstance(cells, dict):
                raise ValueError("no JSON object")
            rows.append(_Row(line, cells))
    return _Table(tuple(dict.fromkeys(name for row in rows for name in row.cells)), tuple(rows))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


# --- columns ---


def _columns(names: Sequence[str], reading: ReadingOptions) -> dict[str, str]:
    """What a column means → its name in the table."""
    if not names:
        raise ValueError("the table is empty")
    by_word = {_word(name): name for name in reversed(names)}
    found = {meaning: by_word[word] for meaning, words in COLUMNS.items() for word in reversed(words) if word in by_word}
    for meaning, wanted, option in (("score", reading.scorer, "--scorer"), ("cluster", reading.cluster, "--cluster")):
        if wanted is not None:
            if _word(wanted) not in by_word:
                raise ValueError(f"{option}: no column {shown(wanted)}; there are {names_in_a_line(names)}")
            found[meaning] = by_word[_word(wanted)]
    scores = [by_word[word] for word in COLUMNS["score"] if word in by_word]
    if reading.scorer is None and len(scores) > 1:
        raise ValueError(f"columns {names_in_a_line(scores)}; say which is the accuracy: --scorer {scores[0]}")
    for meaning in NEEDED:
        if meaning not in found:
            raise ValueError(f"no column of the {meaning}: {_or(COLUMNS[meaning])}; there are {names_in_a_line(names)}")
    if "arm" not in found and "model" in found:
        found["arm"] = found["model"]
    return found


def _word(name: str) -> str:
    return "_".join(name.lower().replace("-", " ").replace("_", " ").split())


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


# --- trials ---

_Rows = Sequence[tuple[_Row, Mapping[str, Any]]]
"""Rows, and the cells of each by what they mean."""


def _cell_name(cells: Mapping[str, Any], meaning: str, default: str) -> str:
    return name_of(cells[meaning], f"the {meaning}") if meaning in cells else default


def _arm(cells: Mapping[str, Any], stem: str) -> str:
    return _cell_name(cells, "arm", stem)


def _repeats(rows: _Rows, stem: str) -> list[int]:
    """Which repeat of its arm and task each row is, 0-based: by the column, in its order; without one, counted.

    Where all tasks have the same repeats, equal names are equal numbers, whatever they begin with: 0, 1, or seeds.
    """
    seen: dict[tuple[str, str], dict[str, int]] = {}
    for row, cells in rows:
        with located(f"line {row.line}"):
            cell = seen.setdefault((_arm(cells, stem), name_of(cells["task"], "the task")), {})
            name = name_of(_integral(cells["repeat"]), "the repeat") if "repeat" in cells else str(len(cell))
            if name in cell:
                raise ValueError(f"arm, task and repeat {shown(name)} stand in line {cell[name]} already")
            cell[name] = row.line
    names = sorted({name for cell in seen.values() for name in cell}, key=_order)
    if len(names) == max(map(len, seen.values()), default=0):
        index = {name: number for number, name in enumerate(names)}
        numbers = {line: index[name] for cell in seen.values() for name, line in cell.items()}
    else:
        numbers = {
            line: k for cell in seen.values() for k, (_, line) in enumerate(sorted(cell.items(), key=lambda i: _order(i[0])))
        }
    return [numbers[row.line] for row, _ in rows]


def _integral(value: Any) -> Any:
    """1.0, as data frames write whole numbers beside a gap, is 1."""
    text = str(value).strip()
    return text.removesuffix(".0") if re.fullmatch(r"\d{1,9}\.0", text) else value


def _order(name: str) -> tuple[int, int, str]:
    """Numbers by size, then words."""
    return (0, int(name), "") if re.fullmatch(r"\d{1,15}", name, re.ASCII) else (1, 0, name)


def _told(cells: Mapping[str, Any], key: tuple[str, str, int], columns: Mapping[str, str], reading: ReadingOptions) -> ForeignTrial:
    def of(meaning: str, read: Callable[[Any, str], T]) -> T:
        return read(cells.get(meaning), columns.get(meaning, meaning))

    value = score(cells["score"], reading.scale)
    status = _status(cells.get("status"), value)
    reason = "" if is_nothing(cells.get("reason")) else one_line(cells["reason"])
    return ForeignTrial(
        *key,
        status=status,
        reason=reason or (BLANK if status == "errored" and value is None else ""),
        score=value if status == "scored" else None,
        stop=_stop(cells.get("stop"), status, cells.get("status")),
        answer=None if is_nothing(cells.get("answer")) else answer_of(cells["answer"]),
        steps=of("steps", count),
        lm_calls=of("lm_calls", count),
        tool_calls=of("tool_calls", count),
        tokens=of("tokens", count),
        input_tokens=of("input_tokens", count),
        output_tokens=of("output_tokens", count),
        cost_usd=of("cost_usd", amount),
        seconds=of("seconds", amount),
        confidence=of("confidence", share),
        cluster="" if is_nothing(cells.get("cluster")) else label_of(cells["cluster"], columns["cluster"]),
    )


def _status(said: Any, value: float | None) -> Literal["scored", "errored", "excluded"]:
    """As the table says; without a word a trial is errored where its score is blank."""
    if is_nothing(said):
        return "errored" if value is None else "scored"
    status = _STATUSES.get(str(said).strip().lower())
    if status is None:
        raise ValueError(f"status {shown(said)} is none of {', '.join(_STATUSES)}")
    if status == "scored" and value is None:
        raise ValueError(f"status {shown(said)}, and {BLANK}")
    return status


def _stop(said: Any, status: str, status_said: Any) -> str | None:
    """Where the table says that a trial is errored, something ended it; a blank score alone says less."""
    if is_nothing(said):
        return StopReason.CRASHED if status == "errored" and not is_nothing(status_said) else None
    try:
        return StopReason(str(said).strip().lower())
    except ValueError:
        raise ValueError(f"stop {shown(said)} is none of {', '.join(StopReason)}") from None


def _arms(rows: _Rows, stem: str) -> tuple[ToldArm, ...]:
    """In the order of the table."""
    models: dict[str, set[str]] = {}
    for _, cells in rows:
        known = models.setdefault(_arm(cells, stem), set())
        if not is_nothing(cells.get("model")):
            known.add(name_of(cells["model"], "the model"))
    one = {arm: next(iter(known)) if len(known) == 1 else "several" if known else "unknown" for arm, known in models.items()}
    return tuple(ToldArm(arm, "", {}, model) for arm, model in one.items())


def _suite(rows: _Rows) -> str:
    """The column's, or a name that the next table has too: a gate asks for equal ones."""
    names = sorted({_cell_name(cells, "suite", SUITE) for _, cells in rows})
    if len(names) > 1:
        raise ValueError(f"suites {names_in_a_line(names)} in one table; import one at a time")
    return names[0] if names else SUITE
