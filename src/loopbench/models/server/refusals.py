"""Answers with an error status, in OpenAI's format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from aiohttp import web
from aiohttp.web_request import BaseRequest

from loopbench.protocol import ContextOverflow, ModelError, ProviderError

from ..wires.chat import error_body
from ..wires.fields import BadRequest
from .bodies import json_response
from .limits import refusal_headers

RETRY_AFTER_S = 1
MAX_SHOWN = 200
"""Longest part of a path or name that a message repeats, in characters."""

Status = Literal[400, 401, 403, 404, 405, 413, 429, 500, 504]


class Refusal(Exception):
    """An answer with an error status."""

    def __init__(
        self,
        status: Status,
        message: str,
        type: str = "invalid_request_error",  # noqa: A002  # OpenAI's word
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, type, param, code)
        self.headers = headers

    def response(self) -> web.Response:
        return json_response(self.body, self.status, self.headers)


def refusal_of(error: ModelError) -> Refusal:
    """Return a model's failure as its own API words it."""
    message = str(error)
    if isinstance(error, ContextOverflow):
        return Refusal(400, message, param="messages", code="context_length_exceeded")
    if not isinstance(error, ProviderError):
        return Refusal(500, message, "server_error")
    match error.kind:
        case "rate_limit":
            after = RETRY_AFTER_S if error.retry_after_s is None else error.retry_after_s
            return Refusal(429, message, "requests", code="rate_limit_exceeded", headers=refusal_headers(after))
        case "refused":
            return Refusal(400, message, param="tool_choice", code="unsupported_parameter")
        case "bad_request":
            return Refusal(400, message)
        case "auth":
            return Refusal(401, message, "authentication_error", code="invalid_api_key")
        case "timeout":
            return Refusal(504, message, "server_error", code="timeout")
    return Refusal(500, message, "server_error")


def bad_request(error: BadRequest) -> Refusal:
    """Return the refusal of a request that breaks a rule of the API."""
    return Refusal(400, str(error), param=error.param, code=error.code)


def line_of(error: Exception) -> str:
    """Return an exception's message in one line; str() of a KeyError would put it in quotes."""
    return " ".join(str(error.args[0] if error.args else "").split())


def no_page(request: BaseRequest) -> Refusal:
    shown = request.raw_path.partition("?")[0][:MAX_SHOWN]
    return Refusal(404, f"Invalid URL ({request.method} {shown})", code="unknown_url")


def no_model(message: str) -> Refusal:
    return Refusal(404, message, param="model", code="model_not_found")


def wrong_method(request: BaseRequest, right: str) -> Refusal:
    message = f"Not allowed to {request.method} on {request.raw_path[:MAX_SHOWN]}: {right} is."
    return Refusal(405, message, code="method_not_allowed", headers={"Allow": right})
