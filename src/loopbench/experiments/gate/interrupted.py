"""A run that was interrupted before it could be judged: what is known of it all the same."""

from __future__ import annotations

from dataclasses import dataclass

from loopbench.experiments.compare.results import Results
from loopbench.metrics.trajectory.trajectory import shortened
from loopbench.protocol.counts import counted
from loopbench.protocol.own_code import place_in

from .comparable import match_arms
from .data.baseline import Baseline
from .data.hangs import was_interrupted
from .data.names import short_arm
from .running import ever_hung


@dataclass(frozen=True, slots=True)
class InterruptedRun:
    """What is known of a run that was interrupted."""

    said: str
    """How many trials ran, and which hang for sure, in one line."""
    is_complete: bool
    """Whether all trials of the schedule had ended, so that it is judged without any other."""
    place: tuple[str, int] | None
    """The file and the line of the user's code in which the first of these hangs; None where none does, or nobody knows."""

    def said_with(self, command: str) -> str:
        """Return what is known, and, of a complete run, the command that judges or blesses it."""
        return f"{self.said}; go on with: {command}" if self.is_complete else self.said


def interrupted_run(found: Results, baseline: Baseline | None) -> InterruptedRun:
    """Return what is known of a run that was interrupted, be it only after its last trial.

    A trial hangs for sure that was interrupted at its time limit, in an arm of which no blessed trial ended there; without a
    baseline, in any arm.
    """
    ran = f"interrupted after {len(found.records):,} of {counted(found.scheduled, 'trial')}"
    if found.is_complete:
        ran += f", before the run was {'blessed' if baseline is None else 'judged'}"
    hung = [record for record in found.records if was_interrupted(record)]
    known = ""
    if baseline is not None:
        hung_before = {arm for old, arm in match_arms(found.manifest, baseline).items() if ever_hung(baseline, old)}
        hung = [record for record in hung if record.arm not in hung_before]
        known = ", where none of the baseline did"
    if not hung:
        return InterruptedRun(ran, found.is_complete, None)
    first = hung[0]
    name = f"{short_arm(first.arm)}/{first.task}/{first.repeat}"
    hangs = counted(len(hung), f"trial hangs{known}", f"trials hang{known}")
    said = f"{ran}; {hangs}, such as {name} ({shortened(first.reason)})"
    return InterruptedRun(said, found.is_complete, place_in(first.reason))
