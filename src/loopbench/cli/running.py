"""What `compare`, `ablate` and `resume` share: a run carried out, with progress, results, page and tracking."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NoReturn

import typer

from .codes import DONE, INTERRUPTED, INVALID
from .own_prints import own_prints_aside, quiet_loops
from .report import print_results, write_report

if TYPE_CHECKING:
    from loopbench.experiments.preparing import Experiment
    from loopbench.experiments.results import Results


def carry_out(experiment: Experiment, *, as_json: bool, quiet: bool) -> NoReturn:
    """Run what is missing, print and write down what came of it, and leave with the exit code."""
    from loopbench.experiments.compare import run
    from loopbench.experiments.preparing import own_code
    from loopbench.experiments.results import results

    from . import render
    from .progress import watching

    interrupted, stopped = False, ""
    try:
        with quiet_loops(), own_prints_aside(), watching(experiment, quiet=quiet) as progress:
            stopped = run(experiment, progress)
    except KeyboardInterrupt:
        interrupted = True
    found = results(experiment.folder)
    if interrupted or stopped:
        missing = found.scheduled - len(found.records)
        render.say(f"{'interrupted' if interrupted else stopped}: {missing} trials are left; go on with")
        allowed = "".join(f" --allow {name}" for name in own_code(experiment.config))
        typed = {"base-url": experiment.config.public()["base_url"], "cassette": experiment.config.cassette}
        again = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in typed.items() if value)
        render.say(f"  loopbench resume {shlex.quote(str(experiment.folder))}{allowed}{again}")
        if not found.records:
            raise typer.Exit(INTERRUPTED)
    print_results(found, as_json=as_json)
    write_report(found)
    if found.looked is not None and found.looked.stopped:
        render.say(f"stopped after look {found.looked.reached} of {found.looked.planned}: every pair is decided")
    cassette = experiment.answering.cassette
    if cassette is not None:
        render.say(f"recording {cassette.folder}: {cassette.hits} replies replayed, {cassette.recorded} recorded")
        for line in cassette.first_miss.splitlines():
            render.say(line)
    for line in experiment.answering.pressure():
        render.say(line)
    render.say(f"run directory: {experiment.folder}")
    if experiment.config.mlflow and not interrupted:
        _track(experiment, found)
    if interrupted or stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(INVALID if found.comparison.invalid else DONE)


def _track(experiment: Experiment, found: Results) -> None:
    from loopbench.experiments import tracking

    from . import render

    config = experiment.config
    uri = config.tracking_uri or tracking.default_uri(experiment.folder.parent)
    tracked = tracking.track(found, uri, config.experiment)
    if isinstance(tracked, str):
        render.say(f"warning: nothing was logged to MLflow: {tracked}")
    else:
        render.say(f"MLflow: {tracked.ui}")
