"""Recordings: what real models replied, as JSON lines, so that a run can be repeated offline and exactly."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import errno
import fcntl
import heapq
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whichloop.models.metering import waits
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Capabilities, Chunk, ContextOverflow, Model, ModelError, ProviderError, Reply, Request
from whichloop.protocol.chat import reply_of_pieces
from whichloop.protocol.files import each_line, file_error_words
from whichloop.protocol.json_text import canonical_json, digest, load_json, sha256
from whichloop.protocol.model import ProviderTrouble
from whichloop.protocol.redact import redact, redact_json
from whichloop.protocol.schema import first_problem

RecordingMode = Literal["record", "replay", "replay-or-record", "refresh"]
MAX = 10**15
"""The largest count, seconds or dollars that are read; what is computed from larger numbers would overflow."""
MAX_COMPARED = 100
"""Recorded requests that one which is not recorded is compared with."""
DIFFERENCE_LINES, DIFFERENCE_WIDTH = 40, 200


class RecordingError(ProviderError):
    """The recording failed, not the model: the trial says nothing about its loop, however it ends."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "bad_request")  # asking again does not help


Form = TypeVar("Form", bound=BaseModel)


@lru_cache(maxsize=4096)
def _without_secrets(text: str) -> Any:
    """Return JSON without secrets; a conversation shows the same messages again and again."""
    return redact_json(load_json(text))


def canonical(request: Request) -> dict[str, Any]:
    """Return a request as recordings know it: without secrets, and with call ids, which providers make up, by their order.

    Raises TypeError, ValueError or RecursionError for one that JSON cannot express.
    """
    value, names = request.as_dict(), dict[str, str]()
    for message in value["messages"]:
        for holder, name in (*((call, "id") for call in message.get("tool_calls", ())), (message, "tool_call_id")):
            if name in holder:
                holder[name] = names.setdefault(holder[name], f"call_{len(names)}")
    value |= {name: float(value[name]) for name in ("temperature", "top_p") if name in value}  # 0 asks for the same as 0.0
    return {
        name: [_without_secrets(canonical_json(item)) for item in part]
        if isinstance(part, list)
        else _without_secrets(canonical_json(part))
        for name, part in value.items()
    }


class Use(NamedTuple):
    """Which request of which trial. `request`: its digest; `use`: how often the trial had asked the same in this scope before."""

    arm: str
    task: str
    repeat: int
    scope: str
    request: str
    use: int


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in the place of a reply, which a loop may act on for good."""

    message: str
    kind: Literal[ProviderTrouble, "context_overflow"] = "context_overflow"
    status: int | None = None
    retry_after_s: float | None = None
    injected: bool = False
    failed_attempts: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: BaseException) -> Failure | None:
        """Return an error as it is recorded; None for one that the next run need not meet."""
        if isinstance(error, ContextOverflow):
            return cls(str(error))
        if isinstance(error, ProviderError) and (error.injected or error.kind in ("refused", "bad_request")):
            return cls(str(error), error.kind, error.status, error.retry_after_s, error.injected, error.failed_attempts)
        return None

    def error(self) -> ModelError:
        """Return the error that a replay raises."""
        return ContextOverflow(self.message) if self.kind == "context_overflow" else ProviderError(**asdict(self))


class Header(BaseModel):
    """The first line of a file; `recording` is the version of the form."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    recording: Literal[1]
    model: str
    capabilities: Capabilities


