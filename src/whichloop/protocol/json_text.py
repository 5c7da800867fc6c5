"""JSON of files, without a key twice; digests of its canonical text, and seeded draws."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
"""A value of JSON, as a function gives it that writes one. What is read from outside is `object` until it has been looked at."""


def refuse_constant(name: str) -> object:
    """Refuse NaN and infinity. Raises ValueError."""
    raise ValueError(f"{name} is not JSON")


def finite_number(text: str) -> float:
    """Read a number that a float can hold. Raises ValueError."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is out of range")
    return value


def load_json(text: str | bytes, *, finite: bool = False) -> Any:
    """Return the one value of a text. `finite`: NaN, infinity and numbers too large for a float are refused.

    Raises ValueError for what is not JSON, nested too deep, or has a key twice, such as a bad merge leaves.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _decoded(_FINITE if finite else _ANY, text)


def from_json(text: str) -> Any:
    """Read what a model wrote: JSON without NaN, of a key that stands twice the last. Raises ValueError with the reason."""
    return _decoded(_STRICT, text)


def _decoded(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _unique_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"duplicate key {key[:MAX_KEY_SHOWN]!r}")
    return data


MAX_KEY_SHOWN = 80
"""Characters of a key that the error shows."""
_ANY = json.JSONDecoder(object_pairs_hook=_unique_keys)
_FINITE = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=refuse_constant, parse_float=finite_number)
_STRICT = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite_number)


SHORT_DIGITS = 12
"""Hexadecimal digits of a short digest: a value that has changed keeps it once in 10¹⁴ times."""

_ENCODER = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, no white space, in ASCII. Raises TypeError or ValueError for what JSON lacks, NaN included."""
    return _ENCODER.encode(value)


def sha256(text: str) -> str:
    """Return 64 hex digits; lone surrogates count as themselves."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(value: Any) -> str:
    """Return the sha256 of the canonical JSON."""
    return sha256(canonical_json(value))


def short_digest(value: Any) -> str:
    """Return the first digits of a value's digest, to tell whether one thing has changed and not to find it among many."""
    return digest(value)[:SHORT_DIGITS]


def whole_numbers_as_int(value: Any) -> Any:
    """Return a JSON value with 3.0 as 3 at any depth, so that calls with equal numbers have the same digest."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: whole_numbers_as_int(item) for key, item in value.items()}
    return [whole_numbers_as_int(item) for item in value] if isinstance(value, list | tuple) else value


CHECKSUM = "checksum"
"""Name of the field."""
_SIZE = 8
"""Bytes of a checksum: of 10,000 random changes, one passes unnoticed once in 10^15 tries."""
_LINE = b',"checksum":"%b"}\n'
_DOCUMENT = b',\n  "checksum": "%b"\n}\n'


DAMAGED = "its checksum does not fit, so it was damaged or edited after it was written"


def seal(data: bytes) -> bytes:
    """Return a JSON object, a line or a document whose last line is a single `}`, with its checksum as its last field."""
    close, end = _ends(data)
    body = data.removesuffix(close)
    return body + end % _checksum(body)


def unseal(data: bytes) -> bytes:
    """Return a sealed line or document without its checksum. Raises ValueError for one that is not what its writer wrote."""
    close, end = _ends(data)
    body = data[: 2 - len(end) - 2 * _SIZE]  # %b stands for the checksum
    if not data.endswith(end % _checksum(body)):
        raise ValueError(DAMAGED)
    return body + close


def _ends(data: bytes) -> tuple[bytes, bytes]:
    return (b"\n}\n", _DOCUMENT) if data.endswith(b"\n}\n") else (b"}\n", _LINE)


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=_SIZE).hexdigest().encode("ascii")


def unit(*key: object) -> float:
    """Return a number in [0, 1) that depends on the key alone."""
    text = "\x1f".join(map(str, key))
    raw = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(raw[:8], "big") / 2**64


def derived_seed(*key: object) -> int:
    """Return a 32-bit seed that depends on the key alone."""
    return int(unit(*key) * 2**32)
