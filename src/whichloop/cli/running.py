"""What `compare` and `resume` share: carry out a run with progress, results, page and tracking."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from typing import NoReturn

import typer

from whichloop.experiments.ablate.doc import run_doc
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import Experiment, recording_command, run_apart
from whichloop.experiments.export_runs.export import SpanEndpoint, live_spans
from whichloop.protocol.values import counted
from whichloop.reports.progress import TrialBoard, watching
from whichloop.reports.tracking import log_results, where_logged
from whichloop.runs.config import BudgetConfig, typed_words
from whichloop.runs.engine.messages import WorkerError
from whichloop.runs.permissions import resume_flags
from whichloop.runs.schedule import read_state
from whichloop.runs.store.files import PAGE, CutShort

from .console import say, show
from .process import INTERRUPTED, own_prints_aside, quiet_loops
from .render import code_of_run, write_report


def carry_out(experiment: Experiment, *, as_json: bool = False, quiet: bool = False, verbose: bool = False) -> NoReturn:
    """Run what is missing, print and write the results, and exit with the command's code. Raises ValueError without a worker."""
    halted, stopped = "", ""
    spans = None if experiment.config.otlp is None else SpanEndpoint(experiment.config.otlp)
    if not quiet:
        say(f"if this is cut off, go on with: {resume_command(experiment)}")
    try:
        with (
            quiet_loops(),
            own_prints_aside(),
            watching(TrialBoard(experiment), quiet=quiet) as watched,
            live_spans(watched, experiment.folder, spans) as progress,
        ):
            stopped = run_apart(experiment, progress)
    except KeyboardInterrupt:
        halted = "interrupted"
    except CutShort as error:
        halted = str(error)
    except WorkerError as error:
        now = _as_it_stands(experiment, results(experiment.folder))
        raise ValueError(f"{error}; once that is fixed, go on with: {resume_command(now)}") from None
    try:
        code = _conclude(experiment, halted, stopped, as_json=as_json, quiet=quiet, verbose=verbose)
    except KeyboardInterrupt:
        say(f"interrupted before everything was written; go on with: {resume_command(experiment)}")
        code = INTERRUPTED
    raise typer.Exit(code)


def _conclude(experiment: Experiment, halted: str, stopped: str, *, as_json: bool, quiet: bool, verbose: bool) -> int:
    """Print the results, write page and log, and return the exit code.

    `halted`, `stopped`: why the trials ended early, if they did; of a run that was halted nothing is logged.
    """
    run = results(experiment.folder)
    now = _as_it_stands(experiment, run)
    if halted or stopped:
        left = len(now.missing())
        say(f"{halted or stopped}: {left:,} trials left{'; go on with' if left else ''}")
        if left:
            say(f"  {resume_command(now)}")
        if not run.records:
            return INTERRUPTED
    recordings = experiment.trial_models.recordings
    if recordings is not None:
        replies = counted(recordings.replayed, "reply", "replies")
        say(f"recording {recordings.folder}: {replies} replayed, {recordings.recorded} recorded")
        for line in recordings.first_miss.splitlines():
            say(line)
        if recordings.first_miss:
            say(f"record what is missing: {recording_command(experiment.config)}")
    if not quiet:
        say(f"run directory: {experiment.folder} (whichloop report and show say more of it)")
        say(f"page, once this command has ended: {experiment.folder / PAGE}")
    for line in () if halted or quiet else where_logged(experiment.config, run.folder):
        say(line)
    show(run_doc(run), as_json=as_json, verbose=verbose)
    page = write_report(run, announce=False)
    if not halted and (unlogged := log_results(run, experiment.config, page)):
        say(f"warning: {unlogged}")
    return INTERRUPTED if halted or stopped else code_of_run(run)


def _as_it_stands(experiment: Experiment, run: Results) -> Experiment:
    """Return the experiment with what this session has added to the run's past."""
    return replace(experiment, manifest=run.manifest, past=read_state(experiment.folder, experiment.past))


def resume_command(experiment: Experiment) -> str:
    """Return the full command that continues a run; if a limit of its budget is used up, the command raises the limit."""
    config, begun = experiment.config, experiment.manifest.settings
    words = [] if config.engine == "local" else ["-s", f"engine={config.engine}"]  # no run chooses it by itself
    for name in ("workers", "concurrency"):
        words += typed_words(name, getattr(config, name)) if getattr(config, name) != getattr(begun, name) else []
    limits = config.budget.model_dump(exclude_none=True)
    ended = len(experiment.past.ended)
    factor = 1.1 * experiment.trials / ended if ended else 2.0  # the rest is taken to cost as much a trial, and a tenth more
    spent = {name: getattr(experiment.spent, name) for name in limits}
    needed = {name: factor * spent[name] for name, limit in limits.items() if spent[name] >= limit}
    more = {name: math.ceil(100 * amount) / 100 if name == "dollars" else math.ceil(amount) for name, amount in needed.items()}
    raised = BudgetConfig(**{name: limit for name, limit in (limits | more).items() if limit != getattr(begun.budget, name)})
    words += typed_words("budget", raised) if raised != BudgetConfig() else []
    words += [] if experiment.retry is None else ["--retry", experiment.retry]
    words += typed_words("mlflow", config.mlflow) if config.mlflow != begun.mlflow else []
    return " ".join(["whichloop resume", shlex.quote(str(experiment.folder)), *resume_flags(config), *map(shlex.quote, words)])
