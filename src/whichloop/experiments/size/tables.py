"""The result of a size calculation as sentences and tables."""

from __future__ import annotations

import math
import shlex

from whichloop.datasets.generating import MAX_SIZE
from whichloop.metrics.statistics import are_too_few_to_plan
from whichloop.protocol.values import counted, joined
from whichloop.text.doc import Table
from whichloop.text.numbers import duration

from .pilot import Purpose
from .size import Sizing
from .sizes import Reach, Size, SizeOption

_REACHES: dict[Purpose, tuple[str, str, str]] = {
    "compare": ("pair", "smallest difference shown", "equal designs are equivalent within"),
    "gate": ("arm", "smallest harm called a regression", "an unchanged arm passes with a margin of"),
}

FIRST_TASKS = 50
"""Tasks to run first where there are too few to say anything."""


_KINDS: dict[Purpose, str] = {"compare": "a comparison", "gate": "a gate"}


MAX_TASKS = MAX_SIZE
"""Tasks beyond which no number is told: no built-in suite makes more, and no model is paid for more."""


CHEAPER = 0.95
"""Share of the trials that the fewest tasks take, below which the size of fewest trials is told beside it."""


def answers(sizing: Sizing) -> list[str]:
    """Return what no number of tasks tells apart, and the answer for each purpose, a sentence each."""
    never = "did the same in every trial; no number of tasks tells them apart under"
    these = "these profiles" if sizing.profiles > 1 else "this profile"
    return [*(f"{joined(names)} {never} {these}" for names in sizing.same), *(_answer(sizing, plan) for plan in sizing.plans)]


def scope(sizing: Sizing) -> str:
    """Return for which differences the sizes of a comparison are, and how many tasks the run's answer names for the one seen.

    Empty where no comparison is planned.
    """
    if not any(plan.purpose == "compare" for plan in sizing.plans):
        return ""
    these = "Sizes for any difference down to the margin"
    if sizing.likely is None:
        return f"{these}; a larger one takes fewer tasks"
    return f"{these}, not for the one seen ({counted(sizing.likely, 'task')})"


def sizing_tables(sizing: Sizing) -> list[Table]:
    """Return sizes and reach for each purpose, and the noise of each arm, without empty tables."""
    candidates = [_sizes(sizing, plan) for plan in sizing.plans]
    candidates += [_reach(sizing, plan) for plan in sizing.plans]
    return [table for table in (*candidates, _noise(sizing)) if table.rows]


def margin_text(sizing: Sizing, value: float) -> str:
    """Return `0.020` for accuracy, `10.0 %` for any other metric."""
    return f"{100 * value:.1f} %" if sizing.is_ratio else f"{value:.3f}"


def _answer(sizing: Sizing, plan: SizeOption) -> str:
    arms, margin = len(sizing.noise), margin_text(sizing, plan.margin)
    over = "a gate" if arms == 1 else f"a gate over {counted(arms, 'arm')}"
    goal = f"each pair within {margin}" if plan.purpose == "compare" else f"{over} with a margin of {margin}"
    question = f"{'To decide' if plan.purpose == 'compare' else 'For'} {goal} ({sizing.metric}, {percent(sizing.power)} sure)"
    best, units = plan.best, sizing.tasks if sizing.clusters is None else sizing.clusters
    if are_too_few_to_plan(units, sizing.alpha, is_clustered=sizing.clusters is not None):
        few = counted(units, "task") if sizing.clusters is None else f"{counted(units, 'cluster')} of tasks"
        return f"{question}: {few} in the pilot are too few to tell; run about {FIRST_TASKS} first"
    if best is not None:
        return f"{question}: {_times(best)} ({_flags(sizing, best)}), which is {_cost(best)}"
    if not plan.sizes:
        return f"{question}: no feasible number of tasks is enough"
    smallest = min(plan.sizes, key=lambda size: size.tasks)
    if smallest.tasks > MAX_TASKS:
        return f"{question}: more than {count(MAX_TASKS)} tasks, which in practice nobody can run"
    shortage = f"the suite's {count(sizing.suite_tasks or 0)} tasks are too few"
    would_do = f"{_times(smallest)} would do, which is {_cost(smallest)}"
    fewest = min((size for size in plan.sizes if size.tasks <= MAX_TASKS), key=lambda size: size.trials)
    if fewest.trials > CHEAPER * smallest.trials:
        return f"{question}: {shortage}; {would_do}"
    return f"{question}: {shortage}; {would_do}; with more tasks, fewer trials: {_times(fewest)}, {_cost(fewest)}"


def _tasks(of: Size | Sizing) -> str:
    """Return `1,240 tasks`, and in how many clusters they come where they share some."""
    return f"{count(of.tasks)} tasks" + ("" if of.clusters is None else f" in {count(of.clusters)} clusters")


