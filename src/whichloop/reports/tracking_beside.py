"""A process of its own that logs a run to MLflow: it imports MLflow, which takes seconds, while the trials run."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whichloop.experiments.compare.results import Results, results
from whichloop.protocol.redact import redact
from whichloop.runs.config import CompareConfig
from whichloop.runs.forking import Fork, fork, safe_forks
from whichloop.runs.store_addresses import ui_command, uri_of

from .tracking import log_results, logs, tracking

if TYPE_CHECKING:
    from .mlflow import Tracked

NO_ANSWER = "the process that logs has ended without an answer"
BEGIN = "begin"
"""The first order."""


@dataclass(frozen=True, slots=True)
class LoggingProcess:
    """The process; it reads and writes lines of JSON."""

    fork: Fork
    orders: BinaryIO
    answers: BinaryIO

    def tell(self, text: str) -> None:
        """Send a text. To a process that has ended it does nothing: the missing answer says that."""
        with contextlib.suppress(BrokenPipeError):
            self.orders.write(_line(text))
            self.orders.flush()

    def answer(self) -> str:
        """Wait for the answer: a warning, or an empty line."""
        line = self.answers.readline()
        return str(json.loads(line)) if line.endswith(b"\n") else _in_words(NO_ANSWER)

    def close(self) -> None:
        """End the process, whatever it does, and wait for it."""
        self.fork.end()
        for pipe in (self.orders, self.answers):
            with contextlib.suppress(BrokenPipeError):  # what could not be sent
                pipe.close()


@dataclass(frozen=True, slots=True)
class MlflowLog:
    """Logs one run when it has ended, if its settings ask for that."""

    config: CompareConfig
    beside: LoggingProcess | None = None
    """None where this process does the work."""

    def trials_ended(self, folder: Path) -> None:
        """Let the logging process read the run's records; it writes nothing before `finish`."""
        if self.beside is not None:
            self.beside.tell(str(folder))

    def place(self, folder: Path) -> tuple[str, ...]:
        """Return lines that say where a run will be once `finish` has logged it; none if it will not be logged."""
        if not logs(self.config):
            return ()
        return ("MLflow: the run is there once this command has ended:", f"  {ui_command(uri_of(self.config, folder.parent))}")

    def finish(self, run: Results, page: str) -> str:
        """Wait until the run is logged; return a warning if that fails, else an empty line.

        `page`: its report. Call `trials_ended` before.
        """
        if self.beside is None:
            return _in_words(log_results(run, self.config, page))
        self.beside.tell(page)
        return self.beside.answer()


@contextmanager
def run_log(config: CompareConfig) -> Iterator[MlflowLog]:
    """Give the log of a run that is about to begin; a run for which `finish` is not called is not logged.

    An interruption of `finish` itself may leave an entry that is not complete; logging the run again completes it.
    The process of its own is a fork, which is safe on Linux and without other threads. Elsewhere, and where the system grants no
    further process, this process logs.
    """
    forks = safe_forks(partial(_fork, config), int(logs(config)))
    try:
        for beside in forks:
            beside.tell(BEGIN)
        yield MlflowLog(config, forks[0] if forks else None)
    finally:
        for beside in forks:
            beside.close()


def _fork(config: CompareConfig) -> LoggingProcess:
    """Fork the process, which waits to be told to begin. Raises OSError if the system grants none."""
    process = fork(partial(_log, config))
    return LoggingProcess(process, os.fdopen(process.orders, "wb"), os.fdopen(process.answers, "rb"))


def _log(config: CompareConfig, orders_read: int, answers: int) -> int:
    """Log the run whose folder and page the orders name; the answer says what came of it."""
    orders = os.fdopen(orders_read, "rb")
    if orders.readline() == _line(BEGIN):
        os.write(answers, _line(_in_words(_logged(config, orders))))
    return 0


def _logged(config: CompareConfig, orders: BinaryIO) -> Tracked | str:
    """Log the run; return the reason in one line if that fails. Nothing is written to the store before the page is there."""
    try:
        mlflow = tracking()
        mlflow.get_ready(uri_of(config, config.runs))
        run_results = results(Path(json.loads(orders.readline())))
        run_results.to_json()  # computes what the log holds, while the page is made
        page = json.loads(orders.readline())
        tracked: Tracked | str = mlflow.track_as_configured(run_results, config, lambda _: page)
    except Exception as error:  # MLflow cannot be imported, say: that may not cost a result
        return redact(" ".join(f"{type(error).__name__}: {error}".split()))
    return tracked


def _line(text: str) -> bytes:
    return json.dumps(text).encode("ascii") + b"\n"


def _in_words(tracked: Tracked | str | None) -> str:
    """Return a warning that says why a run was not logged; empty if it was, or was not to be."""
    return f"warning: nothing was logged to MLflow: {tracked}" if isinstance(tracked, str) else ""
