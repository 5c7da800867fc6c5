"""The server on a real socket: who may ask, for which pages, and many at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.models.server import MAX_BODY_BYTES, OwnRequest, Server
from whichloop.protocol import Reply

from .served import BODY, Book, exchange, failure, fixed, run

FIELDS = {"message", "type", "param", "code"}
"""Of OpenAI's errors."""


async def asked_as(server: Server, host: str, extra: str = "", path: str = "/v1/models") -> tuple[int, Any]:
    got = await exchange(server, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{extra}Connection: close\r\n\r\n".encode())
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_only_loopback_names_may_be_asked_for():
    async def work(server, asking):
        port = server.port
        good = [f"127.0.0.1:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"]
        bad = [f"evil.example:{port}", f"127.0.0.1:{port + 1}", f"127.0.0.1.evil.example:{port}", "", f"user@localhost:{port}"]
        return [await asked_as(server, host) for host in good], [await asked_as(server, host) for host in bad]

    good, bad = run(work, Book())
    assert [status for status, _ in good] == [200] * 3
    assert all(status in (400, 403) and body["error"]["message"] for status, body in bad)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/t/any/mcp", "/shop"])
def test_no_page_may_be_asked_for_under_another_name_or_by_a_page_of_a_browser(path):
    async def work(server, asking):
        other = await asked_as(server, f"evil.example:{server.port}", path=path)
        return [other, await asked_as(server, f"127.0.0.1:{server.port}", "Origin: http://127.0.0.1\r\n", path)]

    refused = run(work, Book(), more=shop, mcp=Book().find)
    assert [(status, body["error"]["code"]) for status, body in refused] == [(403, "host_refused"), (403, "origin_refused")]


@pytest.mark.parametrize("host", ["0.0.0.0", "", "example.com"])
def test_no_other_address_is_bound(host):
    with pytest.raises(ValueError, match="loopback"):
        Server(Book(), host)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/v1/models", 405),
        ("DELETE", "/t/any/v1/chat/completions", 405),
        ("GET", "/v1/models/scripted", 404),
        ("GET", "/t/%2e%2e/v1/models", 200),
        ("GET", "/v1/../v1/models", 404),
        ("POST", "/t/%00%ff/v1/chat/completions", 404),
    ],
)
def test_each_method_and_path_is_answered_with_its_status(method, path, status):
    async def work(server, asking):
        data = json.dumps(BODY)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        return await exchange(server, f"{head}Content-Length: {len(data)}\r\n\r\n{data}".encode())

    assert answered(run(work, Book(any=fixed(Reply("x"))))) == status


def answered(got: bytes) -> int:
    """The status of an answer, which is JSON, in OpenAI's error format where it is an error."""
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"application/json" in head
    status = int(head.split()[1])
    data = json.loads(body)
    assert status == 200 or set(data["error"]) == FIELDS
    return status


def test_fuzzed_requests_are_answered_in_one_format():
    text = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)
    fields = st.dictionaries(st.sampled_from([*BODY, "tools", "stream", "metadata", "n"]), st.none() | st.integers() | text)
    loop = asyncio.new_event_loop()
    server = Server(Book(any=fixed(Reply("x"))))
    loop.run_until_complete(server.__aenter__())

    @settings(max_examples=cases(30))
    @given(text, fields | st.binary(max_size=30))
    def fuzz(path, fields):
        data = fields if isinstance(fields, bytes) else json.dumps(BODY | fields).encode()
        host = f"Host: 127.0.0.1:{server.port}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
        for target in (f"/{path}", f"/t/{path}/v1/chat/completions", "/v1/chat/completions"):
            sent = f"POST {target} HTTP/1.1\r\n{host}".encode() + data
            got = loop.run_until_complete(exchange(server, sent))
            assert answered(got) in (200, 400, 404) if b"text/event-stream" not in got else b"[DONE]" in got

    @settings(max_examples=cases(15))
    @given(st.binary(max_size=60))
    def noise(sent):
        got = loop.run_until_complete(exchange(server, b"X" + sent + b"\r\n\r\n"))
        assert got == b"" or got.splitlines()[0].split()[1] in (b"400", b"403")

    try:
        fuzz()
        noise()
        assert loop.run_until_complete(asked_as(server, f"127.0.0.1:{server.port}"))[0] == 200
    finally:
        loop.run_until_complete(server.__aexit__())
        loop.close()


def test_a_body_that_is_too_large_is_refused_unread():
    async def work(server, asking):
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        return await exchange(server, f"{head}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n".encode())

    head = run(work, Book()).split(b"\r\n")[0]
    assert b" 413 " in head


def test_a_body_that_unpacks_to_too_much_is_refused():
    import gzip

    packed = gzip.compress(b" " * (MAX_BODY_BYTES + 1))

    async def work(server, asking):
        async with httpx.AsyncClient() as plain:
            return await plain.post(f"{server.url}/v1/chat/completions", content=packed, headers={"Content-Encoding": "gzip"})

    response = run(work, Book())
    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")


def test_nothing_is_printed(capfd):
    async def work(server, asking):
        await failure(asking)
        await exchange(server, b"secret\r\n\r\n")

    run(work, Book(any=fixed(RuntimeError("secret"))))
    assert capfd.readouterr() == ("", "")


async def shop(call: OwnRequest) -> Any:
    if call.path == ("shop",):
        return {"method": call.method, "body": call.body}
    if call.path == ("t", "any", "shop"):
        call.require("PUT")
    raise LookupError("no such page")


def test_further_pages_are_answered_by_whoever_has_them():
    async def work(server, asking):
        async with httpx.AsyncClient(base_url=server.url) as plain:
            posted = await plain.post("/shop", json={"a": 1})
            wrong = await plain.get("/t/any/shop")
            missing = await plain.get("/t/any/else")
            return (posted.json(), wrong.status_code, (missing.status_code, missing.json()["error"]["message"]))

    found = run(work, Book(), more=shop)
    assert found == ({"method": "POST", "body": {"a": 1}}, 405, (404, "no such page"))
