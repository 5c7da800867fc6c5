"""Anthropic's Messages, the server's side: what is said reads back as it was, and no body does more harm than to be refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopbench.models.wires.cache_marks import LOOKBACK
from loopbench.models.wires.contract import ErrorAnswer, Incoming, Room, Stamp, WireFailure, WireRequest
from loopbench.models.wires.fields import MAX_DEPTH, BadRequest
from loopbench.models.wires.messages import MESSAGES, read_request, stream_events
from loopbench.models.wires.partial_json import whole_members
from loopbench.protocol import Message, NativeCall, Reply, Role, Sampling, ToolSpec, Usage
from loopbench.protocol.wire import to_json

from .anthropic_cases import ADD, BODY, CALL, CALLING, HEADERS, KEPT, RESULT, TEXT, USER

STAMP = Stamp("0123456789abcdef01234567", 1_800_000_000)
ASKED = WireRequest(read_request(BODY).request, "scripted")
STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=6), json_values, max_size=3)
ids = st.text("abcXYZ019_-", min_size=1, max_size=8)
calls = st.builds(NativeCall, ids.map(lambda text: f"call_{text}") | ids, st.text(min_size=1, max_size=8), objects.map(to_json))
raw_calls = st.builds(NativeCall, ids, st.text(min_size=1, max_size=8), st.text(max_size=40))


def replies(made: Any) -> Any:
    finish = st.sampled_from(["stop", "tool_calls", "length", "content_filter"])
    usages = st.builds(Usage, st.integers(0, 999), st.integers(0, 999))
    return st.builds(Reply, st.text(max_size=60), st.lists(made, max_size=3).map(tuple), usages, finish)


def over_the_wire(data: Any) -> Any:
    return json.loads(json.dumps(data))


def read_usage(usage: Any) -> Usage:
    kept = usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
    return Usage(usage["input_tokens"] + kept, usage["output_tokens"])


def read_message(body: Any) -> Reply:
    """Read a message as its client does: arguments are an object."""
    text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    found = [
        NativeCall(block["id"], block["name"], to_json(block["input"])) for block in body["content"] if block["type"] == "tool_use"
    ]
    return Reply(text, tuple(found), read_usage(body["usage"]), STOPS[body["stop_reason"]])  # type: ignore[arg-type]


def assembled(events: list[Any]) -> dict[str, Any]:
    """Put a stream together as its client does, with the raw text of the input of each call."""
    message = dict(events[0]["message"])
    blocks: list[dict[str, Any]] = []
    for event in events[1:]:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append(event["content_block"] | {"raw": ""})
            case "content_block_delta":
                delta, block = event["delta"], blocks[event["index"]]
                block["text" if delta["type"] == "text_delta" else "raw"] += delta.get("text", delta.get("partial_json"))
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
    return message | {"content": blocks}


# --- what is said ---


def expected(reply: Reply) -> Reply:
    """What is left of a reply: its client is told of ids in the vendor's form, and that it ends for calls if it has any."""
    named = tuple(NativeCall(their(call.id), call.name, call.arguments) for call in reply.calls)
    finish = "tool_calls" if reply.calls and reply.finish_reason == "stop" else reply.finish_reason
    return Reply(reply.text, named, reply.usage, finish)


def their(call_id: str) -> str:
    return f"toolu_{call_id}" if call_id.startswith("call_") else call_id


@given(replies(calls))
def test_a_message_reads_back_as_the_reply(reply: Reply) -> None:
    body = over_the_wire(MESSAGES.reply(ASKED, reply, STAMP))
    assert read_message(body) == expected(reply)
    assert (body["type"], body["role"], body["id"], body["model"]) == ("message", "assistant", f"msg_{STAMP.id}", "scripted")


@given(replies(raw_calls))
def test_a_stream_gives_text_and_arguments_as_they_are(reply: Reply) -> None:
    events = over_the_wire(list(stream_events(ASKED, reply, STAMP)))
    message = assembled(events)
    assert [block["raw"] for block in message["content"] if block["type"] == "tool_use"] == [call.arguments for call in reply.calls]
    assert "".join(block["text"] for block in message["content"] if block["type"] == "text") == reply.text
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")


@given(replies(calls))
def test_a_stream_makes_the_whole_message(reply: Reply) -> None:
    made = assembled(over_the_wire(list(stream_events(ASKED, reply, STAMP))))
    for block in made["content"]:
        raw = block.pop("raw")
        if block["type"] == "tool_use":
            block["input"] = json.loads(raw)
    assert made == over_the_wire(MESSAGES.reply(ASKED, reply, STAMP))


