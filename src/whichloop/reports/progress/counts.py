"""What the progress of a run counts: trials that have ended, by arm, how fast they do, and what was spent."""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import shorten
from typing import NamedTuple

from whichloop.experiments.compare.prepare import Experiment
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import wilson
from whichloop.protocol.values import counted
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.each_record import each_record
from whichloop.text.numbers import duration

AFTER_S = 4.0
"""Seconds after the first result before the estimate is made."""
LONG_S = 60.0
"""A run that takes less says nothing about it."""
MIN_TASKS = 10
"""Fewer tasks are not proposed: they would decide nothing."""


def about(seconds: float) -> str:
    """Return a time as exactly as an estimate is."""
    return f"about {duration(max(10.0, round(seconds, -1)))}"


def fewer_tasks(tasks: int, seconds: float) -> str:
    """Return how many of a run's tasks take about a minute, as a hint; empty if there are none to leave out."""
    fitting = int(tasks * LONG_S / seconds)
    step = 5 * 10 ** max(0, len(str(fitting)) - 2)
    proposed = max(MIN_TASKS, fitting // step * step)
    return f"; --tasks {proposed} would take {about(seconds * proposed / tasks)}" if proposed < tasks else ""


@dataclass(slots=True)
class Pace:
    """How fast a run moves on; it is asked whenever something has been done."""

    began_at: float | None = None
    """Monotonic time of the first result: what starts before, such as worker processes, starts once."""
    done_at_first: float = 0.0
    is_told: bool = False

    def tell(self, done: float, total: float, say: Callable[[float], None]) -> None:
        """Call `say` once with the seconds that the run takes from now on, if it is long. `done`, `total`: in any one unit."""
        if self.is_told:
            return
        now = time.monotonic()
        if self.began_at is None:
            self.began_at, self.done_at_first = now, done
        elif now - self.began_at >= AFTER_S and done > self.done_at_first:
            self.is_told = True
            left_s = (total - done) * (now - self.began_at) / (done - self.done_at_first)
            if left_s > LONG_S:
                say(left_s)


RATE_OVER_S, RATE_OVER_TRIALS = 30.0, 10
"""The rate is measured over this many seconds, or over more if fewer trials than this ended in them."""
MAX_KINDS = 20
"""Reasons that are counted separately."""
MAX_KIND_CHARS = 60
ALPHA = 0.05
NOTHING_USD = 0.000_05
"""Amounts below this would be shown as 0."""


class TrialEnd(NamedTuple):
    """How a trial ended, as far as progress shows it."""

    status: str
    score: float
    stop: str | None
    wire: int
    """Replies that could not be read."""
    reason: str

    @classmethod
    def of(cls, record: Record) -> TrialEnd:
        return cls(record.status, record.accuracy, record.stop, record.errors.get("wire", 0), record.reason)


@dataclass(slots=True)
class ArmTally:
    """Counts for one arm over all sessions."""

    scored: int = 0
    right: float = 0.0
    """Sum of scores: graded ones are fractions."""
    errored: Counter[str] = field(default_factory=Counter)
    """Number of errors by the first words of the reason."""
    excluded: int = 0
    wire: int = 0
    timeouts: int = 0
    crashes: int = 0

    def add(self, end: TrialEnd) -> None:
        if end.status == "scored":
            self.scored += 1
            self.right += end.score
            self.wire += end.wire
            self.timeouts += end.stop == "timeout"
            self.crashes += end.stop == "crashed"
        elif end.status == "excluded":
            self.excluded += 1
        else:
            kind = _kind(end.reason)
            self.errored[kind if len(self.errored) < MAX_KINDS or kind in self.errored else "other"] += 1

    @property
    def accuracy(self) -> tuple[float, float, float] | None:
        """Mean and bounds of a rough interval, with each trial counted as a task of its own; None if nothing is scored."""
        scored, right = self.scored, self.right
        if not scored:
            return None
        right = min(right, scored)  # another thread may be in the middle of adding one
        return (right / scored, *wilson(right, scored, ALPHA))

    @property
    def troubles(self) -> dict[str, int]:
        """What went wrong, and how often."""
        counts = {"wire": self.wire, "timeout": self.timeouts, "crashed": self.crashes}
        return {name: count for name, count in counts.items() if count}


def _kind(reason: str) -> str:
    """Return the first words of a reason, up to a colon or a bracket: they distinguish kinds of error."""
    words = _DETAIL.split(reason, maxsplit=1)[0]
    return shorten(words, MAX_KIND_CHARS, placeholder=" …").strip(" …") or words.strip()[:MAX_KIND_CHARS] or "unknown"


_DETAIL = re.compile(r"[:(]")


@dataclass(slots=True)
class Spending:
    """What all sessions spent, in US dollars as far as prices are known."""

    calls: int
    tokens: int
    dollars: float
    """US dollars that were billed."""
    nominal: float = 0.0

    def add(self, record: Record) -> None:
        self.calls += record.lm_calls
        self.tokens += record.tokens
        self.dollars += record.cost_usd or 0.0
        self.nominal += record.nominal_usd or 0.0

    @property
    def amounts(self) -> dict[str, float]:
        """Amounts by name; dollars only if there are any, nominal dollars only if they exceed them."""
        amounts: dict[str, float] = {"calls": self.calls, "tokens": self.tokens}
        saved = self.nominal - self.dollars >= NOTHING_USD
        if self.dollars >= NOTHING_USD or saved:
            amounts["dollars"] = self.dollars
        return amounts | ({"nominal": self.nominal} if saved else {})


class ProgressCounts(Unwatched):
    """Counts of what has ended. One thread counts while another reads, so names are added but never removed."""

    def __init__(self, experiment: Experiment) -> None:
        self.limits = experiment.config.budget.model_dump(exclude_none=True)
        self.total = len(experiment.missing())
        """Trials of this session."""
        self.before = experiment.trials - self.total
        """Trials of earlier sessions that count."""
        self.done = 0
        self.arms = {arm.name: ArmTally() for arm in experiment.arms}
        spent = experiment.spent
        self.used_s = spent.seconds
        """Seconds used by earlier sessions."""
        self.spent = Spending(spent.calls, spent.tokens, spent.dollars)
        if self.before:
            ends: dict[tuple[str, str, int], TrialEnd] = {}
            for record in each_record(experiment.folder):
                ends[record.key] = TrialEnd.of(record)  # of several lines the last one stands
                self.spent.nominal += record.nominal_usd or 0.0
            for key, end in ends.items():
                if experiment.past.next_attempt(key, experiment.retry) is None:
                    self.arms[key[0]].add(end)
        self.began = time.monotonic()
        self._pace, self._tasks, self._has_looks = Pace(), len(experiment.tasks), experiment.manifest.looks is not None
        self._marks = deque([(self.began, 0)])
        self.may_shrink = not self.before
        """Whether the same command can be typed with fewer tasks."""

    def finished(self, record: Record) -> None:
        self.done += 1
        self.arms[record.arm].add(TrialEnd.of(record))
        self.spent.add(record)
        if self.done >= len(self.arms):
            self._pace.tell(self.done, self.total, self._tell_duration)

    def _tell_duration(self, left_s: float) -> None:
        """Say how long a long run takes; a new run may be repeated with fewer tasks."""
        most = "at most " if self._has_looks else ""
        hint = "" if not self.may_shrink else fewer_tasks(self._tasks, left_s * self.total / max(1, self.total - self.done))
        self.noted(f"{most}{about(left_s)} to go for {counted(self.total - self.done, 'trial')}{hint}")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    def rate(self) -> float:
        """Return the recent number of trials per second."""
        now, marks, done = time.monotonic(), self._marks, self.done
        if now - marks[-1][0] >= 1 and done > marks[-1][1]:
            marks.append((now, done))
        while len(marks) > 1 and now - marks[1][0] >= RATE_OVER_S and done - marks[1][1] >= RATE_OVER_TRIALS:
            marks.popleft()
        since, before = marks[0]
        return (done - before) / (now - since) if now > since else 0.0

    def left(self) -> dict[str, float]:
        """Return what is left of each limit of the run's budget."""
        spent = self.spent
        used = {"calls": spent.calls, "tokens": spent.tokens, "dollars": spent.dollars, "seconds": self.used_s + self.elapsed_s}
        return {name: max(0.0, limit - used[name]) for name, limit in self.limits.items()}
