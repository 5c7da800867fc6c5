"""`whichloop ui`: MLflow's page on a store, and what it says where there is none."""

from __future__ import annotations

import signal
import urllib.request

import pytest

from tests.reports.mlflow.servers import free_port, wait_for

pytestmark = pytest.mark.thorough  # a server is started


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "error: sqlite:///{here}/runs/mlflow.db: there is no such store; whichloop compare --mlflow logs a run\n"),
        (("--tracking-uri", "sqlite:///other.db"), "error: sqlite:///other.db: there is no such store; "),
        (("--port", "0"), "error: Invalid value for '--port': "),
    ],
)
def test_without_a_store_nothing_is_started(whichloop, here, words, said):
    ended = whichloop("ui", *words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(said.format(here=here))
    assert not list(here.iterdir())


def test_without_mlflow_it_says_how_to_install_it(whichloop, monkeypatch):
    monkeypatch.setattr("whichloop._extras.is_installed", lambda package: False)
    ended = whichloop("ui")
    assert (ended.code, ended.err) == (2, "error: ui needs mlflow, which is not installed: pip install 'whichloop[mlflow]'\n")


def test_a_servers_address_is_printed_without_its_password(whichloop, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example.test/")
    ended = whichloop("ui")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "https://mlflow.example.test\n"


def test_it_serves_the_store_of_the_runs_until_it_is_told_to_end(machine, here):
    (here / "runs").mkdir()
    store = here / "runs" / "mlflow.db"
    store.touch()
    port = free_port()
    with machine.running("ui", "--port", str(port)) as child:
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        assert address == f"http://127.0.0.1:{port}"
        wait_for(f"{address}/health")
        with urllib.request.urlopen(address) as page:
            assert "MLflow" in page.read().decode()
        assert store.stat().st_size
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address)
