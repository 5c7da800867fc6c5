"""What `whichloop show` prints of one trial, and `run.show()` shows in Python: its faults, steps, end and loss, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.trace import NO_CONTENT, Note, ToolRun, TraceEvent
from whichloop.metrics.trajectory.divergence import explain, read_trial
from whichloop.metrics.trajectory.failure_text import without_bytes
from whichloop.metrics.trajectory.trajectory import course, shortened
from whichloop.protocol.receipts import instructions_in
from whichloop.text.output import OutputLine, Prose
from whichloop.text.trace_text import JudgedTrace, ending

MIN_FOLDED = 3
"""Equal steps that follow each other, from which on only the first is shown."""


def step_lines(trace: JudgedTrace, record: Record) -> Iterator[OutputLine | Prose]:
    """Yield one trial in short: its faults and what became of them, the question, a line per step, and why it was lost."""
    yield from fates(record.faults)
    yield OutputLine(f"── {record.name} ", "bold")
    if _is_blank(trace):
        yield Prose(NO_CONTENT, indent="   ")
    else:
        yield Prose(" ".join(trace.trace.head.query.split()), indent="   ")
        number = 1
        for _, equal_rows in groupby(_rows(trace)):
            rows = list(equal_rows)
            shown = rows[:1] if len(rows) >= MIN_FOLDED else rows
            for at, (text, carried) in enumerate(shown, start=number):
                yield Prose(f"{at:2}. {text}", hanging="    ")
                yield from (Prose(f"it carried: {each}", "bold magenta", indent="    ") for each in carried)
            number += len(rows)
            if len(shown) < len(rows):
                yield Prose(f"the same {len(rows) - 1} times more, to step {number - 1}", indent="    ")
    end = ending(trace.trace.head, judged_again=trace.judged_again, is_imported=trace.is_imported)
    yield OutputLine(f"── {end.label} ", "bold")
    for line in end.text.split("\n"):
        yield Prose(line, indent="   ")
    yield from loss_lines(trace, record)


def loss_lines(trace: JudgedTrace, record: Record) -> Iterator[Prose]:
    """Yield why the trial was lost, and at which step; nothing of one that was solved, or whose trace has no content."""
    if record.status == "scored" and not record.is_solved and not _is_blank(trace):
        loss = explain(read_trial(trace.trace, record, limit=trace.limit))
        yield Prose(f"{loss.cause}, step {loss.step}: {loss.detail}")


def _is_blank(trace: JudgedTrace) -> bool:
    return trace.is_imported and trace.trace.lacks_content


def _rows(trace: JudgedTrace) -> Iterator[tuple[str, list[str]]]:
    """Yield each step as it is shown behind its number, and the instructions that its result carried."""
    for step in course(trace.trace):
        event = None if step.event is None else trace.trace.events[step.event]
        fault = "" if event is None or isinstance(event, Note) else event.fault
        struck = f" ({fault})" if fault else ""
        text, observed = step.text, shortened(step.observed)
        if event is None and trace.is_imported:
            text, observed = text if trace.trace.head.answer is not None else "–", observed or "–"
        yield without_bytes(f"{text} → {observed}{struck}"), [without_bytes(each) for each in _instructions(event)]


def fates(faults: Sequence[FaultRecord]) -> Iterator[OutputLine]:
    """Yield a line for each fault, which says whether it landed and whether the loop recovered."""
    for fault in faults:
        became = "absorbed" if fault.absorbed else "recovered" if fault.recovered else "not recovered"
        became = f"believed, {became}" if fault.believed else became
        fate = f"landed, {became}" if fault.landed else "did not land"
        yield OutputLine(f"fault {fault.kind} at {fault.point}: {fate}", "bold magenta")


def _instructions(event: TraceEvent | None) -> list[str]:
    """Return the instructions that a tool's result carried as a fault, whole."""
    return instructions_in(event.result) if isinstance(event, ToolRun) and event.fault.startswith("inject.") else []
