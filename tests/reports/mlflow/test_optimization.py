"""An optimization in MLflow: what is told stands there once, live, whatever is killed or fails, and no rollout waits for it."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy.event
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.entities.model_registry import PromptVersion
from sqlalchemy.engine import Engine

from loopbench.datasets import arithmetic
from loopbench.experiments.compare import run as compare
from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import results as read_results
from loopbench.experiments.optimize.candidates import Candidate, SearchCost, SearchEnd
from loopbench.experiments.optimize.files import CANDIDATES, ENDED, PROGRAM
from loopbench.experiments.optimize.log import log_digest
from loopbench.experiments.optimize.manifest import (
    DesignEntry,
    OptimizationManifest,
    OptimizerEntry,
    SearchedSuite,
    SplitEntry,
    read_optimization_manifest,
)
from loopbench.experiments.optimize.result import optimization_result
from loopbench.metrics.record import Record
from loopbench.protocol import Program, Prompt, program_digest, read_program
from loopbench.protocol.names import parse_spec
from loopbench.reports import mlflow as tracking
from loopbench.reports.mlflow import OptimizationTracker, board
from loopbench.reports.mlflow.artifacts import note, program_file
from loopbench.reports.mlflow.board import SearchBoard
from loopbench.reports.mlflow.prompts import as_template, prompt_name, prompt_text
from loopbench.runs.code_digests import code_digest
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched
from loopbench.runs.folders import TEST
from loopbench.runs.new_manifest import configuration
from loopbench.runs.registry import make_loop
from loopbench.runs.store.files import MANIFEST, read_manifest_json, write_manifest_json

# MLflow's own, at its first store
pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")]

DESIGNS = ("react_extract", "bare(max_steps=3)")
TASKS = ("d1", "d2", "d3")
"""Of the dev split."""
BRACES = 'Say {{query}} as {"a": {"b": {% raw %}}}.\r\n'
SECRET = "sk-proj-Zx81mQ0vB7Lk2Pq9"

Event = tuple[str, tuple[Any, ...]]


@cache
def own_program(design: str) -> Program:
    program: Program = make_loop(parse_spec(design)).predictors  # type: ignore[attr-defined]
    return program


def changed(program: Program, number: int) -> Program:
    """Another program for each number; 0 is the program itself."""
    if number == 0:
        return program
    demo = {"query": f"Twice {number}?", "reply": {"answer": 2 * number}}
    return {
        name: replace(prompt, instructions=f"{prompt.instructions}\n{BRACES}Take care {number} times.", demos=(demo,))
        for name, prompt in program.items()
    }


def candidate_of(design: str, number: int, **scores: dict[str, float]) -> Candidate:
    program = changed(own_program(design), number)
    return Candidate(number, program_digest(program), program, **scores)


def trial(task: str, score: float) -> Record:
    return Record("a", "s", "d", task, 0, 1, "scored", "", "finished", None, {"accuracy": score}, 2, {"decide": 2}, input_tokens=10)


SCORES = ((0.0, 1.0, 0.0), (0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 0.0))
"""By candidate: of its dev tasks, one after the other; the last one is not scored on all of them."""
CHOSEN = 2


def search(design: str) -> list[Event]:
    """All that an optimization tells of one design."""
    events: list[Event] = []
    spent = SearchCost()
    for number, scores in enumerate(SCORES):
        tried = candidate_of(design, number)
        events.append(("tried" if number else "began", (design, tried)))
        for place, (task, score) in enumerate(zip(TASKS, scores, strict=False), 1):
            spent += SearchCost(1, 2, 10, 0.001)
            tried = replace(tried, dev=dict(zip(TASKS[:place], scores, strict=False)), train={"t1": 0.5})
            events.append(("rolled_out", (design, tried, trial(task, score), spent)))
        events.append(("proposed", (design, SearchCost(0, number + 1, 100))))
    ended, kept = end_of(design)
    return [*events, ("ended", (design, ended, kept))]


def end_of(design: str) -> tuple[SearchEnd, Candidate]:
    before, after = (dict(zip(TASKS, SCORES[number], strict=True)) for number in (0, CHOSEN))
    kept = candidate_of(design, CHOSEN, dev=after, train={"t1": 0.5})
    rollouts = sum(map(len, SCORES))
    search_, proposals = SearchCost(rollouts, 2 * rollouts, 10 * rollouts, 0.001 * rollouts), SearchCost(0, len(SCORES), 100)
    warnings = ("the proposer was terse",)
    return SearchEnd(
        design, "budget", "22 calls", kept.digest, CHOSEN, len(SCORES), before, after, search_, proposals, SearchCost(), warnings
    ), kept


EVENTS = [event for design in DESIGNS for event in search(design)]


def tell(watcher: Any, events: Iterable[Event]) -> None:
    for name, arguments in events:
        getattr(watcher, name)(*arguments)


@dataclass(frozen=True)
class Made:
    """A whole run directory, and the store that all tests of this file share."""

    folder: Path
    manifest: dict[str, Any]
    uri: str
    result: dict[str, Any]


class Silent(Unwatched):
    """Progress that nobody looks at."""

    def finished(self, record: Record) -> None:
        return None


@pytest.fixture(scope="module", autouse=True)
def hasty() -> Iterator[None]:
    """SQLite leaves it to the system when to write to the disk: a kill loses nothing, and a test does not wait for the disk."""

    def hasten(connection: Any, record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    sqlalchemy.event.listen(Engine, "connect", hasten)
    yield
    sqlalchemy.event.remove(Engine, "connect", hasten)


@pytest.fixture(scope="module")
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
        "splits": {**splits, "test": {"tasks": 6, "digest": "c", "opened": opened}},
        "packages": {"mlflow": "3.17.2"},
        "python": "3.11",
        "platform": "Linux",
    }
    write_manifest_json(folder, manifest)
    programs = [f"{design}@{folder / about['folder'] / PROGRAM}" for design, about in zip(DESIGNS, abouts, strict=True)]
    test = CompareConfig(loops=(*DESIGNS, *programs), suite="arithmetic", tasks=6, split="test", mlflow=False)
    assert compare.run(prepare(test, folder / TEST), Silent()) == ""
    uri = tracking.default_uri(folder.parent)
    return Made(folder, manifest, uri, optimization_result(folder).to_json())


def write_design(folder: Path, design: str, about: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    ended, kept = end_of(design)
    row = board.DesignRow(design, DesignEntry.model_validate(about))
    (folder / PROGRAM).write_text(program_file(row, kept), encoding="utf-8")
    (folder / ENDED).write_text(json.dumps(ended.to_json()), encoding="utf-8")
    candidates = [
        {"number": item.number, "digest": item.digest, "train": {"t1": 0.5}, "dev": dict(zip(TASKS, scores, strict=False))}
        | {"program": {name: {"instructions": p.instructions, "demos": [*p.demos]} for name, p in item.program.items()}}
        for number, scores in enumerate(SCORES)
        for item in [candidate_of(design, number)]
    ]
    (folder / CANDIDATES).write_text(json.dumps(candidates), encoding="utf-8")


@pytest.fixture(scope="module")
def tracked(made: Made) -> tracking.Tracked:
    """The whole optimization, told once without a break."""
    with tracker_of(made, "whole") as tracker:
        tell(tracker, EVENTS)
        found = tracker.finish(made.result)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def light(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The same without the comparison of the test, which takes longer to log than all else."""
    folder = tmp_path_factory.mktemp("light") / made.folder.name
    shutil.copytree(made.folder, folder, ignore=shutil.ignore_patterns(TEST))
    return replace(made, folder=folder)


