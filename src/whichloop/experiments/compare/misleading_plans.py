"""Tasks that no loop can solve because their plans' calls lead to another answer than the expected one.

No call is made to find them, since tools may act on the real world, or give another result each time: they show in trials that
nothing disturbed, in which a loop did all that the plan says and gave the answer that came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from whichloop.metrics.caveats import Caveat
from whichloop.metrics.record import Record
from whichloop.metrics.trajectory.divergence import explain
from whichloop.metrics.trajectory.traced_trial import TracedTrial
from whichloop.metrics.trajectory.trajectory import course, shortened
from whichloop.protocol import StopReason, render_value
from whichloop.protocol.names import SCRIPTED
from whichloop.runs.manifest import Manifest
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import Traces

MAX_READ = 1_000
"""Maximum number of tasks whose traces are read, each in a quarter of a millisecond."""


def misleading_plans(folder: Path, manifest: Manifest, records: Sequence[Record]) -> tuple[Caveat, bool] | None:
    """Return the warning that trials of the scripted model show such tasks, and whether they make the run invalid; None if there is
    none.

    It names one task, its last call and both answers, and counts those that were found. Where they are more than half of the run's
    tasks, what its loops score says nothing of a loop; but a real model follows no plan, so that a run with one is never invalid.
    """
    suspects = list(_suspects(manifest, records).values())
    read = suspects[:: max(1, -(-len(suspects) // MAX_READ))]
    misled = list(_misled(folder, read))
    if not misled:
        return None
    expected_in_all = len(misled) * len(suspects) / len(read)  # as many of those that were not read
    invalid = 2 * expected_in_all > manifest.suite.tasks and all(arm.model == SCRIPTED for arm in manifest.arms)
    return Caveat("plans mislead", (), {"tasks": len(misled), "of": manifest.suite.tasks, **misled[0]}), invalid


def _suspects(manifest: Manifest, records: Sequence[Record]) -> Mapping[str, Record]:
    """Return a trial of each task that no trial solved even in part, and that all undisturbed trials answered alike."""
    scripted = {arm.arm for arm in manifest.arms if arm.model == SCRIPTED} if manifest.imported is None else set()
    unsolved = set[str]()
    if scripted:
        scored = [(record.task, record.accuracy > 0) for record in records if record.status == "scored"]
        unsolved = {task for task, _ in scored} - {task for task, is_solved in scored if is_solved}
    if not unsolved:
        return {}
    calm = [record for record in records if record.arm in scripted and record.task in unsolved and _went_its_way(record)]
    answers: dict[str, set[str]] = {}
    traced: dict[str, Record] = {}
    for record in calm:
        answers.setdefault(record.task, set()).add(render_value(record.answer))
        if record.trace_at:
            traced.setdefault(record.task, record)
    return {task: record for task, record in traced.items() if len(answers[task]) == 1}


def _went_its_way(record: Record) -> bool:
    """Return whether a trial asked its model, ended with an answer of its own and met no fault."""
    answered = record.status == "scored" and record.stop == StopReason.FINISHED and record.answer is not None
    answered = answered and any(record.calls.values())
    return answered and not (record.abstained or record.gave_up or any(fault.landed for fault in record.faults))


def _misled(folder: Path, suspects: Sequence[Record]) -> Iterator[dict[str, str]]:
    """Yield those of the tasks whose trial was lost by nothing that the loop did, each with the last call that gave a result, its
    step as `show` numbers it, and both answers."""
    traces = Traces(folder)
    for record in suspects:
        try:
            trace = traces.read(record)
        except RunError:  # damage is told elsewhere
            continue
        by_answer = trace.head.end_state is None and trace.head.expected is not None
        if by_answer and explain(TracedTrial(trace, record)).cause == "other":
            answer, expected = (shortened(repr(value)) for value in (trace.head.answer, trace.head.expected))
            steps = [f"step {number}, {s.call.tool}" for number, s in enumerate(course(trace), 1) if s.gave_result and s.call]
            yield {"task": record.task, "call": steps[-1] if steps else "no call", "answer": answer, "expected": expected}
