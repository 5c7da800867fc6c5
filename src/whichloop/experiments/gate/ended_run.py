"""A run that a gate judges, and how a gate makes one: from its first trial to the doubtful ones that run once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.run import run_apart
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol.own_code import place_in
from whichloop.protocol.values import counted
from whichloop.runs.engine.runner import Progress

from .again import RepeatedTrials, run_doubtful_again
from .commands import Rules
from .comparable import match_arms
from .data.baseline import Baseline, read_run
from .data.line_digests import FollowedFile
from .data.names import short_arm
from .data.outcome import GateResult
from .data.troubles import was_interrupted
from .judge import judge
from .running import Run, ever_hung, run_unless_it_hangs
from .watched_lines import followed_files


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended, and what is known of it besides where the gate has made it itself."""

    results: Results
    stopped: str = ""
    """Why it stopped early; empty where it did not."""
    again: RepeatedTrials = ()
    """What its doubtful trials gave that were run once more."""
    followed: Sequence[FollowedFile] = ()
    """The changed files of the loops, with the lines that trials came to, and those that none did."""

    def judged(self, baseline: Baseline, rules: Rules, path: Path) -> GateResult:
        """Judge the run against the baseline in this file. Raises as `judge` does."""
        margins, alpha, common = rules.margins, rules.alpha, rules.common
        judged = judge(self.results, baseline, metrics=margins, alpha=alpha, path=path, common=common, again=self.again)
        return replace(judged, followed=self.followed)


def run_to_judge(experiment: Experiment, progress: Progress, baseline: Baseline, rules: Rules, run: Run = run_apart) -> EndedRun:
    """Run an experiment, until it is plain that a loop hangs, and then the doubtful trials once more, for `EndedRun.judged`.

    Raises KeyboardInterrupt, at whose time `interrupted_run` tells what is known, and Incomparable as `judge` does.
    """
    stopped = run_unless_it_hangs(experiment, progress, baseline, run)
    results = read_run(experiment.folder)
    again = () if stopped else run_doubtful_again(experiment, results, progress, baseline, rules, run)
    return EndedRun(results, stopped, again, followed_files(experiment, baseline))


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
