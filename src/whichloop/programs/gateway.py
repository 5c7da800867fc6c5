"""One HTTP server on loopback for the programs of all trials of an event loop.

    /t/TOKEN/v1/chat/completions   the trial's model, in OpenAI's protocol
    /t/TOKEN/tools                 GET: the tools in OpenAI's form; POST /t/TOKEN/tools/NAME runs one
    /t/TOKEN/mcp                   the tools over MCP
    /t/TOKEN/answer                POST {"answer": …}: where an executable cannot print its answer

A random token in the path tells trials apart: every client keeps its base URL, and not every one keeps headers or metadata.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from whichloop.models.server import McpPages, OwnRequest, ServedTrial, Server
from whichloop.models.wires.contract import WireRequest
from whichloop.models.wires.fields import BadRequest
from whichloop.protocol.names import SCRIPTED

from .trial import ProgramTrial

MODEL = SCRIPTED
"""The model's name for programs; any other name is served, too: many programs have theirs in their code."""


class Gateway:
    """Trials by token, and the server in front of them."""

    def __init__(self) -> None:
        self._trials: dict[str, ProgramTrial] = {}
        self._server = Server(self, more=self.more, mcp=McpPages(self._trial))

    def open(self, trial: ProgramTrial) -> tuple[str, str]:
        """Return the token of a trial, and the address below which it is served."""
        token = secrets.token_urlsafe(12)
        self._trials[token] = trial
        return token, f"{self._server.url}/t/{token}"

    def close(self, token: str) -> None:
        """End a trial."""
        self._trials.pop(token).close()

    def models(self) -> list[str]:
        return [MODEL]

    def find(self, trial: str | None, request: WireRequest) -> ServedTrial:
        """Return a trial by its token. Raises LookupError."""
        return self._trial(trial or "").served

    async def more(self, call: OwnRequest) -> Any:
        """Serve the pages of tools and the answer. Raises LookupError, BadRequest, WrongMethod and Refusal."""
        match call.path:
            case ("t", token, "tools"):
                call.require("GET")
                return [{"type": "function", "function": tool} for tool in self._trial(token).tool_list()]
            case ("t", token, "tools", name):
                call.require("POST")
                observation = await self._trial(token).call(name, call.fields)
                return observation.as_dict() | {"error_type": observation.error_type, "message": observation.data}
            case ("t", token, "answer"):
                call.require("POST")
                trial, body = self._trial(token), call.fields
                if "answer" not in body:
                    raise BadRequest("Missing required parameter: 'answer'.", "answer", "missing_required_parameter")
                trial.answer, trial.has_answer = body["answer"], True
                return {}
        raise LookupError("no such page")

    def _trial(self, token: str) -> ProgramTrial:
        trial = self._trials.get(token)
        if trial is None:
            raise LookupError("This trial is over, or has never been.")
        return trial


# --- what an event loop keeps ---


_GATEWAYS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Future[Gateway]] = WeakKeyDictionary()
_TASKS: WeakKeyDictionary[asyncio.AbstractEventLoop, set[asyncio.Task[None]]] = WeakKeyDictionary()


def keep(work: Callable[[], Awaitable[None]]) -> None:
    """Run something until the event loop ends and cancels it; it belongs to no trial, whichever needs it first."""
    loop = asyncio.get_running_loop()
    task: asyncio.Task[None] = loop.create_task(_awaited(work), context=contextvars.Context())
    tasks = _TASKS.setdefault(loop, set())
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def gateway_here() -> Gateway:
    """Return the gateway of the running event loop, opened at the first use. Raises OSError if no port can be had."""
    loop = asyncio.get_running_loop()
    opened = _GATEWAYS.get(loop)
    if opened is None:
        opened = _GATEWAYS[loop] = loop.create_future()
        keep(lambda: _serve(opened))
    return await asyncio.shield(opened)


@contextlib.asynccontextmanager
async def served(trial: ProgramTrial) -> AsyncIterator[str]:
    """Serve a trial within this block, and give the address below which it is served. Raises OSError."""
    gateway = await gateway_here()
    token, url = gateway.open(trial)
    try:
        yield url
    finally:
        gateway.close(token)


async def _serve(opened: asyncio.Future[Gateway]) -> None:
    gateway = Gateway()
    try:
        async with gateway._server:
            opened.set_result(gateway)
            await asyncio.Event().wait()
    except OSError as error:
        opened.set_exception(error)
