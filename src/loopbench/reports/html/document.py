"""What a page is made of: sections of paragraphs, lists, tables, charts and traces. Text is text; only charts are Markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from .svg import element, percent

_NUMBER = re.compile(r"[<>~≥≤]?[+\-−]?\$?\d[\d.,]*(?![\w-])")
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class PageLink:
    """To another place of the page; never to another page."""

    text: str
    to: str
    """The id there."""


@dataclass(frozen=True, slots=True)
class Code:
    """Text in the typeface of code, such as a command to copy."""

    text: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with a bar as long as its share of the greatest."""

    text: str
    share: float
    """In [0, 1]."""
    note: str = ""
    """Small, after it."""

    @property
    def bar(self) -> Markup:
        drawn = element("rect", width=percent(100 * min(max(self.share, 0.0), 1.0)))
        return element("svg", drawn, class_="bar", aria_hidden="true")


Cell = str | PageLink | Code | Amount


def cell_text(cell: Cell) -> str:
    """What a cell says."""
    return cell if isinstance(cell, str) else cell.text


@dataclass(frozen=True, slots=True)
class Paragraph:
    """`kind` says how it is set: plain, quiet for what few need, strong for what matters, quote for what a task says."""

    text: str
    kind: Literal["plain", "quiet", "strong", "quote"] = "plain"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[str, ...]
    kind: Literal["plain", "quiet", "verdicts"] = "plain"


@dataclass(frozen=True, slots=True)
class Banner:
    """What the reader must know before all else."""

    title: str
    items: tuple[str, ...]
    kind: Literal["warning", "invalid"] = "warning"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. The first cell of a row is its heading."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_sortable: bool = True

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Per column, whether its cells are numbers, and stand to the right."""
        return tuple(_is_numeric([cell_text(row[index]) for row in self.rows]) for index in range(len(self.columns)))


def _is_numeric(cells: Sequence[str]) -> bool:
    return all(_NUMBER.match(cell) for cell in cells if cell not in (UNKNOWN, ""))


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, and how to read it."""

    chart: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Folded:
    """What is opened on demand."""

    summary: str
    blocks: tuple[Block, ...]
    id: str = ""
    """An anchor, where something links here."""


@dataclass(frozen=True, slots=True)
class Subsection:
    """A heading below that of the section."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a trace."""

    kind: str
    label: str
    text: str
    parts_here: bool = False
    """Here the two traces part."""


@dataclass(frozen=True, slots=True)
class SideView:
    """One trial, from its question to its end."""

    arm: str
    command: str
    """Which prints all of it."""
    ended: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two trials of one task."""

    courses: tuple[SideView, SideView]


Block = Paragraph | Items | Banner | Grid | Figure | Folded | Subsection | SideBySide | Code


def kind_of(block: Block) -> str:
    """Which of the template's macros sets a block."""
    return type(block).__name__.lower()


@dataclass(frozen=True, slots=True)
class PageSection:
    """A part of the page that the table of contents names."""

    id: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Chapter:
    """A run among several: its own sections, folded."""

    id: str
    title: str
    subtitle: str
    sections: tuple[PageSection, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page."""

    title: str
    subtitle: str
    sections: tuple[PageSection, ...]
    chapters: tuple[Chapter, ...] = ()
    foot: tuple[str, ...] = ()
