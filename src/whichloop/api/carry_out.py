"""Runs that a program starts: carried out with progress, a page and a log, also where an event loop is running."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import Experiment, run_apart
from whichloop.protocol.names import lives_in_one_process, without_process
from whichloop.protocol.threads import in_event_loop
from whichloop.protocol.values import counted
from whichloop.reports.dataframes import Loaded
from whichloop.reports.html.page import report_html
from whichloop.reports.progress import TrialBoard, displayed
from whichloop.reports.tracking import log_results
from whichloop.runs.engine.runner import Progress
from whichloop.runs.permissions import own_code
from whichloop.runs.schedule import read_state
from whichloop.runs.store.files import PAGE, write_whole
from whichloop.runs.trial.watchdog import press_everywhere


class WhichloopWarning(UserWarning):
    """What is worth knowing and stops nothing, such as columns that were not read."""


def warn_caller(notes: Sequence[str]) -> None:
    """Warn once, a line for each note, at the line of the user's code that asked."""
    level, frame = 1, sys._getframe()
    ours = ("whichloop", "pydantic")  # which checks the arguments
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    if notes:  # one warning, for each shows the line of the call anew
        warnings.warn("\n".join(notes), WhichloopWarning, stacklevel=level)


Result = TypeVar("Result")


def carry_out_run(
    prepared: Callable[[], Experiment],
    progress: bool | None,
    carry_on: Callable[[Experiment, Progress], str] = run_apart,
) -> Loaded:
    """Run what `prepared` makes, write its page, log it to MLflow, and return its results.

    `carry_on` runs the trials, and returns why it stopped early. Raises ValueError for bad input, and KeyboardInterrupt, which says
    how the run goes on.
    """
    notes: list[str] = []

    def finish() -> Results:
        experiment = prepared()
        try:
            with displayed(TrialBoard(experiment), progress) as board:
                stopped = carry_on(experiment, board)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {way_on(experiment.folder, own_code(experiment.config))}") from None
        run_results = results(experiment.folder)
        if stopped:
            ended_trials = counted(len(read_state(experiment.folder).ended), "trial has", "trials have")
            notes.append(f"{stopped}: {ended_trials} ended; {way_on(experiment.folder, own_code(experiment.config))}")
        page = report_html(run_results)
        notes.extend(write_or_note(page, run_results.folder))
        notes.extend(filter(None, [log_results(run_results, experiment.config, page)]))
        return run_results

    run_results = apart(finish)
    warn_caller(notes)
    return Loaded(run_results)


def write_or_note(page: str, folder: Path) -> list[str]:
    """Write a page into a run directory; return a note if that fails."""
    try:
        write_whole(folder / PAGE, page.encode())
    except OSError as error:
        return [f"the page was not written: {error}"]
    return []


def way_on(folder: Path, names: Sequence[str]) -> str:
    """Return how a run that was cut off goes on; `names`: of the user's own code in it."""
    here = [without_process(name) for name in names if lives_in_one_process(name)]
    if not here:
        return f"go on with whichloop resume {folder}"
    resumed = f"whichloop.resume({str(folder)!r})"
    return f"go on in this session with {resumed}; a later one cannot, because {here[0]} lives in this session alone"


def apart(work: Callable[[], Result]) -> Result:
    """Do the work here, or on a thread of its own where an event loop is running already, as in a notebook."""
    if not in_event_loop():
        return work()
    outcomes: list[Result | BaseException] = []

    def carry_out() -> None:
        try:
            outcomes.append(work())
        except BaseException as error:  # handed to the caller's thread
            outcomes.append(error)

    thread = threading.Thread(target=carry_out, name="whichloop", daemon=True)
    thread.start()
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt:  # a notebook's button to stop: it reaches this thread only
            if not press_everywhere():
                raise
    if isinstance(outcomes[0], BaseException):
        raise outcomes[0]
    return outcomes[0]
