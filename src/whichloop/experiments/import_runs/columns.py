"""Columns of a table of trials: what each means, by its name or by the user's word. Nothing is guessed from what its cells hold."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whichloop.protocol.values import shown_short

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
