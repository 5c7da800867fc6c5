"""`loopbench suite`: learn plans for a suite's tasks from a run that solved them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .folders import run_folder
from .own_prints import own_prints_aside

if TYPE_CHECKING:
    from loopbench.experiments.learn_plans.learn import Learned

MAX_ROWS = 20
"""Of a table; --json has all."""
MAX_CHARS = 60

suite = typer.Typer(help="Suites of your own: learn plans for their tasks.", no_args_is_help=True, rich_markup_mode=None)


@suite.callback()
def _group() -> None:
    """With one command only, typer would take its name for an argument."""


@suite.command()
def learn(
    run: Annotated[Path, typer.Argument(help="Run directory, its name under runs/, or `latest`.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: one task per line, as JSON.", show_default=False)],
    only_learned: Annotated[bool, typer.Option("--only-learned", help="Leave out tasks without a plan.")] = False,
    any_order: Annotated[
        bool, typer.Option("--any-order", help="The tools only read: calls need not keep the order that the run made them in.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Replay each plan, which runs the tools [always so for suites of loopbench's own].")
    ] = False,
    allow: Annotated[
        list[str] | None, typer.Option(help="Code of your own that the run's suite may import, such as package.module:Name.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    runs: Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write the run's suite with the calls of successful trials as plans, for the scripted model to follow."""
    from loopbench.experiments.learn_plans.learn import check_out, learn_run, write_suite

    from . import render

    check_out(out, force=force)
    with own_prints_aside():
        learned = learn_run(run_folder(run, runs), allow or (), check=check, any_order=any_order)
    write_suite(learned, out, only_learned=only_learned)
    if as_json:
        print(json.dumps(learned.as_dict() | {"out": str(out)}, ensure_ascii=True, allow_nan=False))
    else:
        _print(learned)
    if not learned.checked:
        render.say("the plans were not replayed; --check does that, and runs the tools")
    is_whole = only_learned or all(task.plan or task.quarantined for task in learned.tasks)
    render.say(f"wrote {out}; use it: {_command(learned, out)}{'' if is_whole else ' --skip-unplanned'}")


def _command(learned: Learned, out: Path) -> str:
    """What runs the scripted model on the file."""
    from loopbench.runs.registry import Spec

    scorers = sorted({task.scorer for task in learned.tasks if ":" in task.scorer})  # code of the user's own, to be named again
    spec = str(Spec("jsonl", {"scorer": scorers[0]} if scorers else {}))
    command = ["loopbench", "compare", "--suite", spec, "--data", str(out)]
    return shlex.join([*command, "--tools", learned.tools] if learned.tools else command)


def _print(learned: Learned) -> None:
    """What was learned, what could have been a reference, and what was not learned."""
    references = sum(lesson.references for lesson in learned.lessons)
    calls = sum(len(lesson.plan.calls) for lesson in learned.lessons)
    kept = [(lesson.task, value) for lesson in learned.lessons for value in lesson.kept]
    counts = (len(learned.tasks), len(learned.lessons), calls, references, len(kept), len(learned.left))
    _print_table(
        f"Learned from {learned.run}",
        ("tasks", "learned", "calls", "references", "kept literal", "not learned"),
        [tuple(map(str, counts))],
    )
    _print_table(
        "Literal, though earlier results hold the value too",
        ("task", "call", "argument", "value", "why", "seen"),
        [(task, k.call, k.argument, _short(json.dumps(k.value)), k.why, _short(", ".join(k.seen))) for task, k in kept],
    )
    _print_table("Not learned", ("task", "reason"), list(learned.left.items()))


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


def _print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from loopbench.text.table import Table

    from . import render

    if not rows:
        return
    render.table(Table(title, columns, tuple(rows[:MAX_ROWS])), render.out())
    if len(rows) > MAX_ROWS:
        print(f"… {len(rows) - MAX_ROWS} more; --json has all")
