"""One finished optimization, logged once, that the tests of this folder share."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest

from tests.reports.mlflow.optimization.helpers import (
    DESIGNS,
    EVENTS,
    PAGE,
    TASKS,
    Made,
    client_of,
    end_of,
    everything,
    own_program,
    tell,
    tracker_of,
    write_design,
)
from whichloop.datasets import arithmetic
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.optimize.manifest import PROGRAM, log_digest
from whichloop.experiments.optimize.result import optimization_result
from whichloop.protocol import program_digest
from whichloop.protocol.names import parse_spec
from whichloop.reports import mlflow as tracking
from whichloop.runs.code_digests import code_digest
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.folders import TEST
from whichloop.runs.new_manifest import configuration
from whichloop.runs.registry import make_loop
from whichloop.runs.store.files import write_manifest_json

TEST_TASKS = 3


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A finished optimization of two designs, its test really run."""
    folder = tmp_path_factory.mktemp("runs") / "20260101-tiny"
    folder.mkdir()
    abouts: list[dict[str, Any]] = []
    for place, design in enumerate(DESIGNS, 1):
        spec = parse_spec(design)
        about = {
            "design": design,
            "folder": f"designs/{place}-{spec.name}",
            "loop": spec.name,
            "options": dict(spec.options),
            "configuration": configuration(make_loop(spec, arithmetic.load().max_tool_steps)),
            "code": code_digest(make_loop(spec)),
            "program": program_digest(own_program(design)),
        }
        abouts.append(about)
        write_design(folder / str(about["folder"]), design, about)
    config = {
        "compare": {"suite": "arithmetic", "models": ["scripted"], "profiles": ["clean"], "repeats": 1},
        "search": {"budget": {"calls": 22, "tokens": None}, "proposer": None, "amortize": 100},
    }
    splits = {"train": {"tasks": 5, "digest": "a"}, "dev": {"tasks": len(TASKS), "digest": "b"}}
    opened = {
        "programs": {design: end_of(design)[1].digest for design in DESIGNS},
        "rollouts": {about["design"]: log_digest(folder / about["folder"] / "rollouts.jsonl") for about in abouts},
    }
    manifest = {
        "kind": "optimization",
        "config": config,
        "seed": 7,
        "versions": {"record": 1},
        "suite": {"name": "arithmetic", "version": "1", "digest": "5u17e"},
        "profiles": {"clean": "p"},
        "optimizer": {"name": "GEPA", "options": {}, "spec": "GEPA"},
        "designs": abouts,
        "splits": {**splits, "test": {"tasks": TEST_TASKS, "digest": "c", "opened": opened}},
        "packages": {"mlflow": "3.17.2"},
        "python": "3.11",
        "platform": "Linux",
    }
    write_manifest_json(folder, manifest)
    programs = [f"{design}@{folder / about['folder'] / PROGRAM}" for design, about in zip(DESIGNS, abouts, strict=True)]
    test = CompareConfig(loops=(*DESIGNS, *programs), suite="arithmetic", tasks=TEST_TASKS, split="test", mlflow=False)
    assert compare.run(prepare(test, folder / TEST), Unwatched()) == ""
    uri = tracking.default_uri(folder.parent)
    return Made(folder, manifest, uri, optimization_result(folder).to_json())


@pytest.fixture(scope="session")
def tracked(made: Made) -> tracking.Tracked:
    """The whole optimization, told once without a break."""
    with tracker_of(made, "whole") as tracker:
        tell(tracker, EVENTS)
        found = tracker.finish(made.result, PAGE)
    assert found is not None
    return found


@pytest.fixture(scope="session")
def light(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The same without the comparison of the test, which takes longer to log than all else."""
    folder = tmp_path_factory.mktemp("light") / made.folder.name
    shutil.copytree(made.folder, folder, ignore=shutil.ignore_patterns(TEST))
    return replace(made, folder=folder)


@pytest.fixture(scope="session")
def plain(light: Made) -> list[Any]:
    """What stands in MLflow of it when it is told once without a break."""
    with tracker_of(light, "plain") as tracker:
        tell(tracker, EVENTS)
        assert tracker.finish(light.result, PAGE) is not None
    return everything(client_of(light), "plain")
