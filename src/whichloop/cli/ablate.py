"""`whichloop ablate`: vary the options of one loop together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from whichloop.experiments.ablate.ablation import Kind
from whichloop.experiments.ablate.prepare import AblationRequest, prepare
from whichloop.metrics.factors.factorial import EFFECT_METRICS
from whichloop.protocol.cured_error import naming_file
from whichloop.runs.config import FILE_ONLY, IfAbsent, load_config

from .environment import load_env
from .options import ConfigFlags, OptionGroup, ResultsOptions, with_options
from .process import own_prints_aside
from .running import carry_out

CONFIG_FLAGS = ConfigFlags(
    without=("loops", "looks", *FILE_ONLY),
    helps={"repeats": "Number of trials for each cell and task. [default: 1]"},
)


class AblationOptions(OptionGroup):
    loop: Annotated[str, typer.Argument()]
    """Loop, `name` or `name(option=value)`."""
    factor: list[str]
    """Option to vary, `option=value,value`, with the base value first; repeat it for more factors."""
    design: Annotated[Kind | None, IfAbsent("as many cells as --budget-trials allows")] = None
    """Which combinations of values (cells) run: full (all of them) or fractional."""
    budget_trials: int | None = None
    """Maximum number of trials of the run, over all cells and profiles."""
    interactions: bool = True
    """Test interactions of two factors as well."""
    metric: Annotated[list[str] | None, IfAbsent(", ".join(EFFECT_METRICS))] = None
    """Metric to analyse beside accuracy; repeat the option for more metrics."""
    config: Path | None = None
    """TOML file with these and all other settings of `compare`; flags override it."""


@with_options(CONFIG_FLAGS)
def ablate(options: AblationOptions, flags: dict[str, Any], output: ResultsOptions) -> None:
    """Vary a loop's options together and say what each of them does.

    Effects come with intervals, and so do interactions of two options.
    """
    wanted = AblationRequest(
        options.loop,
        tuple(options.factor),
        options.design,
        options.budget_trials,
        options.interactions,
        tuple(options.metric or EFFECT_METRICS),
    )
    load_env()  # keys may stand in a .env of the current directory
    with own_prints_aside(), naming_file(options.config, {"loops": options.loop, **flags}):
        experiment = prepare(wanted, load_config(options.config, {"loops": (options.loop,), **flags}))
    carry_out(experiment, output)
