"""Requests that are refused: why, in no vendor's form; the wire of the request gives it one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop.protocol import ContextOverflow, ModelError, ProviderError

from ..wires.contract import ErrorAnswer, Path, Wire, WireFailure
from ..wires.fields import BadRequest
from .bodies import MAX_BODY_BYTES, json_response
from .limits import no_limits_left

RETRY_AFTER_S = 1
MAX_SHOWN = 200
"""Longest part of a path or name that a message repeats, in characters."""

Status = Literal[400, 401, 403, 404, 405, 413, 429, 500, 503, 504]


class Refusal(Exception):
    """An answer with an error status."""

    def __init__(
        self,
        status: Status,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        wait_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`param`, `code`: as OpenAI has them. `wait_s`: see `WireFailure`. `headers`: whatever the vendor."""
        super().__init__(message)
        self.failure = WireFailure(status, message, param, code, wait_s)
        self.headers = headers or {}
        self.is_treatment = False
        """Whether the trial's fault profile has the model fail, which is no mistake of the program's."""

    def on(self, wire: Wire) -> ErrorAnswer:
        """Return the answer in a vendor's form."""
        answer = wire.failure(self.failure, no_limits_left() if self.failure.status == 429 else None)
        return answer._replace(headers={**answer.headers, **self.headers})

    def response(self, wire: Wire) -> web.Response:
        status, body, headers = self.on(wire)
        return json_response(body, status, headers)


def refusal_of(error: ModelError) -> Refusal:
    """Return a model's failure as its own API words it."""
    refusal = _worded(error)
    refusal.is_treatment = isinstance(error, ContextOverflow) or (isinstance(error, ProviderError) and error.injected)
    return refusal


def _worded(error: ModelError) -> Refusal:
    message = str(error)
    if isinstance(error, ContextOverflow):
        return Refusal(400, message, param="messages", code="context_length_exceeded")
    if not isinstance(error, ProviderError):
        return Refusal(500, message)
    match error.kind:
        case "rate_limit":
            after = RETRY_AFTER_S if error.retry_after_s is None else error.retry_after_s
            return Refusal(429, message, code="rate_limit_exceeded", wait_s=after)
        case "refused":
            return Refusal(400, message, param="tool_choice", code="unsupported_parameter")
        case "bad_request":
            return Refusal(400, message)
        case "auth":
            return Refusal(401, message, code="invalid_api_key")
        case "timeout":
            return Refusal(504, message, code="timeout")
        case "overloaded":
            return Refusal(503, message)
    return Refusal(500, message)


UNREADABLE = (BadRequest, web.HTTPRequestEntityTooLarge, web.RequestPayloadError)
"""What is raised of a request that breaks a rule of the API, or cannot be read at all."""


def unreadable(error: Exception) -> Refusal:
    """Return the refusal of such a request."""
    if isinstance(error, BadRequest):
        return Refusal(error.status, str(error), param=error.param, code=error.code)
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return Refusal(413, f"The body is larger than {MAX_BODY_BYTES} bytes.", code="request_too_large")
    return Refusal(400, "The body could not be read as its headers say.")


def line_of(error: Exception) -> str:
    """Return an exception's message in one line; str() of a KeyError would put it in quotes."""
    return " ".join(str(error.args[0] if error.args else "").split())


def no_page(request: BaseRequest, path: Path = (), right: Path | None = None) -> Refusal:
    """Return the refusal of a page that is not there; `path`, `right`: it and what it should be, without the trial."""
    page = request.raw_path.partition("?")[0][:MAX_SHOWN]
    hint = "" if right is None else f"; {_hint(path, right)}"
    return Refusal(404, f"Invalid URL ({request.method} {page}){hint}", code="unknown_url")


def _hint(path: Path, right: Path) -> str:
    """Return what is wrong with the client's base address."""
    base, version = path[: len(path) - len(right) + 1], right[0]
    page = quote("/".join(right), safe="/:")[:MAX_SHOWN]
    if len(base) > 1:
        return f"the page is /{page}: the client adds /{version} itself, so its base URL must not end in /{quote(base[0])}"
    return f"the page is /{page}: the client's base URL must end in /{version}"


def no_model(message: str) -> Refusal:
    """Return the refusal of a model that the server does not have."""
    return Refusal(404, message, param="model", code="model_not_found")


def wrong_method(request: BaseRequest, right: str) -> Refusal:
    """Return the refusal of a request by another method than the one that is right here."""
    message = f"Not allowed to {request.method} on {request.raw_path[:MAX_SHOWN]}: {right} is."
    return Refusal(405, message, code="method_not_allowed", headers={"Allow": right})
