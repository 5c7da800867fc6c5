"""A worker as the pool sees it, and the trials that it was given."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Any

from loopbench.runs.schedule import Trial
from loopbench.runs.trial.setting import FinishedTrial

from .messages import Link, WorkerLost

LOOK_S = 0.25
"""How often workers and the run's budget are looked at."""
MAX_AHEAD = 64
"""Trials that a worker is given ahead of time, where they are quick."""
AHEAD_S = 0.05
"""Seconds of work that it is given ahead: far more than an answer takes, and little to wait for in the end."""


@dataclass(slots=True, eq=False)
class Order:
    """A trial that is to come back."""

    number: int
    trial: Trial
    message: bytes
    done: asyncio.Future[FinishedTrial]
    deaths: int = 0
    """Deaths of workers that had the trial under way."""
    alone: bool = False
    """It runs on a worker that has nothing else."""
    sent_at: float = 0.0
    """Unix time."""


@dataclass(slots=True, eq=False)
class PoolWorker:
    """A worker and what it has to do."""

    link: Link
    share: int
    """Trials that it runs at once."""
    orders: dict[int, Order] = field(default_factory=dict)
    """What it was given and has not given back, in the order in which it was given."""
    held: bool = False
    """It gets nothing new: a trial is to run on it alone, or it is to end."""
    worn_out: bool = False
    """It is to end once it has nothing to do."""
    ended: bool = False
    """It has said that it is at its end."""
    stuck: bool = False
    """It is to be killed."""
    finished: int = 0
    ready_at: float = field(default_factory=time.monotonic)
    silent_s: float = 0.0
    stuck_s: float = 0.0
    """Seconds that its event loop had not turned when it last reported."""
    keeping: asyncio.Task[Any] | None = None
    listening: asyncio.Task[None] | None = None
    outbox: list[bytes] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> int:
        """Orders that are under way: the first ones, since it begins them in the order in which it gets them."""
        return min(self.share, len(self.orders))

    @property
    def room(self) -> int:
        """Trials that it may be given in addition."""
        if self.held:
            return 0
        per_s = self.finished / max(time.monotonic() - self.ready_at, LOOK_S)
        return self.share + min(MAX_AHEAD, int(AHEAD_S * per_s)) - len(self.orders)

    def send(self, message: bytes) -> None:
        self.outbox.append(message)
        self.wake.set()

    async def post(self) -> None:
        """Send what is to be sent, until the worker is lost, which whoever listens to it notices."""
        with contextlib.suppress(WorkerLost):
            while True:
                await self.wake.wait()
                self.wake.clear()
                messages, self.outbox = self.outbox, []
                for message in messages:
                    await self.link.send(message)
