"""Rows of columns with a text behind them, as the checks print them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.cases import cases
from whichloop.cli.console import print_row

WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=12), max_size=40).map(" ".join)


@given(WORDS, st.integers(62, 120))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=cases(20), deadline=None)
def test_a_text_is_wrapped_within_the_width_behind_its_columns_and_is_whole(capsys, text, width):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        print_row([("FAILED", "bold red", 15), ("a law", "", 17)], text, "dim")
    first, *further = capsys.readouterr().out.splitlines()
    assert first[:32].split() == ["FAILED", "a", "law"]
    assert all(len(line) <= width and not line[:32].strip() for line in further)
    assert len(first) <= width
    assert [word for line in (first, *further) for word in line[32:].split()] == text.split()


@given(st.text("ab漢字é", max_size=7), st.text("ab漢字é", max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=cases(20), deadline=None)
def test_columns_begin_at_the_same_cell_whatever_characters_stand_before_them(capsys, first, second):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        print_row([(first, "", 15), (second, "", 17)], "text")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(first)
    assert cell_len(line[: line.index("text")]) == 32
    assert cell_len(line[: line.index(second, len(first))]) == 15 or not second
