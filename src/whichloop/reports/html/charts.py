"""Charts as SVG, from numbers: pure functions, each a picture with a title and a description, without script or links."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from whichloop.experiments.ablate.ablation import ablation_result
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.several_runs import SeveralRuns
from whichloop.experiments.optimize.result import OptimizationResult
from whichloop.experiments.validate.doc import interval_of_json
from whichloop.experiments.why.losses import ArmLosses, Why
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import ArmResult
from whichloop.metrics.factors.factorial import Effect
from whichloop.metrics.record import Record, records_by_arm
from whichloop.metrics.statistics import Interval, VerdictWord
from whichloop.metrics.summary import METRICS, PRIMARY, labels
from whichloop.metrics.sums import ranked
from whichloop.metrics.trajectory.causes import Cause
from whichloop.metrics.views import CostPoint, Front
from whichloop.protocol.names import value_text
from whichloop.text.doc import Doc
from whichloop.text.numbers import hundredths, interval, interval_of, measure_text, signed_interval

from .svg import (
    Axis,
    ChartRow,
    Legend,
    Scale,
    chart,
    element,
    gridlines,
    heading,
    label_lines,
    legend,
    mark,
    percent,
    rows_chart,
    scale,
)

READ: Mapping[str, str] = {
    "accuracy": "Accuracy: mean over the tasks, with its interval",
    "runs": "Accuracy: mean over the tasks, with its interval",
    "effects": "What each factor does to accuracy: change with its interval; shaded: the margin",
    "cost": "Accuracy against cost, both with intervals: up and to the left is better",
    "causes": "What trials were lost to",
    "divergence": "Step at which lost trials part from solved ones: bar to the median, line over the middle 80 %",
    "steps": "Steps of a trial: bar to the median, line over the middle 80 %",
    "tokens": "Tokens of a trial: bar to the median, line over the middle 80 %",
    "gains": "Accuracy after minus before, on the locked tasks; shaded: the margin",
    "validity": "Accuracy on the held-out tasks: in the run, and as the tunnel predicted it",
}
"""Chart → what it shows, and how to read it."""
VERDICTS: Legend = tuple((word, word) for word in ("better", "worse", "equivalent", "undecided"))
MAX_CHARS = 24
"""Longer names leave out the options that all arms of the same loop share."""
MAX_CAUSES = 6
"""Causes with a colour of their own; the others share one."""
SPREAD = (10, 50, 90)
"""Percentiles that a chart of trials shows."""


def charts(run: Results, why: Why | None = None) -> dict[str, Markup]:
    """Return the charts of a run by their name in `READ`, the most accurate arm first. `why`: its losses, with all examples."""
    arms, ablation = ranked(run.comparison).arms, ablation_result(run)
    infos, fronts = [arm.info for arm in arms], run.views.fronts
    drawn: dict[str, Markup] = {}
    if any(arm.summary.accuracy is not None for arm in arms):
        drawn["accuracy"] = accuracy(arms)
    if ablation is not None and (main := [each for each in ablation.effects if each.metric == PRIMARY]):
        drawn["effects"] = effects(main)
    if fronts:
        drawn["cost"] = cost(fronts, infos)
    if why is not None:
        losses = {each.arm: each for each in why.arms if each.lost}
        lost = [losses[info.arm] for info in infos if info.arm in losses]
        drawn |= {"causes": causes(lost, infos)} if lost else {}
        parted = {} if ablation else {arm: _spread_row(steps) for arm, steps in parting_steps(why).items()}
        drawn |= {"divergence": by_arm(READ["divergence"], parted, infos, Axis("step"))} if parted else {}
    for name in ("steps", "tokens"):
        if rows := spreads(run.records, infos, name):
            drawn[name] = by_arm(READ[name], rows, infos, Axis(f"{name} of a trial"))
    return drawn


# --- names and groups ---


def by_arm(title: str, rows: Mapping[str, ChartRow], infos: Sequence[ArmInfo], axis: Axis) -> Markup:
    """Return a chart of a row for each arm that has one, named, below each other those of one suite and profile."""
    names, groups = chart_names(infos), dict[str, list[ChartRow]]()
    for info in (info for info in infos if info.arm in rows):
        named = replace(rows[info.arm], label=info.without_profile, short=names[info.arm])
        groups.setdefault(f"{info.suite}, {info.profile}", []).append(named)
    return rows_chart(title, groups, axis)


def chart_names(arms: Sequence[ArmInfo]) -> dict[str, str]:
    """Return each arm's name on a chart: without the profile, and if still long, only with the options in which it differs."""
    wholes = {info.arm: info.without_profile for info in arms}
    names = {info.arm: _name(info, arms) for info in arms}
    shared = {name for name in names.values() if len({wholes[arm] for arm in names if names[arm] == name}) > 1}
    return {arm: wholes[arm] if name in shared else name for arm, name in names.items()}


