"""Charts as SVG, from numbers: pure functions, each a picture with a title and a description, without script or links."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.pairs import Pair
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import METRICS, PRIMARY
from whichloop.metrics.views import CostPoint, Front
from whichloop.text.numbers import interval, measure_text, short_name, signed_interval

from .grouping import arms_by_group, chart_names, group_by, group_name
from .svg import (
    COLUMN_CHARS,
    Axis,
    ChartRow,
    Group,
    Mark,
    Scale,
    chart,
    element,
    gridlines,
    interval_rows,
    legend,
    mark,
    middle_cut,
    percent,
    scale,
)

Legend = tuple[tuple[Mark, str], ...]
PLAIN_LEGEND: Legend = (("better", "better"), ("worse", "worse"), ("equivalent", "equivalent"), ("undecided", "undecided"))
PAIR_LEGEND: Legend = (("better", "first better"), ("worse", "first worse"), *PLAIN_LEGEND[2:])
FRONT_LEGEND: Legend = (("dot", "on the front"), ("undecided", "another is as good and cheaper"))


# --- words ---


def signed(value: Interval, digits: int) -> str:
    """Return a difference with its interval, signs written out: `+0.025 [−0.011, +0.060]`."""
    return signed_interval(value, digits).replace("-", "−")


# --- accuracy and pairs ---


def accuracy(arms: Sequence[ArmResult]) -> Markup:
    """Return a chart of each arm's accuracy with its interval."""
    names = chart_names([arm.info for arm in arms])
    groups = _groups({name: [_accuracy(arm, names) for arm in members] for name, members in arms_by_group(arms).items()})
    description = f"Share of tasks solved, with its interval: {_in_words(groups)}."
    return interval_rows("Accuracy of each arm", description, groups, Axis("accuracy"))


def _groups(rows: Mapping[str, Sequence[ChartRow]]) -> list[Group]:
    """Return rows by their heading, which a single group does without."""
    return [Group(heading if len(rows) > 1 else "", tuple(members)) for heading, members in rows.items()]


def _in_words(groups: Sequence[Group]) -> str:
    """Return all rows for a screen reader: the heading, the numbers, and the meaning of the mark."""
    texts = []
    for group in groups:
        under = f"{group.heading}: " if group.heading else ""
        rows = (f"{row.label} {row.text}" + ("" if row.mark == "dot" else f", {row.mark}") for row in group.rows)
        texts.append(f"{under}{'; '.join(rows)}")
    return ". ".join(texts)


def _accuracy(arm: ArmResult, names: Mapping[str, str]) -> ChartRow:
    value = arm.summary.accuracy
    return ChartRow(short_name(arm.info), value, interval(value, 3), short=names[arm.info.arm])


def forest(comparison: Comparison) -> Markup:
    """Return a chart of every pair's difference in accuracy, with the band in which a difference does not matter."""
    infos = {arm.info.arm: arm.info for arm in comparison.arms}
    pairs = comparison.pairs_on(PRIMARY)
    by_group = group_by(pairs, lambda pair: group_name(infos[pair.a]))
    names = chart_names(list(infos.values()))
    groups = _groups({name: [_pair(pair, infos, names) for pair in members] for name, members in by_group.items()})
    axis = Axis("accuracy of the first minus that of the second", comparison.margin, PAIR_LEGEND)
    return _differences("Differences in accuracy, pair by pair", groups, axis)


def _pair(pair: Pair, infos: Mapping[str, ArmInfo], names: Mapping[str, str]) -> ChartRow:
    label = f"{short_name(infos[pair.a])} vs {short_name(infos[pair.b])}"
    short = f"{middle_cut(names[pair.a], COLUMN_CHARS)} vs {middle_cut(names[pair.b], COLUMN_CHARS)}"
    return ChartRow(label, pair.difference, signed(pair.difference, 3), pair.verdict.word, short)


def gains(tests: Mapping[str, Pair], margin: float) -> Markup:
    """Return a chart of what each design gained (after minus before), by its name."""
    rows = tuple(ChartRow(name, pair.difference, signed(pair.difference, 3), pair.verdict.word) for name, pair in tests.items())
    axis = Axis("accuracy after minus before", margin, PLAIN_LEGEND)
    return _differences("What each design gained", [Group("", rows)], axis)


def _differences(title: str, groups: Sequence[Group], axis: Axis) -> Markup:
    shaded = f"The shaded band is the margin of {axis.band:g} around no difference."
    return interval_rows(title, f"{shaded} {_in_words(groups)}.", groups, axis)


# --- accuracy against cost ---

_HIGH, _TOP, _LINE = 300.0, 24.0, 16.0
"""Least height of the plot, its upper end, and the height of a label."""
_NAMES, MAX_LABEL = 66.0, 17
"""Where the names of the points begin, in percent, and how many characters of them there is room for on the narrowest screen."""


