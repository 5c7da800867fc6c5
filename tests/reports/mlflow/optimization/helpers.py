"""An optimization's events and run directory, trackers that are told of it, and what a store holds of it."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.entities.model_registry import PromptVersion

from tests.sealing import reseal
from whichloop.experiments.optimize.candidates import Candidate, SearchCost, SearchEnd
from whichloop.experiments.optimize.manifest import (
    CANDIDATES,
    ENDED,
    PROGRAM,
    DesignEntry,
    OptimizationManifest,
)
from whichloop.experiments.optimize.tried import SearchTasks
from whichloop.metrics.record import Record
from whichloop.protocol import Program, program_digest
from whichloop.protocol.names import parse_spec
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow import OptimizationTracker, board
from whichloop.reports.mlflow.artifacts import program_file
from whichloop.runs.registry import make_loop

DESIGNS = ("react_extract", "bare(max_steps=3)")
TASKS = ("d1", "d2", "d3")
"""Of the dev split."""
BRACES = 'Say {{query}} as {"a": {"b": {% raw %}}}.\r\n'
TITLE = "react_extract, bare(max_steps=3), optimized with GEPA · arithmetic · clean"
"""Of the run in MLflow."""
PAGE = "<!doctype html><p>The page.</p>"
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


def candidate_of(
    design: str, number: int, *, train: dict[str, float] | None = None, dev: dict[str, float] | None = None
) -> Candidate:
    program = changed(own_program(design), number)
    return Candidate(number, program_digest(program), program, train or {}, dev or {})


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


def write_design(folder: Path, design: str, about: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    ended, kept = end_of(design)
    row = board.DesignRow(design, DesignEntry.model_validate(about), SearchTasks(5, len(TASKS)))
    (folder / PROGRAM).write_text(program_file(row, kept), encoding="utf-8")
    (folder / ENDED).write_text(json.dumps(ended.to_json()), encoding="utf-8")
    reseal(folder / ENDED)
    candidates = [
        {"number": item.number, "digest": item.digest, "train": {"t1": 0.5}, "dev": dict(zip(TASKS, scores, strict=False))}
        | {"program": {name: {"instructions": p.instructions, "demos": [*p.demos]} for name, p in item.program.items()}}
        for number, scores in enumerate(SCORES)
        for item in [candidate_of(design, number)]
    ]
    (folder / CANDIDATES).write_text(json.dumps({"candidates": candidates}), encoding="utf-8")
    reseal(folder / CANDIDATES)


def tracker_of(made: Made, experiment: str, tell: Callable[[str], None] = pytest.fail) -> OptimizationTracker:
    return OptimizationTracker(made.folder, OptimizationManifest.model_validate(made.manifest), made.uri, experiment, tell)


def client_of(made: Made) -> MlflowClient:
    return MlflowClient(tracking_uri=made.uri, registry_uri=made.uri)


def below(client: MlflowClient, run_id: str) -> list[Run]:
    experiment = client.get_run(run_id).info.experiment_id
    found: list[Run] = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{run_id}'")
    return sorted(found, key=lambda run: str(run.info.run_name))


def designs(client: MlflowClient, tracked: tracking.Tracked) -> dict[str, Run]:
    found = [run for run in below(client, tracked.parent_run_id) if run.data.tags["whichloop.kind"] == "design"]
    assert len({run.data.tags["whichloop.design"] for run in found}) == len(found)
    return {run.data.tags["whichloop.design"]: run for run in found}


def artifact(client: MlflowClient, run: Run, name: str, folder: Path) -> Any:
    return json.loads(Path(client.download_artifacts(run.info.run_id, name, str(folder))).read_text(encoding="utf-8"))


def files(client: MlflowClient, run_id: str) -> set[str]:
    return {file.path for file in client.list_artifacts(run_id)}


def versions(client: MlflowClient, name: str, experiment_id: str) -> list[PromptVersion]:
    """The newest first."""
    assert f",{experiment_id}," in client.get_prompt(name).tags["_mlflow_experiment_ids"]
    found: list[PromptVersion] = list(client.search_prompt_versions(name))
    return [client.get_prompt_version(name, version.version) for version in found]


def models_of(client: MlflowClient, run: Run) -> dict[str, Any]:
    found = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run.info.run_id}'")
    return {model.tags.get("whichloop.role", model.name): model for model in found}


def experiment_of(client: MlflowClient, name: str) -> str:
    found: str = client.get_experiment_by_name(name).experiment_id
    return found


def runs_by_place(client: MlflowClient, experiment: str) -> dict[str, Run]:
    """All runs of an experiment, by where they stand."""
    runs = {run.info.run_id: run for run in client.search_runs([experiment_of(client, experiment)])}

    def place(run: Run) -> str:
        above = run.data.tags.get("mlflow.parentRunId")
        return f"{place(runs[above])} > {run.info.run_name}" if above else str(run.info.run_name)

    placed = {place(run): run for run in runs.values()}
    assert len(placed) == len(runs)
    return placed


def statuses(client: MlflowClient, experiment: str) -> dict[str, str]:
    return {place: str(run.info.status) for place, run in runs_by_place(client, experiment).items()}


def everything(client: MlflowClient, experiment: str) -> list[Any]:
    """All runs of an experiment, by where they stand, without ids and times."""
    models: dict[str, list[Any]] = defaultdict(list)
    for model in client.search_logged_models([experiment_of(client, experiment)]):
        models[str(model.source_run_id)].append((model.name, model.status, dict(model.params)))
    untold = {"mlflow.parentRunId", "mlflow.user"}
    return sorted(
        (
            place,
            run.info.status,
            dict(run.data.params),
            dict(run.data.metrics),
            {key: value for key, value in run.data.tags.items() if key not in untold},
            sorted((p.step, p.value) for p in client.get_metric_history(run.info.run_id, "best_dev")),
            sorted(files(client, run.info.run_id)),
            sorted(models[run.info.run_id]),
        )
        for place, run in runs_by_place(client, experiment).items()
    )


def points(made: Made, experiment: str) -> int:
    """How often a metric was written, over all runs. The database is asked: MLflow would be asked for each metric of each run."""
    written = "SELECT COUNT(*) FROM metrics JOIN runs USING (run_uuid) WHERE experiment_id = ?"
    with closing(sqlite3.connect(made.uri.removeprefix("sqlite:///"))) as connection:
        (count,) = connection.execute(written, [int(experiment_of(client_of(made), experiment))]).fetchone()
    return int(count)


def ids(client: MlflowClient, experiment: str) -> set[str]:
    return {run.info.run_id for run in client.search_runs([experiment_of(client, experiment)])}
