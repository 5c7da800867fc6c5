"""`loopbench why`: why one arm loses to another, task by task; no model is called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from loopbench.experiments.compare.results import Results, find_record, results
from loopbench.experiments.why.arms import arms_named, pairs_named, required_arms
from loopbench.experiments.why.why import LostTrial, loss_of
from loopbench.experiments.why.why import why as find
from loopbench.metrics.record import Record
from loopbench.protocol.names import meant
from loopbench.runs.folders import trials_folder

from . import render_why
from .options import JsonOption, OptionGroup, RunChoice, with_options

MIN = 3
"""Examples of each cause that are printed."""


class WhyOptions(OptionGroup):
    a: Annotated[str | None, typer.Argument()] = None
    """Arm, or a loop for all its arms, or a trial ARM/TASK/REPEAT; or a part of the name that no other has."""
    b: Annotated[str | None, typer.Argument()] = None
    """Arm or loop to compare A with."""
    task: str | None = None
    """Task to explain, or a part of its id that no other has; others are left out."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print each pair of arms and what is notable about the tasks, not only each arm's causes."""
    show_all: Annotated[bool, typer.Option("--all")] = False
    """Print every trial and task, not only the first of each kind."""


@with_options()
def why(choice: RunChoice, options: WhyOptions, output: JsonOption) -> None:
    """Say where arms diverge, and why trials were lost.

    It also says what is notable about the tasks. No model is called.
    """
    a, b = options.a, options.b
    found = results(trials_folder(choice.folder))
    if a is not None and b is None and not arms_named(found, a):
        if not meant(a, [record.name for record in found.records]):
            required_arms(found, a)
        _trial(found, find_record(found, a), as_json=output.as_json)
        return
    most = None if options.show_all or output.as_json else MIN
    arms = None if a is None or b is not None else arms_named(found, a)
    reasons = find(found, pairs=_pairs(found, a, b), arms=arms, task=options.task, most=most)
    if output.as_json:
        print(json.dumps({"run": str(found.folder.resolve())} | reasons.to_json(), ensure_ascii=True, allow_nan=False))
    elif a is None and not options.verbose and not options.show_all:
        render_why.sums(found, reasons)
    else:
        render_why.why(found, reasons, show_all=options.show_all)


def _pairs(found: Results, a: str | None, b: str | None) -> Sequence[tuple[str, str]] | None:
    """Return the pairs that were asked for; None stands for all of them."""
    if a is None:
        return None
    return () if b is None else pairs_named(found, a, b)


def _trial(found: Results, record: Record, *, as_json: bool) -> None:
    """Explain one trial by itself."""
    if record.status != "scored" or record.accuracy >= 1:
        state = "was solved" if record.status == "scored" else f"is {record.status}: {record.reason}"
        raise ValueError(f"{record.arm}/{record.task}/{record.repeat} {state}; there is no loss to explain")
    lost = LostTrial(record.task, record.repeat, record.stop, loss_of(found, record))
    if as_json:
        print(json.dumps({"run": str(found.folder.resolve()), "arm": record.arm} | lost.to_json(), ensure_ascii=True))
    else:
        render_why.lost(found, record.arm, lost)