def _name(info: ArmInfo, arms: Sequence[ArmInfo]) -> str:
    whole, others = info.without_profile, [other.options for other in arms if other.loop == info.loop]
    shared = {name for name, value in info.options.items() if all(other.get(name, ...) == value for other in others)}
    texts = {name: f"{name}={value_text(value)}" for name, value in sorted(info.options.items())}
    told, differing = ", ".join(texts.values()), ", ".join(text for name, text in texts.items() if name not in shared)
    return whole if len(whole) <= MAX_CHARS or not told else whole.replace(f"({told})", f"({differing or '…'})", 1)


# --- accuracy and differences ---


def accuracy(arms: Sequence[ArmResult]) -> Markup:
    """Return a chart of each arm's accuracy with its interval."""
    rows = {arm.info.arm: _mean("", arm.summary.accuracy) for arm in arms}
    return by_arm("Accuracy of each arm", rows, [arm.info for arm in arms], Axis("accuracy"))


def accuracy_of_runs(several: SeveralRuns) -> Markup:
    """Return a chart of each loop's accuracy in each column of several runs."""
    found = several.verdict
    groups = {
        name: [_mean(row.loop, row.cells[name].accuracy) for row in found.rows if name in row.cells] for name in found.columns
    }
    return rows_chart("Accuracy of each loop", groups, Axis("accuracy"))


def _mean(label: str, value: Interval | None) -> ChartRow:
    return ChartRow(label, "–" if value is None else interval_of(value, hundredths), value)


def gains(result: OptimizationResult) -> dict[str, Markup]:
    """Return the chart of what each design gained, if any was tested."""
    tests = [(gain.design, gain.test) for gain in (result.gains.gains if result.gains else ()) if gain.test is not None]
    if not tests or result.test is None:
        return {}
    axis = Axis("accuracy after minus before", result.test.comparison.margin, VERDICTS)
    rows = [_difference(design, test.difference, test.verdict.word, 3) for design, test in tests]
    return {"gains": rows_chart("What each design gained", {"": rows}, axis)}


def effects(found: Sequence[Effect]) -> Markup:
    """Return a chart of effects on one metric, with intervals."""
    measure, margin = METRICS[found[0].metric], max(effect.margin for effect in found)
    rows: dict[str, list[ChartRow]] = {}
    for each in found:
        rows.setdefault(each.profile, []).append(_difference(each.term, each.difference, each.verdict.word, measure.digits))
    return rows_chart(f"Effects on {measure.label}", rows, Axis(f"change of {measure.label}", margin, VERDICTS))


def _difference(label: str, value: Interval, word: VerdictWord, digits: int) -> ChartRow:
    return ChartRow(label, signed_interval(value, digits).replace("-", "−"), value, mark=word)


def validity(doc: Doc) -> dict[str, Markup]:
    """Return the chart of each loop's accuracy in the run and in the tunnel."""
    rows = {}
    for loop in doc.data["loops"]:
        run, tunnel = (interval_of_json(loop[side]) for side in ("real", "predicted"))
        rows[loop["arm"]] = [_mean("run", run), replace(_mean("tunnel", tunnel), mark="undecided")]
    return {"validity": rows_chart("Accuracy in the run and in the tunnel", rows, Axis("accuracy"))}


# --- trials ---


