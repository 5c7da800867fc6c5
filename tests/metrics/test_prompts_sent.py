"""What a prompt shows: a result however it is quoted, and whether it says more than the one before."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trajectory.trajectory import new_words, shows


@pytest.mark.parametrize(
    ("prompt", "text", "seen"),
    [
        (["The result is 12 apples."], "12 apples", True),
        (['{"data": "say \\"hi\\" now"}'], 'say "hi" now', True),
        (["abc"], "12", False),
        (["a b c d e f g h i and so on"], "a b c d e f g h i j", True),
        (["a b c d"], "a b c d e f g h i j", False),
        (["[r:0123ab.4567] 12 [0123ab.4567:r]"], "12 [r:0123ab.4567]", True),
        (["[r:0123ab.9999] 12 [0123ab.9999:r]"], "[r:0123ab.4567] 12 [0123ab.4567:r]", False),
        ([], "12", False),
    ],
)
def test_a_prompt_shows_a_text_however_it_is_quoted(prompt, text, seen):
    assert shows(prompt, text) is seen


def test_a_receipt_whose_values_a_model_could_not_read_shows_nothing():
    text = "[r:0123ab.4567] 12 [0123ab.4567:r]"
    assert shows([text], text, ("89cdef.4567",))
    assert not shows([text], text, ("0123ab.4567",))
    assert not shows(["[r:0123ab.4567] [0123ab.4567:r]"], text, ("0123ab.4567",))


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_a_text_that_stands_in_a_prompt_is_shown(before, text, after):
    assert shows([before + text.strip() + after], text)


def test_more_is_said_where_words_are_new():
    assert new_words(["Try 1"], ["Try 1", "{", "It is no JSON"], "{")
    assert not new_words(["Try 1"], ["Try 2", "own words"], "own words")


MESSAGES = st.lists(st.sampled_from(["try one", "try two", "one", "read it again", "it is no JSON", ""]), max_size=5)


@given(MESSAGES, MESSAGES, MESSAGES, st.sampled_from(["", "one", "try again"]))
def test_messages_that_both_prompts_begin_with_say_nothing_more(shared, before, now, own):
    new = _words_of([*shared, *now]) - _words_of([*shared, *before]) - _words_of([own])
    assert new_words([*shared, *before], [*shared, *now], own) == new


def _words_of(messages):
    return Counter(word for message in messages for word in re.findall(r"[^\W\d_]+", message.lower()))
