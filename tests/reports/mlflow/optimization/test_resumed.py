"""An optimization that was left, killed or told again goes on in the same runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reports.mlflow.optimization.helpers import (
    CHOSEN,
    DESIGNS,
    EVENTS,
    PAGE,
    TITLE,
    Event,
    Made,
    client_of,
    everything,
    ids,
    own_program,
    points,
    statuses,
    tell,
    tracker_of,
)
from whichloop.reports.mlflow.artifacts import prompt_name

IN_ONE_FORK = "the optimization that is logged once"

# MLflow's own, at its first store
pytestmark = pytest.mark.thorough


@pytest.mark.thorough
@pytest.mark.parametrize(
    "until", [*(pytest.param(number, marks=pytest.mark.slow) for number in (1, 7, len(EVENTS))), len(EVENTS) // 2]
)
def test_a_run_that_was_left_goes_on_in_the_same_runs(light: Made, plain: list[Any], until: int) -> None:
    name = f"left {until}"
    with tracker_of(light, name) as tracker:
        tell(tracker, EVENTS[:until])
    client = client_of(light)
    left = statuses(client, name)
    assert left[TITLE] == "KILLED"
    assert "RUNNING" not in left.values()
    before = ids(client, name)
    done = {event[1][0] for event in EVENTS[:until] if event[0] == "ended"}
    with tracker_of(light, name) as tracker:
        tracker.flush()
        # A design that had ended tells its end alone.
        tell(tracker, [event for event in EVENTS if event[0] == "ended" or event[1][0] not in done])
        assert tracker.finish(light.result, PAGE) is not None
    assert everything(client, name) == plain
    assert before <= ids(client, name)
    for design in DESIGNS:
        for predictor in own_program(design):
            assert len(client.search_prompt_versions(prompt_name(design, predictor))) == 2


KILLED = """
import importlib.util, json, os, pathlib, signal, sys
from whichloop.experiments.optimize.manifest import read_optimization_manifest
spec = importlib.util.spec_from_file_location("helpers", sys.argv[1])
helpers = importlib.util.module_from_spec(spec)
sys.modules["helpers"] = helpers
spec.loader.exec_module(helpers)
folder = pathlib.Path(sys.argv[2])
manifest = read_optimization_manifest(folder)
tracker = helpers.OptimizationTracker(folder, manifest, sys.argv[3], "killed").__enter__()
helpers.tell(tracker, helpers.EVENTS[:7])
tracker.flush()
helpers.tell(tracker, helpers.EVENTS[7:])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_run_whose_process_is_killed_goes_on_in_the_same_runs(light: Made, plain: list[Any]) -> None:
    command = [sys.executable, "-c", KILLED, str(Path(__file__).with_name("helpers.py")), str(light.folder), light.uri]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    client = client_of(light)
    before = ids(client, "killed")
    assert set(statuses(client, "killed").values()) == {"RUNNING"}
    with tracker_of(light, "killed") as tracker:
        tell(tracker, EVENTS)
        assert tracker.finish(light.result, PAGE) is not None
    assert everything(client, "killed") == plain
    assert len(before) >= 3
    assert before <= ids(client, "killed")


@pytest.mark.thorough
def test_a_finished_run_that_is_told_again_stays_as_it_is(light: Made, plain: list[Any]) -> None:
    """So does the comparison of its test: comparison/test_logged_runs.py."""
    written = points(light, "plain")
    assert written > 100
    with tracker_of(light, "plain") as tracker:
        tell(tracker, [event for event in EVENTS if event[0] == "ended"])
        assert tracker.finish(light.result, PAGE) is not None
    assert everything(client_of(light), "plain") == plain
    assert points(light, "plain") == written


@pytest.mark.thorough
def test_a_design_that_ended_untracked_is_shown_from_its_files(light: Made, plain: list[Any]) -> None:
    with tracker_of(light, "late") as tracker:
        tell(tracker, [event for event in EVENTS if event[0] == "ended"])
        assert tracker.finish(light.result, PAGE) is not None
    late, whole = ({row[0]: row for row in rows} for rows in (everything(client_of(light), "late"), plain))
    assert late.keys() == whole.keys()
    child = f"{TITLE} > {DESIGNS[0]} > candidate {CHOSEN}"
    assert late[child][3] == {
        key: whole[child][3][key] for key in ("dev", "dev_so_far", "dev_tasks", "train_so_far", "train_tasks")
    }


@pytest.mark.parametrize(("failing", "status"), [(1, "KILLED"), (2, "FAILED")])
def test_an_optimization_is_failed_once_all_of_its_designs_are(light: Made, failing: int, status: str) -> None:
    failed = DESIGNS[:failing]
    events: list[Event] = []
    for name, (design, *told) in (event for event in EVENTS if event[0] in ("began", "ended")):
        if name == "ended" and design in failed:
            told[0] = replace(told[0], status="failed", reason="the metric is broken")
        events.append((name, (design, *told)))
    experiment = f"{failing} failed"
    with tracker_of(light, experiment) as tracker:
        tell(tracker, events)
    ended = statuses(client_of(light), experiment)
    assert ended[TITLE] == status
    assert list(ended.values()).count("FAILED") == failing + (status == "FAILED")
