"""What only Anthropic's Messages have: blocks, versions, threads, and arguments that are an object."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.wires.base import BadRequest, Incoming, Stamp, WireRequest
from whichloop.models.wires.messages import MESSAGES
from whichloop.protocol import Message, NativeCall, Reply, Sampling, ToolSpec, Usage

from .test_wires import STAMP, objects
from .wire_clients import CLIENTS
from .wire_refusals import ADD, TEXT, USER

SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def ask(*messages: Any, page: str = "", **fields: Any) -> WireRequest:
    body = {"model": "scripted", "messages": list(messages or [USER]), **({} if page else {"max_tokens": 99}), **fields}
    path = ("v1", "messages", page) if page else ("v1", "messages")
    return MESSAGES.read(Incoming(body, path, headers=CLIENTS["messages"].headers))


def test_blocks_become_messages() -> None:
    calls = [
        {"type": "tool_use", "id": "toolu_call_7", "name": "add", "input": {"a": 1, "b": "é"}},
        {"type": "tool_use", "id": "other", "name": "add", "input": {"INVALID_JSON": '{"a": '}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_call_7", "content": [TEXT, TEXT]},
        {"type": "tool_result", "tool_use_id": "other", "content": "no JSON", "is_error": True},
    ]
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    talk = [USER, {"role": "assistant", "content": [thought, TEXT, *calls]}, {"role": "user", "content": [*results, TEXT]}]
    asked = ask(
        *talk, system=[TEXT, TEXT | {"cache_control": {"type": "ephemeral"}}], tools=[ADD | {"description": "Adds."}, SEARCH]
    )
    assert asked.request.messages == (
        Message("system", "And?\nAnd?"),
        Message("user", "?"),
        Message("assistant", "And?", (NativeCall("call_7", "add", '{"a": 1, "b": "é"}'), NativeCall("other", "add", '{"a": '))),
        Message("tool", "And?\nAnd?", call_id="call_7"),
        Message("tool", "Error: no JSON", call_id="other"),
        Message("user", "And?"),
    )
    assert asked.request.tools == (ToolSpec("add", "Adds.", ADD["input_schema"]),)  # type: ignore[arg-type]


def test_fields_that_coding_agents_send_are_read() -> None:
    unused: Any = {"thinking": {"type": "adaptive"}, "context_management": {"edits": []}, "output_config": {"effort": "high"}}
    asked = ask(**unused, stop_sequences=["END"], temperature=0.5, top_k=40, stream=True, metadata={"user_id": "u"})
    assert (asked.request.sampling, asked.stream) == (Sampling(0.5, 99, None, None, ("END",)), True)
    one_at_a_time = ask(tools=[ADD], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert not one_at_a_time.request.parallel_calls
    schema = {"type": "object", "additionalProperties": False}
    assert ask(output_config={"format": {"type": "json_schema", "schema": schema}}).request.response_schema == schema


def test_a_version_is_needed_and_a_count_needs_no_limit() -> None:
    with pytest.raises(BadRequest, match="anthropic-version"):
        MESSAGES.read(Incoming({"model": "m", "max_tokens": 9, "messages": [USER]}, ("v1", "messages")))
    assert ask(page="count_tokens").request.messages == (Message("user", "?"),)


@pytest.mark.parametrize(
    ("tools", "choice", "read"),
    [
        ([SEARCH], {"type": "any"}, "auto"),
        ([ADD, SEARCH], {"type": "any"}, "required"),
        ([ADD, SEARCH], {"type": "tool", "name": "web_search"}, "auto"),
    ],
)
def test_a_forced_tool_of_anthropic_s_is_no_tool_of_the_model(tools: list[Any], choice: Any, read: str) -> None:
    assert ask(tools=tools, tool_choice=choice).request.tool_choice == read


@given(objects.filter(lambda text: len(text) > 2), st.data())
def test_of_arguments_that_are_cut_a_whole_reply_has_what_is_certain(written: str, data: st.DataObject) -> None:
    cut = written[: data.draw(st.integers(0, len(written) - 1))]
    body = MESSAGES.reply(ask(), Reply("", (NativeCall("call_0", "add", cut),), Usage(3, 4), "length"), STAMP)
    left = body["content"][0]["input"]
    assert set(left) <= set(MESSAGES.reply(ask(), Reply("", (NativeCall("c", "add", written),)), STAMP)["content"][0]["input"])


def test_a_reply_at_a_stop_sequence_names_it_and_one_of_nothing_has_no_block() -> None:
    body = MESSAGES.reply(ask(), Reply("", usage=Usage(3, 0)), Stamp("0", 0, stopped_at="END"))
    assert (body["stop_reason"], body["stop_sequence"], body["content"]) == ("stop_sequence", "END", [])


def test_what_is_read_from_the_cache_is_no_input() -> None:
    asked, reply = ask(), Reply("x", usage=Usage(100, 5, 60))
    first = next(MESSAGES.events(asked, reply, STAMP))["message"]
    for usage in (MESSAGES.reply(asked, reply, STAMP)["usage"], first["usage"]):
        assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (40, 60)
