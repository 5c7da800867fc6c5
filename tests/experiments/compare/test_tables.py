"""Tables, Markdown and CSV: what came from a model, a tool or a file is shown, and does nothing."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.cases import cases
from whichloop.experiments.compare.tables import comparison_notes, comparison_tables, outlook_in_words, to_csv, to_markdown
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison, compare
from whichloop.metrics.outlook import Chance, Outlook
from whichloop.metrics.pairs import Pair
from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.statistics import Interval, Verdict
from whichloop.metrics.summary import METRICS
from whichloop.metrics.views import Views, views
from whichloop.text.numbers import chance_in_words, counts, dollars_text, interval, p_value, relation, standing, verdict
from whichloop.text.output import terminal_safe
from whichloop.text.doc import Table

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


@pytest.fixture(scope="session")
def seen(record) -> Callable[..., tuple[Comparison, Views]]:
    """Comparison and views of arms of the names given, with repeats, costs and confidence, in a suite of a name also given."""

    def make(names: list[str], suite: str = "s", n: int = 12) -> tuple[Comparison, Views]:
        infos = [ArmInfo(name, "loop", {}, "scripted", "clean", suite) for name in names]
        records = [
            record(
                arm=name,
                task=f"t{task}",
                repeat=repeat,
                scores={"accuracy": float((task + repeat) % (2 + place) > 0)},
                input_tokens=100 * (1 + place) + task,
                confidence=0.5 + 0.4 * (task % 2),
            )
            for place, name in enumerate(names)
            for task in range(n)
            for repeat in range(2)
        ]
        return compare(records, infos), views(records, infos)

    return make


NAMES = st.lists(ANY, min_size=1, max_size=3, unique=True)


# --- plain text for terminals ---


@given(ANY)
def test_plain_text_holds_nothing_that_a_terminal_obeys(text):
    shown = terminal_safe(text)
    assert not {char for char in shown if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"}
    assert not {
        char for char in shown if unicodedata.bidirectional(char) in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")
    }
    shown.encode("utf-8")
    assert terminal_safe(shown) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S", "M"], include_characters=" \n\t\u00a0\u200d")))
def test_plain_text_of_any_language_stays_as_it_is(text):
    assert terminal_safe(text) == text


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


@settings(max_examples=cases(15))
@example(["#\n"], "", "")
@example(["1.\n", "-\n"], "", "")
@given(NAMES, ANY, ANY)
def test_markdown_shows_any_text_literally_in_its_own_cell(compared, names, text, title):
    made = to_markdown(title, compared(names, text))
    page = Tags()
    page.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(made))
    assert page.tags <= PAGE
    arms = [row for row in page.cells if len(row) == len(page.cells[0])][1 : 1 + len(names)]
    assert [row[0].split() for row in arms] == [terminal_safe(name).split() for name in names]


# --- CSV ---


@settings(max_examples=cases(15))
@given(NAMES, ANY)
def test_csv_holds_no_cell_that_a_spreadsheet_runs(compared, names, text):
    rows = list(csv.reader(io.StringIO(to_csv(compared(names, text)), newline="")))
    assert len(rows) == 1 + len(names)
    assert len({len(row) for row in rows}) == 1
    for cell in (cell for row in rows for cell in row):
        assert terminal_safe(cell) == cell
        if cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\n", "\r", "＝", "＋", "－", "＠")) and cell[0] != " ":
            assert float(cell) <= 0
    assert [row[0].removeprefix("'") for row in rows[1:]] == [terminal_safe(name).removeprefix("'") for name in names]


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
    from whichloop.text.doc import csv_cell

    assert csv_cell(number) == number
    assert csv_cell(f"{number}+1").startswith("'") is number.startswith("-")


# --- tables and notes ---


@settings(max_examples=cases(15), deadline=None)
@given(NAMES, ANY)
def test_markdown_shows_other_views_literally_too(seen, names, suite):
    page = Tags()
    page.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(to_markdown("run", *seen(names, suite, n=3))))
    assert page.tags <= PAGE


@settings(max_examples=cases(15), deadline=None)
@given(NAMES, ANY)
def test_every_row_of_other_views_is_as_wide_as_its_heading(seen, names, suite):
    for table in comparison_tables(*seen(names, suite, n=3)):
        assert {len(row) for row in table.rows} == {len(table.columns)}


@settings(max_examples=cases(15))
@given(NAMES, ANY)
def test_every_row_of_every_table_is_as_wide_as_its_heading(compared, names, text):
    for table in comparison_tables(compared(names, text)):
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_tables_show_arms_troubles_and_pairs(compared):
    found = {table.title: table for table in comparison_tables(compared(["a", "b"], n=40))}
    arms, happened, primary, secondary = found.values()
    assert [row[0] for row in arms.rows] == ["a", "b"]
    assert arms.columns[:5] == ("arm", "scored", "errored", "excluded", "accuracy")
    assert "USD" not in arms.columns
    assert happened.rows[0][1:5] == ("finished 40", "tool.x 40", "40 of 40", "0")
    assert primary.columns[:3] == ("a", "b", "difference")
    assert [row[:2] for row in primary.rows] == [("a", "b")]
    ours = {row[2] for row in secondary.rows if not METRICS[row[2]].in_trials}
    assert ours == {"steps", "lm_calls", "tokens", "false_success_rate"}


def test_an_undecided_pair_shows_the_size_that_would_decide_it(compared):
    comparison = compared(["a", "b"], n=20)
    (pair,) = [pair for pair in comparison.pairs if pair.family == "primary"]
    assert pair.outlook is not None
    (_, _, primary, _) = comparison_tables(comparison)
    assert primary.columns[-1] == "would decide"
    assert primary.rows[0][-1] == f"{pair.outlook.more.tasks:,} tasks ({chance_in_words(pair.outlook.more.chance)})"


def test_pairs_on_other_metrics_are_shown_on_request(compared):
    titles = [table.title for table in comparison_tables(compared(["a", "b"], n=40), secondary=False)]
    assert titles == ["Arms", "What happened", "Accuracy, a minus b"]


def test_one_arm_has_no_pairs(compared):
    assert [table.title for table in comparison_tables(compared(["a"]))] == ["Arms", "What happened"]


def test_notes_begin_with_warnings_and_name_the_scripted_model(compared):
    said = comparison_notes(compared(["a", "b"]))
    assert said[0] == "Warning: 1 of 4 tasks is left out, all of them because of: x."
    assert said[1].startswith("Warning: a and b: 3 independent tasks")
    assert said[-1].startswith("The model is scripted")
    assert any("95 % intervals" in note for note in said)


def test_a_run_whose_faults_did_not_land_says_that_it_is_invalid(record):
    lost = FaultRecord("wire.empty", "decide:c1")
    records = [record(arm="a", task=f"t{number}", faults=(lost,)) for number in range(3)]
    said = comparison_notes(compare(records, [ArmInfo("a", "bare", {}, "scripted", "clean", "s")]))
    assert "This run is invalid: none of its verdicts holds." in said


# --- what it would take ---


@pytest.mark.parametrize(
    ("outlook", "said"),
    [
        (
            Outlook(1, Chance(480, 960, 3.1, 0.52), Chance(2_100, 4_200, 13.02, 0.81)),
            "with 480 tasks × 1 repeat (960 trials, about $3.10), the chance that this comparison decides is about 50 %; "
            "with 2,100 tasks (4,200 trials, about $13.02), about 80 %",
        ),
        (
            Outlook(5, Chance(120, 1_200, None, 0.999), Chance(120, 1_200, None, 0.999)),
            "with 120 tasks × 5 repeats (1,200 trials), the chance that this comparison decides is about 95 %",
        ),
    ],
)
def test_an_outlook_in_words(outlook, said):
    assert outlook_in_words(outlook) == said


@pytest.mark.parametrize(
    ("amount", "said"),
    [(0.0, "0.00"), (0.00042, "0.00042"), (0.0099, "0.0099"), (0.1, "0.10"), (3.1, "3.10"), (1234.5, "1,234.50")],
)
def test_dollars_in_words(amount, said):
    assert dollars_text(amount) == said


# --- one pair in words ---


def made_pair(word: str, difference: float, within: bool = False) -> Pair:
    return Pair("a", "b", "accuracy", Interval(difference, -1, 1, 9), 9, 0.5, 0.5, 0.02, Verdict(word, within), 0.05)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "difference", "of_a", "of_b", "cell"),
    [
        ("better", 0.5, "better", "worse", "a is better"),
        ("worse", -0.5, "worse", "better", "a is worse"),
        ("equivalent", 0.0, "equivalent", "equivalent", "equivalent"),
        ("undecided", 0.1, "undecided", "undecided", "undecided"),
        ("undecided", 0.0, "undecided", "undecided", "undecided"),
    ],
)
def test_a_pair_from_either_side(word, difference, of_a, of_b, cell):
    pair = made_pair(word, difference)
    assert (standing(pair), standing(pair, "a"), standing(pair, "b")) == (of_a, of_a, of_b)
    assert verdict(pair) == cell
    words = {"equivalent": "equivalent to", "undecided": "undecided against"}
    assert relation(pair, "b") == words.get(of_b, f"{of_b} than")


def test_within_the_margin_is_said():
    assert verdict(made_pair("worse", -0.01, within=True)) == "a is worse, within the margin"


# --- other views ---


def found_table(made: tuple[Table, ...], start: str) -> Table:
    (table,) = [table for table in made if table.title.startswith(start)]
    return table


def test_the_front_is_shown_by_default_and_the_rest_on_request(seen):
    comparison, found = seen(["a", "b"])
    short = [table.title for table in comparison_tables(comparison, found, secondary=False)]
    assert short == ["Arms", "What happened", "Accuracy, a minus b", "Accuracy against tokens: the Pareto front"]
    whole = [table.title for table in comparison_tables(comparison, found)]
    assert [title.split(",")[0].split(":")[0] for title in whole] == [
        "Arms",
        "What happened",
        "Accuracy",
        "Other metrics",
        "Accuracy against tokens",
        "Accuracy within a budget per trial",
        "Repeats",
        "Confidence",
    ]


def test_the_front_has_the_most_accurate_arm_first(seen):
    front = found_table(comparison_tables(*seen(["a", "b", "c"])), "Accuracy against tokens")
    assert [row[0] for row in front.rows] == ["c", "b", "a"]
    assert front.columns[2:4] == ("tokens per trial", "tokens per solved task")
    assert {row[-2] for row in front.rows} == {"yes"}
    assert all(0 < float(row[-1]) <= 1 for row in front.rows)


def test_budgets_name_the_highest_arm_and_how_others_stand_to_it(seen):
    budgets = found_table(comparison_tables(*seen(["a", "b"], n=40)), "Accuracy within")
    assert budgets.title == "Accuracy within a budget per trial, s, clean (secondary; against the highest)"
    assert budgets.columns == ("arm", "119 tokens", "139 tokens", "219 tokens")
    cells = {row[0]: row[1:] for row in budgets.rows}
    for column in range(3):
        said = [cells[arm][column].split("] ")[1] for arm in "ab"]
        assert "highest" in said
        assert {*said} - {"highest"} <= {"worse", "equivalent", "undecided"}


def test_repeats_and_confidence_are_tables(seen):
    made = comparison_tables(*seen(["a", "b"]))
    (repeats, confidence) = (found_table(made, start) for start in ("Repeats", "Confidence"))
    assert [row[:3] for row in repeats.rows] == [("a", "12", "2"), ("b", "12", "2")]
    assert [row[:2] for row in confidence.rows] == [("a", "24 of 24"), ("b", "24 of 24")]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (Interval(2.0, 1.0, float("inf"), 3), 1, "2.0 [1.0, ∞]"),
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


@settings(max_examples=cases(15))
@given(NAMES, ANY)
def test_the_object_for_scripts_is_one_line_of_finite_json(compared, names, text):
    line = json.dumps(compared(names, text).to_json(), ensure_ascii=True, allow_nan=False)
    assert "\n" not in line
    assert [arm["arm"] for arm in json.loads(line)["arms"]] == names


def test_pairs_under_several_profiles_are_named_by_loop_and_profile(record):
    """A row of two arms' whole names is wider than a terminal."""
    infos = [ArmInfo(f"{loop}/{profile}", loop, {}, "scripted", profile, "s") for profile in ("calm", "rough") for loop in "ab"]
    records = [record(arm=info.arm, task=f"t{n}", scores={"accuracy": 1.0}) for info in infos for n in range(3)]
    pairs = found_table(comparison_tables(compare(records, infos)), "Accuracy, a minus b")
    assert pairs.columns[:4] == ("a", "b", "under", "difference")
    assert [row[:3] for row in pairs.rows] == [("a", "b", "calm"), ("a", "b", "rough")]
