"""Tests in several processes that are forks of the one that has collected them: `--forks N`.

Each would otherwise import and collect everything by itself, which takes longer than most of the tests. A fork that dies fails the
test that it was running, and another one takes its place. Forks tell in JSON what became of tests; the parent tells pytest.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import itertools
import json
import os
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

import pytest
from _pytest.capture import FDCapture
from _pytest.config import create_terminal_writer
from hypothesis.internal import charmap

MANY = 1_000
"""Tests from which on it pays to import what takes long before the forks are there, which would import it one by one."""
TAKE_LONG = ("dspy", "mcp", "mlflow.store.tracking.sqlalchemy_store", "pandas", "statsmodels.api")
LIVENESS_S = 1.0
"""Seconds between two looks at whether forks live: what a test has started may hold a dead fork's connection open."""


@dataclass(frozen=True)
class _Fork:
    """A process that runs tests, as its parent sees it."""

    pid: int
    connection: Connection
    todo: deque[int]
    """Indexes of the tests that it was given and has not told of: it is at the first."""


def run_in_forks(session: pytest.Session, count: int) -> bool:
    """Run the tests of a session in so many forks, in the place of `pytest_runtestloop`, and end as that does; return True."""
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors during collection")
    if not session.config.option.collectonly:
        if len(session.items) >= MANY:
            _import_what_takes_long()
        _Crew(session).work(count)
    return True


def _import_what_takes_long() -> None:
    """Import it for all forks, and for what they fork; a package is left out where it is not installed."""
    for name in TAKE_LONG:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    charmap.intervals_from_codec("utf-8")  # takes hypothesis seconds in a new clone, once
    gc.freeze()


def files_by_cost(items: Sequence[pytest.Item]) -> list[list[int]]:
    """Return the indexes of each file's tests: those with most thorough tests late, those with limits of their own last.

    Files that say the same as `IN_ONE_FORK` count as one: what one of them reads and keeps, the others need not read again.
    Each test of a file that says `EACH_ALONE` counts as a file.
    """

    def cost(file: list[int]) -> tuple[bool, int]:
        marks = [items[index].keywords for index in file]
        return any("timeout" in known for known in marks), sum("thorough" in known for known in marks)

    files: dict[Any, list[int]] = {}
    for index, item in enumerate(items):
        module = getattr(item, "module", None)
        together = index if getattr(module, "EACH_ALONE", False) else getattr(module, "IN_ONE_FORK", item.path)
        files.setdefault(together, []).append(index)
    return sorted(files.values(), key=cost)


class _Crew:
    """Hands out files to the forks, the costliest first: so all end at about the same time."""

    def __init__(self, session: pytest.Session) -> None:
        self._session, self._files = session, files_by_cost(session.items)
        self._forks: list[_Fork] = []
        self._numbers = itertools.count()

    def work(self, count: int) -> None:
        try:
            for _ in range(min(count, len(self._files))):
                self._start()
            while self._forks:
                ready = wait([fork.connection for fork in self._forks], LIVENESS_S)
                for fork in list(self._forks):
                    self._attend_to(fork, fork.connection in ready)
        finally:
            for fork in self._forks:
                fork.connection.close()  # at which it ends after the test that it is at
            for fork in self._forks:
                os.waitpid(fork.pid, 0)

    def _start(self) -> None:
        config, (ours, its), number = self._session.config, Pipe(), next(self._numbers)
        config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all
        for stream in (config.get_terminal_writer(), sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if not pid:
            for connection in (ours, *(fork.connection for fork in self._forks)):
                connection.close()
            _Child(self._session, its, number).work_and_end()
        its.close()
        self._forks.append(_Fork(pid, ours, deque()))

    def _attend_to(self, fork: _Fork, speaks: bool) -> None:
        ended, status = os.waitpid(fork.pid, os.WNOHANG)
        with contextlib.suppress(EOFError, ConnectionError):  # it ends, and the next look will see it
            while speaks or (ended and fork.connection.poll()):
                self._answer(fork, json.loads(fork.connection.recv_bytes()))
                speaks = False
        if ended:
            self._forks.remove(fork)
            fork.connection.close()
            self._replace(fork, os.waitstatus_to_exitcode(status))

    def _answer(self, fork: _Fork, told: list[dict[str, Any]] | None) -> None:
        """Give a fork that asks for tests those of another file, or none if none is left; take in what it tells of a test."""
        if told is None:
            file = self._files.pop() if self._files else []
            fork.todo.extend(file)
            fork.connection.send_bytes(json.dumps(file).encode())
        else:
            self._tell(fork.todo.popleft(), told)

    def _tell(self, index: int, reports: list[dict[str, Any]]) -> None:
        item, hook = self._session.items[index], self._session.config.hook
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for data in reports:
            data |= {
                name: tuple(data[name]) for name in ("location", "longrepr") if isinstance(data[name], list)
            }  # JSON knows no tuples
            item.ihook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=item.config, data=data))
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _replace(self, dead: _Fork, code: int) -> None:
        """Fail the test at which a fork has ended, and have another fork do what is left of its files."""
        if dead.todo:
            item = self._session.items[index := dead.todo.popleft()]
            says = f"the process that ran this test ended, with exit code {code}"
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", says, "call")
            data = item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
            if dead.todo:
                self._files.append(list(dead.todo))
            self._tell(index, [data])
            if self._files:
                self._start()
        elif code:
            raise RuntimeError(f"a process that ran tests ended between them, with exit code {code}")


class _Child:
    """The process that runs tests."""

    def __init__(self, session: pytest.Session, connection: Connection, number: int) -> None:
        self._session, self._connection, self._number = session, connection, number
        self._reports: list[pytest.TestReport] = []

    def work_and_end(self) -> NoReturn:
        atexit._clear()  # what the parent has yet to do at its end
        code = 1
        try:
            self._take_over_pytest()
            try:
                with contextlib.suppress(EOFError, ConnectionError):  # the parent has ended, or wants no more
                    self._run_tests()
            finally:
                self._session._setupstate.teardown_exact(None)
                atexit._run_exitfuncs()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _take_over_pytest(self) -> None:
        """Have output and temporary folders of its own, and have what pytest would tell the terminal come here."""
        plugins = self._session.config.pluginmanager
        capturing = plugins.getplugin("capturemanager")._global_capturing
        for stream in (capturing.out, capturing.err):
            if isinstance(stream, FDCapture):  # what is imported may hold on to its object, which therefore stays
                with tempfile.TemporaryFile() as own:
                    os.dup2(own.fileno(), stream.tmpfile.fileno(), inheritable=False)
        factory = self._session.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.mktemp(f"fork{self._number}", numbered=False)
        plugins.unregister(name="terminalreporter")
        plugins.register(_NoTerminal(self._session.config), "terminalreporter")
        plugins.register(self)

    def _run_tests(self) -> None:
        items, todo = self._session.items, self._ask()
        while todo:
            item = items[todo.popleft()]
            todo = todo or self._ask()  # which fixtures outlive a test depends on the one that follows
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=items[todo[0]] if todo else None)
            to_json = item.config.hook.pytest_report_to_serializable
            reports = [to_json(config=item.config, report=report) for report in self._reports]
            self._connection.send_bytes(json.dumps(reports).encode())
            self._reports.clear()

    def _ask(self) -> deque[int]:
        self._connection.send_bytes(b"null")
        return deque(json.loads(self._connection.recv_bytes()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)


class _NoTerminal:
    """In the place of pytest's reporter: pytest-timeout writes the stacks of threads by it."""

    def __init__(self, config: pytest.Config) -> None:
        self._tw = create_terminal_writer(config, sys.stderr)
