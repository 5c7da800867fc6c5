"""`loopbench resume`: go on with an interrupted run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from .optimize import go_on
from .own_prints import own_prints_aside
from .running import carry_out

if TYPE_CHECKING:
    from loopbench.experiments.compare.prepare import Experiment
    from loopbench.experiments.compare.reopen import SessionSettings
    from loopbench.runs.permissions import Permissions


class RetryChoice(StrEnum):
    """What is run again on request."""

    INFRASTRUCTURE = "infrastructure"
    ERRORS = "errors"


def resume(
    run: Run,
    runs: Runs = None,
    retry: Annotated[
        RetryChoice | None,
        typer.Option(
            help="Run again what infrastructure made fail, however often it was tried; `errors`: also what crashed or timed out, "
            "which the results then say."
        ),
    ] = None,
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
    """Go on with an interrupted run: only trials without a result, or that infrastructure made fail, are run."""
    from loopbench.experiments.compare.reopen import SessionSettings
    from loopbench.runs.folders import is_optimization
    from loopbench.runs.permissions import Permissions

    settings = {
        "concurrency": concurrency,
        "workers": workers,
        "engine": engine,
        "address": address,
        "budget": limits(budget_calls, budget_tokens, budget_dollars, budget_seconds),
    }
    load_env()  # keys may stand in a .env of the current directory
    folder, allowed = run_folder(run, runs), Permissions(allow or (), base_url, cassette, address, tracking_uri)
    if is_optimization(folder):
        _refuse_for_optimizations({**settings, "retry": retry})
        go_on(folder, allowed, mlflow=mlflow, as_json=as_json, quiet=quiet)
    sitting = SessionSettings(given({**settings, "mlflow": mlflow}) or {}, None if retry is None else retry.value)
    again = _reopened(folder, allowed, sitting)
    carry_out(again, as_json=as_json, quiet=quiet)


def _refuse_for_optimizations(flags: Mapping[str, Any]) -> None:
    typed = given(flags)
    if typed:
        raise ValueError(f"--{next(iter(typed))} is for comparisons, and this is an optimization; leave it out")


def _reopened(folder: Path, allowed: Permissions, sitting: SessionSettings) -> Experiment:
    from loopbench.experiments.compare.reopen import reopen

    from . import render

    with own_prints_aside():
        again = reopen(folder, allowed, sitting)
    missing = again.missing()
    if sitting.retry is not None and not missing.again:
        what = "errored" if sitting.retry == "infrastructure" else "errored, crashed or timed out"
        render.say(f"nothing is run again: no trial is {what}")
    if missing.favoured:
        render.say(
            f"warning: {missing.favoured} trials that crashed or timed out are run again, though they count as they are: "
            "what comes of it is favourable, and the results will say so"
        )
    return again
