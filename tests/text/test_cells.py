"""Text of a terminal in cells: wide characters take two, and no line is wider than the terminal."""

from __future__ import annotations

import textwrap

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from whichloop.text.output import shortened, within_cells, without_middle, wrapped_words

WORDS = st.lists(st.text("ab漢字-é", min_size=1, max_size=90), max_size=30)
WIDTHS = st.integers(60, 120)


@given(WORDS, WIDTHS)
def test_no_line_is_wider_than_the_terminal_and_no_character_is_lost(words, width):
    lines = wrapped_words(" ".join(words), width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(words)


@given(WORDS, WIDTHS)
def test_narrow_text_is_wrapped_as_by_its_characters(words, width):
    text = " ".join(words).replace("漢", "c").replace("字", "d")
    assert wrapped_words(text, width) == textwrap.wrap(text, width, break_on_hyphens=False)
    assert wrapped_words(text, width, break_on_hyphens=True) == textwrap.wrap(text, width)
    assert shortened(text, width) == textwrap.shorten(text, width, placeholder=" …")


@given(WORDS, WIDTHS)
def test_what_is_cut_has_room_and_keeps_its_beginning_and_its_end(words, width):
    text = " ".join(words)
    for cut in (shortened(text, width), without_middle(text, width), within_cells(text, width)):
        assert cell_len(cut) <= width
    if cell_len(text) <= width:
        assert without_middle(text, width) == within_cells(text, width) == text
    else:
        head, tail = without_middle(text, width).split("…")
        assert (text.startswith(head), text.endswith(tail)) == (True, True)
        assert cell_len(head) + cell_len(tail) >= width - 3  # a wide character may lack one cell at either side


def test_a_word_of_wide_characters_is_broken_where_its_cells_end():
    assert wrapped_words("漢字漢字漢", 5) == ["漢字", "漢字", "漢"]
