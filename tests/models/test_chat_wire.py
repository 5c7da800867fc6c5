"""OpenAI's format, the server's side: what is said reads back as it was, and no body does more harm than to be refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.wires.base import MAX_DEPTH, BadRequest
from whichloop.models.wires.chat import chunks, completion, read_request
from whichloop.models.wires.openai_fields import error_body
from whichloop.protocol import Message, NativeCall, Reply, Role, Sampling, ToolSpec, Usage
from whichloop.protocol.wire import to_json

USER = {"role": "user", "content": "hello"}
PARAMETERS = {"type": "object", "properties": {}}
ADD = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}

names = st.text(min_size=1, max_size=8)
calls = st.builds(NativeCall, names, names, st.text(max_size=40))
usages = st.builds(Usage, st.integers(0, 999), st.integers(0, 999), st.integers(0, 99))
replies = st.builds(
    Reply,
    st.text(max_size=60),
    st.lists(calls, max_size=3).map(tuple),
    st.none() | usages,
    st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "messages": [USER], **fields}


def failure(body: Any) -> BadRequest | None:
    try:
        read_request(body)
    except BadRequest as error:
        return error
    return None


def refused(body: Any) -> BadRequest:
    error = failure(body)
    assert error is not None
    return error


# --- what is said ---


def over_the_wire(data: Any) -> Any:
    return json.loads(json.dumps(data))


def read_call(data: Any) -> NativeCall:
    assert data["type"] == "function"
    return NativeCall(data["id"], data["function"]["name"], data["function"]["arguments"])


def read_usage(data: Any) -> Usage | None:
    if data is None:
        return None
    assert data["total_tokens"] == data["prompt_tokens"] + data["completion_tokens"]
    return Usage(data["prompt_tokens"], data["completion_tokens"], data["prompt_tokens_details"]["cached_tokens"])


def read_completion(body: Any) -> Reply:
    (choice,) = body["choices"]
    message = choice["message"]
    made = tuple(map(read_call, message.get("tool_calls", ())))
    return Reply(message["content"] or "", made, read_usage(body.get("usage")), choice["finish_reason"])


def assembled(payloads: list[Any]) -> Reply:
    text, finish, usage = "", None, None
    found: dict[int, list[str]] = {}
    for payload in payloads:
        usage = payload.get("usage") or usage
        for choice in payload["choices"]:
            delta, finish = choice["delta"], choice["finish_reason"]
            text += delta.get("content") or ""
            for call in delta.get("tool_calls", ()):
                parts = found.setdefault(call["index"], ["", "", ""])
                parts[0] += call.get("id", "")
                parts[1] += call["function"].get("name", "")
                parts[2] += call["function"]["arguments"]
    assert finish is not None
    return Reply(text, tuple(NativeCall(*found[index]) for index in sorted(found)), read_usage(usage), finish)


@given(replies)
def test_a_completion_reads_back_as_the_reply(reply):
    body = over_the_wire(completion(reply, "m", "chatcmpl-1", 5))
    assert read_completion(body) == reply
    assert (body["object"], body["id"], body["created"], body["model"]) == ("chat.completion", "chatcmpl-1", 5, "m")


@given(replies)
def test_the_chunks_of_a_stream_make_the_whole(reply):
    payloads = over_the_wire(list(chunks(reply, "m", "i", 5, include_usage=True)))
    assert assembled(payloads) == reply
    assert payloads[0]["choices"][0]["delta"]["role"] == "assistant"
    assert payloads[-1]["choices"] == []
    assert all(payload["usage"] is None for payload in payloads[:-1])


@given(replies)
def test_without_being_asked_for_no_chunk_tells_the_usage(reply):
    payloads = list(chunks(reply, "m", "i", 5))
    assert all("usage" not in payload and payload["choices"] for payload in payloads)


def test_a_finish_that_openai_has_no_word_for_is_a_stop():
    assert completion(Reply("x", finish_reason="other"), "m", "i", 5)["choices"][0]["finish_reason"] == "stop"


def test_an_error_has_all_four_fields():
    assert error_body("no", "t") == {"error": {"message": "no", "type": "t", "param": None, "code": None}}


# --- what is read ---


@given(json_values)
def test_any_body_is_read_or_refused(body):
    with pytest.raises(BadRequest):
        read_request(body)


@given(
    st.sampled_from(
        [
            *("tools", "tool_choice", "parallel_tool_calls", "functions", "response_format", "stream", "stream_options"),
            *("temperature", "max_tokens", "max_completion_tokens", "top_p", "seed", "stop", "n"),
            *("metadata", "messages", "model", "user"),
        ]
    ),
    json_values,
)
def test_any_field_is_read_or_refused_with_its_name(field, value):
    error = failure(ask(**{field: value}))
    assert error is None or ((error.param or "").startswith(field) and str(error))


MESSAGE_FIELDS = st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "name"])


@given(st.lists(st.dictionaries(MESSAGE_FIELDS, json_values | st.sampled_from(["user", "tool", "assistant"])), min_size=1))
def test_any_messages_are_read_or_refused_by_their_place(messages):
    error = failure(ask(messages=messages))
    assert error is None or (error.param or "").startswith("messages")


EVERY_FIELD: dict[str, Any] = {
    "model": "scripted",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "1 + "}, {"type": "text", "text": "1?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":1}'}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "2"},
    ],
    "tools": [ADD],
    "tool_choice": {"type": "function", "function": {"name": "add"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "integer"}}},
    "temperature": 0.5,
    "max_completion_tokens": 9,
    "top_p": 1,
    "seed": 3,
    "stop": "END",
    "stream": True,
    "stream_options": {"include_usage": True},
    "parallel_tool_calls": False,
    "metadata": {"role": "plan", "scope": "s", "codec": "k", "examples": "2"},
    "user": "ignored",
}


def test_every_field_of_a_request_is_read():
    asked = read_request(EVERY_FIELD)
    request = asked.request
    assert request.messages == (
        Message("system", "Be brief."),
        Message("user", "1 + 1?"),
        Message("assistant", "", (NativeCall("c", "add", '{"a": 1, "b": 1}'),)),
        Message("tool", "2", call_id="c"),
    )
    assert request.tools == (ToolSpec("add", "Adds.", PARAMETERS),)
    assert (request.tool_choice, request.response_schema) == ("add", {"type": "integer"})
    assert request.sampling == Sampling(0.5, 9, 1, 3, ("END",))
    assert (request.role, request.scope, request.codec, request.examples) == (Role.PLAN, "s", None, 2)
    assert (asked.model, asked.stream, asked.include_usage, asked.request.parallel_calls) == ("scripted", True, True, False)
    assert asked.metadata == {"role": "plan", "scope": "s", "codec": "k", "examples": "2"}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, {}),
        (None, None),
    ],
)
def test_response_formats(given, read):
    asked = ask(response_format=given, messages=[{"role": "user", "content": "hello, as JSON"}])
    assert read_request(asked).request.response_schema == read


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (None, None),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"function": {"name": "add"}}]}}, "add"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "add"}}]}}, "auto"),
    ],
)
def test_tool_choices(choice, read):
    assert read_request(ask(tools=[ADD], tool_choice=choice)).request.tool_choice == read


@given(st.dictionaries(names, json_values, max_size=3), st.booleans(), st.booleans())
def test_arguments_of_the_history_are_written_as_the_model_writes_them(arguments, ascii_only, compact):
    """Whatever white space and escapes a client's JSON has."""
    text = json.dumps(arguments, ensure_ascii=ascii_only, separators=(",", ":") if compact else None)
    assert read_arguments(text) == to_json(arguments) or "_unparsed" in arguments


