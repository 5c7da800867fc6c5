"""Columns of a table of trials: what each means, by its name or by the user's word."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whichloop.protocol.names import near

from .foreign_trials import ReadingOptions
from .values import SeveralScoresError, names_in_a_line, short_value

_CAMEL = re.compile(r"(?<=[a-zµμ0-9])(?=[A-Z])")
_WORDS = re.compile(r"[^\W_]+(?:\.[^\W_]+)*|[$€£¥¢%]")
_SECONDS: Mapping[str, float] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
}
_DOLLARS: Mapping[str, float] = {
    **dict.fromkeys(("$", "us$", "usd", "dollar", "dollars"), 1.0),
    **dict.fromkeys(("¢", "ct", "cts", "cent", "cents"), 1e-2),
}
_SHARES: Mapping[str, float] = dict.fromkeys(("%", "pct", "percent"), 1e-2)
_MANY: Mapping[str, float] = {"k": 1e3, "m": 1e6}
"""How people cut counts short: `1.5k`, `2M`."""
_TOKENS: Mapping[str, float] = {
    f"{many} {unit}".strip(): factor
    for many, factor in {"": 1.0, **_MANY}.items()
    for unit in ("", "tok", "toks", "token", "tokens")
    if many or unit
}
IN_NAMES: Mapping[str, Mapping[str, float]] = {"seconds": _SECONDS, "cost_usd": _DOLLARS, "score": _SHARES, "confidence": _SHARES}
"""Meaning of a column → the units that its name may end with, and how many of the field's unit one is."""
IN_CELLS: Mapping[str, Mapping[str, float]] = {
    **IN_NAMES,
    "seconds": {**_SECONDS, "m": 60.0, "d": 86400.0, "day": 86400.0, "days": 86400.0},
    **dict.fromkeys(("tokens", "input_tokens", "output_tokens"), _TOKENS),
    **dict.fromkeys(("steps", "lm_calls", "tool_calls"), _MANY),
}
"""The same of a cell, where `2m` says minutes."""
KEPT_AS: Mapping[str, str] = {"seconds": "seconds", "cost_usd": "US dollars"}
FIELD_UNITS: Mapping[str, str] = {**KEPT_AS, **dict.fromkeys(("score", "confidence"), "a share of 1")}
CURRENCIES = frozenset(["€", "£", "¥", "eur", "euro", "euros", "gbp", "pound", "pounds", "jpy", "yen", "cny", "chf", "inr"])
"""Money that is not US dollars, as a column's name or a cell says it."""


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """The unit that a column's name says."""

    word: str
    """As the name has it, in small letters."""
    factor: float
    """How many of the field's unit one is."""
    reading: str = ""
    """What the user is told where it is another unit than the field's, and is converted."""
    note: str = ""
    """What the user is told where it cannot be converted."""


def words_of(name: str) -> list[str]:
    """Return the words of a column's name in small letters: `latencyMs` and `Latency (ms)` are `latency`, `ms`.

    Points hold a word together, since they lead into objects: `usage.total tokens` is `usage.total`, `tokens`.
    """
    return _WORDS.findall(_CAMEL.sub(" ", name).lower()) or [name.lower()]


def unit_in(meaning: str, column: str) -> ColumnUnit | None:
    """Return the unit that ends a column's name; None if the name says none."""
    word, unit = words_of(column)[-1], FIELD_UNITS.get(meaning)
    if unit is None:
        return None
    if word in IN_NAMES[meaning]:
        factor = IN_NAMES[meaning][word]
        converted = f"column {short_value(column)} is read as {word} and kept as {unit}" if factor != 1 else ""
        return ColumnUnit(word, factor, converted)
    if meaning == "cost_usd" and word in CURRENCIES:
        note = f"column {short_value(column)} is taken as {unit}, though its name says {word}: convert it first"
        return ColumnUnit(word, 1.0, note=note)
    return None


def without_unit(meaning: str, words: list[str]) -> list[str] | None:
    """Return the words of a column's name before the unit that ends it; None if no unit of this meaning does."""
    if len(words) < 2 or words[-1] not in IN_NAMES.get(meaning, {}):
        return None
    return words[: -2 if words[-2] == "in" else -1]


def converted(value: float, factor: float) -> float:
    """Return how many of the field's unit a value is; a part of it divides, so that 7 % is 0.07 and 350 ms are 0.35 s."""
    return value / round(1 / factor) if factor < 1 else value * factor


