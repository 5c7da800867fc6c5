"""Sentences on a terminal: no line ends within an interval, or with a space."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from whichloop.cli import console
from whichloop.text.output import UNBROKEN, Prose, prose_lines, terminal_safe

INTERVALS = st.tuples(st.floats(-1, 1), st.floats(-1, 1)).map(lambda ends: f"[{ends[0]:.3f}, {ends[1]:.3f}]")
WORDS = st.lists(st.one_of(INTERVALS, st.sampled_from(["finish", "is", "better", "than", "bare", "by"])), min_size=1, max_size=40)


@given(WORDS)
def test_an_interval_stays_on_one_line_whatever_stands_before_it(words: list[str]) -> None:
    sentence = " ".join(words)
    lines = prose_lines(Prose(console.with_whole_intervals(sentence)), 30)
    assert " ".join(lines) == sentence
    assert all(line.count("[") == line.count("]") and line == line.rstrip() and len(line) <= 30 for line in lines)


@given(st.lists(st.sampled_from(["5 %", "37.5 %", "word", "of"]), min_size=1, max_size=20), st.integers(10, 40))
def test_no_line_ends_between_a_number_and_its_percent_sign(words: list[str], width: int) -> None:
    lines = prose_lines(Prose(" ".join(words)), width)
    assert " ".join(lines) == " ".join(words)
    assert not [line for line in lines if line.startswith("%")]


@given(st.text(), st.integers(8, 90), st.sampled_from(["", "  "]), st.sampled_from([None, "    "]))
def test_prose_loses_no_text_splits_no_word_and_shows_no_control(text: str, width: int, indent: str, hanging: str | None) -> None:
    lines = prose_lines(Prose(text, indent=indent, hanging=hanging), width)
    words = " ".join(terminal_safe(text).replace(UNBROKEN, " ").split())
    assert " ".join(" ".join(lines).split()) == words
    assert all(line == terminal_safe(line) for line in lines)
    assert all(
        len(line) <= width or " " not in line.strip() for line in lines if not (UNBROKEN in text or re.search(r"\d %", text))
    )
