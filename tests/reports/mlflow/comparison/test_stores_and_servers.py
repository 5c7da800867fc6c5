"""Whole processes, real servers, PostgreSQL, and runs of many trials."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from mlflow import MlflowClient
from requests.adapters import HTTPAdapter

from tests.reports.mlflow.comparison.helpers import (
    SOLVED_TASKS,
    children,
    fetch,
    free_port,
    models,
    of_size,
    served,
    traces,
    wait_for,
)
from whichloop.experiments.compare.results import Results
from whichloop.metrics.record import Record
from whichloop.reports import mlflow as tracking
from whichloop.runs.store.traces import Traces

IN_ONE_FORK = "the comparison that is logged once"

LOG = """
import os, sys, traceback
known = set(sys.modules)
def no_network(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in ("127.0.0.1", "::1"):
        os.write(2, f"{event} {arguments[1]}".encode()); os._exit(7)
    if event == "socket.getaddrinfo" and arguments[0] not in ("127.0.0.1", "localhost", None):
        os.write(2, f"{event} {arguments}".encode()); os._exit(7)
sys.addaudithook(no_network)
from pathlib import Path
from whichloop.reports import mlflow as tracking
from whichloop.experiments.compare.results import results

def log(folder):
    code = 1
    try:
        tracked = tracking.track(results(Path(folder)), sys.argv[1], "whichloop")
        assert isinstance(tracked, tracking.Tracked), tracked
        assert not {"litellm", "dspy"} & (set(sys.modules) - known)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)

children = [os.fork() or log(folder) for folder in sys.argv[2:]]
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
"""Two processes that log at once: forks of one that has imported MLflow, which takes longer than all else, and opened nothing."""


