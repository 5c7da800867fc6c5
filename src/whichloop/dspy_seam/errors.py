"""Failures of providers as ours: too long, refused, invalid, temporary. Servers that speak OpenAI's format word them freely."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from dspy import lm15
from dspy._vendor.lm15.transports import TransportError
from dspy.clients.errors import wrap_error
from dspy.utils import exceptions
from dspy.utils.exceptions import ContextWindowExceededError, LMError, LMInvalidRequestError, LMRateLimitError

from whichloop.protocol import BudgetExceeded, ContextOverflow, ModelError, NativeCall, ProviderError
from whichloop.protocol.model import ProviderTrouble
from whichloop.protocol.redact import redact
from whichloop.protocol.values import one_line

_BY_TYPE: tuple[tuple[tuple[type[LMError], ...], ProviderTrouble], ...] = (
    ((exceptions.LMAuthError, exceptions.LMBillingError, exceptions.LMConfigurationError), "auth"),
    ((exceptions.LMTimeoutError,), "timeout"),
    ((exceptions.LMTransportError, exceptions.LMStreamAssemblyError), "connection"),
    ((exceptions.LMUnsupportedFeatureError,), "refused"),
)
_BY_STATUS: Mapping[int | None, ProviderTrouble] = {
    **dict.fromkeys((401, 402, 403), "auth"),
    **dict.fromkeys((408, 504), "timeout"),
    429: "rate_limit",
    **dict.fromkeys((503, 529), "overloaded"),  # OpenAI and Gemini, Anthropic: more requests than the model can take
}
_STATUS_OF_CODE = {
    **{"insufficient_quota": 402, "billing_error": 402, "authentication_error": 401, "permission_error": 403},
    **{"rate_limit_exceeded": 429, "rate_limit_error": 429, "overloaded_error": 529, "server_is_overloaded": 503},
    **{"invalid_request_error": 400, "invalid_prompt": 400, "not_found_error": 404, "timeout_error": 504, "timeout": 504},
}
"""Codes that say more than a status of 429, or that stand in a stream, where no status does."""
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
_OVERFLOW = re.compile(
    r"maximum (?:context|prompt|model|input) length"  # OpenAI, vLLM, OpenRouter, Mistral, xAI
    r"|exceeds?\b[^.]{0,40}\bcontext[ _](?:length|window|size|limit)"  # llama.cpp, Ollama, Anthropic, OpenAI's Responses
    r"|\b(?:prompt|input|request) (?:is )?too long|too many (?:input )?tokens"  # Anthropic, Bedrock, Cohere
    r"|input token count\b.{0,40}\bexceeds"  # Gemini
    r"|reduce the length of the (?:messages|prompt|input)",  # Groq
    re.IGNORECASE | re.DOTALL,
)
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
_NEEDS_A_FLAG = re.compile(r"requires? --\w")  # llama.cpp says so with status 500
_INVALID = re.compile(r"\b\d+ validation errors?\b.*?'loc': \('body', '(\w+)'|^body\.(\w+)[.:]")  # FastAPI, also with 500
_WISHES = frozenset({"response_format", "tools", "tool_choice"})
_SLIP = re.compile(
    r"fail(?:ed|ure) to call (?:a |the )?(?:tool|function)\b"  # Groq
    r"|(?:fail(?:ed|ure) to (?:parse|generate)|error parsing) (?:a |the )?(?:tool|function)[ _-]?calls?\b"  # llama.cpp, Ollama
    r"|tool call validation failed|attempted to call tool"  # Groq
    r"|json\.loads\(tool_call\.function\.arguments\).*RecursionError",  # LiteLLM, which reads arguments
    re.IGNORECASE | re.DOTALL,
)
MAX_SLIP = 1000
"""Characters of what a server says of a call that it could not take."""
_RETRY_IN = re.compile(r"(?:retry|try again) in (?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(m?s))?", re.IGNORECASE)


def refused(status: int | None, body: Any, retry_after_s: float | None = None, kind: ProviderTrouble | None = None) -> ModelError:
    """Return the failure that an error's body tells. `status`: None where it stands in a stream, or beside a status of 200.

    `kind`: what it is, if that is known from elsewhere.
    """
    message, code = _words(body)
    message = one_line(redact(message)) or (f"HTTP {status}" if status else "the provider failed")
    meant = int(code) if code.isdecimal() and 400 <= int(code) <= 599 else _STATUS_OF_CODE.get(code)
    meant = meant if status is None or (status == 429 and meant == 402) else status
    if kind is None:
        if meant == 413 or code in _OVERFLOW_CODES or (meant not in (401, 402, 403, 429) and _OVERFLOW.search(message)):
            return ContextOverflow(message)
        kind = _kind(meant, message)
    if kind == "rate_limit" and retry_after_s is None:
        retry_after_s = _told_to_wait_s(message)
    return ProviderError(message, kind, status=status, retry_after_s=retry_after_s)


def _words(body: Any) -> tuple[str, str]:
    """Return the message and the code of an error: OpenAI's, Anthropic's, Gemini's, vLLM's, FastAPI's, or a text."""
    if isinstance(body, bytes):
        text = body.decode("utf-8", "replace")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = text[:500]
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        return str(body), ""
    error = body.get("error") or body
    if not isinstance(error, Mapping):
        return str(error), ""
    message = error.get("message") or error.get("detail") or ""
    if isinstance(message, list):
        message = "; ".join(_place_and_problem(item) for item in message)
    generated = error.get("failed_generation")  # Groq's
    return f"{message} {generated}" if generated else str(message), str(error.get("code") or error.get("type") or "")


