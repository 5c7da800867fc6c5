"""What reaches a wire of a request: its body, and the path and query that vendors put the model and the kind of answer in."""

from __future__ import annotations

from typing import Any

import httpx

from whichloop.models.server import server as serving
from whichloop.models.wires.base import Incoming, WireRequest
from whichloop.models.wires.chat import ChatWire
from whichloop.protocol import Reply

from .served import BODY, Book, fixed, run


class Listening(ChatWire):
    """Chat Completions that keeps what it is given to read."""

    def __init__(self) -> None:
        self.heard: list[Incoming] = []

    def read(self, incoming: Incoming) -> WireRequest:
        self.heard.append(incoming)
        return super().read(incoming)


def test_a_wire_reads_the_path_and_the_query_beside_the_body(monkeypatch):
    """The path is that below the trial, decoded; of a name that is given twice, the first value counts."""
    wire = Listening()
    monkeypatch.setattr(serving, "wire_for", lambda path, headers: wire)

    async def work(server: Any, asking: Any) -> int:
        async with httpx.AsyncClient() as plain:
            asked = await plain.post(f"{server.url}/t/left/v1/ch%61t/completions?alt=sse&key=%20a&alt=b", json=BODY)
            return asked.status_code

    assert run(work, Book(left=fixed(Reply("x")))) == 200
    (heard,) = wire.heard
    assert heard.path == ("v1", "chat", "completions")
    assert (heard.query["alt"], heard.query["key"], heard.body) == ("sse", " a", BODY)
