"""Result files of tau-bench and tau2-bench and memories of smolagents, made here: replies, calls and errors counted by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.experiments.import_runs.memories import MEMORY, step
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.metrics.trace import ModelExchange, ToolRun
from whichloop.runs.store.trials import read_trace


def tool_call(number, name, arguments):
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def says(content, *calls):
    return {"role": "assistant", "content": content, "tool_calls": list(calls) or None}


def gave(number, name, content):
    return {"role": "tool", "tool_call_id": f"c{number}", "name": name, "content": content}


def tau_run(task, trial, reward, *messages, **info):
    task_info = {"task": {"user_id": "u", "instruction": f"do {task}", "outputs": ["7"], "actions": []}}
    start = [{"role": "system", "content": "policy"}, {"role": "user", "content": "hello"}]
    return {"task_id": task, "trial": trial, "reward": reward, "info": task_info | info, "traj": [*start, *messages]}


TALKS = (
    says("who are you?"),
    {"role": "user", "content": "Ann"},
    says(None, tool_call(1, "find_user", '{"name": "Ann"}')),
    gave(1, "find_user", "Error: user not found"),
    says(None, tool_call(2, "find_user", '{"name": "Anne"}')),
    gave(2, "find_user", "user 7"),
    says(None, tool_call(3, "look_up", '{"id": 7}')),
    gave(3, "look_up", "Unknown action look_up"),
    says("You are user 7."),
    {"role": "user", "content": "###STOP###"},
)


def test_a_file_of_tau_bench(kit):
    failed = {"task_id": 5, "trial": 0, "reward": 0.0, "info": {"error": "rate limit", "traceback": "…"}, "traj": []}
    path = kit.put([tau_run(3, 0, 1.0, *TALKS), tau_run(3, 1, 0.0, says("no")), tau_run(5, 1, 0.0, says("no")), failed])
    found = kit.imported(path)
    by_name = {(record.task, record.repeat): record for record in found.records}
    record = by_name["3", 0]
    assert (record.steps, record.lm_calls, record.tool_calls) == (5, 5, 2)
    assert dict(record.errors) == {"tool.Error": 1, "tool.UnknownTool": 1}
    assert (by_name["5", 0].status, by_name["5", 0].reason, by_name["5", 0].stop) == ("errored", "rate limit", "crashed")
    trace = read_trace(found.folder, record)
    assert trace.head.expected == ["7"]
    assert [(event.role, event.move_kind) for event in trace.events if isinstance(event, ModelExchange)] == [
        ("answer", "text"),
        *[("decide", "act")] * 3,
        ("answer", "text"),
    ]
    assert [(event.call.arguments, event.status) for event in trace.events if isinstance(event, ToolRun)] == [
        ({"name": "Ann"}, "error"),
        ({"name": "Anne"}, "success"),
        ({"id": 7}, "error"),
    ]
    rates = fit_run(found.folder).rates
    assert (rates["wire.malformed"].count, rates["decision.unknown_tool"].count) == (0, 1)
    assert rates["wire.malformed"].interval is not None
    assert rates["provider.server"].interval is None


def test_replies_in_text_are_read_as_the_calls_that_they_are(kit):
    action = json.dumps({"name": "find", "arguments": {"name": "Ann"}})
    respond = json.dumps({"name": "respond", "arguments": {"content": "done"}})
    messages = [
        says(f"Thought:\nlook\nAction:\n{action}"),
        {"role": "user", "content": "API output: user 7"},
        says(f"Action:\n{respond}"),
        {"role": "user", "content": "thanks"},
    ]
    found = kit.imported(kit.put([tau_run(1, 0, 1.0, *messages)]))
    trace = read_trace(found.folder, found.records[0])
    assert [(event.call.tool, event.call.arguments, event.data) for event in trace.events if isinstance(event, ToolRun)] == [
        ("find", {"name": "Ann"}, "user 7")
    ]


def simulation(task, trial, reward, messages, **more):
    reward_info = None if reward is None else {"reward": reward}
    return {"id": "s", "task_id": task, "trial": trial, "reward_info": reward_info, "messages": messages, **more}


def test_a_file_of_tau2_tells_ends_costs_and_the_agents_own_calls(kit):
    flat = {"id": "c1", "name": "find_user", "arguments": {"name": "Ann"}, "requestor": "assistant"}
    used = {"prompt_tokens": 100, "completion_tokens": 9}
    messages = [
        {"role": "assistant", "content": "Hi, how can I help?"},
        {"role": "user", "content": "I am Ann"},
        {"role": "user", "tool_calls": [{**flat, "id": "u1", "requestor": "user"}]},
        {"role": "tool", "id": "u1", "content": "the user's own", "requestor": "user", "error": False},
        {"role": "assistant", "tool_calls": [flat], "generation_time_seconds": 1.5, "usage": used},
        {"role": "tool", "id": "c1", "content": "Error: none", "requestor": "assistant", "error": True},
        {"role": "assistant", "content": "I cannot find you.", "usage": {"prompt_tokens": 120, "completion_tokens": 8}},
        {"role": "user", "content": "###STOP###"},
    ]
    about, _ = tau2()
    simulations = [
        simulation("a", 0, 1.0, messages, termination_reason="user_stop", agent_cost=0.5, duration=12.0),
        simulation("b", 0, None, [], termination_reason="infrastructure_error"),
    ]
    data = about | {"tasks": [{"id": "a"}, {"id": "b"}], "simulations": simulations}
    found = kit.imported(kit.put(data))
    first, second = found.records
    assert (first.arm, first.stop, first.cost_usd, first.seconds) == ("llm_agent/small-1", "finished", 0.5, 12.0)
    assert (first.steps, first.tool_calls, dict(first.errors)) == (3, 1, {"tool.Error": 1})
    assert "tokens" in first.unknown  # one reply does not say its own
    assert (second.status, second.reason) == ("errored", "no reward: infrastructure_error")
    assert found.manifest.suite.name == "tau2-mock"
    trace = read_trace(found.folder, first)
    asked = [event for event in trace.events if isinstance(event, ModelExchange)]
    assert [(event.tokens, event.seconds) for event in asked] == [(None, 0), ((100, 9), 1.5), ((120, 8), 0)]
    assert "the user's own" not in str(trace.to_json())


def tau2(*ended):
    """Results of a task each: termination reason and reward."""
    said = [
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "I am Ann"},
        {"role": "assistant", "content": "bye"},
    ]
    info = {"agent_info": {"implementation": "llm_agent", "llm": "small-1"}, "environment_info": {"domain_name": "mock"}}
    runs = [simulation(str(n), 0, reward, said, termination_reason=why) for n, (why, reward) in enumerate(ended)]
    return {"info": info, "tasks": [{"id": str(n)} for n in range(len(ended))]}, runs


ENDED = (("user_stop", 1.0), ("context_window_exceeded", 0.0), ("infrastructure_error", 0.0))


@pytest.mark.parametrize("index", [{}, {"simulation_index": [{"id": "0"}]}])
def test_a_folder_of_tau2_is_its_file(kit, tmp_path, index):
    about, runs = tau2(*ENDED)
    folder = tmp_path / "run"
    (folder / "simulations").mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(about | index))
    for number, one in enumerate(runs):
        (folder / "simulations" / f"sim-{number}.json").write_text(json.dumps(one))
    whole = kit.imported(kit.put(about | {"simulations": runs}))
    assert [(record.status, record.stop, record.reason) for record in whole.records] == [
        *(("scored", "finished", ""), ("scored", "context_overflow", "")),
        ("errored", "terminated", "no reward: infrastructure_error"),  # whatever it was graded
    ]
    archive = shutil.make_archive(str(tmp_path / "run"), "zip", tmp_path, "run")
    for path in (folder, folder / "results.json", tmp_path, Path(archive)):
        assert kit.imported(path).digest == whole.digest
    (folder / "simulations" / "sim-0.json").write_text("[]")
    with pytest.raises(ValueError, match=r"simulations/sim-0\.json: the file is not an object"):
        kit.imported(folder)
    shutil.rmtree(folder / "simulations")
    with pytest.raises(ValueError, match="no simulations in it, and none in a folder beside it"):
        kit.imported(folder / "results.json")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "robot"}, "run 1: message 3: role is 'robot', not system, user, assistant or tool"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "run 1: message 3: the name of a tool call is not a text"),
        ({"role": "user", "content": 3}, "run 1: message 3: content is neither a text nor a list of parts"),
    ],
)
def test_a_wrong_message_is_named(kit, message, said):
    with pytest.raises(ValueError, match=said):
        kit.imported(kit.put([tau_run(1, 0, 1.0, message)]))


def events_of(found, record):
    events = read_trace(found.folder, record).events
    asked = [(event.role, event.move_kind, event.tokens) for event in events if isinstance(event, ModelExchange)]
    ran = [(event.call.tool, event.call.arguments, event.data, event.status) for event in events if isinstance(event, ToolRun)]
    return asked, ran


def test_a_memory_of_smolagents(kit):
    found = kit.imported(kit.put({"steps": MEMORY, "state": "success", "grade": 1}), columns={"score": "grade"})
    (record,) = found.records
    assert (record.accuracy, record.stop, record.answer, record.steps, record.tool_calls) == (1.0, "finished", "room 7", 5, 2)
    assert dict(record.errors) == {"wire": 1, "tool.AgentToolExecutionError": 1}
    asked, ran = events_of(found, record)
    assert asked == [
        ("reason", "text", None),
        ("decide", "act", (10, 2)),
        ("reason", "", (10, 2)),
        ("decide", "act", (10, 2)),
        ("decide", "answer", (10, 2)),
    ]
    assert ran == [("find", {"name": "An"}, "nobody", "error"), ("find", {"name": "Ann"}, "room 7", "success")]


def test_a_list_of_steps_and_code_as_a_call(kit):
    steps = [MEMORY[0], step(1, [("python_interpreter", "print(1)")], observations="1"), step(2, model_output="1")]
    found = kit.imported(kit.put(steps))
    assert events_of(found, found.records[0])[1] == [("python_interpreter", {"code": "print(1)"}, "1", "success")]
    assert found.records[0].status == "excluded"


TOO_MANY = {"type": "AgentMaxStepsError", "message": "Reached max steps."}


@pytest.mark.parametrize(
    ("steps", "more", "expected"),
    [
        (
            [
                step(1, [("find", {"name": "Ann"})], observations="room 7"),
                step(2, error=TOO_MANY, model_output=None, action_output="room 7?"),
            ],
            {"state": "max_steps_error"},
            ("room 7?", "max_steps", {}),  # what an agent answers when its steps are used up is no unreadable reply
        ),
        (
            [step(1, [("python_interpreter", "final_answer(2 + 5)")], action_output=7, is_final_answer=True)],
            {"output": 7, "state": "success"},
            (7, "finished", {}),  # an agent that writes Python answers with what the run returned
        ),
    ],
)
def test_how_an_agent_of_smolagents_ends(kit, steps, more, expected):
    path = kit.put({"steps": [{"task": "Where is Ann?"}, *steps], "grade": 1} | more)
    (record,) = kit.imported(path, columns={"score": "grade"}).records
    assert (record.answer, record.stop, dict(record.errors)) == expected
