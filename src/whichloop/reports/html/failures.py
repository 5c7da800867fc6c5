"""Sections on the course of trials: how they ended, their errors, recovery from faults, and how many steps they took."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from markupsafe import Markup

from whichloop.metrics.arm_info import ArmInfo, are_imported
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import alike, records_by_arm, where
from whichloop.metrics.statistics import event_rate
from whichloop.metrics.summary import count_faults
from whichloop.text.numbers import interval, short_name

from .document import UNKNOWN, Amount, Cell, Figure, Grid, PageSection, Subsection, count_bar, section_or_none, under_headings
from .grouping import arms_by_group, by_frequency, chart_names, group_by, group_name
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


def errors_section(arms: Sequence[ArmResult]) -> PageSection | None:
    """Return the section on how trials ended, and on their errors by kind; None if nothing ran."""
    endings = _counts("Trials, by how they ended", arms, lambda arm: arm.summary.stops, of_all=True)
    errors = _counts("Errors in all scored trials, by kind", arms, lambda arm: arm.summary.errors, of_all=False)
    parts = [Subsection(title, (grid,)) for title, grid in (("Endings", endings), ("Errors", errors)) if grid is not None]
    return section_or_none("errors", "How trials ended, and their errors", parts)


def _counts(caption: str, arms: Sequence[ArmResult], of: Callable[[ArmResult], Mapping[str, int]], *, of_all: bool) -> Grid | None:
    """Return a row per arm, a column per kind by frequency; bars are shares of the arm's trials, or of the highest count."""
    kinds = by_frequency(sum((Counter(of(arm)) for arm in arms), Counter[str]()))
    if not kinds:
        return None
    most = max(count for arm in arms for count in of(arm).values())
    rows = []
    for arm in arms:
        whole = max(arm.summary.scored, 1) if of_all else most
        rows.append((arm.info.arm, *(count_bar(of(arm).get(kind, 0), whole) for kind in kinds)))
    return Grid(caption, ("arm", *kinds), tuple(rows))


def recovery_section(records: Sequence[Record], arms: Sequence[ArmResult]) -> PageSection | None:
    """Return the section on how many faults that reached a loop it recovered from, by kind; None if no fault landed."""
    groups = arms_by_group(arms).items()
    blocks = under_headings((name, _recovery(records, [arm.info for arm in members], name)) for name, members in groups)
    return section_or_none("recovery", "Recovery from faults", blocks)


def _recovery(records: Sequence[Record], arms: Sequence[ArmInfo], name: str) -> list[Grid]:
    scored = {arm: where(trials, lambda record: record.status == "scored") for arm, trials in records_by_arm(records, arms).items()}
    landed = Counter(
        fault.kind for trials in scored.values() for record in alike(trials) for fault in record.faults if fault.landed
    )
    if not landed:
        return []
    rows = [("all", *(_all_faults(trials) for trials in scored.values()))]
    rows += [(kind, *(_faults_of_kind(trials, kind) for trials in scored.values())) for kind in by_frequency(landed)]
    if any(fault.landed and fault.implicit for trials in scored.values() for record in alike(trials) for fault in record.faults):
        rows.append(("implicit, in wrong trials", *(_implicit(trials) for trials in scored.values())))
    caption = f"{name}: of the faults that spoiled something, the share after which the loop still got the true result"
    return [Grid(caption, ("fault", *map(short_name, arms)), tuple(rows))]


def _all_faults(records: Sequence[Record]) -> Cell:
    counts = count_faults(records)
    rate = event_rate(counts.recovered, counts.landed - counts.absorbed)
    if rate is None:
        return Amount(UNKNOWN, 0.0, f"{counts.absorbed} absorbed") if counts.absorbed else UNKNOWN
    return Amount(interval(rate, 2), rate.value, _recovered_text(counts.recovered, rate.n, counts.absorbed))


def _implicit(records: Sequence[Record]) -> Cell:
    """Return the share of the landed implicit failures of tools whose trial went wrong, and how many the model believed."""
    counts = count_faults(records)
    rate = event_rate(counts.implicit_wrong, counts.implicit)
    if rate is None:
        return UNKNOWN
    return Amount(interval(rate, 2), rate.value, f"{counts.implicit_wrong} of {counts.implicit}, {counts.believed} believed")


def _faults_of_kind(records: Sequence[Record], kind: str) -> Cell:
    faults = [fault for record in alike(records) for fault in record.faults if fault.kind == kind and fault.landed]
    hurt = [fault for fault in faults if not fault.absorbed]
    absorbed = len(faults) - len(hurt)
    if not hurt:
        return Amount(UNKNOWN, 0.0, f"{absorbed} absorbed") if absorbed else UNKNOWN
    recovered = sum(fault.recovered for fault in hurt)
    return Amount(f"{recovered / len(hurt):.2f}", recovered / len(hurt), _recovered_text(recovered, len(hurt), absorbed))


def _recovered_text(recovered: int, hurt: int, absorbed: int) -> str:
    return f"{recovered} of {hurt}" + (f", {absorbed} absorbed" if absorbed else "")


def steps_section(records: Sequence[Record], arms: Sequence[ArmResult]) -> PageSection | None:
    """Return the section on how many steps trials took, solved or not; None if none was scored."""
    known_records = where(records, lambda record: record.status == "scored" and "steps" not in record.unknown)
    rows = [row for arm in arms if (row := _steps(arm.info.arm, known_records)) is not None]
    if not rows:
        return None
    is_ours = not are_imported(arm.info for arm in arms)
    a_step = "a reply of the model to a request that asks what to do next" if is_ours else "what the imported files count as one"
    read = f"How many trials took how many steps. A step is {a_step}."
    columns = ("arm", "solved", "median steps", "not solved", "median steps", "90 % within", "most")
    infos = [arm.info for arm in arms]
    grid = Grid("Steps of the scored trials", columns, tuple(rows))
    return PageSection("steps", "Steps per trial", (Figure(steps_chart(known_records, infos), read), grid))


def _steps(arm: str, records: Sequence[Record]) -> tuple[str, ...] | None:
    scored = [record for record in alike(records) if record.arm == arm]
    if not scored:
        return None
    solved = [record.steps for record in scored if record.is_solved]
    missed = [record.steps for record in scored if not record.is_solved]
    every = sorted(record.steps for record in scored)
    most = every[-1]
    within = every[min(len(every) - 1, -(-9 * len(every) // 10) - 1)]
    return (arm, str(len(solved)), _median(solved), str(len(missed)), _median(missed), str(within), str(most))


def _median(values: Sequence[int]) -> str:
    return f"{median(values):g}" if values else UNKNOWN
