"""ATIF both ways: nothing is lost from ours to ATIF and back, and nothing from ATIF to ours and back."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.export_runs.export import atif_of
from whichloop.experiments.import_runs.formats.atif import trace_of
from whichloop.experiments.trace_formats.atif import read_trajectory
from whichloop.experiments.trace_formats.own_trials import CHANGED, OwnTrial, own_of, without_own
from whichloop.metrics.record import Record
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace
from whichloop.runs.manifest import ArmEntry

ARM = ArmEntry(arm="a", loop="claude-code", options={}, model="m", profile="imported")


def check_rules(document: dict[str, Any]) -> None:
    """What ATIF demands of a document, by the models of harbor 0.26.0."""
    assert document["schema_version"] == "ATIF-v1.7"
    assert {"name", "version"} <= document["agent"].keys()
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    for step in document["steps"]:
        assert step["source"] in ("system", "user", "agent")
        assert isinstance(step["message"], str)
        assert step["source"] == "agent" or not step.keys() & {"tool_calls", "metrics", "model_name", "reasoning_content"}
        calls = step.get("tool_calls", [])
        assert all(isinstance(call["arguments"], dict) and call["function_name"] is not None for call in calls)
        ids = [call["tool_call_id"] for call in calls]
        assert all(ids)
        assert len(ids) == len(set(ids))
        results = step.get("observation", {}).get("results", [])
        assert {result["source_call_id"] for result in results if "source_call_id" in result} <= set(ids)
        known = {"step_id", "source", "message", "tool_calls", "observation", "metrics", "extra", "llm_call_count"}
        assert step.keys() <= known


def test_a_trial_of_ours_comes_back_as_it_was(own_trials: list[tuple[Record, Trace, ArmEntry]]) -> None:
    for record, trace, arm in own_trials:
        document = json.loads(json.dumps(atif_of(trace, record, arm), allow_nan=False))
        check_rules(document)
        back = own_of(document)
        assert isinstance(back, OwnTrial)
        assert back.trace == trace
        assert back.record == record
        assert (back.arm.loop, back.arm.model, back.arm.profile) == (arm.loop, "scripted", "known")


def test_others_read_in_it_what_was_called_and_what_came_of_it(own_trials: list[tuple[Record, Trace, ArmEntry]]) -> None:
    """Without what only whichloop reads, replies, calls and results are all there."""
    for record, trace, arm in own_trials:
        read = trace_of(plain := without_own(atif_of(trace, record, arm)), read_trajectory(plain))
        assert [event.reply or "" for event in read.events if isinstance(event, ModelExchange)] == [
            event.reply or "" for event in trace.events if isinstance(event, ModelExchange)
        ]
        ran = sorted((run.call.key, run.data, run.ok) for run in trace.events if isinstance(run, ToolRun))
        found = [run for run in read.events if isinstance(run, ToolRun) and run.data]
        assert sorted((run.call.key, run.data, run.ok) for run in found) == [one for one in ran if one[1]]


def test_a_document_that_was_changed_is_read_as_anybodys(own_trials: list[tuple[Record, Trace, ArmEntry]]) -> None:
    record, trace, arm = own_trials[0]
    document = copy.deepcopy(atif_of(trace, record, arm))
    document["steps"][-1]["message"] += " changed"
    assert own_of(document) == CHANGED


# --- any document ---

texts = st.sampled_from(["", "hm", 'say "it"', "\u00e4\n", "3"])
extras = st.sampled_from([None, {"note": [1, {"a": None}]}, {"is_error": True}, {"tool_result_is_error": False}])
parts = st.sampled_from(
    [
        [{"type": "text", "text": "look"}, {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}],
        [{"type": "text", "text": "only text"}],
    ]
)
arguments = st.sampled_from([{}, {"n": 1}, {"n": 1.0, "deep": [{"a": None}]}, {"cmd": "ls -la"}])


def only_told(made: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in made.items() if value is not None}


@st.composite
def agent_steps(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.lists(st.sampled_from(["c1", "c2", "c3"]), unique=True, max_size=3))
    calls = [
        only_told({"tool_call_id": one, "function_name": draw(st.sampled_from(["bash", "edit"])), "arguments": draw(arguments)})
        for one in ids
    ]
    given_to = draw(st.lists(st.sampled_from([None, *ids]), max_size=3))
    results = [
        only_told({"source_call_id": one, "content": draw(texts | parts | st.none()), "extra": draw(extras)}) for one in given_to
    ]
    metrics = draw(st.sampled_from([None, {"prompt_tokens": 5, "completion_tokens": 2}, {"prompt_tokens": 5, "cost_usd": 0.5}]))
    step = {
        "source": "agent",
        "message": draw(texts | parts),
        "tool_calls": calls or draw(st.sampled_from([None, []])),
        "observation": {"results": results} if results else None,
        "timestamp": draw(st.sampled_from([None, "2026-01-01T10:00:00Z", "then"])),
        "extra": draw(extras),
        "llm_call_count": draw(st.sampled_from([None, 1, 2])),
        "is_copied_context": draw(st.sampled_from([None, None, True, False])),
    }
    if draw(st.booleans()):
        step |= {"llm_call_count": 0}
    else:
        step |= {"metrics": metrics, "reasoning_content": draw(st.sampled_from([None, "so", ""])), "model_name": draw(texts)}
    return only_told(step)


said_steps = st.builds(
    lambda source, message, extra: only_told({"source": source, "message": message, "extra": extra}),
    st.sampled_from(["system", "user"]),
    texts | parts,
    extras,
)


@st.composite
def documents(draw: st.DrawFn, *, deep: bool = True) -> dict[str, Any]:
    steps = draw(st.lists(agent_steps() | said_steps, min_size=1, max_size=6))
    document = {
        "schema_version": draw(st.sampled_from([f"ATIF-v1.{minor}" for minor in range(9)])),
        "session_id": draw(st.sampled_from([None, "s1"])),
        "agent": only_told(
            {"name": "claude-code", "version": "2.1", "model_name": draw(st.sampled_from([None, "m"])), "extra": {}}
        ),
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "notes": draw(st.sampled_from([None, "a note"])),
        "final_metrics": draw(st.sampled_from([None, {}, {"total_prompt_tokens": 9, "total_steps": 3, "extra": {"reward": 1}}])),
        "extra": draw(extras),
        "subagent_trajectories": [draw(documents(deep=False))] if deep and draw(st.booleans()) else None,
    }
    return only_told(document)


@given(documents())
def test_a_document_of_anybody_comes_back_as_it_was(document: dict[str, Any]) -> None:
    read = read_trajectory(document)
    made = trace_of(document, read)
    record = Record("a", "s", "d", "t", 0, 0, "excluded", unknown=("false_success",))
    trace = Trace.from_json(json.loads(json.dumps(made.trace(record).to_json())))
    exported = json.loads(json.dumps(atif_of(trace, record, ARM)))
    assert json.dumps(without_own(exported), sort_keys=True) == json.dumps(document, sort_keys=True)
    back = own_of(exported)
    assert isinstance(back, OwnTrial)
    assert (back.trace, back.record) == (trace, record)


@given(documents())
def test_replies_and_calls_are_those_of_the_document(document: dict[str, Any]) -> None:
    own = [step for step in document["steps"] if step["source"] == "agent" and not step.get("is_copied_context")]
    replies = [step for step in own if step.get("llm_call_count") != 0]
    events = trace_of(document, read_trajectory(document)).events
    asked = [event for event in events if isinstance(event, ModelExchange)]
    assert len(asked) == len(replies)
    assert [[call.name for call in event.native_calls] for event in asked] == [
        [call["function_name"] for call in step.get("tool_calls") or []] for step in replies
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": "ATIF-v2.0"}, "schema_version is 'ATIF-v2.0'; versions ATIF-v1.0 to ATIF-v1.8 are read"),
        ({"steps": []}, "steps: there is none"),
        ({"steps": [{"source": "robot", "message": ""}]}, "step 1: source is 'robot', not system, user or agent"),
        ({"steps": [{"source": "user", "message": 3}]}, "step 1: message is neither a text nor a list of parts: 3"),
        ({"steps": [{"source": "agent", "message": "", "tool_calls": [{}]}]}, "step 1: function_name of a tool call is not a text"),
        ({"agent": {}}, "agent.name is not a name: None"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(change: dict[str, Any], said: str) -> None:
    document = {"schema_version": "ATIF-v1.5", "agent": {"name": "x"}, "steps": [{"source": "user", "message": "hi"}]}
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        read_trajectory(document | change)
