"""Turns the errors of DSPy and its providers into ours: too long, refused, invalid, temporary."""

from __future__ import annotations

import re

from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMRateLimitError,
    LMServerError,
    LMStreamAssemblyError,
    LMTimeoutError,
    LMTransportError,
    LMUnsupportedFeatureError,
)

from whichloop.protocol import BudgetExceeded, ContextOverflow, ModelError, ProviderError
from whichloop.protocol.model import ProviderTrouble
from whichloop.protocol.redact import redact
from whichloop.protocol.values import one_line

_KINDS: tuple[tuple[tuple[type[LMError], ...], ProviderTrouble], ...] = (
    ((LMRateLimitError,), "rate_limit"),
    ((LMTimeoutError,), "timeout"),
    ((LMTransportError, LMStreamAssemblyError), "connection"),  # a stream that ends before its end was cut
    ((LMAuthError, LMBillingError, LMConfigurationError), "auth"),
    ((LMUnsupportedFeatureError,), "refused"),
    ((LMInvalidRequestError,), "bad_request"),
)

OVERLOADED = frozenset({503, 529})
"""Statuses by which OpenAI, Gemini (503) and Anthropic (529) say that a model has more requests than it can take."""


def model_error(error: LMError) -> ModelError | BudgetExceeded:
    """Return DSPy's error as ours; an error that our own Model raised inside a DSPy engine comes back unchanged."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModelError | BudgetExceeded):
            return cause
        cause = cause.__cause__
    message = _message_of(error)
    if _is_overflow(error, message):
        return ContextOverflow(message)
    kind: ProviderTrouble = next((kind for types, kind in _KINDS if isinstance(error, types)), "server")
    if kind == "bad_request":
        kind = _by_status(error.status)
    if kind in ("bad_request", "server"):
        kind = _invalid(message) or ("refused" if _is_refusal(error.status, message) else kind)
    if kind == "server" and error.status in OVERLOADED:
        kind = "overloaded"
    wait_s = error.retry_after
    if kind == "rate_limit" and wait_s is None:
        wait_s = _told_to_wait_s(message)
    return ProviderError(message, kind, status=error.status, retry_after_s=wait_s)


def missing_module(error: BaseException) -> ProviderError | None:
    """Return the failure of a client that could not be imported whole; None for any other error.

    LiteLLM imports what it needs with the request, and takes a missing module for a broken connection.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ImportError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        problem = f"it needs the module {cause.name!r}, which is not installed"
    else:
        problem = one_line(redact(str(cause)))
    return ProviderError(f"the model's client cannot work on this machine: {problem}", "setup")


def _by_status(status: int | None) -> ProviderTrouble:
    """Return the kind by status: LiteLLM calls every unknown error a bad request, and keeps the status."""
    if status in (401, 402, 403):
        return "auth"
    if status in (408, 504):
        return "timeout"
    if status == 429:
        return "rate_limit"
    return "server" if status is not None and status >= 500 else "bad_request"


# --- too long ---

# Only OpenAI's own code for it is known to DSPy; servers that speak OpenAI's format word it as they like.
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_OVERFLOW = re.compile(
    r"maximum (?:context|prompt|model|input) length"  # OpenAI, vLLM, OpenRouter, Mistral, xAI
    r"|context_length_exceeded|exceed_context_size"
    r"|exceeds?\b[^.]{0,40}\bcontext[ _](?:length|window|size|limit)"  # llama.cpp, Ollama, Anthropic, OpenAI's Responses
    r"|\b(?:prompt|input|request) (?:is )?too long|too many (?:input )?tokens"  # Anthropic, Bedrock, Cohere
    r"|input token count\b.{0,40}\bexceeds"  # Gemini
    r"|reduce the length of the (?:messages|prompt|input)"  # Groq
    r"|max_new_tokens` must be <=",  # text-generation-inference
    re.IGNORECASE | re.DOTALL,
)
_TOO_LARGE = 413


def _is_overflow(error: LMError, message: str) -> bool:
    if isinstance(error, ContextWindowExceededError):
        return True
    if not isinstance(error, LMInvalidRequestError | LMServerError):
        return False
    return error.status == _TOO_LARGE or error.provider_code in _OVERFLOW_CODES or _OVERFLOW.search(message) is not None


# --- refused ---

_SUBJECT = re.compile(
    r"tool[_ -]?(?:choice|call\w*|use)|\btools?\b|function[_ -]?call\w*"
    r"|response[_ -]?format|json[_ -]?(?:schema|mode)|structured[_ -]?output|guided[_ -]decoding|grammar",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"unsupported|\bnot (?:be |currently |yet )?(?:support|available|enabled|allowed|permitted|implemented)|n't support"
    r"|unavailable|no endpoints found|requires? --|may not be|can(?:not|'t) be (?:used|combined)|cannot use"
    r"|unrecognized|unknown (?:parameter|field|argument|name)|unexpected (?:parameter|keyword|field)|extra inputs",
    re.IGNORECASE,
)
_NEEDS_A_FLAG = re.compile(r"requires? --\w")  # llama.cpp says so with status 500, vLLM with 400
_REFUSING = frozenset({400, 404, 405, 415, 422, 501})


def _is_refusal(status: int | None, message: str) -> bool:
    """Return whether the server refused tools, a forced tool or a response schema, which a loop can do without."""
    if status is None or not _SUBJECT.search(message):
        return False
    return bool((_REFUSED if status in _REFUSING else _NEEDS_A_FLAG).search(message))


# --- invalid ---

_INVALID = re.compile(
    r"\b\d+ validation errors?\b.*?'loc': \('body', '(?P<said>\w+)'"  # FastAPI, as it prints itself: llama-cpp-python with 500
    r"|^body\.(?P<listed>\w+)[.:]"  # FastAPI, as `transport.py` words it
)
_WISHES = frozenset({"response_format", "tools", "tool_choice"})


def _invalid(message: str) -> ProviderTrouble | None:
    """Return the kind of a request that failed its server's validation, whatever the status; None for any other failure."""
    match = _INVALID.search(message)
    if match is None:
        return None
    return "refused" if (match["said"] or match["listed"]) in _WISHES else "bad_request"


# --- wait ---

_RETRY_IN = re.compile(r"(?:retry|try again) in (?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(m?s))?", re.IGNORECASE)


def _told_to_wait_s(message: str) -> float | None:
    """Read the waiting time that OpenAI, Groq and Gemini give in words: "Please try again in 1m2.5s"."""
    match = _RETRY_IN.search(message)
    if match is None or not any(match.groups()):
        return None
    hours, minutes, rest, unit = match.groups()
    seconds = float(rest or 0) / (1000 if (unit or "").lower() == "ms" else 1)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + seconds


# --- words ---

_ADDED = re.compile(r"\n\n  (?:To fix|credential came from|Retry advice|Provider rate-limit headers)")


def _message_of(error: LMError) -> str:
    """Return the provider's words in one line, without secrets and without what lm15 adds for programmers."""
    message = _ADDED.split(redact(error.message), maxsplit=1)[0]
    return one_line(message) or (f"HTTP {error.status}" if error.status else type(error).__name__)
