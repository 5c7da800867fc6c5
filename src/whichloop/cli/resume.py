"""`whichloop resume`: continue an interrupted run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.reopen import SESSION_SETTINGS, SessionSettings, reopen
from whichloop.experiments.optimize.config import check_packages
from whichloop.experiments.optimize.manifest import read_optimization_manifest
from whichloop.protocol.values import counted
from whichloop.runs.folders import is_optimization

from .console import say
from .environment import load_env
from .options import ConfigFlags, OptionGroup, PermissionOptions, ResultsOptions, RunChoice, with_options
from .own_prints import own_prints_aside
from .running import carry_out

SESSION_FLAGS = ConfigFlags(
    only=SESSION_SETTINGS,
    helps={
        "address": "Address of a running Ray cluster; has to be typed again if the run names one.",
        "budget.calls": "New maximum number of model calls of the run, counted over all its sessions.",
        "budget.tokens": "New maximum number of tokens of the run, counted over all its sessions.",
        "budget.dollars": "New maximum cost of the run in US dollars, counted over all its sessions.",
        "budget.seconds": "New maximum running time of the run in seconds, counted over all its sessions.",
    },
    default="as in the run so far",
)
"""What may differ from session to session, because no result depends on it."""


class RetryChoice(StrEnum):
    """What is run again on request."""

    INFRASTRUCTURE = "infrastructure"
    ERRORS = "errors"


class RetryOption(OptionGroup):
    retry: RetryChoice | None = None
    """Run again every trial that the infrastructure failed, however often it was tried; `errors`: also trials that crashed or timed
    out, and mention that in the results."""


@with_options(SESSION_FLAGS)
def resume(choice: RunChoice, again: RetryOption, flags: dict[str, Any], typed: PermissionOptions, output: ResultsOptions) -> None:
    """Continue an interrupted run: run only the trials that are missing.

    Missing are trials without a result, and trials that the infrastructure failed.
    """
    load_env()  # keys may stand in a .env of the current directory
    folder, allowed = choice.folder, typed.permissions(flags.get("address"))
    if is_optimization(folder):
        _refuse_for_optimizations({**flags, "retry": again.retry})
        check_packages(read_optimization_manifest(folder).optimizer.name)
        from .searching import go_on  # DSPy takes a second to import

        go_on(folder, allowed, mlflow=flags.get("mlflow"), output=output)
    sitting = SessionSettings(flags, None if again.retry is None else again.retry.value)
    with own_prints_aside():
        experiment = reopen(folder, allowed, sitting)
    _warn_of_retries(experiment, sitting)
    carry_out(experiment, output)


def _refuse_for_optimizations(flags: Mapping[str, Any]) -> None:
    typed = [name for name, value in flags.items() if value is not None and name != "mlflow"]
    if typed:
        raise ValueError(f"--{typed[0]} is for comparisons, and this is an optimization; leave it out")


def _warn_of_retries(experiment: Experiment, sitting: SessionSettings) -> None:
    missing = experiment.missing()
    if sitting.retry is None and not missing:
        say("no trial is missing: nothing is run")
    if sitting.retry is not None and not missing.again:
        what = "errored" if sitting.retry == "infrastructure" else "errored, crashed or timed out"
        say(f"nothing is run again: no trial is {what}")
    if missing.favoured:
        again = counted(missing.favoured, "trial that crashed or timed out is", "trials that crashed or timed out are")
        say(
            f"warning: {again} run again, though they count as they are: "
            "what comes of it is favourable, and the results will say so"
        )
