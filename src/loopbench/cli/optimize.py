"""`loopbench optimize`: search prompts for each loop, then compare the loops on locked tasks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from loopbench.experiments.optimize.config import REPEATS, SearchConfig, load_optimize_config
from loopbench.experiments.optimize.prepare import Optimization, prepare, reopen
from loopbench.experiments.optimize.result import EVERYTHING_RAN, optimization_result
from loopbench.experiments.optimize.rollouts import RunStopped
from loopbench.models.profiles import load_profile
from loopbench.protocol.names import SCRIPTED, parse_spec
from loopbench.reports.progress.search import watching
from loopbench.reports.search_tracking import LoggedSearch, run_logged
from loopbench.reports.tracking import not_logged
from loopbench.runs.config import IfAbsent
from loopbench.runs.permissions import Permissions, resume_flags

from .codes import INTERRUPTED
from .console import say
from .environment import load_env
from .optimize_report import exit_code, print_optimization
from .options import ConfigFlags, OptionGroup, ResultsOptions, with_options
from .outcome import write_optimization
from .own_prints import own_prints_aside, quiet_loops

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
    with own_prints_aside():
        optimization = prepare(load_optimize_config(search.config, settings))
    if not output.quiet and _has_nothing_to_teach(optimization):
        (profile,) = optimization.config.compare.profiles
        say(f"note: under profile {profile} no prompt helps the scripted model; --profile teachable has what prompts can teach")
    _carry_out(optimization, output)


def _has_nothing_to_teach(optimization: Optimization) -> bool:
    """Whether the scripted model runs under a profile without weaknesses, so that no prompt can gain anything."""
    (profile,) = optimization.config.compare.profiles
    return optimization.config.model == SCRIPTED and not load_profile(profile).weaknesses


def go_on(folder: Path, allowed: Permissions, *, mlflow: bool | None, output: ResultsOptions) -> NoReturn:
    """Continue an optimization, as `resume` does: a search from its log, a test with the trials that are missing."""
    with own_prints_aside():
        again = reopen(folder, allowed, mlflow=mlflow)
    _carry_out(again, output)


def _carry_out(optimization: Optimization, output: ResultsOptions) -> NoReturn:
    stopped = page = ""
    try:
        logged = _run(optimization, quiet=output.quiet)
        stopped, page = logged.stopped, logged.page
    except KeyboardInterrupt:
        stopped = "interrupted"
    except RunStopped as reason:
        stopped = str(reason)
    result = optimization_result(optimization.folder)
    if stopped:
        say(f"{stopped}; {result.state or EVERYTHING_RAN}; go on with")
        say(f"  {_resume_command(optimization)}")
    has_results = not stopped or any(design.gain is not None and design.gain.test is not None for design in result.designs)
    if has_results:
        write_optimization(result, page=page)
    say(f"run directory: {optimization.folder}")
    if has_results:
        print_optimization(result, "json" if output.as_json else "tables", verbose=output.verbose)
    if stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(exit_code(result))


def _run(optimization: Optimization, *, quiet: bool) -> LoggedSearch:
    """Search and test, logged. Raises KeyboardInterrupt and RunStopped."""
    with quiet_loops(), own_prints_aside(), watching(optimization, quiet=quiet) as view:
        logged = run_logged(optimization, view, lambda line: say(f"warning: {line}"))
    if logged.ui:
        say(f"MLflow: {logged.ui}")
    elif line := not_logged(optimization.config.compare):
        say(line)
    return logged


def _resume_command(optimization: Optimization) -> str:
    compare = optimization.config.compare
    optimizer = parse_spec(optimization.config.search.optimizer).name
    optimizers = ["--allow", shlex.quote(optimizer)] if ":" in optimizer else []
    return " ".join(["loopbench resume", shlex.quote(str(optimization.folder)), *resume_flags(compare), *optimizers])
