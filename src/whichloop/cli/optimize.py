"""`whichloop optimize`: search prompts for each loop, then compare the loops on locked tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import flags
from .flags import Data, Json, Loops, Quiet, Settings, Suite, Tools, Verbose, settings

SEARCH, SIZE = "Search for prompts", "Tasks"
"""Panels of the help."""


def optimize(
    loop: Loops = None,
    suite: Suite = None,
    data: Data = None,
    tools: Tools = None,
    profile: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Fault profile, or a TOML file.")] = None,
    model: Annotated[list[str] | None, typer.Option(metavar="NAME", help="scripted, or a real one.")] = None,
    optimizer: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Teleprompter: name, name(option=value).", rich_help_panel=SEARCH)
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="LIMITS", help="Of each design's rollouts: 2000calls,5usd.", rich_help_panel=SEARCH)
    ] = None,
    proposer: Annotated[str | None, typer.Option(metavar="NAME", help="Model that proposes.", rich_help_panel=SEARCH)] = None,
    train: Annotated[int | None, typer.Option(metavar="N", help="Tasks to learn from at most.", rich_help_panel=SIZE)] = None,
    dev: Annotated[int | None, typer.Option(metavar="N", help="Tasks to be scored on at most.", rich_help_panel=SIZE)] = None,
    tasks: Annotated[int | None, typer.Option(metavar="N", help="Locked tasks at most.", rich_help_panel=SIZE)] = None,
    repeats: Annotated[int | None, typer.Option(metavar="N", help="Trials of each locked task.", rich_help_panel=SIZE)] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of every random draw.", rich_help_panel=SIZE)] = None,
    mlflow: Annotated[bool, typer.Option("--mlflow", metavar="", help="Log search and test to MLflow.")] = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file; table `search` is the search's.")] = None,
    runs: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder of the runs.")] = None,
    setting: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Optimize each loop's prompts on an equal budget, and test them on locked tasks."""
    from whichloop.experiments.optimize.config import load_optimize_config

    from .process import load_env

    flags.one_of(quiet=quiet, verbose=verbose)
    load_env()  # keys may stand in a .env of the current directory
    typed = settings(
        setting, loops=tuple(loop or ()), suite=suite, data=data, tools=tools, profiles=profile, models=model,
        optimizer=optimizer[0] if optimizer and len(optimizer) == 1 else optimizer,
        budget=budget, proposer=proposer, train=train, dev=dev, tasks=tasks, repeats=repeats, seed=seed,
        mlflow=mlflow or None, runs=runs,
    )  # fmt: skip
    configured = load_optimize_config(config, typed)  # before what needs DSPy: it tells which extra is missing
    from .searching import carry_out_search

    carry_out_search(configured, as_json=as_json, quiet=quiet, verbose=verbose)
