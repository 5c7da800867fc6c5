"""Log an optimization to MLflow while it runs.

What happens is put into a queue and written by one thread, a second's worth at a time: no rollout waits for MLflow. The run
directory is the result; a store that fails costs one line, and is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Self

from whichloop.experiments.optimize.candidates import Candidate, SearchCost, SearchEnd
from whichloop.experiments.optimize.manifest import OptimizationManifest
from whichloop.metrics.record import Record
from whichloop.protocol.redact import logger_of
from whichloop.runs.store_addresses import default_uri

from .addresses import reason
from .board import SearchBoard
from .session import Session
from .store import Tracked, open_store

FLUSH_S = 1.0
"""Seconds between two batches."""
RETRY_S = 30.0
"""Seconds between two attempts at a store that has failed."""
LEAVE_S = 10.0
"""Seconds that an interrupted run waits for what is not written yet."""

_LOG = logger_of(__name__)


class OptimizationTracker:
    """A Watcher that logs every event to MLflow. It is a context manager, within which any thread may call it.

    `tell`: called once, from a thread of its own, with one line without secrets where the store fails for the first time.
    """

    def __init__(
        self,
        folder: Path,
        manifest: OptimizationManifest,
        tracking_uri: str | None,
        experiment: str,
        tell: Callable[[str], None] = _LOG.warning,
    ) -> None:
        """Make a tracker. `tracking_uri`: None means the SQLite store beside the run directory."""
        self._uri = tracking_uri or default_uri(folder.parent)
        self._experiment = experiment
        self._tell = tell
        self._board = SearchBoard(folder, manifest)
        self._session: Session | None = None
        self._told = False
        self._written = False
        self._again_at = 0.0
        self._queue: SimpleQueue[Callable[[], None] | Event] = SimpleQueue()
        self._hurry = Event()
        self._thread = Thread(target=self._work, name="whichloop-mlflow", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._put(partial(setattr, self._board, "closed", True))
        self._hurry.set()
        self._thread.join(None if error is None else LEAVE_S)
        if self._thread.is_alive():
            self._say("logging did not finish in time")

    # --- what the optimization tells ---

    def began(self, design: str, initial: Candidate) -> None:
        self._put(partial(self._board.began, design, initial))

    def tried(self, design: str, candidate: Candidate) -> None:
        self._put(partial(self._board.tried, design, candidate))

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        self._put(partial(self._board.rolled_out, design, candidate, record, search))

    def proposed(self, design: str, proposals: SearchCost) -> None:
        self._put(partial(self._board.proposed, design, proposals))

    def ended(self, design: str, end: SearchEnd, final: Candidate) -> None:
        self._put(partial(self._board.ended, design, end, final))

    def finish(self, result: Mapping[str, object], page: str) -> Tracked | None:
        """Log the result of the test and wait until everything is written; return None if it could not be.

        `result`: as `OptimizationResult.to_json` gives it. `page`: its page.
        """
        self._put(partial(setattr, self._board, "page", page))
        self._put(partial(setattr, self._board, "result", result))
        self.flush()
        session = self._session
        return session.store.tracked(session.parent_id) if session is not None and self._written else None

    def flush(self) -> None:
        """Wait until every event so far is written, or writing it has failed."""
        mark = Event()
        self._queue.put(mark)
        self._hurry.set()
        while not mark.wait(FLUSH_S) and self._thread.is_alive():
            pass

    def _put(self, action: Callable[[], None]) -> None:
        self._queue.put(action)

    # --- the thread that writes ---

    def _work(self) -> None:
        while not self._board.closed:
            waiting = self._fold()
            self._write(at_once=bool(waiting) or self._board.closed)
            for mark in waiting:
                mark.set()
            if not self._board.closed:
                self._hurry.wait(FLUSH_S)
                self._hurry.clear()

    def _fold(self) -> list[Event]:
        """Pass everything queued, at least one item, to the board, and return the marks to set once it is written."""
        waiting: list[Event] = []
        item: Callable[[], None] | Event = self._queue.get()
        while True:
            if isinstance(item, Event):
                waiting.append(item)
            else:
                self._guarded(item)
            try:
                item = self._queue.get_nowait()
            except Empty:
                return waiting

    def _write(self, *, at_once: bool) -> None:
        if at_once or time.monotonic() >= self._again_at:
            self._written = self._guarded(self._send)

    def _send(self) -> None:
        try:
            if self._session is None:
                store = open_store(self._uri, self._experiment, self._board.folder.resolve().parent)
                self._session = Session(store, self._board)
            self._session.write()
        except Exception:
            self._session = None  # what is there is looked up again
            self._again_at = time.monotonic() + RETRY_S
            raise

    def _guarded(self, step: Callable[[], None]) -> bool:
        """Run a step and return whether it succeeded; the first failure is reported."""
        try:
            step()
        except Exception as error:  # the boundary to MLflow, its database and the network: none of them may cost a result
            self._say(f"{reason(error, self._uri)}; the run goes on, and logging is tried again")
            return False
        return True

    def _say(self, what: str) -> None:
        if not self._told:
            self._told = True
            self._tell(f"MLflow: {what}")