@pytest.fixture(scope="module")
def plain(light: Made) -> list[Any]:
    """What stands in MLflow of it when it is told once without a break."""
    with tracker_of(light, "plain") as tracker:
        tell(tracker, EVENTS)
        assert tracker.finish(light.result) is not None
    return everything(client_of(light), "plain")


def tracker_of(made: Made, experiment: str, tell: Callable[[str], None] = pytest.fail) -> OptimizationTracker:
    return OptimizationTracker(made.folder, OptimizationManifest.model_validate(made.manifest), made.uri, experiment, tell)


def client_of(made: Made) -> MlflowClient:
    return MlflowClient(tracking_uri=made.uri, registry_uri=made.uri)


def below(client: MlflowClient, run_id: str) -> list[Run]:
    experiment = client.get_run(run_id).info.experiment_id
    found: list[Run] = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{run_id}'")
    return sorted(found, key=lambda run: str(run.info.run_name))


def designs(client: MlflowClient, tracked: tracking.Tracked) -> dict[str, Run]:
    found = [run for run in below(client, tracked.parent_run_id) if run.data.tags["loopbench.kind"] == "design"]
    assert len({run.data.tags["loopbench.design"] for run in found}) == len(found)
    return {run.data.tags["loopbench.design"]: run for run in found}


