"""A folder of recordings, one file per model, and how a run uses it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from whichloop.models.tunnel import Tunnel
from whichloop.protocol import Capabilities, Model

from .canonical import Cleaner
from .lines import Lane, RecordedRequest
from .model import CassetteCounts, CassetteMode, RecordedModel, SharedRecording
from .recording import Recording, recorded_models


class Cassette:
    """The recordings of a folder, opened for one run. One process at a time writes; any number replays."""

    def __init__(self, folder: Path, mode: CassetteMode, lock: int | None, goes_on: bool) -> None:
        self.folder = folder
        self.mode = mode
        self.goes_on = goes_on
        self.tally = CassetteCounts()
        self._lock = lock
        self._cleaner = Cleaner()
        self._desks: dict[str, SharedRecording] = {}
        self._declared: dict[str, Capabilities] = {}

    @classmethod
    def open(cls, folder: Path, mode: CassetteMode, *, goes_on: bool = False) -> Cassette:
        """Open a folder of recordings. `goes_on`: the run was interrupted; trials that it does not run again keep their recordings.

        Raises ValueError for a folder that cannot be used, or that another run is recording in.
        """
        if mode is CassetteMode.REPLAY:
            if not folder.is_dir():
                raise ValueError(f"{folder}: not a folder of recordings")
            return cls(folder, mode, None, goes_on)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise ValueError(f"{folder}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise ValueError(f"{folder}: another run is recording here") from None
        return cls(folder, mode, lock, goes_on)

    @property
    def hits(self) -> int:
        """Requests answered from a recording."""
        return self.tally.hits

    @property
    def misses(self) -> int:
        """Requests that were looked for in a recording in vain."""
        return self.tally.misses

    @property
    def recorded(self) -> int:
        """Answers recorded by this run."""
        return self.tally.recorded

    @property
    def first_miss(self) -> str:
        """The first miss of a replay, its line and the difference; empty if there was none."""
        return self.tally.first_miss

    def check(self, name: str) -> None:
        """Check, before anything runs, that the mode suits what is recorded of a model. Raises ValueError."""
        self._desk(name)

    def model(self, name: str, lane: Lane, inner: Model | None, tunnel: Tunnel | None = None) -> RecordedModel:
        """Return one trial's model. `name`: what it is recorded under. `inner`: the model that is asked; a replay needs none.

        Raises ValueError as `check` does, and where two models are recorded under one name.
        """
        desk = self._desk(name)
        if self.mode is CassetteMode.REPLAY:
            inner = None
        elif inner is None:
            raise ValueError(f"mode {self.mode.value} needs a model to ask")
        else:
            able = inner.capabilities
            if self._declared.setdefault(name, able) != able:
                raise ValueError(f"two models of different capabilities are recorded as {name!r}: give them two names")
            desk.recording.capabilities = able
        clean = self._cleaner.text
        return RecordedModel(desk, Lane(clean(lane.arm), clean(lane.task), lane.repeat), inner, tunnel)

    def close(self, whole: bool) -> None:
        """Bring all to the disk. `whole`: the run ended by itself; then what it recorded is put in order, once per request.

        After a whole refresh, what was not asked again is gone; what is recorded of trials in which the model failed, and of a
        run that goes on, stays. Raises ValueError where the disk is full; what was recorded before stands.
        """
        try:
            for desk in self._desks.values():
                recording = desk.recording
                try:
                    recording.close(self._keeps(recording) if whole else None)
                except OSError as error:
                    raise ValueError(
                        f"{recording.path}: {error.strerror}; what was recorded is kept, in the order of the run"
                    ) from None
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _keeps(self, recording: Recording) -> Callable[[RecordedRequest, bool], bool]:
        def keep(request: RecordedRequest, fresh: bool) -> bool:
            drops = self.mode is CassetteMode.REFRESH and not self.goes_on
            return fresh or not drops or request.lane in recording.unsettled

        return keep

    def _desk(self, name: str) -> SharedRecording:
        desk = self._desks.get(name)
        if desk is not None:
            return desk
        recording = Recording(self.folder, self._cleaner.text(name))
        for other in self._desks.values():
            if other.recording.path == recording.path:
                raise ValueError(f"{recording.path}: {other.recording.model!r} and {name!r} would have the same file")
        if self.mode is CassetteMode.REPLAY and not len(recording):
            there = ", ".join(recorded_models(self.folder)) or "none"
            raise ValueError(f"{self.folder}: no recording of {name}; recorded models: {there}")
        if self.mode is CassetteMode.RECORD and len(recording):
            raise ValueError(
                f"{recording.path}: {name} is recorded already; mode replay-or-record adds to it, mode refresh starts it over"
            )
        desk = self._desks[name] = SharedRecording(recording, self.mode, self._cleaner, self.tally)
        return desk
