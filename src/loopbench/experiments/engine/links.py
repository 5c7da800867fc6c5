"""How a worker is reached: one that is another process of this machine, or an actor of a Ray cluster."""

from __future__ import annotations

from typing import Protocol


class WorkerError(ValueError):
    """A worker cannot do what it was set up for: bad input, or other code than this process has. One line."""


class WorkerLost(Exception):
    """A worker has died, or cannot be reached any more; says how."""


class Link(Protocol):
    """To one worker. Messages are bytes: a line of JSON, after which a trace may follow as it is."""

    name: str
    """`worker 2`, or `worker 2 on 10.0.0.7`: for what is told of it."""

    async def start(self, setup: bytes) -> None:
        """Start it, and wait until it has looked up what `setup`, JSON, names. Raises WorkerError and WorkerLost."""

    async def send(self, message: bytes) -> None:
        """Raises WorkerLost."""

    async def receive(self) -> bytes:
        """Its next message. Raises WorkerLost."""

    async def stop(self, *, kill: bool) -> None:
        """End it: kindly, or at once, whatever it does."""