_NAMES = """
arm            arm agent loop design variant system solver agent_name
task           task task_id sample sample_id case case_id example example_id item instance_id question_id dataset_example_id
task           task_name item_id dataset_item_id problem_id scenario_id test_case test_case_id test_id test_idx
task           reference_example_id id
repeat         repeat epoch run trial replicate iteration repetition repetition_number repeat_number trial_number run_number
score          score accuracy correct correctness is_correct success solved passed pass reward grade resolved is_resolved is_solved
steps          steps n_steps num_steps turns n_turns num_turns
lm_calls       lm_calls llm_calls model_calls n_calls requests calls
tool_calls     tool_calls n_tool_calls
tokens         tokens total_tokens n_tokens tokens_total tokens_used token_count total_token_count token_count_total
tokens         usage.total_tokens
input_tokens   input_tokens prompt_tokens tokens_in input_token_count prompt_token_count token_count_prompt usage.input_tokens
input_tokens   usage.prompt_tokens
output_tokens  output_tokens completion_tokens tokens_out output_token_count completion_token_count token_count_completion
output_tokens  usage.output_tokens usage.completion_tokens
cost_usd       cost_usd cost usd dollars price total_cost cost_total llm_cost
seconds        seconds duration duration_s latency latency_s time time_s elapsed elapsed_s runtime execution_time response_time
seconds        elapsed_time total_time wall_time wall_clock wall run_time completion_time time_taken
confidence     confidence
status         status
stop           stop stop_reason
reason         reason
error          error error_message exception
cluster        cluster template
model          model model_name model_name_or_path
answer         answer output prediction response
asked          question input prompt
suite          suite dataset benchmark
messages       messages
"""
_BY_LINE = [(meaning, tuple(names)) for meaning, *names in map(str.split, _NAMES.strip().splitlines())]
COLUMNS: Mapping[str, tuple[str, ...]] = {
    meaning: tuple(name for other, names in _BY_LINE if other == meaning for name in names) for meaning, _ in _BY_LINE
}
"""Meaning of a column → its accepted names, the preferred ones first."""
NEEDED = ("task", "score")
SUGGESTED = 3
"""Names of a missing column that an error suggests."""
_NAMES_ERRORS = frozenset({"error", "errors", "exception"})


class NoColumnError(ValueError):
    """A table has no column of the task, or none of the score, or neither."""

    def __init__(self, missing: Sequence[str], names: Sequence[str]) -> None:
        """`missing`: what no column is called as. `names`: those of the columns that there are."""
        problem = ", and ".join(f"no column of the {meaning}, such as {_or(COLUMNS[meaning][:SUGGESTED])}" for meaning in missing)
        map_typed = ",".join(f"{meaning}=COLUMN" for meaning in missing)
        which = "which it is" if len(missing) == 1 else "which they are"
        super().__init__(f"{problem}; there are {names_in_a_line(names)}; say {which}: --map {map_typed}")
        self.missing = tuple(missing)


def parse_map(texts: Iterable[str]) -> dict[str, str]:
    """Read `task=COLUMN,arm=COLUMN`, quoted like a line of CSV where a name holds a comma. Raises ValueError."""
    columns: dict[str, str] = {}
    for part in (part for cells in csv.reader(texts) for part in cells):
        meaning, equals, column = (text.strip() for text in part.partition("="))
        if not equals:
            raise ValueError(f"--map {short_value(part)}: write MEANING=COLUMN; the meanings are {', '.join(COLUMNS)}")
        mapped = check_map({meaning: column})
        if columns.keys() & mapped.keys():
            raise ValueError(f"--map {meaning}: it is mapped twice")
        columns |= mapped
    return columns


