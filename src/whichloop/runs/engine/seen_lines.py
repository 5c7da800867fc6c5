"""Which lines of some files the trials of a run come to, by Python's line tracing. It takes time, so only where somebody asks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

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
        """Whether every process followed its trials to the end, and told of all of them: one that is lost does not."""
        self._by_path: dict[str, set[int]] = {str(path.resolve()): set() for path in files.values()}

    @property
    def paths(self) -> list[str]:
        """The files as a worker is told them."""
        return [*self._by_path]

    def add(self, reported: ReportedLines) -> None:
        """Add what a process has told; None for one that will not tell all."""
        if reported is None:
            self.is_whole = False
            return
        for path, lines in reported.items():
            self._by_path[path].update(lines)

    def of(self, name: str) -> frozenset[int]:
        """Return the lines of a file that were run."""
        return frozenset(self._by_path[str(self.files[name].resolve())])


class LineWatch:
    """Follows the lines of some files in this process."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths`: resolved."""
        self._watched_paths = frozenset(paths)
        self._seen_by_file: dict[str, tuple[str, set[int]] | None] = {}
        """File as code objects name it → its resolved name and the lines seen of it; None for a file that nobody asks for."""
        self._unreported: dict[str, set[int]] = {}
        self._events_left = MAX_EVENTS
        self._gave_up = False
        self._thread = 0
        """The thread that is followed; 0 where none is."""

    def begin(self) -> None:
        """Follow this thread from now on, and threads that begin later.

        Nothing where no file is asked for, or where somebody else, such as a debugger, follows this process.
        """
        if self._watched_paths and sys.gettrace() is None:
            self._thread = threading.get_ident()
            threading.settrace(self._called)
            sys.settrace(self._called)

    def news(self) -> dict[str, ReportedLines]:
        """Return what is to be told since the last call, as a part of a message; empty where that is nothing."""
        # An interruption, or code of a trial, may have ended the tracing.
        tracing_ended = threading.get_ident() == self._thread and sys.gettrace() != self._called
        self._gave_up = self._gave_up or tracing_ended
        if self._gave_up:
            return {"lines": None}
        unreported, self._unreported = self._unreported, {}
        return {"lines": {path: sorted(lines) for path, lines in unreported.items()}} if unreported else {}

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        try:
            seen_lines = self._seen_by_file[file]
        except KeyError:
            seen_lines = self._seen_by_file[file] = self._asked_for(file)
        return None if seen_lines is None or self._gave_up else self._ran

    def _asked_for(self, file: str) -> tuple[str, set[int]] | None:
        path = str(Path(file).resolve())
        return (path, set()) if path in self._watched_paths else None

    def _ran(self, frame: FrameType, event: str, argument: object) -> object:
        if event != "line":
            return self._ran
        seen_lines = self._seen_by_file[frame.f_code.co_filename]
        if seen_lines is not None and frame.f_lineno not in seen_lines[1]:
            seen_lines[1].add(frame.f_lineno)
            self._unreported.setdefault(seen_lines[0], set()).add(frame.f_lineno)
        self._events_left -= 1
        if self._events_left < 0:
            self._gave_up = True
            threading.settrace(None)
            sys.settrace(None)
            return None
        return self._ran
