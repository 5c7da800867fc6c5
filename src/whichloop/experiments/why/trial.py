"""One trial as a document: its faults, its steps, how it ended, and why it was lost; and the trials that were not solved."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.trace import NO_CONTENT, Note, ToolRun
from whichloop.metrics.trajectory.divergence import explain, without_bytes
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.metrics.trajectory.trajectory import course, shortened
from whichloop.protocol.receipts import instructions_in
from whichloop.runs.manifest import read_manifest
from whichloop.runs.store.trials import each_record, read_trace
from whichloop.text.doc import UNKNOWN, Block, Cell, Doc, Table, TraceLines, lines_of
from whichloop.text.numbers import counts
from whichloop.text.trace_text import JudgedTrace, as_judged, blocks, ending

MIN_FOLDED = 3
"""Equal steps that follow each other, from which on only the first is shown."""


def show_command(folder: Path | str, trial: str, *more: str) -> str:
    """Return the command that prints a trial, ARM/TASK/REPEAT."""
    return shlex.join(["whichloop", "show", str(folder), trial, *more])


def recorded_doc(folder: Path, record: Record, *, full: bool = False) -> Doc:
    """Return a trial of a run. Raises RunError for one without a trace."""
    trace = as_judged(read_trace(folder, record), record, read_manifest(folder).step_limits.get(record.arm))
    return trial_doc(folder, trace, record, full=full)


def trial_doc(folder: Path, trace: JudgedTrace, record: Record, *, full: bool = False) -> Doc:
    """Return one trial; prompts, replies and results are a detail, long ones cut unless `full`."""
    told = [piece for piece in blocks(trace, full=full) if piece.kind not in ("head", "end")]
    is_lost = record.status == "scored" and not record.is_solved and not trace.is_blank
    subject = "agent" if trace.is_imported else "loop"
    loss = explain(TracedTrial(trace.trace, record, limit=trace.limit)).of(subject) if is_lost else None
    steps = (NO_CONTENT,) if trace.is_blank else (" ".join(trace.trace.head.query.split()), *_steps(trace))
    prompts = [line for piece in told for line in (f"── {piece.label}", *(f"   {text}" for text in piece.text.split("\n")))]
    blocks_shown = (
        lines_of(("Fault", [_fate(fault) for fault in record.faults])),
        TraceLines("", steps),
        TraceLines("Prompts and replies", tuple(prompts), detail=True),
        lines_of(
            *ending(trace),
            ("Cause", "" if loss is None else f"{loss.cause}, step {loss.step}: {loss.detail}"),
            ("Next", show_command(folder, record.name, "-v")),
        ),
    )
    return Doc(record.name, blocks_shown, trace.to_json() | ({} if loss is None else asdict(loss)))


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


# --- trials that were not solved ---


def missed_doc(folder: Path, arms: Collection[str] = ()) -> Doc:
    """Return how many trials of each arm were not solved, and, as a detail, each of them. `arms`: of these, the costliest first."""
    by_trial: dict[tuple[str, str, int], Record] = {}
    for record in each_record(folder):
        by_trial.pop(record.key, None)
        if record.status != "excluded" and not record.is_solved:
            by_trial[record.key] = record
    missed = [by_trial[key] for key in sorted(by_trial)]
    if arms:
        missed = sorted((record for record in missed if record.arm in arms), key=lambda record: -record.tokens)
    by_arm = {arm: [record for record in missed if record.arm == arm] for arm in dict.fromkeys(record.arm for record in missed)}
    sums = tuple((arm, Cell(str(len(own)), value=len(own)), counts(Counter(map(_ending, own)))) for arm, own in by_arm.items())
    each = [Table(arm, ("trial", "ended", "faults", "tokens"), tuple(map(_row, own)), detail=True) for arm, own in by_arm.items()]
    one = next((record.name for record in missed if record.trace_at), "")
    answer: tuple[Block, ...] = (
        Table("", ("arm", "not solved", "ended"), sums),
        *each,
        lines_of(("Next", show_command(folder, one) if one else "")),
    )
    return Doc(f"{len(missed)} not solved", answer, {"trials": [record.to_json() for record in missed]})


def _ending(record: Record) -> str:
    return (record.stop or "lost") if record.status == "scored" else record.status


def _row(record: Record) -> tuple[Cell | str, ...]:
    ended = _ending(record) if record.status == "scored" else f"{record.status}: {record.reason}"
    struck = ", ".join(sorted({fault.kind for fault in record.faults if fault.landed})) or "none"
    faults = struck if record.tells_faults else UNKNOWN
    return f"{record.task}/{record.repeat}", ended, faults, Cell(f"{record.tokens:,}", value=record.tokens)
