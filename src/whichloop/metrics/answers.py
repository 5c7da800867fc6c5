"""What scorers share: the rule about answers that are missing, and readers of numbers, lists and text."""

from __future__ import annotations

import json
import math
import re
import string
import unicodedata
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from whichloop.datasets.task import Task
from whichloop.protocol.values import canonical


@dataclass(frozen=True, slots=True)
class Judgement:
    """All that a scorer may look at."""

    task: Task
    answer: Any
    """The loop's answer, text or a JSON value; None where it gave none."""
    stop: str | None
    """Why the run ended, a `StopReason`."""
    state: Any = None
    """The environment's end state as JSON; None where there is none."""


Scorer = Callable[[Judgement], float]
"""Gives a value in [0, 1]."""


def is_abstention(answer: object) -> bool:
    """Return whether a text says, as a whole or in its leading statement, that there is no answer or that nobody can know it.

    Silence (None, empty text) is not an abstention, nor is what a harness or a loop writes when it gives up ("Maximum steps reached
    without final answer", "No answer was produced."). English only.
    """
    if not isinstance(answer, str):
        return False
    lead = answer.lstrip()[:_LEAD_CHARS].casefold().replace("\u2019", "'")
    return _ABSTENTION.match(lead) is not None


_LEAD_CHARS = 600
"""A leading statement is over by then; what follows is not read."""

_NOT = r"(?:can\s?not|can't|could\s+not|couldn't)"
_TELL = r"(?:determine|answer|say|tell|know|infer|establish|calculate|compute|derive|deduce|ascertain|conclude)"
_TOLD = r"(?:determined|answered|known|inferred|established|calculated|computed|derived|deduced|ascertained|concluded)"
_MATERIAL = r"(?:information|data|evidence|context|details?)"
_OPENER = (
    r"(?:(?:i'm|i\s+am|we\s+are)\s+sorry|sorry|unfortunately|but"
    r"|(?:the\s+)?(?:final\s+)?answer(?=\s*[:=]|\s+is\b)(?:\s+is\b)?)[\W_]*"
)
_SUBJECT = r"(?:(?!(?:but|although|though|while|and|because|since|so|if|or)\b|\w*\d)[\w'-]+\s+){0,8}?"
_ENDS = (
    r"(?=\W*$|[^\w\s](?!\w)|\s+[^\w\s]|\s*\n"
    r"|\s+(?:because|since|as|from|based|given|due|in\s+the|by\s+the|with\s+the|to\s+me|at\s+this|at\s+present)\b)"
)
"""What must follow a bare word, so that "Unknown Soldier" is an answer."""

_ABSTENTION = re.compile(
    rf"""
    [\W_]* (?:{_OPENER}){{0,3}}
    (?:
        {_SUBJECT} {_NOT}\s+be\s+{_TOLD}\b
      | {_SUBJECT} (?:is|was|are|were|remains)\s+(?:not\s+(?:determined|determinable|known|answerable)|unknown|undetermined
          |unanswerable|indeterminate|undeterminable)\b {_ENDS}
      | (?:i|we)\s+(?:do\s+not|don't)\s+know\b
      | (?:(?:i|we)\s+)? (?:{_NOT}|(?:(?:i'm|am|are|is|was|were)\s+)?(?:unable|not\s+able)\s+to)\s+{_TELL}\b
      | (?:(?:i|we)\s+)? {_NOT}\s+find\s+(?:an|any|the|enough|sufficient)\s+(?:answer|{_MATERIAL})\b
      | (?:it\s+is|it's|it\s+was)\s+(?:not\s+possible|impossible|unclear)\s+to\s+{_TELL}\b
      | (?:there\s+(?:is|was|are)\s+)? (?:not\s+enough|insufficient|not\s+sufficient)\s+(?:\w+\s+)?{_MATERIAL}\b
      | (?:there\s+(?:is|was|are)\s+)? no\s+{_MATERIAL}\s+(?:(?:is|was|are)\s+)?(?:available|given|provided|about|on|regarding)\b
      | (?:the|this)\s+(?:passage|text|context|document|question|article)\s+(?:does\s+not|doesn't)\s+
          (?:say|state|mention|specify|provide|contain|give|tell)\b
      | (?: not\s+(?:determined|determinable|known|answerable|available|specified|stated|mentioned|given|provided)
          | unknown | undetermined | unanswerable | indeterminate | undeterminable | noanswer | no\s+{_MATERIAL}
          | (?:there\s+is\s+)?no\s+answer(?:\s+(?:exists|(?:is\s+)?possible|(?:is\s+)?available|(?:was\s+)?found
              |(?:can|could)\s+be\s+(?:given|found|determined)))?
        ) {_ENDS}
      | n/a \W*$
    )
    """,
    re.VERBOSE,
)


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
        last = None
        for match in _NUMBER_OR_WORD.finditer(_plain(value)):
            last = match if match["number"] else last
        return None if last is None else _value_of(last)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


