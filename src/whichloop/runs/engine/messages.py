"""The messages to and from a worker, which is a process of this machine or an actor of a Ray cluster.

Messages are bytes: one line of JSON, after which a trace may follow as it is.

To a worker:
    {"run": [job, arm, task, repeat, attempt]}: a trial; arm and task by their place in the run's arms and its suite's tasks.
    {"stop": reason}: the run's budget is used up, and trials end as not run.
    {"last": reason}: the run is interrupted: trials under way go on, those that wait end as not run.
    {"end": true}: no trial will follow. It answers `ended`, and that is the last of it.

From a worker:
    {"done": job, "record": {…}}, a newline and the trace: a finished trial.
    {"not_run": job, "why": reason}
    {"spent": [calls, tokens, dollars]}: since it last said so.
    {"alive": running, "stuck": s, "at": place, "threads": n}: each second, from a thread; trials under way, how long its event
        loop has not turned, file and line where that is, threads of calls that have not come back.
    {"ended": {"threads": {name: n}, "tasks": n, "said": [line, …], "replayed": n, "miss": text}}: what it leaves behind, lines to
        be told, and what came of a recording.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json import dumps  # bound at import: a loop may replace it in its module later
from typing import Protocol


class WorkerError(ValueError):
    """A worker cannot do its work: bad input, or code that differs from that of this process. One line."""


class WorkerLost(Exception):
    """A worker has died or cannot be reached any more; the text says how: `signal 9`, `exit code 1`."""


class Link(Protocol):
    """The connection to one worker."""

    name: str
    """Name in messages: `worker 2`, or `worker 2 on 10.0.0.7`."""

    async def start(self, setup: bytes) -> None:
        """Start the worker, and wait until it has looked up what `setup`, JSON, names. Raises WorkerError and WorkerLost."""

    async def send(self, message: bytes) -> None:
        """Send a message. Raises WorkerLost."""

    async def receive(self) -> bytes:
        """Return its next message, also one that it sent before it died. Raises WorkerLost."""

    async def stop(self, *, kill: bool) -> None:
        """End the worker, gently or at once. May be called twice, and for a lost worker."""


@dataclass(frozen=True, slots=True)
class Links:
    """The place that workers come from."""

    make: Callable[[int], Link]
    """Make a link, not yet started, to worker number 1, 2, …; a worker that replaces a lost one has a new number."""
    workers: int
    """Number of workers at once."""


_LENGTH = struct.Struct(">I")


def encoded(fields: Mapping[str, object]) -> bytes:
    """Return the JSON line of a message."""
    return dumps(fields, separators=(",", ":")).encode("ascii")


def framed(message: bytes) -> bytes:
    """Return a message with its length before it, as `Frames` reads it."""
    return _LENGTH.pack(len(message)) + message


class Frames:
    """Splits a stream into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add data, and return the messages that are now complete."""
        rest = self._rest
        rest += data
        messages, at = [], 0
        while len(rest) - at >= _LENGTH.size:
            start = at + _LENGTH.size
            end = start + _LENGTH.unpack_from(rest, at)[0]
            if len(rest) < end:
                break
            messages.append(bytes(rest[start:end]))
            at = end
        del rest[:at]
        return messages
