"""A module that the client lacks is told from a provider that fails, and LiteLLM needs none that it does not require."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from whichloop.dspy_seam.model import ClientModel
from whichloop.models.real import RealModel
from whichloop.protocol import Capabilities, Message, ProviderError, Request, run_sync

ROOT = Path(__file__).resolve().parents[2]


class Lacking:
    """A client that fails as LiteLLM does: with a broken connection, raised while a missing module is handled."""

    model = "some/model"
    provider: str | None = "some"
    streams = True

    def __init__(self, missing: ImportError) -> None:
        self.missing = missing
        self.asked = 0

    async def complete(self, request: Any) -> Any:
        self.asked += 1
        try:
            raise self.missing
        except ImportError:
            raise ConnectionError("APIConnectionError: OpenAIException - No module named 'thing'")  # noqa: B904

    async def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        yield await self.complete(request)

    async def aclose(self) -> None: ...


REQUEST = Request((Message("user", "?"),))
MISSING = ModuleNotFoundError("No module named 'thing'", name="thing")


@pytest.mark.parametrize("stream", [False, True])
def test_a_missing_module_is_named_and_not_asked_for_again(stream: bool) -> None:
    client = Lacking(MISSING)
    model = RealModel(ClientModel("some/model", cast("Any", client), Capabilities()))

    async def ask() -> None:
        if not stream:
            await model.complete(REQUEST)
        async for _ in model.stream(REQUEST):
            pass

    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask())
    assert (caught.value.kind, caught.value.is_transient, caught.value.hits_every_request) == ("setup", False, True)
    assert "it needs the module 'thing', which is not installed" in str(caught.value)
    assert (client.asked, caught.value.failed_attempts) == (1, ())


def test_a_provider_that_says_so_itself_is_a_provider() -> None:
    class Remote(Lacking):
        async def complete(self, request: Any) -> Any:
            raise ConnectionError("500: No module named 'thing'")

    with pytest.raises(ProviderError) as caught:
        run_sync(ClientModel("some/model", cast("Any", Remote(MISSING)), Capabilities()).complete(REQUEST))
    assert caught.value.kind == "connection"


ASK = """
import asyncio, sys
sys.modules["mcp"] = None  # not importable, wherever it is installed
from whichloop.dspy_seam import DspyModel, open_lm
from whichloop.models.server import Server
from whichloop.protocol import Message, NativeCall, Reply, Request, ToolSpec
from tests.models.served import Book, fixed

ASKED = Request((Message("user", "?"),), (ToolSpec("add", "Adds.", {"type": "object", "properties": {}}),))


async def ask():
    async with Server(Book(any=fixed(Reply("", (NativeCall("call_0", "add", "{}"),), None, "tool_calls")))) as server:
        model = DspyModel(open_lm("litellm_proxy/scripted", f"{server.url}/v1"))
        streamed = [chunk async for chunk in model.stream(ASKED)][-1].reply
        print(type(model.client).__name__, *(call.name for call in (await model.complete(ASKED)).calls + streamed.calls))


asyncio.run(ask())
"""


@pytest.mark.slow
def test_litellm_takes_tools_without_the_package_for_mcp() -> None:
    """Nor does the switch for it reach the provider: the server refuses fields that OpenAI's API lacks."""
    environment = os.environ | {"LITELLM_PROXY_API_KEY": "none", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["LiteLLMClient add add"], done.stderr
