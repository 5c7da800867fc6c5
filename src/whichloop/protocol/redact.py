"""Removes secrets from text that leaves the process: errors, logs, traces, recordings, reports."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus, unquote

from .json_text import load_json

RULES_FILE = "secret_rules.json"
"""Written by `python -m tests.protocol.secret_rules GITLEAKS_TOML`, which says what is taken over."""
MIN_SHORT_CHARS = 12
"""Fewest characters without a break of a key that its vendor's errors show shortened, or that follows `Bearer` or `Basic`."""
_SHORT = re.compile(r"(?i)sk-|xox|xapp|bearer|basic|authorization")
MAX_BEFORE = 64
"""Characters before an unbroken run that may say what it is: a name, quotes and their escapes."""

# A key may follow an escape of JSON: the n of \n is not part of a word. No key begins within a word, so that each is tried once.
START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4}))"
_CHAR = r"[^\s\"'&,;\\]"
_DIGIT_IN = rf"(?={_CHAR}{{0,64}}?\d)"  # or "basic authentication" would be a secret; not further, so that each name is read once


class Shape(NamedTuple):
    """What a key looks like by itself."""

    regex: str
    source: str
    """Where its vendor, or a detector of such keys, shows it: `trufflehog` names a folder of its `pkg/detectors`."""


OWN_SHAPES = (
    Shape(r"sk-(?:(?:proj|ant|or|lf|svcacct|admin)-|(?=[\w*-]*[\d*]))[\w*-]{9,}", "errors of OpenAI, which show a key with stars"),
    Shape(r"(?:AIza|ya29\.)[\w*-]{16,}", "trufflehog: googleoauth2, gcp"),
    Shape(r"GOCSPX-[\w-]{20,}", "https://developers.google.com/identity/protocols/oauth2"),
    Shape(
        r"(?:A3T[A-Z0-9]|A[KS]IA|ABIA|ACCA)[A-Z0-9]{12,}",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html",
    ),
    Shape(r"(?:gh[pousr]_|hf_|gsk_|xai-|pplx-)(?=\w*\d)\w{16,}", "trufflehog: github, huggingface, groq, xai"),
    Shape(r"hf_[A-Za-z]{30,}", "trufflehog: huggingface"),
    Shape(r"(?:github_pat_|gl(?:pat|dt|ft|ffct|soat|rt|cbt|ptt|imt|agent|oas)-|nvapi-)[\w-]{16,}", "trufflehog: github, gitlab"),
    Shape(r"(?i:xox[abeoprs]|xapp)-[\w-]{8,}", "trufflehog: slack"),
    Shape(r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", "https://www.rfc-editor.org/rfc/rfc7519#section-3.1"),
    Shape(r"(?:[rs]k_(?:live|test|prod)_|whsec_)\w{8,}", "https://docs.stripe.com/keys"),
    Shape(r"r8_[\w-]{20,}", "trufflehog: replicate"),
    Shape(r"tvly-[\w-]{16,}", "https://docs.tavily.com/documentation/api-reference/introduction"),
    Shape(r"npm_[A-Za-z0-9]{30,}", "https://docs.github.com/en/code-security/secret-scanning"),
    Shape(r"pypi-[\w-]{50,}", "trufflehog: pypi"),
    Shape(r"SG\.[\w-]{16,}\.[\w-]{16,}", "trufflehog: sendgrid"),
    Shape(r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{24,}", "trufflehog: shopify"),
    Shape(r"dapi[a-f0-9]{32}", "trufflehog: databrickstoken"),
    Shape(r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}", "trufflehog: langsmith"),
    Shape(r"pcsk_[A-Za-z0-9]{5,6}_[A-Za-z0-9]{60,}", "trufflehog: pinecone"),
    Shape(r"fig[dou][rh]?_[\w-]{40}", "trufflehog: figmapersonalaccesstoken"),
    Shape(r"NRAK-[A-Z0-9]{27}", "trufflehog: newrelicuserkey"),
    Shape(r"key-[a-f0-9]{32}", "trufflehog: mailgun"),
    Shape(r"[0-9a-z]{32}-us\d{1,2}(?!\w)", "detect-secrets: MailchimpDetector"),
    Shape(r"pa-[\w-]{43}(?![\w-])", "https://docs.voyageai.com/docs/api-key-and-installation"),
    Shape(r"(?:csk-|fw_|tgp_v1_)(?=[\w-]*\d)[\w-]{22,}", "https://inference-docs.cerebras.ai, docs.fireworks.ai, docs.together.ai"),
    Shape(r"(?:e2b_[a-f0-9]{40}|fc-[a-f0-9]{32})", "https://e2b.dev/docs/api-key, https://docs.firecrawl.dev/api-reference"),
    Shape(r"(?:sk|rk)_[a-f0-9]{48}", "trufflehog: elevenlabs"),
    Shape(r"(?:ntn_|secret_)[A-Za-z0-9]{43,}", "trufflehog: notion"),
    Shape(r"sntrys_[\w+/=-]{40,}", "trufflehog: sentryorgtoken"),
    Shape(r"sbp_[a-z0-9]{40}", "trufflehog: supabasetoken"),
    Shape(r"(?:hvs|hvb)\.[\w-]{24,}", "trufflehog: hashicorpvault"),
    Shape(r"dckr_(?:pat|oat)_[\w-]{27,}", "trufflehog: dockerhub"),
    Shape(r"AT(?:ATT|CTT)3xFfG[\w+/=-]{40,}", "trufflehog: atlassian"),
    Shape(r"tskey-[a-z]+-\w+-\w+", "trufflehog: tailscale"),
    Shape(r"apify_api_[A-Za-z0-9-]{36}", "trufflehog: apify"),
    Shape(r"jina_[A-Za-z0-9]{32}[\w-]{20,}", "https://jina.ai/embeddings"),
    Shape(r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}", "trufflehog: linearapi"),
    Shape(r"(?<=\d{8}:)[A-Za-z0-9_-]{35}(?![\w-])", "trufflehog: telegrambottoken"),
    Shape(r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])", "detect-secrets: DiscordBotTokenDetector"),
    Shape(r"(?:SK|AC)[a-z0-9]{32}(?!\w)", "trufflehog: twilio"),
    Shape(r"sq0[a-z]{3}-[\w-]{22,}", "detect-secrets: SquareOAuthDetector"),
    Shape(r"(?i:hooks\.slack\.com/(?:services|workflows|triggers)/[\w+/]{7,})", "trufflehog: slackwebhook"),
    Shape(r"discord(?:app)?\.com/api/webhooks/\d+/[\w-]{40,}", "trufflehog: discordwebhook"),
)
"""Keys that the maintained rules miss, and shorter, masked or newer forms of those that they find."""

_KEY_OWNERS = (
    "api|access|auth|secret|private|client|subscription|account|service|encryption|signing|master|deploy|license|db|database"
)
"""What keys are for that open something; a `session_key` or a `cache_key` only names something."""
_ID = r"(?:call|chatcmpl|toolu|msg|run|req|resp|rs|fc|item|batch|file|asst|thread)[_-]"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])"
# `name = value`, `"name": "value"`, `("name", "value")`, `{"name": "name", "value": "value"}`, however often escaped
_IS = (
    r"[\"'\\]{0,70}\]?\s{0,4}"
    r"(?:[:=]=?>?|,\s{0,4}(?=[\\]{0,35}[\"'])|,\s{0,4}[\"'\\]{1,36}value[\"'\\]{1,36}\s{0,4}:)"
    r"[\"'\\\s]{0,74}"
)
_PAGING = r"(?<!page_)(?<!next_)(?<!ation_)(?<!page)(?<!Page)(?<!next)(?<!-page-)"

