"""What docs/serve.md says of the fields of a request, and of where a program finds its wire."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from loopbench.models.wires import anthropic_tools, chat, gemini, messages, responses
from loopbench.models.wires.registry import WIRES

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
SECTIONS: dict[str, tuple[str, ...]] = {
    "chat": ("What answers", "What is refused, as OpenAI refuses it", "A loop's own client"),
    "responses": ("OpenAI's Responses",),
    "messages": ("Anthropic's Messages",),
    "gemini": ("Gemini",),
}
"""Where a wire's fields are told."""
FIELDS: dict[str, Iterable[str]] = {
    "chat": chat._FIELDS,
    "responses": responses._FIELDS | responses._OF_CODEX,
    "messages": messages._FIELDS | messages._RANDOMNESS | anthropic_tools._FIELDS,
    "gemini": gemini.COUNT_REQUEST.fields | gemini.CONFIG.fields,
}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def quoted(text: str) -> set[str]:
    """Return the words that stand between backquotes."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return {word for span in re.findall(r"`+([^`]+)`+", text) for word in re.findall(r"\w+", span)}


@pytest.mark.parametrize("wire", FIELDS)
def test_every_field_that_a_wire_takes_is_told_in_its_section(wire: str) -> None:
    told = set().union(*(quoted(section(title)) for title in SECTIONS[wire]))
    assert set(FIELDS[wire]) - told == set()


def test_every_wire_has_its_fields_checked() -> None:
    assert {wire.name for wire in WIRES} == set(FIELDS)


def test_the_table_at_the_beginning_leads_to_sections_that_are_there() -> None:
    first = PAGE.split("\n## ")[0]
    anchors = set(re.findall(r"\]\(#([\w-]+)\)", first))
    titles = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    made = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert anchors - made == set()
    assert len(anchors) >= len(WIRES)
