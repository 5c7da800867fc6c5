"""The names in an optimization's run directory, and its append-only logs: a resumed one repeats no request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from whichloop.protocol import Prompt, program_digest, read_program
from whichloop.protocol.digest import seal_line, sha256
from whichloop.protocol.json_text import load_json
from whichloop.runs.folders import OPTIMIZED
from whichloop.runs.store.files import RunError, append_whole, open_repaired, sealed_lines
from whichloop.runs.store.journal import MAX_UNSYNCED, MAX_UNSYNCED_S

PROGRAM, ENDED, CANDIDATES = OPTIMIZED, "ended.json", "candidates.json"
FAILURE = "failure.txt"
"""The traceback of a failed optimizer."""
ROLLOUTS, PROPOSALS = "rollouts.jsonl", "proposals.jsonl"


def saved_digest(path: Path) -> str:
    """Return the digest of a file's program. Raises RunError for anything else."""
    try:
        state = read_program(path).state
        return program_digest({name: Prompt(instructions, {}, {}, demos) for name, (instructions, demos) in state.items()})
    except ValueError as error:  # which names the file
        raise RunError(str(error)) from None


_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)


class JsonLinesLog:
    """A file of JSON objects, one per line; opening it removes a partial last line, which a kill may leave. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_repaired(path)
        self._pending: list[bytes] = []
        self._synced_at = time.monotonic()
        self._lock = Lock()

    def append(self, line: dict[str, Any]) -> None:
        """Append a line, synced within 256 lines or with the first one after a second. Raises RunError if the disk is full."""
        with self._lock:
            self._pending.append(seal_line(_ENCODER.encode(line).encode("ascii") + b"\n"))
            if len(self._pending) >= MAX_UNSYNCED or time.monotonic() - self._synced_at >= MAX_UNSYNCED_S:
                self._sync()

    def close(self) -> None:
        with self._lock:
            try:
                self._sync()
            finally:
                self._file.close()

    def _sync(self) -> None:
        if self._pending:
            append_whole(self._file, b"".join(self._pending), self.path)
            self._pending.clear()
        self._synced_at = time.monotonic()


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of a log; none without a file. Raises RunError for a line that is not a JSON object."""
    for number, line in enumerate(sealed_lines(path), 1):
        try:
            data = load_json(line)
        except ValueError as error:
            raise RunError(f"{path}:{number}: not a line of a log: {error}") from None
        if not isinstance(data, dict):
            raise RunError(f"{path}:{number}: not a line of a log: it must be a JSON object")
        yield data


def log_digest(path: Path) -> dict[str, Any]:
    """Return the number of lines of a log, and their sha256 independent of their order."""
    lines = sorted(_ENCODER.encode(line) for line in read_log(path))
    return {"count": len(lines), "digest": sha256("\n".join(lines))}
