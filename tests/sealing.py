"""Files that a test changed by hand, given the checksums that their writer would have given them."""

import json
import re
from pathlib import Path

from whichloop.protocol.digest import open_document, seal_document, seal_line
from whichloop.runs.store.files import MANIFEST, write_manifest_json
from whichloop.runs.store.trials import TRIALS

_CHECKSUM = re.compile(rb',\s*"checksum":\s*"[0-9a-f]{16}"(?=\s*\}\s*$)', re.MULTILINE)
_RECORDING_SEAL = re.compile(rb'(?<=\}),\s*"sealed":\s*\{"lines":\s*\d+,\s*"checksum":\s*"[0-9a-f]{32}"\}(?=\}$)', re.MULTILINE)


def reseal(path: Path) -> None:
    """Give every whole line of a `.jsonl` file, or a whole JSON document, its checksum anew; what is no object stays as it is.

    Records and recordings are as those of a run that was killed, see `unseal`.
    """
    raw = _RECORDING_SEAL.sub(b"", _CHECKSUM.sub(b"", path.read_bytes()))
    path.write_bytes(b"".join(map(_sealed, raw.splitlines(keepends=True))) if path.suffix == ".jsonl" else _sealed_document(raw))
    if path.name == TRIALS:
        unseal(path.parent)


def unseal(folder: Path) -> None:
    """Take the seal of its files from a run, as though its only session had been killed."""
    path = folder / MANIFEST
    if path.exists():
        manifest = json.loads(open_document(path.read_bytes()))
        manifest.pop("sealed", None)
        write_manifest_json(folder, manifest)


def _sealed(line: bytes) -> bytes:
    return seal_line(line) if line.endswith(b"}\n") else line


def _sealed_document(raw: bytes) -> bytes:
    text = raw.rstrip()
    return seal_document(text[:-1].rstrip() + b"\n}\n") if text.endswith(b"}") else raw
