"""What `loopbench show` prints: one trial, or the trials that were not solved. It imports nothing that compares arms."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from loopbench.metrics.record import FaultRecord, Record
from loopbench.metrics.trace import Note, ToolRun, TraceEvent
from loopbench.metrics.trajectory.divergence import explain, read_trial
from loopbench.metrics.trajectory.failure_text import without_bytes
from loopbench.metrics.trajectory.trajectory import course, shortened
from loopbench.protocol.counts import counted
from loopbench.protocol.data_marks import instructions_in
from loopbench.text.counts import counts
from loopbench.text.plain_text import plain
from loopbench.text.trace_text import JudgedTrace, blocks, ending

from .console import out, print_line, print_prose

_STYLES = {
    "head": "bold",
    "prompt": "dim",
    "reply": "cyan",
    "move": "green",
    "error": "red",
    "fault": "bold magenta",
    "end": "bold",
}


def steps(found: JudgedTrace, record: Record) -> None:
    """Print one trial in short: its faults and what became of them, the question, a line per step, and why it was lost."""
    console = out()
    _faults(record.faults, console)
    console.print(Text(plain(f"── {record.name} "), style=_STYLES["head"]))
    print_prose(" ".join(found.trace.head.query.split()), indent="   ")
    for number, step in enumerate(course(found.trace), start=1):
        event = None if step.event is None else found.trace.events[step.event]
        fault = "" if event is None or isinstance(event, Note) else event.fault
        struck = f" ({fault})" if fault else ""
        print_prose(without_bytes(f"{number:2}. {step.text} → {shortened(step.observed)}{struck}"), hanging="    ")
        for instruction in _instructions(event):
            print_prose(f"it carried: {without_bytes(instruction)}", _STYLES["fault"], indent="    ")
    end = ending(found.trace.head, judged_again=found.judged_again)
    print_line(f"── {end.label} ", _STYLES["end"])
    for line in end.text.split("\n"):
        print_prose(line, indent="   ")
    if record.status == "scored" and record.accuracy < 1:
        loss = explain(read_trial(found.trace, record))
        print_prose(f"{loss.cause}, step {loss.step}: {loss.detail}")
    print_line("prompts and replies: -v; in full: --full", "dim")


def _instructions(event: TraceEvent | None) -> list[str]:
    """Return the instructions that a tool's result carried as a fault, whole."""
    return instructions_in(event.result) if isinstance(event, ToolRun) and event.fault.startswith("inject.") else []


def _faults(faults: Sequence[FaultRecord], console: Console) -> None:
    for fault in faults:
        became = "absorbed" if fault.absorbed else "recovered" if fault.recovered else "not recovered"
        became = f"believed, {became}" if fault.believed else became
        fate = f"landed, {became}" if fault.landed else "did not land"
        console.print(Text(plain(f"fault {fault.kind} at {fault.point}: {fate}"), style=_STYLES["fault"]))


def trace(found: JudgedTrace, faults: Sequence[FaultRecord], *, full: bool) -> None:
    """Print one trial: its faults and what became of them, then its events."""
    console = out()
    _faults(faults, console)
    for block in blocks(found.trace, full=full, judged_again=found.judged_again):
        style = _STYLES.get(block.kind, "")
        console.print(Text(plain(f"── {block.label} "), style=style))
        lines = [f"   {line}" for line in plain(block.text).split("\n")]
        console.print(Text("\n".join(lines), style="dim" if block.kind == "prompt" else ""), soft_wrap=True)


def failures_by_arm(records: Sequence[Record], folder: Path) -> None:
    """Print for each arm how many trials were not solved, how they ended, and the name of one of them."""
    arms: dict[str, list[Record]] = {}
    for record in records:
        arms.setdefault(record.arm, []).append(record)
    for arm, own in arms.items():
        ended = counts(Counter((each.stop or "not solved") if each.status == "scored" else each.status for each in own))
        print_line(f"{arm}  {len(own)} not solved: {ended}; such as {own[0].task}/{own[0].repeat}")
    missed = counted(len(records), "trial was", "trials were")
    where = shlex.quote(str(folder))
    print_line(f"{missed} not solved; each of them: --all; one: loopbench show {where} ARM/TASK/REPEAT", "dim")


def failures(records: Sequence[Record]) -> None:
    """Print a line for each trial that was not solved, by the name that `show` takes."""
    console = out()
    for record in records:
        struck = ", ".join(sorted({fault.kind for fault in record.faults if fault.landed})) or "no fault"
        ended = (record.stop or "not solved") if record.status == "scored" else f"{record.status}: {record.reason}"
        console.print(Text(plain(f"{record.arm}/{record.task}/{record.repeat}  {ended}; {struck}")), soft_wrap=True)
    console.print(Text(f"{counted(len(records), 'trial was', 'trials were')} not solved", style="dim"))
