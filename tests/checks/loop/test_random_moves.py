"""The moves, replies and conversations that the laws are tried with."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.checks.loop.contract import illegal
from whichloop.checks.loop.random_moves import any_move, any_reply
from whichloop.checks.loop.template_loop import ObjectCodec
from whichloop.models.scripted_calls import NATIVE
from whichloop.protocol import Act, Answer, Codec, Inexpressible, Message, Move, NativeCall, Reply, ToolCall, WireError


@given(st.integers())
@settings(max_examples=cases(100), deadline=None)
def test_moves_and_replies_are_the_same_for_a_seed(seed):
    one, other = random.Random(seed), random.Random(seed)
    assert repr(any_move(one))[:30] == repr(any_move(other))[:30]  # beyond, an object may show its address
    assert any_reply(random.Random(seed), Reply("{}")) == any_reply(random.Random(seed), Reply("{}"))


def expressed(codec: Codec, move: Move) -> Reply | None:
    try:
        return codec.render(move)
    except Inexpressible:
        return None


def reads(codec: Codec, reply: Reply) -> bool:
    try:
        return isinstance(codec.parse(reply), Act | Answer)
    except WireError:
        return False


def test_they_are_of_all_kinds_and_many_can_be_said_or_read():
    rng, codec = random.Random(0), ObjectCodec()
    moves = [any_move(rng) for _ in range(400)]
    assert {type(move).__name__ for move in moves if expressed(NATIVE, move)} == {"Act", "Answer"}
    assert {type(move).__name__ for move in moves} == {"Act", "Answer", "Understanding", "Tasks", "Completion", "Recovery", "Text"}
    sound = codec.render(Act("Add.", (ToolCall("add", {"a": 1}),)))
    replies = random.Random(0)
    assert {reads(codec, any_reply(replies, sound)) for _ in range(300)} == {True, False}


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """A system message, then texts and calls with their results in any order."""
    made = [Message("system", "Be brief.")] if draw(st.booleans()) else []
    made.append(Message("user", "Well?"))
    for _ in range(draw(st.integers(0, 4))):
        ids = draw(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=3))
        made.append(Message("assistant", "Hm.", tuple(NativeCall(name, "add", "{}") for name in ids)))
        made += [Message("tool", "3", call_id=name) for name in draw(st.permutations(ids))]
    return made


@given(conversations(), st.data())
def test_a_legal_conversation_is_no_more_once_a_result_is_lost_doubled_or_moved(messages, data):
    assert illegal(messages) == ""
    results = [index for index, message in enumerate(messages) if message.role == "tool"]
    if results:
        at = data.draw(st.sampled_from(results))
        result = messages[at]
        assert illegal([*messages[:at], *messages[at + 1 :]])
        assert illegal([*messages[:at], result, *messages[at:]])
        assert illegal([result, *messages[:at], *messages[at + 1 :]])
    assert illegal([*messages, Message("system", "Be long.")])
