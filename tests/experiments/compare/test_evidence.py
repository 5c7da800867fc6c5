"""When an adoption is told to be narrow: the surest pair of the least surely beaten loop decides, and the sentence names it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whichloop.experiments.compare.verdict_old.answer import answer
from whichloop.metrics.comparison import Comparison
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import Interval, Verdict
from whichloop.metrics.summary import PRIMARY

BETTER = Verdict("better", within_margin=False)
CLOSE, CLEAR = Interval(0.058, 0.0035, 0.1256, 100), Interval(0.062, 0.019, 0.106, 100)
DISTANCES = st.lists(st.floats(0.001, 0.08), min_size=3, max_size=3)


@pytest.fixture(scope="module")
def apart(compared) -> Comparison:
    """Two loops of which one is better under every profile."""
    found: Comparison = compared({"good": (0.9, 0.9), "bad": (0.4, 0.4)})
    return found


def with_differences(found: Comparison, calm: Interval, rough: Interval, both: Interval) -> Comparison:
    """Return a comparison of two loops in which these are the differences of accuracy, the first loop being better."""

    def turned(pair: Pair, difference: Interval) -> Pair:
        return replace(pair, difference=difference, verdict=BETTER)

    by_profile = {"calm": calm, "rough": rough}
    pairs = tuple(turned(pair, by_profile[pair.a.partition("/")[2]]) if pair.metric == PRIMARY else pair for pair in found.pairs)
    return replace(found, pairs=pairs, pooled=tuple(turned(pair, both) for pair in found.pooled))


def first_sentence(found: Comparison) -> str:
    return answer(found).sentences[0]


def at(low: float, width: float = 0.1) -> Interval:
    return Interval(low + width / 2, low, low + width, 100)


@given(DISTANCES, DISTANCES)
def test_stronger_evidence_is_never_told_narrowly_where_weaker_is_not(apart, distances, farther):
    weak = first_sentence(with_differences(apart, *map(at, distances)))
    strong = first_sentence(with_differences(apart, *(at(near + more) for near, more in zip(distances, farther, strict=True))))
    assert weak.startswith("Adopt good")
    assert "narrowly" not in strong or "narrowly" in weak


@given(DISTANCES)
def test_an_adoption_is_narrow_where_each_pair_that_carries_it_is(apart, distances):
    assume(all(abs(near - 0.01) > 1e-6 for near in distances))
    told = first_sentence(with_differences(apart, *map(at, distances)))
    assert ("narrowly" in told) == all(near < 0.01 for near in distances)


def test_a_sentence_names_the_pair_that_decides_whether_it_is_narrow(apart):
    narrow = first_sentence(with_differences(apart, CLOSE, at(0.001), at(0.0001)))
    assert narrow == (
        "Adopt good (101 tokens a trial), narrowly (by 0.058 [0.004, 0.126] under calm; chance that a fresh run shows it again, "
        "if this is the true difference: about 55 %): better than every other loop under every profile"
    )
    sure = first_sentence(with_differences(apart, CLOSE, CLOSE, CLEAR))
    assert sure == (
        "Adopt good (101 tokens a trial): better than every other loop under every profile, and by 0.062 [0.019, 0.106] over both "
        "profiles together"
    )
    assert first_sentence(with_differences(apart, CLEAR, CLEAR, CLEAR)).endswith("better than every other loop under every profile")


def test_loops_that_are_worse_under_some_profile_alone_are_beaten_narrowly_too(compared):
    """The headline over one profile's narrow pair says so, as that of a loop that wins under every one does."""
    found = compared({"good": (0.9, 0.5), "bad": (0.4, 0.5)})
    close = replace(
        found,
        pairs=tuple(
            replace(pair, difference=CLOSE) if pair.metric == PRIMARY and pair.a == "good/calm" else pair for pair in found.pairs
        ),
        pooled=tuple(replace(pair, difference=CLOSE) for pair in found.pooled),
    )
    told = first_sentence(close)
    assert re.match(r"Adopt good \(101 tokens a trial\), narrowly \(by 0\.058 \[0\.004, 0\.126\] under calm; ", told)
    assert ": every other loop is worse than the best under some profile" in told
    clear = first_sentence(replace(close, pooled=tuple(replace(pair, difference=CLEAR) for pair in close.pooled)))
    assert "narrowly" not in clear
    assert clear.endswith("under some profile, and by 0.062 [0.019, 0.106] over both profiles together")