def artifact(client: MlflowClient, run: Run, name: str, folder: Path) -> Any:
    return json.loads(Path(client.download_artifacts(run.info.run_id, name, str(folder))).read_text(encoding="utf-8"))


def files(client: MlflowClient, run_id: str) -> set[str]:
    return {file.path for file in client.list_artifacts(run_id)}


def versions(client: MlflowClient, name: str, experiment_id: str) -> list[PromptVersion]:
    """The newest first."""
    assert f",{experiment_id}," in client.get_prompt(name).tags["_mlflow_experiment_ids"]
    found: list[PromptVersion] = list(client.search_prompt_versions(name))
    return [client.get_prompt_version(name, version.version) for version in found]


# --- prompts ---


@given(st.text(st.sampled_from("{}%#-\"'\\\r\nax_ +")) | st.text())
def test_a_registered_text_is_no_template_and_formats_to_itself(text: str) -> None:
    version = PromptVersion("name", 1, as_template(text))
    assert version.variables == set()
    assert version.format() == text


@given(st.text(max_size=100), st.text(max_size=100))
def test_every_design_and_predictor_has_a_prompt_name_of_its_own(one: str, other: str) -> None:
    names = {prompt_name(design, predictor) for design in (one, other) for predictor in (one, other)}
    assert len(names) == (1 if one == other else 4)
    for name in names:
        assert all(char.isascii() and (char.isalnum() or char in "_.-") for char in name)


def test_a_prompt_s_text_shows_instructions_and_demonstrations() -> None:
    text = prompt_text(Prompt("Do.", {"query": str}, {"reply": str}, ({"query": "1?", "reply": {"a": [1]}},)))
    assert text == 'Do.\n\n--- example 1 ---\nquery: 1?\nreply: {"a": [1]}'
    assert prompt_name("react_extract", "react") == "loopbench.react_extract.react"


# --- what the board says ---

STEPS = st.lists(st.tuples(st.integers(0, 8), st.sampled_from(TASKS), st.sampled_from([0.0, 0.5, 1.0])), max_size=40)
PROGRAM_OF_ONE = {"p": Prompt("", {}, {"reply": str})}
ONE_DESIGN = OptimizationManifest(
    config={"compare": {"repeats": 1}, "search": {"budget": {}, "amortize": 1}},
    seed=0,
    versions={},
    suite=SearchedSuite(name="s", version="1", digest="d"),
    profiles={},
    optimizer=OptimizerEntry(spec="GEPA", name="GEPA", options={}),
    designs=(DesignEntry(design="x", folder="x", loop="x", options={}, program=""),),
    splits={"dev": SplitEntry(tasks=len(TASKS), digest="b")},
    packages={},
    python="3.11",
    platform="Linux",
)


@given(STEPS)
@settings(max_examples=200)
def test_the_best_is_the_first_of_the_highest_scored_on_all_dev_tasks(steps: list[tuple[int, str, float]]) -> None:
    made = SearchBoard(Path(), ONE_DESIGN)
    dev: dict[int, dict[str, float]] = {}
    order: list[int] = []
    ever: set[int] = set()
    for calls, (number, task, score) in enumerate(steps, 1):
        if number not in dev:
            order.append(number)
        dev.setdefault(number, {})[task] = score
        made.rolled_out(
            "x", Candidate(number, str(number), PROGRAM_OF_ONE, {}, dict(dev[number])), trial(task, score), SearchCost(1, calls)
        )
        found = made.designs["x"]
        means = {number: sum(scores.values()) / 3 for number, scores in dev.items() if len(scores) == 3}
        expected = min(means, key=lambda number: (-means[number], number), default=None)
        assert found.best == expected
        if expected is not None:
            ever.add(expected)
            assert found.bests[max(found.bests)] == means[expected]
    assert list(made.designs["x"].rows) == order


