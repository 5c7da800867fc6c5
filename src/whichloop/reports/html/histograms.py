"""The chart of how many steps trials took, a histogram per arm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from markupsafe import Markup

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import alike

from .grouping import group_by
from .names import chart_names, group_name
from .svg import LABEL_CHARS, chart, element, label_lines, middle_cut, percent

MAX_BINS = 40
MAX_TICKS = 7
_BARS, _LINE, _AXIS, _HEADING = 34.0, 16.0, 18.0, 26.0
"""Heights of the tallest bar, of a line of text, of the ticks' labels and of a group's heading."""
_GAP = 8.0
_LEFT = 46.0
"""Where the bars begin, in percent of the width: names stand left of it."""

Bars = Mapping[int, tuple[int, int]]
"""Steps → trials solved, and not solved."""


def steps_chart(records: Sequence[Record], arms: Sequence[ArmInfo]) -> Markup:
    """Return a chart of how many steps the scored trials of each arm took: solved ones filled, the others in outline."""
    scored = group_by((record for record in alike(records) if record.status == "scored"), lambda record: record.arm)
    histograms = {info.arm: histogram(scored[info.arm]) for info in arms if info.arm in scored}
    frame = _Frame.around(list(histograms.values()))
    names = chart_names(arms)
    groups = [(name, [info for info in members if info.arm in histograms]) for name, members in groupby(arms, key=group_name)]
    filled_groups = [(name, members) for name, members in groups if members]
    drawn: list[Markup] = []
    y = 4.0
    for name, members in filled_groups:
        if len(filled_groups) > 1:
            y += _HEADING
            drawn.append(element("text", middle_cut(name, LABEL_CHARS), x=0, y=y - 9, class_="heading"))
        for info in members:
            lines = [*label_lines(names[info.arm]), in_words(histograms[info.arm])]
            high = max(_BARS, _LINE * len(lines))
            drawn.append(element("g", *frame.histogram(lines, histograms[info.arm], y, high)))
            y += high + _GAP
        drawn.extend(frame.axis(y - _GAP))
        y += _AXIS
    described = "; ".join(f"{arm}: {in_words(bars)}" for arm, bars in histograms.items())
    return chart("Steps of the trials of each arm", f"Histograms. {described}.", y + 42, *drawn, *_legend(y))


def histogram(records: Sequence[Record]) -> Bars:
    """Return how many scored trials took each number of steps."""
    counted = Counter((record.steps, record.is_solved) for record in records)
    return {taken: (counted[taken, True], counted[taken, False]) for taken in sorted({taken for taken, _ in counted})}


def in_words(bars: Bars) -> str:
    """Return the median and the maximum: `median 6, most 14`."""
    values = [taken for taken, counts in sorted(bars.items()) for _ in range(sum(counts))]
    return f"median {median(values):g}, most {values[-1]}"


@dataclass(frozen=True, slots=True)
class _Frame:
    """The scale that all histograms of a chart share."""

    width: int
    """Width of a bin, in steps."""
    bins: int
    tallest: int
    """Trials in the fullest bin of any arm."""

    @classmethod
    def around(cls, steps_known: Sequence[Bars]) -> _Frame:
        longest = max((taken for bars in steps_known for taken in bars), default=0)
        width = math.ceil((longest + 1) / MAX_BINS)
        empty = cls(width, longest // width + 1, 1)
        return cls(
            width, empty.bins, max((sum(counts) for bars in steps_known for counts in empty.binned(bars).values()), default=1)
        )

    def binned(self, bars: Bars) -> dict[int, tuple[int, int]]:
        """Return by bin how many trials were solved, and how many were not."""
        bins: dict[int, tuple[int, int]] = {}
        for taken, (solved, missed) in bars.items():
            before = bins.get(taken // self.width, (0, 0))
            bins[taken // self.width] = (before[0] + solved, before[1] + missed)
        return bins

    def histogram(self, lines: Sequence[str], bars: Bars, y: float, high: float) -> Iterator[Markup]:
        """Yield the lines of text, the last of them about the bars, and a bar for each bin that holds a trial, from y on."""
        for number, line in enumerate(lines):
            kind = "numbers" if number == len(lines) - 1 else "label"
            yield element("text", line, x=0, y=y + 12 + _LINE * number, class_=kind)
        floor = y + high
        yield element("line", x1=percent(_LEFT), x2="100%", y1=floor, y2=floor, class_="floor")
        for slot, (solved, missed) in self.binned(bars).items():
            for count, below, kind in ((solved, 0, "solved"), (missed, solved, "unsolved")):
                if count:
                    tall, base = _BARS * count / self.tallest, floor - _BARS * below / self.tallest
                    left, wide = percent(self._at(slot + 0.15)), percent(self._at(0.7) - _LEFT)
                    yield element("rect", x=left, width=wide, y=base - tall, height=tall, class_=kind)

    def axis(self, floor: float) -> Iterator[Markup]:
        """Yield the labels of the bins, below the last histogram of a group."""
        for slot in range(0, self.bins, math.ceil(self.bins / MAX_TICKS)):
            x = percent(self._at(slot + 0.5))
            yield element("text", str(slot * self.width), x=x, y=floor + 13, text_anchor="middle", class_="tick")

    def _at(self, slot: float) -> float:
        """Return the place of a bin, in percent of the width."""
        return _LEFT + slot * (100 - _LEFT) / self.bins


def _legend(y: float) -> Iterator[Markup]:
    yield element("text", "steps of a trial", x=percent((_LEFT + 100) / 2), y=y + 12, text_anchor="middle", class_="axis")
    for x, kind, meaning in ((0, "solved", "solved"), (80, "unsolved", "not solved")):
        yield element("rect", x=x + 1, y=y + 24, width=12, height=10, class_=kind)
        yield element("text", meaning, x=x + 18, y=y + 33, class_="tick")