def test_the_first_delta_of_a_call_is_empty_and_a_ping_comes_after_the_first_block_begins() -> None:
    reply = Reply("Hm.", (NativeCall("call_0", "add", '{"a": 1}'),), Usage(3, 4), "tool_calls")
    kinds = [event.name for event in MESSAGES.events(ASKED, reply, STAMP)]
    block = ["content_block_delta", "content_block_stop"]
    first = ["message_start", "content_block_start", "ping", *block]
    assert kinds == [*first, "content_block_start", "content_block_delta", *block, "message_delta", "message_stop"]
    deltas = [event.data["delta"] for event in MESSAGES.events(ASKED, reply, STAMP) if event.name == "content_block_delta"]
    assert [delta.get("partial_json") for delta in deltas] == [None, "", '{"a": 1}']


def test_an_empty_reply_has_no_block() -> None:
    body = MESSAGES.reply(ASKED, Reply("", usage=Usage(3, 0)), STAMP)
    assert (body["content"], body["stop_reason"]) == ([], "end_turn")


def test_a_reply_at_a_stop_sequence_names_it() -> None:
    body = MESSAGES.reply(ASKED, Reply("x", usage=Usage(3, 1)), Stamp("0", 0, stopped_at="END"))
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "END")


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ('{"a": 1, "b": {"c": [2, "}"]}, "d": 3', {"a": 1, "b": {"c": [2, "}"]}}),
        ('{"a": 1, "b": 2', {"a": 1}),
        ('{"a": 12', {}),
        ('{"a": "x, ', {}),
        ("{'a': 1, 'b': 2}", {}),
        ("[1, 2]", {}),
        ("null", {}),
        ("", {}),
    ],
)
def test_of_arguments_that_are_no_object_a_whole_message_has_the_members_that_are_certain(arguments: str, left: Any) -> None:
    reply = Reply("", (NativeCall("call_0", "add", arguments),), Usage(3, 4), "length")
    body = MESSAGES.reply(ASKED, reply, STAMP)
    assert (body["content"][0]["input"], body["stop_reason"]) == (left, "max_tokens")


@given(objects, st.data())
def test_what_is_left_of_a_cut_object_was_in_it(value: dict[str, Any], data: st.DataObject) -> None:
    text = to_json(value)
    left = whole_members(text[: data.draw(st.integers(0, len(text) - 1))])
    assert all(name in value and value[name] == left[name] for name in left)
    assert len(left) < max(1, len(value))


# --- errors, counts and models ---


@pytest.mark.parametrize(
    ("status", "code", "kind", "sent"),
    [
        (400, None, "invalid_request_error", 400),
        (401, None, "authentication_error", 401),
        (403, None, "permission_error", 403),
        (404, None, "not_found_error", 404),
        (405, None, "invalid_request_error", 405),
        (413, None, "request_too_large", 413),
        (429, None, "rate_limit_error", 429),
        (500, None, "api_error", 500),
        (503, None, "overloaded_error", 529),
        (504, None, "timeout_error", 504),
    ],
)
def test_the_form_of_errors(status: int, code: str | None, kind: str, sent: int) -> None:
    answer = MESSAGES.failure(WireFailure(status, "no", code=code))
    assert answer == MESSAGES.failure(WireFailure(status, "no", code=code))
    assert (answer.status, answer.body["type"], answer.body["error"]) == (sent, "error", {"type": kind, "message": "no"})
    assert answer.body["request_id"] == answer.headers["request-id"]
    assert answer.body["request_id"].startswith("req_")


def limited() -> ErrorAnswer:
    return MESSAGES.failure(WireFailure(429, "slow down", wait_s=1.0), Room(50, 40_000, 0, 39_000, 60.0, 1.5))


def test_the_limits_in_the_headers_of_a_refusal() -> None:
    headers = limited().headers
    assert (headers["retry-after"], headers["x-should-retry"]) == ("1", "true")
    assert headers["anthropic-ratelimit-requests-limit"] == "50"
    assert headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert headers["anthropic-ratelimit-output-tokens-remaining"] == "39000"


def test_limits_are_full_again_at_a_moment() -> None:
    headers = MESSAGES.room_headers(Room(50, 40_000, 49, 39_000, 60.0, 1.5), STAMP)
    assert headers["request-id"] == f"req_{STAMP.id}"
    assert headers["anthropic-ratelimit-requests-reset"] == "2027-01-15T08:01:00Z"
    assert headers["anthropic-ratelimit-tokens-reset"] == "2027-01-15T08:00:02Z"


def test_a_request_beyond_the_context_is_told_in_the_words_that_clients_know() -> None:
    failure = WireFailure(400, "the context holds 8 tokens", "messages", "context_length_exceeded")
    assert MESSAGES.failure(failure).body["error"]["message"] == "prompt is too long: the context holds 8 tokens"


