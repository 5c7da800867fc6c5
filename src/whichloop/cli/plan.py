"""`whichloop plan check` and `whichloop plan schema`: the plans of your own tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from whichloop.checks.plans import MAX_SHOWN_CHARS, PlanFindings, plan_findings
from whichloop.datasets.importing.plan_model import plan_schema
from whichloop.protocol import Plan, plan_to_json
from whichloop.protocol.plan_lines import plan_to_lines
from whichloop.protocol.values import cap, counted
from whichloop.runs.registry import tools_named
from whichloop.text.output import terminal_safe

from .console import out
from .options import JsonOption, OptionGroup, with_options
from .process import DONE, FAILED, own_prints_aside

MAX_SHOWN = 20
"""Problems that are printed; --json has all of them."""


class PlanOptions(OptionGroup):
    file: Annotated[Path, typer.Argument()]
    """Tasks with plans (.csv, .jsonl, .parquet), or a file with one plan, in JSON or a call per line."""
    tools: str | None = None
    """Your own tools, as `compare` takes them: names and arguments of the calls are checked against them."""
    run_tools: bool = False
    """Make the calls of every plan with your own tools, whatever they do to the real world, and judge what comes out."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print every plan, a call per line, where lines can say it."""


@with_options()
def check(options: PlanOptions, output: JsonOption) -> None:
    """Say what is wrong with the plans in a file, and which of them lead to the right answers.

    The exit code is 1 if something is wrong, and 2 if there is no plan.
    """
    if options.run_tools and options.tools is None:
        raise ValueError("--run-tools needs the tools: name their module with --tools")
    with own_prints_aside():
        tools = None if options.tools is None else tools_named(options.tools)
        findings = plan_findings(options.file, tools, run_tools=options.run_tools)
    if not findings.planned and not findings.problems:  # or a check in CI passes on a file whose column is misspelt
        raise ValueError(_no_plan(options.file, findings))
    if output.as_json:
        print(json.dumps(_as_dict(findings), ensure_ascii=True, allow_nan=False))
    else:
        _print(options, findings)
    raise typer.Exit(FAILED if findings.problems else DONE)


@with_options()
def schema() -> None:
    """Print the JSON schema of a plan."""
    print(json.dumps(plan_schema(), indent=2))


def _no_plan(file: Path, findings: PlanFindings) -> str:
    unused = f"; {findings.unused}" if findings.unused else ""
    tasks = counted(len(findings.tasks), "task")
    return f"{file}: there is no plan to check in {tasks}{unused}; a plan has a line for each call, and a last one: answer = …"


def _print(options: PlanOptions, findings: PlanFindings) -> None:
    console = out()
    for task in findings.tasks if options.verbose else ():
        if task.plan is not None:
            console.print(Text(f"{terminal_safe(task.id)}:", style="bold"), soft_wrap=True)
            console.print(Text(terminal_safe(_written(task.plan)) + "\n"), soft_wrap=True)
    for problem in findings.problems[:MAX_SHOWN]:
        console.print(Text(terminal_safe(problem)), soft_wrap=True)
    if len(findings.problems) > MAX_SHOWN:
        console.print(Text(f"and {len(findings.problems) - MAX_SHOWN} more, which --json has"))
    if findings.unused:
        console.print(Text(f"{terminal_safe(str(options.file))}: {terminal_safe(findings.unused)}", style="yellow"), soft_wrap=True)
    style = "bold red" if findings.problems else "bold yellow" if findings.stated else "bold green"
    console.print(Text(_sum(options, findings), style=style), soft_wrap=True)


def _written(plan: Plan) -> str:
    try:
        return plan_to_lines(plan)
    except ValueError:
        return json.dumps(plan_to_json(plan), ensure_ascii=False)


def _sum(options: PlanOptions, findings: PlanFindings) -> str:
    if findings.problems:
        return f"{terminal_safe(str(options.file))}: {counted(len(findings.problems), 'problem')}"
    what = f"{terminal_safe(str(options.file))}: {findings.planned} of {counted(len(findings.tasks), 'task')} with a plan, "
    what += counted(findings.calls, "call")
    if findings.carried_out and findings.is_alone:
        return f"{what}, which can be made; {_answer(findings)}"
    if findings.carried_out:
        return f"{what}; {_led(findings)}"
    stated = f"; {_own_answers(findings)}" if findings.stated and not findings.is_alone else ""
    if options.tools is None:
        return f"{what}; whether such tools exist is not known: --tools MODULE{stated}"
    return f"{what}, which fit their tools; no call was made: --run-tools{stated}"


def _answer(findings: PlanFindings) -> str:
    """Return what a plan alone leads to."""
    if findings.answer is None:
        return "the plan gives no answer"
    return (
        f"the answer is {terminal_safe(cap(repr(findings.answer), MAX_SHOWN_CHARS))}, and only a task can say whether it is right"
    )


def _led(findings: PlanFindings) -> str:
    """Return where the plans lead, and which of them only state where."""
    leading = findings.planned - findings.stated
    if not findings.stated:
        return "every plan leads to the right answer"
    leads = f"{counted(leading, 'plan leads', 'plans lead')} to the right answer; " if leading else ""
    if not findings.yielded:
        return f"{leads}{_own_answers(findings)}, and no call gives it"
    where = "" if findings.yielded == findings.stated else f" in {findings.yielded:,} of them"
    ending = f"end the {'plan' if findings.yielded == 1 else 'plans'} with `answer = NAME`, the name of that call"
    return f"{leads}{_own_answers(findings)}, although a call gives the same{where}: {ending}"


def _own_answers(findings: PlanFindings) -> str:
    return f"the answer of {counted(findings.stated, 'plan')} is the row's own, not that of a call (right by construction)"


def _as_dict(findings: PlanFindings) -> dict[str, object]:
    return {
        "tasks": len(findings.tasks),
        "planned": findings.planned,
        "calls": findings.calls,
        "carried_out": findings.carried_out,
        "by_construction": findings.stated,
        "problems": list(findings.problems),
    }
