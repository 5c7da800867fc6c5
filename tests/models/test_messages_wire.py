"""Anthropic's Messages, the server's side: what is said reads back as it was, and no body does more harm than to be refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.wires.base import Stamp, WireFailure, WireRequest
from whichloop.models.wires.messages import MESSAGES, read_request, stream_events, whole_members
from whichloop.protocol import NativeCall, Reply, Usage
from whichloop.protocol.wire import to_json

from .anthropic_cases import BODY, HEADERS

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
        ("v1/chat/completions", HEADERS, False),
        ("v1/chat/completions", {}, False),
    ],
)
def test_which_requests_are_meant_for_it(path: str, headers: dict[str, str], addressed: bool) -> None:
    assert MESSAGES.is_addressed(tuple(path.split("/")), headers) is addressed
