"""Memories of smolagents, made here as it writes them; counted by hand."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whichloop.metrics.trace import ModelExchange, ToolRun
from whichloop.runs.store.trials import read_trace


def events_of(found, record):
    events = read_trace(found.folder, record).events
    asked = [(event.role, event.move_kind, event.tokens) for event in events if isinstance(event, ModelExchange)]
    ran = [(event.call.tool, event.call.arguments, event.data, event.status) for event in events if isinstance(event, ToolRun)]
    return asked, ran


def step(number, calls=(), **more):
    made = [{"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": given}} for name, given in calls]
    return {
        "step_number": number,
        "timing": {"start_time": 1.0, "end_time": 3.0, "duration": 2.0},
        "model_input_messages": None,
        "tool_calls": made,
        "error": None,
        "model_output": "",
        "observations": None,
        "action_output": None,
        "token_usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
        "is_final_answer": False,
        **more,
    }


MEMORY = [
    {"task": "Where is Ann?", "task_images": None},
    {"plan": "1. find her", "model_input_messages": [], "timing": {"duration": 1.0}, "token_usage": None},
    step(1, [("find", {"name": "An"})], error={"type": "AgentToolExecutionError", "message": "nobody"}),
    step(2, error={"type": "AgentParsingError", "message": "no call in it"}, model_output="find Ann"),
    step(3, [("find", {"name": "Ann"})], observations="room 7"),
    step(4, [("final_answer", {"answer": "room 7"})], action_output="room 7", is_final_answer=True, model_output="I know"),
]


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


def spoken(*calls):
    """What the model wrote, as the step of a failed call has it, whose own list of calls is empty."""
    made = [{"id": f"c{place}", "type": "function", "function": each} for place, each in enumerate(calls)]
    return {"role": "assistant", "content": "", "tool_calls": made}


def test_the_answer_that_an_agent_gives_when_its_steps_are_used_up_is_no_unreadable_reply(kit):
    ending = step(
        2, error={"type": "AgentMaxStepsError", "message": "Reached max steps."}, model_output=None, action_output="room 7?"
    )
    steps = [{"task": "Where is Ann?"}, step(1, [("find", {"name": "Ann"})], observations="room 7"), ending]
    (record,) = kit.imported(kit.put({"steps": steps, "state": "max_steps_error", "grade": 0}), columns={"score": "grade"}).records
    assert (record.answer, record.stop, dict(record.errors)) == ("room 7?", "max_steps", {})


def test_the_answer_of_an_agent_that_writes_python_is_what_the_run_returned(kit):
    steps = [{"task": "2 + 5?"}, step(1, [("python_interpreter", "final_answer(2 + 5)")], action_output=7, is_final_answer=True)]
    (record,) = kit.imported(
        kit.put({"steps": steps, "output": 7, "state": "success", "grade": 1}), columns={"score": "grade"}
    ).records
    assert (record.answer, record.stop, record.tool_calls) == (7, "finished", 1)


def test_a_list_of_steps_and_code_as_a_call(kit):
    steps = [MEMORY[0], step(1, [("python_interpreter", "print(1)")], observations="1"), step(2, model_output="1")]
    found = kit.imported(kit.put(steps))
    assert events_of(found, found.records[0])[1] == [("python_interpreter", {"code": "print(1)"}, "1", "success")]
    assert found.records[0].status == "excluded"


HARMFUL: list[Any] = [None, True, -1, 10**400, "", "\ud800", "x", [], {}, [[{}]], [3]]


@given(st.integers(0, len(MEMORY) - 1), st.data(), st.sampled_from(HARMFUL))
def test_anything_anywhere_is_read_or_refused_in_a_line(kit, number, data, leaf):
    steps = json.loads(json.dumps(MEMORY))
    steps[number][data.draw(st.sampled_from(sorted(steps[number])))] = leaf
    try:
        kit.imported(kit.put({"steps": steps}))
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017  # what is read is no error
