"""Removes secrets from text that leaves the process: errors, logs, traces, recordings, reports."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, quote_plus

MARK = "[redacted]"
MIN_SECRET_CHARS = 8
"""Values of fewer characters are words, not secrets: taking them out would spoil the text."""

_SECRET_NAMES = ("_API_KEY", "_ACCESS_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_VAGUE_NAMES = ("_KEY", "_CREDENTIALS")
"""Ends of names whose value may also be a plain word, such as a column to sort by, which is not a secret."""

# A key may follow an escape of JSON: the n of \n is not part of a word.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4}))"
_VALUE = r"(?=[^\s\"'&,;\\]*\d)[^\s\"'&,;\\]"  # with a digit, or "basic authentication" would be a secret
_SHAPES = tuple(
    (re.compile(shape), instead)
    for shape, instead in (
        (rf"(?i){_START}(bearer|basic)(\s+|%20|\+){_VALUE}{{8,}}", rf"\1\2{MARK}"),
        (
            rf"(?i)((?:api|access|auth|secret|private|client|subscription|id)[-_ ]?(?:key|token|secret)[\"'\\]*\s*[:=][\"'\\\s]*)"
            rf"{_VALUE}{{16,}}",
            rf"\1{MARK}",
        ),
        (rf"([?&](?:key|token|sig|signature|password)=){_VALUE}{{12,}}", rf"\1{MARK}"),
        (rf"{_START}sk-(?:(?:proj|ant|or|svcacct|admin)-|(?=[\w*-]*[\d*]))[\w*-]{{9,}}", MARK),  # OpenAI, Anthropic, …
        (rf"{_START}[rs]k_live_\w{{8,}}", MARK),  # Stripe
        (rf"{_START}(?:AIza|ya29\.)[\w*-]{{16,}}", MARK),  # Google
        (rf"{_START}A[KS]IA[A-Z0-9]{{12,}}", MARK),  # AWS
        (rf"{_START}(?:gh[pousr]_|hf_|gsk_|xai-|pplx-)[A-Za-z0-9]{{16,}}", MARK),  # GitHub, Hugging Face, Groq, xAI, Perplexity
        (rf"{_START}(?:github_pat_|glpat-|nvapi-)[\w-]{{16,}}", MARK),  # GitHub, GitLab, NVIDIA
        (rf"{_START}xox[abeoprs]-[\w-]{{8,}}", MARK),  # Slack
        (rf"{_START}eyJ[\w-]{{8,}}\.[\w-]{{8,}}(?:\.[\w-]*)?", MARK),  # JSON web tokens
    )
)
_HINT = re.compile(  # each begins with a letter of its own: places where none can begin are passed over fast
    r"sk-|k_live_|AIza|ya29|AKIA|ASIA|gh[pousr]_|hf_|gsk_|xai-|pplx-|_pat_|glpat|nvapi|xox|eyJ"
    r"|Key|key|KEY|Token|token|TOKEN|Secret|secret|SECRET|Bearer|bearer|BEARER|Basic|basic|BASIC"
    r"|\?sig|&sig|\?password|&password"
)
"""What every shape has, in the run of characters that makes its value or just before it."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----"
    r"(?:[^\"]{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY-----|(?:[A-Za-z0-9+/=]|\s|\\[nr])*)"
)
_USERINFO_IN_TEXT = re.compile(r"(?<=://)[^/\s?#\"'<>`\\]*@")

