"""What `compare`, `ablate`, `resume` and `extend` share: carry out a run with progress, results, page and tracking."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import typer

from whichloop.experiments.compare.prepare import Experiment, prepare, recording_command, without_formless
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import forks_of, run_apart
from whichloop.experiments.export_runs.sending import SpanEndpoint, live_spans
from whichloop.metrics.record_table import RecordTable
from whichloop.protocol.cured_error import naming_file
from whichloop.protocol.values import counted
from whichloop.reports.html.files import PAGE
from whichloop.reports.progress.trials import watching
from whichloop.reports.tracking import log_results, not_logged, where_logged
from whichloop.runs.config import load_config
from whichloop.runs.engine.forked import ForkedWorker
from whichloop.runs.engine.messages import WorkerError
from whichloop.runs.folders import named_alike
from whichloop.runs.permissions import resume_flags
from whichloop.runs.run_state import larger, overrun, read_state
from whichloop.runs.store.files import CutShort

from .console import say
from .options import ResultsOptions
from .process import INTERRUPTED, own_prints_aside, quiet_loops
from .render import code_of_run, print_results, write_report


def carry_out_new(file: Path | None, flags: Mapping[str, Any], output: ResultsOptions, otlp: str | None) -> NoReturn:
    """Prepare a comparison by its file and flags, and carry it out. `otlp`: address of the endpoint that gets trials as they end.

    Raises ValueError for bad input.
    """
    endpoint, config = None if otlp is None else SpanEndpoint(otlp), load_config(file, flags)
    with own_prints_aside(), naming_file(file, flags):
        config, note = without_formless(config)
        experiment = prepare(config)
    if note:
        say(note)
    carry_out(experiment, output, endpoint)


def carry_out(experiment: Experiment, output: ResultsOptions, spans: SpanEndpoint | None = None) -> NoReturn:
    """Run what is missing, print and write the results, and exit with the command's code.

    `spans`: the endpoint that gets trials as they end. Raises ValueError if no worker can be started.
    """
    with forks_of(experiment) as forks:
        _carry_out(experiment, output, spans, forks)


def _carry_out(
    experiment: Experiment, output: ResultsOptions, spans: SpanEndpoint | None, forks: Sequence[ForkedWorker]
) -> NoReturn:
    halted, stopped = "", ""
    if not output.quiet:
        say(f"if this is cut off, go on with: {resume_command(experiment)}")
    try:
        with (
            quiet_loops(),
            own_prints_aside(),
            watching(experiment, quiet=output.quiet) as watched,
            live_spans(watched, experiment.folder, spans) as progress,
        ):
            stopped = run_apart(experiment, progress, forks)
    except KeyboardInterrupt:
        halted = "interrupted"
    except CutShort as error:
        halted = str(error)
    except WorkerError as error:
        now = _as_it_stands(experiment, results(experiment.folder))
        raise ValueError(f"{error}; once that is fixed, go on with: {resume_command(now)}") from None
    try:
        code = _conclude(experiment, output, halted, stopped)
    except KeyboardInterrupt:
        say(f"interrupted before everything was written; go on with: {resume_command(experiment)}")
        code = INTERRUPTED
    raise typer.Exit(code)


def _conclude(experiment: Experiment, output: ResultsOptions, halted: str, stopped: str) -> int:
    """Print the results, write page and log, and return the exit code.

    `halted`, `stopped`: why the trials ended early, if they did; of a run that was halted nothing is logged.
    """
    run = results(experiment.folder)
    now = _as_it_stands(experiment, run)
    if experiment.config.in_flight > 1 and (line := overrun(experiment.config.budget, now.spent)):
        say(line)
    if halted or stopped:
        _say_what_is_left(halted or stopped, now, run)
        if not run.records:
            return INTERRUPTED
    _say_how_it_went(experiment, run, quiet=output.quiet)
    if not halted:
        _say_where_it_is_logged(experiment, quiet=output.quiet)
    print_results(run, as_json=output.as_json, verbose=output.verbose)
    sys.stdout.flush()  # whoever reads it, also through a pipe, need not wait for the page and for MLflow's log
    page = write_report(run, announce=False)
    if not halted and (unlogged := log_results(run, experiment.config, page)):
        say(f"warning: {unlogged}")
    return INTERRUPTED if halted or stopped else code_of_run(run)


def _say_what_is_left(why: str, now: Experiment, run: Results) -> None:
    left = len(now.missing()) if run.looked is None else run.scheduled - len(run.records)
    if not left:
        say(f"{why}: no trial is left")
        return
    say(f"{why}: {counted(left, 'trial is', 'trials are')} left; go on with")
    say(f"  {resume_command(now)}")


def _say_how_it_went(experiment: Experiment, run: Results, *, quiet: bool) -> None:
    """Say what bears on the results, and unless `quiet` where they are."""
    if run.looked is not None and run.looked.stopped:
        say(f"stopped after look {run.looked.reached} of {run.looked.planned}: every pair is decided")
    cassette = experiment.trial_models.cassette
    if cassette is not None:
        say(f"recording {cassette.folder}: {counted(cassette.hits, 'reply', 'replies')} replayed, {cassette.recorded} recorded")
        for line in cassette.first_miss.splitlines():
            say(line)
        if cassette.first_miss and (command := recording_command(experiment.config)):
            say(f"record what is missing: {command}")
    for line in experiment.trial_models.pressure():
        say(line)
    if quiet:
        return
    say(f"run directory: {experiment.folder} (whichloop report, why and show say more of it)")
    say(f"page, once this command has ended: {experiment.folder / PAGE}")
    if line := named_alike(experiment.folder, experiment.config.name):
        say(line)


def _say_where_it_is_logged(experiment: Experiment, *, quiet: bool) -> None:
    """Say above the answer, which waits for no log, where the run will be in MLflow, or unasked that MLflow is not installed."""
    if line := not_logged(experiment.config):
        say(line)
    for line in () if quiet else where_logged(experiment.config, experiment.folder):
        say(line)


def _as_it_stands(experiment: Experiment, run: Results) -> Experiment:
    """Return the experiment with what this session has added to the run's past."""
    read = run.records.store if isinstance(run.records, RecordTable) else None
    return replace(experiment, manifest=run.manifest, past=read_state(experiment.folder, experiment.past, read))


def resume_command(experiment: Experiment) -> str:
    """Return the full command that continues a run; if a limit of its budget is used up, the command raises the limit."""
    folder, config, begun = experiment.folder, experiment.config, experiment.manifest.settings
    settings = config.public()
    flags: list[tuple[str, object]] = [
        (name, settings[name]) for name in ("engine", "workers", "concurrency") if settings[name] != getattr(begun, name)
    ]
    has_limits = any(limit is not None for limit in settings["budget"].values())
    share = len(experiment.past.ended) / experiment.trials
    more = larger(config.budget, experiment.spent, share) if has_limits else {}
    limits = {name: limit for name, limit in (settings["budget"] | more).items() if limit != getattr(begun.budget, name)}
    flags += [(f"budget-{name}", f"{limit:.12g}") for name, limit in limits.items()]
    if experiment.retry is not None:
        flags.append(("retry", experiment.retry))
    if config.mlflow != begun.mlflow:
        flags.append(("mlflow" if config.mlflow else "no-mlflow", None))
    words = [word for name, value in flags for word in (f"--{name}", *([] if value is None else [shlex.quote(str(value))]))]
    return " ".join(["whichloop resume", shlex.quote(str(folder)), *resume_flags(config), *words])
