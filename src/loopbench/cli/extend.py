"""`loopbench extend`: arms, tasks or repeats added to a run."""

from __future__ import annotations

from typing import Annotated

import typer

from .environment import load_env
from .flags import (
    Allow,
    AsBegunAddress,
    AsBegunConcurrency,
    AsBegunEngine,
    AsBegunWorkers,
    BaseUrlAgain,
    BudgetCalls,
    BudgetDollars,
    BudgetSeconds,
    BudgetTokens,
    CassetteAgain,
    Json,
    MlflowAgain,
    Quiet,
    Run,
    Runs,
    TrackingUriAgain,
    given,
    limits,
)
from .folders import run_folder
from .own_prints import own_prints_aside
from .running import carry_out


def extend(
    run: Run,
    runs: Runs = None,
    loop: Annotated[
        list[str] | None, typer.Option(help="Loop to add, under every profile and model of the run; again for each.")
    ] = None,
    profile: Annotated[list[str] | None, typer.Option(help="Fault profile to add, for every loop; again for each.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Model to add, for every loop; again for each.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Trials per arm and task: the new total.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Tasks: the new total.")] = None,
    concurrency: AsBegunConcurrency = None,
    workers: AsBegunWorkers = None,
    engine: AsBegunEngine = None,
    address: AsBegunAddress = None,
    budget_calls: BudgetCalls = None,
    budget_tokens: BudgetTokens = None,
    budget_dollars: BudgetDollars = None,
    budget_seconds: BudgetSeconds = None,
    allow: Allow = None,
    base_url: BaseUrlAgain = None,
    cassette: CassetteAgain = None,
    tracking_uri: TrackingUriAgain = None,
    mlflow: MlflowAgain = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add loops, profiles, models, repeats or tasks to a run: its trials stay and count, only the new ones are run."""
    from loopbench.experiments.compare.extend import Additions
    from loopbench.experiments.compare.extend import extend as extended
    from loopbench.experiments.compare.reopen import SessionSettings
    from loopbench.runs.permissions import Permissions

    from . import render

    settings = {
        "concurrency": concurrency,
        "workers": workers,
        "engine": engine,
        "address": address,
        "budget": limits(budget_calls, budget_tokens, budget_dollars, budget_seconds),
        "mlflow": mlflow,
    }
    additions = Additions(tuple(loop or ()), tuple(profile or ()), tuple(model or ()), repeats, tasks)
    load_env()  # keys may stand in a .env of the current directory
    folder, allowed = run_folder(run, runs), Permissions(allow or (), base_url, cassette, address, tracking_uri)
    with own_prints_aside():
        made = extended(folder, additions, allowed, SessionSettings(given(settings) or {}))
    schedule = f"{len(made.arms)} arms × {len(made.tasks)} tasks × {made.config.repeats}"
    render.say(f"{folder}: now {schedule}; {len(made.past.ended)} trials are there, {len(made.missing())} are to be run")
    carry_out(made, as_json=as_json, quiet=quiet)
