"""Limits on a reply that a request sets, and the limits on requests that a provider's answers tell of."""

from __future__ import annotations

from dataclasses import replace

from whichloop.protocol import NativeCall, Reply, Request, Sampling
from whichloop.protocol.tokens import CHARS_PER_TOKEN, estimate_input, estimate_tokens, estimate_usage

from ..wires.contract import RateLimitState

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
