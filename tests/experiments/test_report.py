"""Tables, Markdown and CSV: what came from a model, a tool or a file is shown, and does nothing."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from loopbench.experiments.report import counts, interval, notes, p_value, plain, tables, to_csv, to_markdown, verdicts
from loopbench.metrics.comparison import ArmInfo, Comparison, compare
from loopbench.metrics.record import FaultRecord, Record
from loopbench.metrics.statistics import Interval

MARKS = [
    "|",
    "\\",
    "`",
    "*",
    "_",
    "~~",
    "[x](http://e)",
    "![x](y)",
    "<b>",
    "<!--",
    "&lt;",
    "&#124;",
    "\n",
    "\r\n",
    "\t",
    "\u2028",
    "#",
    "- ",
]
DIRTY = [
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\u202e",
    "\u2066",
    "\u061c",
    "\x00",
    "\x7f",
    "\ud800",
    "\U000e0041",
    "\x08",
    "\x85",
]
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1", "=HYPERLINK(0)", "＝1", "-cmd|' /C calc'!A0", "\r=1"]
ANY = st.text(st.characters()) | st.lists(st.sampled_from([*MARKS, *DIRTY, *FORMULAS]) | st.text(max_size=3), max_size=5).map(
    "".join
)


@pytest.fixture(scope="session")
def compared(record) -> Callable[..., Comparison]:
    """Compares arms of the names given, each with a few trials whose texts are also given."""

    def make(names: list[str], text: str = "x", n: int = 3) -> Comparison:
        records: list[Record] = []
        for position, name in enumerate(names):
            for number in range(n):
                right = float((number + position) % 2)
                fault = FaultRecord("wire.empty", "decide:c1", True, False, bool(right))
                common = {"arm": name, "task": f"t{number}", "scores": {"accuracy": right}, "faults": (fault,)}
                records.append(record(**common, errors={f"tool.{text}": 1}, stop="finished", steps=number))
            records.append(record(arm=name, task="left out", status="excluded", reason=text))
        arms = [ArmInfo(name, text, {"option": text}, "scripted", "clean", "s") for name in names]
        return compare(records, arms)

    return make


NAMES = st.lists(ANY, min_size=1, max_size=3, unique=True)


# --- plain text for terminals ---


@given(ANY)
def test_plain_text_holds_nothing_that_a_terminal_obeys(text):
    shown = plain(text)
    assert not {char for char in shown if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"}
    assert not {
        char for char in shown if unicodedata.bidirectional(char) in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")
    }
    shown.encode("utf-8")
    assert plain(shown) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S", "M"], include_characters=" \n\t\u00a0\u200d")))
def test_plain_text_of_any_language_stays_as_it_is(text):
    assert plain(text) == text


# --- Markdown ---


class Tags(HTMLParser):
    """Which elements a page has, and their text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.cells.append([])
        elif tag in ("td", "th"):
            self.cells[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.cells and self.cells[-1]:
            self.cells[-1][-1] += data


PAGE = {"h2", "h3", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}


@settings(max_examples=60)
@example(["#\n"], "", "")
@example(["1.\n", "-\n"], "", "")
@given(NAMES, ANY, ANY)
def test_markdown_shows_any_text_literally_in_its_own_cell(compared, names, text, title):
    made = to_markdown(title, compared(names, text))
    page = Tags()
    page.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(made))
    assert page.tags <= PAGE
    arms = [row for row in page.cells if len(row) == len(page.cells[0])][1 : 1 + len(names)]
    assert [row[0].split() for row in arms] == [plain(name).split() for name in names]


# --- CSV ---


@settings(max_examples=60)
@given(NAMES, ANY)
def test_csv_holds_no_cell_that_a_spreadsheet_runs(compared, names, text):
    rows = list(csv.reader(io.StringIO(to_csv(compared(names, text)), newline="")))
    assert len(rows) == 1 + len(names)
    assert len({len(row) for row in rows}) == 1
    for cell in (cell for row in rows for cell in row):
        assert plain(cell) == cell
        if cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\n", "\r", "＝", "＋", "－", "＠")) and cell[0] != " ":
            assert float(cell) <= 0
    assert [row[0].removeprefix("'") for row in rows[1:]] == [plain(name).removeprefix("'") for name in names]


def test_csv_keeps_numbers_as_numbers(compared):
    rows = list(csv.DictReader(io.StringIO(to_csv(compared(["a", "b"])))))
    arms = {arm.info.arm: arm.to_json() for arm in compared(["a", "b"]).arms}
    for row in rows:
        assert float(row["accuracy.value"]) == arms[row["arm"]]["accuracy"]["value"]
        assert float(row["accuracy.low"]) == arms[row["arm"]]["accuracy"]["low"]
        assert row["cost_usd"] == ""
        assert int(row["faults.landed"]) == 3