def _place_and_problem(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    place = item.get("loc")
    return f"{'.'.join(map(str, place))}: {item.get('msg')}" if isinstance(place, list) else str(item.get("msg", item))


def _kind(status: int | None, message: str) -> ProviderTrouble:
    if "credit balance is too low" in message:  # Anthropic, with status 400
        return "auth"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    invalid = _INVALID.search(message)
    if invalid is not None:
        return "refused" if (invalid[1] or invalid[2]) in _WISHES else "bad_request"
    is_ours = status is not None and (status < 500 or status == 501)
    if status is not None and _SUBJECT.search(message) and (_REFUSED if is_ours else _NEEDS_A_FLAG).search(message):
        return "refused"
    return "bad_request" if is_ours and status != 501 else "server"


def slip_in(error: Exception) -> tuple[NativeCall, ...]:
    """Return the call that a server could not read or take, and so calls a failure: it is the model's. None for other failures."""
    if not isinstance(error, ProviderError) or error.kind not in ("bad_request", "server", "refused"):
        return ()
    return (NativeCall("malformed_0", "malformed_call", str(error)[:MAX_SLIP]),) if _SLIP.search(str(error)) else ()


def is_refusal_of(message: str, fields: Iterable[str]) -> bool:
    """Return whether a server refuses one of these fields of a body."""
    return _REFUSED.search(message) is not None and any(field in message for field in fields)


def _told_to_wait_s(message: str) -> float | None:
    """Read the waiting time that OpenAI, Groq and Gemini give in words: "Please try again in 1m2.5s"."""
    match = _RETRY_IN.search(message)
    if match is None or not any(match.groups()):
        return None
    hours, minutes, rest, unit = match.groups()
    seconds = float(rest or 0) / (1000 if (unit or "").lower() == "ms" else 1)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + seconds


_ADDED = re.compile(r"\n\n  (?:To fix|credential came from|Retry advice|Provider rate-limit headers)")


def model_error(error: LMError) -> ModelError | BudgetExceeded:
    """Return DSPy's error as ours; an error that our own Model raised inside a DSPy engine comes back unchanged."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModelError | BudgetExceeded):
            return cause
        cause = cause.__cause__
    message = _ADDED.split(error.message, maxsplit=1)[0]
    if isinstance(error, ContextWindowExceededError):
        return ContextOverflow(one_line(redact(message)))
    kind = next((kind for types, kind in _BY_TYPE if isinstance(error, types)), None)
    if kind is None and error.status is None:
        kind = "rate_limit" if isinstance(error, LMRateLimitError) else None
        kind = kind or ("bad_request" if isinstance(error, LMInvalidRequestError) else None)
    body = {"message": message or type(error).__name__, "code": error.provider_code}
    return refused(error.status, body, error.retry_after, kind)


def failure_of(error: Exception, model: str) -> Exception:
    """Return whatever a client raises as one of our errors, with nothing behind it: that may hold a key."""
    failure = _failure(error, model)
    failure.__cause__ = failure.__context__ = None
    return failure


def _failure(error: Exception, model: str) -> Exception:
    if isinstance(error, ModelError | BudgetExceeded):
        return error
    if (missing := _missing_module(error)) is not None:
        return missing
    if isinstance(error, lm15.LM15Error):
        error = wrap_error(error, model=model)
    if isinstance(error, LMError):
        return model_error(error)
    said = one_line(redact(str(error)))
    if isinstance(error, TransportError | OSError):
        return ProviderError(said or type(error).__name__, "timeout" if isinstance(error, TimeoutError) else "connection")
    return ProviderError(f"the reply cannot be read: {type(error).__name__}: {said}", "server")


def _missing_module(error: BaseException) -> ProviderError | None:
    """Return the failure of a client that could not be imported whole; None for any other error.

    LiteLLM imports what it needs with the request, and takes a missing module for a broken connection.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ImportError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    named = isinstance(cause, ModuleNotFoundError) and cause.name
    problem = f"it needs the module {cause.name!r}, which is not installed" if named else one_line(redact(str(cause)))
    return ProviderError(f"the model's client cannot work on this machine: {problem}", "setup")
