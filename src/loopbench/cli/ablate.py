"""`loopbench ablate`: the options of one loop varied together."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .environment import load_env
from .own_prints import own_prints_aside
from .running import carry_out


class FactorialDesign(StrEnum):
    """Which cells run."""

    FULL = "full"
    FRACTIONAL = "fractional"


def ablate(
    loop: Annotated[str, typer.Argument(help="Loop, `name` or `name(option=value)`.", show_default=False)],
    factor: Annotated[
        list[str], typer.Option(help="What to vary, `option=value,value`, the base first; again for each.", show_default=False)
    ],
    suite: Annotated[str | None, typer.Option(help="Task suite [default: arithmetic].")] = None,
    data: Annotated[Path | None, typer.Option(help="File of a suite that imports one.")] = None,
    profile: Annotated[
        list[str] | None, typer.Option(help="Fault profile, name or TOML file; again for each [default: clean].")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="`scripted`, or a real one such as openai/gpt-4o-mini [default: scripted].")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible server of a real model.")] = None,
    split: Annotated[str | None, typer.Option(help="Only tasks of one split, such as train, dev or test.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Only the first so many tasks.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Trials per cell and task [default: 1].")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all draws of faults [default: 0].")] = None,
    design: Annotated[
        FactorialDesign | None, typer.Option(help="All cells, or a fraction of them [default: all that --budget-trials allows].")
    ] = None,
    budget_trials: Annotated[int | None, typer.Option(help="Most trials of the run, over all cells and profiles.")] = None,
    interactions: Annotated[bool, typer.Option(help="Test interactions of two factors too.")] = True,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric beside accuracy; again for each [default: steps, calls, tokens, cost].")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Level of tests and intervals [default: 0.05].")] = None,
    margin: Annotated[float | None, typer.Option(help="Accuracy difference of no consequence [default: 0.02].")] = None,
    runs: Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].")] = None,
    mlflow: Annotated[bool | None, typer.Option("--mlflow/--no-mlflow", help="Log to MLflow [default: yes].")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with these and all else that `compare` takes; flags win.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Vary a loop's options together and say what each of them does, and which depend on each other, with intervals."""
    from loopbench.experiments.ablate.ablation import AblationRequest, prepare
    from loopbench.metrics.factors.factorial import EFFECT_METRICS
    from loopbench.runs.config import load_config

    flags: dict[str, Any] = {
        "loops": (loop,),
        "suite": suite,
        "data": data,
        "profiles": tuple(profile or ()),
        "models": tuple(model or ()),
        "base_url": base_url,
        "split": split,
        "tasks": tasks,
        "repeats": repeats,
        "seed": seed,
        "alpha": alpha,
        "margin": margin,
        "runs": runs,
        "mlflow": mlflow,
    }
    wanted = AblationRequest(
        loop,
        tuple(factor),
        None if design is None else design.value,
        budget_trials,
        interactions,
        tuple(metric) if metric else EFFECT_METRICS,
    )
    load_env()  # keys may stand in a .env of the current directory
    with own_prints_aside():
        made = prepare(wanted, load_config(config, flags))
    carry_out(made, as_json=as_json, quiet=quiet)
