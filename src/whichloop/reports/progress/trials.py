"""Live progress on stderr: a view that is redrawn on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from whichloop.experiments.compare.prepare import Experiment
from whichloop.protocol.values import counted
from whichloop.runs.engine.runner import Progress, Unwatched
from whichloop.text.numbers import reasons
from whichloop.text.output import terminal_safe

from .counts import ArmTally, ProgressCounts

MAX_STILL_S, MAX_SHARE = 0.125, 0.03
"""Seconds after which the view is redrawn; later if redrawing would take more than this share of a processor."""
PLAIN_EVERY_S = 60.0
"""Seconds between plain lines."""
MAX_ARMS = 4
"""Arms that a plain line tells of."""


# --- on a terminal ---


class LiveView(ProgressCounts):
    """The live view: a bar, a line per arm as far as they fit, and what is spent."""

    def __init__(self, experiment: Experiment, live: Live) -> None:
        super().__init__(experiment)
        self.live = live

    def noted(self, text: str) -> None:
        self.live.console.print(Text(_one_line(text)))

    def draw(self) -> float:
        """Redraw, and return the seconds until the next time."""
        started = time.perf_counter()
        self.live.refresh()
        return max(MAX_STILL_S, (time.perf_counter() - started) / MAX_SHARE)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rate, yet = self.rate(), self.total - self.done
        head = Table.grid(padding=(0, 2))
        for _ in range(6):
            head.add_column(no_wrap=True, overflow="ellipsis")
        eta = f"{clock(yet / rate)} left" if rate and yet else ""
        counts = f"{self.done:,}/{self.total:,}"
        bar = ProgressBar(max(self.total, 1), self.done, width=max(10, min(40, console.width - 60)))
        head.add_row("trials", bar, counts, _speed(rate), eta, f"{clock(self.elapsed_s)} gone")
        yield head
        last = [self._spent_line()]
        if self.before:
            last.insert(0, f"whole run: {self.before + self.done:,}/{self.before + self.total:,}, {self.before:,} from before")
        yield from self._arms(console.height - 3 - len(last))
        for line in last:
            yield _one_line_text(line, "dim")

    def _arms(self, room: int) -> RenderResult:
        """Yield a line per arm; if not all fit, arms with errored trials come first."""
        names = list(self.arms)
        if len(names) > room:
            names = sorted(names, key=lambda name: not self.arms[name].errored)[: max(0, room - 1)]
        grid = Table.grid(padding=(0, 2))
        for is_text in (True, False, False, True):  # where the terminal is narrow, text is cut and numbers are not
            grid.add_column(no_wrap=not is_text, overflow="ellipsis")
        grid.add_row(*(_one_line_text(title, "dim") for title in ("arm", "n", "accuracy so far, rough interval", "")))
        for name in names:
            arm = self.arms[name]
            grid.add_row(_one_line_text(name, "bold"), f"{arm.scored:,}", _accuracy(arm), _one_line_text(_troubles(arm), "yellow"))
        yield grid
        if hidden := len(self.arms) - len(names):
            yield _one_line_text(f"… and {counted(hidden, 'more arm')}, {self._hidden(names)}", "dim")

    def _hidden(self, names: Iterable[str]) -> str:
        shown_names = set(names)
        means = [arm.right / arm.scored for name, arm in self.arms.items() if name not in shown_names and arm.scored]
        return f"accuracy so far {min(means):.3f} to {max(means):.3f}" if means else "nothing scored"

    def _spent_line(self) -> str:
        spent = ", ".join(f"{_amount(name, value)}" for name, value in self.spent.amounts.items())
        remaining = ", ".join(f"{_amount(name, value)}" for name, value in self.left().items())
        return f"spent: {spent}{f'; left of the budget: {remaining}' if remaining else ''}"


def _one_line_text(text: str, style: str) -> Text:
    """Return one line that is cut at the terminal's edge."""
    return Text(_one_line(text), style=style, no_wrap=True, overflow="ellipsis")


def _one_line(text: str) -> str:
    return terminal_safe(" ".join(text.split()))


def _accuracy(arm: ArmTally) -> str:
    accuracy = arm.accuracy
    return "–" if accuracy is None else f"{accuracy[0]:.3f} [{accuracy[1]:.2f}, {accuracy[2]:.2f}]"


def _troubles(arm: ArmTally) -> str:
    kinds = dict(arm.errored)
    counts = {**arm.troubles, **({"excluded": arm.excluded} if arm.excluded else {})}
    errored = [f"errored {sum(kinds.values())} ({reasons(kinds)})"] if kinds else []
    return ", ".join([*errored, *(f"{name} {count}" for name, count in counts.items())])