def in_a_fork(arguments: Sequence[str], here: Path) -> int:
    """Run `LOG` in a fork of this process, which has imported MLflow, and return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        os.chdir(here)
        sys.argv = ["-c", *arguments]
        exec(LOG, {})
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def in_a_new_process(arguments: Sequence[str], here: Path) -> int:
    """Run `LOG` by a Python that has imported nothing, and return its exit code."""
    return subprocess.run([sys.executable, "-c", LOG, *arguments], cwd=here, timeout=240, check=False).returncode


@pytest.mark.thorough
@pytest.mark.parametrize("log", [in_a_fork, pytest.param(in_a_new_process, marks=pytest.mark.slow)])
def test_processes_share_a_new_store_and_leave_stdout_network_and_folder_alone(short, tmp_path, capfd, log):
    here = tmp_path / "here"
    here.mkdir()
    uri = f"sqlite:///{tmp_path}/new.db"
    names = ["one", "two"]
    for name in names:
        shutil.copytree(short.folder, tmp_path / name)
    code = log([uri, *(str(tmp_path / name) for name in names)], here)
    assert capfd.readouterr() == ("", "")
    assert code == 0
    assert list(here.iterdir()) == []
    client = MlflowClient(tracking_uri=uri)
    logged = client.search_runs([client.get_experiment_by_name("whichloop").experiment_id], "tags.`whichloop.kind` = 'run'")
    assert {run.data.tags["whichloop.run"] for run in logged} == set(names)


@dataclass(frozen=True)
class Opened:
    """A server that the printed command has started."""

    port: int
    log: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def opened(uri: str, tracked: tracking.Tracked, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The store opened by the command that is printed, but for its port."""
    folder = tmp_path_factory.mktemp("opened")
    made = Opened(free_port(), folder / "log")
    command = [sys.executable, "-m", *shlex.split(tracked.ui), "--port", str(made.port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW", "LITELLM", "DO_NOT"))}
    with made.log.open("w") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"{made.address}/health")
        yield made
    finally:
        server.terminate()
        server.wait(20)


def test_the_ui_command_names_the_store(uri, tracked):
    assert tracked.ui == tracking.ui_command(uri)
    assert shlex.split(tracked.ui) == ["whichloop", "ui", "--tracking-uri", uri]


@pytest.mark.slow
def test_the_ui_command_opens_the_store_and_its_server_takes_a_run(run, tracked, opened, capsys):
    check_that_it_serves(run, tracked, opened.address)
    check_that_it_takes_a_run(run, opened.address)
    assert capsys.readouterr() == ("", "")
    assert "LiteLLM" not in opened.log.read_text()


@pytest.fixture
def server(uri: str, tracked: tracking.Tracked, tmp_path: Path, monkeypatch) -> Iterator[str]:
    """The address of a server over the store, in a thread: it sets this variable for the whole process."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    with served(uri, tmp_path) as address:
        yield address


@pytest.mark.thorough
def test_a_server_takes_a_run(run, short, tracked, server, capsys):
    check_that_it_serves(run, tracked, server)
    check_that_it_takes_a_run(short, server)
    assert capsys.readouterr() == ("", "")


def check_that_it_serves(run: Results, tracked: tracking.Tracked, address: str) -> None:
    """Hold a server over the store in which a run was logged to what it serves."""
    assert b"<html" in fetch(address)
    manifest = fetch(f"{address}/get-artifact?path=manifest.json&run_uuid={tracked.parent_run_id}")
    assert manifest == (run.folder / "manifest.json").read_bytes()


def check_that_it_takes_a_run(run: Results, address: str) -> None:
    """Log a run through a server, twice, and hold the server to what it has of it."""
    over_http = tracking.log_run(run, address.replace("//", "//user:secret1@"), "served")
    assert over_http.ui == f"{address}/#/experiments/{over_http.experiment_id}/runs/{over_http.parent_run_id}"
    assert "secret1" not in over_http.uri
    assert tracking.log_run(run, address, "served").parent_run_id == over_http.parent_run_id
    client = MlflowClient(tracking_uri=address)
    assert b"<svg" in fetch(f"{address}/get-artifact?path=charts/accuracy.svg&run_uuid={over_http.parent_run_id}")
    assert len(models(client, over_http.experiment_id)) == len({arm.configuration for arm in run.manifest.arms})
    logged = children(client, over_http)
    for arm in run.comparison.arms:
        child = logged[arm.info.arm]
        assert arm.summary.accuracy is not None
        assert child.data.metrics["accuracy"] == arm.summary.accuracy.value
        assert [file.path for file in client.list_artifacts(child.info.run_id)] == ["trials.parquet"]
        records = [record for record in run.records if record.arm == arm.info.arm]
        found = traces(client, over_http, child.info.run_id)
        shown = {trace.info.tags["whichloop.task"] for trace in found}
        assert shown == {record.task for record in tracking.sample(records)}
        assert all(len(trace.data.spans) > 1 for trace in found)


@pytest.mark.thorough
def test_requests_to_a_server_do_not_grow_with_the_trials(server, tmp_path, monkeypatch):
    sent: list[str] = []
    send = HTTPAdapter.send

    def counting(adapter: HTTPAdapter, request: Any, **given: Any) -> Any:
        sent.append(f"{request.method} {request.url}")
        return send(adapter, request, **given)

    monkeypatch.setattr(HTTPAdapter, "send", counting)
    counts = []
    for repeats in (1, 4):
        found = of_size(tmp_path, repeats)
        assert len(found.records) == SOLVED_TASKS * repeats
        sent.clear()
        tracked = tracking.log_run(found, server, f"of {repeats}")
        counts.append(Counter(line.partition(" ")[0] for line in sent if not line.endswith("/version")))  # asked once
        client = MlflowClient(tracking_uri=server)
        (child,) = children(client, tracked).values()
        assert child.data.metrics["trials.counts.trials"] == SOLVED_TASKS * repeats
    assert counts[0] == counts[1]
    assert counts[0].total() > 10


def test_of_many_trials_only_the_traces_that_are_shown_are_read(uri, tmp_path, monkeypatch):
    read: list[Record] = []
    own = Traces.read

    def reading(self: Traces, record: Record) -> Any:
        read.append(record)
        return own(self, record)

    monkeypatch.setattr(Traces, "read", reading)
    tracked = tracking.log_run(of_size(tmp_path, 4), uri, "many")
    shown = MlflowClient(tracking_uri=uri).search_traces(locations=[tracked.experiment_id])
    assert len(read) == len(shown) == tracking.USUAL_TRACES


needs_postgres = pytest.mark.skipif(
    not (shutil.which("initdb") and shutil.which("postgres")), reason="needs PostgreSQL: initdb and postgres on the PATH"
)


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The address of an empty database of a cluster of its own, on loopback. PostgreSQL does not run as root."""
    given: dict[str, Any] = {}
    if os.geteuid() == 0:
        owner = pwd.getpwnam("nobody")
        given = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="pg"))  # where another user may go
    server: subprocess.Popen[bytes] | None = None
    try:
        if given:
            os.chown(folder, given["user"], given["group"])
        data = str(folder / "data")
        make = ["initdb", "--pgdata", data, "--auth", "trust", "--username", "whichloop", "--encoding", "UTF8", "--no-sync"]
        subprocess.run(make, cwd=folder, check=True, capture_output=True, **given)
        start = ["postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", str(folder), "-c", "fsync=off"]
        server = subprocess.Popen(start, cwd=folder, stderr=subprocess.DEVNULL, **given)
        wait_for_port(port)
        yield f"postgresql+psycopg://whichloop@127.0.0.1:{port}/postgres"
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # fast shutdown: clients are sent away
            server.wait(30)
        shutil.rmtree(folder)


def wait_for_port(port: int) -> None:
    give_up = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(host="127.0.0.1", port=port, user="whichloop", dbname="postgres"):
                return
        except psycopg.OperationalError:  # it is not up, or still getting ready
            assert time.monotonic() < give_up
            time.sleep(0.1)


@needs_postgres
@pytest.mark.slow
def test_postgresql_is_a_store_by_itself_and_below_a_server(run, postgresql, tmp_path):
    direct = tracking.log_run(run, postgresql, "direct")
    assert tracking.log_run(run, postgresql, "direct") == direct
    found = {"direct": (MlflowClient(tracking_uri=postgresql), direct)}
    with served(postgresql, tmp_path) as address:
        found["served"] = (MlflowClient(tracking_uri=address), tracking.log_run(run, address, "served"))
        for client, tracked in found.values():
            logged = children(client, tracked)
            for arm in run.comparison.arms:
                child = logged[arm.info.arm]
                assert child.data.metrics["accuracy"] == arm.summary.accuracy.value
                assert [file.path for file in client.list_artifacts(child.info.run_id)] == ["trials.parquet"]
                records = [record for record in run.records if record.arm == arm.info.arm]
                shown = {trace.info.tags["whichloop.task"] for trace in traces(client, tracked, child.info.run_id)}
                assert shown == {record.task for record in tracking.sample(records)}
