"""Reasons with their counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whichloop.text.numbers import MAX_REASON_CHARS, reasons


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 99), min_size=1, max_size=8), st.integers(1, 5))
def test_the_most_frequent_reasons_come_first_and_none_is_lost(found: dict[str, int], most: int) -> None:
    parts = reasons(found, most).split("; ")
    named = [part for part in parts if " × " in part]
    counts = [int(part.partition(" × ")[0]) for part in named]
    assert counts == sorted(found.values(), reverse=True)[:most]
    hidden = len(found) - len(named)
    assert parts[len(named) :] == ([f"and {hidden} other{'s' * (hidden > 1)}"] if hidden else [])


def test_a_reason_is_printed_as_it_was_given_up_to_a_length() -> None:
    assert reasons({"a scripted trial, whose model takes no time": 2}) == "2 × a scripted trial, whose model takes no time"
    assert reasons({"x" * 1_000: 1}) == f"1 × {'x' * MAX_REASON_CHARS} …"


@given(st.lists(st.sampled_from(["a", "word", "longer", "x" * 30]), min_size=1, max_size=60))
def test_a_long_reason_ends_with_a_whole_word(words):
    text = " ".join(words)
    said = reasons({text: 1}).removeprefix("1 × ")
    assert len(said) <= MAX_REASON_CHARS + len(" …")
    assert said == text or [*words[: len(said.split()) - 1], "…"] == said.split()