# --- what stands in MLflow ---


def test_the_parent_holds_the_setting_and_the_verdict(made: Made, tracked: tracking.Tracked, tmp_path: Path) -> None:
    client = client_of(made)
    parent = client.get_run(tracked.parent_run_id)
    assert (parent.info.run_name, parent.info.status) == (made.folder.name, "FINISHED")
    wanted = {
        "suite": "arithmetic",
        "optimizer": "GEPA",
        "budget": "22 calls",
        "model": "scripted",
        "profile": "clean",
        "seed": "7",
        "splits.dev": "3",
    }
    assert wanted.items() <= parent.data.params.items()
    tags = parent.data.tags
    for item in made.result["designs"]:
        assert f"- `{item['design']}`: " in tags["mlflow.note.content"]
        assert f"**{item['test']['verdict']}**" in tags["mlflow.note.content"]
        kept = end_of(item["design"])[1]
        assert tags[tracking.metric_key(f"best.{item['design']}")] == f"candidate {CHOSEN}, {kept.digest}"
        gain = item["test"]["difference"]
        for end, key in (("", "value"), ("_low", "low"), ("_high", "high")):
            assert parent.data.metrics[tracking.metric_key(f"gain.{item['design']}{end}")] == gain[key]
    table = artifact(client, parent, "ranking.json", tmp_path)
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert {(row["design"], row["place_before"], row["before"]) for row in rows} == {
        (item["design"], item["place"], item["accuracy"]["value"]) for item in made.result["ranking"]["before"]
    }
    assert [row["design"] for row in rows] == [item["design"] for item in made.result["ranking"]["after"]]
    assert json.loads(tags["mlflow.loggedArtifacts"]) == [{"path": "ranking.json", "type": "table"}]
    assert artifact(client, parent, "optimization.json", tmp_path) == made.result
    assert artifact(client, parent, MANIFEST, tmp_path) == made.manifest


def test_each_design_is_a_run_with_its_numbers(made: Made, tracked: tracking.Tracked, tmp_path: Path) -> None:
    client = client_of(made)
    found = designs(client, tracked)
    assert found.keys() == set(DESIGNS)
    for item in made.result["designs"]:
        run, metrics = found[item["design"]], found[item["design"]].data.metrics
        assert run.info.status == "FINISHED"
        assert (run.data.tags["loopbench.status"], run.data.tags["loopbench.reason"]) == ("budget", "22 calls")
        assert run.data.tags["loopbench.candidates"] == "4 of 4 have a run of their own"
        assert metrics["candidates"] == len(SCORES)
        assert (metrics["rollouts"], metrics["calls"], metrics["tokens"]) == (11, 22, 110)
        assert metrics["cost_usd"] == pytest.approx(0.011)
        assert (metrics["proposals.calls"], metrics["evaluation.calls"]) == (4, 0)
        assert (metrics["dev_before"], metrics["dev_after"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
        best = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "best_dev")]
        assert best == [(6, pytest.approx(1 / 3)), (18, pytest.approx(2 / 3))]
        for key, known in (("test_before", "before"), ("test_after", "after"), ("gain", "difference")):
            interval = item["test"][known]
            assert [metrics[f"{key}{end}"] for end in ("", "_low", "_high")] == [interval[end] for end in ("value", "low", "high")]
        assert metrics["gain_p_holm"] == item["test"]["p_holm"]
        assert files(client, run.info.run_id) == {PROGRAM, CANDIDATES}
        path = client.download_artifacts(run.info.run_id, PROGRAM, str(tmp_path))
        loop = make_loop(parse_spec(item["design"]))
        assert program_digest(read_program(path).on(loop)) == item["digest"]  # type: ignore[arg-type]
    assert found["bare(max_steps=3)"].data.params["option.max_steps"] == "3"


