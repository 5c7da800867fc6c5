"""Many clients at once on every wire, each with a fault of its own, beside some that break all rules: none loses a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from whichloop.models.server import MAX_BODY_BYTES, Server

from .served import Book, exchange
from .wire_clients import CLIENTS
from .wire_faults import FAULTS, WIRE_NAMES, Met, cell, met, shown

RUDE = 4
"""Clients of each kind that spoil what they can."""


async def sends_half(server: Server) -> None:
    """Send the beginning of a request, and go away when all others have their replies."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 99\r\n\r\n{{".encode())
        await asyncio.Event().wait()
    finally:
        writer.close()


async def sends_noise(server: Server) -> None:
    assert b" 400 " in await exchange(server, b"\x00\x01 noise\r\n\r\n")


async def sends_too_much(server: Server) -> None:
    head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n"
    assert b" 413 " in await exchange(server, f"{head}Connection: close\r\n\r\n".encode() + b"x" * 100_000)


async def sends_no_json(server: Server) -> None:
    head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nContent-Length: 9\r\n\r\n"
    assert b" 400 " in await exchange(server, f"{head}{{not json".encode())


SPOILERS: tuple[Callable[[Server], Awaitable[None]], ...] = (sends_half, sends_noise, sends_too_much, sends_no_json)


@pytest.mark.thorough
@pytest.mark.parametrize("wire", WIRE_NAMES)
def test_every_client_meets_its_own_fault_whoever_else_asks(wire: str) -> None:
    """One of a pair of clients asks for a whole reply, the other for a stream."""
    kinds = [*FAULTS, *FAULTS]
    trials = {f"{number}-{stream}": FAULTS[kind]() for number, kind in enumerate(kinds) for stream in (0, 1)}

    async def work() -> list[Met]:
        async with Server(Book(**trials)) as server:
            rude = [asyncio.ensure_future(spoil(server)) for spoil in SPOILERS for _ in range(RUDE)]
            asked = (
                met(server, CLIENTS[wire], kind, stream=bool(stream), trial=f"{number}-{stream}")
                for number, kind in enumerate(kinds)
                for stream in (0, 1)
            )
            found = await asyncio.gather(*asked)
            for waiting in rude[:RUDE]:
                waiting.cancel()
            ended = await asyncio.gather(*rude, return_exceptions=True)
            assert [type(end) for end in ended[RUDE:]] == [type(None)] * (len(SPOILERS) - 1) * RUDE
            return found

    found, page = asyncio.run(work()), shown()
    for number, kind in enumerate(kinds):
        assert cell(kind, *found[2 * number : 2 * number + 2]) == page[kind, wire]