@given(st.text(max_size=30))
def test_arguments_that_are_no_json_come_back_as_they_were(text):
    assert read_arguments(json.dumps({"_unparsed": text})) == text


@pytest.mark.parametrize(
    ("text", "read"), [("", "{}"), ('{"a": ', '{"a": '), ("[1]", "[1]"), ('{"_unparsed": 1}', '{"_unparsed": 1}')]
)
def test_other_arguments(text, read):
    assert read_arguments(text) == read


def read_arguments(text: str) -> str:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": text}}
    history = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": ""}]
    message = read_request(ask(messages=history)).request.messages[0]
    return message.calls[0].arguments


CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": ""}, "model", "empty_string"),
        ({"model": 3}, "model", "invalid_type"),
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": []}, "messages", "empty_array"),
        ({"messages": {}}, "messages", "invalid_type"),
        ({"messages": [USER] * 10_001}, "messages", "array_above_max_length"),
        ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
        ({"messages": [USER, {"role": "function", "content": "x"}]}, "messages[1].role", "invalid_value"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.[0].content", None),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "invalid_type"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type", "invalid_value"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.[0].tool_call_id", None),
        (
            {"messages": [{"role": "assistant", "tool_calls": [CALL | {"function": {"name": "a", "arguments": {}}}]}]},
            "messages[0].tool_calls[0].function.arguments",
            "invalid_type",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": [CALL | {"id": 1}]}]}, "messages[0].tool_calls[0].id", "invalid_type"),
        ({"tools": [{"type": "web"}]}, "tools[0].type", "invalid_value"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "missing_required_parameter"),
        ({"tools": [ADD], "tool_choice": "sometimes"}, "tool_choice", "invalid_value"),
        ({"tools": [ADD], "tool_choice": {"type": "function", "function": {"name": "sub"}}}, "tool_choice", "invalid_value"),
        ({"tools": [ADD], "tool_choice": 3}, "tool_choice", "invalid_type"),
        ({"tool_choice": "required"}, "tool_choice", None),
        ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing_required_parameter"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"temperature": True}, "temperature", "invalid_type"),
        ({"temperature": 2.1}, "temperature", "value_out_of_range"),
        ({"max_tokens": 0}, "max_tokens", "value_out_of_range"),
        ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
        ({"stop": ["a"] * 5}, "stop", "array_above_max_length"),
        ({"stop": [1]}, "stop[0]", "invalid_type"),
        ({"n": 2}, "n", "unsupported_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": {"include_usage": True}}, "stream_options", None),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"metadata": {"a": "x" * 513}}, "metadata", "string_above_max_length"),
        ({"metadata": {str(i): "x" for i in range(17)}}, "metadata", "object_above_max_properties"),
        ({"metadata": {"role": "boss"}}, "metadata.role", "invalid_value"),
        ({"metadata": {"examples": 1}}, "metadata.examples", "invalid_type"),
        *(
            ({"metadata": {"examples": said}}, "metadata.examples", "invalid_value")
            for said in ("", "-1", "1.0", "²", "2", "9" * 500)
        ),
        ({"functions": []}, "functions", "unsupported_parameter"),
    ],
)
def test_what_is_malformed_is_refused_by_name(change, param, code):
    error = refused(ask(**change))
    assert (error.param, error.failure.code) == (param, code)


@pytest.mark.parametrize("body", [None, [], "x", 3])
def test_a_body_that_is_no_object_is_refused(body):
    assert "JSON" in str(refused(body))


def test_deep_nesting_is_refused_and_what_is_just_allowed_is_not():
    def nested(levels: int) -> Any:
        value: Any = {}
        for _ in range(levels):
            value = {"x": value}
        return value

    outer = 5  # body, response_format, json_schema, schema, and the innermost
    read_request(ask(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": nested(MAX_DEPTH - outer)}}))
    assert "nested" in str(refused(ask(x=nested(MAX_DEPTH))))
    assert "nested" in str(refused(ask(x=nested(50_000))))
