"""A conversation becomes events by the same rules for every format."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.fit_profile.decision_points import read_points
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
from whichloop.metrics.trace import UNTOLD, ModelExchange, RequestError, ToolRun, Trace, TraceHead
from whichloop.metrics.trajectory.trajectory import prompts
from whichloop.protocol.chat import NativeCall

ids = st.sampled_from(["", "1", "2", "3"])
tools = st.sampled_from(["add", "find"])
calls = st.builds(NativeCall, ids, tools, st.sampled_from(['{"a": 1}', "{}", "", '{"a": ', "[1]", "NaN"]))
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


def test_a_last_call_without_a_result_leaves_the_rates_of_tools_as_they_are() -> None:
    ended = events_of([ModelTurn("", (NativeCall("1", "submit", "{}"),))])
    assert untold_of(ended) == frozenset()


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
