"""The one form of everything that is shown: a document of tables, labelled lines and traces, rendered once for each medium.

What a block holds is data. Each renderer escapes for its own medium, and nobody else does. HTML is rendered by `reports.html`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from .output import plain_line, terminal_safe

Style = Literal["", "good", "bad", "warn", "dim"]
STYLES: Mapping[Style, str] = {"": "", "good": "bold green", "bad": "red", "warn": "yellow", "dim": "dim"}
UNKNOWN = "–"
"""What stands in a cell whose value is not known."""
UNFOLDED = 10_000
"""Width in columns at which nothing is folded, as in a pipe or a file."""
TEXT_WIDTH = 100
"""Width in columns of a document as text, as in a failed test."""
MIN_LABEL = 9
COMMAND = "whichloop "
"""How a text begins that is a command."""
_AMOUNT = re.compile(r"[<>≤≥~+−×$-]*[\d.][\d.,]*( ?%)?|–|")
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")
"""Characters that a spreadsheet may take for the start of a formula (OWASP, CSV injection)."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table."""

    text: str
    style: Style = ""
    value: float | str | None = None
    """What the text says, for frames and sorting; None where the text is all there is."""


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, column names, and rows of cells; a text is a cell without style."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    detail: bool = False
    """Whether a terminal shows it only with -v. The page and Markdown always do."""

    @property
    def texts(self) -> list[list[str]]:
        """The texts of all cells, by row."""
        return [[cell if isinstance(cell, str) else cell.text for cell in row] for row in self.rows]

    @property
    def amounts(self) -> list[bool]:
        """Whether all texts of a column are amounts, which stand at the right, by column."""
        texts = self.texts
        return [n > 0 and all(_AMOUNT.fullmatch(row[n]) for row in texts) for n in range(len(self.columns))]


@dataclass(frozen=True, slots=True)
class Lines:
    """Labels and texts, such as `Adopt` and `finish`."""

    items: tuple[tuple[str, str], ...]
    detail: bool = False


@dataclass(frozen=True, slots=True)
class TraceLines:
    """Lines of a trial as they are, of which a medium keeps line breaks and indents."""

    title: str
    lines: tuple[str, ...]
    detail: bool = False


Block = Table | Lines | TraceLines


def _held(block: Block) -> Sequence[object]:
    """Return what a block holds: nothing is shown of one that is empty."""
    if isinstance(block, Table):
        return block.rows
    return block.items if isinstance(block, Lines) else block.lines


@dataclass(frozen=True, slots=True)
class Doc:
    """What a command, a page, a notebook, a failed test or a pull request shows of a result."""

    title: str
    blocks: tuple[Block, ...]
    """Those that hold something."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The object that `--json` prints."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(filter(_held, self.blocks)))

    def shown(self, *, detail: bool) -> list[Block]:
        """Return the blocks that a terminal shows."""
        return [block for block in self.blocks if detail or not block.detail]

    @property
    def tables(self) -> list[Table]:
        """The tables, those of the answer first."""
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def facts(self) -> dict[str, list[str]]:
        """The labels of the answer's lines with their texts, such as `Adopt`."""
        facts: dict[str, list[str]] = {}
        for label, text in (item for block in self.blocks if isinstance(block, Lines) and not block.detail for item in block.items):
            facts.setdefault(label, []).append(text)
        return facts

    def __str__(self) -> str:
        """Return the document as text, without details."""
        console = Console(width=TEXT_WIDTH, color_system=None, legacy_windows=False, _environ={})
        with console.capture() as captured:
            to_terminal(self, console)
        return captured.get().rstrip("\n")


def to_terminal(doc: Doc, console: Console, *, detail: bool = False) -> None:
    """Print a document. Nothing is cut: what is too wide is folded, but in a pipe, whose width is `UNFOLDED`, nothing is."""
    if doc.title:
        print_laid_out(Text(plain_line(doc.title), style="bold"), console)
    for number, block in enumerate(blocks := doc.shown(detail=detail)):
        if number and (block.detail or blocks[number - 1].detail):
            console.print()
        if not isinstance(block, Lines) and block.title:
            print_laid_out(Text(plain_line(block.title), style="bold" if isinstance(block, TraceLines) else "italic"), console)
        if isinstance(block, Table):
            for piece in _pieces(block, console.width):
                print_laid_out(_grid(piece, console), console)
        elif isinstance(block, Lines):
            _print_labelled(block, console)
        else:
            for line in block.lines:
                print_laid_out(Text(terminal_safe(line)), console)


