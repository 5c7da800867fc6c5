"""The kinds of fault of a cause in words: counts and shares that make the whole."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.why.arms import counts_in_words, numbers_in_words, shares_in_words
from whichloop.experiments.why.why import Kinds

FAULTS = st.sampled_from(["wire.fenced", "wire.malformed", "tool.raises", ""])


@given(st.dictionaries(FAULTS, st.integers(1, 400), min_size=1))
def test_counts_of_kinds_make_the_whole_and_nothing_is_split_that_is_not_known(kinds):
    told, shares = numbers_in_words(kinds), shares_in_words(kinds)
    if not any(kinds):
        assert told == shares == ""
        return
    assert sum(map(int, re.findall(r" (\d+) \(", told))) == sum(kinds.values())
    assert re.findall(r"\((\d+) %\)", told) == (percents := re.findall(r"(\d+) % ", shares))
    assert abs(sum(map(int, percents)) - 100) <= len(kinds)


def test_unreadable_replies_are_split_and_other_causes_are_not():
    kinds: Kinds = {"parse": {"wire.fenced": 17, "wire.malformed": 5, "": 1}, "termination": {"decision.no_tool": 2}}
    assert counts_in_words({"parse": 23, "termination": 2}, kinds) == [
        "parse 23 (fenced 17, malformed 5, no known fault 1)",
        "termination 2",
    ]
    assert counts_in_words({"parse": 3}, {"parse": {"wire.fenced": 3}}) == ["parse 3 (fenced)"]
    assert counts_in_words({"parse": 3}, {"parse": {"": 3}}) == ["parse 3"]
