"""Keys of many shapes, made up anew for each place where a test plants them."""

from __future__ import annotations

import random
import string
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


class PlantedKey(NamedTuple):
    """A text with a key in it, and the characters of which none may be left together."""

    text: str
    secret: str


SHAPES: dict[str, str] = {
    # gaps: a = letters and digits, h = hex, U = upper case and digits, 9 = digits
    "openai": "sk-proj-{a60}",
    "anthropic": "sk-ant-api03-{a80}AA",
    "openrouter": "sk-or-v1-{h64}",
    "langfuse": "sk-lf-{h8}-{h4}-{h4}-{h4}-{h12}",
    "google": "AIzaSy{a33}",
    "google oauth": "ya29.{a60}",
    "github": "ghp_{a36}",
    "github app": "ghs_{a36}",
    "github fine": "github_pat_{a82}",
    "gitlab": "glpat-{a20}",
    "hugging face": "hf_{a34}",
    "groq": "gsk_{a52}",
    "xai": "xai-{a80}",
    "perplexity": "pplx-{a48}",
    "nvidia": "nvapi-{a64}",
    "slack": "xoxb-{910}-{913}-{a24}",
    "stripe": "sk_live_{a24}",
    "aws": "AKIA{U16}",
    "aws secret": "aws_secret_access_key = {a40}",
    "jwt": "eyJ{a20}.eyJ{a24}.{a43}",
    "npm": "npm_{a36}",
    "pypi": "pypi-AgEIcHlwaS5vcmc{a100}",
    "sendgrid": "SG.{a22}.{a43}",
    "replicate": "r8_{a37}",
    "tavily": "tvly-{a32}",
    "tavily dev": "tvly-dev-{a32}",
    "shopify": "shpat_{h32}",
    "databricks": "dapi{h32}",
    "azure": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={a86}==;EndpointSuffix=core.windows.net",
    "azure openai": "api-key: {h32}",
    "azure sas": "https://x.blob.core.windows.net/c?sv=2022-11-02&sig={a43}%3D",
    "password": "password: {a12}",
    "PGPASSWORD": "PGPASSWORD={a12}",
    "password field": '{"db_password": "{a12}"}',
    "passphrase": "passphrase='{a16}'",
    "TOKEN": "TOKEN={a20}",
    "SECRET": "export SECRET={a20}",
    "DATABASE_URL": "DATABASE_URL=postgresql://app:{a14}@db.test:5432/x",
    "redis": "redis://:{a16}@cache.test:6379/0",
    "client secret": "client_secret={a32}",
    "bearer": "Authorization: Bearer {a32}",
    "basic": "Authorization: Basic {a30}==",
    "authorization": "Authorization: {a32}",
    "header pair": '["X-Api-Key", "{a32}"]',
    "flag": "--api-key {a32}",
    "langsmith": "lsv2_pt_{h32}_{h10}",
    "sentry": "sntrys_{a60}",
    "digitalocean": "dop_v1_{h64}",
    "linear": "lin_api_{a40}",
    "notion": "ntn_{a46}",
    "figma": "figd_{a40}",
    "planetscale": "pscale_tkn_{a43}",
    "doppler": "dp.pt.{a43}",
    "vault": "hvs.{a90}",
    "new relic": "NRAK-{U27}",
    "grafana": "glsa_{a32}_{h8}",
    "pinecone": "pcsk_{a6}_{a63}",
    "e2b": "e2b_{h40}",
    "rubygems": "rubygems_{h48}",
    "postman": "PMAK-{h24}-{h34}",
    "easypost": "EZAK{a54}",
    "square": "sq0csp-{a43}",
    "age": "AGE-SECRET-KEY-1{Q58}",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\n{a64}\n{a64}\n{a20}==\n-----END RSA PRIVATE KEY-----",
    "pem cut off": "-----BEGIN PRIVATE KEY-----\n{a64}\n{a64}",
    "pgp": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{a64}\n{a64}\n-----END PGP PRIVATE KEY BLOCK-----",
}
_ALPHABETS = {"a": ALNUM, "h": HEX, "U": UPPER, "9": string.digits, "Q": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"}
_PART = 12
"""Characters of a key's last random part that are looked for: fewer than any key has."""


def planted(place: str) -> dict[str, PlantedKey]:
    """Return a key of each shape, other ones for each place, each with a digit and both cases where its alphabet has them."""
    drawn = random.Random(place)
    return {name: _filled(shape, drawn) for name, shape in SHAPES.items()}


def _filled(shape: str, drawn: random.Random) -> PlantedKey:
    text, secret = "", ""
    for piece in shape.split("{"):
        kind, _, after = piece.partition("}")
        if not text and not secret and not shape.startswith("{"):
            text, shape = piece, "{"  # what stands before the first gap
        elif kind[:1] in _ALPHABETS and kind[1:].isdigit():
            made = "".join(drawn.choices(_ALPHABETS[kind[0]], k=int(kind[1:]) - 2)) + ("7k" if kind[0] == "a" else "37")
            text += made + after
            secret = made if len(made) >= _PART else secret
        elif piece:
            text += "{" + piece
    return PlantedKey(text, secret[-_PART:])
