"""The known name that a mistyped one is most like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.protocol.names import MIN_WORD, most_like
from whichloop.runs.config import CompareConfig

WORD = st.text("abcdefgh", min_size=MIN_WORD, max_size=8)
NAME = st.lists(WORD, min_size=1, max_size=3).map("_".join)


@given(typed=st.text(max_size=12), known=st.lists(NAME, max_size=6))
def test_it_is_a_known_one_or_none(typed, known):
    assert most_like(typed, known) in (None, *known)


@given(word=WORD, before=WORD, behind=WORD)
def test_a_word_in_common_finds_a_name_where_nothing_else_is_alike(word, before, behind):
    """The law: a name is found wherever its word stands, in the singular or the plural."""
    assert most_like(f"{before}_{word}", [f"{word}s_{behind}"]) == f"{word}s_{behind}"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("step_limit", "max_tool_steps"),
        ("max_steps", "max_tool_steps"),
        ("random_seed", "seed"),
        ("repeat", "repeats"),
        ("timeout", "trial_timeout_s"),
        ("profil", "profiles"),
        ("xyzzy", None),
    ],
)
def test_settings_of_a_comparison_that_other_tools_call_otherwise(typed, meant):
    assert most_like(typed, CompareConfig.model_fields) == meant
