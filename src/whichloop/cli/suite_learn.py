"""`whichloop suite learn`: learn plans for a suite's tasks from a run that solved them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.learn_plans.learn import LearnedSuite, check_out, learn_run, write_suite
from whichloop.protocol.names import Spec
from whichloop.runs.folders import trials_folder
from whichloop.text.doc import Table

from .console import make_room, say, show_table
from .options import AllowOption, JsonOption, OptionGroup, ReadRunChoice, with_options
from .process import own_prints_aside

MAX_ROWS = 20
"""Rows of a table that are printed; --json has all."""
MAX_CHARS = 60


class LearnOptions(OptionGroup):
    out: Annotated[Path, typer.Option("--out", "-o")]
    """File to write: one task per line, as JSON."""
    only_learned: bool = False
    """Leave out tasks without a plan."""
    any_order: bool = False
    """Let plans call tools in any order, because the tools only read; otherwise calls keep the order of the run."""
    check: bool = False
    """Replay each plan, which runs the tools; the plans of built-in suites are always replayed."""
    force: bool = False
    """Overwrite the file."""


@with_options()
def learn(choice: ReadRunChoice, options: LearnOptions, code: AllowOption, output: JsonOption) -> None:
    """Write a run's suite with the calls of successful trials as plans.

    The scripted model can follow these plans.
    """
    folder = trials_folder(choice.folder)
    make_room(options.out)
    check_out(options.out, force=options.force)
    with own_prints_aside():
        learned = learn_run(folder, code.allow, check=options.check, any_order=options.any_order)
    write_suite(learned, options.out, only_learned=options.only_learned)
    if output.as_json:
        print(json.dumps(learned.as_dict() | {"out": str(options.out)}, ensure_ascii=True, allow_nan=False))
    else:
        references = sum(lesson.references for lesson in learned.lessons)
        calls = sum(len(lesson.plan.calls) for lesson in learned.lessons)
        fixed_values = [(lesson.task, value) for lesson in learned.lessons for value in lesson.fixed_values]
        counts = (len(learned.tasks), len(learned.lessons), calls, references, len(fixed_values), len(learned.not_learned))
        _print_table(
            f"Learned from {learned.run}",
            ("tasks", "learned", "calls", "references", "kept literal", "not learned"),
            [tuple(map(str, counts))],
        )
        _print_table(
            "Literal, though earlier results hold the value too",
            ("task", "call", "argument", "value", "why", "seen"),
            [
                (task, k.call, k.argument, _cut_text(json.dumps(k.value)), k.why, _cut_text(", ".join(k.seen)))
                for task, k in fixed_values
            ],
        )
        _print_table("Not learned", ("task", "reason"), list(learned.not_learned.items()))
    if not learned.checked:
        say("the plans were not replayed; --check does that, and runs the tools")
    is_whole = options.only_learned or all(task.plan or task.quarantined for task in learned.tasks)
    say(f"wrote {options.out}; use it: {_command(learned, options.out)}{'' if is_whole else ' --skip-unplanned'}")


def _command(learned: LearnedSuite, out: Path) -> str:
    """Return the command that runs the scripted model on the file."""
    scorers = sorted({task.scorer for task in learned.tasks if ":" in task.scorer})  # the user's own code has to be named again
    spec = str(Spec("jsonl", {"scorer": scorers[0]} if scorers else {}))
    command = ["whichloop", "compare", "--suite", spec, "--data", str(out)]
    return shlex.join([*command, "--tools", learned.tools] if learned.tools else command)


def _cut_text(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


def _print_table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    show_table(Table(title, columns, tuple(rows[:MAX_ROWS])))
    if len(rows) > MAX_ROWS:
        print(f"… {len(rows) - MAX_ROWS} more; --json has all")
