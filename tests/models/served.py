"""A server on a real socket, the trials behind it, and an official client that asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import openai
import pytest

from whichloop.models.fake import FakeModel
from whichloop.models.metering import Meter, MeteredModel
from whichloop.models.profiles import Profile
from whichloop.models.scripted_calls import NATIVE
from whichloop.models.server import ServedTrial, Server
from whichloop.models.tunnel import Tunnel
from whichloop.models.wires.base import Refusal, WireRequest
from whichloop.protocol import Model, Reply

from . import bench

QUESTION = "What comes out?"
BODY = {"model": "scripted", "messages": [{"role": "user", "content": QUESTION}]}
ANSWERING = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
SUBMIT = {"type": "function", "function": {"name": "submit", "parameters": ANSWERING}}


class Book:
    """Trials by name; those that nobody named get `None`'s."""

    def __init__(self, **served: ServedTrial) -> None:
        self.served = served
        self.asked: list[WireRequest] = []

    def models(self) -> list[str]:
        return ["scripted", "scripted/flaky-tools"]

    def find(self, trial: str | None, asked: WireRequest) -> ServedTrial:
        self.asked.append(asked)
        if asked.model not in self.models():
            raise Refusal(404, f"The model '{asked.model}' does not exist.", "model", "model_not_found")
        if (trial or "any") not in self.served:
            raise LookupError(f"No trial '{trial}'.")
        return self.served[trial or "any"]


def served(model: Model, tunnel: Tunnel, **more: Any) -> ServedTrial:
    return ServedTrial(MeteredModel(model, Meter(), tunnel=tunnel).exchange, tunnel, **more)


def fixed(said: Reply | Exception) -> ServedTrial:
    """A trial whose model always says, or raises, the same."""
    return served(FakeModel(then=said), Tunnel())


def of(trial: Any, **changes: Any) -> ServedTrial:
    """A bench's trial as the server has it."""
    return served(trial.scripted, trial.tunnel, codecs={"native": NATIVE}, **{"tools": trial.toolbox.names} | changes)


def struck(kind: str, **more: Any) -> ServedTrial:
    """A trial whose first reply meets this fault; it makes one call, beside a text."""
    profile = Profile.model_validate({"name": "x", "rates": {kind: 1.0}, "clears": {"never": 1}})
    return of(bench.Bench(bench.chain(1), profile, **more))


def run(work: Callable[[Server, Any], Coroutine[Any, Any, Any]], book: Book, **server: Any) -> Any:
    """Open a server, an official client of its, do the work."""

    async def whole() -> Any:
        async with Server(book, **server) as opened, client(opened) as asking:
            return await work(opened, asking)

    return asyncio.run(whole())


def client(server: Server, trial: str = "") -> openai.AsyncOpenAI:
    base = f"{server.url}/t/{trial}/v1" if trial else f"{server.url}/v1"
    return openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0, timeout=30)


def specs(trial: Any) -> list[Any]:
    return [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
        for tool in trial.toolbox.specs
    ]


async def failure(asking: Any, **more: Any) -> Any:
    with pytest.raises(openai.OpenAIError) as caught:
        await asking.chat.completions.create(**BODY | more)
    return caught.value


async def exchange(server: Server, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    got = b""
    try:
        writer.write(sent)
        while piece := await asyncio.wait_for(reader.read(65_536), 20):
            got += piece
    except ConnectionResetError:
        got += b"<reset>"
    finally:
        writer.close()
    return got
