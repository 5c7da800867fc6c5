"""Charts: numbers stand where they belong, whatever they are called, and a screen reader hears of them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import compare
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.statistics import Interval, PairVerdict
from whichloop.metrics.views import CostPoint, Front
from whichloop.reports.html import charts
from whichloop.reports.html.failures import MAX_BINS, steps_chart
from whichloop.reports.html.svg import (
    CHAR,
    COLUMN_CHARS,
    NARROW,
    Axis,
    ChartRow,
    Group,
    interval_rows,
    label_lines,
    middle_cut,
    number_lines,
    scale,
    standalone,
)
from whichloop.text.output import terminal_safe

IN_ONE_FORK = "the run of three designs that has a page"

SVG = "{http://www.w3.org/2000/svg}"
VALUES = st.floats(-1e6, 1e6)
ANY = st.text(st.characters(), max_size=60)
AXIS = Axis("x", 0.02, (("better", "better"), ("undecided", "undecided")))


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    low, value, high = sorted(draw(st.tuples(VALUES, VALUES, VALUES)))
    return Interval(value, low, high, 5)


def parsed(drawn: str) -> ElementTree.Element:
    """As XML, which takes nothing that is not well formed."""
    return ElementTree.fromstring(drawn)


def said(drawn: str) -> list[str]:
    """The visible texts."""
    return ["".join(text.itertext()) for text in parsed(drawn).iter(f"{SVG}text")]


def share(attribute: str) -> float:
    assert attribute.endswith("%")
    return float(attribute[:-1])


# --- scales ---


@given(st.lists(VALUES, min_size=1, max_size=8))
def test_a_scale_holds_all_values_in_their_order(values):
    found = scale(values)
    rounding = 1e-8 * (found.high - found.low)
    assert all(found.low - rounding <= value <= found.high + rounding for value in values)
    places = [found.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(found.left <= at <= found.right for at in places)
    assert 2 <= len(found.ticks) <= 9
    steps = {round((b - a) / (found.ticks[1] - found.ticks[0]), 6) for a, b in zip(found.ticks, found.ticks[1:], strict=False)}
    assert steps == {1.0}
    assert len({found.label(tick) for tick in found.ticks}) == len(found.ticks)


@pytest.mark.parametrize(
    "values", [[], [0.0], [1.0, 1.0], [math.nan], [math.inf], [-math.inf, 0.0], [1e-300], [1e300, -1e300], [5e-324]]
)
def test_there_is_a_scale_for_any_values(values):
    found = scale(values)
    assert all(math.isfinite(tick) for tick in found.ticks)
    assert found.left <= found.at(0.0) <= found.right


def test_ticks_are_round():
    assert [scale([0.553, 1.0]).label(tick) for tick in scale([0.553, 1.0]).ticks] == ["0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]
    assert [scale([-0.25, 0.25]).label(tick) for tick in scale([-0.25, 0.25]).ticks][:2] == ["−0.3", "−0.2"]
    assert scale([4153, 17389]).label(scale([4153, 17389]).ticks[-1]) == "17,500"


# --- rows of intervals ---


def test_a_screen_reader_hears_under_which_profile_a_row_stands(breeze):
    for drawn in (charts.accuracy(breeze.comparison.arms), charts.forest(breeze.comparison)):
        described = parsed(drawn).findtext(f"{SVG}desc") or ""
        assert re.findall(r"arithmetic, [a-z-]+: ", described) == ["arithmetic, flaky-format: ", "arithmetic, flaky-tools: "]


@given(st.lists(st.tuples(ANY, intervals()), min_size=1, max_size=4), ANY)
def test_every_interval_is_drawn_where_its_ends_are(rows, title):
    drawn = interval_rows(title, "d", [Group("g", tuple(ChartRow(name, value, "n", "better") for name, value in rows))], AXIS)
    spans = [line for line in parsed(drawn).iter(f"{SVG}line") if "span" in line.attrib["class"]]
    marks = [part for part in parsed(drawn).iter(f"{SVG}svg") if part.attrib.get("x", "").endswith("%")]
    assert len(spans) == len(marks) == len(rows)
    ends = scale([0.02, -0.02, *(end for _, value in rows for end in (value.low, value.high))])
    for (_, value), span, mark in zip(rows, spans, marks, strict=True):
        assert share(span.attrib["x1"]) == pytest.approx(ends.at(value.low), abs=0.01)
        assert share(span.attrib["x2"]) == pytest.approx(ends.at(value.high), abs=0.01)
        assert share(mark.attrib["x"]) == pytest.approx(ends.at(value.value), abs=0.01)
        assert span.attrib["y1"] == mark.attrib["y"]


@given(st.lists(st.tuples(ANY, intervals()), min_size=1, max_size=4), ANY)
def test_no_name_and_no_number_lies_on_a_line_or_a_mark(rows, heading):
    """Names and numbers end before the axis begins, and no line goes through the height of a heading."""
    made = tuple(ChartRow(name, value, charts.signed(value, 3), "better") for name, value in rows)
    found = parsed(interval_rows("t", "d", [Group(heading, made), Group("second", made)], AXIS))
    texts = [text for text in found.iter(f"{SVG}text") if text.attrib["class"] in ("label", "numbers")]
    assert texts
    lines = [line for line in found.iter(f"{SVG}line") if line.attrib["x1"].endswith("%")]
    left = min(share(line.attrib["x1"]) for line in lines) / 100 * NARROW
    for text in texts:
        assert text.attrib["x"] == "0"
        assert CHAR * min(len("".join(text.itertext())), COLUMN_CHARS) <= left
    for text in found.iter(f"{SVG}text"):
        if text.attrib["class"] == "heading":
            y = float(text.attrib["y"])
            assert not [line for line in lines if float(line.attrib["y1"]) < y < float(line.attrib["y2"])]


@given(ANY, st.integers(4, 30), st.integers(2, 4))
def test_a_label_takes_few_lines_and_each_fits(text, most, lines):
    made = label_lines(text, most, lines)
    assert len(made) <= lines
    assert all(0 < len(line) <= most for line in made)
    if "…" not in "".join(made) and len(text) <= most:
        assert made == ([" ".join(text.split())] if text.split() else [])


def test_a_long_number_breaks_before_its_interval():
    assert number_lines("+0.300 [+0.161, +0.439]") == ["+0.300 [+0.161, +0.439]"]
    assert number_lines("-12345.67 [-23456.78, -1234.56]") == ["-12345.67", "[-23456.78, -1234.56]"]


@given(ANY, ANY, ANY)
def test_text_in_a_chart_is_text(label, numbers, title):
    drawn = interval_rows(title, label, [Group(label, (ChartRow(label, Interval(0, 0, 1, 3), numbers),))], Axis(title))
    found = parsed(drawn)
    assert {element.tag.removeprefix(SVG) for element in found.iter()} <= {
        "svg",
        "title",
        "desc",
        "g",
        "text",
        "line",
        "rect",
        "path",
    }
    shown = [terminal_safe(text).translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}) for text in (title, numbers)]
    assert (found.findtext(f"{SVG}title") or "") == shown[0]
    assert shown[1] in said(drawn)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", drawn)


def test_a_long_name_keeps_both_ends_and_its_whole_in_the_title():
    name = "phased(" + "x" * 100 + "=5)"
    drawn = interval_rows("t", "d", [Group("", (ChartRow(name, None, "–"),))], Axis("x"))
    shown = "".join(text.text or "" for text in parsed(drawn).iter(f"{SVG}text") if text.attrib["class"] == "label")
    assert "…" in shown
    assert len(shown) <= 2 * COLUMN_CHARS
    assert (shown[:7], shown[-4:]) == ("phased(", "x=5)")
    assert any(name in (title.text or "") for title in parsed(drawn).iter(f"{SVG}title"))


@given(ANY, st.integers(2, 60))
def test_a_cut_name_is_short_enough(text, most):
    assert len(middle_cut(text, most)) <= max(most, 0) or len(text) <= most
    assert middle_cut(text, len(text)) == text


# --- the charts of a run ---


@pytest.fixture
def compared(record):
    """Two arms under each of two profiles: b is right every other time, a always."""
    names = [(f"{loop}/{profile}", profile) for profile in ("p", "q") for loop in ("a", "b")]
    records = [
        record(arm=arm, task=f"t{n}", scores={"accuracy": float(arm[0] == "a" or n % 2)}, steps=n % 7)
        for arm, _ in names
        for n in range(40)
    ]
    return compare(records, [ArmInfo(arm, arm[0], {}, "scripted", profile, "s") for arm, profile in names]), records


def test_the_forest_has_a_row_for_each_pair_and_says_who_is_better(compared):
    drawn = charts.forest(compared[0])
    assert said(drawn).count("a vs b") == 2
    assert "first better" in said(drawn)
    assert {"s, p", "s, q"} <= set(said(drawn))
    assert (parsed(drawn).findtext(f"{SVG}desc") or "").count("a vs b +0.500") == 2


def test_accuracy_has_a_row_for_each_arm(compared):
    texts = said(charts.accuracy(compared[0].arms))
    assert [text for text in texts if text in ("a", "b")] == ["a", "b", "a", "b"]


def test_steps_have_a_bar_for_each_count_and_as_many_trials_as_there_are(compared):
    comparison, records = compared
    drawn = parsed(steps_chart(records, [arm.info for arm in comparison.arms]))
    rows = list(drawn.iter(f"{SVG}g"))
    assert len(rows) == 4
    for arm, row in zip(comparison.arms, rows, strict=True):
        bars = list(row.iter(f"{SVG}rect"))
        solved = [bar for bar in bars if bar.attrib["class"] == "solved"]
        assert len(solved) == 7
        assert len(bars) == (7 if arm.info.loop == "a" else 14)
        high = sum(float(bar.attrib["height"]) for bar in bars)
        tallest = 34.0 / 6  # 40 trials over 7 counts: 6 of the most frequent
        assert high == pytest.approx(40 * tallest, rel=0.01)


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=20))
def test_steps_of_any_size_fit(record, taken):
    records = [record(arm="a", task=f"t{n}", steps=steps) for n, steps in enumerate(taken)]
    drawn = parsed(steps_chart(records, [ArmInfo("a", "a", {}, "scripted", "p", "s")]))
    bars = [bar for bar in drawn.iter(f"{SVG}rect") if bar.attrib["x"].endswith("%")]
    assert 1 <= len(bars) <= min(MAX_BINS + 1, len(taken))
    assert all(share(bar.attrib["x"]) >= 0 and share(bar.attrib["x"]) + share(bar.attrib["width"]) <= 100.01 for bar in bars)


# --- accuracy against cost ---


@st.composite
def fronts(draw: st.DrawFn) -> Front:
    points = []
    for number in range(draw(st.integers(1, 6))):
        cost = sorted(draw(st.tuples(*[st.floats(0, 1e5)] * 3)))
        right = sorted(draw(st.tuples(*[st.floats(0, 1)] * 3)))
        name = draw(ANY) + f"{number}/p"
        points.append(
            CostPoint(
                name, Interval(right[1], right[0], right[2], 5), Interval(cost[1], cost[0], cost[2], 5), draw(st.booleans()), 0.5
            )
        )
    return Front("s", "p", "tokens", tuple(points))


@given(fronts())
def test_each_point_has_a_mark_of_its_kind_a_name_and_its_intervals(front):
    drawn = charts.pareto(front)
    found = parsed(drawn)
    marks = [path.attrib["class"] for path in found.iter(f"{SVG}path")][: len(front.points)]
    assert marks == ["mark dot" if point.on_front else "mark undecided" for point in front.points]
    names = [middle_cut(point.arm.removesuffix("/p"), charts.MAX_LABEL) for point in front.points]
    assert {terminal_safe(name).translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}) for name in names} <= set(said(drawn))
    assert len([line for line in found.iter(f"{SVG}line") if line.attrib["class"] == "error"]) == 2 * len(front.points)


def test_up_is_more_accurate_and_right_is_dearer():
    def point(name: str, right: float, cost: float) -> CostPoint:
        return CostPoint(name, Interval(right, right, right, 5), Interval(cost, cost, cost, 5), True, 1.0)

    drawn = charts.pareto(Front("s", "p", "cost_usd", (point("low", 0.5, 1.0), point("high", 0.9, 2.0))))
    dots = [part for part in parsed(drawn).iter(f"{SVG}svg") if part.attrib.get("x", "").endswith("%")][:2]
    assert share(dots[0].attrib["x"]) < share(dots[1].attrib["x"])
    assert float(dots[0].attrib["y"]) > float(dots[1].attrib["y"])
    stairs = [line.attrib for line in parsed(drawn).iter(f"{SVG}line") if line.attrib["class"] == "front"]
    assert [(stair["y1"] == stair["y2"], stair["x1"] == stair["x2"]) for stair in stairs] == [(True, False), (False, True)]


@given(fronts())
def test_the_names_of_points_stand_in_a_column_right_of_the_plot_and_apart(front):
    found = parsed(charts.pareto(front))
    names = [text for text in found.iter(f"{SVG}text") if text.attrib["class"] == "label"]
    lines = [line for line in found.iter(f"{SVG}line") if line.attrib["class"] != "leader"]
    column = {share(name.attrib["x"]) for name in names}
    assert len(column) == 1
    assert all(share(line.attrib[end]) < min(column) for line in lines for end in ("x1", "x2"))
    heights = [float(name.attrib["y"]) for name in names]
    assert all(after - before >= 15.9 for before, after in pairwise(heights))


@given(st.lists(st.floats(0, 300), max_size=15))
def test_labels_are_spread_in_their_order_and_stay_inside(wanted):
    places = charts.spread(sorted(wanted), 16, 300)
    assert len(places) == len(wanted)
    assert all(after - before >= 16 - 1e-9 for before, after in pairwise(places))
    assert all(place <= 300 for place in places)
    if all(after - before >= 16 for before, after in pairwise(sorted(wanted))):
        assert places == sorted(wanted)


# --- ablations ---


def effect(term: str, metric: str = "accuracy", word: str = "better") -> Effect:
    judged = PairVerdict(word, within_margin=False)  # type: ignore[arg-type]
    return Effect(term, "main", ("f",), metric, "p", Interval(0.3, 0.1, 0.4, 9), 0.01, 0.02, 0.05, 0.02, judged, None)


def test_effects_have_a_row_each():
    texts = said(charts.effects([effect("f: 0 → 2"), effect("g: a → b", word="undecided")]))
    assert {"f: 0 → 2", "g: a → b", "+0.300 [+0.100, +0.400]", "better", "undecided"} <= set(texts)


def test_a_chart_of_effects_is_of_one_metric():
    for found in ([], [effect("f"), effect("f", "steps")]):
        with pytest.raises(ValueError, match="shows one metric"):
            charts.effects(found)


# --- files ---


def test_a_chart_by_itself_brings_its_style_and_a_width():
    drawn = charts.effects([effect("f: 0 → 2")])
    alone = parsed(standalone(drawn))
    assert alone.attrib["width"] == "720"
    assert "prefers-color-scheme" in (alone.findtext(f"{SVG}style") or "")
    assert "://" not in standalone(drawn).replace("http://www.w3.org/2000/svg", "")


def test_equal_numbers_give_equal_charts(compared):
    comparison, records = compared
    turned = replace(comparison, arms=comparison.arms)
    assert charts.forest(comparison) == charts.forest(turned)
    infos = [arm.info for arm in comparison.arms]
    assert steps_chart(records, infos) == steps_chart(records[::-1], infos)
