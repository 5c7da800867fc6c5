"""Stores that fail cost a line, and no rollout waits for them; odd texts do no harm; a server takes the same."""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tests.reports.mlflow.comparison.helpers import served
from tests.reports.mlflow.optimization.helpers import (
    BRACES,
    DESIGNS,
    EVENTS,
    PAGE,
    SECRET,
    Made,
    candidate_of,
    client_of,
    designs,
    end_of,
    everything,
    models_of,
    own_program,
    search,
    tell,
    tracker_of,
    versions,
)
from whichloop.experiments.optimize.candidates import Candidate
from whichloop.experiments.optimize.manifest import (
    read_optimization_manifest,
)
from whichloop.protocol import program_digest
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow import OptimizationTracker
from whichloop.reports.mlflow.artifacts import prompt_name, prompt_text
from whichloop.runs.store.files import write_manifest_json

IN_ONE_FORK = "the optimization that is logged once"

# MLflow's own, at its first store
pytestmark = pytest.mark.thorough


@pytest.fixture
def own_store(light: Made, plain: list[Any], tmp_path: Path) -> Made:
    """A store that a test may break."""
    database = tmp_path / "own.db"
    shutil.copy(light.uri.removeprefix("sqlite:///"), database)
    folder = tmp_path / light.folder.name
    shutil.copytree(light.folder, folder)
    return replace(light, folder=folder, uri=f"sqlite:///{database}")


def rename(made: Made, table: str, to: str) -> None:
    connection = sqlite3.connect(made.uri.removeprefix("sqlite:///"))
    connection.execute(f"ALTER TABLE {table} RENAME TO {to}")
    connection.commit()
    connection.close()


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "half", [1, *(pytest.param(number, marks=pytest.mark.slow) for number in (5, len(EVENTS) // 2, len(EVENTS) - 1))]
)
def test_a_store_that_fails_for_a_while_costs_a_line(own_store: Made, plain: list[Any], half: int) -> None:
    told: list[str] = []
    with tracker_of(own_store, "failing", told.append) as tracker:
        tell(tracker, EVENTS[:half])
        tracker.flush()
        assert told == []
        rename(own_store, "metrics", "gone")
        tell(tracker, EVENTS[half:-1])
        tracker.flush()
        tell(tracker, EVENTS[-1:])
        tracker.flush()
        rename(own_store, "gone", "metrics")
        found = tracker.finish(own_store.result, PAGE)
    assert len(told) == 1
    assert found is not None
    assert everything(client_of(own_store), "failing") == plain


def test_a_store_that_fails_for_good_loses_no_result(own_store: Made, capfd: pytest.CaptureFixture[str]) -> None:
    before = content(own_store.folder)
    told: list[str] = []
    with tracker_of(own_store, "lost", told.append) as tracker:
        tell(tracker, EVENTS[:9])
        tracker.flush()
        rename(own_store, "runs", "gone")
        tell(tracker, EVENTS[9:])
        assert tracker.finish(own_store.result, PAGE) is None
    assert content(own_store.folder) == before
    (line,) = told
    assert "no such table" in line
    assert "\n" not in line
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("uri", ["foo://user:secret1@host/x", "http://user:secret1@127.0.0.1:9"])
def test_an_address_that_leads_nowhere_is_told_once_without_its_secrets(made: Made, uri: str) -> None:
    told: list[str] = []
    with tracker_of(replace(made, uri=uri), "nowhere", told.append) as tracker:
        tell(tracker, EVENTS)
        assert tracker.finish(made.result, PAGE) is None
    assert len(told) == 1
    assert "secret1" not in told[0]


def test_no_rollout_waits_for_a_store_that_does_not_answer(made: Made, tracked: tracking.Tracked) -> None:
    design = DESIGNS[1]
    with Path(f"{made.uri.removeprefix('sqlite:///')}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as another process would that sets the store up
        with tracker_of(made, "slow") as tracker:
            tell(tracker, search(design))
            repeated = search(design)[1]
            for _ in range(1000):
                tell(tracker, [repeated])  # all of it is told while nothing can be written
            assert client_of(made).get_experiment_by_name("slow") is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            tracker.flush()
    client = client_of(made)
    (run,) = client.search_runs([client.get_experiment_by_name("slow").experiment_id], "tags.whichloop.candidate = '0'")
    assert run.data.metrics["rollouts"] == 1003
    assert len(client.get_metric_history(run.info.run_id, "rollouts")) <= 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_teller_that_fails_hangs_nothing(made: Made) -> None:
    def teller(line: str) -> None:
        raise SystemExit(line)  # ends the thread that writes, and no more

    with tracker_of(replace(made, uri="foo://x"), "dead", teller) as tracker:
        tell(tracker, EVENTS)
        assert tracker.finish(made.result, PAGE) is None


def test_secrets_and_odd_characters_do_no_harm(made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    design = DESIGNS[1]
    folder = tmp_path / "odd"
    folder.mkdir()
    write_manifest_json(folder, made.manifest)
    uri = f"sqlite:///{tmp_path / 'odd.db'}"
    store = Path(made.uri.removeprefix("sqlite:///"))
    if store.exists():  # another test has made it, which takes a while
        shutil.copy(store, tmp_path / "odd.db")
    (name,) = own_program(design)
    odd = f"{SECRET} \x00 \ud800 é {{{{query}}}} ' \" -- {{% endraw %}}"
    program = {name: replace(own_program(design)[name], instructions=odd, demos=({"query": odd},))}
    own = candidate_of(design, 0)
    kept = Candidate(1, program_digest(program), program, {}, {"d1": 1.0})
    ended = replace(end_of(design)[0], chosen=1, digest=kept.digest, status="failed", reason=odd, warnings=(odd,))
    with OptimizationTracker(folder, read_optimization_manifest(folder), uri, "odd", pytest.fail) as tracker:
        tell(tracker, [("began", (design, own)), ("tried", (design, kept)), ("ended", (design, ended, kept))])
        tracker.flush()
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("odd").experiment_id], "tags.`whichloop.kind` = 'design'")
    assert run.info.status == "FAILED"
    newest = client.get_prompt_version(prompt_name(design, name), json.loads(run.data.tags["mlflow.linkedPrompts"])[-1]["version"])
    assert newest.format().startswith("[redacted] \ufffd ? é {{query}} ' \" -- {% endraw %}")
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of an MLflow server with a store of its own."""
    with served(f"sqlite:///{tmp_path / 'served.db'}", tmp_path) as address:
        yield address


@pytest.mark.slow
def test_a_server_takes_the_same(light: Made, plain: list[Any], server: str, capfd: pytest.CaptureFixture[str]) -> None:
    with tracker_of(replace(light, uri=server), "served") as tracker:
        tell(tracker, EVENTS)
        found = tracker.finish(light.result, PAGE)
    assert capfd.readouterr().out == ""
    assert found is not None
    assert found.ui == f"{server}/#/experiments/{found.experiment_id}/runs/{found.parent_run_id}"
    client = MlflowClient(tracking_uri=server, registry_uri=server)
    assert everything(client, "served") == plain
    for design, run in designs(client, found).items():
        for predictor in own_program(design):
            newest, first = versions(client, prompt_name(design, predictor), found.experiment_id)
            assert BRACES in newest.format()
            assert first.format() == prompt_text(own_program(design)[predictor])
        for model in models_of(client, run).values():
            assert {file.path for file in client.list_logged_model_artifacts(model.model_id)} == {"program.json", "MLmodel"}
