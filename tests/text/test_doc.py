"""Documents in each medium: whatever text they hold, nothing is lost, nothing is taken for markup, nothing is a formula."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from whichloop.reports.html import doc_html
from whichloop.text.doc import UNFOLDED, Block, Cell, Doc, Lines, Table, TraceLines, to_csv, to_markdown, to_terminal
from whichloop.text.output import plain_line, terminal_safe

HOSTILE = (
    "[bold]x[/]",
    "<script>",
    "a|b\\",
    "`` ` ``",
    "**x**",
    "=1+1",
    "\x1b[2J",
    "\r\n",
    "漢字",
    "-0.5",
    "1 %",
    "# x",
    "_a_",
    "&amp;",
)
TEXTS = st.lists(st.text(max_size=12) | st.sampled_from(HOSTILE), max_size=4).map("".join)
CELLS = TEXTS | st.builds(Cell, TEXTS, st.sampled_from(["", "good", "bad", "warn", "dim"]))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(TEXTS, min_size=1, max_size=6))
    rows = draw(st.lists(st.tuples(*[CELLS] * len(columns)), max_size=4))
    return Table(draw(TEXTS), tuple(columns), tuple(rows), draw(st.booleans()))


LABELS = st.sampled_from(["Adopt", "Warning", "at limit"])
LINES = st.lists(st.tuples(LABELS, TEXTS), max_size=4).map(lambda items: Lines(tuple(items)))
TRACES = st.builds(TraceLines, TEXTS, st.lists(TEXTS, max_size=4).map(tuple), st.booleans())
DOCS = st.builds(Doc, TEXTS, st.lists(tables() | LINES | TRACES, max_size=4).map(tuple))


def texts_of(block: Block) -> list[str]:
    if isinstance(block, Table):
        return [block.title, *block.columns, *(text for row in block.texts for text in row)]
    return [text for item in block.items for text in item] if isinstance(block, Lines) else [block.title, *block.lines]


def printed(doc: Doc, width: int, *, detail: bool = True) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False, _environ={})
    with console.capture() as captured:
        to_terminal(doc, console, detail=detail)
    return captured.get()


def characters(text: str) -> Counter[str]:
    return Counter("".join(terminal_safe(text).split()))


@given(DOCS, st.integers(40, 200) | st.just(UNFOLDED))
def test_a_terminal_shows_all_text_and_no_control_character(doc, width):
    shown = printed(doc, width)
    assert terminal_safe(shown) == shown
    missing = characters("\n".join([doc.title, *(text for block in doc.blocks for text in texts_of(block))])) - characters(shown)
    assert not missing
    if width == UNFOLDED:
        lines = [" ".join(line.split()) for line in shown.splitlines()]
        for row in (row for table in doc.tables for row in table.texts):
            assert " ".join(" ".join(map(plain_line, row)).split()) in lines


@given(DOCS)
def test_markdown_has_a_line_for_each_row_and_shows_every_text_as_it_is(doc):
    for table in doc.tables:
        written = to_markdown(Doc("x", (table,)))
        lines = written.splitlines()[-len(table.rows) - 2 :]
        assert [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines] == [len(table.columns) + 1] * len(lines)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(to_markdown(doc))
    read = Read(html)
    assert set(read.tags) <= {"h2", "h3", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "strong", "pre", "code", "p"}
    for text in (text for table in doc.tables for row in table.texts for text in row):
        assert characters(plain_line(text)) <= characters(read.text)


@given(tables())
def test_csv_reads_back_and_holds_no_formula(table):
    rows = list(csv.reader(io.StringIO(to_csv(table), newline="")))
    for written, row in zip(rows, [table.columns, *table.texts], strict=True):
        for cell, text in zip(written, row, strict=True):
            assert cell.removeprefix("'") == terminal_safe(text).removeprefix("'")
            assert not cell.startswith(("=", "+", "@", "\t", "\r"))
            assert not cell.startswith("-") or float(cell) <= 0


class Read(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(DOCS)
def test_html_shows_every_text_and_takes_none_for_a_tag(doc):
    page = Read(doc_html(doc))
    known = "div p strong details summary table caption span thead tbody tr th td dl dt dd pre code wbr"
    assert set(page.tags) <= set(known.split())
    assert not characters("\n".join(text for block in doc.blocks for text in texts_of(block))) - characters(page.text)


# --- the form ---

ROWS = (("bare", "1,234", Cell("~98 %", "good")), ("finish", "–", "5"))


def test_amounts_stand_at_the_right_and_words_at_the_left():
    words = Table("", ("loop", "why"), (("bare", "it"), ("finish", "late")))
    assert printed(Doc("", (Table("", ("loop", "tokens", "solved"), ROWS), words)), 80).splitlines() == [
        "loop    tokens  solved",
        "bare     1,234   ~98 %",
        "finish       –       5",
        "loop    why",
        "bare    it",
        "finish  late",
    ]


def test_details_are_shown_on_request_and_a_document_without_a_title_begins_with_its_first_block():
    doc = Doc("", (Lines((("Adopt", "finish"),)), Table("Arms", ("arm",), (("bare",),), detail=True)))
    assert printed(doc, 80, detail=False) == "Adopt      finish\n"
    assert printed(doc, 80) == "Adopt      finish\n\nArms\narm\nbare\n"
    assert str(doc) == "Adopt      finish"
    assert "### Arms" in to_markdown(doc)
    assert "<summary>Arms</summary>" in doc_html(doc)
