"""Checked values from a file that may hold anything: each has the requested type, or a one-line ValueError describes it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted

MAX_COUNT = 10**15
"""Maximum number of steps, calls or tokens of one trial."""
MAX_AMOUNT = 1e15
"""Maximum number of dollars or seconds."""
MAX_NAME_CHARS = 300
"""Maximum length of the name of a task, arm or cluster."""
MAX_REASON_CHARS = 300
MAX_ANSWER_CHARS = 4000
MAX_SHOWN = 60
"""Maximum number of characters of a bad value in an error."""
ROUNDING = 1e-9
"""Tolerance for a score outside of its scale."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
"""Either a number whose thousands stand apart or, with one comma, one with three decimals."""
_OTHER_MONEY = re.compile(r"\s*([€£¥])?\s*[+-]?[\d.,]*\d\s*(?(1)|(€|£|¥|EUR|GBP|JPY|CNY|CHF|INR))\s*", re.ASCII | re.IGNORECASE)
_TWO_PARTS = re.compile(r"(\d{1,3}):([0-5]\d)", re.ASCII)
"""Minutes and seconds, or hours and minutes."""
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a UTF-16 pair, which JSON can represent alone and UTF-8 cannot."""
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer: Inspect's `value_to_float`."""
_WORDS = {
    **dict.fromkeys(("yes", "y", "true", "pass", "passed", "success", "correct", "right", "✓", "✔", "✅", "☑"), 1.0),
    **dict.fromkeys(("no", "n", "false", "fail", "failed", "failure", "incorrect", "wrong", "✗", "✘", "❌", "✕", "✖"), 0.0),
}
_UNDERSTOOD = "words that are understood are PASS and FAIL, yes and no, ✓ and ✗, C, P and I; in a table ERROR and skipped, too"
_AS_EMOJI = "\ufe0f"
"""What a spreadsheet may put behind a sign, so that it is shown in colour."""
_NOTHING = frozenset({"", "nan", "na", "n/a", "null", "none", "#n/a", "<na>", "nat", "-", "–", "—"})
"""The spellings of a missing value in tables."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Prefix the message of a ValueError raised inside with its place."""
    try:
        yield
    except SeveralScoresError as error:
        raise SeveralScoresError(f"{where}: {error}", error.choice) from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def short_value(value: Any) -> str:
    """Return a bad value as a short text."""
    if isinstance(value, int) and abs(value) > MAX_COUNT:
        return "a huge number"  # Python does not print more than 4,300 digits
    return cut(repr(value), MAX_SHOWN)


def cut(text: str, most: int) -> str:
    """Cut a text to a length, with an ellipsis if it was longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object; None counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is not an object: {short_value(value)}")
    return value


def json_array(value: Any, what: str) -> Sequence[Any]:
    """Return a JSON array; None counts as an empty one."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{what} is not a list: {short_value(value)}")
    return value