_ANNOUNCED = tuple(
    re.compile(regex)
    for regex in (
        rf"(?i){START}((?:bearer|basic)(?:\s+|%20|\+)){_DIGIT_IN}{_CHAR}{{8,}}",
        rf"(?i)(authorization{_IS}(?:[a-z-]{{1,20}}\s{{1,4}})?){_DIGIT_IN}{_CHAR}{{8,}}",
        rf"(?i)((?:{_KEY_OWNERS})[-_ ]?(?:key|token|secret){_IS}){_DIGIT_IN}{_CHAR}{{16,}}",
        rf"(?i)({_PAGING}(?:token|secret|credentials?){_IS})(?!{_ID}|{_UUID})(?={_CHAR}{{0,64}}?[a-zA-Z]){_DIGIT_IN}{_CHAR}{{16,}}",
        rf"(?i)({START}--[\w-]{{0,40}}(?:key|token|secret)\s{{1,4}}){_DIGIT_IN}{_CHAR}{{16,}}",
        rf"((?:[?&]|&amp;)(?:key|token|sig|signature|password|code)=){_DIGIT_IN}{_CHAR}{{12,}}",
        rf"(?i)(cookie{_IS}(?:[\w.-]{{1,64}}={_CHAR}{{0,99}};\s?){{0,9}}[\w.-]{{1,64}}=){_DIGIT_IN}{_CHAR}{{16,}}",
    )
)
"""What is a secret because of what stands before it, which is group 1."""
_MAYBE_ANNOUNCED = re.compile(
    r"Key|key|KEY|Token|token|TOKEN|Secret|secret|SECRET|Bearer|bearer|BEARER|Basic|basic|BASIC|uthorization|UTHORIZATION"
    r"|redential|REDENTIAL|ookie|OOKIE|[?&;]sig|[?&;]code|[?&;]password"
)
"""What every announcement has; where it is missing, none is looked for."""
_REST = re.compile(rf"{_CHAR}*")
_REST_OF_TOKEN = re.compile(r"[A-Za-z0-9_-]*(?:[.+/~][A-Za-z0-9_-]+)*={0,2}")


@cache
def _tokens() -> re.Pattern[str]:
    """Return all shapes as one pattern; made when the first text might hold a key, since that takes a moment."""
    rules = load_json(files(__package__).joinpath(RULES_FILE).read_text(encoding="utf-8"))["rules"]
    return re.compile(f"{START}(?:{'|'.join([*(shape.regex for shape in OWN_SHAPES), *rules.values()])})")


