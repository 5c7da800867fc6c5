"""Stores: servers take what SQLite takes, one that fails costs a line, none shows a key."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mlflow import MlflowClient
from mlflow.utils.validation import _validate_metric_name, _validate_param_name
from requests.adapters import HTTPAdapter

from tests.reports.mlflow.servers import free_port, served
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare
from whichloop.protocol.redact import public_address
from whichloop.reports import mlflow as store
from whichloop.reports.mlflow import log, metric_key
from whichloop.reports.tracking import _reason, log_results, ui_command
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

IN_ONE_FORK = "the runs that are logged"


def made(runs: Path, repeats: int = 1) -> Results:
    config = CompareConfig(loops=("bare",), suite="arithmetic", tasks=4, repeats=repeats, runs=runs, mlflow=False)
    experiment = prepare(config)
    assert compare.run(experiment, Unwatched()) == ""
    return results(experiment.folder)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made(tmp_path_factory.mktemp("short"))


def runs_of(uri: str, experiment: str) -> list[Any]:
    """The runs of an experiment, without ids and times."""
    client = MlflowClient(tracking_uri=uri)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    left_out = ("mlflow.parentRunId", "mlflow.user")
    return [
        (
            *(run.info.run_name, run.info.status, run.data.metrics, run.data.params),
            {name: text for name, text in run.data.tags.items() if name not in left_out},
            [file.path for file in client.list_artifacts(run.info.run_id)],
        )
        for run in sorted(found, key=lambda run: (str(run.info.run_name), run.data.tags["whichloop.run"]))
    ]


def said_of(run: Results, uri: str) -> str:
    config = CompareConfig(loops=("bare",), suite="arithmetic", mlflow=True, tracking_uri=uri)
    return log_results(run, config, "page")


def test_a_failure_is_one_line_and_costs_nothing(short, tmp_path, capsys):
    before = {path.name: path.read_bytes() for path in short.folder.iterdir()}
    (tmp_path / "file.db").write_text("no database, but text that is long enough to be looked at\n" * 100)
    for uri, known in (
        ("foo://user:secret1@host/x", "must begin with one of http://"),
        ("./mlruns", "must begin with one of http://"),
        (f"http://user:secret1@127.0.0.1:{free_port()}", "no server answers at http://[redacted]@127.0.0.1"),
        (f"sqlite:///{tmp_path}/no/such/folder/x.db", "No such file or directory"),
        (f"sqlite:///{tmp_path}/file.db", "not a database"),
    ):
        line = said_of(short, uri)
        assert line.startswith("nothing was logged to MLflow: ")
        assert known in line
        assert "secret1" not in line
        assert "\n" not in line
    assert {path.name: path.read_bytes() for path in short.folder.iterdir()} == before
    assert capsys.readouterr().out == ""


NAMES = st.text(max_size=300) | st.from_regex(r"[\w./ :()=-]{1,40}", fullmatch=True)


@given(NAMES, NAMES)
@example("..", "../..")
@example("..a", "./a")
@example("a=1", "a 1")
def test_every_text_has_a_key_of_its_own_that_mlflow_takes(one, other):
    key = metric_key(one)
    _validate_metric_name(key)
    _validate_param_name(key)
    assert len(key) <= 250
    assert (key == metric_key(other)) == (one == other)


PASSWORDS = st.text(st.sampled_from("abcXYZ0189/@:%+-_.!?#"), min_size=8, max_size=20).map(lambda text: f"Pw{text}wP")


@given(st.sampled_from(["postgresql", "mysql+pymysql", "https", "http"]), PASSWORDS)
def test_a_password_is_never_shown(scheme, password):
    for spelling in (password, quote(password, safe="")):
        address = f"{scheme}://user:{spelling}@db.example.test:5432/mlflow"
        error = RuntimeError(f"cannot reach {address}:\n password {spelling} refused; token={password} Bearer {password}")
        for shown in (
            public_address(f"see '{address}' and {address}"),
            ui_command(address),
            ui_command(f"{scheme}://db.example.test/mlflow?sslpassword={quote(password, safe='')}&a=b"),
            _reason(error, address),
        ):
            assert password not in shown
            assert spelling not in shown
            assert "\n" not in shown


@pytest.mark.parametrize(
    "text", ["sqlite:////home/me@work/key=1/mlflow.db", "http://127.0.0.1:5000/#/experiments/1", "a token is missing"]
)
def test_what_is_no_secret_is_shown(text):
    assert public_address(text) == text


def test_keys_and_odd_characters_in_what_is_logged_do_no_harm(short, tmp_path, monkeypatch):
    key = "sk-proj-Zx81mQ0vB7Lk2Pq9"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    uri = f"sqlite:///{tmp_path}/odd.db"
    odd = f"{key} \x00 \ud800 é ' \""
    opened = store.Store(uri, "odd", tmp_path)
    entry = store.RunEntry(
        odd, odd, {odd: odd}, {odd: 1.0, "none": None, "infinite": float("inf")}, {"tag": odd}, {"file.txt": odd}
    )
    opened.put("a run", (store.RunEntry("above"), entry), 0, 1, is_complete=True)
    (name, _, metrics, params, tags, files), _ = runs_of(uri, "odd")
    assert name == "[redacted] \ufffd ? é ' \""
    assert list(metrics.values()) == [1.0]
    assert (list(params.values()), tags["tag"], files) == ([name], name, ["file.txt"])
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_a_server_takes_the_same_in_as_many_requests_however_many_trials_there_are(short, tmp_path, monkeypatch, capfd):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    log(short, uri, "direct", "page")
    sent: list[str] = []
    send = HTTPAdapter.send

    def counting(adapter: Any, request: Any, **given: Any) -> Any:
        sent.append(request.method if not request.url.endswith("/version") else "")  # which is asked once
        return send(adapter, request, **given)

    monkeypatch.setattr(HTTPAdapter, "send", counting)
    with served(f"sqlite:///{tmp_path / 'served.db'}", tmp_path) as address:
        counts = []
        for name, run in (("short", short), ("long", made(tmp_path / "long", 4))):
            sent.clear()
            log(run, address, name, "page")
            counts.append(Counter(filter(None, sent)))
        assert counts[0] == counts[1]
        assert runs_of(address, "short") == runs_of(uri, "direct")
    assert capfd.readouterr().out == ""


def test_two_processes_make_the_tables_of_a_new_store_one_after_the_other(tmp_path):
    code = "import sys, pathlib; from whichloop.reports.mlflow import Store; Store(sys.argv[1], 'x', pathlib.Path.cwd())"
    typed = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/new.db"]
    processes = [subprocess.Popen(typed, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
