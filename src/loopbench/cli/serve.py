"""`loopbench serve`: the scripted model as an OpenAI-compatible server on loopback."""

from __future__ import annotations

import asyncio
import errno
import json
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .own_prints import own_prints_aside

if TYPE_CHECKING:
    from loopbench.datasets.task import Suite
    from loopbench.models.server import Server

DEFAULT_PORT = 8377


def serve(
    suite: Annotated[str, typer.Option(help="Task suite.")] = "arithmetic",
    data: Annotated[Path | None, typer.Option(help="File of a suite that imports one.")] = None,
    tools: Annotated[str | None, typer.Option(help="Tools of your own, `my.module` or `my.module:NAME`.")] = None,
    profile: Annotated[str, typer.Option(help="Fault profile of the model `scripted`, name or TOML file.")] = "clean",
    tasks: Annotated[int | None, typer.Option(help="Only the first so many tasks.")] = None,
    seed: Annotated[int, typer.Option(help="Of all draws of faults.")] = 0,
    host: Annotated[str, typer.Option(help="127.0.0.1, localhost or ::1.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65_535)] = DEFAULT_PORT,
    real_time: Annotated[bool, typer.Option("--real-time", help="Sleep through simulated delays.")] = False,
) -> None:
    """Serve the scripted model to any program that speaks OpenAI's protocol, until Ctrl-C."""
    from loopbench.experiments.serve.trials import SuiteTrials
    from loopbench.models.profiles import load_profile
    from loopbench.models.server import Server
    from loopbench.protocol.names import parse_spec
    from loopbench.runs.registry import make_suite

    with own_prints_aside():
        found = _first(make_suite(parse_spec(suite), data, tools), tasks)
    trials = SuiteTrials(found, load_profile(profile), seed, real_time=real_time)
    try:
        asyncio.run(_until_told(Server(trials, host, port, more=trials.more), found))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} is in use: give another with --port, or 0 for any that is free") from None
        raise
    finally:
        trials.close()


def _first(suite: Suite, tasks: int | None) -> Suite:
    if tasks is None:
        return suite
    if tasks < 1:
        raise ValueError(f"tasks is {tasks}, and must be at least 1")
    return replace(suite, tasks=suite.tasks[:tasks])


async def _until_told(server: Server, suite: Suite) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with server:
        print(f"{server.url}/v1")
        print(_example(server.url, suite), flush=True)
        print(f"serving {suite.name}, {len(suite.tasks)} tasks; Ctrl-C ends", file=sys.stderr, flush=True)
        await told.wait()
    print("closed", file=sys.stderr)


def _example(url: str, suite: Suite) -> str:
    """A request to copy: a task's question, and a tool to begin with."""
    task = next((task for task in suite.tasks if task.plan and task.plan.calls), suite.tasks[0])
    body: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": task.query.text}]}
    if task.plan and task.plan.calls:
        first = task.plan.calls[0]
        parameters = {"type": "object", "properties": {name: {} for name in first.arguments}}
        body["tools"] = [{"type": "function", "function": {"name": first.tool, "parameters": parameters}}]
    said = shlex.quote(json.dumps(body))
    return f"curl -s {url}/v1/chat/completions -H 'Content-Type: application/json' -d {said}"
