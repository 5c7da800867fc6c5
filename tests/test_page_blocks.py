"""The blocks of pages that programs write."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pages import block, write_block

NAMES = st.sampled_from(["speed", "faults, at once", "a.b", "grid of one arm"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40).filter(
    lambda text: "<!--" not in text and text == text.strip("\n")
)


@given(NAMES, TEXTS, TEXTS, TEXTS, TEXTS)
def test_what_is_written_is_read_and_nothing_else_moves(tmp_path_factory, name, before, old, new, after) -> None:
    page: Path = tmp_path_factory.getbasetemp() / "page.md"
    page.write_text(f"{before}\n<!-- {name}: how -->\n{old}\n<!-- /{name} -->\n{after}", encoding="utf-8", newline="")
    write_block(page, name, new)
    assert block(page, name) == f"\n{new}\n\n"
    text = page.read_bytes().decode()
    assert text == f"{before}\n<!-- {name}: how -->\n\n{new}\n\n<!-- /{name} -->\n{after}"
    write_block(page, name, new)
    assert page.read_bytes().decode() == text


def test_a_page_without_the_block_is_named_and_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- other: how -->\n<!-- /other -->\n")
    with pytest.raises(ValueError, match=r"page\.md: there is no block 'sizes'; it begins with <!-- sizes: how it is made -->"):
        write_block(page, "sizes", "text")
    assert page.read_text() == "<!-- other: how -->\n<!-- /other -->\n"
