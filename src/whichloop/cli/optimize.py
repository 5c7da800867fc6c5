"""`whichloop optimize`: search prompts for each loop, then compare the loops on locked tasks.

What carries it out needs DSPy, and loads once the settings are known: they tell which extra has all that the optimizer needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from whichloop import cli
from whichloop.experiments.optimize.config import REPEATS, SearchConfig, load_optimize_config
from whichloop.protocol.cured_error import naming_file
from whichloop.runs.config import IfAbsent

from .environment import load_env
from .options import ConfigFlags, OptionGroup, ResultsOptions, with_options

COMPARE_FLAGS = ConfigFlags(
    only=(
        *("loops", "suite", "data", "tools", "profiles", "models", "base_url", "provider.prices", "tasks", "skip_unplanned"),
        *("price", "repeats", "seed", "max_tool_steps", "trial_timeout_s", "alpha", "margin", "runs"),
        *("name", "mlflow", "tracking_uri", "experiment"),
    ),
    names={"tasks": "test"},
    helps={
        "suite": "Suite with train, dev and test tasks, `name` or `name(option=value)`. [default: arithmetic]",
        "profiles": "Fault profile, a built-in name or a TOML file. [default: clean]",
        "models": "Model, `scripted` or a real one such as openai/gpt-4o-mini. [default: scripted]",
        "tasks": "Maximum number of tasks of the test split. [default: all]",
        "repeats": f"Number of trials for each task of the test split, before and after. [default: {REPEATS}]",
        "seed": "Seed of every random draw, the optimizer's included. [default: 0]",
    },
)
SEARCH_FLAGS = ConfigFlags(SearchConfig, without=("optimizer", "budget", "proposer_budget"))


class SearchOptions(OptionGroup):
    """Settings of the search that are typed in another form than in a file."""

    optimizer: Annotated[list[str] | None, IfAbsent("BootstrapFewShot")] = None
    """Optimizer (teleprompter), `name` or `name(option=value)`."""
    budget: Annotated[str | None, IfAbsent("2000calls")] = None
    """Limits on what the rollouts of each design spend, such as 2000calls, 1.5e6tokens, $2.50, or several with commas between."""
    proposer_budget: Annotated[str | None, IfAbsent("the same as --budget")] = None
    """Limits on what the optimizer's own requests for each design may spend."""
    config: Path | None = None
    """TOML file with the settings of `compare`, and those of the search in its table `search`; flags override it."""

    def as_flags(self) -> dict[str, Any]:
        """Return the settings by field. Raises ValueError for a flag that is given twice."""
        if self.optimizer is not None and len(self.optimizer) > 1:
            raise ValueError(f"--optimizer: give one, not {len(self.optimizer)}; run them one after another")
        return {
            "optimizer": self.optimizer[0] if self.optimizer else None,
            "budget": self.budget,
            "proposer_budget": self.proposer_budget,
        }


@with_options(COMPARE_FLAGS, SEARCH_FLAGS)
def optimize(flags: dict[str, Any], search: SearchOptions, output: ResultsOptions) -> None:
    """Optimize each loop's prompts on an equal budget, and test them on locked tasks.

    The test says whether optimizing helped, and which loop is best afterwards.
    """
    settings = {**flags, **search.as_flags()}
    load_env()  # keys may stand in a .env of the current directory
    config = load_optimize_config(search.config, settings)  # before the name below, whose import needs DSPy
    with naming_file(search.config, settings):
        cli.carry_out_search(config, output)
