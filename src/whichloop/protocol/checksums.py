"""Checksums in JSON files: the last field of a line, or of a whole document, covers every byte before it."""

from __future__ import annotations

from hashlib import blake2b

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


def seal_line(line: bytes) -> bytes:
    """Return a JSON object that ends with `}` and a line break, with its checksum as its last field."""
    return _sealed(line.removesuffix(b"}\n"), _LINE)


def open_line(line: bytes) -> bytes:
    """Return a sealed line without its checksum. Raises ChecksumError."""
    return _opened(line, _LINE) + b"}\n"


def seal_document(text: bytes) -> bytes:
    """Return a JSON object whose last line is a single `}`, with its checksum as its last field."""
    return _sealed(text.removesuffix(b"\n}\n"), _DOCUMENT)


def open_document(text: bytes) -> bytes:
    """Return a sealed document without its checksum. Raises ChecksumError."""
    return _opened(text, _DOCUMENT) + b"\n}\n"


def is_whole_but_for_its_end(line: bytes) -> bool:
    """Say whether a last line without a line break has another byte in its place: damage, and not what a kill leaves."""
    try:
        _opened(line[:-1] + b"\n", _LINE)
    except ChecksumError:
        return False
    return True


def _sealed(body: bytes, end: bytes) -> bytes:
    return body + end % blake2b(body, digest_size=_SIZE).hexdigest().encode("ascii")


def _opened(data: bytes, end: bytes) -> bytes:
    body = data[: 2 - len(end) - 2 * _SIZE]  # %b stands for the checksum
    if not data.endswith(end % blake2b(body, digest_size=_SIZE).hexdigest().encode("ascii")):
        raise ChecksumError
    return body
