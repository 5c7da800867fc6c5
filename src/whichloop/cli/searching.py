"""Carrying out an optimization for a command, a new one or one that goes on; it needs DSPy, which the options do not."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NoReturn

import typer

from whichloop.experiments.optimize.config import OptimizeConfig
from whichloop.experiments.optimize.doc import optimize_doc
from whichloop.experiments.optimize.prepare import Optimization, prepare, reopen
from whichloop.experiments.optimize.result import optimization_result
from whichloop.experiments.optimize.run import run
from whichloop.models.profiles import load_profile
from whichloop.protocol.names import SCRIPTED, parse_spec
from whichloop.reports.html.page import optimization_html
from whichloop.reports.progress import SearchBoard, watching
from whichloop.reports.tracking import log_results, where_logged
from whichloop.runs.permissions import Permissions, resume_flags
from whichloop.runs.store.files import PAGE

from .console import say, show
from .process import INTERRUPTED, own_prints_aside, quiet_loops
from .render import code_of_search, write


def carry_out_search(config: OptimizeConfig, *, as_json: bool, quiet: bool, verbose: bool) -> NoReturn:
    """Search and test, print the results, and leave with their exit code."""
    with own_prints_aside():
        optimization = prepare(config)
    (profile,) = config.compare.profiles
    if not quiet and config.model == SCRIPTED and not load_profile(profile).weaknesses:
        say(f"note: under profile {profile} no prompt helps the scripted model; --profile teachable has what prompts can teach")
    _carry_out(optimization, as_json=as_json, quiet=quiet, verbose=verbose)


def go_on(folder: Path, allowed: Permissions, *, mlflow: bool | None, as_json: bool, quiet: bool, verbose: bool) -> NoReturn:
    """Continue an optimization, as `resume` does: a search from its log, a test with the trials that are missing."""
    with own_prints_aside():
        again = reopen(folder, allowed, mlflow=mlflow)
    _carry_out(again, as_json=as_json, quiet=quiet, verbose=verbose)


def _carry_out(optimization: Optimization, *, as_json: bool, quiet: bool, verbose: bool) -> NoReturn:
    config, optimizer = optimization.config.compare, parse_spec(optimization.config.search.optimizer).name
    own = ["--allow", shlex.quote(optimizer)] if ":" in optimizer else []
    to_go_on = " ".join(["go on with: whichloop resume", shlex.quote(str(optimization.folder)), *resume_flags(config), *own])
    if not quiet:
        say(f"if this is cut off, {to_go_on}")
    try:
        with quiet_loops(), own_prints_aside(), watching(SearchBoard(optimization), quiet=quiet) as board:
            stopped = run(optimization, board, board)
    except KeyboardInterrupt:
        stopped = "interrupted"
    result = optimization_result(optimization.folder)
    if stopped:
        say(f"{stopped}; {result.state or 'complete'}; {to_go_on}")
    has_results = not stopped or any(design.gain is not None and design.gain.test is not None for design in result.designs)
    say(f"run directory: {optimization.folder}")
    if has_results:
        for line in () if stopped or quiet else where_logged(config, optimization.folder):
            say(line)
        show(optimize_doc(result), as_json=as_json, verbose=verbose)
        page = optimization_html(result)
        write(page, None, result.folder / PAGE)
        if not stopped and (unlogged := log_results(result, config, page)):
            say(f"warning: {unlogged}")
    raise typer.Exit(INTERRUPTED if stopped else code_of_search(result))