def test_each_candidate_is_a_run_below_its_design(made: Made, tracked: tracking.Tracked, tmp_path: Path) -> None:
    client = client_of(made)
    for design, run in designs(client, tracked).items():
        children = below(client, run.info.run_id)
        assert [child.info.run_name for child in children] == [f"candidate {number}" for number in range(len(SCORES))]
        for number, child in enumerate(children):
            known = candidate_of(design, number)
            scores, metrics = SCORES[number], child.data.metrics
            assert child.info.status == "FINISHED"
            assert child.data.params["digest"] == child.data.tags["loopbench.digest"] == known.digest
            assert (child.data.params["number"], child.data.params["design"]) == (str(number), design)
            assert child.data.tags["loopbench.best"] == ("true" if number == CHOSEN else "false")
            assert (metrics["dev"], metrics["train"]) == (sum(scores) / len(scores), 0.5)
            assert (metrics["rollouts"], metrics["calls"], metrics["tokens"]) == (len(scores), 2 * len(scores), 10 * len(scores))
            assert {point.step for point in client.get_metric_history(child.info.run_id, "dev")} <= {1, 2, 3}
            path = client.download_artifacts(child.info.run_id, "program.json", str(tmp_path))
            assert program_digest(read_program(path).on(make_loop(parse_spec(design)))) == known.digest  # type: ignore[arg-type]


def test_prompts_are_versions_the_kept_one_the_latest(made: Made, tracked: tracking.Tracked) -> None:
    client = client_of(made)
    for design, run in designs(client, tracked).items():
        linked = json.loads(run.data.tags["mlflow.linkedPrompts"])
        for predictor, own in own_program(design).items():
            name = prompt_name(design, predictor)
            kept = changed(own_program(design), CHOSEN)[predictor]
            newest, first = versions(client, name, tracked.experiment_id)
            assert (newest.format(), first.format()) == (prompt_text(kept), prompt_text(own))
            assert BRACES in newest.format()
            assert newest.variables == set()
            assert newest.tags["loopbench.digest"] == end_of(design)[1].digest
            assert newest.tags["loopbench.run"] == made.folder.name
            assert (first.tags["loopbench.role"], newest.tags["loopbench.role"]) == ("own", "optimized")
            assert {"name": name, "version": str(newest.version)} in linked


def models_of(client: MlflowClient, run: Run) -> dict[str, Any]:
    found = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run.info.run_id}'")
    return {model.tags.get("loopbench.role", model.name): model for model in found}


def test_each_version_of_a_loop_is_a_model_with_its_scores(made: Made, tracked: tracking.Tracked) -> None:
    client = client_of(made)
    results = {item["design"]: item for item in made.result["designs"]}
    for design, run in designs(client, tracked).items():
        models = models_of(client, run)
        assert models.keys() == {"own", "optimized"}
        assert {output.model_id for output in run.outputs.model_outputs} == {model.model_id for model in models.values()}
        for role, key, test in (("own", "dev_before", "test_before"), ("optimized", "dev_after", "test_after")):
            model = models[role]
            assert model.status == "READY"
            assert model.params["design"] == design
            metrics = {metric.key: metric.value for metric in model.metrics}
            assert metrics[key] == run.data.metrics[key]
            assert metrics[test] == results[design]["test"][test.removeprefix("test_")]["value"]
            stored = {file.path for file in client.list_logged_model_artifacts(model.model_id)}
            assert stored == {"program.json", "MLmodel"}


def all_models(client: MlflowClient, experiment: str) -> dict[str, Any]:
    """By version, each there once."""
    found = client.search_logged_models([client.get_experiment_by_name(experiment).experiment_id])
    assert len({model.tags["loopbench.version"] for model in found}) == len(found)
    return {model.tags["loopbench.version"]: model for model in found}


def test_the_test_tries_the_models_that_the_optimization_made(made: Made, tracked: tracking.Tracked) -> None:
    client = client_of(made)
    models = all_models(client, "whole")
    assert len(models) == 2 * len(DESIGNS)
    (test,) = [run for run in below(client, tracked.parent_run_id) if run.data.tags["loopbench.kind"] == "run"]
    tried = set()
    for arm in below(client, test.info.run_id):
        (given,) = client.get_run(arm.info.run_id).inputs.model_inputs
        tried.add(given.model_id)
        (model,) = [model for model in models.values() if model.model_id == given.model_id]
        assert model.tags["loopbench.role"] == ("optimized" if "program" in arm.data.params else "own")
        accuracy = [metric.value for metric in model.metrics if metric.key == "accuracy"]
        assert accuracy == [arm.data.metrics["accuracy"]]
    assert tried == {model.model_id for model in models.values()}


