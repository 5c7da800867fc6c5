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
from whichloop.experiments.import_runs.foreign_file import open_file
from whichloop.experiments.import_runs.foreign_trials import NEITHER, ONLY_OURS
from whichloop.experiments.import_runs.formats import atif
from whichloop.experiments.learn_plans.imported_suite import imported_suite
from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.trace import ModelExchange, ToolRun
from whichloop.runs.store.trials import read_trace

ATIF = Path(__file__).with_name("files") / "atif"


WHERE = {"task": "extra.task", "score": "extra.reward"}


@pytest.fixture(scope="module")
def scored(kit):
    return kit.imported(ATIF, columns=WHERE)


def of(found, arm, task):
    return next(record for record in found.records if record.arm.startswith(arm) and record.task == task)


def test_counts_are_those_of_the_files(scored):
    counted = {
        (record.arm, record.task): (
            *(record.steps, record.lm_calls, record.tool_calls, record.input_tokens, record.output_tokens),
            *(dict(record.errors), record.repeated_calls, record.seconds, record.accuracy),
        )
        for record in scored.records
    }
    assert counted == {
        ("careful/small-1", "count-lines"): (3, 3, 2, 725, 47, {}, 0, 8.0, 1.0),
        ("careful/small-1", "more-rows"): (2, 2, 2, 465, 34, {}, 0, 4.0, 1.0),
        ("hasty/small-1", "count-lines"): (3, 3, 2, 690, 27, {"tool.Error": 2}, 0, 4.0, 0.0),
        ("hasty/small-1", "more-rows"): (1, 1, 0, 175, 4, {}, 0, 1.0, 0.0),
    }
    assert {name for record in scored.records for name in record.unknown} == {"cached_tokens", *ONLY_OURS}


def test_the_trace_has_every_call_and_result(scored):
    trace = read_trace(scored.folder, of(scored, "careful", "more-rows"))
    assert trace.head.query == "Which of a.csv and b.csv has more rows? Reply with its name."
    assert [(run.call.tool, run.call.arguments, run.data, run.status) for run in trace.events if isinstance(run, ToolRun)] == [
        ("bash", {"command": "wc -l a.csv"}, "12 a.csv\n", "success"),
        ("bash", {"command": "wc -l b.csv"}, "9 b.csv\n", "success"),
    ]
    asked = [event for event in trace.events if isinstance(event, ModelExchange)]
    assert [(event.role, event.move_kind, event.tokens) for event in asked] == [
        ("decide", "act", (205, 30)),
        ("decide", "answer", (260, 4)),
    ]
    assert [message.role for message in asked[1].messages] == ["assistant", "tool", "tool"]


def test_without_a_word_on_scores_trials_are_left_out(kit):
    found = kit.imported(ATIF)
    assert {record.status for record in found.records} == {"excluded"}
    assert {record.reason for record in found.records if record.trace_at} == {NEITHER}
    tasks = {f"{arm}/{task}" for arm in ("careful", "hasty") for task in ("count-lines", "more-rows")}
    assert {record.task for record in found.records} == tasks
    assert fit_run(found.folder).trials == 4


def test_the_digest_of_a_folder_is_of_what_was_read(tmp_path):
    shutil.copytree(ATIF, tmp_path / "in")
    digests = []
    for change in (None, "other.txt", "careful/more-rows/trajectory.json"):
        if change:
            with (tmp_path / "in" / change).open("a") as file:
                file.write(" ")
        with open_file(tmp_path / "in") as file:
            assert file.tree is not None
            for name in file.tree.names:
                if name.endswith(".json"):
                    file.tree.read(name)
            digests.append(file.sha256)
    assert digests[0] == digests[1] != digests[2]


