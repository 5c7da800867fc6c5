"""The built-in scorers, and the way from a task's scorer, as it is written, to the trial's scores.

A scorer's name stands for a function that takes its options as keywords and returns the scorer. Every one but `bfcl`, which judges
calls, compares by the rule of `answers.answer_scorer`. None raises for an answer, whatever it is.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from whichloop.protocol import HARNESS_STOPS, render_value
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.names import nearest, own_object, parse_spec
from whichloop.protocol.values import snapped

from .answers import (
    DEFAULT_TOLERANCE,
    MARK,
    MARK_OUTSIDE_NUMBERS,
    Judgement,
    Scorer,
    answer_scorer,
    check_tolerance,
    close,
    equal,
    from_json,
    is_abstention,
    item_key,
    items_in,
    number_in,
    squad_form,
)
from .record import FaultRecord

__all__ = ["SCORERS", "is_abstention", "reads_state", "scorer_named", "scores_of"]


def bfcl(checker: str = "official") -> Scorer:
    """1 iff the end state's calls are those that a task of the suite `bfcl` expects and an answer was given, whatever it says.

    `checker`: there is the `official` one.
    """
    if checker != "official":
        raise ValueError(f"scorer 'bfcl': checker is {checker!r}, and must be official")
    suite = import_module("whichloop.datasets.bfcl")  # only where its tasks are scored

    def score(judgement: Judgement) -> float:
        if judgement.task.expected is None:
            return float(is_abstention(judgement.answer))
        has_answer = judgement.answer is not None and render_value(judgement.answer).strip() != ""
        return float(has_answer and suite.calls_are_right(judgement.task, judgement.state))

    return score


def _without_options(compare: Callable[[Any, Any], float]) -> Callable[[], Scorer]:
    """Return the factory of a scorer that compares (expected, answer), and takes no options."""

    @functools.wraps(compare)
    def factory() -> Scorer:
        return answer_scorer(compare)

    return factory


@_without_options
def contains(expected: Any, answer: Any) -> float:
    """1 iff each of the expected texts stands in the answer, whatever the case; commas do not count. None expected: any answer."""
    text, *wanted = (
        render_value(value).replace(",", "").casefold()
        for value in (answer, *(expected if isinstance(expected, list | tuple) else [expected]))
    )
    return float(bool(text.strip()) and all(item in text for item in wanted))


@_without_options
def exact(expected: Any, answer: Any) -> float:
    """1 iff equal as JSON values, white space around text aside; text beside a value of another type is read as JSON."""
    if isinstance(expected, str):
        return float(expected.strip() == render_value(answer).strip())
    return float(equal(expected, from_json(answer) if isinstance(answer, str) else answer))


@_without_options
def f1(expected: Any, answer: Any) -> float:
    """Token F1 of SQuAD (Rajpurkar et al. 2016, arXiv:1606.05250; its `evaluate-v2.0.py`), in [0, 1]."""
    expected_words = Counter(squad_form(render_value(expected), MARK).split())
    answer_words = Counter(squad_form(render_value(answer), MARK).split())
    if not expected_words or not answer_words:
        return float(expected_words == answer_words)
    return 2 * (expected_words & answer_words).total() / (expected_words.total() + answer_words.total())


@_without_options
def normalized(expected: Any, answer: Any) -> float:
    """1 iff equal as text without case, punctuation, articles and white space; a number keeps its sign and its decimal point."""
    left, right = render_value(expected), render_value(answer)
    plain_left, plain_right = squad_form(left, MARK_OUTSIDE_NUMBERS), squad_form(right, MARK_OUTSIDE_NUMBERS)
    if not plain_left or not plain_right:  # nothing but punctuation or articles: it is what was meant
        return float(left.strip().casefold() == right.strip().casefold())
    return float(plain_left == plain_right)


def numeric(tolerance: float = DEFAULT_TOLERANCE) -> Scorer:
    """1 iff the last number in the answer lies within `tolerance` x |expected|.

    It reads thousands separators, signs, scientific notation and fractions (3/4), those of LaTeX too, with currency, % and units
    around them: 50% is 50. It reads no decimal comma and no mixed number (1 3/4). Booleans, NaN and infinities are not numbers.
    Raises ValueError for a negative or infinite tolerance.
    """
    check_tolerance(tolerance)

    def compare(expected: Any, answer: Any) -> float:
        expected_number, answer_number = number_in(expected), number_in(answer)
        return float(expected_number is not None and answer_number is not None and close(expected_number, answer_number, tolerance))

    return answer_scorer(compare)


def schema(tolerance: float = DEFAULT_TOLERANCE) -> Scorer:
    """1 iff the answer is valid under the query's JSON schema (draft 2020-12) and equals the expected value.

    Floats may differ by `tolerance` x |expected|. Text that the schema does not take is read as JSON first.
    Raises ValueError for a negative or infinite tolerance; the scorer raises `jsonschema`'s errors for a broken schema.
    """
    check_tolerance(tolerance)

    def score(judgement: Judgement) -> float:
        rules = judgement.task.query.schema

        def compare(expected: Any, answer: Any) -> float:
            readings = [answer, from_json(answer)] if isinstance(answer, str) else [answer]
            return float(any(_is_valid(reading, rules) and equal(expected, reading, tolerance) for reading in readings))

        return answer_scorer(compare)(judgement)

    return score


def _is_valid(value: Any, rules: Mapping[str, Any] | None) -> bool:
    """Return whether the value is JSON and keeps the schema. References outside of the schema are refused, never fetched."""
    try:
        canonical_json(value)
    except (TypeError, ValueError, RecursionError):
        return False
    if rules is None:
        return True
    validator, registry = import_module("jsonschema").Draft202012Validator, import_module("referencing").Registry()
    try:
        return bool(validator(rules, registry=registry).is_valid(value))
    except (RecursionError, OverflowError):  # nested too deep for a recursive schema; too long an integer for `multipleOf`
        return False


@_without_options
def same_items(expected: Any, answer: Any) -> float:
    """1 iff the same items in any order, each as often: lists, or text separated by commas or lines. Named "set"."""
    expected_items, answer_items = items_in(expected), items_in(answer)
    if expected_items is None or answer_items is None:
        return 0.0
    return float(Counter(map(item_key, expected_items)) == Counter(map(item_key, answer_items)))


SCORERS: Final[Mapping[str, Callable[..., Scorer]]] = {
    "bfcl": bfcl,
    "contains": contains,
    "exact": exact,
    "f1": f1,
    "normalized": normalized,
    "numeric": numeric,
    "schema": schema,
    "set": same_items,
}

_parsed = functools.lru_cache(maxsize=256)(parse_spec)  # a run scores thousands of trials with a handful of specs


def scorer_named(spec: str) -> Scorer:
    """Return the scorer that a spec names: `numeric`, `numeric(tolerance=0.01)`, `package.module:name`; options are TOML values.

    A name with a colon is imported: the scorer itself, or with brackets a function that takes the options and returns the scorer.
    It is looked up every time, since a notebook may define it anew.
    Raises ValueError for an unknown scorer, naming the nearest and all known ones, and for an unknown option or a wrong value.
    """
    try:
        name = _parsed(spec).name
    except ValueError as error:
        raise ValueError(f"scorer {error}") from None
    if ":" not in name and name not in SCORERS:
        raise ValueError(f"unknown scorer {name!r}; {nearest(name, SCORERS)}, or package.module:name")
    found: Any = own_object("scorer", name) if ":" in name else SCORERS[name]
    if not callable(found):
        raise ValueError(f"scorer {name!r} is a {type(found).__name__}, not a function of a Judgement")
    return _with_options(spec, found) if name in SCORERS or spec.rstrip().endswith(")") else _of_one_argument(name, found)


@functools.lru_cache(maxsize=256)
def _with_options(spec: str, factory: Callable[..., Any]) -> Scorer:
    name, options = _parsed(spec).name, _parsed(spec).options
    try:
        scorer = factory(**options)
    except TypeError as error:  # an option is unknown or missing, or has a type that the scorer does not take
        raise ValueError(f"scorer {name!r}: {error}") from error
    if not callable(scorer):
        raise ValueError(f"scorer {name!r} gives a {type(scorer).__name__}, not a function of a Judgement")
    return _of_one_argument(name, scorer)


def _of_one_argument(name: str, scorer: Callable[..., Any]) -> Scorer:
    try:
        signature = inspect.signature(scorer)
    except (TypeError, ValueError):  # some functions in C do not tell
        return scorer
    try:
        signature.bind(None)
    except TypeError:
        wanted = "a scorer takes one argument, a Judgement, and gives a number"
        raise ValueError(f"scorer {name!r} takes {signature}; {wanted}") from None
    return scorer


def reads_state(spec: str) -> bool:
    """Return whether a scorer may look at the end state: a built-in one says so, and one of the user's own may."""
    name = spec.partition("(")[0].strip()
    return name not in SCORERS or name == "bfcl"


