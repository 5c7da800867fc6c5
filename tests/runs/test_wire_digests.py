"""One experiment over each vendor's wire: what a run of the scripted model says in process, it says there too. Equal digests.

A wire carries the codec's name in `metadata`, so that the loops speak as they do in process (see docs/serve.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dspy import lm15

from loopbench.dspy_seam import clients
from loopbench.dspy_seam.model import Extensions, Lm15Model
from loopbench.protocol import Capabilities, Reply, Request
from tests import over_http as putting_through

from .test_trial_models import OverHttp, made, told

LOOPS = ("finish", "phased", 'bare(on_provider_error="observe")', 'bare(decision_format="native")')
DOORS: dict[str, tuple[str, Callable[..., Any]]] = {
    "responses": ("openai", lm15.AsyncOpenAILM),
    "messages": ("anthropic", lm15.AsyncAnthropicLM),
}
"""Wire → lm15's name for the vendor, and its client of that API."""


class LocalWire(clients.LocalClient):
    """lm15's client of a vendor's API, on the connections that all local clients share."""

    def __init__(self, wire: str, url: str) -> None:
        super().__init__(url, "scripted")
        self.provider, self._vendor = DOORS[wire]

    def _door(self) -> Any:
        loop = asyncio.get_running_loop()
        door = self._doors.get(loop)
        if door is None:
            transport = self.transports.get(loop)
            if transport is None:
                transport = self.transports[loop] = clients._transport(self.url)
            door = self._doors[loop] = self._vendor(api_key=clients.LOCAL_KEY, base_url=self.url, transport=transport)
        return door


class Streamed(Lm15Model):
    """A model whose replies are read as streams."""

    async def complete(self, request: Request) -> Reply:
        chunks = [chunk async for chunk in self.stream(request)]
        assert chunks[-1].reply is not None
        return chunks[-1].reply


@dataclass(frozen=True)
class Way:
    """How the scripted model is asked."""

    wire: str
    is_streamed: bool

    def client(self, url: str, extensions: Extensions | None = None) -> Lm15Model:
        kind = Streamed if self.is_streamed else Lm15Model
        return kind(f"{self.wire}/scripted", LocalWire(self.wire, url), Capabilities(response_schema=True), extensions)


CASES = [
    ("responses", False, "provider-trouble"),
    ("responses", True, "provider-trouble"),
    # A whole message of Anthropic's has no room for arguments that are not an object; a stream of it has.
    ("messages", False, "provider-trouble"),
    ("messages", True, "flaky-format"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("wire", "is_streamed", "profile"), CASES)
def test_a_run_over_a_wire_has_the_digest_of_the_run_in_process(
    over_http: OverHttp, tmp_path: Path, monkeypatch: Any, wire: str, is_streamed: bool, profile: str
) -> None:
    blown: dict[str, Any] = {"loops": LOOPS, "profiles": (profile,), "suite": "arithmetic(size=6)"}
    inside = made(tmp_path, **blown)
    monkeypatch.setattr(putting_through, "local_client", Way(wire, is_streamed).client)
    with over_http():
        outside = made(tmp_path, **blown)
    assert {record.status for record in inside.records} == {"scored"}
    assert told(outside) == told(inside)
    assert outside.digest == inside.digest
