"""`whichloop check suite`: whether a suite's results can be trusted."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from whichloop.checks import suite as suite_checks
from whichloop.checks.suite import Checked, SuiteFinding
from whichloop.checks.suite.reference_agents import BaselineResult
from whichloop.datasets.task import read_quarantine, with_quarantine
from whichloop.metrics.statistics import interval_json
from whichloop.protocol.names import parse_spec
from whichloop.protocol.values import counted
from whichloop.runs.built_in import builtin_names
from whichloop.runs.config import IfAbsent
from whichloop.runs.registry import make_suite
from whichloop.text.doc import Table
from whichloop.text.numbers import interval

from .console import out, print_row, show_table
from .options import JsonOption, OptionGroup, with_options
from .process import DONE, FAILED, own_prints_aside

SAY_EVERY_S = 5.0
SHOWN = 5
"""Problems of one check that are printed; --json has more of them."""

_MARKS = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "failed": ("FAILED", "bold red"),
    "left out": ("left out", "yellow"),
}


class SuiteOptions(OptionGroup):
    name: Annotated[str, typer.Argument()]
    """Suite, `name`, `name(option=value)` or `package.module:Name`."""
    data: Path | None = None
    """File that the suite reads its tasks from, if it imports them."""
    tools: str | None = None
    """Your own tools, `my.module` or `my.module:NAME`, or those of a server, `mcp:COMMAND` or `mcp:URL`."""
    run_tools: bool = False
    """Let checks call your own tools, whatever they do to the real world."""
    quarantine: Path | None = None
    """TOML or JSON file of tasks to leave out, `task-id = "reason"`."""
    tasks: Annotated[int | None, IfAbsent("all, up to 1000")] = None
    """Number of tasks whose tools are called, drawn evenly."""
    seed: int = 0
    """Seed of that draw and of the random calls."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print a line for each check that passes, too."""


@with_options()
def check_suite(options: SuiteOptions, output: JsonOption) -> None:
    """Run every check on a suite, and try agents that must not pass it.

    The exit code is 1 if a check fails.
    """
    spec = parse_spec(options.name)
    with own_prints_aside():
        suite = make_suite(spec, options.data, options.tools)
        if options.quarantine is not None:
            suite = with_quarantine(suite, read_quarantine(options.quarantine))
        finding = suite_checks.check_suite(
            suite,
            tasks=options.tasks,
            seed=options.seed,
            run_tools=options.run_tools or (spec.name in builtin_names("suite") and options.tools is None),
            progress=_Progress(),
        )
    if output.as_json:
        print(json.dumps(_as_dict(str(spec), finding), ensure_ascii=True, allow_nan=False))
    else:
        _print_total(str(spec), finding)
        _print_findings(finding, verbose=options.verbose)
        if finding.baselines:
            rows = tuple(
                (
                    passed.baseline.name,
                    interval(passed.share, 3),
                    str(passed.share.n if passed.share is not None else 0),
                    passed.baseline.says + ("; TOO MANY" if passed.is_too_many else ""),
                )
                for passed in finding.baselines
            )
            show_table(Table("Agents, and the share of tasks that they pass", ("agent", "passes", "tasks", "note"), rows))
    raise typer.Exit(DONE if finding.ok else FAILED)


class _Progress:
    """Prints a line to stderr every few seconds."""

    def __init__(self) -> None:
        self.said_at = time.monotonic()

    def __call__(self, check: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.said_at >= SAY_EVERY_S:
            self.said_at = now
            print(f"{check}: {done:,} of {counted(total, 'task')}", file=sys.stderr, flush=True)


def _print_findings(checked: Checked, *, verbose: bool) -> None:
    """Print each finding, in the order of the checks; unless `verbose`, one line stands below for those that pass."""
    passed = [finding for finding in checked.findings if finding.status == "ok"]
    for finding in checked.findings:
        if verbose or finding.status != "ok":
            _print_finding(finding)
    if passed and not verbose:
        mark, style = _MARKS["ok"]
        print_row([(mark, style, 15)], f"{counted(len(passed), 'check')} (-v has a line for each)")


def _print_finding(finding: SuiteFinding) -> None:
    """Print a line for a check, and one for each of the first problems."""
    mark, style = _MARKS[finding.status]
    rule = f"rule: {finding.says}" if finding.status in ("warning", "failed") else finding.says
    print_row([(mark, style, 15), (finding.check, "", 17)], rule, "dim")
    for problem in finding.problems[:SHOWN]:
        print_row([("", "", 15)], problem)
    if finding.count > SHOWN:
        print_row([("", "", 15)], f"and {finding.count - SHOWN} more", "dim")


def _print_total(name: str, checked: Checked) -> None:
    times = Counter(finding.status for finding in checked.findings)
    failed, warned, left_out = times["failed"], times["warning"], times["left out"]
    total = f"{failed} of {len(checked.findings)} checks fail" if failed else "no check fails" if warned else "every check passes"
    if warned:
        total += f", {counted(warned, 'gives', 'give')} a warning"
    missing = f"; {left_out} left out" if left_out else ""
    called = f"tools of {checked.sample} called" if checked.ran_tools else "no tool called"
    quarantined = sum(bool(task.quarantined) for task in checked.suite.tasks)
    tasks = counted(len(checked.suite.tasks) - quarantined, "task") + (f", {quarantined} quarantined" if quarantined else "")
    out().print(Text(f"{name}: {total}{missing} ({tasks}, {called})", style="bold"), soft_wrap=True)


def _as_dict(name: str, checked: Checked) -> dict[str, Any]:
    return {
        "suite": name,
        "ok": checked.ok,
        "version": checked.suite.version,
        "tasks": len(checked.suite.tasks),
        "sample": checked.sample,
        "ran_tools": checked.ran_tools,
        "checks": [finding.as_dict() for finding in checked.findings],
        "baselines": [_baseline(passed) for passed in checked.baselines],
        "quarantined": {task.id: task.quarantined for task in checked.suite.tasks if task.quarantined},
    }


def _baseline(passed: BaselineResult) -> dict[str, Any]:
    return {
        "agent": passed.baseline.name,
        "passes": interval_json(passed.share),
        "too_many": passed.is_too_many,
        "not_scored": len(passed.not_scored),
    }
