"""A process of its own logs a run, and begins to import MLflow before the run has ended."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.prepared import Prepared
from whichloop.reports import mlflow as tracking
from whichloop.reports import tracking_beside
from whichloop.reports.mlflow.notes import REPORT
from whichloop.reports.mlflow.store import open_store, run_name
from whichloop.reports.tracking_beside import NO_ANSWER, MlflowLog, run_log
from whichloop.runs import forking
from whichloop.runs.config import CompareConfig

IN_ONE_FORK = "the comparison that is logged once"

SCRIPT = """
import ctypes, json, os, signal, sys
from pathlib import Path
from whichloop.experiments.compare.results import results
from whichloop.reports import tracking_beside
from whichloop.reports.tracking_beside import run_log
from whichloop.runs import forking
from whichloop.runs.config import CompareConfig

def fails(parent):
    raise OSError("what the forked process raises may not get into the code of the command")

def missing():
    raise ImportError("no MLflow here")

found = results(Path(sys.argv[1]))
{store}
def said(uri, killed=False):
    with run_log(CompareConfig(runs=found.folder.parent, tracking_uri=uri)) as log:
        if killed:
            os.kill(log.beside.fork.pid, signal.SIGKILL)
        log.trials_ended(found.folder)
        return log.finish(found, "é the page" * 100_000)

lines = [said(sys.argv[2]), said(sys.argv[2], killed=True)]
imports, tracking_beside.tracking = tracking_beside.tracking, missing
lines.append(said(sys.argv[2]))
tracking_beside.tracking = imports
with run_log(CompareConfig(runs=found.folder.parent)) as log:
    left = log.beside.fork.pid  # of a run that was interrupted
with_parent, forking.die_with = forking.die_with, fails
try:
    broken = tracking_beside._fork(CompareConfig(runs=found.folder.parent))
except OSError:
    print("the forked process came back", flush=True)
    os._exit(1)
os.waitpid(broken.fork.pid, 0)
lines.append(broken.answer())
broken.close()
forking.die_with, forking.SETTLES_S = with_parent, 0
libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
assert libc.pthread_create(ctypes.byref(thread), None, ctypes.cast(libc.pause, ctypes.c_void_p), None) == 0
with run_log(CompareConfig(runs=found.folder.parent)) as log:
    forked = log.beside is not None  # beside a thread that Python does not know
print(json.dumps([lines, os.path.exists(f"/proc/{left}"), "mlflow" in sys.modules, forked]))
"""
NO_STORE = """
from types import SimpleNamespace

def track(found, config, page):
    Path(config.tracking_uri.removeprefix("sqlite:///")).write_text(page(found))