def test_a_model_that_a_comparison_has_made_is_found_again(made: Made) -> None:
    client = client_of(made)
    tracking.log_run(read_results(made.folder / TEST), made.uri, "compared first")
    before = all_models(client, "compared first")
    with tracker_of(made, "compared first") as tracker:
        tell(tracker, EVENTS)
        found = tracker.finish(made.result)
    assert found is not None
    after = all_models(client, "compared first")
    assert {version: model.model_id for version, model in after.items()} == {
        version: model.model_id for version, model in before.items()
    }
    results = {item["design"]: item["test"] for item in made.result["designs"]}
    for design, run in designs(client, found).items():
        used = {output.model_id for output in run.outputs.model_outputs}
        assert len(used) == 2
        assert used <= {model.model_id for model in after.values()}
        told = {m.key: m.value for model in after.values() for m in model.metrics if m.run_id == run.info.run_id}
        assert told["test_before"] == results[design]["before"]["value"]
        assert told["test_after"] == results[design]["after"]["value"]
        assert all(model.tags.get("mlflow.linkedPrompts") for model in after.values() if model.model_id in used)


def test_the_comparison_of_the_test_stands_below_the_optimization(made: Made, tracked: tracking.Tracked) -> None:
    client = client_of(made)
    (test,) = [run for run in below(client, tracked.parent_run_id) if run.data.tags["loopbench.kind"] == "run"]
    assert test.info.run_name == f"{made.folder.name}/{TEST}"
    arms = below(client, test.info.run_id)
    assert {run.data.tags["loopbench.kind"] for run in arms} == {"arm"}
    assert len(arms) == 2 * len(DESIGNS)
    programs = [run.data.params["program"] for run in arms if "program" in run.data.params]
    assert sorted(programs) == sorted(
        item["program"] for item in read_manifest_json(made.folder / TEST)["arms"] if "program" in item
    )
    assert len(programs) == len(DESIGNS)


def test_the_note_says_whether_another_loop_is_the_highest(made: Made) -> None:
    ranking = made.result["ranking"] | {"highest_before": "a", "highest_after": "b", "change": "crossed"}
    assert note(made.result | {"ranking": ranking}).endswith("\n`a` is the highest before, `b` after (crossed).")
    stayed = ranking | {"highest_after": "a", "change": "same"}
    assert note(made.result | {"ranking": stayed, "invalid": True}).endswith("\n`a` is the highest before and after.")
    untested = [item | {"test": None} for item in made.result["designs"]]
    said = note(made.result | {"designs": untested, "ranking": None, "state": "incomplete", "invalid": True})
    assert said.splitlines() == [
        "Optimized with `GEPA`. incomplete.",
        "",
        "**Invalid: no verdict of this run holds.**",
        *(f"- `{design}`: budget, not tested" for design in DESIGNS),
    ]


# --- more candidates than anybody looks at ---


def test_candidates_beyond_the_first_get_a_run_only_when_they_become_best(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "MAX_CHILDREN", 2)
    design = DESIGNS[1]
    events = [event for event in search(design) if event[0] != "ended"]
    with tracker_of(made, "many") as tracker:
        tell(tracker, events)
        tell(tracker, [("tried", (design, candidate_of(design, number))) for number in range(4, 50)])
        tell(tracker, search(design)[-1:])
        tracker.flush()
    client = client_of(made)
    (run,) = client.search_runs([client.get_experiment_by_name("many").experiment_id], "tags.`loopbench.kind` = 'design'")
    assert [child.data.params["number"] for child in below(client, run.info.run_id)] == ["0", "1", str(CHOSEN)]
    said = run.data.tags["loopbench.candidates"]
    assert said == "3 of 50 have a run of their own: the first 2, and those that became best"


# --- killed and resumed ---


def everything(client: MlflowClient, experiment: str) -> list[Any]:
    """All runs of an experiment, by where they stand, without ids and times."""
    runs = {run.info.run_id: run for run in client.search_runs([client.get_experiment_by_name(experiment).experiment_id])}

    def place(run: Run) -> str:
        above = run.data.tags.get("mlflow.parentRunId")
        return f"{place(runs[above])} > {run.info.run_name}" if above else str(run.info.run_name)

    untold = {"mlflow.parentRunId", "mlflow.user"}
    return sorted(
        (
            place(run),
            run.info.status,
            dict(run.data.params),
            dict(run.data.metrics),
            {key: value for key, value in run.data.tags.items() if key not in untold},
            sorted((p.step, p.value) for p in client.get_metric_history(run.info.run_id, "best_dev")),
            sorted(files(client, run.info.run_id)),
            sorted((model.name, model.status, dict(model.params)) for model in models_of(client, run).values()),
        )
        for run in runs.values()
    )