def pareto(front: Front, names: Mapping[str, str] | None = None) -> Markup:
    """Return accuracy against cost, with intervals both ways; the front is filled and joined, dominated points are not.

    `names`: arm → the label of its point; left out, its name without the profile.
    """
    points = [point for point in front.points if math.isfinite(point.cost.value)]
    across = scale((end for point in points for end in (point.cost.value, *point.cost.ends)), left=10, right=62)
    up = scale(end for point in points for end in (point.accuracy.low, point.accuracy.high))
    plane = _Plane(across, up, max(_HIGH, _LINE * len(points)))
    drawn = [*plane.grid(), *plane.labels([(point, (names or {}).get(point.arm, _point_name(point, front))) for point in points])]
    drawn += plane.staircase(points)
    for point in points:
        drawn += plane.errors(point)
    for point in points:
        kind: Mark = "dot" if point.on_front else "undecided"
        drawn.append(mark(kind, across.at(point.cost.value), plane.y(point.accuracy.value)))
    bottom, middle = _TOP + plane.high, percent((across.left + across.right) / 2)
    drawn.append(element("text", f"{front.counted} per trial", x=middle, y=bottom + 34, text_anchor="middle", class_="axis"))
    drawn.append(legend(FRONT_LEGEND, bottom + 56))
    described = "; ".join(_point_in_words(point, front) for point in points)
    title = f"Accuracy against cost, {front.suite}, {front.profile}{f', {front.counted}' if front.is_beside_uncached else ''}"
    return chart(title, f"Cost to the right, accuracy upwards. {described}.", bottom + 64, *drawn)


def _point_name(point: CostPoint, front: Front) -> str:
    return point.arm.removesuffix(f"/{front.profile}")


def _point_in_words(point: CostPoint, front: Front) -> str:
    where = "on the front" if point.on_front else "dominated"
    cost = measure_text(point.cost, METRICS[front.unit])
    return f"{_point_name(point, front)}: accuracy {interval(point.accuracy, 3)}, {cost}, {where}"


@dataclass(frozen=True, slots=True)
class _Plane:
    """The plane of cost and accuracy, and right of it the column of names."""

    across: Scale
    up: Scale
    high: float
    """Height, in pixels."""

    def y(self, accuracy: float) -> float:
        """Return the place of an accuracy, in pixels."""
        share = (self.up.at(accuracy) - self.up.left) / (self.up.right - self.up.left)
        return round(_TOP + self.high * (1 - share), 2)

    def grid(self) -> Iterator[Markup]:
        """Yield lines at the ticks of both scales."""
        yield gridlines(self.across, _TOP, _TOP + self.high)
        yield element("text", "accuracy", x=0, y=12, class_="axis")
        left, right = percent(self.across.left), percent(self.across.right)
        for tick in self.up.ticks:
            y = self.y(tick)
            yield element("line", x1=left, x2=right, y1=y, y2=y, class_="grid")
            yield element("text", self.up.label(tick), x=0, y=y + 4, class_="tick")

    def errors(self, point: CostPoint) -> Iterator[Markup]:
        """Yield the intervals, both ways."""
        x, y = percent(self.across.at(point.cost.value)), self.y(point.accuracy.value)
        if len(point.cost.ends) == 2:
            left, right = (percent(self.across.at(end)) for end in point.cost.ends)
            yield element("line", x1=left, x2=right, y1=y, y2=y, class_="error")
        yield element("line", x1=x, x2=x, y1=self.y(point.accuracy.low), y2=self.y(point.accuracy.high), class_="error")

    def staircase(self, points: Sequence[CostPoint]) -> Iterator[Markup]:
        """Yield the best accuracy of the front up to each cost, as stairs."""
        front = sorted((point for point in points if point.on_front), key=lambda point: point.cost.value)
        for left, right in pairwise(front):
            x1, x2 = percent(self.across.at(left.cost.value)), percent(self.across.at(right.cost.value))
            y1, y2 = self.y(left.accuracy.value), self.y(right.accuracy.value)
            yield element("line", x1=x1, x2=x2, y1=y1, y2=y1, class_="front")
            yield element("line", x1=x2, x2=x2, y1=y1, y2=y2, class_="front")

    def labels(self, named: Sequence[tuple[CostPoint, str]]) -> Iterator[Markup]:
        """Yield the names in a column of their own, the most accurate first, each joined to its point by a thin line."""
        ordered = sorted(named, key=lambda one: (self.y(one[0].accuracy.value), -one[0].cost.value))
        places = spread([self.y(point.accuracy.value) for point, _ in ordered], _LINE, _TOP + self.high)
        for (point, name), y in zip(ordered, places, strict=True):
            x = percent(self.across.at(point.cost.value))
            yield element("line", x1=x, x2=percent(_NAMES - 1), y1=self.y(point.accuracy.value), y2=y, class_="leader")
            yield element("text", middle_cut(name, MAX_LABEL), x=percent(_NAMES), y=y + 4, class_="label")


def spread(wanted: Sequence[float], apart: float, end: float) -> list[float]:
    """Return places for sorted labels, at least `apart` from each other and at most at `end`, near to where they are wanted."""
    places: list[float] = []
    for one in wanted:
        places.append(max(one, places[-1] + apart) if places else one)
    for place in range(len(places) - 1, -1, -1):
        places[place] = min(places[place], end - apart * (len(places) - 1 - place))
    return places


# --- ablations ---


def effects(effects: Sequence[Effect]) -> Markup:
    """Return a chart of effects on one metric, with intervals. Raises ValueError for effects on several metrics, or on none."""
    metrics = {effect.metric for effect in effects}
    if len(metrics) != 1:
        raise ValueError(f"a chart of effects shows one metric, not {len(metrics)}")
    (metric,) = metrics
    digits = METRICS[metric].digits

    def row(effect: Effect) -> ChartRow:
        return ChartRow(effect.term, effect.difference, signed(effect.difference, digits), effect.verdict.word)

    by_profile = group_by(effects, lambda effect: effect.profile)
    groups = _groups({profile: list(map(row, members)) for profile, members in by_profile.items()})
    margin = max(effect.margin for effect in effects)
    axis = Axis(f"change of {METRICS[metric].label}", margin, PLAIN_LEGEND)
    return interval_rows(f"Effects on {METRICS[metric].label}", f"{_in_words(groups)}.", groups, axis)
