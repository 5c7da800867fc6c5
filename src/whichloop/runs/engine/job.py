"""The description of a run that an engine needs and passes to its workers, and the lines of a loop that its trials ran."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from whichloop.datasets.task import Suite
from whichloop.models.metering import Meter
from whichloop.protocol.json_text import Json
from whichloop.protocol.names import own_folder
from whichloop.runs.config import CompareConfig
from whichloop.runs.manifest import Manifest
from whichloop.runs.schedule import Arm
from whichloop.runs.trial_models import TrialModels

MAX_EVENTS = 2_000_000
"""Lines that one process follows, about a second of its time: code of which more run in a loop would be slowed down too much."""
ReportedLines = Mapping[str, Sequence[int]] | None
"""File → lines that were run and not told before; None once a process has given up."""


class SeenLines:
    """The lines that the trials of a run came to, as far as the processes that run them have told."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """`files`: name → file whose lines are asked for."""
        self.files = dict(files)
        self.is_whole = True
        """Whether every process told of all its trials: one that is lost does not."""
        self.by_path: dict[str, set[int]] = {str(path.resolve()): set() for path in files.values()}
        """File as a worker is told it → lines that were run."""

    def add(self, reported: ReportedLines) -> None:
        """Add what a process has told; None for one that will not tell all."""
        if reported is None:
            self.is_whole = False
            return
        for path, lines in reported.items():
            self.by_path[path].update(lines)

    def of(self, name: str) -> frozenset[int]:
        """Return the lines of a file that were run."""
        return frozenset(self.by_path[str(self.files[name].resolve())])


class LineWatch:
    """Follows the lines of some files in this process."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths`: resolved."""
        self._paths = frozenset(paths)
        self._resolved: dict[str, str] = {}
        """File as code objects name it → its resolved name; empty for a file that nobody asks for."""
        self._told = set[tuple[str, int]]()
        self._news: dict[str, list[int]] = {}
        """File → lines that are not told yet."""
        self._events_left = MAX_EVENTS
        self._thread = 0
        """The thread that is followed; 0 where none is."""

    def begin(self) -> None:
        """Follow this thread from now on, and threads that begin later.

        Nothing where no file is asked for, or where somebody else, such as a debugger, follows this process.
        """
        if self._paths and sys.gettrace() is None:
            self._thread = threading.get_ident()
            threading.settrace(self._called)
            sys.settrace(self._called)

    def news(self) -> dict[str, ReportedLines]:
        """Return what is to be told since the last call, as a part of a message; empty where that is nothing."""
        # An interruption, or code of a trial, may have ended the tracing.
        if threading.get_ident() == self._thread and sys.gettrace() != self._called:
            self._events_left = -1
        if self._events_left < 0:
            return {"lines": None}
        news, self._news = self._news, {}
        return {"lines": news} if news else {}

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        if file not in self._resolved:
            path = str(Path(file).resolve())
            self._resolved[file] = path if path in self._paths else ""
        return self._ran if self._resolved[file] and self._events_left >= 0 else None

    def _ran(self, frame: FrameType, event: str, argument: object) -> object:
        if event == "line":
            place = self._resolved[frame.f_code.co_filename], frame.f_lineno
            if place not in self._told:
                self._told.add(place)
                self._news.setdefault(place[0], []).append(place[1])
            self._events_left -= 1
        if self._events_left >= 0:
            return self._ran
        threading.settrace(None)
        sys.settrace(None)
        return None


COMPARED = ("versions", "suite", "profiles", "arms")


@dataclass(frozen=True, slots=True)
class Job:
    """The description of a run that an engine needs."""

    config: CompareConfig
    suite: Suite
    arms: tuple[Arm, ...]
    manifest: Manifest
    trial_models: TrialModels
    meter: Meter
    lines: SeenLines | None = None
    """Collects which lines of some files the trials come to in workers; None where nobody asks."""


def setup_of(job: Job, workers: int) -> bytes:
    """Return what one of so many workers is told, as JSON: the configuration with its share of the limits, what the run
    has spent by now, and what it must find.

    Keys of providers are left out: a worker reads them from its own environment.
    """
    whole = job.config.provider
    limits = {"requests_per_minute": whole.requests_per_minute, "tokens_per_minute": whole.tokens_per_minute}
    provider = whole.model_copy(update={name: limit and max(1, limit // workers) for name, limit in limits.items()})
    concurrency = max(1, job.config.in_flight // workers)
    alone = {"workers": None, "engine": "local", "address": None}  # what it does itself, it does in one process
    config = job.config.model_copy(update={"provider": provider, "concurrency": concurrency, **alone})
    return json.dumps(
        {
            "config": config.model_dump(mode="json"),
            "manifest": compared(job.manifest),
            "models": job.manifest.models,
            "spent": [job.meter.calls, job.meter.tokens, job.meter.dollars],
            "path": [*sys.path, *own_folder()],
            "lines": [] if job.lines is None else [*job.lines.by_path],
        }
    ).encode()


def compared(manifest: Manifest) -> dict[str, Json]:
    """Return the parts of a manifest that must be the same in every process that runs trials of one run."""
    return manifest.model_dump(mode="json", include=set(COMPARED), exclude_unset=True)
