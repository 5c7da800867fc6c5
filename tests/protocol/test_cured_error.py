"""A mistake with what would be right: one line for a file of results, and a line for each thing in a terminal."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from whichloop.protocol.cured_error import CuredError

WORDS = st.text("abc ", min_size=1, max_size=8).map(lambda text: f"x{text}x")
COMMANDS = st.lists(st.lists(st.text("ab ';&", min_size=1, max_size=5), min_size=1, max_size=3), max_size=2)


@given(mistake=WORDS, cures=st.lists(WORDS, min_size=1, max_size=3), commands=COMMANDS)
def test_both_forms_say_the_same_in_the_same_order(mistake, cures, commands):
    error = CuredError(mistake, *cures, commands=commands)
    assert "\n" not in str(error)
    first, *others = error.lines
    assert first == mistake
    assert [line.strip().removesuffix(":") for line in others[: len(cures)]] == cures
    assert [shlex.split(line) for line in others[len(cures) :]] == commands
    place = 0
    for said in (mistake, *cures, *error.commands):
        place = str(error).index(said, place) + len(said)