class Line(BaseModel):
    """One reply; `seconds`: its latency, without failed attempts and limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    request: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    arm: str
    task: str
    repeat: Annotated[int, Field(ge=0, le=MAX)]
    scope: str = ""
    use: Annotated[int, Field(ge=0, le=MAX)] = 0
    asked: dict[str, Any]
    reply: Reply | None = None
    error: Failure | None = None
    seconds: Annotated[float, Field(ge=0, le=MAX)] = 0.0

    @model_validator(mode="after")
    def _is_sane(self) -> Self:
        if (self.reply is None) == (self.error is None):
            raise ValueError("needs either a reply or an error")
        usage = {} if self.reply is None or self.reply.usage is None else asdict(self.reply.usage)
        if wrong := [name for name, number in usage.items() if not 0 <= (number or 0) <= MAX]:
            raise ValueError(f"reply.usage.{wrong[0]} must be from 0 to {MAX}")
        return self


def encode(line: BaseModel) -> bytes:
    """Write a line without secrets; where it holds what cannot be seen, in ASCII. Raises ValueError for what JSON lacks."""
    value = redact_json(line.model_dump(exclude_defaults=True))
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return (text if text.isprintable() else json.dumps(value)).encode() + b"\n"


def decode(line: bytes, kind: type[Form]) -> Form:
    """Read a line. Raises ValueError, which says what is wrong in one line."""
    try:
        return kind.model_validate(load_json(line.decode(), finite=True))
    except ValidationError as error:
        raise ValueError(first_problem(error)[:DIFFERENCE_WIDTH]) from None


class Recording:
    """The recording of one model."""

    def __init__(self, folder: Path, model: str) -> None:
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip(".-")[:100]
        self.model, self.path = model, folder / f"{slug or sha256(model)[:8]}.jsonl"
        self.capabilities: Capabilities | None = None
        self.unsettled = set[tuple[str, str, int]]()
        """Trials in which a request met a failure that is not recorded."""
        self.lines: dict[Use, bytes] = {}
        self._before: dict[tuple[str, int, int], list[Use]] = {}
        """What was recorded before this run, by request, repeat and use."""
        self._fresh = set[Use]()
        self._size = 0
        """Bytes of the whole lines."""
        self._lock = threading.Lock()
        self._file: FileIO | None = None

    def open(self, *, writes: bool) -> None:
        """Read the file. Raises ValueError, with the line, for one that is no recording; or that another run is writing."""
        try:
            if writes:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK  # a pipe is refused, and not waited for
                self._file = FileIO(os.open(self.path, flags, 0o666), "ab")
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for number, line in enumerate(each_line(self.path), 1):
                if line.endswith(b"\n"):  # else: torn by a kill
                    self._read(line, number)
                    self._size += len(line)
        except FileNotFoundError:
            pass
        except BlockingIOError:
            raise ValueError(f"{self.path}: another run is recording here") from None
        except OSError as error:
            raise ValueError(file_error_words(error)) from None

    def _read(self, line: bytes, number: int) -> None:
        try:
            if number == 1:
                header = decode(line, Header)
                self.capabilities = header.capabilities
                if header.model != self.model:
                    raise ValueError(f"records {header.model!r}; {self.model!r} needs another folder")
                return
            read = decode(line, Line)
        except ValueError as error:
            raise ValueError(f"{self.path}:{number}: {error}") from None
        use = Use(read.arm, read.task, read.repeat, read.scope, read.request, read.use)
        self.lines[use] = line
        self._before.setdefault((use.request, use.repeat, use.use), []).append(use)

    @property
    def _header(self) -> bytes:
        return encode(Header(recording=1, model=self.model, capabilities=cast(Capabilities, self.capabilities)))

    def find(self, use: Use) -> Line | None:
        """Return what the trial itself had, else what another of its task had, else any of its repeat.

        What others record in the same run does not count: it would depend on which of them came first.
        """
        others = self._before.get((use.request, use.repeat, use.use), [])
        found = use if use in self.lines else min(others, key=lambda other: _distance(use, other), default=None)
        return None if found is None else decode(self.lines[found], Line)

    def miss(self, use: Use) -> str:
        """Say in one line that a request is not recorded."""
        said = f"not recorded: use {use.use + 1} of a request of {use.arm}/{use.task}/{use.repeat}"
        same = sorted({other.repeat for other in self.lines if other.request == use.request})
        return f"{said}; recorded are fewer uses, or other repeats: {same}" if same else said

    def closest(self, use: Use, asked: Mapping[str, Any]) -> str:
        """Say in several lines which recorded request is closest to one that is not, and where they differ; empty for the same."""
        if any(other.request == use.request for other in self.lines):
            return ""
        of_task = [other for other in self.lines if other.task == use.task] or self.lines
        near = heapq.nsmallest(MAX_COMPARED, of_task, key=lambda other: _distance(use, other))
        requests = [decode(self.lines[other], Line).asked for other in near]
        new, olds = _lines_of(asked), list(map(_lines_of, requests))
        at = max(range(len(near)), key=lambda place: len(set(new).intersection(olds[place])) / (len(new) + len(olds[place])))
        closest, old = near[at], requests[at]
        differing = ", ".join(sorted(name for name in old.keys() | asked.keys() if old.get(name) != asked.get(name)))
        lines = list(difflib.unified_diff(olds[at], new, "recorded", "asked", lineterm="", n=2))
        if len(lines) > DIFFERENCE_LINES:
            lines[DIFFERENCE_LINES - 1 :] = [f"… {len(lines) - DIFFERENCE_LINES + 1} more lines"]
        found = f"; closest is {closest.arm}/{closest.task}/{closest.repeat}; it differs in {differing}"
        return "\n".join([found, *lines])

    def add(self, use: Use, line: Line) -> Line:
        """Write a reply, and return it as it will be read. Raises ValueError for what cannot be read, OSError for a full disk."""
        data = encode(line)
        stored = decode(data, Line)
        with self._lock:
            if self._file is not None:  # else: a stream that was given up, and ends after its run
                written = data if self._size else self._header + data
                self._file.truncate(self._size)  # without what a kill or a full disk has left of a line
                if self._file.write(written) < len(written):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._size += len(written)
            self.lines[use] = data
            self._fresh.add(use)
        return stored

    def close(self, whole: bool, drops: bool) -> None:
        """Write no more. `whole`: put all in order. `drops`: without what this run has not recorded, of trials without failures."""
        with self._lock:
            if self._file is None:
                return
            with self._file:  # which has the lock
                self._file = None
                if whole and self._fresh:
                    kept = [use for use in self.lines if not drops or use in self._fresh or use[:3] in self.unsettled]
                    scratch = self.path.with_name(f"{self.path.name}.part")
                    with scratch.open("wb") as file:
                        file.writelines([self._header, *(self.lines[use] for use in sorted(kept, key=lambda use: use[:4]))])
                        file.flush()
                        os.fsync(file.fileno())
                    scratch.replace(self.path)


def _distance(use: Use, other: Use) -> tuple[Any, ...]:
    return other.task != use.task, other.arm != use.arm, other.scope != use.scope, other


def _lines_of(request: Mapping[str, Any]) -> list[str]:
    """Write a request in lines that can be compared: texts broken where they break, long lines folded."""
    text = json.dumps(request, ensure_ascii=False, indent=1, sort_keys=True).replace("\\n", "\n")
    width = DIFFERENCE_WIDTH - 1  # the diff's own mark comes before
    return [line[start : start + width] for line in text.split("\n") for start in range(0, max(len(line), 1), width)]


class Recordings:
    """The recordings of a folder, opened for one run. One run at a time records, any number replays."""

    def __init__(self, folder: Path, mode: RecordingMode, *, goes_on: bool = False) -> None:
        """`goes_on`: the run was interrupted; trials that it does not run again keep their recordings."""
        self.folder, self.mode = folder, mode
        self._drops = mode == "refresh" and not goes_on
        self.replayed = self.recorded = 0
        self.first_miss = ""
        """The first miss of a replay and its difference, in several lines; empty if there was none."""
        _without_secrets.cache_clear()  # what is a secret may have changed
        self._opened: dict[str, Recording] = {}

    def of(self, model: str) -> Recording:
        """Return a model's recording. Raises ValueError if it cannot be used, or does not suit the mode."""
        if model in self._opened:
            return self._opened[model]
        recording = self._opened[model] = Recording(self.folder, redact(model))
        try:
            recording.open(writes=self.mode != "replay")
            if self.mode == "replay" and not recording.lines:
                raise ValueError(f"{recording.path}: no recording of {model}; cassette_mode=record makes one")
            if self.mode == "record" and recording.lines:
                raise ValueError(f"{recording.path}: {model} is recorded already; replay-or-record adds to it, refresh replaces it")
        except ValueError:
            self.close(whole=False)
            raise
        return recording

    def close(self, whole: bool) -> None:
        """Write no more. `whole`: the run ended by itself; then the lines are put in order.

        After a whole refresh, what was not asked again is gone; what is recorded of trials in which the model failed, and of a
        run that goes on, stays. Raises OSError where the disk is full; what was recorded stands.
        """
        for recording in self._opened.values():
            recording.close(whole, self._drops)


