"""`loopbench optimize`, and what `resume` and `report` do with an optimization's run directory."""

from __future__ import annotations

import json
import shlex
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from .codes import DONE, FAILED, INTERRUPTED, INVALID
from .environment import load_env
from .own_prints import own_prints_aside, quiet_loops

if TYPE_CHECKING:
    from loopbench.experiments.optimize.prepare import Optimization
    from loopbench.experiments.optimize.result import OptimizationResult
    from loopbench.reports.mlflow.optimization import OptimizationTracker
    from loopbench.runs.permissions import Permissions


def optimize(
    loop: Annotated[
        list[str] | None, typer.Option(help="Loop, `name` or `name(option=value)`; again for each [default: the five designs].")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="Task suite with train, dev and test tasks [default: arithmetic].")] = None,
    data: Annotated[Path | None, typer.Option(help="File of a suite that imports one.")] = None,
    tools: Annotated[
        str | None, typer.Option(help="Tools of your own for a suite that brings none, `my.module` or `my.module:NAME`.")
    ] = None,
    optimizer: Annotated[
        list[str] | None, typer.Option(help="Teleprompter, `name` or `name(option=value)` [default: BootstrapFewShot].")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Of each design's rollouts: 2000calls, 1.5e6tokens, $2.50, or several [default: 2000calls].")
    ] = None,
    proposer_budget: Annotated[
        str | None, typer.Option(help="Of the optimizer's own requests for each design [default: as much again].")
    ] = None,
    proposer: Annotated[
        str | None, typer.Option(help="Model that proposes prompts, or `scripted` [default: the loops' model].")
    ] = None,
    profile: Annotated[list[str] | None, typer.Option(help="Fault profile, name or TOML file [default: clean].")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="`scripted`, or a real one such as openai/gpt-4o-mini [default: scripted].")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible server of a real model.")] = None,
    prices: Annotated[Path | None, typer.Option(help="TOML file of prices, dollars per million tokens.")] = None,
    train: Annotated[int | None, typer.Option(help="Most tasks of the train split [default: 40].")] = None,
    dev: Annotated[int | None, typer.Option(help="Most tasks of the dev split [default: 40].")] = None,
    test: Annotated[int | None, typer.Option(help="Most tasks of the test split [default: all].")] = None,
    skip_unplanned: Annotated[
        bool, typer.Option("--skip-unplanned", help="Leave out tasks without a plan, which the scripted model needs.")
    ] = False,
    repeats: Annotated[int | None, typer.Option(help="Trials per task of the test, before and after [default: 3].")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all draws, the optimizer's too [default: 0].")] = None,
    threads: Annotated[int | None, typer.Option(help="Rollouts under way at once [default: 1; 8 with a real model].")] = None,
    max_tool_steps: Annotated[int | None, typer.Option(help="Step limit of every design [default: the suite's].")] = None,
    trial_timeout: Annotated[float | None, typer.Option(help="Seconds of wall time for a trial [default: 60].")] = None,
    amortize: Annotated[int | None, typer.Option(help="Tasks that the cost of optimizing is spread over [default: 10000].")] = None,
    alpha: Annotated[float | None, typer.Option(help="Level of tests and intervals [default: 0.05].")] = None,
    margin: Annotated[float | None, typer.Option(help="Accuracy difference of no consequence [default: 0.02].")] = None,
    runs: Annotated[Path | None, typer.Option(help="Folder of the run directories [default: runs].", show_default=False)] = None,
    mlflow: Annotated[bool | None, typer.Option("--mlflow/--no-mlflow", help="Log to MLflow [default: yes].")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="MLflow store or server [default: SQLite under runs/].")] = None,
    experiment: Annotated[str | None, typer.Option(help="MLflow experiment [default: loopbench].")] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file as of `compare`, how to search in its table `search`; flags win.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Optimize each loop's prompts on an equal budget, and say on locked tasks whether it helped, and which loop is best then."""
    from loopbench.experiments.optimize.budgets import parse_budget
    from loopbench.experiments.optimize.config import load_optimize_config
    from loopbench.experiments.optimize.prepare import prepare

    flags: dict[str, Any] = {
        "loops": tuple(loop or ()),
        "suite": suite,
        "data": data,
        "tools": tools,
        "optimizer": _only("optimizer", optimizer),
        "budget": None if budget is None else parse_budget(budget),
        "proposer_budget": None if proposer_budget is None else parse_budget(proposer_budget),
        "proposer": proposer,
        "profiles": tuple(profile or ()),
        "models": tuple(model or ()),
        "base_url": base_url,
        "provider": None if prices is None else {"prices": prices},
        "train": train,
        "dev": dev,
        "tasks": test,
        "skip_unplanned": skip_unplanned or None,
        "repeats": repeats,
        "seed": seed,
        "threads": threads,
        "max_tool_steps": max_tool_steps,
        "trial_timeout_s": trial_timeout,
        "amortize": amortize,
        "alpha": alpha,
        "margin": margin,
        "runs": runs,
        "mlflow": mlflow,
        "tracking_uri": tracking_uri,
        "experiment": experiment,
    }
    load_env()  # keys may stand in a .env of the current directory
    with own_prints_aside():
        made = prepare(load_optimize_config(config, flags))
    _carry_out(made, as_json=as_json, quiet=quiet)


