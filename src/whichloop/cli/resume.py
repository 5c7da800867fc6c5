"""`whichloop resume`: continue a run, add to it, or judge its answers again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import flags
from .flags import LATEST, Allow, Json, Quiet, Run, Runs, Settings, Verbose, settings

ADDED = "What is added"
"""Panel of the help."""


def resume(
    run: Run = LATEST,
    retry: Annotated[
        Literal["infrastructure", "errors"] | None,
        typer.Option(metavar="infrastructure|errors", help="Run failed trials again; errors: also crashes and timeouts."),
    ] = None,
    rescore: Annotated[bool, typer.Option("--rescore", metavar="", help="Judge the answers again; no model is called.")] = False,
    add_loop: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Loop to add.", rich_help_panel=ADDED)] = None,
    add_profile: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Profile to add.", rich_help_panel=ADDED)] = None,
    add_model: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Model to add.", rich_help_panel=ADDED)] = None,
    tasks: Annotated[int | None, typer.Option(metavar="N", help="New number of tasks.", rich_help_panel=ADDED)] = None,
    repeats: Annotated[int | None, typer.Option(metavar="N", help="New number of trials per task.", rich_help_panel=ADDED)] = None,
    budget: Annotated[str | None, typer.Option(metavar="LIMITS", help="New limits of the whole run.")] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes that run trials.")] = None,
    mlflow: Annotated[bool, typer.Option("--mlflow", metavar="", help="Log the results to MLflow.")] = False,
    allow: Allow = None,
    runs: Runs = flags.RUNS,
    setting: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Continue a run: only trials that are missing are run.

    A server, a recording or a store of the run is typed again: `-s base_url=…`.
    """
    from whichloop.experiments.compare.reopen import extend, reopen
    from whichloop.experiments.compare.rescore import rescore as rescore_run
    from whichloop.experiments.compare.rescore import rescored_doc
    from whichloop.experiments.optimize.config import check_packages, read_optimization_manifest
    from whichloop.runs.folders import is_optimization, run_folder
    from whichloop.runs.permissions import Permissions

    from .console import say, show
    from .process import load_env, own_prints_aside
    from .render import code_of_run, write_report
    from .running import carry_out

    flags.one_of(quiet=quiet, verbose=verbose)
    load_env()  # keys may stand in a .env of the current directory
    typed = settings(setting, budget=budget, workers=workers, mlflow=mlflow or None)
    if rescore and typed.keys() - {"data"}:
        raise typer.BadParameter("of settings it takes data alone", param_hint="--rescore")
    again = {name: typed.pop(name, None) for name in ("base_url", "cassette", "tracking_uri")}
    cassette = None if again["cassette"] is None else Path(again["cassette"])
    allowed = Permissions(allow or (), again["base_url"], cassette, again["tracking_uri"])
    loops, profiles, models = (tuple(each or ()) for each in (add_loop, add_profile, add_model))
    added = settings(None, loops=loops, profiles=profiles, models=models, repeats=repeats, tasks=tasks)
    folder = run_folder(run, runs)
    if rescore:
        if retry or added:
            raise typer.BadParameter("it takes --allow, --runs and -s data=FILE alone", param_hint="--rescore")
        with own_prints_aside():
            judged = rescore_run(folder, allow or (), Path(typed["data"]) if "data" in typed else None)
        show(rescored_doc(judged), as_json=as_json)
        write_report(judged.results)
        raise typer.Exit(code_of_run(judged.results))
    if is_optimization(folder):
        if retry or added or typed.keys() - {"mlflow"}:
            raise ValueError(f"{folder} is an optimization, which goes on as it began; of settings it takes mlflow alone")
        check_packages(read_optimization_manifest(folder).optimizer.name)
        from .searching import go_on  # needs DSPy

        go_on(folder, allowed, mlflow=typed.get("mlflow"), as_json=as_json, quiet=quiet, verbose=verbose)
    with own_prints_aside():
        experiment = extend(folder, added, allowed, typed, retry) if added else reopen(folder, allowed, typed, retry)
    missing = experiment.missing()
    say(f"{folder}: trials missing: {len(missing):,} of {experiment.trials:,}, run again: {missing.again:,}")
    if missing.favoured:
        say(f"warning: trials that count as they are and run again, which favours their arms: {missing.favoured:,}")
    carry_out(experiment, as_json=as_json, quiet=quiet, verbose=verbose)
