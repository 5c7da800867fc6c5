"""Live progress of an optimization on stderr: a line per design that is updated, or lines now and then if there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from whichloop.experiments.optimize.candidates import Candidate, SearchCost, SearchEnd, mean_of
from whichloop.metrics.record import Record
from whichloop.protocol.values import counted
from whichloop.runs.config import BudgetConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.text.output import terminal_safe

from .counts import Pace, about
from .trials import PLAIN_EVERY_S, print_note

if TYPE_CHECKING:
    from whichloop.experiments.optimize.prepare import Optimization  # which needs DSPy


@dataclass(slots=True)
class Searched:
    """The state of a design's optimization."""

    dev_tasks: int
    budget: BudgetConfig
    initial_score: float | None = None
    """Dev score of the design's own program, once it is scored on all dev tasks."""
    best: float | None = None
    """The highest dev score of all programs that are scored on all dev tasks."""
    programs: int = 0
    search: SearchCost = field(default_factory=SearchCost)
    proposals: SearchCost = field(default_factory=SearchCost)
    ended: SearchEnd | None = None
    began_at: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def scored(self, candidate: Candidate, search: SearchCost) -> None:
        self.search, self.seconds = search, time.monotonic() - self.began_at
        mean = candidate.dev_mean
        if mean is None or len(candidate.dev) < self.dev_tasks:
            return
        if candidate.number == 0:
            self.initial_score = mean
        self.best = mean if self.best is None else max(self.best, mean)

    @property
    def line(self) -> str:
        """Programs tried, the best dev score so far, what was spent of the budget, and the speed."""
        parts = [counted(self.programs, "program")]
        if self.best is not None:
            parts.append(
                f"best on dev {self.best:.3f}" + ("" if self.initial_score is None else f" (own {self.initial_score:.3f})")
            )
        parts.append(_spent(self.search, self.budget))
        if self.proposals.calls:
            parts.append(counted(self.proposals.calls, "proposal"))
        if self.ended is not None:
            parts.append(self.ended.status)
        elif self.seconds >= 1 and self.search.trials:
            parts.append(f"{self.search.trials / self.seconds:.0f} rollouts/s")
        return ", ".join(parts)


def _spent(search: SearchCost, budget: BudgetConfig) -> str:
    """Return what was spent of each limit."""
    parts = []
    if budget.calls is not None:
        parts.append(f"{search.calls:,} of {counted(budget.calls, 'call')}")
    if budget.tokens is not None:
        parts.append(f"{search.tokens:,} of {counted(budget.tokens, 'token')}")
    if budget.dollars is not None:
        parts.append(f"${search.dollars or 0:.4f} of ${budget.dollars:g}")
    return ", ".join(parts) or counted(search.calls, "call")


class SearchDisplay(Unwatched):
    """Watches designs while their prompts are searched, then the trials of the test."""

    def __init__(self, optimization: Optimization) -> None:
        self.dev_tasks = len(optimization.splits.dev)
        self.budget = optimization.config.search.budget
        self.designs = len(optimization.designs)
        self.searched: dict[str, Searched] = {}
        self.tests = 2 * len(optimization.designs) * len(optimization.splits.test) * optimization.config.compare.repeats
        self.tested = 0
        self._pace = Pace()

    def began(self, design: str, initial: Candidate) -> None:
        self.searched[design] = Searched(self.dev_tasks, self.budget, programs=1)

    def tried(self, design: str, candidate: Candidate) -> None:
        self.searched[design].programs += 1

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        self.searched[design].scored(candidate, search)
        if self.budget.calls is not None:
            spent = sum((each.search for each in self.searched.values()), SearchCost())
            most = self.designs * self.budget.calls + self.tests * spent.calls / max(1, spent.trials)
            self._pace.tell(spent.calls, most, self._tell_duration)

    def _tell_duration(self, left_s: float) -> None:
        """Say how long a search takes that uses its whole budget, and the test after it."""
        self.noted(f"at most {about(left_s)} to go for searches and test; a smaller --budget or --tasks takes less")

    def proposed(self, design: str, proposals: SearchCost) -> None:
        self.searched[design].proposals = proposals

    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None:
        """Take in that a design is done.

        It is also called for one that was done before the run was resumed, and so never began in this session.
        """
        searched = self.searched.setdefault(design, Searched(self.dev_tasks, self.budget))
        searched.programs, searched.search, searched.proposals, searched.ended = (
            end.candidates,
            end.search,
            end.proposals,
            end,
        )
        searched.initial_score, searched.best = mean_of(end.before), mean_of(end.after)

    def finished(self, record: Record) -> None:
        """Count a trial of the test."""
        self.tested += 1


class _QuietSearch(SearchDisplay):
    """Prints nothing, except for what a search still waits for once it is interrupted."""

    def interrupted(self, text: str) -> None:
        print_note(text)


class LiveSearch(SearchDisplay):
    """Draws a live view."""

    def __init__(self, optimization: Optimization) -> None:
        super().__init__(optimization)
        self.notes: list[str] = []

    def noted(self, text: str) -> None:
        self.notes.append(text)

    def __rich__(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        for design, searched in [*self.searched.items()]:
            style = "dim" if searched.ended is not None else ""
            grid.add_row(Text(terminal_safe(design), style=f"bold {style}".strip()), Text(searched.line, style=style))
        if self.tested:
            grid.add_row(Text("test", style="bold"), Text(f"{self.tested:,} of {counted(self.tests, 'trial')}"))
        for note in [*self.notes]:
            grid.add_row(Text("note", style="bold"), Text(terminal_safe(note)))
        return grid


class _Lines(SearchDisplay):
    """Prints a line now and then."""

    def __init__(self, optimization: Optimization) -> None:
        super().__init__(optimization)
        self.said_at = time.monotonic()

    def noted(self, text: str) -> None:
        self.said_at = time.monotonic()
        print_note(text)

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        super().rolled_out(design, candidate, record, search)
        self._say(f"{design}: {self.searched[design].line}")

    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None:
        super().ended(design, end, final)
        self._say(f"{design}: {self.searched[design].line}", now=True)

    def finished(self, record: Record) -> None:
        super().finished(record)
        self._say(f"test: {self.tested:,} of {counted(self.tests, 'trial')}", now=self.tested == self.tests)

    def _say(self, line: str, *, now: bool = False) -> None:
        if now or time.monotonic() - self.said_at >= PLAIN_EVERY_S:
            self.said_at = time.monotonic()
            print(terminal_safe(line), file=sys.stderr, flush=True)


@contextmanager
def watching(optimization: Optimization, *, quiet: bool) -> Iterator[SearchDisplay]:
    """Show the progress of an optimization within the block."""
    if quiet:
        yield _QuietSearch(optimization)
    elif not sys.stderr.isatty():
        yield _Lines(optimization)
    else:
        view = LiveSearch(optimization)
        with Live(view, console=Console(file=sys.stderr), refresh_per_second=8, transient=True):
            yield view
