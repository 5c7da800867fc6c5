"""Arguments that a person gave and those that a tool gets are compared as JSON: true is not 1."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.loops.bare import Bare
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired, Checkpoint
from whichloop.loops.checkpoints.replayed_toolbox import CONVERTED
from whichloop.loops.finish import Finish
from whichloop.loops.phased import Phased
from whichloop.loops.resumable import Resumable
from whichloop.loops.shared.received_arguments import same_json
from whichloop.models.fake import FakeModel
from whichloop.protocol import Loop, Query, Toolbox, ToolCall

LEAVES = st.sampled_from([None, True, False, 0, 1, 0.0, -0.0, 1.0, 0.5, "", "1", 2**53, 2**53 + 1, float(2**53)])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2), max_leaves=4
)


def in_one_notation(value: Any) -> Any:
    """The value with each whole number as an integer, as a browser writes it."""
    if isinstance(value, list):
        return [in_one_notation(item) for item in value]
    if isinstance(value, dict):
        return {key: in_one_notation(item) for key, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


@given(one=VALUES, other=VALUES)
def test_values_are_the_same_if_their_json_is_but_for_the_notation_of_numbers(one: Any, other: Any) -> None:
    one_text, other_text = (json.dumps(in_one_notation(value), sort_keys=True) for value in (one, other))
    assert same_json(one, other) == (one_text == other_text)
    assert same_json(one, json.loads(json.dumps(one)))


@pytest.mark.parametrize(
    ("one", "other"), [(True, 1), ([0], [False]), ({"a": {"b": 1}}, {"a": {"b": True}}), ((1,), (1,)), (..., ...)]
)
def test_true_is_no_number_and_what_json_lacks_is_the_same_as_nothing(one: Any, other: Any) -> None:
    assert not same_json(one, other)


def test_values_may_nest_as_deep_as_json_is_read() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert same_json(deep, deep)
    while deep:  # freed level by level: to free it at once would recurse
        deep = deep[0]


@pytest.mark.parametrize("loop", [Bare(), Finish(max_steps=4), Phased()], ids=lambda loop: loop.name)
@pytest.mark.parametrize(
    ("edit", "shown"),
    [
        ({"cents": True}, {"cents": 1, "more": [], "by": {}}),
        ({"cents": 5, "more": [False]}, {"cents": 5, "more": [0], "by": {}}),
        ({"cents": 5, "by": {"ann": True}}, {"cents": 5, "more": [], "by": {"ann": 1}}),
    ],
)
def test_an_edited_true_that_becomes_a_number_is_asked_again(loop: Loop, edit: dict[str, Any], shown: dict[str, Any]) -> None:
    paid: list[Any] = []

    def refund(cents: int, more: list[int] = [], by: dict[str, int] = {}) -> str:  # noqa: B006
        """Give money back."""
        paid.append((cents, more, by))
        return "done"

    checkpoint, tools = Checkpoint(needs_approval=["refund"]), Toolbox([refund])
    model = FakeModel.script([ToolCall("refund", {"cents": 5})], "Done.")
    resumable = Resumable(loop, checkpoint)
    with pytest.raises(ApprovalRequired):
        resumable.run_sync(Query("Pay."), tools, model)
    checkpoint.approve(checkpoint.pending[0], arguments=edit)
    with pytest.raises(ApprovalRequired, match=CONVERTED):
        resumable.run_sync(Query("Pay."), tools, model)
    assert paid == []
    assert json.dumps(checkpoint.pending[0].arguments) == json.dumps(shown)
    checkpoint.approve(checkpoint.pending[0])
    assert resumable.run_sync(Query("Pay."), tools, model).answer == "Done."
    assert paid == [tuple(shown.values())]


def test_a_person_is_shown_the_number_that_a_tool_gets_of_true_and_gives_it_back_as_a_browser_does() -> None:
    paid: list[Any] = []

    def refund(cents: int, rate: float) -> str:
        """Give money back."""
        paid.append((cents, rate))
        return "done"

    checkpoint, tools = Checkpoint(needs_approval=["refund"]), Toolbox([refund])
    model = FakeModel.script([ToolCall("refund", {"cents": True, "rate": 5.0})], "Done.")
    with pytest.raises(ApprovalRequired):
        Resumable(Bare(), checkpoint).run_sync(Query("Pay."), tools, model)
    assert json.dumps(checkpoint.pending[0].arguments) == '{"cents": 1, "rate": 5.0}'
    checkpoint.approve(checkpoint.pending[0], arguments={"cents": 1, "rate": 5})
    assert Resumable(Bare(), checkpoint).run_sync(Query("Pay."), tools, model).answer == "Done."
    assert json.dumps(paid) == "[[1, 5.0]]"