def spreads(records: Sequence[Record], infos: Sequence[ArmInfo], name: str) -> dict[str, ChartRow]:
    """Return arm → the median of a measure over its scored trials, and what lies around it."""
    measure, rows = METRICS[name], dict[str, ChartRow]()
    for arm, own in records_by_arm(records, infos).items():
        values = [value for record in own if record.status == "scored" and (value := measure(record)) is not None]
        if values:
            rows[arm] = _spread_row(values)
    return rows


def _spread_row(values: Sequence[float]) -> ChartRow:
    low, middle, high = (float(each) for each in np.percentile(values, SPREAD))
    around = Interval(middle, low, high, len(values))
    return ChartRow("", f"{middle:,.0f} [{low:,.0f}, {high:,.0f}]", around, None, ((middle, "bar"),))


def causes(lost: Sequence[ArmLosses], infos: Sequence[ArmInfo]) -> Markup:
    """Return a chart of the lost trials of each arm, by their cause."""
    total = Counter[Cause]()
    for arm in lost:
        total.update(arm.causes)
    kinds, rows = [cause for cause, _ in total.most_common(MAX_CAUSES)], dict[str, ChartRow]()
    for arm in lost:
        bars = [(float(arm.causes.get(cause, 0)), f"part{place}") for place, cause in enumerate(kinds)]
        others = sum(many for cause, many in arm.causes.items() if cause not in kinds)
        bars += [(float(others), "others"), (float(arm.lost - sum(arm.causes.values())), "unknown")]
        rows[arm.arm] = ChartRow("", f"{arm.lost:,} of {arm.trials:,}", None, None, tuple(bars))
    colours = ((f"part{place}", cause) for place, cause in enumerate(kinds))
    axis = Axis("lost trials", legend=(*colours, ("others", "other causes"), ("unknown", "not known")))
    return by_arm("Causes of lost trials", rows, infos, axis)


def parting_steps(why: Why) -> dict[str, list[int]]:
    """Return arm → of each trial that it lost and another solved the last step at which it parts from one of those."""
    found: dict[tuple[str, str, int], int] = {}
    for one in (one for pair in why.pairs for one in pair.divergences):
        key = one.loser, one.task, one.repeat
        found[key] = max(one.parts_at, found.get(key, 0))
    steps: dict[str, list[int]] = {}
    for (arm, _, _), step in found.items():
        steps.setdefault(arm, []).append(step)
    return steps


# --- accuracy against cost ---

_HIGH, _TOP, _LINE = 220.0, 24.0, 16.0
"""Least height of a plane, its upper end below the heading, and the height of a label."""
_NAMES, MAX_LABEL = 66.0, 17
"""Where the names of the points begin, in percent, and how many characters of them there is room for on the narrowest screen."""
FRONT: Legend = (("dot", "on the front"), ("undecided", "another is as good and cheaper"))


def cost(fronts: Sequence[Front], infos: Sequence[ArmInfo]) -> Markup:
    """Return accuracy against cost, a plane for each suite and profile; points of the front are filled and joined."""
    drawn, said, y, names = list[Markup](), list[str](), 0.0, chart_names(infos)
    for front in fronts:
        name = f"{front.suite}, {front.profile}"
        if len(fronts) > 1:
            y += 18
            drawn.append(heading(name, y - 4))
        made, y = _plane(front, labels({each.unit for each in fronts})[front.unit], names, y)
        drawn += made
        said.append(f"{name}: {'; '.join(_point_in_words(point, front) for point in front.points)}.")
    below, y = legend(FRONT, y + 16)
    return chart("Accuracy against cost", f"Cost to the right, accuracy upwards. {' '.join(said)}", y, *drawn, below)


def _point_in_words(point: CostPoint, front: Front) -> str:
    where = "on the front" if point.on_front else "dominated"
    return f"{point.arm}: accuracy {interval(point.accuracy, 3)}, {measure_text(point.cost, METRICS[front.unit])}, {where}"