@dataclass(slots=True)
class _Pending:
    """A request on its way, or with its recorded reply."""

    use: Use
    asked: dict[str, Any]
    recorded: Reply | None = None
    is_done: bool = False
    started: float = field(default_factory=lambda: time.perf_counter() - waits().seconds)


class RecordedModel:
    """One trial's model. Its replies are the same whether they are recorded or replayed; a replayed one costs nothing."""

    def __init__(self, recordings: Recordings, name: str, trial: tuple[str, str, int], inner: Model | None) -> None:
        """`name`: what it is recorded under. `inner`: the model that is asked; a replay needs none."""
        self._recordings, self._recording = recordings, recordings.of(name)
        self._inner = None if recordings.mode == "replay" else inner
        if self._inner is not None:
            self._recording.capabilities = self._inner.capabilities
        assert self._recording.capabilities is not None
        self.name, self.capabilities = self._recording.model, self._recording.capabilities
        self._trial = (redact(trial[0]), redact(trial[1]), trial[2])
        self.replayed_s = 0.0
        """Recorded latency of the replayed replies, in seconds, added up; nothing sleeps."""
        self.failure: RecordingError | None = None
        """The first failure of the recording itself: the trial says nothing then, however it ends."""
        self._uses = Counter[tuple[str, str]]()

    async def complete(self, request: Request) -> Reply:
        """Return the recorded or fresh reply. Raises RecordingError for a miss, or what the model raised."""
        with self._ask(request) as pending:
            return pending.recorded or cast(Reply, self._record(pending, reply=await cast(Model, self._inner).complete(request)))

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the same in pieces; a stream that the loop closes early is recorded as far as it came."""
        with self._ask(request) as pending:
            if (reply := pending.recorded) is not None:
                for chunk in pieces(reply) if self.capabilities.streaming else (Chunk(reply.text, reply=reply),):
                    yield chunk
                return
            came = list[Chunk]()
            async with contextlib.aclosing(cast(AsyncGenerator[Chunk], cast(Model, self._inner).stream(request))) as chunks:
                try:
                    async for chunk in chunks:
                        came.append(chunk)
                        yield chunk if chunk.reply is None else replace(chunk, reply=self._record(pending, reply=chunk.reply))
                except GeneratorExit:
                    task = asyncio.current_task()
                    if not (pending.is_done or (task and task.cancelling())):
                        text, calls = "".join(chunk.text for chunk in came), [chunk.call for chunk in came if chunk.call]
                        self._record(pending, reply=replace(reply_of_pieces(text, calls), finish_reason="other"))
                    raise

    @contextlib.contextmanager
    def _ask(self, request: Request) -> Iterator[_Pending]:
        """Look a request up, or record how it fails; one that comes to nothing a replay could give leaves its place to the next."""
        recordings, recording = self._recordings, self._recording
        try:
            asked = canonical(request)
            same = (redact(request.scope), digest(asked))
        except (ValueError, TypeError, RecursionError) as error:
            raise ProviderError(f"the request cannot be sent: {error}", "bad_request") from None
        pending = _Pending(Use(*self._trial, *same, self._uses[same]), asked)
        self._uses[same] += 1
        line = recording.find(pending.use) if recordings.mode in ("replay", "replay-or-record") else None
        if line is not None:
            recordings.replayed += 1
            self.replayed_s += line.seconds
            if line.error is not None:
                raise line.error.error()
            pending.recorded = _free(cast(Reply, line.reply))
            yield pending
        elif self._inner is None:
            said = recording.miss(pending.use)
            if not recordings.first_miss:  # to look for the closest takes long
                recordings.first_miss = said + recording.closest(pending.use, asked)
            raise self._failed(said)
        else:
            try:
                yield pending
            except BaseException as error:
                if not pending.is_done and (failure := Failure.of(error)) is not None:
                    raise self._record(pending, error=failure).error() from None
                if not pending.is_done:
                    self._uses[same] -= 1
                    recording.unsettled.add(self._trial)
                raise

    def _failed(self, message: str) -> RecordingError:
        error = RecordingError(message)
        self.failure = self.failure or error
        return error

    def _record(self, pending: _Pending, **answer: Reply | Failure) -> Any:
        """Record a `reply` or an `error`, and return it as recorded, which is what the loop gets. Raises RecordingError."""
        pending.is_done = True
        seconds = max(0.0, time.perf_counter() - waits().seconds - pending.started)
        line = Line.model_construct(**pending.use._asdict(), asked=pending.asked, seconds=round(seconds, 3), **cast(Any, answer))
        try:
            stored = self._recording.add(pending.use, line)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise self._failed(f"{self._recording.path}: a reply cannot be recorded: {reason}") from None
        self._recordings.recorded += 1
        return stored.reply or stored.error


def _free(reply: Reply) -> Reply:
    """Return a reply that nothing is billed for; what it would have cost stays."""
    if reply.usage is None:
        return reply
    nominal = reply.usage.cost_usd if reply.usage.nominal_usd is None else reply.usage.nominal_usd
    return replace(reply, usage=replace(reply.usage, cost_usd=None if nominal is None else 0.0, nominal_usd=nominal))
