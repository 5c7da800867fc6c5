"""Secrets that the environment holds: which variables are secret, and every way in which a text may spell their values."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote

MIN_SECRET_CHARS = 8
"""Values of fewer characters are words, not secrets: taking them out would spoil the text."""
MIN_LINE_CHARS = 20
"""Lines of fewer characters are not looked for on their own, when a value has several lines."""
MIN_RUN_CHARS = 16
"""Fewest characters without a break that a key has, prefix or name included, as a rule."""
JOINED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/=~*%")
"""Characters that keys are made of."""

_SECRET_NAME = re.compile(
    r"(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY|ACCOUNT_?KEY|AUTH_?KEY"
    r"|(?:DB|DATABASE|KEY|SSH|SMTP|SUDO|USER|FTP|MYSQL)_?PASS|_PWD|_PAT|_SAS|CONNECTION_STRING)(?:_?\d+)?$"
)
_VAGUE_NAME = re.compile(
    r"(?:(?:^|_)KEY(?:_\w+)?|_CREDENTIALS?|_CREDS|_AUTH|_AUTH_HEADER|_COOKIE|_DSN|_PW|^PGPASS|_SIGNING)$"
    r"|(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|APIKEY)_\w+$"
)
"""Names whose value may also be a plain word, such as a column to sort by, which is not a secret."""
_ABOUT_A_SECRET = re.compile(r"_(?:FILE|PATH|DIR|URL|LIMIT|COUNT|ID|NAME|TYPE|LENGTH|TTL|HEADER_NAME)$")
"""Ends of names that tell of a secret and do not hold it."""
_USERINFO = re.compile(r"\A[a-zA-Z][\w+.-]*://([^/\s?#]*)@|\A[a-zA-Z][\w+.-]*://(\S*)@")
_DIGIT = re.compile(r"\d")
_JSON_IN_JSON = 6
"""JSON within JSON: a tool's result, in a call's arguments, in a body that an error quotes, in a trace."""


@dataclass(frozen=True, slots=True)
class EnvironmentSecrets:
    """The secrets of an environment, in all spellings."""

    pattern: re.Pattern[str]
    """All of them; the longest first, because one may contain another."""
    in_runs: re.Pattern[str]
    """Those that are part of one long unbroken run with a digit."""
    anywhere: tuple[str, ...]
    """The others."""


_last: tuple[object, EnvironmentSecrets] = (None, EnvironmentSecrets(re.compile(r"(?!)"), re.compile(r"(?!)"), ()))


def environment_secrets(environ: Mapping[str, str], mark: str) -> EnvironmentSecrets:
    """Return the secrets of the environment; they are worked out again only after it has changed.

    `mark`: what stands in the place of secrets; a value that is part of it cannot be taken out.
    """
    global _last
    # os.environ decodes each value at every look; the dictionary behind it is compared at once.
    held = getattr(environ, "_data", environ)
    known_environment, secrets = _last
    if held != known_environment:
        values = {part for name, value in environ.items() for part in _secret_parts(name.upper(), value.strip())}
        secrets = _forms(frozenset(value for value in values if len(value) >= MIN_SECRET_CHARS and value not in mark))
        _last = dict(held), secrets
    return secrets


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that hold no secret, by their names and values."""
    return {name: value for name, value in environ.items() if not any(_secret_parts(name.upper(), value.strip()))}


def _secret_parts(name: str, value: str) -> Iterator[str]:
    """Yield the value of a variable if it is a secret, its long lines, and the password of an address."""
    if _is_secret(name, value):
        yield value
        if "\n" in value or r"\n" in value:
            yield from (line for line in re.split(r"\s+|\\[nr]", value) if len(line) >= MIN_LINE_CHARS)
    if "@" in value and "://" in value and (match := _USERINFO.match(value)):
        password = (match[1] or match[2] or "").partition(":")[2]
        yield from (password, unquote(password))


def _is_secret(name: str, value: str) -> bool:
    if _SECRET_NAME.search(name):
        return True
    is_vague = _VAGUE_NAME.search(name) is not None and _ABOUT_A_SECRET.search(name) is None
    return is_vague and not (value.isalpha() and value.islower())


@lru_cache(maxsize=8)
def _forms(values: frozenset[str]) -> EnvironmentSecrets:
    forms = sorted({form for value in values for form in _spellings(value) if len(form) >= MIN_SECRET_CHARS}, key=len, reverse=True)
    joined = [
        form
        for form in forms
        if len(form) >= MIN_RUN_CHARS and form.isascii() and _DIGIT.search(form) and set(form.encode()) <= JOINED
    ]
    return EnvironmentSecrets(_any_of(forms), _any_of(joined), tuple(form for form in forms if form not in set(joined)))


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
    yield from (escaped, re.sub("%..", lambda match: match[0].lower(), escaped), quote(value, errors="surrogateescape"))
    yield quote_plus(value, errors="surrogateescape")
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        yield from _base64(value.encode("utf-8", "surrogateescape"), alphabet)


def _base64(value: bytes, encode: Callable[[bytes], bytes]) -> Iterator[str]:
    """Yield what the base64 forms of all texts with the value have in common: one for each place in a group of three bytes."""
    for before in range(3):
        whole = encode(b"\0" * before + value)
        end = len(whole) - (0 if (before + len(value)) % 3 == 0 else 4)  # the last group depends on what follows
        yield whole[4 if before else 0 : end].decode()