def _pieces(table: Table, width: int) -> Iterator[Table]:
    """Yield a table that is too wide in pieces side by side, each with the first; what is folded takes a third of the width."""
    rows = [list(table.columns), *table.texts]
    wide = [max(cell_len(plain_line(row[n])) for row in rows) + 1 for n in range(len(table.columns))]
    wide = [each if each <= width // 2 + 1 else width // 3 for each in wide]
    parts: list[list[int]] = [[]]
    for n in range(1, len(table.columns)):
        if parts[-1] and wide[0] + sum(wide[each] for each in parts[-1]) + wide[n] > width + 1:
            parts.append([])
        parts[-1].append(n)
    for part in parts:
        kept = (0, *part)
        cells = tuple(tuple(row[n] for n in kept) for row in table.rows)
        yield Table(table.title, tuple(table.columns[n] for n in kept), cells, table.detail)


def _grid(table: Table, console: Console) -> Grid:
    """Return a table for rich: amounts stand at the right, and only a column that takes half of the width or more is folded."""
    texts = table.texts
    wide = [max(cell_len(plain_line(row[n])) for row in [table.columns, *texts]) for n in range(len(table.columns))]
    gap = 2 if sum(wide) + 2 * len(wide) - 2 <= console.width else 1
    grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for number, (name, are_amounts) in enumerate(zip(table.columns, table.amounts, strict=True)):
        is_whole = wide[number] <= console.width // 2
        grid.add_column(Text(plain_line(name)), justify="right" if are_amounts else "left", no_wrap=is_whole, overflow="fold")
    for row in table.rows:
        cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
        grid.add_row(*(Text(plain_line(cell.text), style=STYLES[cell.style]) for cell in cells))
    return grid


def _print_labelled(lines: Lines, console: Console) -> None:
    """Print labels beside their texts; a command is never folded, so that it can be copied."""
    width = max([MIN_LABEL, *(cell_len(plain_line(label)) for label, _ in lines.items)]) + 2
    for label, text in lines.items:
        told, style = plain_line(text), "yellow" if label == "Warning" else "bold"
        if told.startswith(COMMAND):
            console.print(Text.assemble((f"{plain_line(label):<{width}}", style), told), soft_wrap=True)
            continue
        grid = Grid.grid()
        grid.add_column(no_wrap=True, width=width)
        grid.add_column(overflow="fold")
        grid.add_row(Text(plain_line(label), style=style), Text(told))
        print_laid_out(grid, console)


def print_laid_out(renderable: RenderableType, console: Console) -> None:
    """Print what rich lays out, without the blanks with which it fills lines up."""
    for segments in console.render_lines(renderable, pad=False):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments if not segment.control))
        line.rstrip()
        console.print(line, soft_wrap=True)


def to_markdown(doc: Doc) -> str:
    """Return a document as Markdown, in which what is shown is literal; details follow their titles."""
    return "\n\n".join([f"## {markdown_cell(doc.title)}", *map(_markdown_block, doc.blocks)]) + "\n"


def _markdown_block(block: Block) -> str:
    if isinstance(block, Lines):
        return "\n".join(f"- **{markdown_cell(label)}** {markdown_cell(text)}" for label, text in block.items)
    title = f"### {markdown_cell(block.title)}\n\n" if block.title else ""
    if isinstance(block, TraceLines):
        safe = terminal_safe("\n".join(block.lines))
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", safe)), default=0))  # longer than any inside it
        return f"{title}{fence}text\n{safe}\n{fence}"
    rows = [[markdown_cell(cell) for cell in row] for row in (block.columns, *block.texts)]
    rows.insert(1, ["---"] * len(block.columns))
    return title + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def markdown_cell(text: str) -> str:
    """Return text as one line in which Markdown and HTML marks are literal."""
    escaped = plain_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|`*_~\[\]])", r"\\\1", escaped)


def to_csv(table: Table) -> str:
    """Return a table as CSV, in which no text is a formula of a spreadsheet's."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([map(_csv_cell, row) for row in (table.columns, *table.texts)])
    return written.getvalue()


def _csv_cell(text: str) -> str:
    safe = terminal_safe(text)
    return f"'{safe}" if safe.startswith(_FORMULA) and not _NUMBER.fullmatch(safe) else safe


def lines_of(*pairs: tuple[str, str | Sequence[str]]) -> Lines:
    """Return labels with their texts, several texts as several lines; a label without a text is left out."""
    items = [(label, text) for label, texts in pairs for text in ([texts] if isinstance(texts, str) else texts) if text]
    return Lines(tuple(items))