def _only(flag: str, given: list[str] | None) -> str | None:
    """Raises ValueError for a flag that is given twice."""
    if given is not None and len(given) > 1:
        raise ValueError(f"--{flag}: one is wanted, not {len(given)}; run them one after the other")
    return given[0] if given else None


def go_on(folder: Path, allowed: Permissions, *, mlflow: bool | None, as_json: bool, quiet: bool) -> NoReturn:
    """What `resume` does: a search goes on from its log, a test with the trials that are missing."""
    from loopbench.experiments.optimize.prepare import reopen

    with own_prints_aside():
        again = reopen(folder, allowed, mlflow=mlflow)
    _carry_out(again, as_json=as_json, quiet=quiet)


def print_report(folder: Path, *, as_json: bool, as_csv: bool, as_markdown: bool, all_metrics: bool) -> int:
    """What `report` prints; no model is called. Gives the exit code."""
    from loopbench.experiments.optimize.result import optimization_result
    from loopbench.experiments.optimize.tables import to_markdown
    from loopbench.runs.folders import TEST

    if as_csv or all_metrics:
        raise ValueError(f"--{'csv' if as_csv else 'all-metrics'} is for comparisons; the test is one: {folder / TEST}")
    found = optimization_result(folder)
    if as_markdown:
        print(to_markdown(found), end="")
    else:
        _print(found, as_json=as_json)
    return _exit_code(found)


def _carry_out(made: Optimization, *, as_json: bool, quiet: bool) -> NoReturn:
    from loopbench.experiments.optimize.result import optimization_result
    from loopbench.experiments.optimize.rollouts import RunStopped

    from . import render

    stopped = ""
    try:
        stopped = _run(made, quiet=quiet)
    except KeyboardInterrupt:
        stopped = "interrupted"
    except RunStopped as reason:
        stopped = str(reason)
    found = optimization_result(made.folder)
    if stopped:
        render.say(f"{stopped}; {found.state or 'all trials are there, what MLflow lacks may be added'}; go on with")
        render.say(f"  {_resume_command(made)}")
    if found.test is not None or not stopped:
        _print(found, as_json=as_json)
    render.say(f"run directory: {made.folder}")
    if stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(_exit_code(found))


def _exit_code(found: OptimizationResult) -> int:
    """FAILED where an optimizer did: the program that was kept is then hardly what was asked for."""
    if found.invalid:
        return INVALID
    return FAILED if any(design.status == "failed" for design in found.designs) else DONE


def _run(made: Optimization, *, quiet: bool) -> str:
    """Gives why it stopped early, or an empty text. Raises KeyboardInterrupt and RunStopped."""
    from loopbench.experiments.optimize.result import optimization_result
    from loopbench.experiments.optimize.run import run
    from loopbench.experiments.optimize.watchers import Watchers

    from . import render
    from .optimize_progress import watching

    with _tracker(made) as tracker:
        with quiet_loops(), own_prints_aside(), watching(made, quiet=quiet) as board:
            stopped = run(made, board if tracker is None else Watchers(board, tracker), board)
        tracked = None if tracker is None else tracker.finish(optimization_result(made.folder).to_json())
    if tracked is not None:
        render.say(f"MLflow: {tracked.ui}")
    return stopped


def _tracker(made: Optimization) -> AbstractContextManager[OptimizationTracker | None]:
    """What logs to MLflow while the optimization goes on; nothing where that is not wanted."""
    from . import render

    compare = made.config.compare
    if not compare.mlflow:
        return nullcontext()
    from loopbench.reports.mlflow.optimization import OptimizationTracker  # MLflow takes seconds to import

    def tell(line: str) -> None:
        render.say(f"warning: {line}")

    return OptimizationTracker(made.folder, made.manifest, compare.tracking_uri, compare.experiment, tell)


def _resume_command(made: Optimization) -> str:
    from loopbench.protocol.names import parse_spec
    from loopbench.runs.permissions import resume_flags

    compare = made.config.compare
    optimizer = parse_spec(made.config.search.optimizer).name
    optimizers = ["--allow", shlex.quote(optimizer)] if ":" in optimizer else []
    return " ".join(["loopbench resume", shlex.quote(str(made.folder)), *resume_flags(compare), *optimizers])


def _print(found: OptimizationResult, *, as_json: bool) -> None:
    from rich.text import Text

    from loopbench.experiments.compare.tables import plain
    from loopbench.experiments.optimize.tables import notes, tables, verdicts

    from . import render

    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=True, allow_nan=False))
        return
    console = render.out()
    for line in verdicts(found):
        console.print(Text(plain(line), style="bold"))
    console.print(Text(plain(found.title), style="bold"))
    for made in tables(found):
        render.table(made, console)
    for design in found.designs:
        if design.program is not None:
            console.print(Text(plain(f"{design.design}: {design.program}"), style="dim"), soft_wrap=True)
    for note in notes(found):
        console.print(Text(plain(note), style="yellow" if note.startswith("Warning") else "dim"))
