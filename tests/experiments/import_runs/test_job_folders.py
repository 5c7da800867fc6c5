"""Folders of whole jobs: Harbor's, with trajectories, and terminal-bench's before it, without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.trace import ModelExchange
from whichloop.runs.store.trials import read_trace

ATIF = Path(__file__).with_name("files") / "atif"


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


@pytest.mark.parametrize(
    ("error", "reward", "expected"),
    [
        (None, None, ("errored", "no reward", "finished")),
        ("AgentTimeoutError", 1, ("scored", "", "timeout")),
        ("NonZeroAgentExitCodeError", 0, ("scored", "", "crashed")),
        ("EnvironmentStartTimeoutError", None, ("errored", "EnvironmentStartTimeoutError: it broke", "crashed")),
    ],
)
def test_exceptions_and_rewards(kit, job, error, reward, expected):
    trial(job, "hasty", "more-rows", 1, reward=reward, error=error)
    (record,) = [one for one in kit.imported(job).records if (one.arm, one.task) == ("hasty/small-1", "more-rows")]
    assert (record.status, record.reason, record.stop) == expected


def test_a_reward_that_harbor_calls_invalid_is_no_score(kit, job):
    trial(job, "hasty", "more-rows", 1, reward=0, error="ApiError", reward_valid=False)
    (record,) = [one for one in kit.imported(job).records if (one.arm, one.task) == ("hasty/small-1", "more-rows")]
    assert (record.status, record.reason) == ("errored", "ApiError: it broke")


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


def test_a_broken_trajectory_is_named(kit, job):
    put(job / "count-lines__hasty1" / "agent" / "trajectory.json", "{}")
    with pytest.raises(ValueError, match=r"count-lines__hasty1/agent/trajectory\.json: schema_version is None"):
        kit.imported(job)


def test_a_run_of_terminal_bench_has_no_traces(kit, tmp_path):
    run = tmp_path / "2026-01-01"
    put(run / "run_metadata.json", {"agent_name": "terminus", "model_name": "small-1"})
    put(run / "results.json", {"results": [], "accuracy": 0.5})
    for task, resolved, mode in (("a", True, "unset"), ("b", False, "agent_timeout"), ("c", None, "unknown_agent_error")):
        result = {"task_id": task, "instruction": task, "is_resolved": resolved, "failure_mode": mode, "total_input_tokens": 0}
        put(run / task / f"{task}.1-of-1" / "results.json", result)
    found = kit.imported(tmp_path)
    assert [(r.arm, r.task, r.status, r.accuracy, r.stop, r.reason) for r in found.records] == [
        ("terminus/small-1", "a", "scored", 1.0, "finished", ""),
        ("terminus/small-1", "b", "scored", 0.0, "timeout", ""),
        ("terminus/small-1", "c", "errored", 0.0, "crashed", "not judged: unknown_agent_error"),
    ]
    assert all({"steps", "tokens", "input_tokens"} <= set(record.unknown) for record in found.records)


def judged(task, resolved, *, number=1, mode="unset"):
    """What terminal-bench writes of a trial."""
    return {"id": f"{task}-{number}", "task_id": task, "instruction": task, "is_resolved": resolved, "failure_mode": mode}


def test_a_copy_of_a_run_within_another_one_adds_nothing(kit, tmp_path):
    for folder in ("first", "second/first"):
        put(tmp_path / folder / "results.json", {"results": [judged("a", True), judged("b", True)]})
        put(tmp_path / folder / "a" / "results.json", judged("a", True))
    put(tmp_path / "second" / "results.json", {"results": [judged("a", False, number=2), judged("b", False, number=2)]})
    found = kit.imported(tmp_path)
    assert sorted((r.task, r.repeat, r.accuracy) for r in found.records) == [("a", 0, 1), ("a", 1, 0), ("b", 0, 1), ("b", 1, 0)]
