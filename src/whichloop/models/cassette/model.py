"""A recording, and the model of one trial behind it: what is recorded is given again, what is not is asked and recorded."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import cast

from whichloop.models.metering import waits
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import CallDelta, Capabilities, Chunk, Model, ModelError, NativeCall, ProviderError, Reply, Request
from whichloop.protocol.chat import reply_of_pieces

from .canonical import Canonical, Cleaner
from .lines import Exchange, Failure, Lane, Parts, RecordedRequest
from .miss import RecordingError, miss_of
from .recording import Recording, recorded_models


class CassetteMode(StrEnum):
    """What a cassette does with a request."""

    RECORD = "record"
    """Ask and record; the model must not be recorded yet."""
    REPLAY = "replay"
    """Answer from the recording; what it lacks is an error."""
    REPLAY_OR_RECORD = "replay-or-record"
    """Answer from the recording; ask and record what it lacks."""
    REFRESH = "refresh"
    """Ask all anew and replace what is recorded."""

    @property
    def looks_up(self) -> bool:
        return self in (CassetteMode.REPLAY, CassetteMode.REPLAY_OR_RECORD)


@dataclass(slots=True)
class CassetteCounts:
    """What became of the requests of a run."""

    hits: int = 0
    misses: int = 0
    recorded: int = 0
    first_miss: str = ""
    """The error and the difference, in several lines; empty if there was none."""


@dataclass(frozen=True, slots=True)
class SharedRecording:
    """What all trials of one recorded model share."""

    recording: Recording
    mode: CassetteMode
    cleaner: Cleaner
    tally: CassetteCounts


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    """A request on its way."""

    request: Request
    canonical: Canonical
    identity: RecordedRequest
    started: float = field(default_factory=time.perf_counter)
    lost_s: float = field(default_factory=lambda: waits().seconds)
    """What the trial had lost by then to failures and limits."""

    @property
    def seconds(self) -> float:
        """Seconds until now, without those that were lost meanwhile."""
        return max(0.0, time.perf_counter() - self.started - (waits().seconds - self.lost_s))


class RecordedModel:
    """One trial's model. Its answers are the same whether they are recorded or replayed; a replayed one costs nothing."""

    def __init__(self, desk: SharedRecording, lane: Lane, inner: Model | None) -> None:
        """`inner`: the model to ask; None replays only."""
        self.lane = lane
        self.inner = inner
        self.replayed_s = 0.0
        """Recorded latency of the replayed answers, in seconds, added up; nothing sleeps."""
        self.failure: RecordingError | None = None
        """The first failure of the recording itself: the trial says nothing then, however it ends."""
        self._desk = desk
        self._calls = 0
        self._occurrences = Counter[tuple[str, str]]()

    @property
    def name(self) -> str:
        return self._desk.recording.model

    @property
    def capabilities(self) -> Capabilities:
        """The model's capabilities; in a replay those that it had."""
        own = self._desk.recording.capabilities if self.inner is None else self.inner.capabilities
        assert own is not None
        return own

    async def complete(self, request: Request) -> Reply:
        """Return the recorded or fresh reply. Raises RecordingMiss, RecordingError if recording fails, or what the model raised."""
        ask = self._begin(request)
        exchange = self._recorded_exchange(ask)
        if exchange is not None:
            return await self._replay(ask, exchange)
        inner = self._inner(ask)
        try:
            reply = await inner.complete(request)
        except ModelError as error:
            self._failed(ask, error)
            raise
        except BaseException:  # cancellation, a budget that is used up: nothing to be recorded
            self._take_back(ask)
            raise
        return self._record_reply(ask, reply)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the same in pieces; a stream that the loop closes early is recorded as far as it came."""
        ask = self._begin(request)
        exchange = self._recorded_exchange(ask)
        if exchange is not None:
            reply = await self._replay(ask, exchange)
            for chunk in pieces(reply) if self.capabilities.streaming else (Chunk(reply.text, reply=reply),):
                yield chunk
            return
        streamed = _StreamedReply()
        chunks = cast(AsyncGenerator[Chunk, None], self._inner(ask).stream(request))
        try:
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    streamed.take(chunk)
                    if chunk.reply is not None:
                        chunk = replace(chunk, reply=self._record_reply(ask, chunk.reply))
                    yield chunk
        except ModelError as error:
            if streamed.whole is None:
                self._failed(ask, error)
            raise
        except GeneratorExit:
            if streamed.whole is None:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    self._take_back(ask)
                else:
                    self._record_reply(ask, streamed.reply(), cut=True)
            raise
        except BaseException:
            if streamed.whole is None:
                self._take_back(ask)
            raise

    # --- asking ---

    def _begin(self, request: Request) -> _PendingRequest:
        cleaner = self._desk.cleaner
        try:
            canonical = cleaner.request(request)
        except ValueError as error:
            raise ProviderError(f"the request cannot be sent: {error}", "bad_request") from None
        scope = cleaner.text(request.scope)
        occurrence = self._occurrences[scope, canonical.digest]
        identity = RecordedRequest(canonical.digest, self.lane, scope, occurrence, self._calls, request.role.value)
        self._occurrences[scope, canonical.digest] += 1
        self._calls += 1
        return _PendingRequest(request, canonical, identity)

    def _recorded_exchange(self, ask: _PendingRequest) -> Exchange | None:
        """Return the recorded exchange, which from here on is this trial's own."""
        desk = self._desk
        exchange = desk.recording.find(ask.identity) if desk.mode.looks_up else None
        if exchange is None:
            return None
        desk.tally.hits += 1
        if desk.mode is CassetteMode.REPLAY_OR_RECORD and exchange.request.owner != ask.identity.owner:
            exchange = self._write(
                ask, replace(exchange, request=ask.identity)
            )  # a replay of this run must find what this run found
        return exchange

    def _inner(self, ask: _PendingRequest) -> Model:
        desk = self._desk
        if desk.mode.looks_up:
            desk.tally.misses += 1
        if self.inner is None:
            miss = miss_of(desk.recording, ask.identity, ask.canonical.value)
            desk.tally.first_miss = desk.tally.first_miss or f"{miss}\n{miss.difference}".rstrip()
            self.failure = self.failure or miss
            raise miss
        return self.inner

    def _take_back(self, ask: _PendingRequest) -> None:
        """Forget a request that came to nothing a replay could give: the next request of this kind takes its place."""
        self._occurrences[ask.identity.scope, ask.identity.digest] -= 1
        self._desk.recording.unsettled.add(self.lane)

    # --- what came of it ---

    async def _replay(self, ask: _PendingRequest, exchange: Exchange) -> Reply:
        """Return, or raise, what was recorded."""
        self.replayed_s += exchange.seconds
        if isinstance(exchange.answer, Failure):
            raise exchange.answer.error()
        usage = exchange.answer.usage  # nothing is billed for a replayed reply; what it would have cost stays
        if usage is None:
            return exchange.answer
        nominal = usage.cost_usd if usage.nominal_usd is None else usage.nominal_usd
        return replace(exchange.answer, usage=replace(usage, cost_usd=None if nominal is None else 0.0, nominal_usd=nominal))

    def _record_reply(self, ask: _PendingRequest, reply: Reply, *, cut: bool = False) -> Reply:
        """Record a reply and return it as recorded, which is what the loop gets. Raises RecordingError."""
        clean = self._desk.cleaner.text
        calls = tuple(NativeCall(clean(call.id), clean(call.name), clean(call.arguments)) for call in reply.calls)
        stored = self._record(ask, replace(reply, text=clean(reply.text), calls=calls), cut=cut)
        assert isinstance(stored, Reply)
        return stored

    def _failed(self, ask: _PendingRequest, error: ModelError) -> None:
        """Record an error and raise it as recorded; do neither for one that is not recorded."""
        failure = Failure.of(error)
        if failure is None:
            self._take_back(ask)
            return
        stored = self._record(ask, replace(failure, message=self._desk.cleaner.text(failure.message)))
        assert isinstance(stored, Failure)
        raise stored.error() from None

    def _record(self, ask: _PendingRequest, answer: Reply | Failure, *, cut: bool = False) -> Reply | Failure:
        stored = self._write(ask, Exchange(ask.identity, Parts(()), answer, cut, round(ask.seconds, 3)))
        self._desk.tally.recorded += 1
        return stored.answer

    def _write(self, ask: _PendingRequest, exchange: Exchange) -> Exchange:
        recording = self._desk.recording
        try:
            return recording.add(exchange, ask.canonical.value)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            failure = RecordingError(f"{recording.path}: call {ask.identity.call + 1} of {self.lane} cannot be recorded: {reason}")
            self.failure = self.failure or failure
            raise failure from None


class _StreamedReply:
    """What has come of a stream."""

    def __init__(self) -> None:
        self.whole: Reply | None = None
        self._text: list[str] = []
        self._deltas: list[CallDelta] = []

    def take(self, chunk: Chunk) -> None:
        self.whole = chunk.reply or self.whole
        self._text.append(chunk.text)
        if chunk.call is not None:
            self._deltas.append(chunk.call)

    def reply(self) -> Reply:
        """Return the reply of a stream that was closed early."""
        return replace(reply_of_pieces("".join(self._text), self._deltas), finish_reason="other")


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

    def model(self, name: str, lane: Lane, inner: Model | None) -> RecordedModel:
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
        return RecordedModel(desk, Lane(clean(lane.arm), clean(lane.task), lane.repeat), inner)

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
