"""Live progress on stderr: a bar and accuracy so far per arm on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from loopbench.experiments.engine.runner import Unwatched
from loopbench.experiments.preparing import Experiment
from loopbench.experiments.report import plain
from loopbench.metrics.record import Record

PLAIN_EVERY_S = 5.0


class Tally(Unwatched):
    """Counts of what has finished."""

    def __init__(self, experiment: Experiment) -> None:
        self.total = len(experiment.missing())
        self.done = 0
        self.scored = Counter[str]({arm.name: 0 for arm in experiment.arms})
        self.right = Counter[str]()
        self.errors = Counter[str]()

    def finished(self, record: Record) -> None:
        self.done += 1
        if record.status == "scored":
            self.scored[record.arm] += 1
            self.right[record.arm] += record.accuracy  # type: ignore[assignment]  # graded scores are fractions
        else:
            self.errors[record.status] += 1

    def lines(self) -> list[str]:
        """One line per arm, with what else is to be told."""
        made = []
        for arm, n in self.scored.items():
            mean = f"{self.right[arm] / n:.3f}" if n else "–"
            made.append(f"{arm}: accuracy so far {mean} (n = {n})")
        if self.errors:
            made.append(", ".join(f"{name}: {n}" for name, n in self.errors.items()))
        return made


class _Speed(ProgressColumn):
    """Trials per second; nothing before the first has ended."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.0f}/s")


class _Terminal(Tally):
    """A live view."""

    def __init__(self, experiment: Experiment, live: Live, bar: Progress) -> None:
        super().__init__(experiment)
        self.live = live
        self.bar = bar
        self.task = bar.add_task("trials", total=self.total)

    def finished(self, record: Record) -> None:
        super().finished(record)
        self.bar.advance(self.task)

    def __rich__(self) -> Group:
        return Group(self.bar, Text(plain("\n".join(self.lines())), style="dim"))


class _Lines(Tally):
    """A line now and then."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(experiment)
        self.said_at = time.monotonic()

    def finished(self, record: Record) -> None:
        super().finished(record)
        now = time.monotonic()
        if now - self.said_at >= PLAIN_EVERY_S or self.done == self.total:
            self.said_at = now
            print(plain(f"{self.done} of {self.total} trials; {'; '.join(self.lines())}"), file=sys.stderr, flush=True)


@contextmanager
def watching(experiment: Experiment, *, quiet: bool) -> Iterator[Tally]:
    """The progress of a run, for as long as the block lasts."""
    if quiet:
        yield Tally(experiment)
        return
    if not sys.stderr.isatty():
        yield _Lines(experiment)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Speed(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns)
    live = Live(console=Console(file=sys.stderr), refresh_per_second=8, transient=True)
    view = _Terminal(experiment, live, bar)
    live.update(view)
    with live:
        yield view
