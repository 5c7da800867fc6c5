"""Sizes as a document: one table of what suffices, the flags of the cheapest, what is doubtful; behind it what the pilot shows."""

from __future__ import annotations

import shlex
from dataclasses import replace

from whichloop.datasets.generating import MAX_SIZE
from whichloop.experiments.compare.doc import basis
from whichloop.experiments.compare.tables import table_of
from whichloop.metrics.caveats import warning_lines
from whichloop.protocol.values import joined
from whichloop.text.doc import UNKNOWN, Cell, Doc, lines_of
from whichloop.text.numbers import dollars_text, duration

from .sizes import Size, SizePlan, Sizing

COLUMNS = ("for", "repeats", "tasks", "clusters", "trials", "LM calls", "tokens", "USD", "time", "tasks there")
SEEN = "difference seen"
"""What stands for the number of tasks that the pilot's verdict names."""
REACHES = {
    "compare": ("pair", "difference shown", "equal within"),
    "gate": ("arm", "harm called a regression", "passes within"),
}


def size_doc(sizing: Sizing) -> Doc:
    """Return what suffices, the number that the pilot's own verdict names first."""
    pilot = sizing.pilot
    title = f"{pilot.run.title} · sizes for {pilot.request.metric}, {100 * pilot.request.power:.4g} % sure"
    answer = lines_of(
        *((plan.purpose.capitalize(), _flags(sizing, plan)) for plan in sizing.plans),
        ("Same", [joined(names) for names in sizing.same]),
        ("Basis", basis(pilot.run)),
        ("Warning", warning_lines(sizing.warnings)),
    )
    rows = [] if sizing.seen is None else [_row(SEEN, sizing.seen)]
    shown = []
    for plan in sizing.plans:
        name = f"{plan.purpose} ± {_margin(sizing, plan.margin)}"
        rows += [_row(name, each, is_best=each == plan.best) for each in plan.sizes]
        told = f"What a run as large as the pilot can show: {plan.purpose}, each test at level {plan.level:.2g}"
        reaches = []
        for each in plan.reaches:
            margins = ("none" if m is None else _margin(sizing, m) for m in (each["difference"], each["margin"]))
            reaches.append((" – ".join(each["names"]), *margins))
        shown.append(table_of(told, REACHES[plan.purpose], reaches))
    return Doc(title, (replace(table_of("", COLUMNS, rows), detail=False), answer, *shown), sizing.to_json())


def _row(name: str, size: Size, *, is_best: bool = False) -> tuple[Cell | str, ...]:
    """Return a row; how many tasks there are is told where they are too few."""
    tasks = f"{size.tasks:,}" if size.tasks <= MAX_SIZE else f"over {MAX_SIZE:,}"
    return (
        Cell(name, "good" if is_best else ""),
        str(size.repeats),
        Cell(tasks, "" if size.enough_tasks else "warn", size.tasks),
        UNKNOWN if size.clusters is None else f"{size.clusters:,}",
        f"{size.trials:,}",
        UNKNOWN if size.lm_calls is None else f"{size.lm_calls:,.0f}",
        UNKNOWN if size.tokens is None else large(size.tokens),
        UNKNOWN if size.cost_usd is None else dollars_text(size.cost_usd),
        UNKNOWN if size.seconds is None else duration(size.seconds),
        UNKNOWN if size.enough_tasks else "no",
    )


def _flags(sizing: Sizing, plan: SizePlan) -> str:
    """Return the flags of the run with the fewest trials for which there are enough tasks."""
    best, available, request = plan.best, sizing.pilot.available, sizing.pilot.request
    if best is None:
        return f"the suite's {available:,} tasks are too few" if plan.sizes else "no feasible number of tasks"
    present = sizing.to_json()["loops"]
    named = [("--loop", loop) for loop in present] + [("--profile", profile) for profile in request.profiles]
    flags = [*named, ("--repeats", str(best.repeats))]
    split = sizing.pilot.run.manifest.settings.split
    flags += [] if split is None else [("-s", f"split={split}")]
    if best.suite is not None:
        flags.append(("--suite", best.suite))
    elif available is not None and best.tasks < available:
        flags.append(("--tasks", str(best.tasks)))
    return " ".join(f"{flag} {shlex.quote(value)}" for flag, value in flags)


def _margin(sizing: Sizing, value: float) -> str:
    """Return `0.020` for a share, `10.0 %` for any other metric."""
    return f"{value:.3f}" if sizing.pilot.scores else f"{100 * value:.1f} %"


def large(value: float) -> str:
    """Return `950`, `12.3 k`, `4.56 M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"
