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

# --- who may ask, and what for ---


async def asked_as(server: Server, host: str, extra: str = "", path: str = "/v1/models") -> tuple[int, Any]:
    got = await exchange(server, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{extra}Connection: close\r\n\r\n".encode())
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_only_loopback_names_may_be_asked_for():
    async def work(server, asking):
        port = server.port
        good = [f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"]
        bad = [
            f"evil.example:{port}",
            "127.0.0.1",
            "127.0.0.1:1",
            f"127.0.0.1:{port + 1}",
            f"127.0.0.1.evil.example:{port}",
            "",
            f"user@localhost:{port}",
        ]
        return [await asked_as(server, host) for host in good], [await asked_as(server, host) for host in bad]

    good, bad = run(work, Book())
    assert [status for status, _ in good] == [200] * 4
    assert all(status in (400, 403) and body["error"]["message"] for status, body in bad)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/t/any/mcp", "/shop"])
def test_no_page_may_be_asked_for_under_another_name_or_by_a_page_of_a_browser(path):
    async def work(server, asking):
        other = await asked_as(server, f"evil.example:{server.port}", path=path)
        return [other, await asked_as(server, f"127.0.0.1:{server.port}", "Origin: http://127.0.0.1\r\n", path)]

    refused = run(work, Book(), more=shop, mcp=Book().find)
    assert [(status, body["error"]["code"]) for status, body in refused] == [(403, "host_refused"), (403, "origin_refused")]


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.168.1.1", "example.com", "::"])
def test_no_other_address_is_bound(host):
    with pytest.raises(ValueError, match="loopback"):
        Server(Book(), host)


def test_a_port_in_use_is_an_error_of_the_operating_system():
    async def work(server, asking):
        with pytest.raises(OSError, match="in use"):
            async with Server(Book(), port=server.port):
                pass

    run(work, Book())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("DELETE", "/t/any/v1/chat/completions", 405),
        ("GET", "/v1/models/", 404),
        ("GET", "/v1/models/gpt", 404),
        ("GET", "/v1/completions", 404),
        ("GET", "/t/any", 404),
        ("GET", "/t/any/v1/models", 200),
        ("GET", "/t/%2e%2e/v1/models/scripted", 200),
        ("GET", "//v1/models", 404),
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


@pytest.mark.parametrize(
    ("path", "header", "page"),
    [
        ("/v1/v1/messages", "anthropic-version: 2023-06-01", "/v1/messages"),
        ("/t/a/v1/v1/messages/count_tokens", "anthropic-version: 2023-06-01", "/v1/messages/count_tokens"),
        ("/v1/v1/responses", "accept: */*", "/v1/responses"),
        ("/v1/v1beta/models/m:generateContent", "x-goog-api-key: k", "/v1/models/m:generateContent"),
        ("/chat/completions", "accept: */*", "/v1/chat/completions"),
        ("/t/a/responses", "accept: */*", "/v1/responses"),
    ],
)
def test_a_wrong_base_address_is_told_in_the_vendors_form(caplog, path, header, page):
    async def work(server, asking):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nContent-Length: 2\r\n"
        return await exchange(server, f"{head}{header}\r\n\r\n{{}}".encode())

    with caplog.at_level("INFO", "whichloop.models.server"):
        head, _, body = run(work, Book(any=fixed(Reply("x")))).partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert (int(head.split()[1]), f"the page is {page}:" in error["message"]) == (404, True)
    kinds = {"anthropic-version": {"type", "message"}, "x-goog-api-key": {"code", "message", "status"}}
    assert set(error) == kinds.get(header.partition(":")[0], FIELDS)
    assert caplog.messages == [f"refused POST {path}: 404: {error['message']}"]


@pytest.mark.parametrize("path", ["/v1/nowhere", "/nowhere", "/v1/v1/nowhere"])
def test_a_page_that_is_nowhere_has_no_hint(path):
    async def work(server, asking):
        return await asked_as(server, f"127.0.0.1:{server.port}", path=path)

    assert run(work, Book())[1]["error"]["message"] == f"No page GET {path}"


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


@pytest.mark.parametrize(("sent", "is_last"), [(b"{}", False), (b"{", True), (b"", True)], ids=["whole", "half", "unsent"])
def test_an_answer_to_half_a_request_is_the_last_of_its_connection(sent, is_last):
    """The server closes it, and the client must know before it sends the next request."""

    async def work(server, asking):
        head = f"POST /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 2\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.encode() + sent)
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        return answer

    head = run(work, Book())
    assert b" 405 " in head.splitlines()[0]
    assert (b"\r\nConnection: close\r\n" in head) is is_last


def test_half_a_body_holds_up_neither_another_request_nor_the_end():
    async def work():
        async with asyncio.timeout(10):
            async with Server(Book(any=fixed(Reply("x")))) as server, httpx.AsyncClient(base_url=server.url) as plain:
                head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 1000\r\n\r\n{{"
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(head.encode())
                answer = await plain.post("/v1/chat/completions", json=BODY)
        writer.close()
        return answer.status_code

    assert asyncio.run(work()) == 200


def test_a_body_that_unpacks_to_too_much_is_refused():
    import gzip

    packed = gzip.compress(b" " * (MAX_BODY_BYTES + 1))

    async def work(server, asking):
        async with httpx.AsyncClient() as plain:
            return await plain.post(f"{server.url}/v1/chat/completions", content=packed, headers={"Content-Encoding": "gzip"})

    response = run(work, Book())
    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")


def test_a_client_that_waits_to_be_told_to_go_on_is_told():
    async def work(server, asking):
        data = json.dumps(BODY)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        return await exchange(server, f"{head}Expect: 100-continue\r\nContent-Length: {len(data)}\r\n\r\n{data}".encode())

    first, _, rest = run(work, Book(any=fixed(Reply("x")))).partition(b"\r\n\r\n")
    assert b" 100 " in first
    assert answered(rest) == 200


def test_nothing_is_printed(capfd):
    async def work(server, asking):
        await failure(asking)
        await exchange(server, b"secret\r\n\r\n")

    run(work, Book(any=fixed(RuntimeError("secret"))))
    assert capfd.readouterr() == ("", "")


# --- further pages, and many at once ---


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
