"""What scorers share: the rule about answers that are missing, and readers of numbers, lists and text."""

from __future__ import annotations

import json
import math
import re
import string
import unicodedata
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from .abstention import is_abstention
from .judgement import Judgement, Scorer
from .trace import canonical

DEFAULT_TOLERANCE = 1e-6
"""Relative to the expected number."""
_TINY = 1e-12
"""Absolute, so that a rounding error beside an expected 0 does not count."""


def answer_scorer(compare: Callable[[Any, Any], float]) -> Scorer:
    """Return a scorer that compares (expected, answer), neither of them None, after the rule that all built-in scorers follow.

    No answer (None) scores 0. Where the task expects None, 1 goes to an abstention and to nothing else. Where it expects something,
    an abstention scores 0, unless the expected text is one itself.
    """

    def score(judgement: Judgement) -> float:
        expected, answer = judgement.task.expected, judgement.answer
        if answer is None:
            return 0.0
        abstained = is_abstention(answer)
        if expected is None:
            return float(abstained)
        if abstained and not is_abstention(expected):
            return 0.0
        return compare(expected, answer)

    return score


def check_tolerance(tolerance: Any) -> None:
    """Raise ValueError for a tolerance that is not a finite number from 0."""
    number = None if isinstance(tolerance, str) else number_in(tolerance)
    if number is None or number < 0:
        raise ValueError(f"tolerance must be a finite number that is not negative, not {tolerance!r}")


def equal(expected: Any, answer: Any, tolerance: float | None = None) -> bool:
    """Return whether two JSON values are equal, however deep; floats may differ by the relative tolerance, if one is given."""
    pairs = [(expected, answer)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            if left.keys() != right.keys():
                return False
            pairs.extend((left[key], right[key]) for key in left)
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif not _equal_leaves(left, right, tolerance):
            return False
    return True


def _equal_leaves(left: Any, right: Any, tolerance: float | None) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        if tolerance is None or (isinstance(left, int) and isinstance(right, int)):
            return left == right
        left_number, right_number = number_in(left), number_in(right)
        return left_number is not None and right_number is not None and close(left_number, right_number, tolerance)
    return type(left) is type(right) and bool(left == right)


def close(wanted: float, value: float, tolerance: float) -> bool:
    """Return whether two numbers differ by no more than the tolerance, relative to the one wanted."""
    return abs(wanted - value) <= max(tolerance * abs(wanted), _TINY)


def number_in(value: Any) -> float | None:
    """Return a finite number: the value itself, or the last one in a text; None if absent."""
    if isinstance(value, str):
        return _last_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


_DIGITS = r"(?:(?:\d{1,3}(?:[,_'\u00a0\u2009\u202f]\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\w)\.\d+)"
_NUMBER = re.compile(
    rf"""
    (?: (?<![\w)\]^-]) (?P<sign>[-\u2212\u2013]) (?:[$€£¥₹]\s?)? )?  # a dash behind a word, a digit or a bracket is not a minus
    (?<![A-Za-z_\d^]) (?<!\^[-\u2212\u2013]) (?P<number>{_DIGITS})   # neither H2O nor m^2 holds a number
    (?: [eE](?P<exponent>[-+]?\d+) | \s?(?:[x\u00d7*\u00b7]|\\times)\s?10\s?(?:\^|\*\*)\{{?(?P<power>[-+\u2212]?\d+) )?
    (?: \s?/\s?(?P<over>{_DIGITS}) )?
    """,
    re.VERBOSE,
)
_SEPARATORS = str.maketrans(dict.fromkeys(",_'\u00a0\u2009\u202f") | {"\u2212": "-"})


def _last_number(text: str) -> float | None:
    last = None
    for match in _NUMBER.finditer(text):
        last = match
    return None if last is None else _value_of(last)


def _value_of(match: re.Match[str]) -> float | None:
    exponent = match["exponent"] or match["power"] or "0"
    number = float(f"{match['number']}e{exponent}".translate(_SEPARATORS))
    if match["over"]:
        over = float(match["over"].translate(_SEPARATORS))
        if over == 0:
            return None
        number /= over
    if not math.isfinite(number):
        return None
    return -number if match["sign"] else number


def items_in(value: Any) -> list[Any] | None:
    """Return the items of a list, or of a text: a JSON list, or items between commas or line ends. None if absent."""
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str):
        return [value]
    listed = from_json(value)
    if isinstance(listed, list):
        return listed
    parts = [part.strip().removeprefix("and ").strip() for part in re.split(r"[,\n]", value.strip().strip("[](){}"))]
    return [part for part in parts if part] or None


def item_key(item: Any) -> Hashable:
    """Return what is equal for items that count as equal: numbers to nine significant digits, text normalized, all else as JSON."""
    if isinstance(item, str):
        match = _NUMBER.fullmatch(item.strip())
        number = None if match is None else _value_of(match)
        if number is None:
            return "text", squad_form(item, MARK_OUTSIDE_NUMBERS) or item.strip().casefold()
    else:
        number = number_in(item)
        if number is None:
            return "json", canonical(item)
    return "number", float(f"{number:.9g}") + 0.0


def from_json(text: str) -> Any:
    """Return the value of a JSON text; None if it is not JSON, is too deep, or holds too long an integer."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# --- text ---

MARK = re.compile(r"[^\w\s]|_")
MARK_OUTSIDE_NUMBERS = re.compile(r"(?!\.\d)(?!(?<!\w)-\.?\d)[^\w\s]|_")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def squad_form(text: str, marks: re.Pattern[str]) -> str:
    """Return SQuAD's normal form: lower case, no punctuation (Unicode's too, as in MLQA), no articles, single spaces."""
    bare = marks.sub(_without_punctuation, text.casefold().replace("\u2212", "-"))
    return " ".join(_ARTICLE.sub(" ", bare).split())


def _without_punctuation(match: re.Match[str]) -> str:
    mark = match[0]
    return "" if mark in string.punctuation or unicodedata.category(mark).startswith("P") else mark
