"""Limits on a reply that a request sets, and the limits on requests that a provider's answers tell of."""

from __future__ import annotations

from dataclasses import replace

from loopbench.protocol import NativeCall, Reply, Request, Sampling

from ..tokens import CHARS_PER_TOKEN, estimate_input, estimate_tokens, estimate_usage

REQUESTS_PER_MINUTE = 10_000
TOKENS_PER_MINUTE = 2_000_000
"""What the headers say. Nothing is limited: a fault profile refuses requests (`provider.rate_limit`)."""


def within_limits(reply: Reply, sampling: Sampling) -> Reply:
    """Return what is left of a reply that ends at the first stop sequence in its text, or after `max_tokens` tokens.

    Tokens are estimated, as everywhere. A call whose name has no room is not made; one whose arguments have not is cut.
    """
    kept = _up_to_tokens(_up_to_stop(reply, sampling.stop), sampling.max_tokens)
    if kept is reply or reply.usage is None:
        return kept
    return replace(kept, usage=estimate_usage(reply.usage.input_tokens, kept))


def _up_to_stop(reply: Reply, stops: tuple[str, ...]) -> Reply:
    places = [place for stop in stops if stop and (place := reply.text.find(stop)) >= 0]
    return replace(reply, text=reply.text[: min(places)], calls=(), finish_reason="stop") if places else reply


def _up_to_tokens(reply: Reply, limit: int | None) -> Reply:
    if limit is None or _tokens(reply) <= limit:
        return reply
    text = reply.text[: limit * CHARS_PER_TOKEN]
    left = limit - estimate_tokens(text)
    calls: list[NativeCall] = []
    for call in reply.calls:
        left -= estimate_tokens(call.name)
        if left < 0 or len(text) < len(reply.text):
            break
        calls.append(replace(call, arguments=call.arguments[: left * CHARS_PER_TOKEN]))
        left -= estimate_tokens(calls[-1].arguments)
    return replace(reply, text=text, calls=tuple(calls), finish_reason="length")


def _tokens(reply: Reply) -> int:
    return estimate_usage(0, reply).output_tokens


# --- headers ---


def room_headers(request: Request) -> dict[str, str]:
    """Return the headers of an answer: a request was taken from limits that fill up again all the time."""
    tokens = min(TOKENS_PER_MINUTE, estimate_input(request) + (request.sampling.max_tokens or 0))
    return _headers(1, tokens)


def refusal_headers(wait_s: float) -> dict[str, str]:
    """Return the headers of an answer with status 429. `wait_s`: seconds until there is room."""
    return _headers(REQUESTS_PER_MINUTE, 0) | {"x-ratelimit-reset-requests": _duration(wait_s), "Retry-After": f"{wait_s:g}"}


def _headers(requests: int, tokens: int) -> dict[str, str]:
    """Return OpenAI's headers after that many requests and tokens of the minute (platform.openai.com/docs/guides/rate-limits)."""
    return {
        "x-ratelimit-limit-requests": str(REQUESTS_PER_MINUTE),
        "x-ratelimit-limit-tokens": str(TOKENS_PER_MINUTE),
        "x-ratelimit-remaining-requests": str(REQUESTS_PER_MINUTE - requests),
        "x-ratelimit-remaining-tokens": str(TOKENS_PER_MINUTE - tokens),
        "x-ratelimit-reset-requests": _duration(60 * requests / REQUESTS_PER_MINUTE),
        "x-ratelimit-reset-tokens": _duration(60 * tokens / TOKENS_PER_MINUTE),
    }


def _duration(seconds: float) -> str:
    """Return a duration in Go's form, as OpenAI writes it: `6ms`, `1.5s`, `2m0s`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
