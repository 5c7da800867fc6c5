"""A process of its own that logs a run to MLflow: it imports MLflow, which takes seconds, while the trials run."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from loopbench.experiments.compare.results import Results, results
from loopbench.protocol.redact import redact
from loopbench.runs.config import CompareConfig
from loopbench.runs.silent_end import die_with, go_on_here, leave

from .tracking import log_results, logs, not_logged, tracking

if TYPE_CHECKING:
    from .mlflow import Tracked

NO_ANSWER = "the process that logs has ended without an answer"


@dataclass(frozen=True, slots=True)
class LoggingProcess:
    """The process; it reads and writes lines of JSON."""

    pid: int
    orders: BinaryIO
    answers: BinaryIO

    def tell(self, text: str) -> None:
        """Send a text. To a process that has ended it does nothing: the missing answer says that."""
        with contextlib.suppress(BrokenPipeError):
            self.orders.write(_line(text))
            self.orders.flush()

    def answer(self) -> str:
        """Wait for the answer, a line about the log."""
        said = self.answers.readline()
        return str(json.loads(said)) if said.endswith(b"\n") else _in_words(NO_ANSWER)

    def end(self) -> None:
        """End the process, whatever it does, and wait for it."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # code of the user's own has waited for it
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
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
        """Let the logging process begin; it reads the run's records itself."""
        if self.beside is not None:
            self.beside.tell(str(folder))

    def finish(self, found: Results, page: str) -> str:
        """Wait until the run is logged; return a line that says where it is or why not, empty if that was not asked for.

        `page`: its report. Call `trials_ended` before.
        """
        if self.beside is None:
            return _in_words(log_results(found, self.config, page)) or not_logged(self.config)
        self.beside.tell(page)
        return self.beside.answer()


@contextmanager
def run_log(config: CompareConfig) -> Iterator[MlflowLog]:
    """Give the log of a run that is about to begin; a run that is not finished within the block is not logged.

    The process of its own is a fork, which is safe on Linux and without other threads. Elsewhere this process logs.
    """
    if not logs(config) or sys.platform != "linux" or threading.active_count() > 1:
        yield MlflowLog(config)
        return
    beside = _fork(config)
    try:
        yield MlflowLog(config, beside)
    finally:
        beside.end()


def _fork(config: CompareConfig) -> LoggingProcess:
    sys.stdout.flush()  # the child would write it, too
    sys.stderr.flush()
    parent = os.getpid()
    orders, answers = os.pipe(), os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    child = os.fork()
    if child == 0:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # they are for the command, with which this process ends
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        die_with(parent)
        go_on_here()
        os.close(orders[1])
        os.close(answers[0])
        _log(config, orders[0], answers[1])
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(orders[0])
    os.close(answers[1])
    return LoggingProcess(child, os.fdopen(orders[1], "wb"), os.fdopen(answers[0], "rb"))


def _log(config: CompareConfig, orders: int, answers: int) -> NoReturn:
    """Log the run whose folder and page the orders name, and leave this process."""
    gc.freeze()  # else a collection would copy every page that it looks at
    try:
        os.write(answers, _line(_in_words(_logged(config, os.fdopen(orders, "rb")))))
    finally:
        leave(0)


def _logged(config: CompareConfig, orders: BinaryIO) -> Tracked | str:
    """Log the run; return the reason in one line if that fails."""
    try:
        mlflow = tracking()
        mlflow.get_ready(mlflow.uri_of(config, config.runs))
        found = results(Path(json.loads(orders.readline())))
        tracked: Tracked | str = mlflow.track_as_configured(found, config, lambda _: json.loads(orders.readline()))
    except Exception as error:  # MLflow cannot be imported, say: that may not cost a result
        return redact(" ".join(f"{type(error).__name__}: {error}".split()))
    return tracked


def _line(text: str) -> bytes:
    return json.dumps(text).encode("ascii") + b"\n"


def _in_words(tracked: Tracked | str | None) -> str:
    """Return a line that says where a run was logged or why not; empty if nothing was to be logged."""
    if tracked is None:
        return ""
    return f"warning: nothing was logged to MLflow: {tracked}" if isinstance(tracked, str) else f"MLflow: {tracked.ui}"
