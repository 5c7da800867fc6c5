"""`whichloop compare`: run loops over the tasks of a suite, or vary the options of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import flags
from .flags import Data, Json, Loops, Profiles, Quiet, Settings, Suite, Tools, Verbose, settings

SIZE, HOW = "Tasks and limits", "How it runs"
"""Panels of the help."""


def compare(
    loop: Loops = None,
    program: Annotated[list[str] | None, typer.Option(metavar="COMMAND", help="Program of your own, or FILE.py:function.")] = None,
    suite: Suite = None,
    data: Data = None,
    tools: Tools = None,
    profile: Profiles = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Model: scripted, openai/NAME, local, local:FILE.")
    ] = None,
    vary: Annotated[list[str] | None, typer.Option(metavar="OPTION=A,B", help="Vary an option of the one loop.")] = None,
    tasks: Annotated[int | None, typer.Option(metavar="N", help="Tasks at most, the first ones.", rich_help_panel=SIZE)] = None,
    repeats: Annotated[int | None, typer.Option(metavar="N", help="Trials of each arm and task.", rich_help_panel=SIZE)] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of every random draw.", rich_help_panel=SIZE)] = None,
    max_tool_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Tool steps of each trial at most.", rich_help_panel=SIZE)
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="IN/OUT", help="US$ per million tokens of scripted.", rich_help_panel=SIZE)
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="LIMITS", help="Of the run: 9calls,5000tokens,5usd,60s.", rich_help_panel=SIZE)
    ] = None,
    per_trial: Annotated[
        str | None, typer.Option(metavar="LIMITS", help="Of each trial; beyond, it is not solved.", rich_help_panel=SIZE)
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Processes that run trials.", rich_help_panel=HOW)] = None,
    engine: Annotated[str | None, typer.Option(metavar="NAME", help="local, or ray for a cluster.", rich_help_panel=HOW)] = None,
    mlflow: Annotated[bool, typer.Option("--mlflow", metavar="", help="Log the results to MLflow.", rich_help_panel=HOW)] = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file of settings.", rich_help_panel=HOW)] = None,
    runs: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder of the runs.", rich_help_panel=HOW)] = None,
    setting: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run loops over tasks and say which to adopt, with intervals.

    What is typed overrides the file. Exit code: 4 without a verdict, 130 stopped.
    """
    from whichloop.experiments.ablate.prepare import prepare as prepare_varied
    from whichloop.experiments.compare.run import prepare, without_formless
    from whichloop.experiments.export_runs.export import SpanEndpoint
    from whichloop.runs.config import SettingError, load_config

    from .console import say
    from .process import load_env, own_prints_aside
    from .running import carry_out

    flags.one_of(quiet=quiet, verbose=verbose)
    load_env()  # keys may stand in a .env of the current directory
    typed = settings(
        setting, loops=flags.loops_and_programs(loop, program), suite=suite, data=data, tools=tools, profiles=profile,
        models=model, tasks=tasks, repeats=repeats, seed=seed, max_tool_steps=max_tool_steps, price=price, budget=budget,
        trial_budget=per_trial, workers=workers, engine=engine, mlflow=mlflow or None, runs=runs,
    )  # fmt: skip
    configured = load_config(config, typed)
    if configured.otlp is not None:
        SpanEndpoint(configured.otlp)  # a wrong address leaves no run behind
    with own_prints_aside():
        if vary:
            if len(configured.loops) != 1:
                raise SettingError("vary", "it is about the options of one loop: name it with --loop")
            experiment = prepare_varied(configured.loops[0], vary, configured)
        else:
            configured, note = without_formless(configured)
            experiment = prepare(configured)
            if note:
                say(note)
    carry_out(experiment, as_json=as_json, quiet=quiet, verbose=verbose)
