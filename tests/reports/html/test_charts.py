"""Charts: numbers stand where they belong, whatever they are called, and a screen reader hears of them."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.statistics import Interval
from whichloop.metrics.views import CostPoint, Front
from whichloop.reports.html import charts
from whichloop.reports.html.svg import CHAR, NARROW, Axis, ChartRow, rows_chart, scale
from whichloop.text.output import terminal_safe

IN_ONE_FORK = "the run of three designs that has a page"

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {"svg", "title", "desc", "g", "text", "line", "rect", "path"}
VALUES = st.floats(-1e6, 1e6)
ANY = st.text(st.characters(), max_size=60)
AXIS = Axis("x", 0.02, (("better", "better"), ("first", "first part"), ("second", "second part")))


@st.composite
def rows(draw: st.DrawFn) -> ChartRow:
    low, value, high = sorted(draw(st.tuples(VALUES, VALUES, VALUES)))
    bars = tuple(zip(draw(st.lists(st.floats(0, 1e6), max_size=2)), ("first", "second"), strict=False))
    return ChartRow(draw(ANY), draw(ANY), Interval(value, low, high, 5), "better", bars)


def parsed(drawn: str) -> ElementTree.Element:
    """As XML, which takes nothing that is not well formed."""
    return ElementTree.fromstring(drawn)


def share(attribute: str) -> float:
    assert attribute.endswith("%")
    return float(attribute[:-1])


def xml_safe(text: str) -> str:
    return terminal_safe(text).translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD})


def of_class(drawn: str, tag: str, *kinds: str) -> list[dict[str, str]]:
    return [each.attrib for each in parsed(drawn).iter(f"{SVG}{tag}") if each.attrib.get("class", "").strip() in kinds]


@given(st.lists(VALUES, min_size=1, max_size=8))
def test_a_scale_holds_all_values_in_their_order(values):
    found = scale(values)
    rounding = 1e-8 * (found.high - found.low)
    assert all(found.low - rounding <= value <= found.high + rounding for value in values)
    places = [found.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(found.left <= at <= found.right for at in places)
    assert 2 <= len(found.ticks) <= 9
    assert {round((b - a) / (found.ticks[1] - found.ticks[0]), 6) for a, b in pairwise(found.ticks)} == {1.0}
    assert len({found.label(tick) for tick in found.ticks}) == len(found.ticks)


@given(st.lists(rows(), min_size=1, max_size=4), ANY, ANY)
def test_bars_and_intervals_are_drawn_where_their_ends_are_beside_their_names(members, title, heading):
    drawn = rows_chart(title, {heading: members, f"{heading}2": members}, AXIS)
    sums = [end for row in members if row.bars for end in (0.0, sum(length for length, _ in row.bars))]
    ends = scale([0.02, -0.02, *sums, *(end for row in members for end in (row.interval.low, row.interval.high))])
    spans, marks = (
        of_class(drawn, "line", "span better"),
        [m for m in parsed(drawn).iter(f"{SVG}svg") if m.get("x", "")[-1:] == "%"],
    )
    assert len(spans) == len(marks) == 2 * len(members)
    for row, span, mark in zip(members * 2, spans, marks, strict=True):
        assert share(span["x1"]) == pytest.approx(ends.at(row.interval.low), abs=0.01)
        assert share(span["x2"]) == pytest.approx(ends.at(row.interval.high), abs=0.01)
        assert share(mark.attrib["x"]) == pytest.approx(ends.at(row.interval.value), abs=0.01)
    for kind in ("first", "second"):
        wide = sum(share(bar["width"]) for bar in of_class(drawn, "rect", kind) if bar["width"].endswith("%"))
        lengths = 2 * sum(length for row in members for length, name in row.bars if name == kind)
        assert wide == pytest.approx(lengths * (ends.right - ends.left) / (ends.high - ends.low), abs=0.1)
    _check_texts(drawn)
    assert {element.tag.removeprefix(SVG) for element in parsed(drawn).iter()} <= TAGS
    assert (parsed(drawn).findtext(f"{SVG}title") or "") == xml_safe(title)
    described = parsed(drawn).findtext(f"{SVG}desc") or ""
    assert all(xml_safe(text) in described for row in members for text in (row.label, row.text))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", drawn)


def _check_texts(drawn: str) -> None:
    """Names and numbers end before the axis begins, and no line goes through the height of a heading; nothing lies outside."""
    lines = [line.attrib for line in parsed(drawn).iter(f"{SVG}line") if line.attrib["x1"].endswith("%")]
    left = min(share(line["x1"]) for line in lines) / 100 * NARROW
    for text in parsed(drawn).iter(f"{SVG}text"):
        y = float(text.attrib["y"])
        assert 0 <= y <= float(parsed(drawn).attrib["height"])
        if text.attrib["class"] == "label":
            assert text.attrib["x"] == "0"
            assert CHAR * len("".join(text.itertext())) <= left
        if text.attrib["class"] == "heading":
            assert not [line for line in lines if float(line["y1"]) < y < float(line["y2"])]
    for box in (box.attrib for box in parsed(drawn).iter(f"{SVG}rect") if box.attrib["x"].endswith("%")):
        assert share(box["x"]) + share(box["width"]) <= 100


def test_all_charts_of_a_run_are_there_and_their_bars_count_its_losses(breeze):
    why = losses_explained(breeze)
    drawn = charts.charts(breeze, why)
    assert list(drawn) == ["accuracy", "cost", "causes", "divergence", "steps", "tokens"]
    assert list(charts.charts(breeze)) == ["accuracy", "cost", "steps", "tokens"]
    for chart in drawn.values():
        assert parsed(chart).findtext(f"{SVG}title")
        assert len(parsed(chart).findtext(f"{SVG}desc") or "") > 40
        assert "://" not in chart.replace("http://www.w3.org/2000/svg", "")
    words = parsed(drawn["causes"]).findtext(f"{SVG}desc") or ""
    for arm in (arm for arm in why.arms if arm.lost):
        assert f"{arm.arm.rpartition('/')[0]} {arm.lost} of {arm.trials}" in words
        assert all(f"{cause} {many}" in words for cause, many in arm.causes.items())
    lost = {(one.loser, one.task, one.repeat) for pair in why.pairs for one in pair.divergences}
    steps = charts.parting_steps(why)
    assert sum(map(len, steps.values())) == len(lost)
    assert all(step >= 1 for own in steps.values() for step in own)


@st.composite
def fronts(draw: st.DrawFn) -> Front:
    points = []
    for number in range(draw(st.integers(1, 6))):
        price, right = (sorted(draw(st.tuples(*[st.floats(0, most)] * 3))) for most in (1e5, 1))
        accuracy, amount = Interval(right[1], right[0], right[2], 5), Interval(price[1], price[0], price[2], 5)
        points.append(CostPoint(draw(ANY) + f"{number}/p", accuracy, amount, draw(st.booleans()), 0.5))
    return Front("s", "p", "tokens", tuple(points))


@given(fronts())
def test_each_point_has_a_mark_its_intervals_and_a_name_apart_from_others(front):
    drawn = charts.cost([front], [])
    marks = [path.attrib["class"] for path in parsed(drawn).iter(f"{SVG}path")][: len(front.points)]
    assert marks == ["mark dot" if point.on_front else "mark undecided" for point in front.points]
    assert len(of_class(drawn, "line", "error")) == 2 * len(front.points)
    names = of_class(drawn, "text", "label")
    lines = [line for kind in ("grid", "error", "front") for line in of_class(drawn, "line", kind)]
    (column,) = {share(name["x"]) for name in names}
    assert all(share(line[end]) < column for line in lines for end in ("x1", "x2"))
    heights = [float(name["y"]) for name in names]
    assert max(heights) <= float(parsed(drawn).attrib["height"])
    assert all(after - before >= 15.9 for before, after in pairwise(heights))


def test_up_is_more_accurate_and_right_is_dearer():
    def point(name: str, right: float, price: float) -> CostPoint:
        return CostPoint(name, Interval(right, right, right, 5), Interval(price, price, price, 5), True, 1.0)

    drawn = charts.cost([Front("s", "p", "cost_usd", (point("low", 0.5, 1.0), point("high", 0.9, 2.0)))], [])
    dots = [part for part in parsed(drawn).iter(f"{SVG}svg") if part.attrib.get("x", "").endswith("%")][:2]
    assert share(dots[0].attrib["x"]) < share(dots[1].attrib["x"])
    assert float(dots[0].attrib["y"]) > float(dots[1].attrib["y"])
    stairs = of_class(drawn, "line", "front")
    assert [(stair["y1"] == stair["y2"], stair["x1"] == stair["x2"]) for stair in stairs] == [(True, False), (False, True)]
