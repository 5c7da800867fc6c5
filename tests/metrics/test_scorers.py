"""Every scorer: its range, the common rule about silence and abstention, what it takes for equal, and those of the user's own."""

from __future__ import annotations

import collections
import math
import re
import string
import warnings
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.task import Task
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import SCORERS, is_abstention, reads_state, scorer_named, scores_of
from whichloop.protocol import Query, StopReason

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)
EVERY = pytest.mark.parametrize("name", SCORERS)
FEWER = settings(max_examples=cases(6))  # of each scorer

ABSTENTIONS = [
    *("not determined", '"not determined"', "**Unknown**", "Unknown (the passage gives no date)", "Final answer: not determined"),
    *("It cannot be determined from the passage.", "The total cost can't be determined", "I don’t know", "No answer exists."),
    *("Unfortunately, I cannot answer this.", "There is not enough information to answer.", "The passage does not say.", "n/a"),
]
ANSWERS = [
    *("", "   ", "42", "no", "None", "Unknown Soldier", "unknown.txt", "Paris, as far as the rest cannot be determined"),
    *("42, the rest is unknown", "It is known", "No data was lost", "Maximum steps reached without final answer"),
    *("Agent terminated: 3 consecutive errors detected", "No answer was produced.", "Sorry, need more steps to process."),
]


def score(name: str, expected: Any, answer: Any, schema: dict[str, Any] | None = None) -> float:
    task = Task("t", Query("?", schema=schema), expected)
    return scorer_named(name)(Judgement(task, answer, "finished"))


# The common rule.


@EVERY
@FEWER
@given(expected=JSON, answer=JSON)
@example(expected=1, answer=10**400)
@example(expected=10**400, answer=1.5)
@example(expected=[float("nan")], answer=[float("nan")])
@example(expected={"a": 1}, answer='{"a": 1')
@example(expected="x", answer="\ud800")
def test_any_answer_scores_within_the_scale(name, expected, answer):
    assert 0.0 <= score(name, expected, answer) <= 1.0


@EVERY
@FEWER
@given(expected=JSON)
def test_no_answer_scores_nothing(name, expected):
    assert score(name, expected, None) == 0.0


@EVERY
@FEWER
@given(answer=JSON)
def test_a_task_without_answer_rewards_only_saying_so(name, answer):
    assert score(name, None, answer) == float(is_abstention(answer))


@EVERY
def test_an_abstention_is_right_only_where_there_is_no_answer_and_silence_and_canned_text_are_none(name):
    for text in ABSTENTIONS:
        assert is_abstention(text)
        assert (score(name, None, text), score(name, "a passage to be determined, not unknown", text)) == (1.0, 0.0), text
    for text in ANSWERS:
        assert not is_abstention(text)
        assert score(name, None, text) == 0.0, text


@given(st.none() | st.booleans() | st.integers() | st.lists(st.just("unknown")) | st.just({"answer": "unknown"}))
def test_only_text_can_abstain(value):
    assert not is_abstention(value)


def test_an_expected_abstention_may_be_given_word_for_word():
    assert score("exact", "unknown", "unknown") == 1.0
    assert score("normalized", "Not given", "not given.") == 1.0
    assert score("exact", "unknown", "not determined") == 0.0


@pytest.mark.parametrize("name", ["exact", "normalized", "f1", "set", "schema"])
@given(value=st.text().filter(lambda text: any(map(str.isalnum, text))) | FINITE | st.booleans() | st.integers(-(10**9), 10**9))
def test_the_expected_value_itself_is_right(name, value):
    assert score(name, value, value) == 1.0


DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]
LISTS = {"$defs": {"l": {"items": {"$ref": "#/$defs/l"}}}, "$ref": "#/$defs/l"}
HUGE = [  # long enough for a scorer in the square of the length to take minutes
    *("1" * 60_000, "1," * 30_000, "1,111" * 12_000, "-" * 60_000, "1/" * 30_000, "1 x 10" * 10_000, " " * 60_000, "[" * 60_000),
    *("not " * 15_000, "\n" * 60_000, "i " * 30_000, "_" * 60_000),
]


@EVERY
@pytest.mark.timeout(60)
def test_huge_and_deep_answers_end(name):
    """Each answer beside one expected value."""
    for expected, answer in list(product((5, "5", ["b"], {"b": 1}, None), [*HUGE, DEEP, 10**5000]))[::5]:
        assert score(name, expected, answer, LISTS) < 0.01


# exact


def test_exact_compares_json_values_and_knows_booleans_from_numbers():
    assert score("exact", {"a": [1, 2.0]}, {"a": [1.0, 2]}) == 1.0
    assert score("exact", 1, True) == 0.0
    assert score("exact", [0], [False]) == 0.0
    assert score("exact", 0.3, 0.1 + 0.2) == 0.0


# normalized


@given(st.lists(st.sampled_from(["red", "Fox", "3.5", "-2", "Zürich", "naïve"]), min_size=1))
def test_normalized_ignores_case_articles_white_space_and_punctuation(words):
    dressed = "  The\t" + ",  ".join(word.upper() for word in words) + " !"
    assert score("normalized", " ".join(words), dressed) == 1.0