def check_map(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return meaning → column; a meaning may be any name that its columns may have, such as `agent` for `arm`.

    Raises ValueError for any other one, with the nearest, for a column whose name is no text, and for a meaning mapped twice.
    """
    by_meaning: dict[str, str] = {}
    for typed, column in columns.items():
        meaning = _meaning(typed)
        if not isinstance(column, str):
            raise ValueError(f"--map {typed}: give the name of a column; got {short_value(column)}")
        if meaning in by_meaning:
            raise ValueError(f"--map {typed}: it is mapped twice, as {meaning}")
        by_meaning[meaning] = column
    return by_meaning


def _meaning(typed: Any) -> str:
    """Return the meaning that has this name, or whose columns may have it. Raises ValueError if none does, with the nearest."""
    if typed in COLUMNS:
        return str(typed)
    meaning = next((name for name, words in COLUMNS.items() if _word(str(typed)) in words), None)
    if meaning is None:
        nearest_names = near(str(typed), [*COLUMNS, *(word for words in COLUMNS.values() for word in words)])
        there = f"the meanings are {', '.join(COLUMNS)}"
        raise ValueError(f"--map {short_value(typed)}: no such meaning; {f'{nearest_names} ' if nearest_names else ''}{there}")
    return meaning


def columns_of(names: Sequence[str], reading: ReadingOptions) -> dict[str, str]:
    """Return the name of the column for each meaning. Raises ValueError if it is missing, unknown or not clear."""
    if not names:
        raise ValueError("the table is empty")
    names = [name for name in names if name]
    mapped = _mapped(names, reading.columns)
    free = [name for name in names if name and name not in mapped.values()]
    by_word = {_word(name): name for name in reversed(free)}
    columns = {meaning: called[0] for meaning in COLUMNS if (called := columns_named(meaning, free))}
    columns = {meaning: name for meaning, name in (columns | mapped).items() if name}
    by_word |= {_word(name): name for name in mapped.values() if name}
    for meaning, requested, option in (("score", reading.scorer, "--scorer"), ("cluster", reading.cluster, "--cluster")):
        if requested is not None:
            if meaning in mapped:
                raise ValueError(f"{option} and --map {meaning}=… both name the column of the {meaning}; give one of them")
            if _word(requested) not in by_word:
                raise ValueError(f"{option}: no column {short_value(requested)}; there are {names_in_a_line(names)}")
            columns[meaning] = by_word[_word(requested)]
    scores = columns_named("score", free)
    if columns.get("status") == columns.get("score"):  # one column says how a trial was judged, and whether an error ended it
        columns.pop("status", None)
    if reading.scorer is None and "score" not in mapped and len(scores) > 1:
        there = f"columns {names_in_a_line(scores)}; say which is the accuracy: --scorer {shlex.quote(scores[0])}"
        raise SeveralScoresError(there, scores[0])
    if missing := [meaning for meaning in NEEDED if meaning not in columns]:
        raise NoColumnError(missing, names)
    if "arm" not in columns and "model" in columns:
        columns["arm"] = columns["model"]
    return columns


def names_errors(column: str) -> bool:
    """Tell whether a column is called as one that says which error ended a trial: `error`, `Error message`, `exception`."""
    return bool(_NAMES_ERRORS & set(words_of(column)))


def columns_named(meaning: str, names: Iterable[str]) -> list[str]:
    """Return the columns whose names are one of a meaning, the preferred first; with a unit (`Latency (ms)`) before without."""
    ranks: dict[str, tuple[int, bool]] = {}
    accepted = COLUMNS[meaning]
    for name in names:
        words = words_of(name)
        bare = without_unit(meaning, words)
        for word, is_bare in (("_".join(words), True), ("_".join(bare or ()), False)):
            if word in accepted:
                ranks.setdefault(name, (accepted.index(word), is_bare))
    return sorted(ranks, key=lambda name: ranks[name])


def places_of_tokens(names: Sequence[str], reading: ReadingOptions) -> list[str]:
    """Return where a row's usage may tell its tokens; nothing where a column tells them, or the user said which does."""
    meanings = [meaning for meaning in COLUMNS if meaning.endswith("tokens")]
    if any(meaning in reading.columns or columns_named(meaning, names) for meaning in meanings):
        return []
    return [name for meaning in meanings for name in COLUMNS[meaning] if "." in name]


def _mapped(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that the user named, by meaning; an empty name stays empty."""
    by_word = {_word(name): name for name in reversed(names)}
    mapped: dict[str, str] = {}
    for meaning, column in columns.items():
        name = "" if not column else column if column in names else by_word.get(_word(column))
        if name is None:
            raise ValueError(f"--map {meaning}: no column {short_value(column)}; there are {names_in_a_line(names)}")
        others = [other for other, column in mapped.items() if column == name]
        if name and others and {meaning, *others} != {"score", "status"}:
            raise ValueError(f"--map {meaning}: column {short_value(name)} is mapped twice")
        mapped[meaning] = name
    return mapped


def _word(name: str) -> str:
    return "_".join(words_of(name))


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
