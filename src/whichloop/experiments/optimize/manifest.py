"""The manifest of an optimization: its designs, their optimizer, and the splits, of which test is opened once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict

from whichloop.protocol import Prompt, program_digest, read_program
from whichloop.protocol.digest import seal_line, sha256
from whichloop.protocol.json_text import load_json
from whichloop.protocol.names import without_process
from whichloop.runs.config import BudgetConfig, Positive, Repeats, Seed
from whichloop.runs.folders import OPTIMIZED, RUNS, is_optimization
from whichloop.runs.manifest import Count, ManifestPart, fitting
from whichloop.runs.store.files import RunError, append_whole, open_repaired, read_document, sealed_lines

from .candidates import SearchEnd

MAX_UNSYNCED, MAX_UNSYNCED_S = 256, 1.0
"""Rollouts, and seconds, that may wait for the disk."""
SplitName = Literal["train", "dev", "test"]


class SearchedSuite(ManifestPart):
    """The suite that is split."""

    name: str
    version: str
    digest: str
    max_tool_steps: Count | None = None
    code: str = ""
    """The digest of user code that creates, solves or scores tasks."""


class OptimizerEntry(ManifestPart):
    """The optimizer and its options."""

    spec: str
    name: str
    options: dict[str, Any]

    @property
    def title(self) -> str:
        """The optimizer with its options, as its user knows it."""
        return without_process(self.spec)


class DesignEntry(ManifestPart):
    """A design and its digests."""

    design: str
    folder: str
    loop: str
    options: dict[str, Any]
    """The options as typed."""
    configuration: str = ""
    code: str = ""
    """The digest of the loop's code."""
    program: str
    """The digest of its initial program."""


class SplitOpening(ManifestPart):
    """The moment at which the test split was opened."""

    at: str = ""
    programs: dict[str, str]
    """Design → digest of the tested program."""
    rollouts: dict[str, dict[str, Any]]
    """Design → the state of its rollout log at that time."""
    before: tuple[str, ...] = ()
    """Earlier runs beside this one that have opened the same tasks."""


class SplitEntry(ManifestPart):
    """A split of the suite."""

    tasks: Count
    digest: str
    opened: SplitOpening | None = None
    """The opening of the test split; None before it."""


class _Settings(BaseModel):
    """Settings that results are read with."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class SearchSettings(_Settings):
    budget: BudgetConfig
    proposer: str | None = None


class CompareSettings(_Settings):
    name: str | None = None
    suite: str = ""
    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    tasks: Positive | None = None
    repeats: Repeats
    runs: str = str(RUNS)


class OptimizationSettings(_Settings):
    compare: CompareSettings
    search: SearchSettings


class OptimizationManifest(ManifestPart):
    """Everything that determines the results of an optimization, and where it ran."""

    kind: Literal["optimization"] = "optimization"
    created: str = ""
    config: Annotated[dict[str, Any], fitting(OptimizationSettings)]
    """The initial configuration, without secrets."""
    seed: Seed
    versions: dict[str, int | str | None]
    suite: SearchedSuite
    profiles: dict[str, str]
    optimizer: OptimizerEntry
    designs: tuple[DesignEntry, ...]
    splits: dict[SplitName, SplitEntry]
    packages: dict[str, str | None]
    python: str
    platform: str

    @property
    def opened_before(self) -> tuple[str, ...]:
        """Earlier runs that have opened the same locked tasks."""
        opened = self.splits["test"].opened
        return () if opened is None else opened.before

    @property
    def settings(self) -> OptimizationSettings:
        """The part of the configuration that the results are read with."""
        return OptimizationSettings.model_validate(self.config)


def read_optimization_manifest(folder: Path) -> OptimizationManifest:
    """Read the manifest of an optimization. Raises RunError, which names the file and the field."""
    if not is_optimization(folder):
        raise RunError(f"{folder}: not an optimization")
    return OptimizationManifest.read(folder)


PROGRAM, ENDED, CANDIDATES = OPTIMIZED, "ended.json", "candidates.json"
ROLLOUTS, PROPOSALS = "rollouts.jsonl", "proposals.jsonl"
FAILURE, CHATTER = "failure.txt", "dspy.log"
"""The traceback of a failed optimizer, and what DSPy printed and logged."""
AGAIN = "again"
"""Folder of the second run of the old prompts on the locked tasks."""


def read_end(folder: Path) -> SearchEnd | None:
    """Read the end of a design's search; None before it. Raises RunError."""
    path = folder / ENDED
    try:
        return SearchEnd.from_json(read_document(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(f"{path}: {type(error).__name__}: {error}") from None


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
