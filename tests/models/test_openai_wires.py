"""What only OpenAI's wires have: of Responses items, references to them and what a response repeats; of chat the older fields."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.server import answers
from whichloop.models.server.answers import Chat
from whichloop.models.wires.base import BadRequest, Incoming, Recall, Stamp, WireRequest
from whichloop.models.wires.chat import CHAT
from whichloop.models.wires.responses import RESPONSES
from whichloop.protocol import Message, NativeCall, Reply, Sampling, ToolSpec, Usage

from .test_wires import STAMP, objects, replies
from .wire_refusals import ITEM, OUTPUT, REASONING, USER

ADD = {"type": "function", "name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}
SEARCH = {"type": "web_search_preview_2025_03_11"}


def ask(recall: Recall = lambda _: None, **fields: Any) -> WireRequest:
    return RESPONSES.read(Incoming({"model": "scripted", "input": [USER], **fields}, recall=recall))


def test_items_become_messages_and_calls_belong_to_the_text_before_them() -> None:
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "So."}]}
    parts = [{"type": "input_text", "text": "4"}, {"type": "input_text", "text": "2"}]
    patch = {"type": "custom_tool_call", "call_id": "c9", "name": "patch", "input": "x"}
    items = [{"role": "developer", "content": "Add."}, USER, said, REASONING, ITEM, patch, ITEM | {"call_id": "c2", "id": "fc_1"}]
    asked = ask(instructions="Be short.", input=[*items, OUTPUT, OUTPUT | {"call_id": "c2", "output": parts}])
    read = asked.request.messages
    assert [message.role for message in read] == ["system", "system", "user", "assistant", "tool", "tool"]
    assert (read[3].content, [call.id for call in read[3].calls]) == ("So.", ["c1", "c2"])
    assert read[5] == Message("tool", "42", (), "c2")


def test_what_the_codex_command_line_sends_is_read() -> None:
    more: Any = {"client_metadata": {"a": "b"}, "access_programs": [], "include": ["reasoning.encrypted_content"], "store": False}
    tools = [ADD, {"type": "custom", "name": "patch", "format": {"type": "grammar"}}, SEARCH]
    asked = ask(tools=tools, tool_choice="auto", parallel_tool_calls=False, prompt_cache_key="k", stream=True, **more)
    assert [tool.name for tool in asked.request.tools] == ["add"]
    assert (asked.request.tool_choice, asked.request.parallel_calls, asked.stream) == ("auto", False, True)
    assert RESPONSES.remembered(asked, Reply("4"), STAMP) is None


@pytest.mark.parametrize(
    ("tools", "choice", "read"),
    [
        ([], "auto", None),
        ([ADD, SEARCH], "required", "required"),
        ([ADD, SEARCH], {"type": "web_search"}, None),
        ([ADD], {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}, "add"),
        ([ADD, SEARCH], {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}, "auto"),
    ],
)
def test_a_forced_tool_of_openai_s_is_no_tool_of_the_model(tools: list[Any], choice: Any, read: str | None) -> None:
    assert ask(tools=tools, tool_choice=choice).request.tool_choice == read


@given(replies())
def test_a_stream_ends_with_the_whole_and_what_is_cut_is_not_closed(reply: Reply) -> None:
    events = list(RESPONSES.events(ask(), reply, STAMP))
    whole = RESPONSES.reply(ask(), reply, STAMP)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (events[-1]["response"], events[-1]["type"]) == (whole, f"response.{whole['status']}")
    assert whole["output"][-1]["status"] == whole["status"]
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == whole["output"]
    for place, item in enumerate(whole["output"]):
        own = [event["type"] for event in events if event.get("output_index") == place]
        assert any(re.search(r"(text|arguments)\.done$", kind) for kind in own) == (item["status"] == "completed")


@given(st.lists(replies(), min_size=1, max_size=4))
def test_a_conversation_by_reference_is_the_one_that_is_passed_back(said: list[Reply]) -> None:
    chat, items = Chat(), [USER]
    asked = ask()
    for number, reply in enumerate(said):
        stamp = Stamp(f"{number:024x}", 1)
        chat.keep(RESPONSES.remembered(asked, reply, stamp))
        answer = RESPONSES.reply(asked, reply, stamp)
        new = [*(OUTPUT | {"call_id": call.id} for call in reply.calls), USER]
        referred = [{"type": "item_reference", "id": item["id"]} for item in answer["output"]]
        by_id = ask(chat.recall, input=new, previous_response_id=answer["id"])
        by_items = ask(chat.recall, input=[*items, *referred, *new])
        items += [*answer["output"], *new]
        asked = ask(input=items)
        assert by_id.request.messages == by_items.request.messages == asked.request.messages


def test_the_answers_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWERS", 2)
    chat = Chat()
    for number in range(3):
        chat.keep(RESPONSES.remembered(ask(), Reply("4"), Stamp(str(number), 1)))
    with pytest.raises(BadRequest):
        ask(chat.recall, previous_response_id="resp_0")
    assert len(ask(chat.recall, previous_response_id="resp_2").request.messages) == 3


PARAMETERS = {"type": "object", "properties": {}}
ADD_OF_CHAT = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}


def ask_chat(**fields: Any) -> Any:
    return CHAT.read(Incoming({"model": "scripted", "messages": [USER], **fields}))


def called_in_chat(arguments: str) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "add", "arguments": arguments}}


def test_every_field_of_a_request_is_read() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "1 + "}, {"type": "text", "text": "1?"}], "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": [called_in_chat('{"a":1,"b":"\\u00e9"}')]},
        {"role": "tool", "tool_call_id": "c", "content": "2"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}], "tool_calls": None},
    ]
    sampling = {"temperature": 0.5, "max_completion_tokens": 9, "top_p": 1, "seed": 3, "stop": "END", "n": 1, "functions": None}
    asked = ask_chat(messages=messages, tools=[ADD_OF_CHAT], parallel_tool_calls=False, stream=True, user="u", **sampling)
    assert asked.request.messages == (
        Message("system", "Be brief."),
        Message("user", "1 + 1?"),
        Message("assistant", "", (NativeCall("c", "add", '{"a": 1, "b": "é"}'),)),
        Message("tool", "2", call_id="c"),
        Message("assistant", "No."),
    )
    assert asked.request.tools == (ToolSpec("add", "Adds.", PARAMETERS),)
    assert asked.request.sampling == Sampling(0.5, 9, 1, 3, ("END",))
    assert (asked.model, asked.stream, asked.request.parallel_calls) == ("scripted", True, False)


@pytest.mark.parametrize(
    ("given_format", "read"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, {}),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "integer"}}}, {"type": "integer"}),
    ],
)
def test_formats_of_replies(given_format: Any, read: Any) -> None:
    said = [{"role": "user", "content": "hello, as JSON"}]
    assert ask_chat(response_format=given_format, messages=said).request.response_schema == read


@given(objects)
def test_arguments_of_the_history_are_written_as_the_model_writes_them(written: str) -> None:
    value = json.loads(written)
    for sent, read in (
        (json.dumps(value, separators=(",", ":")), written),
        (json.dumps({"_unparsed": f"{written}, "}), f"{written}, "),
    ):
        history = [
            {"role": "assistant", "tool_calls": [called_in_chat(sent)]},
            {"role": "tool", "tool_call_id": "c", "content": ""},
        ]
        assert ask_chat(messages=history).request.messages[0].calls[0].arguments == read


def test_a_stream_ends_with_the_usage_where_that_is_asked_for() -> None:
    reply = Reply("x", (), Usage(1, 2))
    *chunks, last = CHAT.events(ask_chat(stream=True, stream_options={"include_usage": True}), reply, STAMP)
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 3)
    assert all(chunk["usage"] is None for chunk in chunks)
    assert all("usage" not in chunk and chunk["choices"] for chunk in CHAT.events(ask_chat(stream=True), reply, STAMP))
