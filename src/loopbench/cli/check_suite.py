"""`loopbench check suite`: whether a suite's results can be trusted."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .codes import FAILED
from .own_prints import own_prints_aside

if TYPE_CHECKING:
    from rich.console import Console

    from loopbench.checks.suite import Checked, SuiteFinding
    from loopbench.checks.suite.reference_agents import Passed

SAY_EVERY_S = 5.0
SHOWN = 5
"""Problems of one check; --json has more of them."""

_MARKS = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "failed": ("FAILED", "bold red"),
    "left out": ("left out", "yellow"),
}


def check_suite(
    name: Annotated[str, typer.Argument(help="Suite, `name`, `name(option=value)` or `package.module:Name`.", show_default=False)],
    data: Annotated[Path | None, typer.Option(help="File of a suite that imports one.")] = None,
    tools: Annotated[str | None, typer.Option(help="Tools of your own, `my.module` or `my.module:NAME`.")] = None,
    run_tools: Annotated[
        bool, typer.Option("--run-tools", help="Let checks call tools of your own, whatever they do to the real world.")
    ] = False,
    quarantine: Annotated[Path | None, typer.Option(help='TOML or JSON file of tasks to leave out, `task-id = "reason"`.')] = None,
    tasks: Annotated[
        int | None, typer.Option(help="Tasks whose tools are called, drawn evenly [default: all, up to 1000].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of that draw and of the random calls.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Hold every check against a suite, and run agents on it that must not pass; exit code 1 where a check fails."""
    from loopbench.checks import suite as suite_checks
    from loopbench.datasets.quarantine import read_quarantine, with_quarantine
    from loopbench.protocol.names import parse_spec
    from loopbench.runs.registry import builtin_names, make_suite

    from . import render

    spec = parse_spec(name)
    heard = _unheard if as_json else partial(_finding, render.out())
    with own_prints_aside():
        suite = make_suite(spec, data, tools)
        if quarantine is not None:
            suite = with_quarantine(suite, read_quarantine(quarantine))
        run_tools = run_tools or (spec.name in builtin_names("suite") and tools is None)
        found = suite_checks.check_suite(suite, tasks=tasks, seed=seed, run_tools=run_tools, heard=heard, progress=_Progress())
    if as_json:
        print(json.dumps(_as_dict(str(spec), found), ensure_ascii=True, allow_nan=False))
    else:
        _baselines(found)
        _in_all(str(spec), found)
    raise typer.Exit(0 if found.ok else FAILED)


class _Progress:
    """A line on stderr now and then."""

    def __init__(self) -> None:
        self.said_at = time.monotonic()

    def __call__(self, check: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.said_at >= SAY_EVERY_S:
            self.said_at = now
            print(f"{check}: {done} of {total} tasks", file=sys.stderr, flush=True)


def _unheard(found: SuiteFinding) -> None:
    return None


def _finding(console: Console, found: SuiteFinding) -> None:
    """A line for a check, and one for each of the first problems."""
    from rich.text import Text

    from loopbench.experiments.compare.tables import plain

    mark, style = _MARKS[found.status]
    console.print(Text.assemble((f"{mark:<15}", style), f"{found.check:<17}", (found.says, "dim")), soft_wrap=True)
    for problem in found.problems[:SHOWN]:
        console.print(Text(f"{'':15}{plain(problem)}"), soft_wrap=True)
    if found.count > SHOWN:
        console.print(Text(f"{'':15}and {found.count - SHOWN} more", style="dim"))


def _baselines(found: Checked) -> None:
    from loopbench.text.numbers import interval
    from loopbench.text.table import Table

    from .render import out, table

    if found.baselines:
        rows = tuple(
            (
                passed.baseline.name,
                interval(passed.share, 3),
                str(passed.share.n if passed.share is not None else 0),
                passed.baseline.says + ("; TOO MANY" if passed.is_too_many else ""),
            )
            for passed in found.baselines
        )
        table(Table("Agents, and the share of tasks that they pass", ("agent", "passes", "tasks", "note"), rows), out())


def _in_all(name: str, found: Checked) -> None:
    from rich.text import Text

    from .render import out

    failed, left_out = (sum(finding.status == status for finding in found.findings) for status in ("failed", "left out"))
    total = f"{failed} of {len(found.findings)} checks fail" if failed else "every check passes"
    missing = f"; {left_out} left out" if left_out else ""
    called = f"tools of {found.sample} called" if found.ran_tools else "no tool called"
    quarantined = sum(bool(task.quarantined) for task in found.suite.tasks)
    tasks = f"{len(found.suite.tasks) - quarantined} tasks" + (f", {quarantined} quarantined" if quarantined else "")
    out().print(Text(f"{name}: {total}{missing} ({tasks}, {called})", style="bold"), soft_wrap=True)


def _as_dict(name: str, found: Checked) -> dict[str, Any]:
    return {
        "suite": name,
        "ok": found.ok,
        "version": found.suite.version,
        "tasks": len(found.suite.tasks),
        "sample": found.sample,
        "ran_tools": found.ran_tools,
        "checks": [finding.as_dict() for finding in found.findings],
        "baselines": [_baseline(passed) for passed in found.baselines],
        "quarantined": {task.id: task.quarantined for task in found.suite.tasks if task.quarantined},
    }


def _baseline(passed: Passed) -> dict[str, Any]:
    return {
        "agent": passed.baseline.name,
        "passes": None if passed.share is None else passed.share.as_dict(),
        "too_many": passed.is_too_many,
        "not_scored": len(passed.not_scored),
    }
