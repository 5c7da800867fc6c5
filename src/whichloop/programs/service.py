"""An agent that runs as a service: each trial is one POST to its address, and the answer is in what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from whichloop.protocol.json_text import Json
from whichloop.protocol.wire import from_json

from .environment import API_KEY
from .executable import MAX_ANSWER_BYTES, read_answer
from .gateway import MODEL, served
from .loop import ForeignAgent
from .trial import ProgramTrial

MAX_ERROR_CHARS = 200


@dataclass(frozen=True, slots=True)
class Service(ForeignAgent):
    """An agent behind an address. It gets JSON: `question`, `base_url`, `api_key`, `model`, `tools_url`, `mcp_url`, `max_steps`.

    It answers with JSON, `{"answer": …}`, or with the answer as text. What it is given is on loopback: it runs on this machine.
    """

    url: str
    """Where it takes questions: http:// or https://."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # raised for a port that is no number, or too large
            is_address = False
        if not is_address:
            raise ValueError(f"url must begin with http:// or https:// and name a host, and a port below 65536, not {self.url!r}")

    @property
    def name(self) -> str:
        return "service"

    async def solve_trial(self, trial: ProgramTrial, question: str) -> Mapping[str, Json]:
        """Let the service solve the task. Raises OSError if nothing listens there."""
        async with served(trial) as place, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            question_body = {
                "question": question,
                "base_url": f"{place}/v1",
                "api_key": API_KEY,
                "model": MODEL,
                "tools_url": f"{place}/tools",
                "mcp_url": f"{place}/mcp",
                "max_steps": self.max_steps,
            }
            try:
                async with session.post(self.url, json=question_body) as response:
                    return _message(response.status, await response.content.read(MAX_ANSWER_BYTES))
            except aiohttp.ClientConnectorError as error:
                raise OSError(f"nothing answers at {self.url}: {error.os_error}") from None
            except aiohttp.ClientError as error:
                return {"type": type(error).__name__, "error": str(error)}


def _message(status: int, body: bytes) -> dict[str, Any]:
    """Return what came back as the message that ends a trial."""
    text = read_answer(body)
    if status >= 400:
        return {"type": f"status {status}", "error": text[:MAX_ERROR_CHARS]}
    try:
        value = from_json(text)
    except ValueError:
        return {"answer": text} if text else {}
    return {"answer": value["answer"]} if isinstance(value, dict) and "answer" in value else {"answer": text}
