"""Removes secrets from text that leaves the process: errors, logs, traces, recordings, reports."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping

from .environment_secrets import JOINED, EnvironmentSecrets, environment_secrets
from .secret_shapes import (
    MIN_SHORT_CHARS,
    secrets_around,
    without_passwords,
    without_private_keys,
    without_userinfo,
)

MARK = "[redacted]"

_FLAT = bytes(0x61 if code in JOINED else 0x20 for code in range(256))
_LONG = b"a" * MIN_SHORT_CHARS
_DIGIT = re.compile(r"[\d*]")
_DASH = re.compile(r"[-_]")
MIN_LETTERS_RUN_CHARS = 24
"""Fewest characters of a key without a digit, prefix included: fewer make a word."""


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the text with `[redacted]` in place of secrets. JSON stays JSON.

    Secrets are: the values of environment variables whose names end like a key's, whatever they look like, also as JSON, URLs, HTML
    and base64 spell them; what has the shape of a key (`sk-…`, `ghp_…`) or is announced as one (`Bearer …`, `api_key=…`,
    `password: …`); private keys; user and password in an address. `environ`: os.environ by default.
    """
    secrets = environment_secrets(os.environ if environ is None else environ, MARK)
    if any(secret in text for secret in secrets.anywhere):
        text = secrets.pattern.sub(MARK, text)
    text = without_passwords(_without_keys(text, secrets), MARK)
    return without_userinfo(without_private_keys(text, MARK), MARK)


def _without_keys(text: str, secrets: EnvironmentSecrets) -> str:
    """Take keys out of the long unbroken runs of a text, and values of the environment with them.

    Ordinary text has few such runs, and finding them takes a tenth of the time that looking for each shape would.
    """
    runs = list(_runs(text))
    if any(secrets.in_runs.search(text, start, end) for start, end in runs):
        text = secrets.pattern.sub(MARK, text)
        runs = list(_runs(text))
    parts, at = [], 0
    for run in runs:
        if run[1] <= at:
            continue
        for start, end in sorted(secrets_around(text, *run)):
            if start >= at:
                parts += [text[at:start], MARK]
            at = max(at, end)
    return "".join([*parts, text[at:]]) if at else text


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has characters of keys without a break, enough of them and a digit, or very many and a dash."""
    flat = text.encode("latin-1", "replace").translate(_FLAT)
    start = flat.find(_LONG)
    while start >= 0:
        end = flat.find(b" ", start + MIN_SHORT_CHARS)
        end = len(text) if end < 0 else end
        if _DIGIT.search(text, start, end) or (end - start >= MIN_LETTERS_RUN_CHARS and _DASH.search(text, start, end)):
            yield start, end
        start = flat.find(_LONG, end)


USERINFO = re.compile(r"(?<=://)[^\s/'\"][^\s'\"]*@")  # to the last @: passwords may hold / and @
_NAMED_SECRET = re.compile(r"(?i)(?<![\w/])(\w*(?:password|passwd|pwd|token|secret|key)=)[^\s&'\";]+")


def anonymous_address(address: str) -> str:
    """Return an address without its user and password, and without what `public_address` marks."""
    return public_address(USERINFO.sub("", address))


def public_address(address: str) -> str:
    """Return an address, or a text with addresses in it, without user, password, secret settings, and what `redact` takes out."""
    return redact(_NAMED_SECRET.sub(rf"\1{MARK}", USERINFO.sub(f"{MARK}@", address)))


# --- what the package logs ---

_TRACEBACKS = logging.Formatter()


def logger_of(name: str) -> logging.Logger:
    """Return the logger of a name, which takes secrets out of its messages and tracebacks, whatever errors they quote."""
    logger = logging.getLogger(name)
    logger.addFilter(_without_secrets)
    return logger


def _without_secrets(record: logging.LogRecord) -> bool:
    """Take secrets out of a record before any handler gets it. A traceback that has one stays as text, without its exception."""
    message = record.getMessage()
    if (clean := redact(message)) != message:
        record.msg, record.args = clean, ()
    if record.exc_info:
        trace = _TRACEBACKS.formatException(record.exc_info)
        if (clean := redact(trace)) != trace:
            record.exc_info, record.exc_text = None, clean
    return True
