"""Shapes of keys: rules that others maintain (`secret_rules.json`), a table of what these miss, and names that announce secrets."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from .environment_secrets import MIN_RUN_CHARS
from .file_json import load_json

RULES_FILE = "secret_rules.json"
"""Written by `python -m tests.protocol.secret_rules GITLEAKS_TOML`, which says what is taken over."""
MIN_SHORT_CHARS = 12
"""Fewest characters without a break of a key that its vendor's errors show shortened, or that follows `Bearer` or `Basic`."""
_SHORT = re.compile(r"(?i)sk-|xox|bearer|basic|authorization")
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
    Shape(r"(?i:xox[abeoprs])-[\w-]{8,}", "trufflehog: slack"),
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
        rf"([?&](?:key|token|sig|signature|password|code)=){_DIGIT_IN}{_CHAR}{{12,}}",
        rf"(?i)(cookie{_IS}(?:[\w.-]{{1,64}}={_CHAR}{{0,99}};\s?){{0,9}}[\w.-]{{1,64}}=){_DIGIT_IN}{_CHAR}{{16,}}",
    )
)
"""What is a secret because of what stands before it, which is group 1."""
_MAYBE_ANNOUNCED = re.compile(
    r"Key|key|KEY|Token|token|TOKEN|Secret|secret|SECRET|Bearer|bearer|BEARER|Basic|basic|BASIC|uthorization|UTHORIZATION"
    r"|redential|REDENTIAL|ookie|OOKIE|[?&]sig|[?&]code|[?&]password"
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


def without_passwords(text: str, mark: str) -> str:
    """Return a text without passwords that their names announce, whatever they look like otherwise."""
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
