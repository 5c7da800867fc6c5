"""Secrets out of text that leaves the process, such as a provider's error message."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

MARK = "[redacted]"
SHORTEST = 8
"""Values of fewer characters are words, not secrets: taking them out would spoil the text."""

_NAMES = ("_API_KEY", "_ACCESS_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_VALUE = r"(?=[^\s\"'&,;\\]*\d)[^\s\"'&,;\\]"  # with a digit, or "basic authentication" would be a secret
_SHAPES = (
    (re.compile(rf"(?i)\b(bearer|basic)\s+{_VALUE}{{8,}}"), rf"\1 {MARK}"),
    (re.compile(rf"(?i)\b((?:api|access|auth)[-_ ]?(?:key|token)[\"'\\]*\s*[:=][\"'\\\s]*){_VALUE}{{16,}}"), rf"\1{MARK}"),
    (re.compile(r"\bsk-[\w*-]{8,}"), MARK),
    (re.compile(r"\b(?:gsk_|hf_|xai-|ghp_|github_pat_|AIza|AKIA)[\w*-]{16,}"), MARK),
    (re.compile(r"(?<=://)[^/\s?#]*@"), f"{MARK}@"),
)


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The text with `[redacted]` in the place of secrets.

    Taken out: the values of environment variables whose names end like a key's, whatever they look like; what has the shape of a
    key (`sk-…`, `Bearer …`, `api_key=…`); user and password in an address. `environ`: os.environ by default.
    """
    for secret in _secrets(os.environ if environ is None else environ):
        text = text.replace(secret, MARK)
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text


USERINFO = re.compile(r"(?<=://)[^\s/'\"][^\s'\"]*@")  # to the last @: passwords may hold / and @
_NAMED_SECRET = re.compile(r"(?i)(?<![\w/])(\w*(?:password|passwd|pwd|token|secret|key)=)[^\s&'\";]+")


def public_address(address: str) -> str:
    """An address, or a text with addresses in it, without user, password and secret settings."""
    return _NAMED_SECRET.sub(rf"\1{MARK}", USERINFO.sub(f"{MARK}@", address))


def _secrets(environ: Mapping[str, str]) -> list[str]:
    """As they may stand in a text; the longest first, because one may contain another."""
    named = {value.strip() for name, value in environ.items() if name.upper().endswith(_NAMES)}
    written = {form for value in named if len(value) >= SHORTEST for form in _forms(value)}
    return sorted(written, key=len, reverse=True)


def _forms(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield quote(value, safe="", errors="surrogateescape")
