"""The parts of a page: sections of paragraphs, lists, tables, charts and traces. Text is plain text; only charts are Markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from markupsafe import Markup

from whichloop.text.doc import Lines, Table, TraceLines

from .svg import element, percent

if TYPE_CHECKING:
    from whichloop.experiments.optimize.program_text import DiffLine

_NUMBER = re.compile(r"[<>~≥≤]?[+\-−]?\$?\d[\d.,]*(?![\w-])")
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to another place on the same page."""

    text: str
    to: str
    """The id of that place."""


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
    """Small text after the number."""
    is_best: bool = False
    """Whether the number stands out."""

    @property
    def bar(self) -> Markup:
        drawn = element("rect", width=percent(100 * min(max(self.share, 0.0), 1.0)))
        return element("svg", drawn, class_="bar", aria_hidden="true")


Cell = str | PageLink | Code | Amount


def cell_text(cell: Cell) -> str:
    """Return the text of a cell."""
    return cell if isinstance(cell, str) else cell.text


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; `kind` sets its style: plain, quiet for details, strong for results, quote for the text of a task."""

    text: str
    kind: Literal["plain", "quiet", "strong", "quote"] = "plain"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[str, ...]
    kind: Literal["plain", "quiet", "verdicts"] = "plain"


@dataclass(frozen=True, slots=True)
class Banner:
    """A warning that the reader must see first."""

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
        """Return for each column whether its cells are numbers, which are aligned to the right."""
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
    """Blocks that are shown only when the reader opens them."""

    summary: str
    blocks: tuple[Block, ...]
    id: str = ""
    """The anchor for links; empty if nothing links here."""


@dataclass(frozen=True, slots=True)
class Subsection:
    """A heading below that of the section."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Diff:
    """How one text differs from another, line by line."""

    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a trace."""

    kind: str
    label: str
    text: str
    diverges_here: bool = False
    """Whether the two trials diverge at this piece."""


@dataclass(frozen=True, slots=True)
class SideView:
    """One trial, from its question to its end."""

    arm: str
    command: str
    """The command that prints the whole trace."""
    ending: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two trials of one task, beside each other."""

    trials: tuple[SideView, SideView]


Block = Paragraph | Items | Banner | Grid | Figure | Folded | Subsection | SideBySide | Code | Diff | Table | Lines | TraceLines


def kind_of(block: Block) -> str:
    """Return the name by which the template knows a kind of block or cell."""
    return type(block).__name__.lower()


@dataclass(frozen=True, slots=True)
class PageSection:
    """A part of the page that is listed in the table of contents."""

    id: str
    title: str
    blocks: tuple[Block, ...] = ()


def section_or_none(anchor: str, title: str, blocks: Sequence[Block]) -> PageSection | None:
    """Return a section, or None if it would be empty."""
    return PageSection(anchor, title, tuple(blocks)) if blocks else None


def under_headings(parts: Iterable[tuple[str, Sequence[Block]]]) -> list[Block]:
    """Return the blocks of each part below its heading, empty parts left out; a single part needs no heading."""
    sections = list(parts)
    if len(sections) == 1:
        return list(sections[0][1])
    return [Subsection(heading, tuple(blocks)) for heading, blocks in sections if blocks]


def count_bar(count: int, whole: int) -> Cell:
    """Return a count with a bar for its share of the whole; no bar for 0."""
    return Amount(str(count), count / whole) if count else "0"


def with_captions(blocks: Iterable[Block], written: Callable[[str], str]) -> tuple[Block, ...]:
    """Return the blocks with every table's caption written in another way."""
    return tuple(_with_caption(block, written) for block in blocks)


def _with_caption(block: Block, written: Callable[[str], str]) -> Block:
    match block:
        case Grid():
            return replace(block, caption=written(block.caption))
        case Folded() | Subsection():
            return replace(block, blocks=with_captions(block.blocks, written))
    return block


@dataclass(frozen=True, slots=True)
class Chapter:
    """One run among several: its sections, folded."""

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
