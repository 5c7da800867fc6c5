"""`whichloop serve`: the scripted model on loopback, in the vendors' protocols."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import shlex
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

import whichloop.models.server
from whichloop._extras import is_installed, missing
from whichloop.datasets.task import Suite
from whichloop.experiments.serve.pages import CALLS_IN, MODEL, RateLimitedHandler, SuiteTrials, settings
from whichloop.models.profiles import load_profile
from whichloop.models.server import McpPages, Server
from whichloop.programs.worker import mcp_command
from whichloop.protocol.names import parse_spec
from whichloop.protocol.values import counted
from whichloop.runs.config import load_config
from whichloop.runs.registry import make_suite

from .console import say
from .options import ConfigFlags, OptionGroup, with_options
from .process import own_prints_aside

CONFIG_FLAGS = ConfigFlags(only=("suite", "data", "tools", "tasks", "seed", "real_time"))


class ServeOptions(OptionGroup):
    profile: str = "clean"
    """Fault profile of the model `scripted`, a built-in name or a TOML file."""
    host: str = "127.0.0.1"
    """Address to listen on: 127.0.0.1, localhost or ::1."""
    port: Annotated[int, typer.Option(min=0, max=65_535)] = 8377
    """Port to listen on; 0 takes any free port."""
    mcp: bool = False
    """Offer the tools of each trial over MCP, too: at /t/TRIAL/mcp, and by a command that is printed."""


@with_options(CONFIG_FLAGS)
def serve(flags: dict[str, Any], options: ServeOptions) -> None:
    """Serve the scripted model to programs that ask as OpenAI's, Anthropic's or Google's clients do.

    It ends with Ctrl-C.
    """
    if options.mcp and not is_installed("mcp"):
        raise missing("--mcp", "mcp")
    config = load_config(None, flags)
    with own_prints_aside():
        suite = make_suite(parse_spec(config.suite), config.data, config.tools)
        suite = replace(suite, tasks=suite.tasks[: config.tasks])
    trials = SuiteTrials(suite, load_profile(options.profile).met_by(CALLS_IN), config.seed, real_time=config.real_time)
    mcp = McpPages(trials.open) if options.mcp else None
    try:
        asyncio.run(_until_told(Server(trials, options.host, options.port, more=trials.more, mcp=mcp), suite))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {options.port} is in use: give another with --port, or 0 for any free port") from None
        raise
    finally:
        trials.close()


async def _until_told(server: Server, suite: Suite) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:  # as nohup leaves SIGHUP
            continue
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server:
        print(f"{server.url}/v1")
        print(_example(server.url, suite))
        if server.mcp is not None:
            trial = f"{server.url}/t/{suite.tasks[0].id}"
            print(f"{trial}/mcp")
            print(mcp_command(trial))
        print(*(f"# {who}\n{setting}" for who, setting in settings(server.url, MODEL)), sep="\n", flush=True)
        say(f"serving {suite.name}, {counted(len(suite.tasks), 'task')}; Ctrl-C ends")
        with _told_of_requests():
            await stop.wait()
    say("closed")


@contextlib.contextmanager
def _told_of_requests() -> Iterator[None]:
    """Print within the block, a line each and seldom, which requests are refused, and which no program with tools has made."""
    logger, handler = logging.getLogger(whichloop.models.server.__name__), RateLimitedHandler(say)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


def _example(url: str, suite: Suite) -> str:
    """Return a request to copy: a task's question, and a tool to begin with."""
    task = next((task for task in suite.tasks if task.plan and task.plan.calls), suite.tasks[0])
    body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": task.query.text}]}
    if task.plan and task.plan.calls:
        first = task.plan.calls[0]
        parameters = {"type": "object", "properties": {name: {} for name in first.arguments}}
        body["tools"] = [{"type": "function", "function": {"name": first.tool, "parameters": parameters}}]
    body_text = shlex.quote(json.dumps(body))
    return f"curl -s {url}/v1/chat/completions -H 'Content-Type: application/json' -d {body_text}"