def object_at(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the JSON object under a key; empty if absent."""
    return mapping(data.get(key), key)


def list_at(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return the JSON array under a key; empty if absent."""
    return json_array(data.get(key), key)


def objects_at(data: Mapping[str, Any], key: str, what: str) -> list[Mapping[str, Any]]:
    """Return the JSON objects in the array under a key; `what` names one of them."""
    return [mapping(item, what) for item in list_at(data, key)]


def name_of(value: Any, what: str) -> str:
    """Return a name on one line, from text or a number, such as the 2.1 of a version, or a truth value, as a table has them."""
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{what} is empty")
    if not isinstance(value, str | int | float):
        raise ValueError(f"{what} is not a name: {short_value(value)}")
    text = short_value(value) if isinstance(value, int) and abs(value) > MAX_COUNT else " ".join(str(value).split())
    if not text:
        raise ValueError(f"{what} is empty")
    if _HALF.search(text):
        raise ValueError(f"{what} holds half a character: {short_value(text)}")
    if len(text) > MAX_NAME_CHARS:
        raise ValueError(f"{what} has {len(text)} characters, more than {MAX_NAME_CHARS}: {short_value(text)}")
    return text


def label_of(value: Any, what: str) -> str:
    """Return a cluster label as text; empty if absent."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool | float):
        return str(value)
    return name_of(value, what)


def is_nothing(value: Any) -> bool:
    """Tell whether a value is None, NaN, or a cell that spells it."""
    if isinstance(value, str):
        return value.strip().lower() in _NOTHING
    return value is None or (isinstance(value, float) and math.isnan(value))


def finite_number(value: Any, what: str) -> float | None:
    """Return a finite number, also from text; None if absent."""
    if is_nothing(value):
        return None
    if isinstance(value, str):
        text = value.strip()
        if _THOUSANDS.fullmatch(text):
            decimal = f", or {text.replace(',', '.')} if that is a decimal comma" if text.count(",") == 1 else ""
            raise ValueError(f"{what} is written with a comma: {short_value(text)}; write {text.replace(',', '')}{decimal}")
        if _DECIMAL_COMMA.fullmatch(text):
            raise ValueError(f"{what} is written with a comma: {short_value(text)}; write a point, {text.replace(',', '.')}")
        value = float(text) if _NUMBER.fullmatch(text) else text
    if isinstance(value, bool) or not isinstance(value, int | float):
        money = _OTHER_MONEY.fullmatch(value) if isinstance(value, str) else None
        cure = f"; convert {money[1] or money[2]} to US dollars" if money else _two_clocks(value)
        raise ValueError(f"{what} is not a number: {short_value(value)}{cure}")
    if abs(value) > MAX_AMOUNT:  # infinite ones too
        raise ValueError(f"{what} is not a plausible number: {short_value(value)}")
    return float(value)


def is_number(value: Any) -> bool:
    """Tell whether a value is a number, also as text; a truth value, and a word that is a score, are none."""
    try:
        return finite_number(value, "the value") is not None
    except ValueError:
        return False


def _two_clocks(value: Any) -> str:
    """Return both meanings of a time of two parts, `1:50`; empty for anything else."""
    clock = _TWO_PARTS.fullmatch(value.strip()) if isinstance(value, str) else None
    if clock is None:
        return ""
    first, second = clock.groups()
    return f"; write 0:{first:0>2}:{second} if it is {first} min {second} s, or {first}:{second}:00 if it is {first} h {second} min"


def number_from_zero(value: Any, what: str) -> float | None:
    """Return a number from 0 on, such as dollars or seconds; None if absent."""
    result = finite_number(value, what)
    if result is not None and result < 0:
        raise ValueError(f"{what} is negative: {short_value(value)}")
    return result


def count(value: Any, what: str) -> int | None:
    """Return a whole number from 0 on; None if absent."""
    result = number_from_zero(value, what)
    if result is not None and not result.is_integer():
        raise ValueError(f"{what} is not a whole number: {short_value(value)}")
    return None if result is None else int(result)


def share(value: Any, what: str) -> float | None:
    """Return a number from 0 to 1; None if absent."""
    result = finite_number(value, what)
    if result is not None and not 0 <= result <= 1:
        raise ValueError(f"{what} is not within 0 and 1: {short_value(value)}")
    return result


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """A scale of scores: `worst` becomes 0, `best` 1. `best` may be the smaller one."""

    worst: float = 0.0
    best: float = 1.0

    @classmethod
    def parse(cls, text: str) -> ScoreScale:
        """Read a scale such as `0,100`. Raises ValueError."""
        parts = text.split(",")
        with located(f"scale {short_value(text)}"):
            if len(parts) != 2:
                raise ValueError("write WORST,BEST, such as 0,100")
            ends = [finite_number(part, "an end") for part in parts]
            if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
                raise ValueError("write two different numbers, such as 0,100")
        return cls(ends[0], ends[1])

    def __str__(self) -> str:
        return f"{self.worst:g},{self.best:g}"


UNIT = ScoreScale()


def score(value: Any, scale: ScoreScale | None) -> float | None:
    """Return a score in [0, 1] from a number on the scale, a truth value, a letter (C, P, I, N) or a word; None if absent.

    Raises ValueError for any other value, and for a number outside of the scale.
    """
    if is_nothing(value):
        return None
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        word = value.strip()
        by_word = _LETTERS.get(word, _WORDS.get(word.lower().removesuffix(_AS_EMOJI)))
        if by_word is not None:
            return by_word
        if word and not any(map(str.isdecimal, word)):
            raise ValueError(f"the score is not a number: {short_value(value)}; {_UNDERSTOOD}")
    raw = finite_number(value, "the score")
    if raw is None:
        return None
    ends = scale or UNIT
    scaled = (raw - ends.worst) / (ends.best - ends.worst)
    if not -ROUNDING <= scaled <= 1 + ROUNDING:
        low, high = sorted((ends.worst, ends.best))
        hint = "" if scale else "; say what the scale is, --scale 0,100 say"
        raise ValueError(f"the score {raw:g} is not within {low:g} and {high:g}{hint}")
    return min(max(scaled, 0.0), 1.0)


def score_range(numbers: Sequence[float]) -> str:
    """Return `scores 1 to 5`, or `scores of 3` where all are the same."""
    low, high = min(numbers), max(numbers)
    return f"scores {low:g} to {high:g}" if low < high else f"scores of {low:g}"


def off_scale(values: Iterable[tuple[str, Any]], where: str) -> str:
    """Return the first number that is not within 0 and 1, with the range of all and what says their scale; empty where all are.

    `values`: of each its place, such as `line 3`. `where`: what they are of, such as `column 'grade'`. No number, no matter.
    """
    numbers = dict[str, float]()
    for place, value in values:
        with suppress(ValueError):
            in_range = None if isinstance(value, bool) else finite_number(value, where)
            numbers |= {} if in_range is None else {place: in_range}
    off = next((place for place, in_range in numbers.items() if not -ROUNDING <= in_range <= 1 + ROUNDING), None)
    if off is None:
        return ""
    low, high = min(numbers.values()), max(numbers.values())
    ends = ScoreScale(low, high) if low < high else ScoreScale(0.0, high)
    problem = f"{off}: the score {numbers[off]:g} is not within 0 and 1: {score_range([low, high])} in {where}"
    return f"{problem}; say what the scale is, its worst and its best: --scale {ends}, say"


class SeveralScoresError(ValueError):
    """Several scores may be the accuracy, and the user did not say which."""

    def __init__(self, message: str, choice: str) -> None:
        super().__init__(message)
        self.choice = choice
        """One of them."""


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


def metadata_label(metadata: Any, key: str | None) -> str:
    """Return the cluster that the metadata names under `key`; empty if absent."""
    if key is None or not isinstance(metadata, Mapping):
        return ""
    return label_of(metadata.get(key), f"metadata {short_value(key)}")


def without_floats(value: Any) -> Any:
    """Return JSON with numbers as text, so that NaN and infinity have a digest."""
    if isinstance(value, dict):
        return {name: without_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_floats(item) for item in value]
    return str(value) if isinstance(value, float) else value


def reason_line(value: Any) -> str:
    """Return a reason or an error on one line, short, without secrets."""
    return cut(redact(" ".join(str(value).split())), MAX_REASON_CHARS)


def answer_of(value: Any) -> Any:
    """Return an answer as a record keeps it: JSON without secrets, cut if it is long."""
    if value is None or isinstance(value, bool | int | float):
        return value if value is None or abs(value) <= MAX_AMOUNT else short_value(value)
    text = redact(value if isinstance(value, str) else json.dumps(value))
    return cut(text, MAX_ANSWER_CHARS)


def is_cut(answer: Any) -> bool:
    """Tell whether `answer_of` has cut an answer, by how it ends."""
    return isinstance(answer, str) and len(answer) == MAX_ANSWER_CHARS and answer.endswith("…")


def names_in_a_line(names: Sequence[str], most: int = 8) -> str:
    """Return the first names and the number of others."""
    first = [cut(name, MAX_SHOWN) for name in names[:most]]
    return ", ".join(first) + (f" and {counted(len(names) - most, 'other')}" if len(names) > most else "")


INPUT, OUTPUT, TOTAL = ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"), ("total_tokens",)
"""Names of the counts in a usage, as providers write it."""


class TokenUsage(NamedTuple):
    """The tokens of a request."""

    input: int
    output: int
    """With what stands in the total only."""
    beyond_parts: int = 0
    """What the total has more than the input and the output that were told, a part of `output`; negative: what it has less."""


def with_total(input_tokens: int, output_tokens: int, total: int | None) -> TokenUsage:
    """Return input and output; what the total has more than both belongs to the output."""
    beyond = total - input_tokens - output_tokens if total else 0
    return TokenUsage(input_tokens, output_tokens + max(beyond, 0), beyond)


def usage_in(usage: Mapping[str, object], names: Sequence[Sequence[str]] = (INPUT, OUTPUT, TOTAL)) -> TokenUsage | None:
    """Return the tokens of a request by the names of input, output and total; None unless input and output are told.

    Raises ValueError for what is no count.
    """
    counts = [_first(usage, these) for these in names]
    return None if counts[0] is None or counts[1] is None else with_total(counts[0], counts[1], counts[2])


def _first(usage: Mapping[str, object], names: Sequence[str]) -> int | None:
    return next((value for name in names if (value := count(usage.get(name), name)) is not None), None)


@dataclass(frozen=True, slots=True)
class ToldTotal:
    """A trial whose total is not the sum of its input and its output."""

    place: str
    """Where it stands: `line 2`."""
    total: int
    parts: int
    """Input and output together."""


def total_is_more(name: str, totals: Sequence[ToldTotal], of: str) -> str:
    """Return what the user is told of totals that have more than input and output. `name`: the total's. `of`: `12 rows`."""
    first = totals[0]
    return (
        f"{name} is more than input + output in {len(totals):,} of {of} ({first.total:,} against {first.parts:,}, first in "
        f"{first.place}): the total is counted, and what it has more as output"
    )


def total_is_less(name: str, totals: Sequence[ToldTotal], of: str) -> str:
    """Return what is amiss where totals have less than input and output."""
    first = totals[0]
    return (
        f"{name} is less than input + output in {len(totals):,} of {of} ({first.total:,} against {first.parts:,}, first in "
        f"{first.place})"
    )
