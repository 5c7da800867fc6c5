"""Files that a test changed by hand, given the checksums that their writer would have given them."""

import re
from pathlib import Path

from whichloop.protocol.json_text import seal

_CHECKSUM = re.compile(rb',\s*"checksum":\s*"[0-9a-f]{16}"(?=\s*\}\s*$)', re.MULTILINE)


def reseal(path: Path) -> None:
    """Give every whole line of a `.jsonl` file, or a whole JSON document, its checksum anew; what is no object stays as it is."""
    raw = _CHECKSUM.sub(b"", path.read_bytes())
    path.write_bytes(b"".join(map(_sealed, raw.splitlines(keepends=True))) if path.suffix == ".jsonl" else _sealed_document(raw))


def _sealed(line: bytes) -> bytes:
    return seal(line) if line.endswith(b"}\n") else line


def _sealed_document(raw: bytes) -> bytes:
    text = raw.rstrip()
    return seal(text[:-1].rstrip() + b"\n}\n") if text.endswith(b"}") else raw
