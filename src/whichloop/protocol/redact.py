"""Removes secrets from text that leaves the process: errors, logs, traces, recordings, reports."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

MARK = "[redacted]"
MIN_CHARS = 8
"""Values of fewer characters are words, not secrets: taking them out would spoil the text."""
MIN_LINE_CHARS = 20
"""Lines of fewer characters are not looked for on their own, when a value has several lines."""
MIN_RUN_CHARS = 12
"""Fewest characters without a break of a key, prefix included, that no variable of the environment holds."""
MAX_BEFORE = 64
"""Characters before a key that may announce it: a name, quotes and their escapes."""
_JSON_IN_JSON = 6
"""JSON within JSON: a tool's result, in a call's arguments, in a body that an error quotes, in a trace."""

_PREFIXES = (
    r"sk-|[rs]k_(?:live|test)_|AIza|ya29\.|GOCSPX-|A[KS]IA|gh[pousr]_|github_pat_|glpat-|hf_|gsk_|xai-|pplx-|nvapi-|xox[abep]-|xapp-"
    r"|whsec_|r8_|tvly-|npm_|pypi-|SG\.|shpat_|dapi|lsv2_(?:pt|sk)_|sntrys_|dop_v1_|hv[sb]\.|figd_|lin_api_|ntn_|NRAK-|glsa_|pcsk_|csk-"
    r"|e2b_|rubygems_|PMAK-|EZAK|pscale_tkn_|AGE-SECRET-KEY-1|dp\.pt\.|dckr_pat_|tskey-|sbp_|apify_api_|sq0csp-"
)
"""Of keys to models and to services that tools call; a key has a digit, a star where an error shortens it, or many letters."""
# No key begins within a word, and the n of an escape such as \n is not part of one.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4}))"
_KEY = re.compile(
    rf"{_START}(?:(?:{_PREFIXES})(?=[\w*-]*[\d*]|[A-Za-z]{{30}})[\w*-]{{8,}}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,})(?:[.+/~]+[\w*-]+)*={0,2}"
)
_ANNOUNCED = re.compile(
    rf"(?i)(?:{_START}(?:bearer|basic)\s{{1,4}}|[?&](?:key|token|sig)=|(?:"
    r"(?:api|access|auth|secret|private|client|account|service|subscription|encryption|signing|master)[-_ ]?(?:key|token|secret)"
    rf"|{_START}(?:token|secret)|password|passwd|passphrase|authorization)"
    r"(?:[\"'\\]{0,40}\s{0,4}[:=,]\s{0,4}[\"'\\]{0,40}|\s)(?:token\s)?)\Z"
)
"""What stands before a secret that has no shape of its own: `Bearer …`, `api_key=…`, `"password": "…"`."""
_ANNOUNCING = ("key", "token", "secret", "pass", "bearer", "basic", "auth", "sig")
"""One of these is in whatever `_ANNOUNCED` finds, which takes fifty times as long to look."""
_REST = re.compile(r"[^\s\"'&,;<>\\]*")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^\"-]|-(?!----))*(?:-----END[A-Z0-9 ]*-----)?")
_USERINFO_IN_TEXT = re.compile(r"(?<=://)[^/\s?#\"'<>`\\]*@")

_FLAT = bytes(0x61 if re.match(rb"[\w.+/~*%-]", bytes([code])) else 0x20 for code in range(256))
_LONG = b"a" * MIN_RUN_CHARS
_MAYBE_KEY = re.compile(r"[\d*]|_[A-Za-z]{20}")


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the text with `[redacted]` in place of secrets. JSON stays JSON.

    Secrets are: the values of environment variables that are named like a key, also as JSON and Python spell them, and the password
    of an address in any variable; what has the shape of a key (`sk-…`, `ghp_…`) or is announced as one (`Bearer …`, `api_key=…`,
    `password: …`); private keys; user and password in an address. `environ`: os.environ by default.
    """
    spellings, pattern = _spellings(os.environ if environ is None else environ)
    if any(spelling in text for spelling in spellings):
        text = pattern.sub(MARK, text)
    text = _without_keys(text)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(MARK, text)
    return _USERINFO_IN_TEXT.sub(f"{MARK}@", text) if "@" in text and "://" in text else text


