"""What `compare`, `ablate`, `resume` and `extend` share: a run carried out, with progress, results, page and tracking."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import typer

from .codes import DONE, INTERRUPTED, INVALID
from .own_prints import own_prints_aside, quiet_loops
from .report import print_results, write_report

if TYPE_CHECKING:
    from loopbench.experiments.compare.prepare import Experiment
    from loopbench.experiments.compare.results import Results


def carry_out(experiment: Experiment, *, as_json: bool, quiet: bool) -> NoReturn:
    """Run what is missing, print and write down what came of it, and leave with the exit code.

    Raises ValueError where no worker can be had.
    """
    from loopbench.experiments.compare.results import results
    from loopbench.experiments.compare.run import run
    from loopbench.runs.engine.messages import WorkerError
    from loopbench.runs.store.files import CutShort

    from . import render
    from .progress import watching

    halted, stopped = "", ""
    if not quiet:
        render.say(f"if this is cut off, go on with: {resume_command(experiment)}")
    try:
        with quiet_loops(), own_prints_aside(), watching(experiment, quiet=quiet) as progress:
            stopped = run(experiment, progress)
    except KeyboardInterrupt:
        halted = "interrupted"
    except CutShort as error:
        halted = str(error)
    except WorkerError as error:
        now = _as_it_stands(experiment, results(experiment.folder))
        raise ValueError(f"{error}; once that is mended, go on with: {resume_command(now)}") from None
    found = results(experiment.folder)
    if halted or stopped:
        now = _as_it_stands(experiment, found)
        render.say(f"{halted or stopped}: {_left(now, found)} trials are left; go on with")
        render.say(f"  {resume_command(now)}")
        if not found.records:
            raise typer.Exit(INTERRUPTED)
    print_results(found, as_json=as_json)
    page = write_report(found)
    if found.looked is not None and found.looked.stopped:
        render.say(f"stopped after look {found.looked.reached} of {found.looked.planned}: every pair is decided")
    cassette = experiment.trial_models.cassette
    if cassette is not None:
        render.say(f"recording {cassette.folder}: {cassette.hits} replies replayed, {cassette.recorded} recorded")
        for line in cassette.first_miss.splitlines():
            render.say(line)
    for line in experiment.trial_models.pressure():
        render.say(line)
    render.say(f"run directory: {experiment.folder}")
    if experiment.config.mlflow and not halted:
        _track(experiment, found, page)
    if halted or stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(INVALID if found.comparison.invalid else DONE)


def _as_it_stands(experiment: Experiment, found: Results) -> Experiment:
    """With what this sitting has added to the run's past."""
    from loopbench.runs.run_state import read_state

    return replace(experiment, manifest=found.manifest, past=read_state(experiment.folder, experiment.past))


def _left(experiment: Experiment, found: Results) -> int:
    """Trials that are to be run yet, those that are tried again among them; of a run with looks up to the last one."""
    return len(experiment.missing()) if found.looked is None else found.scheduled - len(found.records)


def resume_command(experiment: Experiment) -> str:
    """What goes on with a run that has stopped, in full; where a limit of its budget is used up, with a larger one."""
    from loopbench.runs.permissions import resume_flags
    from loopbench.runs.run_state import larger

    folder, config, begun = experiment.folder, experiment.config, experiment.manifest.config
    shown = config.public()
    flags: list[tuple[str, object]] = [
        (name, shown[name]) for name in ("engine", "workers", "concurrency") if shown[name] != begun.get(name)
    ]
    has_limits = any(limit is not None for limit in shown["budget"].values())
    share = len(experiment.past.ended) / experiment.trials
    more = larger(config.budget, experiment.spent, share) if has_limits else {}
    known = begun.get("budget") or {}
    limits = {name: limit for name, limit in (shown["budget"] | more).items() if limit != known.get(name)}
    flags += [(f"budget-{name}", f"{limit:.12g}") for name, limit in limits.items()]
    if experiment.retry is not None:
        flags.append(("retry", experiment.retry))
    if config.mlflow != begun.get("mlflow"):
        flags.append(("mlflow" if config.mlflow else "no-mlflow", None))
    words = [word for name, value in flags for word in (f"--{name}", *([] if value is None else [shlex.quote(str(value))]))]
    return " ".join(["loopbench resume", shlex.quote(str(folder)), *resume_flags(config), *words])


def _track(experiment: Experiment, found: Results, page: str) -> None:
    from loopbench.reports import mlflow as tracking

    from . import render

    config = experiment.config
    uri = config.tracking_uri or tracking.default_uri(experiment.folder.parent)
    tracked = tracking.track(found, uri, config.experiment, page)
    if isinstance(tracked, str):
        render.say(f"warning: nothing was logged to MLflow: {tracked}")
    else:
        render.say(f"MLflow: {tracked.ui}")