@pytest.mark.parametrize(
    ("expected", "answer"), [("3.5", "35"), ("-5", "5"), ("007", "7"), ("c++ ✓", "c++ ✗"), ("!", "?"), ("the", "a"), ("a.b", "a b")]
)
def test_normalized_keeps_what_makes_a_difference(expected, answer):
    assert score("normalized", expected, answer) == 0.0


# numeric


@given(
    number=st.integers(-(10**12), 10**12) | FINITE,
    prose=st.sampled_from(["{}", "That makes {}.", "2 + 2, so: **{}** apples", "= {}%", "\\boxed{{{}}}"]),
)
def test_numeric_reads_any_number_out_of_prose(number, prose):
    for written in (repr(number), f"{number:,}" if isinstance(number, int) else f"{number:.17e}"):
        assert score("numeric", number, prose.format(written)) == 1.0
        assert score("numeric", written, number) == 1.0


NUMBERS = {
    "$1,250.50": 1250.5, "-$5": -5, "$-5": -5, "\N{MINUS SIGN}5 °C": -5, "50%": 50, "The answer is 42.": 42,
    "first 3, then 4 apples": 4, "10-5": 5, "3\N{EN DASH}5": 5, "- 5 apples": 5, "3 x 10^6": 3e6, "3 \\times 10^{-2}": 0.03,
    "6.02E23 atoms": 6.02e23, "3/4": 0.75, "-1/8": -0.125, ".5": 0.5, "25 m2": 25, "9.8 m s^-2": 9.8, "10 kg of CO2": 10,
    "1\N{NO-BREAK SPACE}250": 1250, "答案是5": 5, "1,2345": 2345,
}  # fmt: skip


def test_numeric_examples():
    for text, value in NUMBERS.items():
        assert (score("numeric", value, text), score("numeric", value * 1.01, text)) == (1.0, 0.0), text


def test_numeric_knows_what_is_no_number():
    wrong = [True, False, float("nan"), float("inf"), "nan", "Infinity", "1e999", "3/0", "H2O", "", [1], {"a": 1}, 10**400]
    for expected, answer in product([1, 0, True, float("inf"), float("nan"), "1e999", 2], wrong):
        assert score("numeric", expected, answer) == 0.0, (expected, answer)


@given(expected=st.floats(-1e9, 1e9).filter(lambda x: abs(x) > 1e-3), tolerance=st.floats(1e-5, 0.5), sign=st.sampled_from([-1, 1]))
def test_numeric_tolerance_is_relative_to_the_expected_number(expected, tolerance, sign):
    spec = f"numeric(tolerance={tolerance!r})"
    assert score(spec, expected, expected * (1 + sign * tolerance * 0.99)) == 1.0
    assert score(spec, expected, expected * (1 + sign * tolerance * 1.01)) == 0.0


def test_numeric_forgives_rounding_beside_zero():
    assert score("numeric", 0, 0.1 + 0.2 - 0.3) == 1.0
    assert score("numeric", 0, 1e-6) == 0.0


# set

ITEMS = st.lists(st.sampled_from(["red", "blue fox", "x-1", 7, 2.5]), min_size=1, max_size=6)


@given(items=ITEMS, data=st.data())
def test_set_ignores_order_and_form(items, data):
    shuffled = data.draw(st.permutations(items))
    assert score("set", items, shuffled) == 1.0
    assert score("set", items, ", ".join(map(str, shuffled))) == 1.0
    assert score("set", items, "\n".join(f"- {item}" if isinstance(item, str) else str(item) for item in shuffled)) == 1.0
    assert score("set", items, str(shuffled)) == 1.0


@given(items=ITEMS, data=st.data())
def test_set_counts_items(items, data):
    extra = data.draw(st.sampled_from([*items, "more"]))
    assert score("set", items, [*items, extra]) == 0.0
    assert score("set", [*items, extra], items) == 0.0


def test_set_examples():
    assert score("set", ["a1", "b1", "c1"], "A1, b1, and c1.") == 1.0
    assert score("set", [], []) == 1.0
    assert score("set", [], "[]") == 1.0
    assert score("set", [], "") == 0.0
    assert score("set", [{"x": 1}, {"y": 2}], [{"y": 2}, {"x": 1}]) == 1.0
    assert score("set", [1, 2], [True, 2]) == 0.0
    assert score("set", [1, 1, 2], [1, 2, 2]) == 0.0


# f1


