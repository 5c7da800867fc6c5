"""Scorers: how right an answer is, in [0, 1], from one argument.

One rule holds for every built-in scorer, before its own comparison: no answer (None) scores 0; where the task expects None, it has
no answer, and 1 goes to the answer that says so (`is_abstention`) and to no other; where it expects something, an abstention scores
0, unless the expected text is itself one. No built-in scorer raises for an answer, whatever it is. `bfcl` alone does not read an
answer that there is: it judges calls.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import referencing

from loopbench.protocol import render_value
from loopbench.protocol.digest import canonical_json
from loopbench.protocol.names import nearest, own_object, parse_spec

from .calls import same_calls
from .judgement import Judgement, Scorer

DEFAULT_TOLERANCE = 1e-6
"""Relative to the expected number."""
_TINY = 1e-12
"""Absolute, so that a rounding error beside an expected 0 is none."""


_Comparison = Callable[[Any, Any], float]
"""(expected, answer), neither of them None → [0, 1]."""


def exact() -> Scorer:
    """1 iff equal as JSON values, white space around text aside; text beside a value of another type is read as JSON."""
    return _scorer(_exact)


def normalized() -> Scorer:
    """1 iff equal as text without case, punctuation, articles and white space; a number keeps its sign and its decimal point."""
    return _scorer(_normalized)


def numeric(tolerance: float = DEFAULT_TOLERANCE) -> Scorer:
    """1 iff the last number in the answer lies within `tolerance` x |expected|.

    Read are thousands separators, signs, scientific notation and fractions (3/4), with currency, % and units around them: 50% is
    50. A decimal comma and a mixed number (1 3/4) are not. Booleans, NaN and infinities are no numbers.
    Raises ValueError for a negative or infinite tolerance.
    """
    _check_tolerance(tolerance)
    return _scorer(lambda expected, answer: _numeric(expected, answer, tolerance))


def items() -> Scorer:
    """1 iff the same items in any order, each as often: lists, or text separated by commas or lines. Named "set"."""
    return _scorer(_items)


def f1() -> Scorer:
    """Token F1 of SQuAD (Rajpurkar et al. 2016, arXiv:1606.05250; its `evaluate-v2.0.py`), in [0, 1]."""
    return _scorer(_f1)


def schema(tolerance: float = DEFAULT_TOLERANCE) -> Scorer:
    """1 iff the answer is valid under the query's JSON schema (draft 2020-12) and equals the expected value.

    Floats may differ by `tolerance` x |expected|. Text that the schema does not take is read as JSON first. Raises ValueError for a
    negative or infinite tolerance; the scorer itself raises `jsonschema`'s errors for a task whose schema is broken.
    """
    _check_tolerance(tolerance)

    def score(judgement: Judgement) -> float:
        rules = judgement.task.query.schema
        return _scorer(lambda expected, answer: _schema(expected, answer, rules, tolerance))(judgement)

    return score


def contains() -> Scorer:
    """1 iff each of the expected texts stands in the answer, whatever the case; commas do not count. None expected: any answer."""
    return _scorer(_contains)


def bfcl() -> Scorer:
    """1 iff the calls in the end state are those expected (`loopbench.metrics.calls`) and an answer was given, whatever it says."""
    unanswerable = _scorer(lambda expected, answer: 0.0)

    def score(judgement: Judgement) -> float:
        expected, answer = judgement.task.expected, judgement.answer
        if expected is None or answer is None:
            return unanswerable(judgement)
        return float(same_calls(expected, judgement.state) and render_value(answer).strip() != "")

    return score


SCORERS: Mapping[str, Callable[..., Scorer]] = {
    "exact": exact,
    "normalized": normalized,
    "numeric": numeric,
    "set": items,
    "f1": f1,
    "schema": schema,
    "contains": contains,
    "bfcl": bfcl,
}
"""The built-in scorers by name; each takes its options as keywords."""


@functools.lru_cache(maxsize=256)  # a run scores thousands of trials with a handful of specs
def scorer_named(spec: str) -> Scorer:
    """The scorer that a spec names: `numeric`, `numeric(tolerance=0.01)`, `package.module:name`; options are TOML values.

    A name with a colon is imported: the scorer itself, or with brackets a function that takes the options and gives it.
    Raises ValueError for an unknown scorer or option, naming the nearest and all known ones, and for an option's wrong value.
    """
    try:
        parsed = parse_spec(spec)
    except ValueError as error:
        raise ValueError(f"scorer {error}") from None
    name, options = parsed.name, parsed.options
    if ":" in name:
        found = _imported(name)
        return _made(name, found, options) if spec.rstrip().endswith(")") else found
    if name not in SCORERS:
        raise ValueError(f"unknown scorer {name!r}; {nearest(name, sorted(SCORERS))}, or package.module:name")
    return _made(name, SCORERS[name], options)


def reads_state(spec: str) -> bool:
    """Whether a scorer may look at the end state: of the built-in ones `bfcl` alone does."""
    name = spec.partition("(")[0].strip()
    return name == "bfcl" or name not in SCORERS


def scores_of(judgement: Judgement) -> dict[str, float]:
    """All scores of one trial: `accuracy`, and where the end state counts too, the `answer` and `state` that it is the product of.

    Raises ValueError for a scorer that gives a value outside of [0, 1], and whatever a scorer of one's own raises.
    """
    task = judgement.task
    answer = float(scorer_named(task.scorer)(judgement))
    if not 0 <= answer <= 1:  # NaN too
        raise ValueError(f"gave {answer!r}, which is not in [0, 1]")
    if task.end_state is None:
        return {"accuracy": answer}
    state = float(_equal(task.end_state, judgement.state, DEFAULT_TOLERANCE))
    return {"accuracy": answer * state, "answer": answer, "state": state}


def is_abstention(answer: Any) -> bool:
    """Whether a text says, as a whole or in its leading statement, that there is no answer or that it cannot be told.

    Silence (None, empty text) is none, nor is what a harness or a loop writes when it gives up ("Maximum steps reached without
    final answer", "No answer was produced."). English only.
    """
    if not isinstance(answer, str):
        return False
    lead = answer.lstrip()[:_LEAD_CHARS].casefold().replace("\u2019", "'")
    return _ABSTENTION.match(lead) is not None


# The common rule.


def _scorer(compare: _Comparison) -> Scorer:
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


# Comparisons.


def _exact(expected: Any, answer: Any) -> float:
    if isinstance(expected, str):
        return float(expected.strip() == render_value(answer).strip())
    value = _from_json(answer) if isinstance(answer, str) else answer
    return float(_equal(expected, value, None))


def _normalized(expected: Any, answer: Any) -> float:
    left, right = render_value(expected), render_value(answer)
    plain_left, plain_right = _plain(left, _MARK_OUTSIDE_NUMBERS), _plain(right, _MARK_OUTSIDE_NUMBERS)
    if not plain_left or not plain_right:  # nothing but punctuation or articles: it is what was meant
        return float(left.strip().casefold() == right.strip().casefold())
    return float(plain_left == plain_right)


def _numeric(expected: Any, answer: Any, tolerance: float) -> float:
    wanted, given = _number(expected), _number(answer)
    return float(wanted is not None and given is not None and _close(wanted, given, tolerance))


def _items(expected: Any, answer: Any) -> float:
    wanted, given = _list(expected), _list(answer)
    if wanted is None or given is None:
        return 0.0
    return float(Counter(map(_item_key, wanted)) == Counter(map(_item_key, given)))


def _f1(expected: Any, answer: Any) -> float:
    wanted = Counter(_plain(render_value(expected), _MARK).split())
    given = Counter(_plain(render_value(answer), _MARK).split())
    if not wanted or not given:
        return float(wanted == given)
    return 2 * (wanted & given).total() / (wanted.total() + given.total())


def _contains(expected: Any, answer: Any) -> float:
    text = render_value(answer).replace(",", "").casefold()
    wanted = expected if isinstance(expected, list | tuple) else [expected]
    return float(bool(text.strip()) and all(render_value(item).replace(",", "").casefold() in text for item in wanted))


def _schema(expected: Any, answer: Any, rules: Mapping[str, Any] | None, tolerance: float) -> float:
    readings = [answer, _from_json(answer)] if isinstance(answer, str) else [answer]
    return float(any(_valid(reading, rules) and _equal(expected, reading, tolerance) for reading in readings))


# Values.


def _equal(expected: Any, answer: Any, tolerance: float | None) -> bool:
    """Equality of JSON values at any depth; None: numbers must be equal, else floats may differ by the relative tolerance."""
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
        wanted, given = _number(left), _number(right)
        return wanted is not None and given is not None and _close(wanted, given, tolerance)
    return type(left) is type(right) and bool(left == right)


def _close(wanted: float, given: float, tolerance: float) -> bool:
    return abs(wanted - given) <= max(tolerance * abs(wanted), _TINY)


def _number(value: Any) -> float | None:
    """A finite number: the value itself, or the last one in a text."""
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
    (?: (?<![\w)\]^-]) (?P<sign>[-\u2212\u2013]) (?:[$€£¥₹]\s?)? )?  # a dash behind a word, a digit or a bracket is no minus
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


def _list(value: Any) -> list[Any] | None:
    """The items of a list, or of a text that is a JSON list or has items between commas or line ends; None where there are none."""
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str):
        return [value]
    listed = _from_json(value)
    if isinstance(listed, list):
        return listed
    parts = [part.strip().removeprefix("and ").strip() for part in re.split(r"[,\n]", value.strip().strip("[](){}"))]
    return [part for part in parts if part] or None


def _item_key(item: Any) -> Hashable:
    """Equal for items that count as equal: numbers to nine significant digits, text normalized, all else as JSON."""
    if isinstance(item, str):
        match = _NUMBER.fullmatch(item.strip())
        number = None if match is None else _value_of(match)
        if number is None:
            return "text", _plain(item, _MARK_OUTSIDE_NUMBERS) or item.strip().casefold()
    else:
        number = _number(item)
        if number is None:
            return "json", _json_text(item)
    return "number", float(f"{number:.9g}") + 0.0


def _json_text(value: Any) -> str:
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError):
        return render_value(value)


def _from_json(text: str) -> Any:
    """None where the text is no JSON, or none that Python reads: too deep, or an integer too long."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _valid(value: Any, rules: Mapping[str, Any] | None) -> bool:
    """Whether the value is JSON and keeps the schema. References outside of the schema are refused, never fetched."""
    try:
        canonical_json(value)
    except (TypeError, ValueError, RecursionError):
        return False
    if rules is None:
        return True
    try:
        return bool(jsonschema.Draft202012Validator(rules, registry=referencing.Registry()).is_valid(value))
    except (RecursionError, OverflowError):  # nested too deep for a recursive schema; too long an integer for `multipleOf`
        return False


# Text.

_MARK = re.compile(r"[^\w\s]|_")
_MARK_OUTSIDE_NUMBERS = re.compile(r"(?!\.\d)(?!(?<!\w)-\.?\d)[^\w\s]|_")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def _plain(text: str, marks: re.Pattern[str]) -> str:
    """SQuAD's normal form: lower case, no punctuation (Unicode's too, as in MLQA), no articles, single spaces."""
    bare = marks.sub(_without_punctuation, text.casefold().replace("\u2212", "-"))
    return " ".join(_ARTICLE.sub(" ", bare).split())


def _without_punctuation(match: re.Match[str]) -> str:
    mark = match[0]
    return "" if mark in string.punctuation or unicodedata.category(mark).startswith("P") else mark


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


# Specs.


def _made(name: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> Scorer:
    known = inspect.signature(factory).parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for option in options:
        if option not in known and not open_ended:
            raise ValueError(f"scorer {name!r}: unknown option {option!r}; {nearest(option, sorted(known))}")
    try:
        scorer = factory(**options)
    except TypeError as error:  # an option is missing, or has a type that the scorer does not take
        raise ValueError(f"scorer {name!r}: {error}") from error
    if not callable(scorer):
        raise ValueError(f"scorer {name!r} gives a {type(scorer).__name__}, not a function of a Judgement")
    made: Scorer = scorer
    return made


def _imported(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = own_object("scorer", name)
    if not callable(found):
        raise ValueError(f"scorer {name!r} is a {type(found).__name__}, not a function of a Judgement")
    return found


def _check_tolerance(tolerance: Any) -> None:
    number = None if isinstance(tolerance, str) else _number(tolerance)
    if number is None or number < 0:
        raise ValueError(f"tolerance must be a finite number that is not negative, not {tolerance!r}")
