"""Clients of real models: connections, retries, names, keys and addresses."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from whichloop.dspy_seam import close_local_clients, local_client
from whichloop.dspy_seam.clients import LOCAL_KEY
from whichloop.models.local.model import open_model
from whichloop.protocol import (
    ModelError,
    ProviderError,
    Reply,
)

from .provider import (
    HANG_UP,
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
    failure,
    in_turn,
    serving,
)

# --- clients of a server on this machine ---


def test_local_clients_share_their_connections(shared):
    shared.rule = lambda heard: completion("ok")

    async def ask_all() -> list[str]:
        models = [local_client(shared.url) for _ in range(5)]
        replies = [await model.complete(HELLO) for model in models]
        await close_local_clients()
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
    assert asyncio.run(_ask(local_client(shared.url), HELLO, close_local_clients)).text == "direct"
    assert ask_once(shared).text == "direct"


# --- retries ---


def test_a_transient_failure_is_tried_again():
    with serving(in_turn(failure(503, "busy"), HANG_UP, completion("at last"))) as server:
        assert ask(server).text == "at last"
        assert len(server.seen) == 3


@pytest.mark.parametrize(
    "said",
    [
        failure(401, "no"),
        failure(400, "no"),
        failure(400, "no", "context_length_exceeded"),
        failure(429, "no", "insufficient_quota"),
    ],
    ids=["auth", "bad request", "overflow", "quota"],
)
def test_what_would_fail_again_is_not_tried_again(said):
    with serving(in_turn(said)) as server:
        with pytest.raises(ModelError):
            ask(server)
        assert len(server.seen) == 1


@pytest.mark.parametrize("in_words", [False, True], ids=["seconds", "date"])
def test_the_time_to_come_back_is_read(shared, in_words):
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    shared.rule = lambda heard: failure(429, "slow down", **{"Retry-After": later if in_words else "99.5"})
    with pytest.raises(ProviderError) as caught:
        ask_once(shared)
    assert caught.value.retry_after_s == pytest.approx(99.5, abs=2)


def test_a_server_that_hangs_is_given_up_on():
    released = threading.Event()

    def hang(heard: SeenRequest) -> CannedAnswer:
        released.wait(30)
        return completion()

    with serving(hang) as server:
        try:
            with pytest.raises(ProviderError, match=r"no reply within 0\.2 s") as caught:
                ask(server, patience_s=0.2)
        finally:
            released.set()
    assert caught.value.kind == "timeout"


def test_cancelling_a_call_ends_it_between_attempts_too():
    async def cancelled_while_pausing(server: Server) -> bool:
        model = open_model(NAME, server.url)
        running = asyncio.ensure_future(model.complete(HELLO))
        while not server.seen:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait({running}, timeout=5)
        await model.aclose()
        return running.cancelled()

    with serving(in_turn(failure(429, "later", **{"Retry-After": "15"}))) as server:
        assert asyncio.run(cancelled_while_pausing(server))
        assert len(server.seen) == 1


def test_64_requests_are_in_flight_at_once():
    together = threading.Barrier(64)  # nobody gets an answer before all have asked

    def wait_for_all(heard: SeenRequest) -> CannedAnswer:
        together.wait(20)
        return completion()

    async def ask_all(server: Server) -> list[Reply]:
        model = open_model(NAME, server.url)
        try:
            return await asyncio.gather(*(model.complete(HELLO) for _ in range(64)))
        finally:
            await model.aclose()

    with serving(wait_for_all) as server:
        replies = asyncio.run(ask_all(server))
        assert len(replies) == len(server.seen) == 64


# --- names, keys, addresses ---


@pytest.mark.parametrize(
    ("name", "key"), [("openai/gpt-4o", "OPENAI_API_KEY"), ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_named(name, key):
    with pytest.raises(ValueError, match=f"no key: set {key} in the environment"):
        open_model(name)


@pytest.mark.parametrize(
    "url",
    ["localhost:8000/v1", "ftp://host/v1", "http://", "http://host:99999/v1", "http://user:hunter2@host/v1", "http://hunter2@host"],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_repeated(url):
    with pytest.raises(ValueError, match="base URL") as caught:
        open_model(NAME, url)
    assert "hunter2" not in str(caught.value)


def test_a_server_of_ones_own_needs_no_key(shared):
    ask(shared)
    assert shared.seen[-1].key == LOCAL_KEY


def test_a_server_of_ones_own_gets_the_key_that_is_set(shared, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ask(shared)
    assert shared.seen[-1].key == SECRET


def test_a_key_for_a_gateway_goes_to_the_gateway(shared, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", shared.url)
    model = open_model(NAME)
    asyncio.run(_ask(model, HELLO, model.aclose))
    assert shared.seen[-1].key == SECRET
