"""`whichloop serve`: the scripted model on loopback, in the vendors' protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .flags import Data, Suite, Tools

if TYPE_CHECKING:
    from whichloop.datasets.task import Suite as Tasks
    from whichloop.models.server import Server


def serve(
    suite: Suite = None,
    data: Data = None,
    tools: Tools = None,
    tasks: Annotated[int | None, typer.Option(min=1, metavar="N", help="Most tasks; the first ones are taken.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the faults.")] = 0,
    profile: Annotated[str, typer.Option(metavar="NAME", help="Fault profile, or a TOML file.")] = "clean",
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help="Port; 0 takes any free one.")] = 8377,
    mcp: Annotated[bool, typer.Option("--mcp", metavar="", help="Offer each trial's tools over MCP, too.")] = False,
) -> None:
    """Serve the scripted model in the vendors' protocols, until Ctrl-C.

    Programs ask it as OpenAI's, Anthropic's or Google's clients do.
    """
    import asyncio
    from dataclasses import replace

    from whichloop._extras import is_installed, missing
    from whichloop.experiments.serve.pages import CALLS_IN, SuiteTrials
    from whichloop.models.profiles import load_profile
    from whichloop.models.server import Server
    from whichloop.protocol.names import parse_spec
    from whichloop.runs.registry import make_suite

    from .process import own_prints_aside

    if mcp and not is_installed("mcp"):
        raise missing("--mcp", "mcp")
    with own_prints_aside():
        made = make_suite(parse_spec(suite or "arithmetic"), data, tools)
    made = replace(made, tasks=made.tasks[:tasks])
    trials = SuiteTrials(made, load_profile(profile).met_by(CALLS_IN), seed)
    try:
        asyncio.run(_until_told(Server(trials, "127.0.0.1", port, more=trials.more, mcp=trials.open if mcp else None), made))
    finally:
        trials.close()


async def _until_told(server: Server, suite: Tasks) -> None:
    """Serve until a signal: addresses, a request to copy and settings are printed, and what is refused is told on stderr."""
    import asyncio
    import json
    import logging
    import shlex
    import signal

    import whichloop.models.server
    from whichloop.experiments.serve.pages import MODEL, LineHandler, settings
    from whichloop.programs.worker import mcp_command
    from whichloop.protocol.values import counted

    from .console import say

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves SIGHUP
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    logger, handler = logging.getLogger(whichloop.models.server.__name__), LineHandler(say)
    level = logger.level
    async with server:
        task = next((task for task in suite.tasks if task.plan and task.plan.calls), suite.tasks[0])
        body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": task.query.text}]}
        for call in task.plan.calls[:1] if task.plan else ():
            parameters = {"type": "object", "properties": {name: {} for name in call.arguments}}
            body["tools"] = [{"type": "function", "function": {"name": call.tool, "parameters": parameters}}]
        print(f"{server.url}/v1")
        print(f"curl -s {server.url}/v1/chat/completions -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}")
        if server.mcp is not None:
            trial = f"{server.url}/t/{suite.tasks[0].id}"
            print(f"{trial}/mcp", mcp_command(trial), sep="\n")
        print(*(f"# {who}\n{setting}" for who, setting in settings(server.url, MODEL)), sep="\n", flush=True)
        say(f"serving {suite.name}, {counted(len(suite.tasks), 'task')}; Ctrl-C ends")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            await stop.wait()
        finally:
            logger.setLevel(level)
            logger.removeHandler(handler)
    say("closed")
