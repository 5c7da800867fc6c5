"""Trajectories in ATIF and folders of whole jobs. The files in `files/atif/` were written for these tests, and counted by hand."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets.importing.own_tools import RECORDED
from whichloop.experiments.compare.results import results
from whichloop.experiments.export_runs.export import export_run
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.experiments.import_runs import ImportRequest, ReadingOptions, import_files
from whichloop.experiments.import_runs.formats import atif
from whichloop.experiments.import_runs.values import ScoreScale
from whichloop.experiments.learn_plans.imported_suite import imported_suite
from whichloop.experiments.why.losses import losses_explained

FILES = Path(__file__).with_name("files")
ATIF = FILES / "atif"
WHERE = {"task": "extra.task", "score": "extra.reward"}


@pytest.fixture(scope="module")
def scored(kit):
    return kit.imported(ATIF, columns=WHERE)


@pytest.fixture
def continued(tmp_path):
    """One trial whose trajectory goes on in a second and a third file, each of which begins with a copy of the last step."""
    return Path(shutil.copytree(FILES / "atif-continued", tmp_path / "parts"))


def test_a_trajectory_that_goes_on_in_other_files_is_one_trial(kit, scored, continued):
    (record,) = kit.imported(continued, columns=WHERE).records
    expected = next(one for one in scored.records if (one.arm, one.task) == (record.arm, record.task))
    measured = ("steps", "tool_calls", "input_tokens", "output_tokens", "answer", "stop", "seconds", "accuracy")
    assert [getattr(record, name) for name in measured] == [getattr(expected, name) for name in measured]


def test_a_part_that_is_missing_is_told(kit, continued):
    (continued / "trajectory.cont-2.json").unlink()
    wanted = ImportRequest(reading=ReadingOptions(columns=WHERE))
    made = import_files((continued,), wanted, kit.folder / "runs" / "without-a-part")
    assert made.notes == (f"{continued}: trajectory.json: it goes on in trajectory.cont-2.json, which is not there",)
    assert made.trials == 1


def test_parts_are_bounded_in_number_and_in_size(kit, continued, monkeypatch):
    for bound in ("MAX_PARTS", "MAX_MEMBER_BYTES"):
        monkeypatch.setattr(atif, bound, 1)
        with pytest.raises(ValueError, match=r"trajectory\.json: it goes on in more than"):
            kit.imported(continued, columns=WHERE)
        monkeypatch.undo()


def trajectory(outcomes: list[bool], answer: str = "12") -> dict[str, Any]:
    """Return a trajectory that makes one call again and again. `outcomes`: whether it got through each time."""
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "How many lines does a.csv have?"}]
    for number, got_through in enumerate(outcomes, 2):
        call = {"tool_call_id": f"c{number}", "function_name": "count", "arguments": {"file": "a.csv"}}
        result = {
            "source_call_id": f"c{number}",
            "content": "12" if got_through else "timeout",
            "extra": {"is_error": not got_through},
        }
        step = {"step_id": number, "source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [result]}}
        steps.append(step)
    steps.append({"step_id": len(steps) + 1, "source": "agent", "message": answer})
    head = {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "careful", "version": "1"}}
    return {**head, "steps": steps, "extra": {"task": "count-lines", "reward": 1}}


@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_a_recorded_call_gives_what_it_gave_when_it_got_through(kit, outcomes):
    found = kit.imported(kit.put(trajectory(outcomes)), columns=WHERE)
    suite = imported_suite(found.folder, found.manifest, found.records)
    (call,) = suite.tasks[0].world[RECORDED]
    assert (call["failed"], call["result"]) == ((False, "12") if any(outcomes) else (True, "timeout"))


def test_a_zip_is_read_like_the_folder_whose_links_are_not_followed_and_an_export_has_the_same_tasks(kit, tmp_path, scored):
    folder = tmp_path / "in"
    shutil.copytree(ATIF, folder)
    (folder / "secret.json").symlink_to(ATIF / "hasty" / "more-rows" / "trajectory.json")
    (folder / "away").symlink_to(ATIF / "hasty")
    archive = shutil.make_archive(str(tmp_path / "runs"), "zip", ATIF)
    for path in (folder, Path(archive)):
        assert kit.imported(path, columns=WHERE).digest == scored.digest
    export_run(scored.folder, "atif", tmp_path / "out")
    assert kit.imported(tmp_path / "out").manifest.suite.digest == scored.manifest.suite.digest  # a gate can hold it against it


@pytest.mark.parametrize(("form", "name"), [("atif", "out"), ("otlp", "out.jsonl")])
def test_an_export_has_the_tasks_of_its_import_where_prompts_are_not_the_question(kit, tmp_path, form, name):
    turns = ({"role": "user", "content": "Now: 1+1?"}, {"role": "assistant", "content": "2"})
    row = {"task": "sum", "question": "1+1?", "expected": "2", "answer": "2", "score": 10}
    rows = [{**row, "arm": arm, "messages": turns} for arm in ("plain", "other")]
    rows[1]["messages"] = ({"role": "user", "content": "1+1?"}, turns[1])
    found = kit.imported(kit.put(rows), scale=ScoreScale(0, 10))
    export_run(found.folder, form, tmp_path / name)
    first, back = found.manifest, kit.imported(tmp_path / name).manifest
    assert (back.suite.digest, back.task_digests) == (first.suite.digest, first.task_digests)


def test_two_files_of_one_agent_and_task_are_repeats_and_a_wrong_place_is_named(kit, tmp_path):
    text = (ATIF / "hasty" / "more-rows" / "trajectory.json").read_text()
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text(text)
    assert [record.repeat for record in kit.imported(tmp_path, columns=WHERE).records] == [0, 1]
    (tmp_path / "second.json").write_text(text.replace("small-1", "small-1-dated"))  # as docs/measures.md reads a leaderboard
    named = kit.imported(tmp_path, columns=WHERE, arms=["ours"], models=["one"])
    assert [(each.arm, each.repeat) for each in named.records] == [("ours/one", 0), ("ours/one", 1)]
    for columns, said in (
        ({"score": "agent.nam"}, "--map score: nothing stands at 'agent.nam'; there are agent.name"),
        ({"score": "zzz"}, "--map score: nothing stands at 'zzz'; there are schema_version, "),
        ({"score": "extra.task"}, "the score is not a number: '"),
        ({"steps": "extra.task"}, "--map steps: this format takes arm, model, task, score, cluster, suite"),
        ({"task": "steps.0"}, "--map task is not a name"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            kit.imported(tmp_path, columns=columns)


@pytest.mark.parametrize(("form", "name"), [("atif", "out"), ("otlp", "out.jsonl")])
def test_a_run_of_ours_comes_back_with_equal_records_causes_and_rates(tmp_path, own_run, form, name):
    written_trials, _ = export_run(own_run, form, tmp_path / name)
    back = results(import_files([tmp_path / name], ImportRequest(), tmp_path / "back").folder)
    ours = results(own_run)
    assert written_trials == len(ours.records) == len(back.records)
    strip = {"suite_digest": "", "trace_at": 0}
    there, here = ({record.name: record.to_json() | strip for record in run.records} for run in (back, ours))
    assert there == here
    there, here = ({arm.arm: arm.to_json() for arm in losses_explained(run, pairs=[]).arms} for run in (back, ours))
    assert there == here
    for arm in ours.manifest.arms:
        before, after = (fit_run(folder, arms=[arm.arm]) for folder in (own_run, back.folder))
        assert {kind: rate.as_dict() for kind, rate in after.rates.items()} == {
            kind: rate.as_dict() for kind, rate in before.rates.items()
        }
        assert after.profile.model_dump(exclude={"description"}) == before.profile.model_dump(exclude={"description"})


def test_several_rewards_need_a_name(kit, tmp_path):
    shutil.copytree(FILES / "harbor", tmp_path / "job")
    path = next((tmp_path / "job").glob("more-rows__hasty*/result.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"verifier_result": {"rewards": {"tests": 1, "style": 0.5}}}))
    with pytest.raises(ValueError, match="rewards are tests, style; say which is the accuracy: --scorer tests"):
        kit.imported(tmp_path / "job")
