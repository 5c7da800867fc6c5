"""Progress of a run or a search on stderr: bars on a terminal and in a notebook's cell, elsewhere a line each minute.

A board counts what has ended; a view asks it now and then for its rows, so that no trial waits for the screen.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from whichloop.experiments.compare.run import Experiment
from whichloop.experiments.optimize.candidates import NO_COST, Candidate, SearchCost, SearchEnd, Watcher
from whichloop.metrics.caveats import reasons
from whichloop.metrics.record import Record
from whichloop.protocol.values import counted
from whichloop.runs.config import BudgetConfig
from whichloop.runs.manifest import Spent
from whichloop.runs.schedule import cost_of
from whichloop.text.output import plain_line

if TYPE_CHECKING:
    from whichloop.experiments.optimize.prepare import Optimization  # which needs DSPy

BARS_EVERY_S, CELL_EVERY_S, LINE_EVERY_S = 0.125, 0.5, 60.0
MAX_ARMS = 8
"""Of more arms only the first ones with errored trials have a row."""


class BoardRow(NamedTuple):
    """A line of the view; nobody knows a total of None."""

    name: str
    done: int
    total: int | None
    text: str


class Board(Watcher):
    """Counts what has ended. One thread counts while another reads."""

    total: int
    note: Callable[[str], None] | None = None

    def rows(self) -> Iterator[BoardRow]:
        raise NotImplementedError

    def noted(self, text: str) -> None:
        if self.note is not None:
            self.note(f"note: {plain_line(text)}")

    def interrupted(self, text: str) -> None:
        (self.note or _print)(f"note: {plain_line(text)}")


def spent_of(budget: BudgetConfig, **used: float) -> str:
    """Return what was spent: `4,810 of 10,000 calls, 90,312 tokens, 0.2500 dollars`. Seconds count where they are limited."""
    parts, limits = [], budget.model_dump(exclude_none=True)
    for name, amount in used.items():
        if name in limits or (amount and name != "seconds"):
            digits = 4 if name == "dollars" else 0
            limit = f" of {limits[name]:,.{digits}f}" if name in limits else ""
            parts.append(f"{amount:,.{digits}f}{limit} {name}")
    return ", ".join(parts)


# --- trials ---


@dataclass(slots=True)
class ArmTally:
    """Counts for one arm in this session."""

    total: int
    ended: int = 0
    scored: int = 0
    right: float = 0.0
    errored: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    """What else goes wrong, and how often: excluded trials, replies that could not be read, timeouts, crashes."""

    def add(self, record: Record) -> None:
        self.ended += 1
        if record.status == "scored":
            self.scored += 1
            self.right += record.accuracy
            self.others["wire"] += record.errors.get("wire", 0)
            self.others[record.stop or ""] += record.stop in ("timeout", "crashed")
        elif record.status == "excluded":
            self.others["excluded"] += 1
        else:
            self.errored[re.split(r"[:(]", record.reason, maxsplit=1)[0].strip() or "unknown"] += 1

    @property
    def text(self) -> str:
        """Accuracy so far, and what went wrong, the errored trials first."""
        kinds, scored = dict(self.errored), self.scored
        errored = f"errored {sum(kinds.values())} ({reasons(kinds)})" if kinds else ""
        accuracy = f"accuracy {self.right / scored:.3f}" if scored else ""
        others = (f"{name} {count}" for name, count in dict(self.others).items() if count)
        return ", ".join(filter(None, [errored, accuracy, *others]))


class TrialBoard(Board):
    """Counts the trials of a run in this session, and what all sessions have spent."""

    def __init__(self, experiment: Experiment) -> None:
        missing = Counter(trial.arm.name for trial in experiment.missing())
        self.total, self.done = missing.total(), 0
        self.arms = {arm.name: ArmTally(missing[arm.name]) for arm in experiment.arms}
        self.budget, self.spent, self.since = experiment.config.budget, experiment.spent, time.monotonic()

    def finished(self, record: Record) -> None:
        self.done += 1
        self.arms[record.arm].add(record)
        self.spent += Spent(*cost_of(record))

    def rows(self) -> Iterator[BoardRow]:
        spent = self.spent + Spent(seconds=time.monotonic() - self.since)
        yield BoardRow("trials", self.done, self.total, spent_of(self.budget, **asdict(spent)))
        shown = self.arms if len(self.arms) <= MAX_ARMS else {name: arm for name, arm in self.arms.items() if arm.errored}
        for name, arm in [*shown.items()][:MAX_ARMS]:
            yield BoardRow(name, arm.ended, arm.total, arm.text)


# --- a search ---


@dataclass(slots=True)
class Searched:
    """The search of one design; dev scores are of programs that have run all dev tasks."""

    own: float | None = None
    """Of the design's own program."""
    best: float | None = None
    programs: set[int] = field(default_factory=lambda: {0})
    """Numbers of those that were scored on a dev task, and of the own one."""
    search: SearchCost = NO_COST
    status: str = ""


