"""The parts of charts: SVG elements, scales, and rows of bars and intervals on a common axis.

A chart is as wide as its place: positions along x are shares of the width, so that text and marks keep their size on a phone and on
a desk. Colours are classes, which `chart.css` gives a colour in light and in dark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from whichloop.metrics.statistics import Interval
from whichloop.text.output import terminal_safe

Mark = Literal["better", "worse", "equivalent", "undecided", "dot"]
Legend = tuple[tuple[str, str], ...]
"""Marks, or classes of bars, with their meanings."""
LABEL_CHARS = 46
"""Characters of a heading, which has a line of its own, on the narrowest screen, 360 px."""
COLUMN_CHARS = 24
"""Characters of a line in the column of labels, left of the axis, on the narrowest screen."""
_LEFT, _RIGHT = 46.0, 94.0
"""Where an axis begins and ends, in percent of the width: labels stand left of it, and that of a tick at its end is not cut."""


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """Return an element; `class_` and `stroke_width` become class and stroke-width. Text is escaped unless it is Markup."""
    said = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(_written(value))}"' for key, value in attributes.items())
    inner = "".join(child if isinstance(child, Markup) else escape(_written(child)) for child in children)
    markup = f"<{name}{said}>{inner}</{name}>" if inner else f"<{name}{said}/>"
    return Markup(markup)  # noqa: S704  all parts are escaped


def _written(value: str | float) -> str:
    """Return a text without characters that XML does not allow, as a chart in a file is XML; a number with two digits."""
    return terminal_safe(value).translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}) if isinstance(value, str) else f"{round(value, 2):g}"


def percent(value: float) -> str:
    """Return a share of the width as text, in percent."""
    return f"{round(value, 2):g}%"


def chart(title: str, description: str, height: float, *drawn: str) -> Markup:
    """Return a whole chart, `height` in pixels; screen readers read its title and description."""
    words = element("title", title), element("desc", description)
    look = {"xmlns": "http://www.w3.org/2000/svg", "class_": "chart", "role": "img", "width": "100%"}
    return element("svg", *words, *drawn, **look, height=height)


def middle_cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, cut in the middle: the ends distinguish long names."""
    text = terminal_safe(text)
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def label_lines(text: str, most: int = COLUMN_CHARS, lines: int = 3) -> list[str]:
    """Return a label in at most so many lines of `most` characters, cut in the middle if it is longer.

    Lines are broken at spaces, and a word that is too long for a line also behind signs.
    """
    rows, pieces = [""], re.compile(rf"[^/(=@_-]{{1,{most - 1}}}[/(=@_-]?|[/(=@_-]")
    for word in middle_cut(text, most * (lines - 1)).split():
        for number, piece in enumerate([word] if len(word) <= most else pieces.findall(word)):
            joined = f"{rows[-1]}{' ' if number == 0 else ''}{piece}".strip()
            if len(joined) <= most:
                rows[-1] = joined
            else:
                rows.append(piece)
    return [line for line in rows[:lines] if line]


# --- scales ---


