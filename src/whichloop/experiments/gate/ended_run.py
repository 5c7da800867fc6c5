"""A run that a gate judges, and how a gate makes one: from its first trial to the doubtful ones that run once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.run import run_apart
from whichloop.runs.engine.runner import Progress

from .again import RepeatedTrials, run_doubtful_again
from .commands import Rules
from .data.baseline import Baseline, read_run
from .data.followed import FollowedFile
from .data.outcome import GateResult
from .judge import judge
from .running import Run, run_unless_it_hangs
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
