"""What tells loops apart that are equal in accuracy: tokens, tokens with a prompt cache, and wrong answers given as done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare

TASKS = 60


@pytest.fixture(scope="session")
def counted(record) -> Callable[..., Comparison]:
    """Compares loops of given tokens, cacheable tokens, tasks that they solve and wrong answers that they give as done.

    `cached_at`: the dollars that a million tokens from a cache save, if tokens have a price: $1 a million.
    """

    def make(loops: Mapping[str, tuple[int, int, int, int]], profile: str = "calm", cached_at: float | None = None) -> Comparison:
        infos, records = [], []
        for loop, (tokens, cacheable, solved, wrong) in loops.items():
            infos.append(ArmInfo(f"{loop}/{profile}", loop, {}, "scripted", profile, "s"))
            for task in range(TASKS):
                is_right = task < solved
                dollars = (tokens + task % 5) / 1e6
                priced = {} if cached_at is None else {"nominal_usd": dollars, "cost_usd": dollars - cached_at * cacheable / 1e6}
                records.append(
                    record(
                        arm=f"{loop}/{profile}",
                        task=f"t{task:03}",
                        scores={"accuracy": float(is_right)},
                        input_tokens=tokens + task % 5,
                        output_tokens=0,
                        cacheable_tokens=cacheable,
                        cached_tokens=cacheable if cached_at else 0,
                        **priced,
                        false_success=not is_right and task >= TASKS - wrong,
                    )
                )
        return compare(records, infos)

    return make


BAD = (50, 0, 5, 0)


def first(comparison: Comparison) -> SimpleNamespace:
    said = answer(comparison).answer_sentences[0]
    return SimpleNamespace(full=said.text, brief=said.brief, adopts=said.adopts, or_else=said.or_else)


def test_the_equal_rival_is_named_with_what_it_costs_and_no_loop_that_is_worse(counted):
    made = first(counted({"plain": (500, 0, 50, 0), "dear": (700, 0, 50, 0), "bad": (490, 0, 5, 0)}))
    assert made.full.startswith(
        "Adopt plain (502 tokens a trial): no loop is shown to beat it, and none of its equals is cheaper: "
    )
    assert "dear takes 702 tokens a trial" in made.full
    assert "(dear: 40 % more)" in made.brief
    assert "not told apart" not in made.full


def test_where_the_prompt_cache_reverses_the_order_neither_is_adopted_in_silence(counted):
    made = first(counted({"plain": (500, 0, 50, 0), "cached": (700, 600, 50, 0), "bad": BAD}))
    assert made.full.startswith("Adopt plain by list tokens (502 tokens a trial against 702)")
    assert "or cached by tokens with a prompt cache (162 against 502, paired difference 340" in made.full
    assert made.brief.startswith(
        "Adopt plain by list tokens (502 against 702), or cached by tokens with a prompt cache (162 against 502)"
    )
    assert (made.adopts, made.or_else) == ("plain", ("cached",))
    others = answer(counted({"plain": (500, 0, 50, 0), "cached": (700, 600, 50, 0), "bad": BAD})).sentences[1:]
    assert not any("cached" in sentence and "not shown to be worse" in sentence for sentence in others)


def test_dollars_are_judged_by_the_list_and_with_a_prompt_cache_as_tokens_are(counted):
    loops = {"plain": (500, 0, 50, 0), "cached": (700, 600, 50, 0), "bad": BAD}
    made = first(counted(loops, cached_at=0.9))
    assert made.full.startswith("Adopt plain by list dollars ($0.00050 uncached a trial against $0.00070")
    assert "or cached by dollars with a prompt cache ($0.00016 against $0.00050, paired difference 0.00034" in made.full
    assert ", the simulated cache serving 85 % of the input against 0 %)" in made.full
    assert made.brief.startswith(
        "Adopt plain by list dollars ($0.00050 against $0.00070), "
        "or cached by dollars with a prompt cache ($0.00016 against $0.00050)"
    )
    agreed = first(counted(loops, cached_at=0.1)).full
    assert agreed.startswith(
        "Adopt plain ($0.00050 uncached a trial): no loop is shown to beat it, and none of its equals is cheaper"
    )
    assert "prompt cache" not in agreed
    assert "prompt cache" not in first(counted(loops, cached_at=0.0)).full


@settings(max_examples=cases(8))
@given(st.integers(0, 700), st.sampled_from([0.0, 0.5, 0.9]))
def test_an_answer_in_dollars_names_both_orders_or_the_one_that_they_agree_on(counted, cacheable, cached_at):
    comparison = counted({"plain": (500, 0, 50, 0), "rival": (700, cacheable, 50, 0), "bad": BAD}, cached_at=cached_at)
    made, saved = first(comparison), cached_at * cacheable
    assert made.adopts == "plain"
    assert " uncached a trial" in made.full
    if "with a prompt cache" in made.full:
        assert 702 - saved < 502
    elif saved:
        assert 702 - saved > 500  # within what the paired test cannot tell from it


def test_wrong_answers_given_as_done_speak_for_the_equal_that_gave_fewer(counted):
    made = first(counted({"plain": (500, 0, 40, 15), "careful": (700, 0, 40, 0), "bad": BAD}))
    assert "or careful by wrong answers given as done (none against 15 of 60, p <0.001)" in made.full
    both = first(counted({"plain": (500, 0, 40, 15), "careful": (700, 600, 40, 0), "bad": BAD})).full
    assert "by tokens with a prompt cache (162 against 502" in both
    assert ") and by wrong answers given as done (none against 15 of 60" in both


def test_harm_that_a_test_shows_stands_beside_the_loop_that_is_better(counted):
    made = first(counted({"bold": (500, 0, 50, 10), "meek": (500, 0, 20, 0)}))
    assert "though it gave more wrong answers as done than meek (10 against none of 60, p = 0.002): better than every" in made.full
    assert "though" not in first(counted({"bold": (500, 0, 50, 1), "meek": (500, 0, 20, 0)})).full


def test_where_nothing_is_decided_the_equal_that_is_ahead_with_a_cache_is_told(counted):
    made = first(counted({"plain": (500, 0, 50, 0), "cached": (500, 400, 50, 0)}))
    assert made.full.startswith("Nothing is decided: no loop is told apart from another; they cost the same (502 tokens a trial)")
    assert "; by tokens with a prompt cache cached is ahead of plain (142 against 502" in made.full


EQUALS = st.fixed_dictionaries(
    {
        name: st.tuples(st.sampled_from([300, 500, 502, 700]), st.sampled_from([0, 250]), st.integers(48, 52), st.just(0))
        for name in "abc"
    }
)


@settings(max_examples=cases(8))
@given(EQUALS, st.integers(2, 3), st.sampled_from([200, 500, 900]), st.sampled_from([None, 0.9]))
def test_a_loop_that_is_shown_worse_than_all_changes_nothing_that_is_advised_of_the_others(counted, loops, many, tokens, cached_at):
    equals = dict([*loops.items()][:many])
    alone = counted(equals, cached_at=cached_at)
    beside = counted({**equals, "worse": (tokens, 0, 5, 0)}, cached_at=cached_at)
    shown = [pair for pair in beside.pairs if pair.metric == "accuracy" and "worse/calm" in (pair.a, pair.b)]
    assert {pair.verdict.word for pair in shown} <= {"better", "worse"}
    same = {(pair.a, pair.b, pair.metric): pair for pair in alone.pairs}  # not by the wider family's level, which tells less
    pairs = tuple(same.get((pair.a, pair.b, pair.metric), pair) for pair in beside.pairs)
    one, other = first(alone), first(replace(beside, pairs=pairs))
    assert (one.adopts, one.or_else) == (other.adopts, other.or_else)
    assert one.full.startswith("Nothing is decided") == other.full.startswith("Nothing is decided")
    assert one.full.startswith("Adopt ") == other.full.startswith("Adopt ")


def test_the_cheaper_of_two_equals_is_adopted_with_and_without_a_worse_loop_beside_them(counted):
    equals = {"cheap": (500, 0, 50, 0), "dear": (700, 0, 50, 0)}
    heading = "Adopt cheap (502 tokens a trial): no loop is shown to beat it, and none of its equals is cheaper: dear takes 702"
    assert first(counted(equals)).full.startswith(heading)
    assert first(counted({**equals, "worse": BAD})).full.startswith(heading)


@settings(max_examples=cases(8))
@given(st.integers(0, 700), st.integers(0, 20), st.integers(0, 20))
def test_an_equal_is_named_as_ahead_only_where_its_count_is_smaller(counted, cacheable, wrong, other):
    made = first(counted({"plain": (500, 0, 40, wrong), "rival": (700, cacheable, 40, other), "bad": BAD}))
    if "or rival by tokens with a prompt cache" in made.full:
        assert 702 - 0.9 * cacheable < 502
    if "by wrong answers given as done" in made.full:
        assert other < wrong