@dataclass(frozen=True, slots=True)
class Scale:
    """The mapping from values to shares of the width, in percent."""

    low: float
    high: float
    ticks: tuple[float, ...]
    digits: int
    """Digits after the point of a tick's label."""
    left: float = _LEFT
    right: float = _RIGHT

    def at(self, value: float) -> float:
        """Return the place of a value; values beyond an end lie at that end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)

    def label(self, tick: float) -> str:
        return f"{tick:,.{self.digits}f}".replace("-", "−")


MAX_TICKS = 7
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_BEYOND = 1e15
"""Largest magnitude of a value on a scale; larger ones count as this."""


def scale(values: Iterable[float], *, left: float = _LEFT, right: float = _RIGHT) -> Scale:
    """Return a scale from the lowest to the highest value, rounded outwards to ticks of 1, 2, 2.5 or 5 × 10ⁿ."""
    finite = [min(max(value, -_BEYOND), _BEYOND) for value in values if not math.isnan(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-6):
        room = abs(low) / 10 or 0.5
        low, high = low - room, high + room
    rough = (high - low) / (MAX_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _STEPS if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if round(step, digits) != round(step, digits + 1):  # 0.25
        digits += 1
    ticks = tuple(number * step for number in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], ticks, digits, left, right)


NARROW, CHAR = 328.0, 6.2
"""Width of a chart on the narrowest screen, and of a character, in pixels."""


def gridlines(scale: Scale, top: float, bottom: float, *, labelled: bool = True) -> Markup:
    """Return a vertical line for each tick, with its label below; labels are skipped if they are too long to fit side by side."""
    places = [(percent(scale.at(tick)), scale.label(tick)) for tick in scale.ticks]
    made = [element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid") for x, _ in places]
    room = NARROW * (scale.right - scale.left) / 100
    every = math.ceil((max(len(text) for _, text in places) + 1) * CHAR * len(places) / room)
    first = scale.ticks.index(0) % every if 0 in scale.ticks else 0
    for x, text in places[first::every] if labelled else ():
        made.append(element("text", text, x=x, y=bottom + 17, text_anchor="middle", class_="tick"))
    return Markup("").join(made)


# --- marks ---

_SHAPES: dict[str, str] = {
    "better": "M0-6L6 5H-6Z",
    "worse": "M0 6L6-5H-6Z",
    "equivalent": "M-4.5-4.5h9v9h-9Z",
    "undecided": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0Z",
    "dot": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z",
}


def mark(kind: str, x: float | str, y: float) -> Markup:
    """Return the shape of a kind, its middle at x (percent, or pixels as text) and y (pixels)."""
    where = x if isinstance(x, str) else percent(x)
    shape = element("path", d=_SHAPES[kind], class_=f"mark {kind}")
    return element("svg", shape, x=where, y=y, overflow="visible", width=1, height=1)


def legend(entries: Legend, y: float) -> tuple[Markup, float]:
    """Return marks and bars with their meanings, in lines that fit on the narrowest screen, and the y where they end."""
    parts, x = [], 8.0
    for kind, meaning in entries:
        wide = 26 + CHAR * len(meaning)
        if x > 8 and x + wide > NARROW:
            x, y = 8.0, y + _LINE
        is_mark = kind in _SHAPES
        parts.append(
            mark(kind, f"{x:g}", y - 4) if is_mark else element("rect", x=x - 6, y=y - 9, width=12, height=10, class_=kind)
        )
        parts.append(element("text", meaning, x=x + 10, y=y, class_="tick"))
        x += wide
    return Markup("").join(parts), y + 8


def heading(text: str, y: float) -> Markup:
    """Return the heading of a part of a chart."""
    return element("text", middle_cut(text, LABEL_CHARS), x=0, y=y, class_="heading")


# --- rows ---


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A name with its numbers, and what is drawn of them: bars end to end from 0, then an interval with its mark."""

    label: str
    text: str
    """The numbers."""
    interval: Interval | None = None
    mark: Mark | None = "dot"
    """At the value of the interval; None for a line without a mark."""
    bars: tuple[tuple[float, str], ...] = ()
    """Lengths and classes."""
    short: str = ""
    """The name on the chart, if not the label."""


Rows = Mapping[str, Sequence[ChartRow]]
"""Rows by their heading, which a single group does without."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The meaning of the values."""

    name: str
    band: float | None = None
    """Half the width of the band around zero in which a difference does not matter; None if the chart has no such band."""
    legend: Legend = ()
    """Of it those are shown that a row has."""


_HEADING, _LINE, _GAP, _BAR = 26.0, 16.0, 8.0, 14.0