_RUN = 12
"""Fewest characters without a break that a key has, prefix or name included."""
_BEFORE = 32
"""Characters before such a run that may say what it is."""
_JOINED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/=~*%")
_FLAT = bytes(0x61 if code in _JOINED else 0x20 for code in range(256))
_LONG = b"a" * _RUN
_DIGIT = re.compile(r"[\d*]")
_JSON_IN_JSON = 6
"""JSON within JSON: a tool's result, in a call's arguments, in a body that an error quotes, in a trace."""


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the text with `[redacted]` in place of secrets. JSON stays JSON.

    Secrets are: the values of environment variables whose names end like a key's, whatever they look like, also as JSON, URLs, HTML
    and base64 spell them; what has the shape of a key (`sk-…`, `Bearer …`, `api_key=…`); private keys; user and password in an
    address. `environ`: os.environ by default.
    """
    secrets = _secrets(os.environ if environ is None else environ)
    if any(secret in text for secret in secrets.anywhere):
        text = secrets.pattern.sub(MARK, text)
    if _has_key(text, secrets):
        text = secrets.pattern.sub(MARK, text)
        for shape, instead in _SHAPES:
            text = shape.sub(instead, text)
    if "PRIVATE KEY-----" in text:
        text = _PRIVATE_KEY.sub(MARK, text)
    if "@" in text and "://" in text:
        text = _USERINFO_IN_TEXT.sub(f"{MARK}@", text)
    return text


def _has_key(text: str, secrets: _Secrets) -> bool:
    """Return whether a long unbroken run with a digit holds a known secret or what looks like one.

    Ordinary text has few such runs, and finding them takes a tenth of the time that looking for each shape would.
    """
    flat = text.encode("latin-1", "replace").translate(_FLAT)
    start = flat.find(_LONG)
    while start >= 0:
        end = flat.find(b" ", start + _RUN)
        end = len(text) if end < 0 else end
        if _DIGIT.search(text, start, end) and (
            _HINT.search(text, max(0, start - _BEFORE), end) or secrets.in_runs.search(text, start, end)
        ):
            return True
        start = flat.find(_LONG, end)
    return False


USERINFO = re.compile(r"(?<=://)[^\s/'\"][^\s'\"]*@")  # to the last @: passwords may hold / and @
_NAMED_SECRET = re.compile(r"(?i)(?<![\w/])(\w*(?:password|passwd|pwd|token|secret|key)=)[^\s&'\";]+")


def public_address(address: str) -> str:
    """An address, or a text with addresses in it, without user, password and secret settings."""
    return _NAMED_SECRET.sub(rf"\1{MARK}", USERINFO.sub(f"{MARK}@", address))


# --- what the environment holds ---


@dataclass(frozen=True, slots=True)
class _Secrets:
    pattern: re.Pattern[str]
    """All secrets, in all their spellings; the longest first, because one may contain another."""
    in_runs: re.Pattern[str]
    """The secrets that are part of one long unbroken run with a digit."""
    anywhere: tuple[str, ...]
    """The other secrets."""


_last: tuple[object, _Secrets] = (None, _Secrets(re.compile(r"(?!)"), re.compile(r"(?!)"), ()))


def _secrets(environ: Mapping[str, str]) -> _Secrets:
    """Return the secrets of the environment; they are worked out again only after it has changed."""
    global _last
    # os.environ decodes each value at every look; the dictionary behind it is compared at once.
    held = getattr(environ, "_data", environ)
    known, made = _last
    if held != known:
        values = frozenset(value.strip() for name, value in environ.items() if _is_secret(name.upper(), value.strip()))
        made = _forms(values)
        _last = dict(held), made
    return made


def _is_secret(name: str, value: str) -> bool:
    if len(value) < MIN_SECRET_CHARS or value in MARK:
        return False
    if name.endswith(_SECRET_NAMES):
        return True
    return name.endswith(_VAGUE_NAMES) and not (value.isalpha() and value.islower())


@lru_cache(maxsize=8)
def _forms(values: frozenset[str]) -> _Secrets:
    forms = sorted({form for value in values for form in _spellings(value) if len(form) >= MIN_SECRET_CHARS}, key=len, reverse=True)
    joined = [
        form for form in forms if len(form) >= _RUN and form.isascii() and _DIGIT.search(form) and set(form.encode()) <= _JOINED
    ]
    return _Secrets(_any_of(forms), _any_of(joined), tuple(form for form in forms if form not in set(joined)))


def _any_of(forms: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, forms)) or r"(?!)")


def _spellings(value: str) -> Iterator[str]:
    """Yield the spellings of a value in a text."""
    yield value
    yield repr(value)[1:-1]
    for ascii_only in (True, False):
        escaped = value
        for _ in range(_JSON_IN_JSON):
            escaped = json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
            yield from (escaped, escaped.replace("/", r"\/"))
    yield html.escape(value)
    escaped = quote(value, safe="", errors="surrogateescape")
    yield from (escaped, re.sub("%..", lambda found: found[0].lower(), escaped), quote(value, errors="surrogateescape"))
    yield quote_plus(value, errors="surrogateescape")
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        yield from _base64(value.encode("utf-8", "surrogateescape"), alphabet)


def _base64(value: bytes, encode: Callable[[bytes], bytes]) -> Iterator[str]:
    """Yield what the base64 forms of all texts with the value have in common: one for each place in a group of three bytes."""
    for before in range(3):
        whole = encode(b"\0" * before + value)
        end = len(whole) - (0 if (before + len(value)) % 3 == 0 else 4)  # the last group depends on what follows
        yield whole[4 if before else 0 : end].decode()
