"""One canonical JSON text for a value and its sha256, the base of every digest and key; checksums in files; seeded draws."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from .json_text import Encoder

SHORT_DIGITS = 12
"""Hexadecimal digits of a short digest: a value that has changed keeps it once in 10¹⁴ times."""

_ENCODER = Encoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)


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


class ChecksumError(ValueError):
    """A line or a document is not what its writer wrote."""

    def __init__(self) -> None:
        super().__init__("its checksum does not fit, so it was damaged or edited after it was written")


def seal(data: bytes) -> bytes:
    """Return a JSON object, a line or a document whose last line is a single `}`, with its checksum as its last field."""
    close, end = _ends(data)
    body = data.removesuffix(close)
    return body + end % _checksum(body)


def unseal(data: bytes) -> bytes:
    """Return a sealed line or document without its checksum. Raises ChecksumError."""
    close, end = _ends(data)
    body = data[: 2 - len(end) - 2 * _SIZE]  # %b stands for the checksum
    if not data.endswith(end % _checksum(body)):
        raise ChecksumError
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
