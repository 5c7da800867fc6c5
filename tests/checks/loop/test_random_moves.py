"""What conversation a provider would refuse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whichloop.checks.loop.contract import illegal
from whichloop.protocol import Message, NativeCall


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
