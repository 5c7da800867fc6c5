"""`whichloop show`: the trace of one trial, or the trials that were not solved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from whichloop.metrics.record import Record
from whichloop.runs.folders import trials_folder
from whichloop.runs.newer import newer_versions
from whichloop.runs.store.each_record import each_record, find_trial
from whichloop.runs.store.files import RunError, arms_in, read_manifest_json, step_limit, versions_in
from whichloop.runs.store.traces import read_trace
from whichloop.text.trace_text import as_judged

from . import render_trace
from .console import say
from .options import JsonOption, OptionGroup, ReadRunChoice, with_options


class ShowOptions(OptionGroup):
    trial: Annotated[str | None, typer.Argument()] = None
    """ARM/TASK/REPEAT, or parts that no other trial has (ARM/0007). Of an ARM or a LOOP alone the trials are listed that were not
    solved, the costliest first; if absent, those of all arms are counted."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print the trial's prompts, replies and results, too, long ones cut."""
    full: bool = False
    """Print all of that in full."""
    show_all: Annotated[bool, typer.Option("--all")] = False
    """List every trial that was not solved, not only how many each arm has."""


@with_options()
def show(choice: ReadRunChoice, options: ShowOptions, output: JsonOption) -> None:
    """Print the steps of one trial, its faults, and why it was lost; -v prints its prompts and replies."""
    folder = trials_folder(choice.folder)
    manifest = read_manifest_json(folder)
    if newer := newer_versions(folder, versions_in(manifest)):
        say(f"warning: {newer}")
    if options.trial is None:
        _list_missed(_missed(folder), folder, as_json=output.as_json, show_all=options.show_all)
        return
    try:
        record = find_trial(folder, options.trial)
    except RunError:
        arms = arms_in(manifest, options.trial)
        if not arms:
            raise
        missed = sorted((record for record in _missed(folder) if record.arm in arms), key=lambda record: -record.tokens)
        _list_missed(missed, folder, as_json=output.as_json, show_all=True, order="the costliest first")
        return
    trace = as_judged(read_trace(folder, record), record, step_limit(manifest, record.arm))
    if output.as_json:
        print(json.dumps(trace.to_json(), ensure_ascii=True))
    elif options.verbose or options.full:
        render_trace.trace(trace, record, full=options.full)
    else:
        render_trace.print_steps(trace, record)


def _missed(folder: Path) -> list[Record]:
    """Return the trials that were not solved, by name."""
    by_trial: dict[tuple[str, str, int], Record] = {}
    for record in each_record(folder):
        by_trial.pop(record.key, None)
        if record.status != "excluded" and not record.is_solved:
            by_trial[record.key] = record
    return [by_trial[key] for key in sorted(by_trial)]


def _list_missed(missed: Sequence[Record], folder: Path, *, as_json: bool, show_all: bool, order: str = "by name") -> None:
    """Print trials that were not solved: how many each arm has, or each of them. `order`: theirs, in words."""
    if as_json:
        print(json.dumps([record.to_json() for record in missed], ensure_ascii=True))
    elif show_all:
        render_trace.failures(missed, folder, order)
    else:
        render_trace.failures_by_arm(missed, folder)
