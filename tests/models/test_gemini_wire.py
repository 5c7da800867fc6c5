"""Gemini's API, the server's side: what is said reads back as it was, and no body does more harm than to be refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.server.server import segments, wire_for
from whichloop.models.wires.base import MAX_DEPTH, BadRequest, Incoming, Stamp, WireFailure, WireRequest
from whichloop.models.wires.chat import CHAT
from whichloop.models.wires.gemini import GEMINI, read_request, signature
from whichloop.protocol import Message, NativeCall, Reply, Request, Role, Sampling, ToolSpec, Usage
from whichloop.protocol.wire import to_json

USER = {"role": "user", "parts": [{"text": "hello"}]}
ADD = {"name": "add", "description": "Adds.", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}}
ASKED = WireRequest(Request(()), "scripted", stream=True)
STAMP = Stamp("0123", 5)

names = st.text(min_size=1, max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
arguments = st.dictionaries(st.text(max_size=8), json_values, max_size=3).map(json.dumps)
usages = st.builds(Usage, st.integers(0, 999), st.integers(0, 999), st.integers(0, 99))
sound_replies = st.builds(
    Reply,
    st.text(max_size=60),
    st.lists(st.builds(NativeCall, names, names, arguments), max_size=3).map(tuple),
    st.none() | usages,
    st.sampled_from(["stop", "length", "content_filter"]),
)
texts_that_are_no_object = st.text(max_size=20).filter(lambda text: not text.strip().startswith("{")).filter(bool)


def ask(**fields: Any) -> dict[str, Any]:
    return {"contents": [USER], **fields}


def failure(body: Any, verb: str = "generateContent") -> BadRequest | None:
    try:
        read_request(body, "scripted", verb)
    except BadRequest as error:
        return error
    return None


def refused(body: Any) -> BadRequest:
    error = failure(body)
    assert error is not None
    return error


# --- what is said ---


def read_back(bodies: list[Any]) -> Reply:
    """Read a reply, or the chunks of one, as a client does."""
    said, calls, usage, finish = "", list[NativeCall](), None, ""
    for body in json.loads(json.dumps(bodies)):
        (candidate,) = body["candidates"]
        assert not finish, "nothing may follow the chunk that ends the reply"
        finish = candidate.get("finishReason", "")
        for part in candidate["content"].get("parts", ()):
            said += part.get("text", "")
            if call := part.get("functionCall"):
                assert part["thoughtSignature"] == signature(call["id"])
                calls.append(NativeCall(call["id"], call["name"], json.dumps(call["args"])))
        if (counts := body.get("usageMetadata")) is not None:
            taken, given = counts.get("promptTokenCount", 0), counts.get("candidatesTokenCount", 0)
            assert counts.get("totalTokenCount", 0) == taken + given
            usage = Usage(taken, given, counts.get("cachedContentTokenCount", 0))
    reasons: dict[str, Any] = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}
    return Reply(said, tuple(calls), usage, reasons.get(finish, "other"))


@given(sound_replies)
def test_a_reply_reads_back_as_it_was(reply):
    body = GEMINI.reply(ASKED, reply, STAMP)
    assert same(read_back([body]), reply)
    assert (body["responseId"], body["modelVersion"]) == ("0123", "scripted")


@given(sound_replies)
def test_the_chunks_of_a_stream_make_the_whole(reply):
    bodies = [event.data for event in GEMINI.events(ASKED, reply, STAMP)]
    assert same(read_back(bodies), reply)
    assert all("finishReason" not in body["candidates"][0] for body in bodies[:-1])


def same(read: Reply, said: Reply) -> bool:
    """Whether two replies say the same, whatever white space the arguments of their calls have."""
    calls = [[(call.id, call.name, to_json(json.loads(call.arguments))) for call in reply.calls] for reply in (read, said)]
    return (read.text, read.usage, read.finish_reason) == (said.text, said.usage, said.finish_reason) and calls[0] == calls[1]


@given(sound_replies, texts_that_are_no_object, st.booleans())
def test_a_call_whose_arguments_are_no_object_ends_the_reply_as_malformed(reply, spoiled, stream):
    broken = Reply(reply.text, (*reply.calls, NativeCall("c", "add", spoiled)), reply.usage, "tool_calls")
    bodies = [event.data for event in GEMINI.events(ASKED, broken, STAMP)] if stream else [GEMINI.reply(ASKED, broken, STAMP)]
    candidate = bodies[-1]["candidates"][0]
    assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"
    assert candidate["finishMessage"].endswith(f"print(default_api.add({spoiled}))")
    assert read_back(bodies).calls == ()


def test_a_reply_that_is_cut_off_in_a_call_keeps_what_is_whole():
    calls = (NativeCall("a", "add", '{"a": 1}'), NativeCall("b", "add", '{"a": '))
    body = GEMINI.reply(ASKED, Reply("", calls, None, "length"), STAMP)
    assert body["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert [call.id for call in read_back([body]).calls] == ["a"]


def test_an_empty_reply_has_a_content_without_parts():
    (candidate,) = GEMINI.reply(ASKED, Reply(), STAMP)["candidates"]
    assert candidate == {"content": {"role": "model"}, "finishReason": "STOP", "index": 0}


def test_a_reply_of_calls_says_so_where_gemini_does():
    body = GEMINI.reply(ASKED, Reply("", (NativeCall("a", "add", "{}"),)), STAMP)
    assert body["candidates"][0]["finishMessage"] == "Model generated function call(s)."


# --- errors ---


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (405, "UNIMPLEMENTED"),
        (413, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ],
)
def test_an_error_has_the_name_of_its_status(status, name):
    answer = GEMINI.failure(WireFailure(status, "no"))
    assert (answer.status, answer.body) == (status, {"error": {"code": status, "message": "no", "status": name}})


def test_how_long_to_wait_stands_in_the_body_and_in_no_header():
    answer = GEMINI.failure(WireFailure(429, "Slow down.", wait_s=1.5))
    assert answer.body["error"]["message"] == "Slow down. Please retry in 1.5s."
    assert answer.body["error"]["details"] == [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]
    assert answer.headers == {}


def test_a_field_that_cannot_be_read_is_named_in_the_details():
    error = refused(ask(generationConfig={"topK": "many"}))
    answer = GEMINI.failure(WireFailure(400, str(error), error.param, error.code)).body["error"]
    (detail,) = answer["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert detail["fieldViolations"] == [{"field": "generation_config.top_k", "description": answer["message"]}]


# --- what is addressed to it ---


@pytest.mark.parametrize(
    ("target", "headers", "wire", "kind"),
    [
        ("/v1beta/models/scripted:generateContent", {}, GEMINI, "reply"),
        ("/v1beta/models/scripted/flaky-tools:streamGenerateContent?alt=sse", {}, GEMINI, "reply"),
        ("/v1beta/models/scripted%2Fflaky-tools:countTokens", {}, GEMINI, "count"),
        ("/v1/models/scripted:generateContent", {}, GEMINI, "reply"),
        ("/v1beta/models", {}, GEMINI, "models"),
        ("/v1/models", {"x-goog-api-key": "k"}, GEMINI, "models"),
        ("/v1beta/models/scripted:embedContent", {}, GEMINI, None),
        ("/v1beta/files", {}, GEMINI, None),
        ("/v1/models/ft:gpt-4o:x:generateContent", {}, GEMINI, "reply"),
        ("/v1/models/scripted:embedContent", {}, GEMINI, None),
        ("/v1/models/ft:gpt-4o:x", {}, CHAT, "models"),
        ("/v1/models/generateContent", {}, CHAT, "models"),
        ("/v1/models", {}, CHAT, "models"),
        ("/v1/chat/completions", {}, CHAT, "reply"),
        ("/v1/chat/completions", {"x-goog-api-key": "k"}, CHAT, "reply"),
    ],
)
def test_which_requests_are_meant_for_gemini(target, headers, wire, kind):
    path = segments(target)
    page = wire_for(path, headers).page(path)
    assert (wire_for(path, headers), page and page.kind) == (wire, kind)


@pytest.mark.parametrize(("query", "listed"), [({"alt": "sse"}, False), ({}, True), ({"alt": "json"}, True)])
def test_the_model_and_the_form_of_a_stream_stand_in_the_address(query, listed):
    path = segments("/v1beta/models/scripted/flaky-tools:streamGenerateContent")
    asked = GEMINI.read(Incoming(ask(), path, query))
    assert (asked.model, asked.stream, asked.listed) == ("scripted/flaky-tools", True, listed)


# --- what is read ---

ALL = {
    "systemInstruction": {"parts": [{"text": "Be "}, {"text": "brief."}]},
    "contents": [
        {"parts": [{"text": "1 + "}, {"text": "1?"}]},
        {
            "role": "model",
            "parts": [
                {"text": "I ponder.", "thought": True},
                {"text": "I add."},
                {"functionCall": {"id": "c", "name": "add", "args": {"a": 1, "b": 1}}, "thoughtSignature": "AAAA"},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "add", "response": {"result": "2"}}}]},
    ],
    "tools": [{"functionDeclarations": [ADD]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}},
    "generationConfig": {
        "temperature": 0.5,
        "maxOutputTokens": 9,
        "topP": 1,
        "topK": 40,
        "seed": 3,
        "stopSequences": ["END"],
        "candidateCount": 1,
        "thinkingConfig": {"thinkingBudget": 0},
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
    "labels": {"role": "plan", "scope": "s", "examples": "2"},
}


def in_snake_case(value: Any) -> Any:
    """Write the names of all fields as protocol buffers declare them."""
    if isinstance(value, list):
        return [in_snake_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in name): in_snake_case(inner) for name, inner in value.items()}


@pytest.mark.parametrize("body", [ALL, in_snake_case(ALL)], ids=["camelCase", "snake_case"])
def test_every_field_of_a_request_is_read(body):
    asked = read_request(body, "scripted")
    request = asked.request
    assert request.messages == (
        Message("system", "Be brief."),
        Message("user", "1 + 1?"),
        Message("assistant", "I add.", (NativeCall("c", "add", '{"a": 1, "b": 1}'),)),
        Message("tool", "2", call_id="c"),
    )
    assert request.tools == (ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}),)
    assert (request.tool_choice, request.response_schema, request.parallel_calls) == ("add", None, True)
    assert request.sampling == Sampling(0.5, 9, 1, 3, ("END",))
    assert (request.role, request.scope, request.codec, request.examples) == (Role.PLAN, "s", None, 2)
    assert (asked.model, asked.stream, asked.metadata) == ("scripted", False, {"role": "plan", "scope": "s", "examples": "2"})


def test_a_count_may_be_of_a_whole_request():
    whole = {"generateContentRequest": {"model": "models/scripted", **ALL}}
    assert read_request(whole, "scripted", "countTokens").request == read_request(ALL, "scripted").request
    error = failure({"generateContentRequest": {"contents": []}}, "countTokens")
    assert error is not None
    assert error.param == "generate_content_request.contents"


def test_one_item_stands_for_a_list_of_one():
    body = {"contents": {"parts": {"text": "hello"}}, "systemInstruction": {"parts": {"text": "s"}}}
    assert read_request(body, "m").request.messages == (Message("system", "s"), Message("user", "hello"))


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"mode": "AUTO"}, "auto"),
        ({"mode": "auto"}, "auto"),
        ({"mode": "ANY"}, "required"),
        ({"mode": "NONE"}, "none"),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["add"]}, "auto"),
        ({"mode": "ANY", "allowedFunctionNames": ["add"]}, "add"),
        ({"mode": "ANY", "allowedFunctionNames": ["add", "sub"]}, "required"),
        ({}, "auto"),
        (None, None),
    ],
)
def test_tool_choices(given, read):
    tools = [{"functionDeclarations": [ADD, ADD | {"name": "sub"}]}]
    assert read_request(ask(tools=tools, toolConfig={"functionCallingConfig": given}), "m").request.tool_choice == read


@pytest.mark.parametrize(
    ("config", "read"),
    [
        ({"responseMimeType": "text/plain"}, None),
        ({"responseMimeType": "application/json"}, {}),
        ({"responseMimeType": "application/json", "responseSchema": {"type": "STRING"}}, {"type": "string"}),
        ({"responseMimeType": "application/json", "responseJsonSchema": {"const": 1}}, {"const": 1}),
    ],
)
def test_the_schema_of_a_reply(config, read):
    assert read_request(ask(generationConfig=config), "m").request.response_schema == read


def test_a_schema_becomes_json_schema():
    given = {
        "type": "OBJECT",
        "properties": {
            "name": {"type": "INTEGER", "nullable": True, "minimum": 1, "format": "int32"},
            "s": {"type": "STRING", "enum": ["a", "b"], "title": "S", "example": "a"},
            "l": {"type": "ARRAY", "items": {"any_of": [{"type": "number"}, {"type": "NULL"}]}, "maxItems": "3"},
        },
        "required": "name",
        "propertyOrdering": ["s", "name", "l"],
    }
    declared = {"name": "f", "parameters": given}
    (tool,) = read_request(ask(tools=[{"function_declarations": [declared]}]), "m").request.tools
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": ["integer", "null"], "minimum": 1, "format": "int32"},
            "s": {"type": "string", "enum": ["a", "b"], "title": "S"},
            "l": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "maxItems": 3},
        },
        "required": ["name"],
    }


def test_parameters_may_be_json_schema_and_google_s_own_tools_are_passed_over():
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": False}
    assert read_request(ask(tools=[{"googleSearch": {}}]), "m").request.tools == ()
    declared = [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}]
    assert read_request(ask(tools=declared), "m").request.tools == (ToolSpec("f", "", schema),)


# --- what is refused ---


@given(json_values)
def test_any_body_is_read_or_refused(body):
    with pytest.raises(BadRequest):
        read_request(body, "m")


REQUEST_FIELDS = [
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "labels",
    "safetySettings",
    "tool_config",
]


@given(st.sampled_from(REQUEST_FIELDS), json_values)
def test_any_field_is_read_or_refused(field, value):
    error = failure(ask(**{field: value}))
    assert error is None or str(error)


PART_FIELDS = st.sampled_from(["text", "functionCall", "functionResponse", "thought", "thoughtSignature", "inlineData"])
INNER_FIELDS = st.sampled_from(["id", "name", "args", "response"])
part_values = json_values | st.dictionaries(INNER_FIELDS, json_values, max_size=3)
contents = st.dictionaries(
    st.sampled_from(["role", "parts"]),
    json_values | st.sampled_from(["user", "model"]) | st.lists(st.dictionaries(PART_FIELDS, part_values, max_size=2), max_size=3),
)


@given(st.lists(contents, min_size=1, max_size=4))
def test_any_contents_are_read_or_refused_by_their_place(given_contents):
    error = failure({"contents": given_contents})
    assert error is None or (error.param or "").startswith("contents")


SCHEMA_FIELDS = st.sampled_from(["type", "properties", "items", "anyOf", "required", "enum", "nullable", "maxItems", "minimum"])
schemas = st.recursive(
    json_values, lambda inner: st.dictionaries(SCHEMA_FIELDS, inner | st.lists(inner, max_size=2), max_size=4), max_leaves=12
)


@given(schemas)
def test_any_schema_is_read_or_refused_by_its_place(schema):
    error = failure(ask(tools=[{"functionDeclarations": [{"name": "f", "parameters": schema}]}]))
    assert error is None or (error.param or "").startswith("tools[0].function_declarations[0]")


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"contents": ["hi"]}, "contents[0]"),
        ({"contents": [USER | {"parts": [{"text": 3}]}]}, "contents[0].parts[0].text"),
        ({"contents": [USER | {"parts": [{"text": "a", "functionCall": {"name": "f"}}]}]}, "contents[0].parts[0]"),
        ({"contents": [USER | {"parts": [{"inlineData": {}}]}]}, "contents[0].parts[0].inline_data"),
        ({"contents": [USER | {"parts": [{"functionCall": {"name": ""}}]}]}, "contents[0].parts[0].function_call.name"),
        (
            {"contents": [USER | {"parts": [{"functionCall": {"name": "f", "args": [1]}}]}]},
            "contents[0].parts[0].function_call.args",
        ),
        ({"systemInstruction": "Be brief."}, "system_instruction"),
        ({"systemInstruction": {"parts": [{"inlineData": {}}]}}, "system_instruction.parts[0]"),
        ({"generationConfig": {"temperature": True}}, "generation_config.temperature"),
        ({"generationConfig": {"temperature": 2.1}}, "generation_config.temperature"),
        ({"generationConfig": {"maxOutputTokens": 0}}, "generation_config.max_output_tokens"),
        ({"generationConfig": {"maxOutputTokens": 1.5}}, "generation_config.max_output_tokens"),
        ({"generationConfig": {"stopSequences": [1]}}, "generation_config.stop_sequences[0]"),
        ({"generationConfig": {"responseMimeType": "text/x.enum"}}, "generation_config.response_mime_type"),
        ({"generationConfig": [1]}, None),
        (
            {"tools": [{"functionDeclarations": [ADD]}], "toolConfig": {"functionCallingConfig": {"mode": "SOME"}}},
            "tool_config.function_calling_config.mode",
        ),
        (
            {"tools": [{"functionDeclarations": [ADD | {"parametersJsonSchema": {}}]}]},
            "tools[0].function_declarations[0].parameters_json_schema",
        ),
        (
            {"tools": [{"functionDeclarations": [ADD | {"parameters": {"type": "OBJECT", "maxProperties": "x"}}]}]},
            "tools[0].function_declarations[0].parameters.max_properties",
        ),
        ({"labels": {"role": "boss"}}, "metadata.role"),
    ],
)
def test_what_is_malformed_is_refused_by_name(change, param):
    assert refused(ask(**change)).param == param


@pytest.mark.parametrize("body", [None, [], "x", 3])
def test_a_body_that_is_no_object_is_refused(body):
    assert "Root element must be a message" in str(refused(body))


def test_deep_nesting_is_refused():
    value: Any = {}
    for _ in range(MAX_DEPTH):
        value = {"items": value}
    assert "nested" in str(refused(ask(generationConfig={"responseMimeType": "application/json", "responseSchema": value})))
