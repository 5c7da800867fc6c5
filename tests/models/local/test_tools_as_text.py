"""Native tools as text: what is offered, called and answered comes back as it was."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.local.model import with_calls_read, with_tools_as_text
from whichloop.protocol import Message, NativeCall, Reply, Request, ToolSpec

ADD = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=4)
CALLS = st.lists(st.tuples(st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3)), min_size=1, max_size=4)
ASKED = Request((Message("user", "How much?"),), (ADD,))


@given(CALLS)
def test_calls_that_are_shown_again_are_read_as_the_same_calls(stated):
    calls = tuple(NativeCall(f"call_{place}", name, json.dumps(arguments)) for place, (name, arguments) in enumerate(stated))
    (shown,) = with_tools_as_text(Request((Message("assistant", "", calls),))).messages
    read = with_calls_read(Reply(shown.content), ASKED)
    if "</tool_call>" not in "".join(call.name + call.arguments for call in calls):  # a tag within a call ends it
        assert [(call.name, json.loads(call.arguments)) for call in read.calls] == [(name, given) for name, given in stated]
        assert (read.text, read.finish_reason) == ("", "tool_calls")


@given(st.text())
def test_any_text_is_a_reply_and_without_tools_it_is_left_as_it_is(text):
    assert with_calls_read(Reply(text), Request(ASKED.messages)) == Reply(text)
    read = with_calls_read(Reply(text), ASKED)
    assert read == Reply(text) or read.calls


def test_the_offer_joins_the_system_message_and_results_are_a_turn_of_the_user():
    call = NativeCall("1", "add", '{"a": 1}')
    talk = (
        Message("system", "Be brief."),
        Message("user", "?"),
        Message("assistant", "I add.", (call, call)),
        Message("tool", "2", call_id="1"),
        Message("tool", "3", call_id="1"),
    )
    sent = with_tools_as_text(Request(talk, (ADD,)))
    assert [message.role for message in sent.messages] == ["system", "user", "assistant", "user"]
    assert sent.messages[0].content.startswith("Be brief.\n\n# Tools")
    assert json.dumps(ADD.parameters) in sent.messages[0].content
    assert sent.messages[2].content.startswith("I add.\n<tool_call>\n")
    assert sent.messages[3].content == "<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response>"
    assert sent.tools == ()


def test_without_a_system_message_the_offer_is_one_and_none_is_made_where_calls_are_forbidden():
    assert with_tools_as_text(ASKED).messages[0].role == "system"
    forbidden = Request(ASKED.messages, (ADD,), "none")
    assert with_tools_as_text(forbidden).messages == ASKED.messages
    called = Reply('<tool_call>{"name": "add"}</tool_call>')
    assert with_calls_read(called, forbidden) == called


def test_calls_are_numbered_on_from_those_of_the_talk_so_that_each_result_names_one():
    told, said = ASKED.messages, Reply('<tool_call>{"name": "add"}</tool_call>' * 2)
    seen: list[str] = []
    for _ in range(3):
        calls = with_calls_read(said, Request(told, (ADD,))).calls
        seen += [call.id for call in calls]
        told = (*told, Message("assistant", "", calls))
    assert seen == [f"call_{number}" for number in range(6)]
    later = (Message("assistant", "", (NativeCall("call_7", "add", "{}"), NativeCall("call_x", "add", "{}"))),)
    assert [call.id for call in with_calls_read(said, Request(later, (ADD,))).calls] == ["call_8", "call_9"]


def test_text_round_a_call_is_kept_and_a_call_that_is_none_stays_text():
    (call,) = with_calls_read(Reply('So:\n<tool_call>\n{"name": "add"}'), ASKED).calls  # cut off before the closing tag
    assert (call.name, call.arguments) == ("add", "{}")
    mixed = Reply('Now <tool_call>{"name": "add"}</tool_call> and <tool_call>add(1)</tool_call>')
    assert with_calls_read(mixed, ASKED).text == "Now  and <tool_call>add(1)</tool_call>"
    nothing = Reply("<tool_call>[1]</tool_call>")
    assert with_calls_read(nothing, ASKED) == nothing