def _amount(name: str, value: float) -> str:
    if name in ("dollars", "nominal"):
        return f"${value:,.4f}{'' if name == 'dollars' else ' nominal'}"
    return clock(value) if name == "seconds" else f"{value:,.0f} {name}"


def _speed(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min" if rate else ""


def clock(seconds: float) -> str:
    """Return a time as `0:07`, `12:34` or `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# --- elsewhere ---


class _Lines(ProgressCounts):
    """Prints a line now and then, with the same fields in each, for people and for grep."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(experiment)
        self.said: int | None = None
        """Trials that had ended when the last line was printed."""

    def noted(self, text: str) -> None:
        print_note(text)

    def draw(self) -> float:
        """Print a line, except at the start, and after one that says that all trials ended; return the seconds until the next."""
        if self.elapsed_s >= PLAIN_EVERY_S and not self.said == self.done == self.total:
            self.say()
        return PLAIN_EVERY_S

    def say(self) -> None:
        self.said = self.done
        _print(terminal_safe(" | ".join([" ".join(["progress:", *self._head(), *self._spent()]), *self._arms()])))

    def end(self) -> None:
        """Print a last line if a trial has ended since the one before."""
        if self.total and self.said != self.done:
            self.say()

    def _head(self) -> Iterator[str]:
        rate, yet = self.rate(), self.total - self.done
        yield f"done={self.done}/{self.total}"
        if self.before:
            yield f"run={self.before + self.done}/{self.before + self.total}"
        yield f"rate={rate:.2f}/s"
        if rate:
            yield f"eta={yet / rate:.0f}s"
        yield f"elapsed={self.elapsed_s:.0f}s"

    def _spent(self) -> Iterator[str]:
        for prefix, amounts in (("", self.spent.amounts), ("left_", self.left())):
            for name, value in amounts.items():
                yield f"{prefix}{name}={value:.4f}" if name in ("dollars", "nominal") else f"{prefix}{name}={value:.0f}"

    def _arms(self) -> Iterator[str]:
        """Yield what is said of each arm; of many only of those with errored trials, since the answer follows."""
        names = list(self.arms)
        shown_names = names if len(names) <= MAX_ARMS else [name for name in names if self.arms[name].errored][:MAX_ARMS]
        yield from map(self._arm, shown_names)
        if hidden := len(names) - len(shown_names):
            yield f"arms={len(names)}" if hidden == len(names) else f"other_arms={hidden}"

    def _arm(self, name: str) -> str:
        arm = self.arms[name]
        accuracy = arm.accuracy
        score = "-" if accuracy is None else f"{accuracy[0]:.3f} rough={accuracy[1]:.3f}..{accuracy[2]:.3f}"
        kinds = dict(arm.errored)
        counts = {"excluded": arm.excluded, **arm.troubles, "errored": sum(kinds.values())}
        counts_text = " ".join(f"{kind}={count}" for kind, count in counts.items() if count)
        if kinds:
            counts_text += f" reasons={json.dumps(reasons(kinds), ensure_ascii=False)}"
        return f"arm={json.dumps(name, ensure_ascii=False)} n={arm.scored} accuracy={score} {counts_text}".rstrip()


def print_note(text: str) -> None:
    """Print a note as one line."""
    _print(f"note: {_one_line(text)}")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class _Quiet(Unwatched):
    """Prints nothing, except for what a run still waits for once it is interrupted: without that it would seem to hang."""

    def interrupted(self, text: str) -> None:
        print_note(text)


# --- either ---


@contextmanager
def watching(experiment: Experiment, *, quiet: bool) -> Iterator[Progress]:
    """Show the progress of a run within the block."""
    if quiet:
        yield _Quiet()
    elif sys.stderr.isatty():
        live = Live(console=Console(file=sys.stderr), auto_refresh=False, transient=True)
        view = LiveView(experiment, live)
        live.update(view)
        with live, calling(view.draw):
            yield view
    else:
        lines = _Lines(experiment)
        try:
            with calling(lines.draw):
                yield lines
        finally:
            lines.end()


@contextmanager
def calling(draw: Callable[[], float]) -> Iterator[None]:
    """Call `draw` repeatedly on a thread of its own, so that trials never wait for it; it returns the seconds to wait."""
    has_ended = threading.Event()

    def call() -> None:
        while not has_ended.wait(draw()):
            pass

    thread = threading.Thread(target=call, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
