"""Values of any kind, and what becomes of what is told, or not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs.foreign_trials import ForeignTrial
from whichloop.experiments.import_runs.values import ScoreScale, answer_of, finite_number, name_of, reason_line, score
from whichloop.metrics.record import Record
from whichloop.metrics.summary import METRICS

counts = st.one_of(st.none(), st.integers(0, 10**9))
numbers = st.floats(-1e6, 1e6)


@given(numbers, numbers, st.floats(0, 1))
def test_a_scale_goes_from_its_worst_to_its_best(worst, best, share):
    if abs(worst - best) < 1e-3:
        return
    scale = ScoreScale(worst, best)
    assert score(worst, scale) == pytest.approx(0)
    assert score(best, scale) == pytest.approx(1)
    assert score(worst + share * (best - worst), scale) == pytest.approx(share, abs=1e-6)
    for outside in (worst - (best - worst), best + (best - worst)):
        with pytest.raises(ValueError, match="is not within"):
            score(outside, scale)
    assert score("C", scale) == 1
    assert score(True, scale) == 1


TRIALS = st.builds(
    ForeignTrial,
    *(st.just("a"), st.just("t"), st.just(0)),
    **{"score": st.floats(0, 1), "seconds": st.none() | st.floats(0, 1e6), "cost_usd": st.none() | st.floats(0, 9)},
    **dict.fromkeys(("steps", "lm_calls", "tokens", "input_tokens", "output_tokens"), counts),
)


@given(TRIALS)
def test_what_is_not_told_is_not_known(told):
    record = told.record("s", "d")
    assert Record.from_json(record.to_json()) == record
    for name in ("steps", "lm_calls", "seconds", "cost_usd"):
        assert METRICS[name](record) == getattr(told, name)
    both = told.input_tokens is not None and told.output_tokens is not None
    assert METRICS["tokens"](record) == (max(told.input_tokens + told.output_tokens, told.tokens or 0) if both else told.tokens)
    assert min(record.input_tokens, record.output_tokens) >= 0
    if told.tokens is None:
        for name in ("input_tokens", "output_tokens"):
            assert (None if name in record.unknown else getattr(record, name)) == getattr(told, name)
    assert METRICS["accuracy"](record) == told.score


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e14, max_value=1e14),
    st.one_of(st.floats(), st.integers(), st.text(max_size=20), st.booleans(), st.none()),
)
def test_numbers_as_text_are_the_numbers_and_a_score_is_a_share_or_nothing_or_refused(value, anything):
    assert finite_number(repr(value), "x") == finite_number(f" {value!r} ", "x") == value
    try:
        found = score(anything, None)
    except ValueError:
        return
    assert found is None or 0 <= found <= 1


def test_what_only_looks_like_a_number_is_none_and_nothing_is_nothing():
    for text in ("1_000", "1,000.5", "٣", "0x10", "1e", "--1", "1.2.3", "$1", "85%", "∞", "infinity", "True"):
        with pytest.raises(ValueError, match="x is"):
            finite_number(text, "x")
    for nothing in ("", " ", "NaN", "nan", "N/A", "null", "None", None, math.nan):
        assert finite_number(nothing, "x") is score(nothing, None) is None


def test_a_scale_may_run_downwards_and_bad_ones_are_refused():
    assert score(25, ScoreScale.parse("100,0")) == 0.75
    said = {"1,2,3": "write WORST,BEST", "a,b": "not a number", "1,1": "two different"}
    for text, problem in said.items():
        with pytest.raises(ValueError, match=f"^scale .*{problem}"):
            ScoreScale.parse(text)


def test_texts_of_others_are_names_of_one_line_or_short_and_without_secrets():
    assert (name_of(" a\n b ", "x"), name_of(2.1, "x")) == ("a b", "2.1")
    assert "secret123" not in reason_line("api_key=secret1234567890abcdef\nx")
    assert (len(reason_line("x" * 10_000)), len(answer_of("x" * 10_000))) == (300, 4000)
