"""A worker as the pool sees it, the trials that it was given, and the arms whose trials end workers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from whichloop.runs.schedule import Trial
from whichloop.runs.trial.trial import FinishedTrial

from .messages import Link, WorkerLost

LOOK_S = 0.25
"""Seconds between two checks of workers and of the run's budget."""
MAX_AHEAD = 64
"""Maximum number of quick trials that a worker is given ahead of time."""
AHEAD_S = 0.05
"""Seconds of work that a worker is given ahead: far more than a message takes, and a short wait at the end."""


@dataclass(slots=True, eq=False)
class Order:
    """A trial that a worker has to return."""

    number: int
    trial: Trial
    message: bytes
    result: asyncio.Future[FinishedTrial]
    deaths: int = 0
    """Number of workers that died during the trial."""
    alone: bool = False
    """Whether it runs on a worker that has nothing else."""
    sent_at: float = 0.0
    """Unix time at which it was sent."""


@dataclass(slots=True, eq=False)
class PoolWorker:
    """A worker and its orders."""

    link: Link
    share: int
    """Number of trials that it runs at once."""
    orders: dict[int, Order] = field(default_factory=dict)
    """Orders that it was given and has not returned, in the order in which they were given."""
    takes_no_more: bool = False
    """Whether it gets nothing new, because a trial must run on it alone or it must end."""
    worn_out: bool = False
    """Whether it must end once it has nothing to do."""
    ended: bool = False
    """Whether it has announced its end."""
    stuck: bool = False
    """Whether it must be killed."""
    one_at_a_time: bool = False
    """Whether it is given one trial at a time, since it has returned none, or the last one ran into its limit: trials that
    hang together on one event loop do so one after the other, and none of their results gets out before the last."""
    finished: int = 0
    ready_at: float = field(default_factory=time.monotonic)
    silent_s: float = 0.0
    stuck_s: float = 0.0
    """Seconds that its event loop had not turned when it last reported."""
    stuck_at: str = ""
    """File and line of the user's code that held it up; empty where that is not known."""
    is_told: bool = False
    """Whether it was told that its event loop is blocked."""
    keeping: asyncio.Task[Any] | None = None
    listening: asyncio.Task[None] | None = None
    outbox: list[bytes] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> int:
        """Return the number of orders under way: the first ones, since it begins them in the order in which it gets them."""
        return min(self.share, len(self.orders))

    def is_hopeless(self, limit_s: float, grace_s: float) -> bool:
        """Whether nothing but its end frees it: its event loop is blocked beyond a trial's limit, or it says nothing for longer."""
        return bool(self.orders) and self.stuck_s + self.silent_s > limit_s + (LOOK_S if self.stuck_s > self.silent_s else grace_s)

    @property
    def room(self) -> int:
        """Return how many more trials it may be given."""
        if self.takes_no_more:
            return 0
        if self.one_at_a_time:
            return 1 - len(self.orders)
        per_s = self.finished / max(time.monotonic() - self.ready_at, LOOK_S)
        return self.share + min(MAX_AHEAD, int(AHEAD_S * per_s)) - len(self.orders)

    def send(self, message: bytes) -> None:
        self.outbox.append(message)
        self.wake.set()

    async def post(self) -> None:
        """Send queued messages until the worker is lost, which its reader notices."""
        with contextlib.suppress(WorkerLost):
            while True:
                await self.wake.wait()
                self.wake.clear()
                messages, self.outbox = self.outbox, []
                for message in messages:
                    await self.link.send(message)


MAX_ARM_DEATHS = 15
"""Deaths of workers during trials of an arm that are borne however few of its trials have ended."""
MAX_ARM_DEATH_SHARE = 0.1
"""Deaths for each ended trial of the arm that are borne: a machine that kills a worker now and then is not the arm's fault."""


class ArmDeaths:
    """The deaths of workers that are an arm's own."""

    def __init__(self) -> None:
        self._deaths = Counter[str]()
        self._ended = Counter[str]()
        self._reasons: dict[str, str] = {}

    def trial_ended(self, arm: str) -> None:
        self._ended[arm] += 1

    def worker_died(self, arms: Collection[str], how: str) -> str:
        """Count a death by the arms of the trials under way, if that is one; return the arm if it is given up now, or nothing."""
        if len(set(arms)) != 1:
            return ""
        (arm,) = set(arms)
        self._deaths[arm] += 1
        if arm in self._reasons or self._deaths[arm] <= max(MAX_ARM_DEATHS, MAX_ARM_DEATH_SHARE * self._ended[arm]):
            return ""
        self._reasons[arm] = f"not run: {self._deaths[arm]} worker processes died during trials of this arm, the last of {how}"
        return arm

    def reason(self, arm: str) -> str:
        """Return why the arm is given up; empty if it is not."""
        return self._reasons.get(arm, "")
