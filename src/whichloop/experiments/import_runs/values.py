"""Checked values from a file that may hold anything: each has the requested type, or a one-line ValueError describes it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted, one_line, shown_short, snapped

MAX_AMOUNT = 1e15
MAX_NAME_CHARS = 300
MAX_REASON_CHARS = 300
MAX_ANSWER_CHARS = 4000
MAX_SHOWN = 60

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 pair, which JSON can represent alone and UTF-8 cannot."""
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer: Inspect's `value_to_float`."""
_RIGHT = ("yes", "y", "true", "t", "pass", "passed", "success", "correct", "right", "✓", "✔", "✅", "☑")
_WRONG = ("no", "n", "false", "f", "fail", "failed", "failure", "incorrect", "wrong", "✗", "✘", "❌", "✕", "✖")
_WORDS = {**dict.fromkeys(_RIGHT, 1.0), **dict.fromkeys(_WRONG, 0.0)}
_AS_EMOJI = "\ufe0f"
"""What a spreadsheet may put behind a sign, so that it is shown in colour."""
_NOTHING = frozenset({"", "nan", "na", "n/a", "null", "none", "#n/a", "<na>", "nat", "-", "–", "—"})
"""The spellings of a missing value in tables."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Prefix the message of a ValueError raised inside with its place, if that is not empty."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}" if where else str(error)) from None


def cut(text: str, most: int) -> str:
    """Cut a text to a length, with an ellipsis if it was longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def names_in_a_line(names: Sequence[str], most: int = 8) -> str:
    """Return the first names and the number of others."""
    first = ", ".join(cut(name, MAX_SHOWN) for name in names[:most])
    return f"{first} and {counted(len(names) - most, 'other')}" if len(names) > most else first


# --- JSON ---


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object; None counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is not an object: {shown_short(value)}")
    return value


def object_at(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the JSON object under a key; empty if absent."""
    return mapping(data.get(key), key)


def list_of(value: Any, what: str) -> Sequence[Any]:
    """Return a JSON array; None counts as an empty one."""
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{what} is not a list: {shown_short(value)}")
    return value or ()


def list_at(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return the JSON array under a key; empty if absent."""
    return list_of(data.get(key), key)


def objects_at(data: Mapping[str, Any], key: str, what: str) -> list[Mapping[str, Any]]:
    """Return the JSON objects in the array under a key; `what` names one of them."""
    return [mapping(item, what) for item in list_at(data, key)]


def without_floats(value: Any) -> Any:
    """Return JSON with numbers as text, so that NaN and infinity have a digest."""
    if isinstance(value, dict):
        return {name: without_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_floats(item) for item in value]
    return str(value) if isinstance(value, float) else value


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


def nothing_at(data: Any, meaning: str, place: str) -> str:
    """Return what to tell where nothing stands at the place of a meaning, with the places beside it."""
    before, point, _ = place.rpartition(".")
    beside = value_at(data, before) if before else data
    if not isinstance(beside, Mapping):
        before, point, beside = "", "", data if isinstance(data, Mapping) else {}
    there = names_in_a_line([f"{before}{point}{key}" for key in beside])
    return f"--map {meaning}: nothing stands at {shown_short(place)}; there are {there or 'none'}"


# --- texts ---


def is_nothing(value: Any) -> bool:
    """Tell whether a value is None, NaN, or a cell that spells it."""
    if isinstance(value, str):
        return value.strip().lower() in _NOTHING
    return value is None or (isinstance(value, float) and math.isnan(value))


def name_of(value: Any, what: str) -> str:
    """Return a name on one line, from text, a number, such as the 2.1 of a version, or a truth value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise ValueError(f"{what} is empty")
    if not isinstance(value, str | int | float):
        raise ValueError(f"{what} is not a name: {shown_short(value)}")
    text = one_line(str(value))
    if not text:
        raise ValueError(f"{what} is empty")
    if _HALF.search(text):
        raise ValueError(f"{what} holds half a character: {shown_short(text)}")
    if len(text) > MAX_NAME_CHARS:
        raise ValueError(f"{what} has {len(text)} characters, more than {MAX_NAME_CHARS}: {shown_short(text)}")
    return text


def label_of(value: Any, what: str) -> str:
    """Return a cluster label as text; empty if absent."""
    if value is None or value == "":
        return ""
    return str(value) if isinstance(value, bool | float) else name_of(value, what)


def reason_line(value: Any) -> str:
    """Return a reason or an error on one line, short, without secrets."""
    return cut(redact(one_line(str(value))), MAX_REASON_CHARS)


def answer_of(value: Any) -> Any:
    """Return an answer as a record keeps it: JSON without secrets, cut if it is long."""
    if value is None or isinstance(value, bool | int | float):
        return value if value is None or abs(value) <= MAX_AMOUNT else shown_short(value)
    return cut(redact(value if isinstance(value, str) else json.dumps(value)), MAX_ANSWER_CHARS)


# --- numbers ---


def finite_number(value: Any, what: str) -> float | None:
    """Return a finite number, also from text; None if absent."""
    if is_nothing(value):
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} is not a number: {shown_short(value)}")
    if abs(value) > MAX_AMOUNT:  # infinite ones too
        raise ValueError(f"{what} is not a plausible number: {shown_short(value)}")
    return float(value)


def number_from_zero(value: Any, what: str) -> float | None:
    """Return a number from 0 on, such as dollars or seconds; None if absent."""
    result = finite_number(value, what)
    if result is not None and result < 0:
        raise ValueError(f"{what} is negative: {shown_short(value)}")
    return result


def count(value: Any, what: str) -> int | None:
    """Return a whole number from 0 on; None if absent."""
    result = number_from_zero(value, what)
    if result is not None and not result.is_integer():
        raise ValueError(f"{what} is not a whole number: {shown_short(value)}")
    return None if result is None else int(result)


def share(value: Any, what: str) -> float | None:
    """Return a number from 0 to 1; None if absent."""
    result = finite_number(value, what)
    if result is not None and not 0 <= snapped(result) <= 1:
        raise ValueError(f"{what} is not within 0 and 1: {shown_short(value)}")
    return None if result is None else snapped(result)


def measures_in(data: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Return the measurements of a trial that a tool reports, by our names. `names`: ours → theirs."""
    of_time_or_money = ("cost_usd", "seconds")
    read = {ours: number_from_zero if ours in of_time_or_money else share if ours == "confidence" else count for ours in names}
    return {ours: read[ours](data.get(theirs), theirs) for ours, theirs in names.items()}


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """A scale of scores: `worst` becomes 0, `best` 1. `best` may be the smaller one."""

    worst: float = 0.0
    best: float = 1.0

    @classmethod
    def parse(cls, text: str) -> ScoreScale:
        """Read a scale such as `0,100`."""
        with located(f"scale {shown_short(text)}"):
            ends = [finite_number(part, "an end") for part in text.split(",")]
            if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] == ends[1]:
                raise ValueError("write WORST,BEST, two different numbers such as 0,100")
        return cls(ends[0], ends[1])

    def __str__(self) -> str:
        return f"{self.worst:g},{self.best:g}"


