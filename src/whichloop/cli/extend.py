"""`whichloop extend`: add arms, tasks or repeats to a run."""

from __future__ import annotations

from typing import Any

from whichloop.experiments.compare import extend as extending
from whichloop.experiments.compare.reopen import SESSION_SETTINGS, SessionSettings
from whichloop.protocol.values import counted

from .console import say
from .environment import load_env
from .options import ConfigFlags, PermissionOptions, ResultsOptions, RunChoice, with_options
from .own_prints import own_prints_aside
from .resume import SESSION_FLAGS
from .running import carry_out

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
