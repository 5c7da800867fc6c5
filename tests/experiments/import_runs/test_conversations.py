"""Chats of every client are read alike, and become events by the same rules for every format; trials of ours come back whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.import_runs.conftest import FILES
from whichloop.experiments.export_runs.atif import atif_of, steps_of
from whichloop.experiments.export_runs.otlp import resource_spans
from whichloop.experiments.fit_profile.decision_points import read_points
from whichloop.experiments.import_runs.chats import read_chat, read_reply
from whichloop.experiments.import_runs.conversation import (
    MAX_DEPTH,
    MAX_ITEMS,
    CallResult,
    ConversationItem,
    ModelTurn,
    SaidToModel,
    events_of,
    untold_of,
)
from whichloop.experiments.import_runs.foreign_trials import ForeignLog
from whichloop.experiments.import_runs.formats.atif import EXTRA, OWN, Trajectory
from whichloop.experiments.import_runs.formats.otlp import read_span
from whichloop.experiments.import_runs.formats.table import read_messages
from whichloop.experiments.import_runs.own_trials import CHANGED, add_own_trial, own_part
from whichloop.experiments.import_runs.spans import TRIAL, Walk
from whichloop.metrics.trace import UNTOLD, ModelExchange, RequestError, ToolRun, Trace, TraceHead
from whichloop.metrics.trajectory.trajectory import prompts
from whichloop.protocol.chat import NativeCall

ids = st.sampled_from(["", "1", "2", "3"])
tool_names = st.sampled_from(["add", "find"])
calls = st.builds(NativeCall, ids, tool_names, st.sampled_from(['{"a": 1}', "{}", "", '{"a": ', "[1]", "NaN"]))

turns = st.builds(
    ModelTurn,
    text=st.sampled_from(["", "hm", "42"]),
    calls=st.lists(calls, max_size=3).map(tuple),
    thought=st.sampled_from(["", "because"]),
    error=st.sampled_from([None, None, None, RequestError("provider.timeout", "late")]),
)

said = st.builds(SaidToModel, st.sampled_from(["system", "user"]), st.sampled_from(["do it", "go on"]))
results = st.builds(CallResult, st.sampled_from(["", "3"]), ids, st.sampled_from(["", "add"]), st.sampled_from([None, True, False]))
conversations = st.lists(st.one_of(said, turns, results), max_size=12)


@given(conversations)
def test_every_turn_is_a_request_and_every_call_is_accounted_for(items: list[ConversationItem]) -> None:
    events = events_of(items)
    asked = [event for event in events if isinstance(event, ModelExchange)]
    made = [item for item in items if isinstance(item, ModelTurn)]
    assert [event.number for event in asked] == list(range(1, len(made) + 1))
    assert [event.reply for event in asked] == [None if turn.error else turn.text for turn in made]
    runs = [event for event in events if isinstance(event, ToolRun)]
    assert len(runs) >= sum(len(turn.calls) for turn in made if turn.error is None)  # each has a result, or is not told
    trace = Trace(TraceHead(arm="a", task="t"), events)
    assert Trace.from_json(json.loads(json.dumps(trace.to_json()))) == trace
    read_points(trace)  # raises for a request that continues another one than the trace holds


@given(conversations)
def test_a_prompt_is_all_that_came_before(items: list[ConversationItem]) -> None:
    events = events_of(items)
    sent = [prompt for event, prompt in zip(events, prompts(events), strict=True) if isinstance(event, ModelExchange)]
    turn = 0
    for place, item in enumerate(items):
        if isinstance(item, ModelTurn):
            before = [
                other
                for other in items[:place]
                if not (isinstance(other, ModelTurn) and other.error)  # a failed request leaves nothing to show
            ]
            assert len(sent[turn]) == len(before)
            turn += 1


def moves(items: Sequence[ConversationItem]) -> list[tuple[str, str]]:
    return [(event.role, event.move_kind) for event in events_of(items) if isinstance(event, ModelExchange)]


def test_a_reply_without_calls_is_read_by_what_follows() -> None:
    act = ModelTurn("let me see", (NativeCall("1", "find", "{}"),))
    heard, talk = SaidToModel("user", "I am Ann"), ModelTurn("who are you?")
    assert moves([talk, heard, act, CallResult("3", "1"), ModelTurn("thinking"), act, CallResult("3", "1"), ModelTurn("3")]) == [
        ("answer", "text"),
        ("decide", "act"),
        ("reason", "text"),
        ("decide", "act"),
        ("decide", "answer"),
    ]


def test_results_go_to_the_call_that_they_name_and_else_to_the_next() -> None:
    two = (NativeCall("1", "find", '{"n": 1}'), NativeCall("2", "find", '{"n": 2}'))
    named = events_of([ModelTurn("", two), CallResult("second", "2", failed=False), CallResult("first", "1", failed=True)])
    assert [(run.call.arguments, run.data, run.status) for run in named if isinstance(run, ToolRun)] == [
        ({"n": 2}, "second", "success"),
        ({"n": 1}, "first", "error"),
    ]
    bare = events_of([ModelTurn("", two), CallResult("first"), ModelTurn("done")])
    assert [(run.call.arguments, run.data, run.status) for run in bare if isinstance(run, ToolRun)] == [
        ({"n": 1}, "first", UNTOLD),
        ({"n": 2}, "", UNTOLD),
    ]
    assert untold_of(bare) == {"tool"}
    (step,) = steps_of(named)  # a trajectory that is written names the calls too, whichever ended first
    written = [(each["source_call_id"], each["content"]) for each in step["observation"]["results"]]
    assert written == [("2", "second"), ("1", "first")]


def test_arguments_that_are_no_object_make_a_reply_unreadable() -> None:
    for raw in ('{"n": ', "[1]", "3", "NaN"):
        (ask, run) = events_of([ModelTurn("", (NativeCall("1", "find", raw),)), CallResult("bad", "1", failed=True)])
        assert isinstance(ask, ModelExchange)
        assert isinstance(run, ToolRun)
        assert (ask.move, run.call.arguments) == (None, raw)
        assert "arguments of find" in (ask.wire_error or "")


def test_size_and_nesting_are_bounded() -> None:
    deep = '{"n": ' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1)
    ask = events_of([ModelTurn("", (NativeCall("1", "find", deep),))])[0]
    assert isinstance(ask, ModelExchange)
    assert ask.calls[0].arguments == deep
    with pytest.raises(ValueError, match=f"more than {MAX_ITEMS}"):
        events_of([SaidToModel("user", "")] * (MAX_ITEMS + 1))


ARGUMENTS = {"item": "lampp"}
CHATS: dict[str, list[Any]] = json.loads((FILES / "chats.json").read_text("utf-8"))
"""One conversation as the client of each vendor and framework writes it down."""


@pytest.mark.parametrize("client", CHATS)
def test_the_same_chat_of_every_client_is_the_same_trial(client: str) -> None:
    asked, called, result, said = read_chat(CHATS[client])
    assert asked == SaidToModel("user", "lamp?")
    assert isinstance(called, ModelTurn)
    assert isinstance(said, ModelTurn)
    assert isinstance(result, CallResult)
    ((call),) = called.calls
    assert (call.name, call.arguments, call.id in ("c1", "")) == ("price", '{"item": "lampp"}', True)
    assert (said.text, said.calls, "KeyError" in result.text, result.call_id) == ("unknown", (), True, call.id)
    row = read_messages(CHATS[client])
    assert row is not None
    trace, answer = row
    (run,) = [event for event in trace.events if isinstance(event, ToolRun)]
    assert (run.call.arguments, run.status, answer, trace.query) == (ARGUMENTS, "error", "unknown", "lamp?")
    assert [event.move_kind for event in trace.events if isinstance(event, ModelExchange)] == ["act", "answer"]
    assert ("wire" in trace.untold) == (client not in ("openai", "responses"))


def test_replies_stand_in_whatever_a_provider_wraps_them() -> None:
    for client, chat in CHATS.items():
        reply = chat[-1] if client != "vercel page" else {"role": "assistant", "parts": chat[-1]["parts"][3:]}
        wrapped = (
            {"choices": [{"message": reply}]},
            {"output": {"message": reply}},
            {"candidates": [{"content": reply}]},
            {"output": [{"type": "reasoning", "summary": []}, reply]} if client == "responses" else [reply],
            {"generations": [[{"text": "x", "type": "ChatGeneration", "message": reply}]]},
        )
        for data in (reply, *wrapped):
            found = read_reply(data)
            assert found is not None, (client, data)
            assert found.text == "unknown"
    nothing: list[Any] = [None, {}, [], {"choices": []}]
    assert [read_reply(data) for data in nothing] == [None] * 4


leaves: st.SearchStrategy[Any] = st.sampled_from([None, True, 3, "x", "", [], {}, [[{}]], {"role": "user"}])

keys = st.sampled_from(
    ["role", "content", "type", "parts", "tool_calls", "functionCall", "text", "output", "message", "kwargs", "id"]
)

kinds = st.sampled_from(["assistant", "tool", "tool_use", "tool_result", "text", "function_call", "reasoning", "message"])

values = st.recursive(
    leaves | kinds, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@given(values)
def test_anything_is_read_or_refused(data: Any) -> None:
    for read in (read_chat, read_reply):
        try:
            found: Any = read(data)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017  # what is read is no error
        else:
            assert found is None or isinstance(found, list | ModelTurn)


def read_back(item: dict[str, Any]) -> Any:
    root, *below = map(read_span, json.loads(json.dumps(item))["scopeSpans"][0]["spans"])
    return kept_in(json.loads(root.values[TRIAL]), [span.content for span in below])


def kept_in(own: Any, content: Any) -> Any:
    log = ForeignLog("s")
    return (log.trials[0], *log.arms.values()) if add_own_trial(log, own, content, "it") else log.notes[0]


def told(events: Any) -> Any:
    asked = [(event.reply or "", event.error is not None) for event in events if isinstance(event, ModelExchange)]
    runs = [run for run in events if isinstance(run, ToolRun) and run.data and run.status != "untold"]
    return asked, sorted((run.call.key, run.data, run.ok) for run in runs)


def test_a_trial_of_ours_comes_back_as_it_was_and_others_read_what_happened(own_trials: Any) -> None:
    for record, trace, arm in own_trials:
        item, document = (json.loads(json.dumps(one(trace, record, arm), allow_nan=False)) for one in (resource_spans, atif_of))
        check_rules(document)
        for back, its_arm in (read_back(item), kept_in(document[EXTRA][OWN], document["steps"])):
            assert (back.trace.trace(record), back.ours, its_arm.loop, its_arm.profile) == (trace, record, arm.loop, "known")
        _, *below = map(read_span, item["scopeSpans"][0]["spans"])
        assert told(events_of(Walk(below).items())) == told(trace.events)
        assert told(events_of(Trajectory.read(document).items))[1] == told(trace.events)[1]


def test_what_was_changed_is_read_as_anybodys_and_prompts_of_an_imported_task_may_differ(own_trials: Any) -> None:
    record, trace, arm = own_trials[0]
    item, document = (json.loads(json.dumps(one(trace, record, arm))) for one in (resource_spans, atif_of))
    item["scopeSpans"][0]["spans"][1]["attributes"].append({"key": "more", "value": {"stringValue": "x"}})
    document["steps"][-1]["message"] += " changed"
    assert read_back(item) == kept_in(document[EXTRA][OWN], document["steps"]) == f"it: {CHANGED}"
    log = ForeignLog("s")
    for asked in ("It is 9:00.", "It is 9:01."):
        own = own_part([], replace(trace, head=replace(trace.head, query=asked)), replace(record, unknown=("steps",)), arm)
        assert add_own_trial(log, own, [], "it")


def check_rules(document: dict[str, Any]) -> None:
    """What ATIF demands of a document, by the models of harbor 0.26.0."""
    assert document["schema_version"] == "ATIF-v1.7"
    assert {"name", "version"} <= document["agent"].keys()
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    for step in document["steps"]:
        assert step["source"] in ("system", "user", "agent")
        assert isinstance(step["message"], str)
        assert step["source"] == "agent" or not step.keys() & {"tool_calls", "metrics", "model_name", "reasoning_content"}
        ids = [call["tool_call_id"] for call in step.get("tool_calls", []) if isinstance(call["arguments"], dict)]
        assert all(ids)
        assert len(ids) == len(set(ids)) == len(step.get("tool_calls", []))
        results = step.get("observation", {}).get("results", [])
        assert {result["source_call_id"] for result in results if "source_call_id" in result} <= set(ids)


UNREAD: dict[str, Any] = {
    "role is 'robot', not system, user, assistant or tool": {"role": "robot"},
    "a part of kind 'mystery' is not understood": {"role": "assistant", "content": [{"type": "mystery"}]},
    "the message is not an object: 7": 7,
}


@pytest.mark.parametrize("said", UNREAD)
def test_what_is_not_understood_is_refused_with_its_place(said: str) -> None:
    with pytest.raises(ValueError, match=f"^message 1: {said}"):
        read_chat([UNREAD[said]])
