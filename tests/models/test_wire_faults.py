"""Every fault on every wire: each cell of the table in docs/serve.md.

`python -m tests.models.test_wire_faults --write` writes the table.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from whichloop.models.fake import FakeModel
from whichloop.models.server import ServedTrial, Server
from whichloop.models.tunnel import Tunnel
from whichloop.models.wires import WIRES
from whichloop.protocol import NativeCall, Reply

from .served import Book, exchange, served, struck
from .wire_clients import CLIENTS, Said

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
LIMIT = 16
"""Tokens that a request allows: no fewer than Responses takes."""
LONG = json.dumps({"a": 1, "b": 1, "note": "x" * 200})
WIRE_NAMES = tuple(sorted((wire.name for wire in WIRES), key=list(CLIENTS).index))
"""Raises ValueError if a wire has no client."""


@dataclass(frozen=True, slots=True)
class Met:
    """What came back for one request."""

    status: int
    """0 if nothing came."""
    headers: Mapping[str, str]
    said: Said | None
    """None if what came could not be read, or is an error."""
    error: str = ""
    wait: str = ""
    """What the body says of how long to wait."""
    whole: bool = True
    """Whether all came that the headers promised."""


def _saying(*calls: NativeCall) -> ServedTrial:
    return served(FakeModel(then=Reply("", calls, finish_reason="tool_calls")), Tunnel())


def _twins() -> ServedTrial:
    return _saying(NativeCall("call_0", "add", '{"a": 1, "b": 1}'), NativeCall("call_0", "add", '{"a": 2, "b": 2}'))


FAULTS: Mapping[str, Callable[[], ServedTrial]] = {
    "`wire.malformed`": lambda: struck("wire.malformed"),
    "`wire.truncated`": lambda: struck("wire.truncated"),
    "`wire.empty`": lambda: struck("wire.empty"),
    "two calls with one id": _twins,
    "`max_tokens` in the middle of a call": lambda: _saying(NativeCall("call_0", "add", LONG)),
    "`provider.rate_limit`": lambda: struck("provider.rate_limit"),
    "`provider.server`": lambda: struck("provider.server"),
    "`provider.overloaded`": lambda: struck("provider.overloaded"),
    "`provider.interrupted`": lambda: struck("provider.interrupted"),
    "`provider.timeout`": lambda: struck("provider.timeout"),
    "`provider.dropped`": lambda: struck("provider.dropped"),
    "`provider.cut`": lambda: struck("provider.cut"),
    "`provider.garbled`": lambda: struck("provider.garbled"),
}
"""Row of the table → a trial whose reply has the fault."""


async def met(server: Server, client: Any, fault: str, *, stream: bool) -> Met:
    """Ask over a plain socket, so that nothing mends what comes, and read it."""
    limit = LIMIT if fault.startswith("`max_tokens`") else None
    body = json.dumps(client.body(stream=stream, max_tokens=limit)).encode()
    named = {"Host": f"127.0.0.1:{server.port}", "Connection": "close", "Content-Length": str(len(body)), **client.headers}
    head = f"POST {client.path(stream=stream)} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return read(client, await exchange(server, head.encode() + b"\r\n" + body), stream=stream)


def read(client: Any, raw: bytes, *, stream: bool) -> Met:
    top, _, rest = raw.partition(b"\r\n\r\n")
    if not top.startswith(b"HTTP/"):
        return Met(0, {}, None, whole=False)
    status, *lines = top.decode().splitlines()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    whole = rest.endswith(b"0\r\n\r\n") if "transfer-encoding" in headers else len(rest) == int(headers["content-length"])
    body = _joined(rest) if "transfer-encoding" in headers else rest
    found = Met(int(status.split()[1]), headers, None, whole=whole)
    if found.status != 200:
        failure = json.loads(body)
        return replace(found, error=client.error(failure), wait=client.wait(failure))
    try:
        return replace(found, said=client.read_stream(_events(body)) if stream else client.read(json.loads(body)))
    except (ValueError, KeyError):
        return found


def _joined(body: bytes) -> bytes:
    """Return the chunks of a body, whole or not, put together (RFC 9112, section 7.1)."""
    made = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        made, body = made + body[:length], body[length + 2 :]
    return made


def _events(body: bytes) -> list[tuple[str, str]]:
    """Return the names and data of the events that came whole."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((fields.get("event", ""), fields.get("data", "")))
    return found


