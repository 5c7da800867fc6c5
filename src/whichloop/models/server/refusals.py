"""Requests that are refused: why, in no vendor's form; the wire of the request gives it one. And limits: of a reply that a
request sets, and those that a provider's answers tell of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal
from urllib.parse import quote

from aiohttp import web
from aiohttp.web_request import BaseRequest

from whichloop.models.wires.contract import ErrorAnswer, Path, RateLimitState, Wire, WireFailure
from whichloop.models.wires.fields import MAX_BODY_BYTES, BadRequest, json_response
from whichloop.protocol import ContextOverflow, ModelError, NativeCall, ProviderError, Reply, Request, Sampling
from whichloop.protocol.tokens import CHARS_PER_TOKEN, estimate_input, estimate_tokens, estimate_usage

REQUESTS_PER_MINUTE = 10_000
TOKENS_PER_MINUTE = 2_000_000
"""What the headers say. Nothing is limited: a fault profile refuses requests (`provider.rate_limit`)."""


def within_limits(reply: Reply, sampling: Sampling) -> Reply:
    """Return what is left of a reply that ends at the first stop sequence in its text, or after `max_tokens` tokens.

    Tokens are estimated, as everywhere. A call whose name has no room is not made; one whose arguments have not is cut.
    """
    limited = _up_to_tokens(_up_to_stop(reply, sampling.stop), sampling.max_tokens)
    if limited is reply or reply.usage is None:
        return limited
    return replace(limited, usage=estimate_usage(reply.usage.input_tokens, limited))


def stopped_at(reply: Reply, limited: Reply, stops: tuple[str, ...]) -> str:
    """Return the stop sequence at which `within_limits` has ended a reply, of which it kept a part; empty if at none."""
    first = _first_stop(reply.text, stops)
    return first[1] if first is not None and limited.finish_reason == "stop" else ""


def _first_stop(text: str, stops: tuple[str, ...]) -> tuple[int, str] | None:
    """Return where the first stop sequence in a text begins, and which it is; None if there is none."""
    return min(((place, stop) for stop in stops if stop and (place := text.find(stop)) >= 0), default=None)


def _up_to_stop(reply: Reply, stops: tuple[str, ...]) -> Reply:
    first = _first_stop(reply.text, stops)
    return reply if first is None else replace(reply, text=reply.text[: first[0]], calls=(), finish_reason="stop")


def _up_to_tokens(reply: Reply, limit: int | None) -> Reply:
    if limit is None or estimate_usage(0, reply).output_tokens <= limit:
        return reply
    text = reply.text[: limit * CHARS_PER_TOKEN]
    tokens_left = limit - estimate_tokens(text)
    calls: list[NativeCall] = []
    for call in reply.calls:
        tokens_left -= estimate_tokens(call.name)
        if tokens_left < 0 or len(text) < len(reply.text):
            break
        calls.append(replace(call, arguments=call.arguments[: tokens_left * CHARS_PER_TOKEN]))
        tokens_left -= estimate_tokens(calls[-1].arguments)
    return replace(reply, text=text, calls=tuple(calls), finish_reason="length")


# --- what is left ---


def limits_after(request: Request) -> RateLimitState:
    """Return what a request leaves of limits that fill up again all the time."""
    tokens = min(TOKENS_PER_MINUTE, estimate_input(request) + (request.sampling.max_tokens or 0))
    return _limits_left(1, tokens)


def no_limits_left() -> RateLimitState:
    """Return what is left when the limit on requests is reached."""
    return _limits_left(REQUESTS_PER_MINUTE, 0)


def _limits_left(requests: int, tokens: int) -> RateLimitState:
    """Return what is left after that many requests and tokens of the minute."""
    remaining = REQUESTS_PER_MINUTE - requests, TOKENS_PER_MINUTE - tokens
    waits = 60 * requests / REQUESTS_PER_MINUTE, 60 * tokens / TOKENS_PER_MINUTE
    return RateLimitState(REQUESTS_PER_MINUTE, TOKENS_PER_MINUTE, *remaining, *waits)


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
