"""One sentence says what to do with new prompts: adopt them only where a gain is shown, or where they cost less for as much."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.optimize.candidates import SearchCost, SearchEnd
from whichloop.experiments.optimize.tried import advice
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.gains import Arms, Gain, gains
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import Interval

ALPHA = 0.05
NOTHING = SearchCost()
ENDED = SearchEnd("bare", "finished", "", "d", 1, 3, {}, {}, NOTHING, NOTHING, NOTHING)
CUT = {"is_unchanged": True, "status": "budget", "reason": "budget of 100 model calls used up"}


def gain_of(before: list[float], after: list[float], *, margin: float = 0.02, tokens: tuple[int, int] = (1000, 1000)) -> Gain:
    """Return the gain of one design, from a score a task."""
    records = [
        Record(
            arm,
            "s",
            "d",
            f"t{task}",
            0,
            1,
            "scored",
            "",
            "finished",
            None,
            {"accuracy": score},
            2,
            {"decide": 2},
            input_tokens=spent,
        )
        for arm, scores, spent in (("old", before, tokens[0]), ("new", after, tokens[1]))
        for task, score in enumerate(scores)
    ]
    found = compare(
        records, [ArmInfo(name, "bare", {}, "scripted", "clean", "s") for name in ("old", "new")], alpha=ALPHA, margin=margin
    )
    return gains(found, records, [Arms("bare", "old", "new")]).gains[0]


def interval(value: float) -> Interval:
    return Interval(value, value - 0.01, value + 0.01, 60)


TIMES = st.floats(0.1, 3).map(interval)


@given(st.none() | TIMES, st.none() | TIMES, st.integers(0, 60))
def test_dollars_are_told_where_they_are_known_and_twice_where_a_cache_makes_a_difference(
    uncached: Interval | None, billed: Interval | None, right: int
) -> None:
    gain = replace(gain_of(scores(30), scores(right)), nominal_usd_ratio=uncached, cost_usd_ratio=billed)
    line, has_dollars = said(gain), uncached is not None or billed is not None
    assert ("dollars" in line, "tokens" in line) == (has_dollars, not has_dollars)
    for known in filter(None, (uncached, billed)):
        assert f"{known.value:.2f} [" in line
    assert (" with a prompt cache" in line) == (" uncached" in line)
    assert line.count("dollars") <= 1 + (" uncached" in line)


def test_equal_scores_for_fewer_dollars_are_adopted_only_if_they_are_fewer_with_a_cache_too() -> None:
    same = gain_of(scores(30, 300), scores(30, 300), margin=0.1, tokens=(1000, 2000))
    cheaper = replace(same, nominal_usd_ratio=interval(0.8), cost_usd_ratio=interval(0.9))
    assert said(cheaper) == (
        "Adopt the new prompts of bare: they are equivalent within 0.1, and take 0.80 [0.79, 0.81] times the dollars uncached "
        "and 0.90 [0.89, 0.91] times the dollars with a prompt cache"
    )
    for billed in (1.0, 1.5):
        assert said(replace(cheaper, cost_usd_ratio=interval(billed))).startswith(
            "Keep the old prompts of bare: the new ones are eq"
        )
    assert said(replace(cheaper, cost_usd_ratio=interval(0.8))).endswith(", and take 0.80 [0.79, 0.81] times the dollars")


def said(gain: Gain, **changes: Any) -> str:
    is_unchanged = changes.pop("is_unchanged", False)
    return advice(gain, replace(ENDED, **changes), is_unchanged=is_unchanged, alpha=ALPHA)


def scores(right: int, of: int = 60) -> list[float]:
    return [float(task < right) for task in range(of)]


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([500, 1000, 2900]))
def test_it_says_adopt_only_where_the_test_shows_a_gain_or_equal_scores_for_less(old: int, new: int, spent: int) -> None:
    gain = gain_of(scores(old), scores(new), margin=0.2, tokens=(1000, spent))
    assert gain.test is not None
    cheaper = gain.test.verdict.word == "equivalent" and spent < 1000
    assert said(gain).startswith("Adopt ") == (gain.test.verdict.word == "better" or cheaper)
    assert said(gain).startswith(("Adopt the new prompts of bare: ", "Keep the old prompts of bare: "))
    assert f" {spent / 1000:.2f}" in said(gain)


def test_a_gain_is_told_with_its_interval_and_its_cost() -> None:
    line = said(gain_of(scores(20), scores(50), tokens=(1000, 2910)))
    assert line.startswith("Adopt the new prompts of bare: they gain 0.500 [0.3")
    assert line.endswith(", and take 2.91 (in all 60) times the tokens") or " and take 2.91 [" in line


def test_where_no_gain_is_shown_the_cost_and_the_tasks_that_would_decide_are_told() -> None:
    line = said(gain_of(scores(50), scores(52), tokens=(1000, 2910)))
    assert line.startswith("Keep the old prompts of bare: no gain is shown, and the new ones take 2.91 ")
    assert re.search(r"; [\d,]+ tasks \(8\d %\) would decide$", line)


@given(st.floats(0.05, 5), st.floats(0, 0.9), st.floats(0, 3))
def test_as_many_are_only_what_is_shown_to_lie_within_a_tenth(value: float, below: float, above: float) -> None:
    times = Interval(value, value * (1 - below), value + above, 60)
    line = said(replace(gain_of(scores(30), scores(30)), token_ratio=times))
    holds_1, is_narrow = times.low <= 1 <= times.high, times.low >= 0.9 and times.high <= 1.1
    assert ("about as many tokens" in line) == (holds_1 and is_narrow)
    assert ("not told apart from as many" in line) == (holds_1 and not is_narrow)
    assert f"{value:.2f} " in line


def test_a_ratio_of_a_few_tasks_has_no_interval_and_says_so() -> None:
    records = gain_of(scores(2, 5), scores(3, 5), tokens=(1000, 2440))
    assert records.token_ratio is not None
    assert not records.token_ratio.is_known
    line = said(records)
    assert "the new ones take 2.44 times the tokens on 5 test tasks, which are too few for an interval; no known number" in line
    assert "∞" not in line


def test_worse_and_equivalent_prompts_are_not_adopted() -> None:
    assert said(gain_of(scores(50), scores(20))).startswith("Keep the old prompts of bare: the new ones lose 0.500 [")
    same = gain_of(scores(30, 300), scores(30, 300), margin=0.1, tokens=(1000, 2000))
    assert said(same).startswith("Keep the old prompts of bare: the new ones are equivalent within 0.1, and take 2.00 ")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "failed"}, "the optimizer failed"),
        ({"is_unchanged": True}, "no better program was found"),
        (CUT, "no better program was found before the search ended (budget of 100 model calls used up)"),
        (
            CUT | {"candidates": 1},
            "no other program was tried before the search ended (budget of 100 model calls used up); "
            "a larger budget would try some",
        ),
    ],
)
def test_without_another_program_it_says_why(changes: dict[str, Any], reason: str) -> None:
    assert said(gain_of(scores(20), scores(50)), **changes) == f"Keep the old prompts of bare: {reason}"
    assert said(Gain("bare", None, None, None), **changes) == f"Keep the old prompts of bare: {reason}"


def test_nothing_is_said_of_what_was_not_tested() -> None:
    assert said(Gain("bare", None, None, None)) == ""
