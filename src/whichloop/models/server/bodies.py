"""Bodies of HTTP requests and answers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop.protocol.wire import from_json

from ..wires.fields import BadRequest

MAX_BODY_BYTES = 32 * 1024 * 1024


async def read_json(request: BaseRequest) -> object:
    """Read a request's body. Raises BadRequest for what is not JSON, and HTTPRequestEntityTooLarge."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES)
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # nothing of the answer has been sent
    try:
        return from_json((await request.read()).decode("utf-8"))
    except ValueError:  # UnicodeDecodeError too
        raise BadRequest("We could not parse the JSON body of your request.") from None


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response whose body is JSON."""
    return web.Response(body=json_bytes(data), status=status, headers=headers, content_type="application/json")


def json_bytes(data: object) -> bytes:
    """Return compact JSON in ASCII."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode()