@pytest.mark.parametrize("number", ["-1", "-0.5", "-1e-05", "-1.5e+20", "3"])
def test_a_negative_number_is_no_formula(number):
    from loopbench.experiments.report import _csv_cell

    assert _csv_cell(number) == number
    assert _csv_cell(f"{number}+1").startswith("'") is number.startswith("-")


# --- tables and notes ---


@settings(max_examples=60)
@given(NAMES, ANY)
def test_every_row_of_every_table_is_as_wide_as_its_heading(compared, names, text):
    for table in tables(compared(names, text)):
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_tables_show_arms_troubles_and_pairs(compared):
    found = {table.title: table for table in tables(compared(["a", "b"], n=40))}
    arms, happened, primary, secondary = found.values()
    assert [row[0] for row in arms.rows] == ["a", "b"]
    assert arms.columns[:5] == ("arm", "scored", "errored", "excluded", "accuracy")
    assert "USD" not in arms.columns
    assert happened.rows[0][1:5] == ("finished 40", "tool.x 40", "40 of 40", "0")
    assert [row[:3] for row in primary.rows] == [("a", "b", "accuracy")]
    assert {row[2] for row in secondary.rows} == {"steps", "lm_calls", "tokens"}


def test_a_verdict_names_the_most_accurate_arm_and_how_sure_that_is(compared):
    comparison = compared(["a", "b"], n=3)
    (line,) = verdicts(comparison)
    best = max(comparison.arms, key=lambda arm: arm.summary.accuracy.value)
    assert line.startswith(f"Highest accuracy: {best.info.arm}, {interval(best.summary.accuracy, 3)}; ")
    (pair,) = [pair for pair in comparison.pairs if pair.family == "primary"]
    words = {"undecided": "undecided against", "equivalent": "equivalent to"}.get(pair.verdict.word, "better than")
    assert line.endswith(f"{words} {'b' if best.info.arm == 'a' else 'a'}")


def test_open_verdicts_between_equal_means_are_ties(compared):
    (line,) = verdicts(compared(["a", "b", "c"], n=4))  # each is right every other time
    assert line.startswith("Highest accuracy: a, 0.500 ")
    assert line.endswith("; tied with b, c")


def test_without_pairs_or_in_an_invalid_run_there_is_no_verdict(compared):
    assert verdicts(compared(["a"])) == []
    assert verdicts(replace(compared(["a", "b"], n=40), invalid=True)) == []


def test_pairs_on_other_metrics_are_shown_on_request(compared):
    titles = [table.title for table in tables(compared(["a", "b"], n=40), secondary=False)]
    assert titles == ["Arms", "What happened", "Accuracy, a minus b"]


def test_one_arm_has_no_pairs(compared):
    assert [table.title for table in tables(compared(["a"]))] == ["Arms", "What happened"]


def test_notes_begin_with_warnings_and_name_the_scripted_model(compared):
    said = notes(compared(["a", "b"]))
    assert said[0].startswith("Warning: a and b: 3 independent tasks")
    assert said[-1].startswith("The model is scripted")
    assert any("95 % intervals" in note for note in said)


def test_a_run_whose_faults_did_not_land_says_that_it_is_invalid(record):
    lost = FaultRecord("wire.empty", "decide:c1")
    records = [record(arm="a", task=f"t{number}", faults=(lost,)) for number in range(3)]
    said = notes(compare(records, [ArmInfo("a", "bare", {}, "scripted", "clean", "s")]))
    assert "This run is invalid: no verdict of it holds." in said


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (None, 3, "–"),
        (Interval(0.9, 0.8, 0.95, 10), 3, "0.900 [0.800, 0.950]"),
        (Interval(1234.4, 1000, 2000, 3), 0, "1234 [1000, 2000]"),
    ],
)
def test_intervals_in_words(value, digits, text):
    assert interval(value, digits) == text


def test_p_values_and_counts_in_words():
    assert [p_value(p) for p in (0.0, 0.0009, 0.001, 0.05, 1.0)] == ["<0.001", "<0.001", "0.001", "0.050", "1.000"]
    assert counts({"b": 1, "a": 1, "c": 7}) == "c 7, a 1, b 1"
    assert counts({}) == "–"


@settings(max_examples=60)
@given(NAMES, ANY)
def test_the_object_for_scripts_is_one_line_of_finite_json(compared, names, text):
    line = json.dumps(compared(names, text).to_json(), ensure_ascii=True, allow_nan=False)
    assert "\n" not in line
    assert [arm["arm"] for arm in json.loads(line)["arms"]] == names
