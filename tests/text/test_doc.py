"""Documents in each medium, and numbers as text: nothing is lost, taken for markup or a formula, and no bound looks cut."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from whichloop.metrics.statistics import Interval
from whichloop.reports.html.page import doc_html
from whichloop.text.doc import UNFOLDED, Block, Cell, Doc, Lines, Table, TraceLines, to_csv, to_markdown, to_terminal
from whichloop.text.numbers import difference_text, interval
from whichloop.text.output import plain_line, terminal_safe

HOSTILE = (
    *("[bold]x[/]", "<script>", "a|b\\", "`` ` ``", "**x**", "=1+1", "\x1b[2J", "\r\n", "漢字", "-0.5"),
    *("1 %", "# x", "_a_", "&amp;"),
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


DIFFERENCES = st.floats(1e-6, 1)


@given(DIFFERENCES, DIFFERENCES, st.sampled_from([1, -1]))
def test_the_interval_of_a_difference_that_is_not_0_never_shows_0(one, other, sign):
    low, high = sorted((sign * one, sign * other))
    assume(low < high)
    shown = interval(Interval((low + high) / 2, low, high, 9), 3)
    ends = shown.partition("[")[2].rstrip("]").split(", ")
    assert all(end == (">0" if sign > 0 else "<0") or float(end) * sign > 0 for end in ends)


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.000147, 0.126, "0.062 [0.0001, 0.126]"),
        (0.0004999, 0.126, "0.062 [0.0004, 0.126]"),
        (1e-12, 0.126, "0.062 [>0, 0.126]"),
        (0.01, 0.126, "0.062 [0.010, 0.126]"),
        (0.0, 0.126, "0.062 [0.000, 0.126]"),
        (-0.0001, 0.126, "0.062 [0.000, 0.126]"),
    ],
)
def test_a_bound_beside_0_is_shown_as_such(low, high, shown):
    assert interval(Interval(0.062, low, high, 9), 3) == shown


@given(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_difference_that_is_shown_never_has_an_end_that_looks_cut(value, below, above):
    """And of one that is not shown no end is written as 0 on the side that its mean lies on."""
    found = Interval(value, value - below, value + above, 100)
    text = difference_text(found, 3)
    if found.low > 0 or found.high < 0:
        assert text == interval(found, 3)
    elif found.low < found.high:
        ends = text.partition("[")[2].rstrip("]").split(", ")
        assert ends[0] != "0.000" or value <= 0
        assert ends[1] != "0.000" or value >= 0


def test_an_end_at_0_is_written_as_beyond_it():
    assert difference_text(Interval(0.092, 0.0, 0.177, 120), 3) == "0.092 [≤0, 0.177]"
    assert difference_text(Interval(-0.092, -0.177, 0.0, 120), 3) == "-0.092 [-0.177, ≥0]"
    assert difference_text(Interval(0.0, -0.05, 0.05, 120), 3) == "0.000 [-0.050, 0.050]"