def points(client: MlflowClient, experiment: str) -> int:
    """How often a metric was written, over all runs."""
    runs = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return sum(len(client.get_metric_history(run.info.run_id, key)) for run in runs for key in run.data.metrics)


@pytest.mark.thorough
@pytest.mark.parametrize("until", [1, 7, len(EVENTS) // 2, len(EVENTS)])
def test_a_run_that_was_left_goes_on_in_the_same_runs(light: Made, plain: list[Any], until: int) -> None:
    name = f"left {until}"
    with tracker_of(light, name) as tracker:
        tell(tracker, EVENTS[:until])
    client = client_of(light)
    statuses = {row[0]: row[1] for row in everything(client, name)}
    assert statuses[light.folder.name] == "KILLED"
    assert "RUNNING" not in statuses.values()
    before = ids(client, name)
    done = {event[1][0] for event in EVENTS[:until] if event[0] == "ended"}
    with tracker_of(light, name) as tracker:
        tracker.flush()
        # A design that had ended tells its end alone.
        tell(tracker, [event for event in EVENTS if event[0] == "ended" or event[1][0] not in done])
        assert tracker.finish(light.result) is not None
    assert everything(client, name) == plain
    assert before <= ids(client, name)
    for design in DESIGNS:
        for predictor in own_program(design):
            assert len(client.search_prompt_versions(prompt_name(design, predictor))) == 2


def ids(client: MlflowClient, experiment: str) -> set[str]:
    return {run.info.run_id for run in client.search_runs([client.get_experiment_by_name(experiment).experiment_id])}


KILLED = """
import importlib.util, json, os, pathlib, signal, sys
spec = importlib.util.spec_from_file_location("told", sys.argv[1])
told = importlib.util.module_from_spec(spec)
sys.modules["told"] = told
spec.loader.exec_module(told)
folder = pathlib.Path(sys.argv[2])
manifest = told.read_optimization_manifest(folder)
tracker = told.OptimizationTracker(folder, manifest, sys.argv[3], "killed").__enter__()
told.tell(tracker, told.EVENTS[:7])
tracker.flush()
told.tell(tracker, told.EVENTS[7:])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.thorough
def test_a_run_whose_process_is_killed_goes_on_in_the_same_runs(light: Made, plain: list[Any]) -> None:
    command = [sys.executable, "-c", KILLED, __file__, str(light.folder), light.uri]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    client = client_of(light)
    before = ids(client, "killed")
    assert {row[1] for row in everything(client, "killed")} == {"RUNNING"}
    with tracker_of(light, "killed") as tracker:
        tell(tracker, EVENTS)
        assert tracker.finish(light.result) is not None
    assert everything(client, "killed") == plain
    assert len(before) >= 3
    assert before <= ids(client, "killed")


@pytest.mark.thorough
def test_a_finished_run_that_is_told_again_stays_as_it_is(made: Made) -> None:
    def sitting(events: Sequence[Event]) -> None:
        with tracker_of(made, "again") as tracker:
            tell(tracker, events)
            assert tracker.finish(made.result) is not None

    client = client_of(made)
    sitting(EVENTS)
    first, written = everything(client, "again"), points(client, "again")
    sitting([event for event in EVENTS if event[0] == "ended"])
    assert everything(client, "again") == first
    assert points(client, "again") == written


@pytest.mark.thorough
def test_a_design_that_ended_untracked_is_shown_from_its_files(light: Made, plain: list[Any]) -> None:
    with tracker_of(light, "late") as tracker:
        tell(tracker, [event for event in EVENTS if event[0] == "ended"])
        assert tracker.finish(light.result) is not None
    late, whole = ({row[0]: row for row in rows} for rows in (everything(client_of(light), "late"), plain))
    assert late.keys() == whole.keys()
    child = f"{light.folder.name} > {DESIGNS[0]} > candidate {CHOSEN}"
    assert late[child][3] == {key: whole[child][3][key] for key in ("dev", "train")}


# --- when it fails, and who waits ---


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
@pytest.mark.parametrize("half", [1, 5, len(EVENTS) // 2, len(EVENTS) - 1])
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
        found = tracker.finish(own_store.result)
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
        assert tracker.finish(own_store.result) is None
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
        assert tracker.finish(made.result) is None
    assert len(told) == 1
    assert "secret1" not in told[0]


def test_no_rollout_waits_for_a_store_that_does_not_answer(made: Made, tracked: tracking.Tracked) -> None:
    design = DESIGNS[1]
    with Path(f"{made.uri.removeprefix('sqlite:///')}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as another process would that sets the store up
        with tracker_of(made, "slow") as tracker:
            tell(tracker, search(design))
            repeated = search(design)[1]
            for _ in range(5000):
                tell(tracker, [repeated])  # all of it is told while nothing can be written
            assert client_of(made).get_experiment_by_name("slow") is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            tracker.flush()
    client = client_of(made)
    (run,) = client.search_runs([client.get_experiment_by_name("slow").experiment_id], "tags.loopbench.candidate = '0'")
    assert run.data.metrics["rollouts"] == 5003
    assert len(client.get_metric_history(run.info.run_id, "rollouts")) <= 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_teller_that_fails_hangs_nothing(made: Made) -> None:
    def teller(line: str) -> None:
        raise SystemExit(line)  # ends the thread that writes, and no more

    with tracker_of(replace(made, uri="foo://x"), "dead", teller) as tracker:
        tell(tracker, EVENTS)
        assert tracker.finish(made.result) is None


# --- what models write is data ---


def test_secrets_and_odd_characters_do_no_harm(made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    design = DESIGNS[1]
    folder = tmp_path / "odd"
    folder.mkdir()
    write_manifest_json(folder, made.manifest)
    uri = f"sqlite:///{tmp_path / 'odd.db'}"
    shutil.copy(made.uri.removeprefix("sqlite:///"), tmp_path / "odd.db")
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
    (run,) = client.search_runs([client.get_experiment_by_name("odd").experiment_id], "tags.`loopbench.kind` = 'design'")
    assert run.info.status == "FAILED"
    newest = client.get_prompt_version(prompt_name(design, name), json.loads(run.data.tags["mlflow.linkedPrompts"])[-1]["version"])
    assert newest.format().startswith("[redacted] \ufffd ? é {{query}} ' \" -- {% endraw %}")
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_prompt_too_long_for_the_registry_is_left_out_and_named(made: Made) -> None:
    design = DESIGNS[1]
    (name,) = own_program(design)
    program = {name: replace(own_program(design)[name], instructions="x" * 100_001)}
    kept = Candidate(1, program_digest(program), program)
    ended = replace(end_of(design)[0], chosen=1, digest=kept.digest)
    with tracker_of(made, "long") as tracker:
        tell(tracker, [("began", (design, candidate_of(design, 0))), ("ended", (design, ended, kept))])
        tracker.flush()
    client = client_of(made)
    (run,) = client.search_runs([client.get_experiment_by_name("long").experiment_id], "tags.`loopbench.kind` = 'design'")
    assert run.data.tags["loopbench.not_registered"] == f"too long for MLflow's prompt registry: {name}"
    assert models_of(client, run).keys() == {"own", "optimized"}


# --- over HTTP ---


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of an MLflow server with a store of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = tracking.ui_command(f"sqlite:///{tmp_path / 'served.db'}").replace("--port 5000", f"--port {port}")
    address = f"http://127.0.0.1:{port}"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            shlex.split(command), cwd=tmp_path, start_new_session=True, env=dict(os.environ), stdout=log, stderr=log
        )
    try:
        give_up = time.monotonic() + 90
        while not answers(f"{address}/health"):
            assert time.monotonic() < give_up, "the server did not come up"
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=20):
            return True
    except OSError:
        return False


@pytest.mark.thorough
def test_a_server_takes_the_same(light: Made, plain: list[Any], server: str, capfd: pytest.CaptureFixture[str]) -> None:
    with tracker_of(replace(light, uri=server), "served") as tracker:
        tell(tracker, EVENTS)
        found = tracker.finish(light.result)
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
