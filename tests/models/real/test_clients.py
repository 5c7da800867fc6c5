"""Clients of real models: connections, retries, names, keys and addresses."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from whichloop.dspy_seam import local_client
from whichloop.dspy_seam.clients import LOCAL_KEY
from whichloop.models.local.model import open_model
from whichloop.protocol import ProviderError

from .provider import (
    HELLO,
    NAME,
    SECRET,
    CannedAnswer,
    SeenRequest,
    Server,
    _ask,
    ask,
    ask_once,
    completion,
    frame,
    read_once,
    serving,
)


def test_a_local_client_keeps_its_connection(shared):
    shared.rule = lambda heard: completion("ok")

    async def ask_all() -> list[str]:
        model = local_client(shared.url)
        replies = [await model.complete(HELLO) for _ in range(5)]
        await model.aclose()
        return [reply.text for reply in replies]

    before = len(shared.seen)
    assert asyncio.run(ask_all()) == ["ok"] * 5
    assert {heard.port for heard in shared.seen[before:]} == {shared.seen[-1].port}
    assert {heard.key for heard in shared.seen[before:]} == {LOCAL_KEY}


def test_a_local_client_goes_round_a_proxy(shared, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    shared.rule = lambda heard: completion("direct")
    assert asyncio.run(_ask(local_client(shared.url), HELLO)).text == "direct"
    assert ask_once(shared).text == "direct"


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://host/v1", "http://host:99999/v1", "http://user:hunter2@host/v1", "http://hunter2@host"]
)
def test_an_address_that_cannot_be_used_is_refused_without_being_repeated(url):
    with pytest.raises(ValueError, match="base URL") as caught:
        open_model(NAME, url)
    assert "hunter2" not in str(caught.value)


def test_a_server_of_ones_own_gets_the_key_that_is_set_or_none_and_a_gateway_its_own(shared, monkeypatch):
    ask(shared)
    assert shared.seen[-1].key == LOCAL_KEY
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ask(shared)
    assert shared.seen[-1].key == SECRET
    monkeypatch.setenv("OPENAI_BASE_URL", shared.url)
    model = open_model(NAME)
    asyncio.run(_ask(model, HELLO))
    assert shared.seen[-1].key == SECRET


@pytest.mark.parametrize(
    ("frames", "cut", "kind"),
    [
        ([frame({"content": "a"})], True, "connection"),
        ([frame({"content": "a"})], False, "connection"),
        ([], False, "server"),
        ([], True, "connection"),
        ([frame({"content": "a"}), "{no json", "[DONE]"], False, "server"),
        ([frame({"content": "a"}), {"error": {"message": "oops", "type": "server_error", "code": None}}], False, "server"),
    ],
    ids=["cut", "no end", "nothing", "cut at once", "garbled", "error"],
)
def test_a_broken_stream_is_an_error(shared, frames, cut, kind):
    shared.rule = lambda heard: CannedAnswer(None, frames=frames, cut=cut)
    with pytest.raises(ProviderError) as caught:
        read_once(shared)
    assert caught.value.kind == kind
    assert caught.value.__cause__ is None


def test_closing_a_stream_early_closes_its_connection():
    def endless(heard: SeenRequest) -> CannedAnswer:
        return CannedAnswer(None, frames=(frame({"content": "x" * 1000}) for _ in range(1_000_000)))

    async def read_a_little(server: Server) -> int:
        model = open_model(NAME, server.url)
        read = 0
        async with aclosing(model.stream(HELLO)) as chunks:
            async for _ in chunks:
                read += 1
                if read == 3:
                    break
        assert await asyncio.to_thread(server.left.wait, 20)
        await model.aclose()
        return read

    with serving(endless) as server:
        assert asyncio.run(read_a_little(server)) == 3
