"""Carrying out an optimization for a command, a new one or one that goes on; it needs DSPy, which the options do not."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NoReturn

import typer

from whichloop.experiments.optimize.config import OptimizeConfig
from whichloop.experiments.optimize.optimizer import optimizers
from whichloop.experiments.optimize.prepare import Optimization, prepare, reopen
from whichloop.experiments.optimize.result import EVERYTHING_RAN, optimization_result
from whichloop.experiments.optimize.rollouts import RunStopped
from whichloop.models.profiles import load_profile
from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.reports.progress.search import watching
from whichloop.reports.search_tracking import LoggedSearch, run_logged
from whichloop.reports.tracking import not_logged
from whichloop.runs.permissions import Permissions, resume_flags

from .catalogue import CatalogueEntry, OptionLine, plugins, shown_default
from .console import say
from .optimize_report import exit_code, print_optimization
from .options import ResultsOptions
from .process import INTERRUPTED, own_prints_aside, quiet_loops
from .render import write_optimization


def carry_out_search(config: OptimizeConfig, output: ResultsOptions) -> NoReturn:
    """Search and test, print the results, and leave with their exit code."""
    with own_prints_aside():
        optimization = prepare(config)
    if not output.quiet and _has_nothing_to_teach(optimization):
        (profile,) = optimization.config.compare.profiles
        say(f"note: under profile {profile} no prompt helps the scripted model; --profile teachable has what prompts can teach")
    _carry_out(optimization, output)


def _has_nothing_to_teach(optimization: Optimization) -> bool:
    """Whether the scripted model runs under a profile without weaknesses, so that no prompt can gain anything."""
    (profile,) = optimization.config.compare.profiles
    return optimization.config.model == SCRIPTED and not load_profile(profile).weaknesses


def go_on(folder: Path, allowed: Permissions, *, mlflow: bool | None, output: ResultsOptions) -> NoReturn:
    """Continue an optimization, as `resume` does: a search from its log, a test with the trials that are missing."""
    with own_prints_aside():
        again = reopen(folder, allowed, mlflow=mlflow)
    _carry_out(again, output)


def _carry_out(optimization: Optimization, output: ResultsOptions) -> NoReturn:
    stopped = page = ""
    try:
        logged = _run(optimization, quiet=output.quiet)
        stopped, page = logged.stopped, logged.page
    except KeyboardInterrupt:
        stopped = "interrupted"
    except RunStopped as reason:
        stopped = str(reason)
    result = optimization_result(optimization.folder)
    if stopped:
        say(f"{stopped}; {result.state or EVERYTHING_RAN}; go on with")
        say(f"  {_resume_command(optimization)}")
    has_results = not stopped or any(design.gain is not None and design.gain.test is not None for design in result.designs)
    if has_results:
        write_optimization(result, page=page)
    say(f"run directory: {optimization.folder}")
    if has_results:
        print_optimization(result, "json" if output.as_json else "tables", verbose=output.verbose)
    if stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(exit_code(result))


def _run(optimization: Optimization, *, quiet: bool) -> LoggedSearch:
    """Search and test, logged. Raises KeyboardInterrupt and RunStopped."""
    with quiet_loops(), own_prints_aside(), watching(optimization, quiet=quiet) as view:
        logged = run_logged(optimization, view, lambda line: say(f"warning: {line}"))
    if logged.ui:
        say(f"MLflow: {logged.ui}")
    elif line := not_logged(optimization.config.compare):
        say(line)
    return logged


def _resume_command(optimization: Optimization) -> str:
    compare = optimization.config.compare
    optimizer = parse_spec(optimization.config.search.optimizer).name
    optimizers = ["--allow", shlex.quote(optimizer)] if ":" in optimizer else []
    return " ".join(["whichloop resume", shlex.quote(str(optimization.folder)), *resume_flags(compare), *optimizers])


def optimizer_entries() -> list[CatalogueEntry]:
    """Return the optimizers, with their options."""
    optimizer_entries = []
    for optimizer in optimizers():
        options = tuple(
            OptionLine(option.name, shown_default(option.default), option.doc) for option in optimizer.described.values()
        )
        optimizer_entries.append(CatalogueEntry(optimizer.name, optimizer.summary, options))
    own = CatalogueEntry(
        "package.module:Name", "a teleprompter of your own: a class or function that gives an object with DSPy's compile"
    )
    return [*optimizer_entries, *plugins("optimizer"), own]