def test_a_stream_that_fails_begins_and_ends_with_an_error() -> None:
    events = list(MESSAGES.failed_events(ASKED, Reply("Let me think."), WireFailure(503, "no"), STAMP))
    assert [event.name for event in events] == ["message_start", "content_block_start", "ping", "content_block_delta", "error"]
    assert events[-1].data["error"] == {"type": "overloaded_error", "message": "no"}


def test_models_have_a_form_of_their_own() -> None:
    listed = MESSAGES.models(("a", "b/c"), 1_800_000_000)
    assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("a", "b/c", False)
    assert listed["data"][0]["created_at"] == "2027-01-15T08:00:00Z"
    assert MESSAGES.models((), 0) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


@pytest.mark.parametrize(
    ("path", "headers", "addressed"),
    [
        ("v1/messages", {}, True),
        ("v1/messages/batches", {}, True),
        ("v1/models", HEADERS, True),
        ("v1/files", HEADERS, True),
        ("v1/models", {}, False),
        ("v1/chat/completions", {}, False),
    ],
)
def test_which_requests_are_meant_for_it(path: str, headers: dict[str, str], addressed: bool) -> None:
    assert MESSAGES.is_addressed(tuple(path.split("/")), headers) is addressed


# --- what is read ---


def failure(body: Any, **asked: Any) -> str | None:
    try:
        read_request(body, **asked)
    except BadRequest as error:
        return str(error)
    return None


FIELDS = st.sampled_from(
    [
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "metadata", "stop_sequences", "stream"),
        *("temperature", "top_k", "top_p", "cache_control", "output_config", "output_format", "context_management", "betas"),
    ]
)


@given(json_values)
def test_any_body_is_read_or_refused(body: Any) -> None:
    assert failure(body)


@given(FIELDS, json_values, st.sampled_from(["2023-06-01", "2026-10-21"]), st.booleans())
def test_any_field_is_read_or_refused(field: str, value: Any, version: str, counting: bool) -> None:
    said = failure(BODY | {field: value}, version=version, counting=counting)
    assert said is None or said


BLOCK_FIELDS = st.sampled_from(["type", "text", "id", "name", "input", "tool_use_id", "content", "is_error", "cache_control"])
KINDS = st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image", "web_search_tool_result"])
blocks = st.builds(
    lambda kind, rest: {"type": kind} | rest, KINDS, st.dictionaries(BLOCK_FIELDS, json_values | st.sampled_from(["toolu_1", "x"]))
)
talks = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": json_values | st.lists(blocks, max_size=3)}
    ),
    min_size=1,
    max_size=4,
)


@given(talks, st.lists(blocks, max_size=2))
def test_any_conversation_is_read_or_refused(messages: list[Any], system: list[Any]) -> None:
    said = failure(BODY | {"messages": messages, "system": system} | KEPT)
    assert said is None or said


TOOL_FIELDS = st.sampled_from(["type", "name", "description", "input_schema", "strict", "cache_control"])
NAMES = st.sampled_from(["type", "properties", "required", "items", "a"])
schemas = st.recursive(
    json_values | st.sampled_from(["object", "string", "array", "int"]), lambda inner: st.dictionaries(NAMES, inner, max_size=3)
)


@given(st.lists(st.dictionaries(TOOL_FIELDS, json_values | schemas, max_size=5), max_size=3))
def test_any_tools_are_read_or_refused_by_their_place(tools: list[Any]) -> None:
    said = failure(BODY | {"tools": tools})
    assert said is None or said.startswith("tools")


@given(schemas)
def test_any_schema_of_a_tool_is_read_or_refused(schema: Any) -> None:
    said = failure(BODY | {"tools": [ADD | {"input_schema": schema}]})
    assert said is None or said.startswith("tools.0.custom.input_schema")


def test_a_body_that_is_nested_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert "nested deeper" in (failure(BODY | {"metadata": deep}) or "")