@pytest.fixture
def continued(tmp_path):
    """One trial whose trajectory goes on in a second and a third file, each of which begins with a copy of the last step."""
    whole = json.loads((ATIF / "careful" / "count-lines" / "trajectory.json").read_text())
    steps, folder = whole["steps"], tmp_path / "parts"
    folder.mkdir()
    names = ["trajectory.json", "trajectory.cont-1.json", "trajectory.cont-2.json"]
    cuts = [steps[:2], steps[2:4], steps[4:]]
    for place, (name, own) in enumerate(zip(names, cuts, strict=True)):
        copied = [step | {"is_copied_context": True} for step in cuts[place - 1][-1:]] if place else []
        totals = {"total_prompt_tokens": [80, 400, 725][place], "total_completion_tokens": [5, 30, 47][place]}
        part = whole | {"steps": [*copied, *own], "final_metrics": totals}
        follows = {"continued_trajectory_ref": names[place + 1]} if place < 2 else {}
        (folder / name).write_text(json.dumps(part | follows))
    return folder


def test_a_trajectory_that_goes_on_in_other_files_is_one_trial(kit, scored, continued):
    (record,) = kit.imported(continued, columns=WHERE).records
    expected = of(scored, "careful", "count-lines")
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


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data))


def trial(folder, agent, task, number, *, reward=None, error=None, **more):
    """A trial of Harbor; its trajectory if there is one for this agent and task."""
    where = folder / f"{task}__{agent}{number}"
    result = {
        "task_name": task,
        "trial_name": where.name,
        "source": "terminal-bench",
        "task_checksum": f"sum of {task}",
        "agent_info": {"name": agent, "version": "1.2", "model_info": {"name": "small-1", "provider": "x"}},
        "agent_execution": {"started_at": "2026-03-01T10:00:00Z", "finished_at": "2026-03-01T10:01:30Z"},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": None if error is None else {"exception_type": error, "exception_message": "it\nbroke"},
    }
    put(where / "result.json", result | more)
    trajectory = ATIF / agent / task / "trajectory.json"
    if trajectory.exists():
        put(where / "agent" / "trajectory.json", trajectory.read_text())
    return where


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    put(folder / "result.json", {"id": "j", "stats": {}})
    for agent, task, reward in (("careful", "count-lines", 1), ("careful", "more-rows", 1), ("hasty", "count-lines", 0)):
        trial(folder, agent, task, 1, reward=reward)
    return folder


def test_a_job_has_trials_with_rewards_and_traces(kit, job):
    trial(job, "hasty", "more-rows", 1, reward=0, agent_result={"n_input_tokens": 900, "n_output_tokens": 70, "cost_usd": 0.25})
    found = kit.imported(job)
    told = {(record.arm, record.task): (record.accuracy, record.input_tokens, record.seconds) for record in found.records}
    assert told == {
        ("careful/small-1", "count-lines"): (1.0, 725, 90.0),
        ("careful/small-1", "more-rows"): (1.0, 465, 90.0),
        ("hasty/small-1", "count-lines"): (0.0, 690, 90.0),
        ("hasty/small-1", "more-rows"): (0.0, 900, 90.0),
    }
    assert found.manifest.suite.name == "terminal-bench"
    assert [(arm.loop, arm.options, arm.model) for arm in found.manifest.arms] == [
        ("careful", {"version": "1.2"}, "small-1"),
        ("hasty", {"version": "1.2"}, "small-1"),
    ]
    (pair,) = losses_explained(found).pairs
    assert sum(map(len, (pair.causes["hasty/small-1"],))) >= 1
    assert len(pair.divergences) == 2


def test_several_rewards_need_a_name(kit, job):
    trial(job, "hasty", "more-rows", 1, verifier_result={"rewards": {"tests": 1, "style": 0.5}})
    with pytest.raises(ValueError, match="rewards are tests, style; say which is the accuracy: --scorer tests"):
        kit.imported(job)


