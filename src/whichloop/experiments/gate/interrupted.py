"""A run that was interrupted before it could be judged: what is known of it all the same."""

from __future__ import annotations

from dataclasses import dataclass

from whichloop.experiments.compare.results import Results
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol.own_code import place_in
from whichloop.protocol.values import counted

from .comparable import match_arms
from .data.baseline import Baseline
from .data.hangs import was_interrupted
from .data.names import short_arm
from .running import ever_hung


@dataclass(frozen=True, slots=True)
class InterruptedRun:
    """What is known of a run that was interrupted."""

    sentence: str
    """How many trials ran, and which hang for sure, in one line."""
    is_complete: bool
    """Whether all trials of the schedule had ended, so that it is judged without any other."""
    place: tuple[str, int] | None
    """The file and the line of the user's code in which the first of these hangs; None where none does, or nobody knows."""

    def sentence_with(self, command: str) -> str:
        """Return what is known, and, of a complete run, the command that judges or blesses it."""
        return f"{self.sentence}; go on with: {command}" if self.is_complete else self.sentence


def interrupted_run(run: Results, baseline: Baseline | None) -> InterruptedRun:
    """Return what is known of a run that was interrupted, be it only after its last trial.

    A trial hangs for sure that was interrupted at its time limit, in an arm of which no blessed trial ended there; without a
    baseline, in any arm.
    """
    ran = f"interrupted after {len(run.records):,} of {counted(run.scheduled, 'trial')}"
    if run.is_complete:
        ran += f", before the run was {'blessed' if baseline is None else 'judged'}"
    hung = [record for record in run.records if was_interrupted(record)]
    where_none_did = ""
    if baseline is not None:
        hung_before = {arm for old, arm in match_arms(run.manifest, baseline).items() if ever_hung(baseline, old)}
        hung = [record for record in hung if record.arm not in hung_before]
        where_none_did = ", where none of the baseline did"
    if not hung:
        return InterruptedRun(ran, run.is_complete, None)
    first = hung[0]
    name = f"{short_arm(first.arm)}/{first.task}/{first.repeat}"
    hangs = counted(len(hung), f"trial hangs{where_none_did}", f"trials hang{where_none_did}")
    sentence = f"{ran}; {hangs}, such as {name} ({shortened(first.reason)})"
    return InterruptedRun(sentence, run.is_complete, place_in(first.reason))