def scores_of(judgement: Judgement) -> dict[str, float]:
    """Return all scores of one trial: `accuracy`, and where the end state counts too, its factors `answer` and `state`.

    A trial that the harness ended, by a limit or a crash, has not solved its task: what it answered, or did before, is no answer.
    A score within 1e-9 of 0 or 1 is that: a mean of weights may miss it by rounding.
    Raises ValueError for a scorer that returns a value outside of [0, 1], and whatever the user's own scorer raises.
    """
    task = judgement.task
    scorer = scorer_named(task.scorer)
    answer = 0.0 if judgement.stop in HARNESS_STOPS else snapped(float(scorer(judgement)))
    if not 0 <= answer <= 1:  # NaN too
        raise ValueError(f"gave {answer!r}, which is not in [0, 1]")
    if task.end_state is None:
        return {"accuracy": answer}
    state = float(equal(task.end_state, judgement.state, DEFAULT_TOLERANCE))
    return {"accuracy": answer * state, "answer": answer, "state": state}


def false_success(*, accuracy: float, answered: bool, faults: Sequence[FaultRecord], planned_call_unknown: bool) -> bool:
    """Whether a trial claims success that it did not have.

    Scored wrong (accuracy < 1), though it `answered`: with a value that is no abstention, whatever the loop says of its stop. And
    either a fault that landed, was not absorbed and not recovered, or a planned call whose result the model never saw.
    """
    hurt = any(fault.landed and not fault.absorbed and not fault.recovered for fault in faults)
    return accuracy < 1 and answered and (hurt or planned_call_unknown)