def squad_f1(gold: str, given_: str) -> float:
    """compute_f1 of SQuAD's evaluate-v2.0.py, written out anew."""

    def tokens(text: str) -> list[str]:
        text = "".join(mark for mark in text.lower() if mark not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    left, right = tokens(gold), tokens(given_)
    if not left or not right:
        return float(left == right)
    same = sum((collections.Counter(left) & collections.Counter(right)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(right), same / len(left)
    return 2 * precision * recall / (precision + recall)


WORDS = st.text(st.sampled_from("the cats, an 3.5 $a-b!"), max_size=30)


@given(gold=WORDS, answer=WORDS)
def test_f1_is_squads(gold, answer):
    assert score("f1", gold, answer) == pytest.approx(squad_f1(gold, answer))


# schema

POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "name": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}


def test_schema_wants_form_and_value():
    expected = {"x": 0.3, "name": "p"}
    assert score("schema", expected, {"x": 0.1 + 0.2, "name": "p"}, POINT) == 1.0
    assert score("schema", expected, '{"x": 0.3, "name": "p"}', POINT) == 1.0
    assert score("schema", expected, {"x": 0.31, "name": "p"}, POINT) == 0.0
    assert score("schema(tolerance=0.1)", expected, {"x": 0.31, "name": "p"}, POINT) == 1.0
    assert score("schema", expected, {"x": 0.3, "name": "q"}, POINT) == 0.0
    assert score("schema", {"x": "0.3"}, {"x": "0.3"}, POINT) == 0.0
    assert score("schema", expected, "x is 0.3", POINT) == 0.0
    assert score("schema", 1000000, 1000001, {"type": "integer"}) == 0.0


def test_schema_takes_text_as_text_where_the_schema_does():
    assert score("schema", "5", "5", {"type": "string"}) == 1.0
    assert score("schema", 5, "5", {"type": "integer"}) == 1.0
    assert score("schema", {"a": 1}, '{"a": 1}') == 1.0


def test_schema_refuses_what_is_no_json():
    assert score("schema", {"x": 1}, {"x": float("nan")}, POINT) == 0.0
    assert score("schema", 1, 10**4000, {"multipleOf": 0.5}) == 0.0


def test_schema_fetches_no_reference(tmp_path):
    (tmp_path / "anything.json").write_text("{}")
    with warnings.catch_warnings(action="ignore"), pytest.raises(Exception, match="Unresolvable"):
        score("schema", 1, 1, {"$ref": (tmp_path / "anything.json").as_uri()})


# Specs.


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("numerik", rf"unknown scorer 'numerik'; did you mean 'numeric'\? known: {', '.join([*SCORERS][:4])}, "),
        ("exact(tolerance=1)", "scorer 'exact': .*unexpected keyword argument 'tolerance'"),
        ("numeric(tolerance=nan)", "finite number"),
        ("schema(tolerance='1')", "finite number"),
        ("numeric(tolerance=1", "scorer .*write name, name"),
        ("numeric(tolerance=1}\nmore={)", "not a TOML value"),
        ("", "scorer '' is not a name"),
        ("no.such.module:scorer", "no module named 'no'"),
        ("math:no_such", "math has no 'no_such'"),
        ("math:pi", "not a function"),
    ],
)
def test_a_wrong_spec_says_what_is_known(spec, message):
    with pytest.raises(ValueError, match=message):
        scorer_named(spec)


def test_a_scorer_says_that_it_reads_the_end_state() -> None:
    assert reads_state("package.module:of_ones_own")
    assert {name for name in SCORERS if reads_state(name)} == {"bfcl"}


@pytest.mark.parametrize("stop", [*StopReason])
def test_a_right_answer_counts_unless_the_harness_ended_the_trial(stop):
    given_up = {"timeout", "budget", "crashed", "cancelled"}
    assert scores_of(Judgement(Task("t", Query("?"), 5), "5", stop.value)) == {"accuracy": float(stop.value not in given_up)}


def test_a_score_out_of_bounds_is_an_error_but_for_rounding(monkeypatch):
    def scored(value):
        monkeypatch.setitem(SCORERS, "own", lambda: lambda judgement: value)
        return scores_of(Judgement(Task("t", Query("?"), 5, scorer="own"), "5", "finished"))

    assert scored(1 + 1e-12) == {"accuracy": 1.0}
    for value in (1.5, -0.1, math.nan):
        with pytest.raises(ValueError, match=f"gave {value}"):
            scored(value)


def score_of_y(name: str) -> float:
    return scorer_named(name)(Judgement(Task("t", Query("?"), "x"), "y", "finished"))


def test_a_scorer_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "own_scorers.py").write_text(
        "def half(judgement):\n    return 0.5\n\n\ndef fixed(value):\n    return lambda judgement: value\n\n\n"
        "def two(a, b):\n    return 1.0\n\n\ndef made():\n    return lambda: 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert [score_of_y(name) for name in ("own_scorers:half", "own_scorers:fixed(value=0.25)")] == [0.5, 0.25]
    for spec, said in (
        ("own_scorers:fixed(valeu=1)", "unexpected keyword argument 'valeu'"),
        ("own_scorers:fixed()", "missing"),
        ("own_scorers:half(judgement=1)", "not a function"),
        ("own_scorers:two", r"^scorer 'own_scorers:two' takes \(a, b\); a scorer takes one argument, a Judgement"),
        ("own_scorers:made()", r"takes \(\); a scorer takes one argument"),
    ):
        with pytest.raises(ValueError, match=said):
            scorer_named(spec)