def _times(of: Size | Sizing) -> str:
    """Return `1,240 tasks in 124 clusters × 2 repeats`."""
    return f"{_tasks(of)} × {counted(of.repeats, 'repeat')}"


def _flags(sizing: Sizing, size: Size) -> str:
    """Return the command-line flags of the planned run."""
    only = [("--loop", loop) for loop in sizing.loops] + [("--profile", profile) for profile in sizing.only_profiles]
    flags = (
        "".join(f"{flag} {shlex.quote(name)} " for flag, name in only)
        + f"--repeats {size.repeats}"
        + (f" --split {shlex.quote(sizing.split)}" if sizing.split is not None else "")
    )
    if size.suite is not None:
        return f"{flags} --suite {shlex.quote(size.suite)}"
    return f"{flags} --tasks {size.tasks}" if sizing.suite_tasks is not None and size.tasks < sizing.suite_tasks else flags


def _cost(size: Size) -> str:
    parts = [f"{count(size.trials)} trials"]
    parts += [] if size.lm_calls is None else [f"{count(size.lm_calls)} model calls"]
    parts += [] if size.tokens is None else [f"{large(size.tokens)} tokens"]
    parts += [] if size.cost_usd is None else [price_text(size.cost_usd)]
    parts += [] if size.seconds is None else [duration(size.seconds)]
    return ", ".join(parts)


def _sizes(sizing: Sizing, plan: SizeOption) -> Table:
    columns = ("repeats", "tasks", "clusters", "trials", "model calls", "tokens", "USD", "time", "note")
    rows = [_size_row(size) for size in plan.sizes]
    places = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    title = f"Sizes that suffice for {_KINDS[plan.purpose]}{', baseline and run alike' if plan.purpose == 'gate' else ''}"
    return Table(title, tuple(columns[place] for place in places), tuple(tuple(row[place] for place in places) for row in rows))


def _size_row(size: Size) -> tuple[str, ...]:
    larger = f"--suite {shlex.quote(size.suite)}" if size.suite else ""
    return (
        str(size.repeats),
        count(size.tasks) if size.tasks <= MAX_TASKS else f"over {count(MAX_TASKS)}",
        "" if size.clusters is None else count(size.clusters),
        count(size.trials),
        "" if size.lm_calls is None else count(size.lm_calls),
        "" if size.tokens is None else large(size.tokens),
        "" if size.cost_usd is None else price_text(size.cost_usd),
        "" if size.seconds is None else duration(size.seconds),
        larger if size.enough_tasks else "the suite has fewer tasks",
    )


def _reach(sizing: Sizing, plan: SizeOption) -> Table:
    tested = f", each pair at level {plan.level:.2g}" if plan.purpose == "compare" else ""
    title = f"What {_pilot(sizing)} can show in {_KINDS[plan.purpose]}{tested}, power {percent(sizing.power)}"
    return Table(title, _REACHES[plan.purpose], tuple(_reach_row(sizing, reach) for reach in plan.reaches))


def _reach_row(sizing: Sizing, reach: Reach) -> tuple[str, ...]:
    amounts = (reach.difference, reach.margin)
    return (" – ".join(reach.names), *("none" if value is None else margin_text(sizing, value) for value in amounts))


def _pilot(sizing: Sizing) -> str:
    return f"{_times(sizing)}, as in the pilot,"


def _noise(sizing: Sizing) -> Table:
    columns = ["arm", "standard deviation", f"{percent(1 - sizing.alpha)} of differences within", "the second run differed by"]
    rows = []
    for noise in sizing.noise:
        most = "at most " if noise.at_most else ""
        second = "" if noise.again is None or noise.p is None else f"{_change(sizing, noise.again)} (p = {noise.p:.2f})"
        rows.append(
            (noise.arm, most + _change(sizing, noise.sd, sign=False), f"{most}± {_change(sizing, noise.band, sign=False)}", second)
        )
    width = 4 if any(row[3] for row in rows) else 3
    title = f"How much two runs of one loop with fresh seeds differ, {_times(sizing)}"
    return Table(title, tuple(columns[:width]), tuple(row[:width] for row in rows))


def _change(sizing: Sizing, value: float, *, sign: bool = True) -> str:
    """Return a difference as text; amounts are in logarithms."""
    return (f"{100 * math.expm1(value):{'+' if sign else ''}z.1f} %") if sizing.is_ratio else f"{value:{'+' if sign else ''}z.4f}"


def count(value: float) -> str:
    """Return `1,240`."""
    return f"{value:,.0f}"


def large(value: float) -> str:
    """Return `950`, `12.3 k`, `4.56 M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def percent(share: float) -> str:
    """Return `80 %`."""
    return f"{100 * share:.4g} %"


def price_text(value: float) -> str:
    """Return `$0.0042`, `$12.30`, `$1,230`."""
    if value >= 1_000:
        return f"${value:,.0f}"
    return f"${value:.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"
