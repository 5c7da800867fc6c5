"""The `loopbench` command. What takes time to import is imported by the command that needs it."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .ablate import ablate
from .check_model import check_model
from .check_suite import check_suite
from .codes import BAD_INPUT, DONE, FAILED, INTERRUPTED
from .environment import load_env
from .extend import extend
from .flags import (
    Address,
    BudgetCalls,
    BudgetDollars,
    BudgetSeconds,
    BudgetTokens,
    Concurrency,
    EngineName,
    Json,
    Quiet,
    Runs,
    Workers,
    given,
    limits,
)
from .gate import bless, gate
from .import_ import import_
from .optimize import optimize
from .own_prints import own_prints_aside
from .process import lasting_stdout, terminated_as_interrupted
from .profile import profile as profile_commands
from .programs import diff, show_program
from .report import report, show
from .rescore import rescore
from .resume import resume
from .running import carry_out
from .serve import serve
from .size import size
from .suite import suite as suite_commands
from .why import why


class _Commands(TyperGroup):
    """All commands. Ctrl-C, wherever it comes in time, is one line and an exit code of its own."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # Typer's own context
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="loopbench",
    cls=_Commands,
    help="A wind tunnel for agent loops: compare designs on the same tasks, tools, model behaviour and faults.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

check = typer.Typer(help="Check a design, a suite, or a real model.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(check, name="check")
new = typer.Typer(help="Write the beginnings of a design of your own.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(new, name="new")


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(f"loopbench {version_of('loopbench')}")
        raise typer.Exit(DONE)


@app.command()
def compare(
    loop: Annotated[
        list[str] | None, typer.Option(help="Loop, `name` or `name(option=value)`; again for each [default: the five designs].")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="Task suite [default: arithmetic].")] = None,
    data: Annotated[Path | None, typer.Option(help="File of a suite that imports one.")] = None,
    tools: Annotated[
        str | None, typer.Option(help="Tools of your own for a suite that brings none, `my.module` or `my.module:NAME`.")
    ] = None,
    profile: Annotated[
        list[str] | None, typer.Option(help="Fault profile, name or TOML file; again for each [default: clean].")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="`scripted`, or a real one such as openai/gpt-4o-mini [default: scripted].")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible server of a real model.")] = None,
    cassette: Annotated[Path | None, typer.Option(help="Folder of a recording of the models' replies.")] = None,
    cassette_mode: Annotated[
        str | None, typer.Option(help="`record`, `replay`, `replay-or-record` or `refresh` [default: replay].")
    ] = None,
    quarantine: Annotated[
        Path | None, typer.Option(help="TOML or JSON file of tasks known to be bad, id and reason: they are excluded, visibly.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only tasks of one split, such as train, dev or test.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Only the first so many tasks.")] = None,
    skip_unplanned: Annotated[
        bool, typer.Option("--skip-unplanned", help="Leave out tasks without a plan, which the scripted model needs.")
    ] = False,
    repeats: Annotated[int | None, typer.Option(help="Trials per arm and task [default: 1].")] = None,
    looks: Annotated[
        int | None, typer.Option(help="Look at the verdicts so many times on the way, and end once every pair is decided.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of all draws of faults [default: 0].")] = None,
    max_tool_steps: Annotated[int | None, typer.Option(help="Step limit of every arm [default: the suite's].")] = None,
    concurrency: Concurrency = None,
    workers: Workers = None,
    engine: EngineName = None,
    address: Address = None,
    trial_timeout: Annotated[float | None, typer.Option(help="Seconds of wall time for a trial [default: 60].")] = None,
    tool_timeout: Annotated[
        float | None, typer.Option(help="Seconds for one call of a tool [default: 30, or the tool's own].")
    ] = None,
    traces: Annotated[
        str | None, typer.Option(help="Which traces are kept: `all`, `failures`, `sample=N` per arm or `none` [default: all].")
    ] = None,
    real_time: Annotated[bool, typer.Option("--real-time", help="Sleep through simulated delays.")] = False,
    call_timeout: Annotated[float | None, typer.Option(help="Seconds for one attempt at a real reply [default: 60].")] = None,
    attempts: Annotated[int | None, typer.Option(help="Attempts at one real reply [default: 4].")] = None,
    requests_per_minute: Annotated[int | None, typer.Option(help="Most requests to each real model in a minute.")] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(help="Most tokens of each real model in a minute.")] = None,
    prices: Annotated[Path | None, typer.Option(help="TOML file of prices, dollars per million tokens.")] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="What the real model cannot do, such as `tool_choice`; again for each.")
    ] = None,
    context_tokens: Annotated[int | None, typer.Option(help="Longest request to a real model, in tokens.")] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Ask the real model first what it can do.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of a real model [default: its provider's].")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens of a real reply.")] = None,
    budget_calls: BudgetCalls = None,
    budget_tokens: BudgetTokens = None,
    budget_dollars: BudgetDollars = None,
    budget_seconds: BudgetSeconds = None,
    alpha: Annotated[float | None, typer.Option(help="Level of tests and intervals [default: 0.05].")] = None,
    margin: Annotated[float | None, typer.Option(help="Accuracy difference of no consequence [default: 0.02].")] = None,
    runs: Runs = None,
    mlflow: Annotated[bool | None, typer.Option("--mlflow/--no-mlflow", help="Log to MLflow [default: yes].")] = None,
    tracking_uri: Annotated[str | None, typer.Option(help="MLflow store or server [default: SQLite under runs/].")] = None,
    experiment: Annotated[str | None, typer.Option(help="MLflow experiment [default: loopbench].")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with any of these; flags win.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run loops over a suite's tasks and say which is better, with intervals."""
    from loopbench.experiments.compare.prepare import prepare
    from loopbench.runs.config import load_config

    from . import render

    provider: dict[str, Any] = {
        "call_timeout_s": call_timeout,
        "attempts": attempts,
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "prices": prices,
        "without": tuple(without) if without else None,
        "context_tokens": context_tokens,
        "probe": probe or None,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }
    flags: dict[str, Any] = {
        "loops": tuple(loop or ()),
        "suite": suite,
        "data": data,
        "tools": tools,
        "profiles": tuple(profile or ()),
        "models": tuple(model or ()),
        "base_url": base_url,
        "provider": given(provider),
        "cassette": cassette,
        "cassette_mode": cassette_mode,
        "quarantine": quarantine,
        "split": split,
        "tasks": tasks,
        "skip_unplanned": skip_unplanned or None,
        "repeats": repeats,
        "looks": looks,
        "seed": seed,
        "max_tool_steps": max_tool_steps,
        "concurrency": concurrency,
        "workers": workers,
        "engine": engine,
        "address": address,
        "trial_timeout_s": trial_timeout,
        "tool_timeout_s": tool_timeout,
        "traces": traces,
        "real_time": real_time or None,
        "budget": limits(budget_calls, budget_tokens, budget_dollars, budget_seconds),
        "alpha": alpha,
        "margin": margin,
        "runs": runs,
        "mlflow": mlflow,
        "tracking_uri": tracking_uri,
        "experiment": experiment,
    }
    load_env()  # keys may stand in a .env of the current directory
    with own_prints_aside():
        made = prepare(load_config(config, flags))
    if made.config.tasks is not None and made.config.tasks > len(made.tasks):
        where = made.suite.name if made.config.split is None else f"{made.suite.name}, split {made.config.split}"
        render.say(f"note: --tasks {made.config.tasks}: {where} has {len(made.tasks)} tasks, and all of them are run")
    carry_out(made, as_json=as_json, quiet=quiet)


class Catalogue(StrEnum):
    """What `list` can list."""

    LOOPS = "loops"
    SUITES = "suites"
    PROFILES = "profiles"
    METRICS = "metrics"
    MODELS = "models"
    OPTIMIZERS = "optimizers"


@app.command(name="list")
def list_(
    what: Annotated[Catalogue, typer.Argument(help="What to list.", show_default=False)],
    as_json: Json = False,
) -> None:
    """List what can be named on the command line, with options."""
    from . import render
    from .catalogue import entries

    found = entries(what.value)
    if as_json:
        print(json.dumps([entry.as_dict() for entry in found], ensure_ascii=True))
    else:
        render.catalogue(found)


@check.command(name="loop")
def check_loop(
    name: Annotated[str, typer.Argument(help="Loop, `name`, `name(option=value)` or `package.module:Name`.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Run a loop against every law, with models and tools made up for it; exit code 1 where one does not hold."""
    from loopbench.checks import loop as laws
    from loopbench.protocol.names import parse_spec
    from loopbench.runs.registry import make_loop

    from . import render

    spec = parse_spec(name)
    found = laws.check_loop(make_loop(spec), None if as_json else render.finding)
    broken = any(finding.status == "failed" for finding in found)
    if as_json:
        made = {"loop": str(spec), "ok": not broken, "laws": [finding.as_dict() for finding in found]}
        print(json.dumps(made, ensure_ascii=True))
    else:
        render.findings_in_all(str(spec), found)
    raise typer.Exit(FAILED if broken else DONE)


@new.command(name="loop")
def new_loop(
    name: Annotated[str, typer.Argument(help="Of the module, such as my_loop.", show_default=False)],
    into: Annotated[Path, typer.Option(help="Folder to write to [default: this one].", show_default=False)] = Path("."),
) -> None:
    """Write NAME.py, a small loop that works, and test_NAME.py, which holds the laws against it."""
    from loopbench.checks.loop import scaffold

    from . import render

    render.scaffold(scaffold.new_loop(name, into))


check.command(name="model")(check_model)
check.command(name="suite")(check_suite)
app.add_typer(profile_commands, name="profile")
app.add_typer(suite_commands, name="suite")
app.command()(resume)
app.command()(extend)
app.command()(rescore)
app.command()(ablate)
app.command()(report)
app.command()(show)
app.command()(why)
app.command()(optimize)
app.command(name="show-program")(show_program)
app.command()(diff)
app.command()(serve)
app.command()(size)
app.command()(gate)
app.command()(bless)
app.command(name="import")(import_)


def main() -> None:
    """Entry point: a mistake of the user's is one line on stderr, without secrets, and exit code 2."""
    try:
        with terminated_as_interrupted(), lasting_stdout():
            app()
    except (ValueError, OSError) as error:
        from loopbench.experiments.compare.tables import plain
        from loopbench.protocol.redact import redact

        print(f"error: {plain(' '.join(redact(_said(error)).split()))}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def _said(error: ValueError | OSError) -> str:
    """The error in words: a file's without its number, the file first."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    words = {FileNotFoundError: "no such file", IsADirectoryError: "is a directory"}
    return f"{error.filename}: {words.get(type(error), error.strerror)}"
