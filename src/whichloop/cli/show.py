"""`whichloop show`: one trial, or the trials that were not solved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from whichloop.experiments.why.trial import show_command, trial_doc
from whichloop.metrics.record import Record
from whichloop.runs.folders import trials_folder
from whichloop.runs.manifest import newer_versions, read_manifest
from whichloop.runs.store.each_record import each_record, find_trial
from whichloop.runs.store.files import RunError, arms_in, read_manifest_json, versions_in
from whichloop.runs.store.traces import read_trace
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Table, lines_of
from whichloop.text.numbers import counts
from whichloop.text.trace_text import as_judged

from . import console
from .options import JsonOption, OptionGroup, ReadRunChoice, with_options

LOST = "lost"
"""What a scored trial is called that was not solved, of which nothing says how it ended."""


class ShowOptions(OptionGroup):
    trial: Annotated[str | None, typer.Argument()] = None
    """ARM/TASK/REPEAT, or parts that no other trial has (ARM/0007). Of an ARM or a LOOP alone the trials are listed that were not
    solved, the costliest first; if absent, those of all arms are counted."""
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print the trial's prompts, replies and results, too, long ones cut; without a trial, each trial that was not solved."""
    full: bool = False
    """Print all of that in full."""


@with_options()
def show(choice: ReadRunChoice, options: ShowOptions, output: JsonOption) -> None:
    """Print the steps of one trial, its faults, and why it was lost; -v prints its prompts and replies."""
    folder = trials_folder(choice.folder)
    manifest = read_manifest_json(folder)
    if newer := newer_versions(folder, versions_in(manifest)):
        console.say(f"warning: {newer}")
    verbose = options.verbose or options.full
    if options.trial is None:
        console.show(missed_doc(_missed(folder), folder), as_json=output.as_json, verbose=verbose)
        return
    try:
        record = find_trial(folder, options.trial)
    except RunError:
        arms = arms_in(manifest, options.trial)
        if not arms:
            raise
        missed = sorted((record for record in _missed(folder) if record.arm in arms), key=lambda record: -record.tokens)
        console.show(missed_doc(missed, folder), as_json=output.as_json, verbose=True)
        return
    trace = as_judged(read_trace(folder, record), record, read_manifest(folder).step_limits.get(record.arm))
    console.show(trial_doc(folder, trace, record, full=options.full), as_json=output.as_json, verbose=verbose)


def _missed(folder: Path) -> list[Record]:
    """Return the trials that were not solved, by name."""
    by_trial: dict[tuple[str, str, int], Record] = {}
    for record in each_record(folder):
        by_trial.pop(record.key, None)
        if record.status != "excluded" and not record.is_solved:
            by_trial[record.key] = record
    return [by_trial[key] for key in sorted(by_trial)]


def missed_doc(missed: Sequence[Record], folder: Path) -> Doc:
    """Return how many trials of each arm were not solved, and, as a detail, each of them."""
    arms = {arm: [record for record in missed if record.arm == arm] for arm in dict.fromkeys(record.arm for record in missed)}
    by_arm = tuple((arm, Cell(str(len(own)), value=len(own)), counts(Counter(map(_ending, own)))) for arm, own in arms.items())
    listed = [Table(arm, ("trial", "ended", "faults", "tokens"), tuple(map(_row, own)), detail=True) for arm, own in arms.items()]
    one = next((record.name for record in missed if record.trace_at is not None), "")
    blocks: tuple[Block, ...] = (
        Table("", ("arm", "not solved", "ended"), by_arm),
        *listed,
        lines_of(("Next", show_command(folder, one) if one else "")),
    )
    return Doc(f"{len(missed)} not solved", blocks, {"trials": [record.to_json() for record in missed]})


def _ending(record: Record) -> str:
    return (record.stop or LOST) if record.status == "scored" else record.status


def _row(record: Record) -> tuple[Cell | str, ...]:
    ended = _ending(record) if record.status == "scored" else f"{record.status}: {record.reason}"
    return f"{record.task}/{record.repeat}", ended, _struck(record), Cell(f"{record.tokens:,}", value=record.tokens)


def _struck(record: Record) -> str:
    """Return which faults struck a trial; of other tools' trials that is not known."""
    if not record.tells_faults:
        return UNKNOWN
    return ", ".join(sorted({fault.kind for fault in record.faults if fault.landed})) or "none"