_DIGITS = r"(?:(?:\d{1,3}(?:[,_'\u00a0\u2009\u202f]\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\w)\.\d+)"
_CURRENCY = (
    r"(?:AED|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|PHP|PLN|RMB|RUB|SAR|SEK|SGD|THB|TRY"
    r"|USD|VND|ZAR|R[Ss]\.?)"
)
_NUMBER = rf"""
    (?: (?<![\w)\]^-]) (?P<sign>[-\u2212\u2013]) (?:[$€£¥₹]\s?)? )?  # a dash behind a word, a digit or a bracket is not a minus
    (?: (?<![A-Za-z]) {_CURRENCY}\s? | (?<![A-Za-z_\d^]) (?<!\^[-\u2212\u2013]) (?<![_^]\{{) (?<![_^]\{{[-\u2212\u2013]) )
    (?P<number>{_DIGITS})   # neither H2O nor m^2 nor m^{{2}} holds a number
    (?: [eE](?P<exponent>[-+]?\d+) | \s?(?:[x\u00d7*\u00b7]|\\times)\s?10\s?(?:\^|\*\*)\{{?(?P<power>[-+\u2212]?\d+) )?
    (?: \s?/\s?(?P<over>{_DIGITS}) )?
    """
_ONE_NUMBER = re.compile(_NUMBER, re.VERBOSE)
_NUMBER_OR_WORD = re.compile(rf"{_NUMBER} | [A-Za-z_][A-Za-z_0-9]*(?:(?<=\d)[.,]\d+)*", re.VERBOSE)
"""A word with digits, such as `B1,500`, holds no number, nor does its end."""
_LATEX = (
    (re.compile(r"\{,\}|,\\!\s*"), ","),
    (re.compile(r"(?<=\d)\\[,;: ](?=\d)"), "\u2009"),
    (re.compile(r"\\(?=[$%])"), ""),
)
"""How LaTeX parts thousands and marks money, and the plain form."""
_FRACTION = re.compile(
    rf"(?P<whole>\d+\s*)?\\[cdt]?frac\s*(?:\{{\s*([-\u2212]?{_DIGITS})\s*\}}\s*\{{\s*({_DIGITS})\s*\}}|(\d)(\d))"
)
_LAKHS = re.compile(r"(?<=[₹.sR])\s?\d{1,2}(?:,\d{2})+,\d{3}(?!\d)")
"""Rupees, whose thousands are parted so: Rs1,50,000."""


def _plain(text: str) -> str:
    """Return a text with the numbers of LaTeX and of rupees as they are read."""
    if "\\" in text:
        for pattern, plain in _LATEX:
            text = pattern.sub(plain, text)
        text = _FRACTION.sub(_plain_fraction, text)
    return _LAKHS.sub(lambda match: match[0].replace(",", ""), text)


def _plain_fraction(match: re.Match[str]) -> str:
    over, under = (part.translate(_SEPARATORS) for part in (match[2] or match[4], match[3] or match[5]))
    if not match["whole"] or not float(under):
        return f"{over}/{under}"
    return repr(float(match["whole"]) + float(over) / float(under))


_SEPARATORS = str.maketrans(dict.fromkeys(",_'\u00a0\u2009\u202f") | {"\u2212": "-"})


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
        match = _ONE_NUMBER.fullmatch(_plain(item.strip()))
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