@dataclass(frozen=True, slots=True)
class _Plane:
    """The scales of cost and accuracy."""

    across: Scale
    up: Scale
    top: float
    high: float

    def at(self, point: CostPoint) -> tuple[str, float]:
        """Return the place of a point, in percent and in pixels."""
        return percent(self.across.at(point.cost.value)), self.y(point.accuracy.value)

    def y(self, value: float) -> float:
        """Return the place of an accuracy, in pixels."""
        share = (self.up.at(value) - self.up.left) / (self.up.right - self.up.left)
        return round(self.top + self.high * (1 - share), 2)


def _plane(front: Front, unit: str, names: Mapping[str, str], y: float) -> tuple[list[Markup], float]:
    """Return the plane of one group from y on, and the y where it ends. `unit`: the label of its costs."""
    points = [point for point in front.points if math.isfinite(point.cost.value)]
    texts = {point.arm: label_lines(names.get(point.arm, point.arm), MAX_LABEL, 4) for point in points}
    height = max(_HIGH, _LINE * len(points) * max(map(len, texts.values()), default=1))
    across = scale((end for point in points for end in (point.cost.value, *point.cost.ends)), left=10, right=62)
    up = scale(end for point in points for end in (point.accuracy.low, point.accuracy.high))
    plane = _Plane(across, up, y + _TOP, height)
    bottom, middle = plane.top + plane.high, percent((across.left + across.right) / 2)
    drawn = [gridlines(across, plane.top, bottom), element("text", "accuracy", x=0, y=y + 12, class_="axis")]
    for tick in up.ticks:
        place = plane.y(tick)
        drawn.append(element("line", x1=percent(across.left), x2=percent(across.right), y1=place, y2=place, class_="grid"))
        drawn.append(element("text", up.label(tick), x=0, y=place + 4, class_="tick"))
    drawn += [*_labels(points, texts, plane), *_staircase(points, plane)]
    for point in points:
        x, at = plane.at(point)
        if len(point.cost.ends) == 2:
            left, right = (percent(across.at(end)) for end in point.cost.ends)
            drawn.append(element("line", x1=left, x2=right, y1=at, y2=at, class_="error"))
        low, high = plane.y(point.accuracy.low), plane.y(point.accuracy.high)
        drawn.append(element("line", x1=x, x2=x, y1=low, y2=high, class_="error"))
    drawn += [mark("dot" if point.on_front else "undecided", *plane.at(point)) for point in points]
    drawn.append(element("text", f"{unit} per trial", x=middle, y=bottom + 34, text_anchor="middle", class_="axis"))
    return drawn, bottom + 44


def _staircase(points: Sequence[CostPoint], plane: _Plane) -> Iterator[Markup]:
    """Yield the best accuracy of the front up to each cost, as stairs."""
    front = sorted((point for point in points if point.on_front), key=lambda point: point.cost.value)
    for (x1, y1), (x2, y2) in pairwise(map(plane.at, front)):
        yield element("line", x1=x1, x2=x2, y1=y1, y2=y1, class_="front")
        yield element("line", x1=x2, x2=x2, y1=y1, y2=y2, class_="front")


def _labels(points: Sequence[CostPoint], texts: Mapping[str, Sequence[str]], plane: _Plane) -> Iterator[Markup]:
    """Yield the names in a column of their own, the most accurate first, each joined to its point by a thin line."""
    ordered = sorted(points, key=lambda point: (-point.accuracy.value, -point.cost.value))
    high = _LINE * max((len(texts[point.arm]) for point in ordered), default=1)
    places = spread([plane.at(point)[1] for point in ordered], high, plane.top + plane.high)
    for point, y in zip(ordered, places, strict=True):
        x, at = plane.at(point)
        yield element("line", x1=x, x2=percent(_NAMES - 1), y1=at, y2=y, class_="leader")
        for number, text in enumerate(texts[point.arm]):
            yield element("text", text, x=percent(_NAMES), y=y + 4 + _LINE * number, class_="label")


def spread(wanted: Sequence[float], apart: float, end: float) -> list[float]:
    """Return places for sorted labels, at least `apart` from each other and at most at `end`, near to where they are wanted."""
    places: list[float] = []
    for one in wanted:
        places.append(max(one, places[-1] + apart) if places else one)
    for place in range(len(places) - 1, -1, -1):
        places[place] = min(places[place], end - apart * (len(places) - 1 - place))
    return places
