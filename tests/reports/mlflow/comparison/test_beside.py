"""A process of its own logs a run, and begins to import MLflow before the run has ended."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loopbench.reports import mlflow as tracking
from loopbench.reports import tracking_beside
from loopbench.reports.mlflow.notes import REPORT
from loopbench.reports.mlflow.store import open_store, run_name
from loopbench.reports.tracking_beside import NO_ANSWER, MlflowLog, run_log
from loopbench.runs.config import CompareConfig

SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from loopbench.experiments.compare.results import results
from loopbench.reports.tracking_beside import run_log
from loopbench.runs.config import CompareConfig

found = results(Path(sys.argv[1]))

def said(uri, killed=False):
    with run_log(CompareConfig(runs=found.folder.parent, tracking_uri=uri)) as log:
        if killed:
            os.kill(log.beside.pid, signal.SIGKILL)
        log.trials_ended(found.folder)
        return log.finish(found, "é the page" * 100_000)

lines = [said(sys.argv[2]), said("ftp://here"), said(sys.argv[2], killed=True)]
with run_log(CompareConfig(runs=found.folder.parent)) as log:
    left = log.beside.pid  # of a run that was interrupted
print(json.dumps([lines, os.path.exists(f"/proc/{left}"), "mlflow" in sys.modules]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forking is safe on Linux only")
def test_a_process_of_its_own_logs_a_run_and_leaves_nothing_behind(run, tmp_path):
    uri = f"sqlite:///{tmp_path}/beside.db"
    ended = subprocess.run([sys.executable, "-c", SCRIPT, str(run.folder), uri], capture_output=True, text=True, check=True)
    (logged, refused, killed), left, imported = json.loads(ended.stdout)
    assert logged == f"MLflow: {tracking.ui_command(uri)}"
    assert refused.startswith("warning: nothing was logged to MLflow: tracking address 'ftp://here': it must begin with")
    assert killed == f"warning: nothing was logged to MLflow: {NO_ANSWER}"
    assert not left
    assert not imported
    store = open_store(uri, "loopbench", run.folder.parent)
    parent = store.parent(run_name(run.folder))
    assert parent is not None
    assert parent.info.status == "FINISHED"
    page = Path(store.client.download_artifacts(parent.info.run_id, REPORT, str(tmp_path)))
    assert page.read_text(encoding="utf-8") == "é the page" * 100_000


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
        assert log.finish(run, "page") == ""