def redact_json(value: Any, name: str = "") -> Any:
    """Return a JSON value without secrets in its texts. `name`: what stands before it, which may announce one."""
    if isinstance(value, str):
        before = f"{redact(name)}: "
        announced = redact(f"{before}{value}")
        return announced[len(before) :] if announced.startswith(before) else redact(value)
    if isinstance(value, Mapping):
        return {redact(key): redact_json(item, key) for key, item in value.items()}
    if isinstance(value, list | tuple):  # a header and its value, say
        return [redact_json(item, last if isinstance(last, str) else "") for last, item in zip(("", *value), value, strict=False)]
    return value


def _without_keys(text: str) -> str:
    parts, at = list[str](), 0
    for start, end in _runs(text):
        if start < at:
            continue
        before = text[max(at, start - MAX_BEFORE) : start].lower()
        if any(word in before for word in _ANNOUNCING) and _ANNOUNCED.search(text, max(at, start - MAX_BEFORE), start):
            rest = _REST.match(text, end)
            first, last = start, rest.end() if rest else end
        elif match := _KEY.search(text, start, end):
            first, last = match.span()
        else:
            continue
        parts += [text[at:first], MARK]
        at = last
    return "".join([*parts, text[at:]]) if at else text


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has characters of keys without a break, and enough of them.

    Ordinary text has few such runs, and finding them takes a tenth of the time that looking for each shape would.
    """
    flat = text.encode("latin-1", "replace").translate(_FLAT)
    start = flat.find(_LONG)
    while start >= 0:
        end = flat.find(b" ", start + MIN_RUN_CHARS)
        end = len(text) if end < 0 else end
        if _MAYBE_KEY.search(text, start, end):
            yield start, end
        start = flat.find(_LONG, end)


# --- the environment ---

_SECRET_NAME = re.compile(
    r"(?:(?:^|_|API|ACCESS|SECRET|PRIVATE|AUTH)KEY|(?:^|_|PG)PASS|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|CONNECTION_STRING"
    r"|_(?:PWD|PW|PAT|SAS|CREDS|AUTH|COOKIE|DSN|SIGNING))(?:_\w+)?$"
)
_ABOUT_A_SECRET = re.compile(r"_(?:FILE|PATH|DIR|URL|LIMIT|COUNT|ID|NAME|TYPE|LENGTH|TTL|SOCK)$")
"""Ends of names that tell of a secret and do not hold it."""
_USERINFO = re.compile(r"[a-zA-Z][\w+.-]*://(?:([^/\s?#]*)@|(\S*)@)")
_last: tuple[object, tuple[tuple[str, ...], re.Pattern[str]]] = (None, ((), re.compile(r"(?!)")))


def _is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _ABOUT_A_SECRET.search(name)


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that hold no secret, by their names, and by what their values are or look like."""
    return {
        name: value
        for name, value in environ.items()
        if not _is_secret_name(name.upper())
        and not any(_secrets(name.upper(), value.strip()))
        and _without_keys(value) == value
        and "PRIVATE KEY" not in value
    }


def _spellings(environ: Mapping[str, str]) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Return how the secrets of an environment may be spelled, and a pattern of them; made again only after it has changed."""
    global _last
    # os.environ decodes each value at every look; the dictionary behind it is compared at once.
    variables = getattr(environ, "_data", environ)
    if _last[0] != variables:
        values = {secret for name, value in environ.items() for secret in _secrets(name.upper(), value.strip())}
        _last = dict(variables), _pattern(frozenset(value for value in values if len(value) >= MIN_CHARS and value not in MARK))
    return _last[1]


@lru_cache(maxsize=8)
def _pattern(values: frozenset[str]) -> tuple[tuple[str, ...], re.Pattern[str]]:
    spellings = {repr(value)[1:-1] for value in values}
    for ascii_only in (True, False):
        escaped = values
        for _ in range(_JSON_IN_JSON):
            spellings |= escaped
            escaped = frozenset(json.dumps(value, ensure_ascii=ascii_only)[1:-1] for value in escaped)
    longest_first = sorted(spellings, key=len, reverse=True)  # one may contain another
    return tuple(longest_first), re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _secrets(name: str, value: str) -> Iterator[str]:
    """Yield the value of a variable if it is a secret, its long lines, and the password of an address."""
    is_word = value.isalpha() and value.islower()  # such as a column to sort by, in SORT_KEY
    if _is_secret_name(name) and not (is_word and "KEY" in name):
        yield value
        if "\n" in value or r"\n" in value:
            yield from (line for line in re.split(r"\s+|\\[nr]", value) if len(line) >= MIN_LINE_CHARS)
    if "@" in value and (match := _USERINFO.match(value)):
        password = (match[1] or match[2] or "").partition(":")[2]
        yield from (password, unquote(password))


# --- addresses and logs ---

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
