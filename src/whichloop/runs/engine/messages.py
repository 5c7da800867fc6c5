"""The messages to and from a worker, which is a process of this machine or an actor of a Ray cluster.

A message is one line of JSON; a trace may follow after a newline, as it is.

To a worker: first its setup, see `job.setup_of`; then
    {"run": [job, arm, task, repeat, attempt]}: a trial; arm and task by their place in the run's arms and its suite's tasks.
    {"stop": reason, "at_once": bool}: trials that have not begun end as not run; at once, no model call begins either.
    {"end": true}: no trial will follow. It answers `ended`, and that is the last of it.

From a worker, each with "spent": [calls, tokens, dollars] since the last one:
    {}: the beat of its event loop, ten times a second.
    {"done": job, "record": {…}, "lines": …}, a newline and the trace: a finished trial.
    {"not_run": job, "why": reason}
    {"ended": {"replayed": n, "miss": text}}: what came of a recording.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from json import dumps  # bound at import: a loop may replace it in its module later
from typing import Protocol

START_LIMIT_S = 300.0
"""Seconds that a worker may take to be ready."""


class WorkerError(ValueError):
    """A worker cannot do its work: bad input, or code that differs from that of this process. One line."""


class WorkerLost(Exception):
    """A worker has died or cannot be reached any more; the text says how: `signal 9`, `exit code 1`."""


class Link(Protocol):
    """The connection to one worker."""

    name: str
    """Name in messages: `worker 2`, or `worker 2 on 10.0.0.7`."""

    async def start(self, setup: bytes) -> None:
        """Start the worker, and wait until it has looked up what `setup` names. Raises WorkerError and WorkerLost."""

    def send(self, message: bytes) -> None:
        """Send a message; a lost worker does not get it."""

    async def receive(self) -> bytes:
        """Return its next message, also one that it sent before it died. Raises WorkerLost."""

    async def hangs_at(self) -> str | None:
        """Return the user's line that blocks its event loop, empty if unknown; None if it has not said that it hangs."""

    async def stop(self, *, kill: bool) -> None:
        """End the worker, gently or at once. May be called for a lost worker."""


@dataclass(frozen=True, slots=True)
class Links:
    """The place that workers come from."""

    make: Callable[[int], Link]
    """Make a link, not yet started, to worker number 1, 2, …; a worker that replaces a lost one has a new number."""
    workers: int
    check: Callable[[], Awaitable[None]] | None = None
    """Raises CutShort where no worker can come from there any more; None for this machine, which is there."""


def encoded(fields: Mapping[str, object]) -> bytes:
    return dumps(fields, separators=(",", ":")).encode("ascii")


def framed(message: bytes) -> bytes:
    """Return a message with its length before it, as a stream carries it."""
    return len(message).to_bytes(4, "big") + message