def test_the_trajectories_of_several_steps_follow_each_other(kit, tmp_path):
    where = trial(tmp_path / "job", "both", "long", 1, reward=1, step_results=[{"step_name": "one"}, {"step_name": "two"}])
    for step, task in (("one", "count-lines"), ("two", "more-rows")):
        put(where / "steps" / step / "agent" / "trajectory.json", (ATIF / "careful" / task / "trajectory.json").read_text())
    found = kit.imported(tmp_path / "job")
    (record,) = found.records
    assert (record.steps, record.tool_calls, record.answer) == (5, 4, "a.csv")
    asked = [event for event in read_trace(found.folder, record).events if isinstance(event, ModelExchange)]
    assert [event.number for event in asked] == [1, 2, 3, 4, 5]


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


def test_two_files_of_one_agent_and_task_are_repeats_and_a_wrong_place_is_named(kit, tmp_path):
    text = (ATIF / "hasty" / "more-rows" / "trajectory.json").read_text()
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text(text)
    assert [record.repeat for record in kit.imported(tmp_path, columns=WHERE).records] == [0, 1]
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


@pytest.mark.parametrize(
    ("error", "reward", "more", "expected"),
    [
        (None, None, {}, ("errored", "no reward", "finished")),
        ("AgentTimeoutError", 1, {}, ("scored", "", "timeout")),
        ("NonZeroAgentExitCodeError", 0, {}, ("scored", "", "crashed")),
        ("EnvironmentStartTimeoutError", None, {}, ("errored", "EnvironmentStartTimeoutError: it broke", "crashed")),
        ("ApiError", 0, {"reward_valid": False}, ("errored", "ApiError: it broke", "crashed")),
    ],
)
def test_exceptions_and_rewards(kit, job, error, reward, more, expected):
    trial(job, "hasty", "more-rows", 1, reward=reward, error=error, **more)
    (record,) = [one for one in kit.imported(job).records if (one.arm, one.task) == ("hasty/small-1", "more-rows")]
    assert (record.status, record.reason, record.stop) == expected


def judged(task, resolved, *, number=1, mode="unset"):
    """What terminal-bench writes of a trial."""
    told = {"id": f"{task}-{number}", "task_id": task, "instruction": task, "is_resolved": resolved, "failure_mode": mode}
    return told | {"total_input_tokens": 0}


def test_a_run_of_terminal_bench_has_no_traces(kit, tmp_path):
    run = tmp_path / "2026-01-01"
    put(run / "run_metadata.json", {"agent_name": "terminus", "model_name": "small-1"})
    put(run / "results.json", {"results": [], "accuracy": 0.5})
    for task, resolved, mode in (("a", True, "unset"), ("b", False, "agent_timeout"), ("c", None, "unknown_agent_error")):
        put(run / task / f"{task}.1-of-1" / "results.json", judged(task, resolved, mode=mode))
    found = kit.imported(tmp_path)
    assert [(r.arm, r.task, r.status, r.accuracy, r.stop, r.reason) for r in found.records] == [
        ("terminus/small-1", "a", "scored", 1.0, "finished", ""),
        ("terminus/small-1", "b", "scored", 0.0, "timeout", ""),
        ("terminus/small-1", "c", "errored", 0.0, "crashed", "not judged: unknown_agent_error"),
    ]
    assert all({"steps", "tokens", "input_tokens"} <= set(record.unknown) for record in found.records)


def test_a_copy_of_a_run_within_another_one_adds_nothing(kit, tmp_path):
    for folder in ("first", "second/first"):
        put(tmp_path / folder / "results.json", {"results": [judged("a", True), judged("b", True)]})
        put(tmp_path / folder / "a" / "results.json", judged("a", True))
    put(tmp_path / "second" / "results.json", {"results": [judged("a", False, number=2), judged("b", False, number=2)]})
    found = kit.imported(tmp_path)
    assert sorted((r.task, r.repeat, r.accuracy) for r in found.records) == [("a", 0, 1), ("a", 1, 0), ("b", 0, 1), ("b", 1, 0)]
