"""`whichloop show`: the trace of one trial, or the trials that were not solved."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from whichloop.metrics.record import Record
from whichloop.protocol.values import counted
from whichloop.reports import trial_lines
from whichloop.runs.folders import trials_folder
from whichloop.runs.manifest import newer_versions
from whichloop.runs.store.each_record import each_record, find_trial
from whichloop.runs.store.files import RunError, arms_in, read_manifest_json, step_limit, versions_in
from whichloop.runs.store.traces import read_trace
from whichloop.text.numbers import counts
from whichloop.text.output import terminal_safe
from whichloop.text.trace_text import JudgedTrace, as_judged, blocks

from .console import out, print_line, print_prose, print_text, say
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
        print_trace(trace, record, full=options.full)
    else:
        print_steps(trace, record)


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
        failures(missed, folder, order)
    else:
        failures_by_arm(missed, folder)


_STYLES = {
    "head": "bold",
    "prompt": "dim",
    "reply": "cyan",
    "move": "green",
    "error": "red",
    "fault": "bold magenta",
    "end": "bold",
}


def print_steps(trace: JudgedTrace, record: Record) -> None:
    """Print one trial in short: its faults and what became of them, the question, a line per step, and why it was lost."""
    for line in trial_lines.step_lines(trace, record):
        print_text(line)
    print_line("prompts and replies: -v; in full: --full", "dim")


def print_trace(trace: JudgedTrace, record: Record, *, full: bool) -> None:
    """Print one trial: its faults and what became of them, its events, and why it was lost."""
    console = out()
    for fate in trial_lines.fates(record.faults):
        print_text(fate)
    for block in blocks(trace.trace, full=full, judged_again=trace.judged_again, is_imported=trace.is_imported):
        style = _STYLES.get(block.kind, "")
        console.print(Text(terminal_safe(f"── {block.label} "), style=style))
        lines = [f"   {line}" for line in terminal_safe(block.text).split("\n")]
        console.print(Text("\n".join(lines), style="dim" if block.kind == "prompt" else ""), soft_wrap=True)
    for line in trial_lines.loss_lines(trace, record):
        print_text(line)


LOST = "lost"
"""What a scored trial is called that was not solved, of which nothing says how it ended."""


def failures_by_arm(records: Sequence[Record], folder: Path) -> None:
    """Print for each arm how many trials were not solved, how they ended, and the name of one of them."""
    arms: dict[str, list[Record]] = {}
    for record in records:
        arms.setdefault(record.arm, []).append(record)
    for arm, own in arms.items():
        endings = counts(Counter((each.stop or LOST) if each.status == "scored" else each.status for each in own))
        print_prose(f"{arm}  {len(own)} not solved: {endings}; such as {own[0].task}/{own[0].repeat}", hanging="  ")
    missed = counted(len(records), "trial was", "trials were")
    has_traces = any(record.trace_at is not None for record in records)
    print_prose(f"{missed} not solved; each of them: --all{'; one:' if has_traces else ''}", "dim")
    if has_traces:
        print_line(f"  whichloop show {shlex.quote(str(folder))} ARM/TASK/REPEAT", "dim")


def _struck(record: Record) -> str:
    """Return which faults struck a trial; of other tools' trials that is not known."""
    if not record.tells_faults:
        return "faults –"
    return ", ".join(sorted({fault.kind for fault in record.faults if fault.landed})) or "no fault"


def failures(records: Sequence[Record], folder: Path, order: str) -> None:
    """Print a line for each trial that was not solved, by the name that `show` takes. `order`: theirs, in words."""
    console = out()
    for record in records:
        struck = _struck(record)
        ending = (record.stop or LOST) if record.status == "scored" else f"{record.status}: {record.reason}"
        spent = f"; {counted(record.tokens, 'token')}" if record.tokens else ""
        console.print(Text(terminal_safe(f"{record.arm}/{record.task}/{record.repeat}  {ending}; {struck}{spent}")), soft_wrap=True)
    one = next((record.name for record in records if record.trace_at is not None), "")
    print_prose(f"{counted(len(records), 'trial was', 'trials were')} not solved, {order}{'; one:' if one else ''}", "dim")
    if one:
        print_line(f"  whichloop show {shlex.quote(str(folder))} {shlex.quote(one)}", "dim")
