"""One trial as a document: its faults and what became of them, its steps, how it ended, and why it was lost."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.trace import NO_CONTENT, Note, ToolRun
from whichloop.metrics.trajectory.divergence import explain, read_trial
from whichloop.metrics.trajectory.failure_text import without_bytes
from whichloop.metrics.trajectory.trajectory import course, shortened
from whichloop.protocol.receipts import instructions_in
from whichloop.text.doc import Doc, TraceLines, lines_of
from whichloop.text.trace_text import JudgedTrace, blocks, ending

MIN_FOLDED = 3
"""Equal steps that follow each other, from which on only the first is shown."""


def show_command(folder: Path | str, trial: str, *more: str) -> str:
    """Return the command that prints a trial, ARM/TASK/REPEAT."""
    return shlex.join(["whichloop", "show", str(folder), trial, *more])


def trial_doc(folder: Path, trace: JudgedTrace, record: Record, *, full: bool = False) -> Doc:
    """Return one trial; prompts, replies and results are a detail, long ones cut unless `full`."""
    told = [piece for piece in blocks(trace, full=full) if piece.kind not in ("head", "end")]
    is_lost = record.status == "scored" and not record.is_solved and not trace.is_blank
    loss = explain(read_trial(trace.trace, record, limit=trace.limit)) if is_lost else None
    steps = (NO_CONTENT,) if trace.is_blank else (" ".join(trace.trace.head.query.split()), *_steps(trace))
    prompts = tuple(line for piece in told for line in (f"── {piece.label}", *_indented(piece.text)))
    blocks_shown = (
        lines_of(("Fault", [_fate(fault) for fault in record.faults])),
        TraceLines("", steps),
        TraceLines("Prompts and replies", prompts, detail=True),
        lines_of(
            *ending(trace),
            ("Cause", "" if loss is None else f"{loss.cause}, step {loss.step}: {loss.detail}"),
            ("Next", show_command(folder, record.name, "-v")),
        ),
    )
    return Doc(record.name, blocks_shown, trace.to_json() | ({} if loss is None else asdict(loss)))


def _indented(text: str) -> list[str]:
    return [f"   {line}" for line in text.split("\n")]


def _steps(trace: JudgedTrace) -> Iterator[str]:
    """Yield a line for each step, and the instructions that its result carried below it; of many equal ones only the first."""
    number = 1
    for _, equal in groupby(_rows(trace)):
        rows = list(equal)
        shown = rows[:1] if len(rows) >= MIN_FOLDED else rows
        for at, (text, carried) in enumerate(shown, start=number):
            yield f"{at:2}. {text}"
            yield from (f"    it carried: {each}" for each in carried)
        number += len(rows)
        if len(shown) < len(rows):
            yield f"    the same {len(rows) - 1} times more, to step {number - 1}"


def _rows(trace: JudgedTrace) -> Iterator[tuple[str, list[str]]]:
    for step in course(trace.trace):
        event = None if step.event is None else trace.trace.events[step.event]
        fault = "" if event is None or isinstance(event, Note) else event.fault
        text, observed = step.text, shortened(step.observed)
        if event is None and trace.is_imported:
            text, observed = text if trace.trace.head.answer is not None else "–", observed or "–"
        carried = instructions_in(event.result) if isinstance(event, ToolRun) and fault.startswith("inject.") else []
        yield without_bytes(f"{text} → {observed}{f' ({fault})' if fault else ''}"), [without_bytes(each) for each in carried]


def _fate(fault: FaultRecord) -> str:
    became = "absorbed" if fault.absorbed else "recovered" if fault.recovered else "not recovered"
    fate = f"landed, {'believed, ' if fault.believed else ''}{became}" if fault.landed else "did not land"
    return f"{fault.kind} at {fault.point}: {fate}"