def rows_chart(title: str, groups: Rows, axis: Axis) -> Markup:
    """Return a chart with a row for each name: names and numbers in a column on the left, bars and intervals right of it.

    Lines of the axis stop at headings, so that no text lies on a line. A screen reader hears all rows.
    """
    rows = [row for members in groups.values() for row in members]
    axis_scale, drawn, y = scale(_ends(rows, axis)), list[Markup](), 4.0
    for place, (name, members) in enumerate(groups.items()):
        if len(groups) > 1:
            y += _HEADING
            drawn.append(heading(name, y - 9))
        row_marks, top = [], y
        for row in members:
            made, y = _row(row, y, axis_scale)
            row_marks.append(made)
        lines = gridlines(axis_scale, top, y, labelled=place == len(groups) - 1)
        drawn += [lines, *_band(axis, axis_scale, top, y), *row_marks]
    drawn.append(element("text", axis.name, x=percent(axis_scale.right), y=y + 34, text_anchor="end", class_="axis"))
    used = {row.mark for row in rows if row.interval is not None} | {kind for row in rows for length, kind in row.bars if length}
    entries = tuple((kind, meaning) for kind, meaning in axis.legend if kind in used)
    if entries:
        below, y = legend(entries, y + 56)
        drawn.append(below)
    else:
        y += 42
    return chart(title, _in_words(groups, dict(axis.legend)), y, *drawn)


def _in_words(groups: Rows, meanings: Mapping[str, str]) -> str:
    """Return all rows for a screen reader: the heading, the numbers, the parts of a bar and the meaning of a mark."""
    texts = []
    for name, members in groups.items():
        said = []
        for row in members:
            parts = [f"{meanings[kind]} {length:g}" for length, kind in row.bars if length and kind in meanings]
            parts += [meanings[row.mark]] if row.mark and row.mark in meanings else []
            said.append(", ".join([f"{row.label} {row.text}", *parts]))
        texts.append(f"{f'{name}: ' if len(groups) > 1 else ''}{'; '.join(said)}.")
    return " ".join(texts)


def _ends(rows: Sequence[ChartRow], axis: Axis) -> Iterator[float]:
    for row in rows:
        if row.interval is not None:
            yield from (row.interval.value, *row.interval.ends)
        if row.bars:
            yield from (0.0, sum(length for length, _ in row.bars))
    if axis.band is not None:
        yield from (-axis.band, axis.band)


def _band(axis: Axis, scale: Scale, top: float, bottom: float) -> list[Markup]:
    if axis.band is None:
        return []
    low, high, zero = scale.at(-axis.band), scale.at(axis.band), percent(scale.at(0))
    return [
        element("rect", x=percent(low), width=percent(high - low), y=top, height=bottom - top, class_="band"),
        element("line", x1=zero, x2=zero, y1=top, y2=bottom, class_="zero"),
    ]


def _row(row: ChartRow, y: float, scale: Scale) -> tuple[Markup, float]:
    """Return the row drawn from y on, and the y where it ends."""
    value, gap, ends = row.text.partition(" [")
    numbers = [value, f"[{ends}"] if gap and len(row.text) > COLUMN_CHARS else [row.text]
    lines = [*((line, "label") for line in label_lines(row.short or row.label)), *((line, "numbers") for line in numbers)]
    made = [element("title", f"{row.label}: {row.text}")]
    made += [element("text", line, x=0, y=y + 12 + _LINE * n, class_=kind) for n, (line, kind) in enumerate(lines)]
    high = _LINE * len(lines)
    middle, begins = y + high / 2, 0.0
    for length, kind in row.bars:
        left, right = scale.at(begins), scale.at(begins + length)
        if length:
            x, width = percent(left), percent(right - left)
            made.append(element("rect", x=x, width=width, y=middle - _BAR / 2, height=_BAR, class_=kind))
        begins += length
    if row.interval is not None:
        low, high_end = percent(scale.at(row.interval.low)), percent(scale.at(row.interval.high))
        made.append(element("line", x1=low, x2=high_end, y1=middle, y2=middle, class_=f"span {row.mark or ''}"))
        made += [mark(row.mark, scale.at(row.interval.value), middle)] if row.mark else []
    return element("g", *made), y + high + _GAP
