"""Running a few trials of a gate's run once more, where it may have been chance that they came out otherwise than the blessed ones.

Only for the scripted model, whose trials cost nothing: of a loop that is the blessed one by every digest, which yet does otherwise,
and of a trial that ended at its time limit without having been interrupted, as it may have been slow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.run import run_apart
from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.values import counted
from whichloop.runs.engine.runner import Progress, Unwatched
from whichloop.runs.manifest import write_manifest
from whichloop.runs.run_state import RunState, TrialState, read_records

from .case import GateCase, Key, case_of
from .commands import Rules
from .data.baseline import Baseline
from .data.sides import TrialPair
from .data.troubles import hung, was_interrupted
from .running import Run

RepeatedTrials = Sequence[Record]
"""What trials gave that were run once more."""
MAX_DIFFERING = 5
"""Trials of an arm that are run again since they differ from the blessed ones."""
MAX_SLOW = 1
"""Trials of an arm that are run again since they ended at their time limit, which each takes once more."""


class NotesAlone(Unwatched):
    """Progress that passes notes on, such as what a first Ctrl-C waits for, and counts no trial: those of the run are counted."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def noted(self, text: str) -> None:
        """Pass a note on."""
        self._progress.noted(text)

    def interrupted(self, text: str) -> None:
        """Pass on what an interrupted run waits for."""
        self._progress.interrupted(text)


def run_doubtful_again(
    experiment: Experiment, results: Results, progress: Progress, baseline: Baseline, rules: Rules, run: Run = run_apart
) -> RepeatedTrials:
    """Run the doubtful trials of a run that has just ended once more, and return what they gave; nothing where none is.

    `experiment`: the one that made the run. Raises Incomparable as `judge` does.
    """
    case = case_of(results, baseline, rules, None)
    keys = frozenset(doubtful(case)) if _is_scripted(experiment) and not case.troubles() else frozenset()
    if not keys:
        return ()
    progress.noted(_said_of(len(keys)))
    with tempfile.TemporaryDirectory() as folder:
        write_manifest(Path(folder), experiment.manifest)
        past = RunState({record.key: _as_ended(record) for record in results.records if record.key not in keys})
        run(replace(experiment, folder=Path(folder), past=past), NotesAlone(progress))
        return read_records(Path(folder))


def _said_of(trials: int) -> str:
    """Return what is done, and why, since the trials of the run have all ended by then."""
    once = counted(trials, "doubtful trial runs", "doubtful trials run")
    return f"{once} once more before the run is judged: chance or a slow machine may have made them what they are"


def doubtful(case: GateCase) -> Iterator[Key]:
    """Yield the trials that chance, or a slow machine, may have made what they are."""
    for side in case.sides if case.fixed else ():
        if not side.hung_before and not any(map(was_interrupted, side.records)):
            yield from [record.key for record in side.records if hung(record)][:MAX_SLOW]
        if side.arm in case.blessed_loops:
            differing = sorted((pair for pair in side.pairs if not pair.same and not hung(pair.record)), key=_gravity)
            yield from [pair.record.key for pair in differing[:MAX_DIFFERING]]


def _gravity(pair: TrialPair) -> int:
    """Return 0 for a trial that lost its task, 1 for another score, 2 for the same one."""
    return 2 if pair.same_score else int(pair.no_worse(PRIMARY))


def _is_scripted(experiment: Experiment) -> bool:
    return not experiment.config.opened_models and experiment.config.cassette is None and not experiment.config.real_time


def _as_ended(record: Record) -> TrialState:
    return TrialState(record.status, record.stop, record.attempt)