def test_a_whole_request() -> None:
    asked = read_request(
        {
            "model": "scripted",
            "max_tokens": 9,
            "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be right.", **KEPT}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "1 +"}, {"type": "text", "text": "1?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                        {"type": "text", "text": "Next."},
                        {"type": "tool_use", "id": "toolu_call_7", "name": "add", "input": {"a": 1, "b": "\u00e9"}},
                        {"type": "tool_use", "id": "other", "name": "add", "input": {"INVALID_JSON": '{"a": '}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_call_7", "content": [TEXT, TEXT]},
                        {"type": "tool_result", "tool_use_id": "other", "content": "no JSON", "is_error": True},
                        {"type": "text", "text": "Go on."},
                    ],
                },
                {"role": "system", "content": "Hurry."},
            ],
            "tools": [{"type": "custom", "description": "Adds.", **ADD}, {"type": "web_search_20260209", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": True},
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 40,
            "stop_sequences": ["END"],
            "stream": True,
            "metadata": {"user_id": "u", "role": "plan", "scope": "s", "codec": "k", "examples": "2"},
        },
        "2023-06-01",
    )
    request = asked.request
    assert request.messages == (
        Message("system", "Be brief.\nBe right."),
        Message("user", "1 +\n1?"),
        Message(
            "assistant", "Next.", (NativeCall("call_7", "add", '{"a": 1, "b": "\u00e9"}'), NativeCall("other", "add", '{"a": '))
        ),
        Message("tool", "And?\nAnd?", call_id="call_7"),
        Message("tool", "Error: no JSON", call_id="other"),
        Message("user", "Go on."),
        Message("system", "Hurry."),
    )
    assert request.tools == (ToolSpec("add", "Adds.", ADD["input_schema"]),)  # type: ignore[arg-type]
    assert (request.tool_choice, request.parallel_calls, request.response_schema) == ("add", False, {"type": "object"})
    assert request.sampling == Sampling(0.5, 9, 0.9, None, ("END",))
    assert (request.role, request.scope, request.examples, asked.stream) == (Role.PLAN, "s", 2, True)
    assert asked.metadata == {"role": "plan", "scope": "s", "codec": "k", "examples": "2"}


@pytest.mark.parametrize(("choice", "read"), [("auto", "auto"), ("any", "required"), ("none", "none")])
def test_tool_choices(choice: str, read: str) -> None:
    assert read_request(BODY | {"tools": [ADD], "tool_choice": {"type": choice}}).request.tool_choice == read


def test_a_request_for_a_count_has_fewer_fields() -> None:
    counted = {name: BODY[name] for name in ("model", "messages")}
    asked = MESSAGES.read(Incoming(counted, ("v1", "messages", "count_tokens"), headers=HEADERS))
    assert asked.request.messages == (Message("user", USER["content"]),)
    assert failure(BODY, counting=True) == "max_tokens: Extra inputs are not permitted"


# --- the prompt cache ---


def marks(*messages: Any, **fields: Any) -> Any:
    return read_request(BODY | {"messages": list(messages)} | fields).marks


def test_marks_are_of_all_that_stands_before_them() -> None:
    system = [{"type": "text", "text": "x" * 400, **KEPT}]
    first = marks(USER, tools=[ADD | KEPT], system=system)
    assert [mark.written for mark in first] == [True, True]
    assert first[0].tokens < first[1].tokens
    assert marks(USER, tools=[ADD | KEPT], system=system) == first
    assert marks({"role": "user", "content": "Else?"}, tools=[ADD | KEPT], system=system) == first
    changed = marks(USER, tools=[ADD | KEPT], system=[{"type": "text", "text": "y" * 400, **KEPT}])
    assert (changed[0], changed[1].digest == first[1].digest) == (first[0], False)


def test_the_mark_of_an_earlier_request_is_looked_for_before_the_new_one() -> None:
    asking = {"role": "user", "content": [TEXT | KEPT]}
    (before,) = marks(asking)
    unmarked = {"role": "user", "content": [TEXT]}
    after = marks(unmarked, CALLING, {"role": "user", "content": [RESULT | KEPT]})
    assert (before.digest, False) in [(mark.digest, mark.written) for mark in after]
    assert [mark.written for mark in after] == [False, False, True]
    long = [{"role": "user", "content": [TEXT] * 99 + [TEXT | KEPT]}]
    assert len(marks(*long)) == LOOKBACK + 1


def test_the_cache_of_a_whole_request_ends_with_its_last_block() -> None:
    assert marks(USER, **KEPT)[-1].written
    assert marks(USER, CALLING, {"role": "user", "content": [RESULT | {"content": [TEXT | KEPT]}]})[-1].written


def test_what_is_read_from_the_cache_or_put_there_is_no_input() -> None:
    usage = MESSAGES.reply(ASKED, Reply("x", usage=Usage(100, 5)), Stamp("0", 0, 60, 30))["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (10, 60, 30)
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 0}
    asked = read_request(BODY | {"cache_control": {"type": "ephemeral", "ttl": "1h"}})
    usage = MESSAGES.reply(asked, Reply("x", usage=Usage(100, 5)), Stamp("0", 0, 60, 30))["usage"]
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 30}


def test_the_call_of_the_examples_reads() -> None:
    assert failure(BODY | {"messages": [USER, CALLING, {"role": "user", "content": [RESULT]}]}) is None
    assert CALL["id"] == RESULT["tool_use_id"]
