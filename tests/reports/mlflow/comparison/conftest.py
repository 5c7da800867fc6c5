"""One finished comparison, logged once, that the tests of this folder share."""

from __future__ import annotations

import pytest
from mlflow import MlflowClient

from tests.reports.mlflow.comparison.helpers import LOOPS, PROFILES, TASKS, of_size
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.reports import mlflow as tracking
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Results:
    """A finished run of four arms, in a folder whose name needs quoting."""
    runs = tmp_path_factory.mktemp("tracking") / "the runs é 100%"
    config = CompareConfig(loops=LOOPS, suite="arithmetic", tasks=TASKS, profiles=PROFILES, runs=runs, mlflow=False)
    experiment = prepare(config)
    assert compare.run(experiment, Unwatched()) == ""
    return results(experiment.folder)


@pytest.fixture(scope="session")
def short(tmp_path_factory) -> Results:
    """A finished run of one arm, for what does not depend on how many there are."""
    return of_size(tmp_path_factory.mktemp("short"), 1)


@pytest.fixture(scope="session")
def uri(run) -> str:
    return tracking.default_uri(run.folder.parent)


@pytest.fixture(scope="session")
def tracked(run, uri) -> tracking.Tracked:
    return tracking.log_run(run, uri, "whichloop")


@pytest.fixture(scope="session")
def client(uri, tracked) -> MlflowClient:
    return MlflowClient(tracking_uri=uri)