tracking_beside.tracking = lambda: SimpleNamespace(get_ready=lambda uri: None, track_as_configured=track)
"""
"""In the place of MLflow, which each process that logs would import for seconds: the page alone is written, as a file."""


@pytest.mark.skipif(sys.platform != "linux", reason="forking is safe on Linux only")
@pytest.mark.parametrize("mlflow", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["no store", "mlflow"])
def test_a_process_of_its_own_logs_a_run_and_leaves_nothing_behind(run, tmp_path, mlflow):
    uri = f"sqlite:///{tmp_path}/beside.db"
    (tmp_path / "logs_beside.py").write_text(SCRIPT.replace("{store}", "" if mlflow else NO_STORE))
    command = [sys.executable, "-m", "logs_beside", str(run.folder), uri]
    with Prepared(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate()
    assert process.returncode == 0
    (logged, killed, refused, failed), left, imported, forked = json.loads(said)
    assert logged == ""
    assert refused == "warning: nothing was logged to MLflow: ImportError: no MLflow here"
    assert killed == failed == f"warning: nothing was logged to MLflow: {NO_ANSWER}"
    assert not forked
    assert not left
    assert not imported
    if not mlflow:
        assert (tmp_path / "beside.db").read_text(encoding="utf-8") == "é the page" * 100_000
        return
    store = open_store(uri, "whichloop", run.folder.parent)
    parent = store.parent(run_name(run.folder))
    assert parent is not None
    assert parent.info.status == "FINISHED"
    page = Path(store.client.download_artifacts(parent.info.run_id, REPORT, str(tmp_path)))
    assert page.read_text(encoding="utf-8") == "é the page" * 100_000


class CutOff(io.BytesIO):
    """The orders to a process whose command ends before the page is written: at the missing one, the store is looked at."""

    def __init__(self, order: bytes, look: Callable[[], object]) -> None:
        super().__init__(order)
        self.look = look
        self.seen: list[object] = []

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line:
            self.seen.append(self.look())
        return line


def test_nothing_is_written_before_the_page_is(run, tmp_path):
    uri = f"sqlite:///{tmp_path}/cut.db"

    def look() -> object:
        return open_store(uri, "whichloop", run.folder.parent).parent(run_name(run.folder))

    orders = CutOff(json.dumps(str(run.folder)).encode() + b"\n", look)
    reason = tracking_beside._logged(CompareConfig(runs=run.folder.parent, tracking_uri=uri), orders)
    assert isinstance(reason, str)
    assert orders.seen == [None]
    assert look() is None


@pytest.mark.skipif(sys.platform != "linux", reason="forking is safe on Linux only")
@pytest.mark.parametrize("refused", ["fork", "pipe"])
def test_where_the_system_grants_no_process_the_command_logs(run, monkeypatch, refused):
    granted: list[int] = []
    closed: list[int] = []
    pipe, close = os.pipe, os.close

    def fails() -> NoReturn:
        raise OSError("no more of them")

    def given() -> tuple[int, int]:
        if granted and refused == "pipe":
            fails()
        granted.extend(ends := pipe())
        return ends

    def closes(end: int) -> None:
        closed.append(end)
        close(end)

    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(tracking_beside, "log_results", lambda found, config, page: f"{found.folder.name} {page}")
    monkeypatch.setattr(os, "fork", fails)
    monkeypatch.setattr(os, "pipe", given)
    monkeypatch.setattr(os, "close", closes)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with run_log(CompareConfig(runs=run.folder.parent)) as log:
        assert log.beside is None
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
        assert len(granted) == (2 if refused == "pipe" else 4)
        assert closed == granted
        assert log.finish(run, "page") == f"warning: nothing was logged to MLflow: {run.folder.name} page"


def test_where_threads_cannot_be_counted_there_may_be_some(monkeypatch):
    def fails(path: str) -> NoReturn:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "listdir", fails)
    assert not forking.is_alone()


def test_where_other_threads_run_the_process_itself_logs(run, monkeypatch):
    ends = threading.Event()
    other = threading.Thread(target=ends.wait)
    other.start()
    try:
        monkeypatch.setattr(tracking_beside, "log_results", lambda found, config, page: f"{found.folder.name} {page}")
        with run_log(CompareConfig(runs=run.folder.parent)) as log:
            log.trials_ended(run.folder)
            assert log.finish(run, "page") == f"warning: nothing was logged to MLflow: {run.folder.name} page"
    finally:
        ends.set()
        other.join()


def test_a_run_that_asks_for_no_log_gets_none(run):
    with run_log(CompareConfig(runs=run.folder.parent, mlflow=False)) as log:
        assert log == MlflowLog(CompareConfig(runs=run.folder.parent, mlflow=False))
        log.trials_ended(run.folder)
        assert log.place(run.folder) == ()
        assert log.finish(run, "page") == ""


def test_where_a_run_will_be_is_known_before_it_is_logged(run):
    """The lines that stand above an answer, which waits for no log."""
    uri = "sqlite:////elsewhere/theirs.db"
    _, command = MlflowLog(CompareConfig(runs=run.folder.parent, tracking_uri=uri)).place(run.folder)
    _, usual = MlflowLog(CompareConfig(runs=run.folder.parent)).place(run.folder)
    assert command == f"  {tracking.ui_command(uri)}"
    assert usual == f"  {tracking.ui_command(tracking.default_uri(run.folder.parent))}"