def score(value: Any, scale: ScoreScale | None) -> float | None:
    """Return a score in [0, 1] from a number on the scale, a truth value, a letter (C, P, I, N) or a word; None if absent."""
    if is_nothing(value):
        return None
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        word = value.strip()
        by_word = _LETTERS.get(word, _WORDS.get(word.lower().removesuffix(_AS_EMOJI)))
        if by_word is not None:
            return by_word
        if not any(map(str.isdecimal, word)):
            raise ValueError(f"the score is not a number: {shown_short(value)}; words: pass, fail, yes, no, correct, wrong, ✓, ✗")
    raw, ends = finite_number(value, "the score"), scale or ScoreScale()
    scaled = snapped(((raw or 0.0) - ends.worst) / (ends.best - ends.worst))
    if not 0 <= scaled <= 1:
        hint = "" if scale else "; another scale: --scale WORST,BEST"
        raise ValueError(f"the score {raw:g} is not within {min(ends.worst, ends.best):g} and {max(ends.worst, ends.best):g}{hint}")
    return scaled


def other_scores(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that are scores in [0, 1], without the others."""
    scores = {}
    for name, value in values.items():
        try:
            parsed = score(value, None)
        except ValueError:
            continue
        if parsed is not None:
            scores[cut(name, MAX_NAME_CHARS)] = parsed
    return scores


# --- tokens ---

INPUT, OUTPUT, TOTAL = ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"), ("total_tokens",)
"""Names of the counts in a usage, as providers write it."""


class TokenUsage(NamedTuple):
    """The tokens of a request."""

    input: int
    output: int
    """With what stands in the total only, such as reasoning."""


def with_total(input_tokens: int, output_tokens: int, total: int | None) -> TokenUsage:
    """Return input and output; what the total has more than both belongs to the output."""
    return TokenUsage(input_tokens, max(output_tokens, (total or 0) - input_tokens))


def usage_in(usage: Mapping[str, object], names: Sequence[Sequence[str]] = (INPUT, OUTPUT, TOTAL)) -> TokenUsage | None:
    """Return the tokens of a request by the names of input, output and total; None unless input and output are told."""
    counts = [next((value for name in these if (value := count(usage.get(name), name)) is not None), None) for these in names]
    return None if counts[0] is None or counts[1] is None else with_total(counts[0], counts[1], counts[2])