async def both(fault: str, wire: str) -> tuple[Met, Met]:
    """Meet a fault whole, and in a stream."""
    found = []
    for stream in (False, True):
        async with Server(Book(any=FAULTS[fault]())) as server:
            found.append(await met(server, CLIENTS[wire], fault, stream=stream))
    return found[0], found[1]


SHOWN = ("retry-after", "retry-after-ms", "x-should-retry")


def cell(fault: str, whole: Met, stream: Met) -> str:
    """Return the table's words for what was met."""
    one, other = _told(fault, whole), _told(fault, stream)
    return one if one == other else f"{one}. In a stream: {other}"


def _told(fault: str, found: Met) -> str:
    if not found.status:
        return "reset before any byte"
    if found.status != 200:
        headers = [f"`{name}: {found.headers[name]}`" for name in SHOWN if name in found.headers]
        headers += [f"`{found.wait}`"] if found.wait else []
        headers += [f"`{name}: 0`" for name, value in found.headers.items() if "remaining" in name and value == "0"][:1]
        return ", ".join([f"{found.status} `{found.error}`", *headers])
    if not found.whole:
        return "200, breaks off"
    if found.said is None:
        return "200, no JSON"
    if found.said.error:
        return f"200, begins, then the error `{found.said.error}`"
    return f"`{found.said.finish}`, {_calls(found.said)}"


def _calls(said: Said) -> str:
    if not said.calls:
        return "no call, no text" if not said.text else "no call"
    ids = len({call.id for call in said.calls})
    if len(said.calls) > 1:
        return "one id" if ids == 1 and said.calls[0].id else f"{ids} ids" if said.calls[0].id else "no ids"
    (call,) = said.calls
    if isinstance(call.arguments, str):
        return f"arguments as they are, {len(call.arguments)} characters"
    return f"arguments `{json.dumps(call.arguments)}`"


def table() -> str:
    """Return the table as the page has it."""

    async def rows() -> list[list[str]]:
        return [[fault, *[cell(fault, *await both(fault, wire)) for wire in WIRE_NAMES]] for fault in FAULTS]

    lines = [["fault", *WIRE_NAMES], ["---"] * (1 + len(WIRE_NAMES)), *asyncio.run(rows())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


HEAD = "| fault | chat |"


@cache
def shown() -> dict[tuple[str, str], str]:
    """Return the page's cells by fault and wire."""
    lines = PAGE.read_text(encoding="utf-8").split(HEAD)[1].split("\n\n")[0].splitlines()
    names = ["chat", *(name.strip() for name in lines[0].strip("| ").split(" | ") if name.strip())]
    found: dict[tuple[str, str], str] = {}
    for line in lines[2:]:
        fault, *cells = line.strip("|").split("|")
        found |= {(fault.strip(), name): text.strip() for name, text in zip(names, cells, strict=True)}
    return found


@pytest.mark.parametrize("wire", WIRE_NAMES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_cell_of_the_table(fault: str, wire: str) -> None:
    assert shown()[fault, wire] == cell(fault, *asyncio.run(both(fault, wire)))


def main(arguments: list[str]) -> None:
    made = table()
    if "--write" in arguments:
        text = PAGE.read_text(encoding="utf-8")
        old = HEAD + text.split(HEAD)[1].split("\n\n")[0] + "\n"
        PAGE.write_text(text.replace(old, made), encoding="utf-8")
    print(made, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
