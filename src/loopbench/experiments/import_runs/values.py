"""Values out of a file that may hold anything: each is what it is asked to be, or a ValueError says in one line what it is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from loopbench.protocol.redact import redact

MAX_COUNT = 10**15
"""Of steps, calls or tokens in one trial: more is no count."""
MAX_AMOUNT = 1e15
"""Of dollars or seconds."""
MAX_NAME_CHARS = 300
"""Of a task, arm or cluster."""
MAX_REASON_CHARS = 300
MAX_ANSWER_CHARS = 4000
MAX_SHOWN = 60
"""Characters of a bad value that an error shows."""
ROUNDING = 1e-9
"""What a score may lie outside of its scale."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+", re.ASCII)
_HALF = re.compile("[\ud800-\udfff]")
"""Of a pair that stands for one character (UTF-16): JSON can spell one alone, and no file in UTF-8 can hold it."""
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer: Inspect's `value_to_float`."""
_WORDS = {
    **dict.fromkeys(("yes", "true", "pass", "passed", "correct"), 1.0),
    **dict.fromkeys(("no", "false", "fail", "failed", "incorrect"), 0.0),
}
_NOTHING = frozenset({"", "nan", "na", "n/a", "null", "none"})
"""How tables spell that there is no value."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """What is wrong inside is said with where it stands."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def shown(value: Any) -> str:
    """A bad value, short."""
    if isinstance(value, int) and abs(value) > MAX_COUNT:
        return "a number beyond all measure"  # Python refuses to spell out one of more than 4,300 digits
    return cut(repr(value), MAX_SHOWN)


def cut(text: str, most: int) -> str:
    """At most so many characters, and a sign where some are gone."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """A JSON object; none counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is no object: {shown(value)}")
    return value


def listed(value: Any, what: str) -> Sequence[Any]:
    """A JSON array; none counts as an empty one."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{what} is no list: {shown(value)}")
    return value


def name_of(value: Any, what: str) -> str:
    """A name on one line, made of text or a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{what} is no name: {shown(value)}")
    text = shown(value) if isinstance(value, int) and abs(value) > MAX_COUNT else " ".join(str(value).split())
    if not text:
        raise ValueError(f"{what} is empty")
    if _HALF.search(text):
        raise ValueError(f"{what} holds half a character: {shown(text)}")
    if len(text) > MAX_NAME_CHARS:
        raise ValueError(f"{what} has {len(text)} characters, more than {MAX_NAME_CHARS}: {shown(text)}")
    return text


def label_of(value: Any, what: str) -> str:
    """What tasks share, as text; empty where there is none."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool | float):
        return str(value)
    return name_of(value, what)


def is_nothing(value: Any) -> bool:
    """None, NaN, or a cell that says so."""
    if isinstance(value, str):
        return value.strip().lower() in _NOTHING
    return value is None or (isinstance(value, float) and math.isnan(value))


def number(value: Any, what: str) -> float | None:
    """A finite number, also as text; None where there is none."""
    if is_nothing(value):
        return None
    if isinstance(value, str):
        text = value.strip()
        if _DECIMAL_COMMA.fullmatch(text):
            raise ValueError(f"{what} is written with a comma: {shown(text)}; write a point, {text.replace(',', '.')}")
        value = float(text) if _NUMBER.fullmatch(text) else text
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} is no number: {shown(value)}")
    if abs(value) > MAX_AMOUNT:  # infinite ones too
        raise ValueError(f"{what} is no number that can be meant: {shown(value)}")
    return float(value)


def amount(value: Any, what: str) -> float | None:
    """A number from 0 on, of dollars or seconds; None where there is none."""
    found = number(value, what)
    if found is not None and found < 0:
        raise ValueError(f"{what} is negative: {shown(value)}")
    return found


def count(value: Any, what: str) -> int | None:
    """A whole number from 0 on; None where there is none."""
    found = amount(value, what)
    if found is not None and not found.is_integer():
        raise ValueError(f"{what} is no whole number: {shown(value)}")
    return None if found is None else int(found)


def share(value: Any, what: str) -> float | None:
    """A number from 0 to 1; None where there is none."""
    found = number(value, what)
    if found is not None and not 0 <= found <= 1:
        raise ValueError(f"{what} is not within 0 and 1: {shown(value)}")
    return found


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """Of a score: `worst` becomes 0, `best` 1. `best` may be the smaller one."""

    worst: float = 0.0
    best: float = 1.0

    @classmethod
    def parse(cls, text: str) -> ScoreScale:
        """`0,100`. Raises ValueError."""
        parts = text.split(",")
        with located(f"scale {shown(text)}"):
            if len(parts) != 2:
                raise ValueError("write WORST,BEST, such as 0,100")
            ends = [number(part, "an end") for part in parts]
            if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
                raise ValueError("write two different numbers, such as 0,100")
        return cls(ends[0], ends[1])

    def __str__(self) -> str:
        return f"{self.worst:g},{self.best:g}"


UNIT = ScoreScale()


def score(value: Any, scale: ScoreScale | None) -> float | None:
    """A score in [0, 1]: a number on the scale, a truth value, a letter (C, P, I, N) or a word; None where there is none.

    Raises ValueError for what is none of these, and for a number outside of the scale.
    """
    if is_nothing(value):
        return None
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        word = value.strip()
        known = _LETTERS.get(word, _WORDS.get(word.lower()))
        if known is not None:
            return known
    found = number(value, "the score")
    if found is None:
        return None
    ends = scale or UNIT
    made = (found - ends.worst) / (ends.best - ends.worst)
    if not -ROUNDING <= made <= 1 + ROUNDING:
        low, high = sorted((ends.worst, ends.best))
        hint = "" if scale else "; say what the scale is, --scale 0,100 say"
        raise ValueError(f"the score {found:g} is not within {low:g} and {high:g}{hint}")
    return min(max(made, 0.0), 1.0)


def other_scores(found: Mapping[str, Any]) -> dict[str, float]:
    """Those that are scores as they stand; what is on another scale, or no number, is left out."""
    made = {}
    for name, value in found.items():
        try:
            one = score(value, None)
        except ValueError:
            continue
        if one is not None:
            made[cut(name, MAX_NAME_CHARS)] = one
    return made


def one_line(value: Any) -> str:
    """A reason or an error: on one line, short, without secrets."""
    return cut(redact(" ".join(str(value).split())), MAX_REASON_CHARS)


def answer_of(value: Any) -> Any:
    """An answer as a record keeps it: JSON, without secrets; a long one is cut, and so is text."""
    if value is None or isinstance(value, bool | int | float):
        return value if value is None or abs(value) <= MAX_AMOUNT else shown(value)
    text = redact(value if isinstance(value, str) else json.dumps(value))
    return cut(text, MAX_ANSWER_CHARS)


def names_in_a_line(names: Sequence[str], most: int = 8) -> str:
    """The first of them."""
    told = [cut(name, MAX_SHOWN) for name in names[:most]]
    return ", ".join(told) + (f" and {len(names) - most} others" if len(names) > most else "")