def secrets_around(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the places of keys that begin in an unbroken run of a text or are announced just before it.

    The time that this takes grows with the length of the run, and not with that of the text.
    """
    before = max(0, start - MAX_BEFORE)
    if end - start < MIN_RUN_CHARS and not _SHORT.search(text, before, end):
        return []
    places = [(match.start(), _end_of(_REST_OF_TOKEN, text, match.end())) for match in _tokens().finditer(text, start, end)]
    if _MAYBE_ANNOUNCED.search(text, before, end):
        for pattern in _ANNOUNCED:
            for match in pattern.finditer(text, before, end):
                places.append((match.end(1), _end_of(_REST, text, match.end())))
    return places


def _end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Return where the text ends that fits a pattern from `start` on; `start` where none does."""
    match = pattern.match(text, start)
    return start if match is None else match.end()


# --- passwords, private keys, addresses: those have no long unbroken run ---

_MAYBE_PASSWORD = re.compile(r"pass[wp=]|pwd")  # quick, because all begin alike
_PASSWORD = re.compile(
    rf"(?i)((?:password|passwd|passphrase|(?<![a-z])pwd|(?:db|database|key|user|smtp|ftp)_?pass)\w{{0,20}}(?:{_IS}|(?<=--password)\s{{1,4}}))"
    rf"(?![\[<{{$(]|%[(s])(?=(?-i:{_CHAR}{{0,64}}?(?:\d|[a-z][A-Z]|[!@#%^*+~?]\w))){_CHAR}{{6,}}"
)
"""A password has a digit, a symbol within it or mixed cases, or "password: missing" would hold one; and is not a template's gap."""
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{4,}")
_PEM_GAP = r"(?:\\{0,64}[\"']|\\{1,64}[nrt]|[\s,\[\]|>#]){1,40}"
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:"
    r"(?:[^\"-]|-(?!----BEGIN)){0,20000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"|(?P<lines>(?:{_PEM_GAP}[A-Za-z0-9+/=]{{4,}}){{0,400}}))"
    rf"|Private-Lines: \d{{1,3}}(?P<putty>(?:{_PEM_GAP}(?!Private)[A-Za-z0-9+/=]{{4,}}){{0,400}})"
)
_USERINFO_IN_TEXT = re.compile(r"(?<=://)[^/\s?#\"'<>`\\]*@")


_TYPED = re.compile(
    r"(\bcurl\b[^\n\"]{0,200}?\s(?:-u|--user)[ =]?'?[^\s:\"']{1,64}:|\blogin\s{1,8}\S{1,100}\s{1,8}password\s{1,8})[^\s\"'\\]{4,}"
)
"""A password as curl and .netrc have it."""


def without_passwords(text: str, mark: str) -> str:
    """Return a text without passwords that their names announce, whatever they look like otherwise."""
    if "curl" in text or "login" in text:
        text = _TYPED.sub(rf"\1{mark}", text)
    return _PASSWORD.sub(rf"\1{mark}", text) if _MAYBE_PASSWORD.search(text.lower()) else text


def without_private_keys(text: str, mark: str) -> str:
    """Return a text without private keys, also when their lines are items of a list or a dump is cut off."""

    def masked(match: re.Match[str]) -> str:
        lines = match["lines"] or match["putty"] or ""
        return match[0].removesuffix(lines) + _PEM_LINE.sub(mark, lines) if '"' in lines else mark

    return _PRIVATE_KEY.sub(masked, text) if "PRIVATE KEY" in text or "Private-Lines" in text else text


def without_userinfo(text: str, mark: str) -> str:
    """Return a text without user and password in its addresses."""
    return _USERINFO_IN_TEXT.sub(f"{mark}@", text) if "@" in text and "://" in text else text


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
_ONE_DIGIT = re.compile(r"\d")
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
        if len(form) >= MIN_RUN_CHARS and form.isascii() and _ONE_DIGIT.search(form) and set(form.encode()) <= JOINED
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


def redact_json(value: Any, name: str = "") -> Any:
    """Return a JSON value without secrets in its texts. `name`: what stands before it, which may announce one.

    To redact the encoded text would be quicker, but what ends a key there may be the quotes of the next one.
    """
    if isinstance(value, str):
        before = f'"{name}": "'
        announced = redact(f'{before}{value}"') if name else ""
        clean = announced[len(before) : -1] if announced.startswith(before) else redact(value)
        if clean != value and value.lstrip()[:1] in ("{", "["):
            with contextlib.suppress(ValueError, RecursionError):  # JSON within JSON
                return json.dumps(redact_json(load_json(value)))
        return clean
    if isinstance(value, Mapping):
        named = value.get("name")
        told = named if isinstance(named, str) else ""
        return {redact(key): redact_json(item, told if key == "value" and told else key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if any(isinstance(item, str) and "PRIVATE KEY" in item for item in value):  # its lines, one by one
            value = [MARK if isinstance(item, str) and _PEM_LINE.fullmatch(item) else item for item in value]
        return [redact_json(item, last if isinstance(last, str) else "") for last, item in zip(("", *value), value, strict=False)]
    return value


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
