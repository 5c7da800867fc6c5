"""Older results cleared away: what the model is shown, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Moves
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.microcompact import CLEARED, Microcompact, result_places
from whichloop.loops.react_extract import ReactExtract
from whichloop.protocol import Act, Answer, Message, Query, StopReason, Tool, Toolbox, ToolCall, run_sync


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def steps(count: int) -> list[Any]:
    return [Act("Add.", (ToolCall("add", {"a": n, "b": 0}),)) for n in range(count)]


TOOLS = Toolbox([Tool.from_function(add, blocking=False)])


@pytest.mark.parametrize("decision_format", ["json", "native"])
def test_only_the_last_results_are_shown_and_nothing_else_is_touched(decision_format: Any) -> None:
    plain, short = Moves(*steps(4), Answer("", "3")), Moves(*steps(4), Answer("", "3"))
    whole = Bare(decision_format=decision_format)
    outcome = run_sync(Microcompact(whole, keep=2).run(Query("Q"), TOOLS, short))
    assert outcome.answer == run_sync(whole.run(Query("Q"), TOOLS, plain)).answer
    for full, cut in zip(plain.requests, short.requests, strict=True):
        places = result_places(full.messages)
        for place, (before, after) in enumerate(zip(full.messages, cut.messages, strict=True)):
            cleared = place in places[:-2]
            assert after.content == (CLEARED if cleared else before.content)
            assert (after.role, after.calls, after.call_id) == (before.role, before.calls, before.call_id)
    assert sum(message.content == CLEARED for message in short.requests[-1].messages) == 2


def test_results_that_the_model_has_not_seen_yet_stay_however_many() -> None:
    many = Act("Add.", tuple(ToolCall("add", {"a": n, "b": 0}) for n in range(5)))
    model = Moves(many, many, Answer("", "3"))
    run_sync(Microcompact(Finish(max_steps=5), keep=2).run(Query("Q"), TOOLS, model))
    shown = [[message.content != CLEARED for message in request.messages if message.role == "tool"] for request in model.requests]
    assert shown == [[], [True] * 5, [False] * 5 + [True] * 5]


def test_a_design_that_writes_one_message_has_nothing_to_clear() -> None:
    model = Moves(*steps(4), Answer("", "3"))
    outcome = run_sync(Microcompact(ReactExtract(), keep=1).run(Query("Q"), TOOLS, model))
    assert outcome.stop is StopReason.FINISHED
    assert not any(CLEARED in message.content for request in model.requests for message in request.messages)


@given(st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=12))
def test_results_are_tool_messages_and_what_a_user_says_right_after_an_assistant(roles: list[Any]) -> None:
    found = result_places(tuple(Message(role, "x") for role in roles))
    for place, role in enumerate(roles):
        after_assistant = place > 0 and roles[place - 1] == "assistant"
        assert (place in found) is (role == "tool" or (role == "user" and after_assistant))
