"""lm15's connections, which keep the words of servers that wrap their errors unlike OpenAI: lm15 itself would drop them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dspy._vendor.lm15.transports import StdlibAsyncTransport

FIRST_ERROR = 400


class Transport(StdlibAsyncTransport):
    """lm15's transport with readable bodies of errors."""

    def stream(self, request: object) -> Any:
        return _OpenedResponse(super().stream(request))


class _OpenedResponse:
    """A response while it is open, an error among them with its body in OpenAI's envelope."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened

    async def __aenter__(self) -> object:
        response = await self.opened.__aenter__()
        return response if response.status < FIRST_ERROR else _ErrorResponse(response)

    async def __aexit__(self, *error: object) -> None:
        await self.opened.__aexit__(*error)


class _ErrorResponse:
    """An error response, of which lm15 reads the head and the whole body."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status = response.status
        self.reason = response.reason
        self.headers = response.headers
        self.http_version = response.http_version

    async def read(self) -> bytes:
        return enveloped(await self.response.read())


def enveloped(body: bytes) -> bytes:
    """Put the body of an error into OpenAI's envelope, which some servers (vLLM, FastAPI) leave out."""
    try:
        data = json.loads(body)
    except ValueError:
        return body
    if not isinstance(data, Mapping) or data.get("error"):
        return body
    message = data.get("message") or data.get("detail")
    if not message:
        return body
    return json.dumps({"error": {"message": _message_text(message), "type": data.get("type"), "code": data.get("code")}}).encode()


def _message_text(message: object) -> str:
    """Return the message as text: FastAPI lists problems, each with its place in the body."""
    if isinstance(message, str):
        return message
    items = message if isinstance(message, list) else [message]
    return "; ".join(_place_and_problem(item) for item in items)


def _place_and_problem(item: object) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    place = item.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return f"{where}: {item.get('msg', item)}".removeprefix(": ")
