"""What `whichloop show` prints: one trial, or the trials that were not solved. It imports nothing that compares arms."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from whichloop.metrics.record import Record
from whichloop.protocol.values import counted
from whichloop.reports import trial_lines
from whichloop.text.numbers import counts
from whichloop.text.output import terminal_safe
from whichloop.text.trace_text import JudgedTrace, blocks

from .console import out, print_line, print_prose, print_text

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


def trace(trace: JudgedTrace, record: Record, *, full: bool) -> None:
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
