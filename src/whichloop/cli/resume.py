"""`whichloop resume`, `extend` and `rescore`: continue a run, add to it, or judge its answers again."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from whichloop.experiments.compare import extend as extending
from whichloop.experiments.compare import rescore as rescoring
from whichloop.experiments.compare.prepare import Experiment
from whichloop.experiments.compare.reopen import SESSION_SETTINGS, SessionSettings, reopen
from whichloop.experiments.compare.rescore import Rescored
from whichloop.experiments.optimize.config import check_packages
from whichloop.experiments.optimize.manifest import read_optimization_manifest
from whichloop.metrics.statistics import Interval
from whichloop.protocol.values import counted
from whichloop.runs.config import IfAbsent
from whichloop.runs.folders import is_optimization
from whichloop.text.doc import Doc, Table, lines_of

from .console import say, show
from .environment import load_env
from .options import AllowOption, ConfigFlags, JsonOption, OptionGroup, PermissionOptions, ResultsOptions, RunChoice, with_options
from .process import own_prints_aside
from .render import code_of_run, write_report
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


ADDED = ConfigFlags(
    only=("loops", "profiles", "models", "repeats", "tasks"),
    helps={
        "loops": "Loop to add, under every profile and model of the run; repeat the option for more loops.",
        "profiles": "Fault profile to add, for every loop; repeat the option for more profiles.",
        "models": "Model to add, for every loop; repeat the option for more models.",
        "repeats": "New total number of trials for each arm and task.",
        "tasks": "New total number of tasks.",
    },
)


@with_options(ADDED, SESSION_FLAGS)
def extend(choice: RunChoice, flags: dict[str, Any], typed: PermissionOptions, output: ResultsOptions) -> None:
    """Add loops, profiles, models, repeats or tasks to a run.

    The run's trials are kept, and only the new ones are run.
    """
    settings = {name: value for name, value in flags.items() if name in SESSION_SETTINGS}
    additions = extending.Additions(**{name: value for name, value in flags.items() if name not in SESSION_SETTINGS})
    load_env()  # keys may stand in a .env of the current directory
    folder, allowed = choice.folder, typed.permissions(flags.get("address"))
    with own_prints_aside():
        experiment = extending.extend(folder, additions, allowed, SessionSettings(settings))
    schedule = f"{counted(len(experiment.arms), 'arm')} × {counted(len(experiment.tasks), 'task')} × {experiment.config.repeats}"
    present = counted(len(experiment.past.ended), "trial is", "trials are")
    say(f"{folder}: now {schedule}; {present} there, {counted(len(experiment.missing()), 'is', 'are')} to be run")
    carry_out(experiment, output)


class DataOption(OptionGroup):
    data: Annotated[Path | None, IfAbsent("the file of the run")] = None
    """File that the suite reads its tasks from, if it is no longer the file of the run."""


@with_options()
def rescore(choice: RunChoice, code: AllowOption, suite: DataOption, output: JsonOption) -> None:
    """Judge a run's answers again with today's scorers and expected answers.

    No model and no tool is called.
    """
    folder = choice.folder
    with own_prints_aside():
        rescored = rescoring.rescore(folder, code.allow, suite.data)
    show(rescored_doc(rescored), as_json=output.as_json)
    write_report(rescored.results)
    raise typer.Exit(code_of_run(rescored.results))


def rescored_doc(rescored: Rescored) -> Doc:
    """Return which arms' accuracy changed."""
    rows = [(arm.arm, _accuracy_text(arm.before), _accuracy_text(arm.after), str(arm.changed)) for arm in rescored.arms]
    compared = rescored.results.comparison
    lines = lines_of(
        ("Changed", counted(rescored.changed, "trial")),
        ("Kept", [f"{counted(count, 'trial')}: {why}" for why, count in rescored.kept_scores.items()]),
        ("Invalid", "no verdict of this run holds" if compared.invalid else ""),
        ("Warning", [each.text for each in compared.caveats if each.kind == "dead arm"]),
    )
    every = counted(len(rescored.results.records), "trial")
    title = f"{rescored.judged:,} of {every} judged again"
    return Doc(title, (Table("", ("arm", "before", "after", "changed"), tuple(rows)), lines), rescored.to_json())


def _accuracy_text(accuracy: Interval | None) -> str:
    if accuracy is None:
        return "–"
    return f"{accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}] (n = {accuracy.n})"
