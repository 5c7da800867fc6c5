"""Tasks that no loop can solve because their plans' calls lead to another answer than the expected one.

No call is made to find them, since tools may act on the real world, or give another result each time: they show in trials that
nothing disturbed, in which a loop did all that the plan says and gave the answer that came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whichloop.metrics.caveats import Caveat
from whichloop.metrics.record import Record
from whichloop.metrics.trace import Trace
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


@dataclass(frozen=True, slots=True)
class MisleadingPlans:
    """What a run shows of such tasks."""

    caveat: Caveat
    """It names one task, its last call and both answers, and counts those that were found."""
    invalid: bool
    """Whether they are more than half of the run's tasks, so that what its loops score says nothing of a loop."""


@dataclass(frozen=True, slots=True)
class _Misled:
    """A task, and how a trial came to its answer."""

    task: str
    answer: str
    expected: str
    made_by: str
    """The last call that gave a result: `step 3, multiply`."""


def misleading_plans(folder: Path, manifest: Manifest, records: Sequence[Record]) -> MisleadingPlans | None:
    """Return what trials of the scripted model show of such tasks; None if there is none.

    A run with a real model as well is never invalid for it: that model follows no plan.
    """
    suspects = _suspects(manifest, records)
    read = list(suspects.values())[:: max(1, -(-len(suspects) // MAX_READ))]
    misled = list(_misled(folder, read))
    if not misled:
        return None
    first = misled[0]
    expected_in_all = len(misled) * len(suspects) / len(read)  # as many of those that were not read
    invalid = 2 * expected_in_all > manifest.suite.tasks and all(arm.model == SCRIPTED for arm in manifest.arms)
    numbers = {"tasks": len(misled), "of": manifest.suite.tasks, "task": first.task, "call": first.made_by}
    numbers |= {"answer": first.answer, "expected": first.expected}
    return MisleadingPlans(Caveat("plans mislead", (), numbers), invalid)


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


def _misled(folder: Path, suspects: Sequence[Record]) -> Iterator[_Misled]:
    """Yield those of the tasks whose trial was lost by nothing that the loop did."""
    traces = Traces(folder)
    for record in suspects:
        try:
            trace = traces.read(record)
        except RunError:  # damage is told elsewhere
            continue
        by_answer = trace.head.end_state is None and trace.head.expected is not None
        if by_answer and explain(TracedTrial(trace, record)).cause == "other":
            answer, expected = (shortened(repr(value)) for value in (trace.head.answer, trace.head.expected))
            yield _Misled(record.task, answer, expected, _last_call(trace))


def _last_call(trace: Trace) -> str:
    """Return the last call that gave a result, with its step as `show` numbers it."""
    steps = [(number, step.call) for number, step in enumerate(course(trace), 1) if step.gave_result and step.call is not None]
    return f"step {steps[-1][0]}, {steps[-1][1].tool}" if steps else "no call"
