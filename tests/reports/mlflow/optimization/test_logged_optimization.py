"""What a logged optimization holds: its runs, programs, prompts and models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tests.reports.mlflow.optimization.helpers import (
    BRACES,
    CHOSEN,
    DESIGNS,
    EVENTS,
    PAGE,
    SCORES,
    TASKS,
    TITLE,
    Made,
    artifact,
    below,
    candidate_of,
    changed,
    client_of,
    designs,
    end_of,
    files,
    models_of,
    own_program,
    search,
    tell,
    tracker_of,
    versions,
)
from whichloop.experiments.compare.results import results as read_results
from whichloop.experiments.optimize.manifest import CANDIDATES, PROGRAM, read_optimization_manifest
from whichloop.protocol import program_digest, read_program
from whichloop.protocol.names import parse_spec
from whichloop.reports import mlflow as tracking
from whichloop.reports.mlflow import board
from whichloop.reports.mlflow.artifacts import note, prompt_name, prompt_text
from whichloop.runs.folders import TEST
from whichloop.runs.registry import make_loop
from whichloop.runs.store.files import MANIFEST, read_manifest_json
from whichloop.text.doc import markdown_cell

IN_ONE_FORK = "the optimization that is logged once"

# MLflow's own, at its first store
pytestmark = pytest.mark.thorough


def test_the_parent_holds_the_setting_and_the_verdict(made: Made, tracked: tracking.Tracked, tmp_path: Path) -> None:
    client = client_of(made)
    parent = client.get_run(tracked.parent_run_id)
    assert (parent.info.run_name, parent.info.status) == (TITLE, "FINISHED")
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
    page = client.download_artifacts(parent.info.run_id, "report.html", str(tmp_path))
    assert Path(page).read_text(encoding="utf-8") == PAGE
    assert artifact(client, parent, MANIFEST, tmp_path) == json.loads((made.folder / MANIFEST).read_text("utf-8"))


def test_each_design_is_a_run_with_its_numbers(made: Made, tracked: tracking.Tracked, tmp_path: Path) -> None:
    client = client_of(made)
    found = designs(client, tracked)
    assert found.keys() == set(DESIGNS)
    for item in made.result["designs"]:
        run, metrics = found[item["design"]], found[item["design"]].data.metrics
        assert run.info.status == "FINISHED"
        assert (run.data.tags["whichloop.status"], run.data.tags["whichloop.reason"]) == ("budget", "22 calls")
        assert run.data.tags["whichloop.candidates"] == "4 of 4 have a run of their own"
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
            assert child.data.params["digest"] == child.data.tags["whichloop.digest"] == known.digest
            assert (child.data.params["number"], child.data.params["design"]) == (str(number), design)
            assert child.data.tags["whichloop.best"] == ("true" if number == CHOSEN else "false")
            is_whole = len(scores) == len(TASKS)
            assert metrics.get("dev") == (sum(scores) / len(scores) if is_whole else None)  # sorting by it is right
            assert (metrics["dev_so_far"], metrics["dev_tasks"]) == (sum(scores) / len(scores), len(scores))
            assert ("train" in metrics, metrics["train_so_far"], metrics["train_tasks"]) == (False, 0.5, 1)
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
            assert newest.tags["whichloop.digest"] == end_of(design)[1].digest
            assert newest.tags["whichloop.run"] == made.folder.name
            assert (first.tags["whichloop.role"], newest.tags["whichloop.role"]) == ("own", "optimized")
            assert {"name": name, "version": str(newest.version)} in linked


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
    assert len({model.tags["whichloop.version"] for model in found}) == len(found)
    return {model.tags["whichloop.version"]: model for model in found}


def test_the_test_tries_the_models_that_the_optimization_made(made: Made, tracked: tracking.Tracked) -> None:
    client = client_of(made)
    models = all_models(client, "whole")
    assert len(models) == 2 * len(DESIGNS)
    (test,) = [run for run in below(client, tracked.parent_run_id) if run.data.tags["whichloop.kind"] == "run"]
    tried = set()
    for arm in below(client, test.info.run_id):
        (given,) = client.get_run(arm.info.run_id).inputs.model_inputs
        tried.add(given.model_id)
        (model,) = [model for model in models.values() if model.model_id == given.model_id]
        assert model.tags["whichloop.role"] == ("optimized" if "program" in arm.data.params else "own")
        accuracy = [metric.value for metric in model.metrics if metric.key == "accuracy"]
        assert accuracy == [arm.data.metrics["accuracy"]]
    assert tried == {model.model_id for model in models.values()}


def test_a_model_that_a_comparison_has_made_is_found_again(made: Made) -> None:
    client = client_of(made)
    tracking.log_run(read_results(made.folder / TEST), made.uri, "compared first")
    before = all_models(client, "compared first")
    with tracker_of(made, "compared first") as tracker:
        tell(tracker, [event for event in EVENTS if event[0] == "ended"])
        found = tracker.finish(made.result, PAGE)
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
    (test,) = [run for run in below(client, tracked.parent_run_id) if run.data.tags["whichloop.kind"] == "run"]
    assert test.data.tags["whichloop.run"] == f"{made.folder.name}/{TEST}"
    assert test.info.run_name.startswith("Test: react_extract vs ")
    arms = below(client, test.info.run_id)
    assert {run.data.tags["whichloop.kind"] for run in arms} == {"arm"}
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
    assert all(f"\n- {markdown_cell(item['advice'])}\n" in note(made.result) for item in made.result["designs"])
    untested = [item | {"test": None, "advice": ""} for item in made.result["designs"]]
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
    (run,) = client.search_runs([client.get_experiment_by_name("many").experiment_id], "tags.`whichloop.kind` = 'design'")
    assert [child.data.params["number"] for child in below(client, run.info.run_id)] == ["0", "1", str(CHOSEN)]
    said = run.data.tags["whichloop.candidates"]
    assert said == "3 of 50 have a run of their own: the first 2, and those that became best"


def test_a_step_within_an_optimizer_gets_a_run_only_once_it_counts_as_tried(made: Made) -> None:
    design = DESIGNS[0]
    row = board.SearchBoard(made.folder, read_optimization_manifest(made.folder)).designs[design]
    row.put(candidate_of(design, 0))
    step = replace(candidate_of(design, 1), counts=False)
    row.put(step).rollouts += 1
    assert (row.tried, row.rows[1].shown, row.shown_in_words) == (1, False, "1 of 1 have a run of their own")
    row.put(step)
    assert not row.rows[1].shown
    row.put(replace(step, counts=True)).rollouts += 1
    assert (row.tried, row.rows[1].shown, row.shown_in_words) == (2, True, "2 of 2 have a run of their own")
    assert row.rows[1].metrics["rollouts"] == 2