def mean_of(scores: Mapping[str, float]) -> float | None:
    return sum(scores.values()) / len(scores) if scores else None


class SearchBoard(Board):
    """Watches the designs while their prompts are searched, then counts the trials of the test."""

    def __init__(self, optimization: Optimization) -> None:
        self.dev_tasks, self.budget = len(optimization.splits["dev"]), optimization.config.search.budget
        self.searched = {design.name: Searched() for design in optimization.designs}
        self.total = 3 * len(optimization.designs) * len(optimization.splits["test"]) * optimization.config.compare.repeats
        self.tested = 0

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        searched, mean = self.searched[design], mean_of(candidate.dev)
        searched.search = search
        searched.programs |= {candidate.number} if candidate.dev else set()
        if mean is not None and len(candidate.dev) >= self.dev_tasks:
            searched.own = mean if candidate.number == 0 else searched.own
            searched.best = mean if searched.best is None else max(searched.best, mean)

    def ended(self, design: str, end: SearchEnd) -> None:
        """Take in that a design is done, maybe in an earlier session."""
        scores = mean_of(end.before), mean_of(end.after)
        self.searched[design] = Searched(*scores, {each.number for each in end.candidates if each.dev}, end.search, end.status)

    def finished(self, record: Record) -> None:
        self.tested += 1

    def rows(self) -> Iterator[BoardRow]:
        for name, design in self.searched.items():
            cost = design.search
            scores = "" if design.best is None or design.own is None else f"best on dev {design.best:.3f}, own {design.own:.3f}"
            used = spent_of(self.budget, calls=cost.calls, tokens=cost.tokens, dollars=cost.dollars or 0.0)
            said = ", ".join(filter(None, [scores, counted(len(design.programs), "program"), used, design.status]))
            yield BoardRow(name, cost.calls, cost.calls if design.status else self.budget.calls, said)
        yield BoardRow("test", self.tested, self.total, "")


# --- views ---


def _bars(board: Board, console: Console) -> tuple[Bars, Callable[[], None]]:
    """Return the rows of a board as bars, and what brings them up to date and draws them."""

    def text(shown: str, ratio: int) -> TextColumn:
        return TextColumn(shown, markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=ratio))

    left = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (text("{task.description}", 2), BarColumn(12), MofNCompleteColumn(), left, text("{task.fields[said]}", 5))
    bars, known = Bars(*columns, console=console, auto_refresh=False, transient=True, expand=True), dict[str, TaskID]()

    def draw() -> None:
        for row in board.rows():
            if row.name not in known:
                known[row.name] = bars.add_task(plain_line(row.name), total=row.total, said="")
            bars.update(known[row.name], completed=row.done, total=row.total, said=plain_line(row.text))
        bars.refresh()

    return bars, draw


@contextmanager
def watching(board: Board, *, quiet: bool) -> Iterator[Any]:
    """Show a board within the block, and yield it."""
    if quiet or not board.total:
        yield board
    elif sys.stderr.isatty():
        bars, draw = _bars(board, Console(file=sys.stderr))
        board.note = lambda text: bars.console.print(Text(text))
        with bars, _redrawn(draw, BARS_EVERY_S):
            yield board
    else:
        board.note, began = _print, time.monotonic()
        with _redrawn(lambda: _print(_line(board, time.monotonic() - began)), LINE_EVERY_S):
            yield board


@contextmanager
def displayed(board: Board, wanted: bool | None) -> Iterator[Any]:
    """Show what a Python program starts. `wanted`: None shows it where a person is likely to look, a terminal or a notebook."""
    if wanted is False or "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        with watching(board, quiet=not (sys.stderr.isatty() if wanted is None else wanted)):
            yield board
        return
    console = Console(file=StringIO(), width=110, height=40)
    (bars, update), shown = _bars(board, console), sys.modules["IPython"].display
    cell = shown.display(shown.HTML(""), display_id=True)

    def draw() -> None:
        update()
        with console.capture() as captured:
            console.print(bars.get_renderable())
        cell.update(shown.HTML(f'<pre style="margin: 0; line-height: 1.3;">{escape(captured.get())}</pre>'))

    with _redrawn(draw, CELL_EVERY_S):
        yield board


@contextmanager
def _redrawn(draw: Callable[[], None], every_s: float) -> Iterator[None]:
    """Draw at the start, repeatedly on a thread of its own, and at the end."""
    has_ended = threading.Event()

    def repeat() -> None:
        while not has_ended.wait(every_s):
            draw()

    draw()
    thread = threading.Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
        draw()


def _line(board: Board, seconds: float) -> str:
    rows = (f"{row.name} {row.done}/{row.total or '?'}{row.text and ', '}{row.text}" for row in board.rows())
    return f"progress: {seconds:.0f} s | {' | '.join(map(plain_line, rows))}"


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
