"""Anthropic's Messages, the server's side: what is read, and that no body does more harm than to be refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.models.server import Server
from whichloop.models.server.chatting import Memory
from whichloop.models.wires.anthropic_fields import LOOKBACK
from whichloop.models.wires.contract import Incoming, Stamp, WireFailure, WireRequest
from whichloop.models.wires.fields import MAX_DEPTH, BadRequest
from whichloop.models.wires.messages import MESSAGES, read_request, stream_events
from whichloop.protocol import Message, NativeCall, Reply, Role, Sampling, ToolSpec, Usage
from whichloop.protocol.tokens import estimate_input

from .anthropic_cases import ADD, BODY, CALL, CALLING, HEADERS, KEPT, RESULT, TEXT, USER
from .served import Book, fixed

CLOSED = {"type": "object", "additionalProperties": False}
ASKED = WireRequest(read_request(BODY).request, "scripted")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


# --- any body ---


def failure(body: Any, **asked: Any) -> str | None:
    """Return why a request is refused; for one that is read, make sure that it can be answered."""
    try:
        read = read_request(body, **asked)
    except BadRequest as error:
        return str(error)
    made = Memory().cached(None, read.marks)
    stamp = Stamp("0", 0, *made)
    for reply in (Reply("2", usage=Usage(estimate_input(read.request), 1)), Reply("", (NativeCall("call_0", "add", "{"),))):
        json.dumps(
            [MESSAGES.reply(read, reply, stamp), list(stream_events(read, reply, stamp)), MESSAGES.remembered(read, reply, stamp)]
        )
    return None


FIELDS = st.sampled_from(
    [
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "metadata", "stop_sequences", "stream"),
        *("temperature", "top_k", "top_p", "cache_control", "output_config", "output_format", "context_management", "betas"),
        "thread",
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


bodies = (
    st.binary(max_size=20)
    | json_values.map(json.dumps).map(str.encode)
    | st.dictionaries(FIELDS, json_values, max_size=3).map(lambda change: json.dumps(BODY | change).encode())
)


@settings(max_examples=cases(4))
@given(st.lists(bodies, min_size=12, max_size=12))
def test_any_body_over_http_gets_a_reply_or_a_refusal_in_the_vendors_form(sent: list[bytes]) -> None:
    async def work() -> list[httpx.Response]:
        async with Server(Book(any=fixed(Reply("2", usage=Usage(3, 1))))) as server, httpx.AsyncClient(headers=HEADERS) as plain:
            pages = ("/v1/messages", "/v1/messages/count_tokens")
            return [await plain.post(f"{server.url}{page}", content=body) for page in pages for body in sent]

    for answer in asyncio.run(work()):
        assert answer.status_code in (200, 400, 404)
        if answer.status_code != 200:
            assert answer.json()["error"]["type"] in ("invalid_request_error", "not_found_error")
            assert answer.json()["request_id"] == answer.headers["request-id"]


def test_a_body_that_is_nested_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert "nested deeper" in (failure(BODY | {"metadata": deep}) or "")


EVERY_FIELD: dict[str, Any] = {
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
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}},
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "stop_sequences": ["END"],
    "stream": True,
    "metadata": {"user_id": "u", "role": "plan", "scope": "s", "codec": "k", "examples": "2"},
}


def test_every_field_of_a_request_is_read() -> None:
    asked = read_request(EVERY_FIELD, "2023-06-01")
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
    assert (request.tool_choice, request.parallel_calls, request.response_schema) == ("add", False, CLOSED)
    assert request.sampling == Sampling(0.5, 9, 0.9, None, ("END",))
    assert (request.role, request.scope, request.examples, asked.stream) == (Role.PLAN, "s", 2, True)
    assert asked.metadata == {"role": "plan", "scope": "s", "codec": "k", "examples": "2"}


CODING_AGENT: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 32_000,
    "stream": True,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;"},
        {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": "Use the tools.", "cache_control": {"type": "ephemeral", "ttl": "1h", "scope": "global"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>As you answer, mind the following.</system-reminder>"},
                {"type": "text", "text": "What comes out?", "cache_control": {"type": "ephemeral"}},
            ],
        }
    ],
    "tools": [{**ADD, "name": f"mcp__suite__tool_{number}", "eager_input_streaming": True} for number in range(150)],
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": '{"device_id": "d", "account_uuid": "", "session_id": "s"}'},
}
"""The fields that Claude Code sends, put together from ggml-org/llama.cpp#20623 (2026-03-16), caozhiyuan/copilot-api#145
(2026-03-31), mnfst/llm-gateway#2258 (2026-06-15) and code.claude.com/docs/en/llm-gateway (2026-11): names and types, no texts."""


def test_the_request_of_a_coding_agent_is_read() -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,context-management-2025-06-27"}
    asked = MESSAGES.read(Incoming(CODING_AGENT, ("v1", "messages"), {"beta": "true"}, headers))
    assert asked.stream
    assert [message.role for message in asked.request.messages] == ["system", "user"]
    assert asked.request.messages[1].content.endswith("\nWhat comes out?")
    assert len(asked.request.tools) == 150
    assert [mark.is_written for mark in asked.marks].count(True) == 3
    counted = {name: CODING_AGENT[name] for name in ("model", "messages", "system", "tools")}
    MESSAGES.read(Incoming(counted, ("v1", "messages", "count_tokens"), {"beta": "true"}, headers))


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
    assert [mark.is_written for mark in first] == [True, True]
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
    assert (before.digest, False) in [(mark.digest, mark.is_written) for mark in after]
    assert [mark.is_written for mark in after] == [False, False, True]
    long = [{"role": "user", "content": [TEXT] * 99 + [TEXT | KEPT]}]
    assert len(marks(*long)) == LOOKBACK + 1


def test_the_cache_of_a_whole_request_ends_with_its_last_block() -> None:
    assert marks(USER, **KEPT)[-1].is_written
    assert marks(USER, CALLING, {"role": "user", "content": [RESULT | {"content": [TEXT | KEPT]}]})[-1].is_written


def test_what_is_read_from_the_cache_or_put_there_is_no_input() -> None:
    usage = MESSAGES.reply(ASKED, Reply("x", usage=Usage(100, 5)), Stamp("0", 0, 60, 30))["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (10, 60, 30)
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 0}
    asked = read_request(BODY | {"cache_control": {"type": "ephemeral", "ttl": "1h"}})
    usage = MESSAGES.reply(asked, Reply("x", usage=Usage(100, 5)), Stamp("0", 0, 60, 30))["usage"]
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 30}


def test_the_parts_of_a_block_that_is_skipped_may_be_anything() -> None:
    skipped = {"type": "web_search_tool_result", "content": [{"content": ["x"]}]}
    assert marks({"role": "user", "content": [skipped, TEXT | KEPT]})[-1].is_written
    tool = {"type": "web_search_20250305", "name": "web_search", "content": [{"content": ["x"]}]}
    assert marks(USER, tools=[tool], **KEPT)[-1].is_written


def test_the_call_of_the_examples_reads() -> None:
    assert failure(BODY | {"messages": [USER, CALLING, {"role": "user", "content": [RESULT]}]}) is None
    assert CALL["id"] == RESULT["tool_use_id"]


def test_only_texts_of_the_user_may_not_cite_and_only_since_the_version_that_says_so() -> None:
    cited = TEXT | {"citations": [{"type": "char_location"}]}
    said = {"role": "user", "content": [cited]}
    assert failure(BODY | {"messages": [said]}, version="2023-06-01") is None
    assert failure(BODY | {"messages": [USER, {"role": "assistant", "content": [cited]}, USER]}) is None
    assert failure(BODY | {"messages": [{"role": "user", "content": [TEXT | {"citations": []}]}]}) is None
    results = {"role": "user", "content": [RESULT | {"content": [TEXT, cited]}]}
    where = "messages.2.content.0.tool_result.content.1.text.citations"
    assert (failure(BODY | {"messages": [USER, CALLING, results]}) or "").startswith(where)


# --- tools of the vendor's own ---

SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize(
    ("tools", "choice", "read"),
    [
        ([SEARCH], {"type": "tool", "name": "web_search"}, "auto"),
        ([ADD, SEARCH], {"type": "tool", "name": "web_search"}, "auto"),
        ([ADD, SEARCH], {"type": "tool", "name": "add"}, "add"),
        ([{"type": "mcp_toolset", "mcp_server_name": "s"}], {"type": "tool", "name": "any_of_the_server"}, "auto"),
        ([SEARCH], {"type": "any"}, "auto"),
        ([ADD, SEARCH], {"type": "any"}, "required"),
    ],
)
def test_a_forced_tool_of_the_vendors_is_no_tool_of_the_model(tools: list[Any], choice: dict[str, Any], read: str) -> None:
    assert read_request(BODY | {"tools": tools, "tool_choice": choice}).request.tool_choice == read


def test_a_forced_tool_that_is_not_offered_is_refused() -> None:
    said = failure(BODY | {"tools": [ADD, SEARCH], "tool_choice": {"type": "tool", "name": "web_fetch"}})
    assert said == "tool_choice: Tool 'web_fetch' not found in provided tools"


# --- threads ---


def threaded(previous: str | None = None, **fields: Any) -> dict[str, Any]:
    thread = {"type": "create"} if previous is None else {"type": "continue", "previous_message_id": previous}
    return BODY | {"thread": thread} | fields


def test_a_thread_is_the_conversation_with_the_replies_that_were_given() -> None:
    kept: dict[str, Any] = {}

    def say(body: dict[str, Any], number: str) -> WireRequest:
        asked = read_request(body, recall=kept.get)
        reply = Reply("Hm.", (NativeCall("call_0", "add", '{"a": 1}'),), Usage(3, 4), "tool_calls")
        kept.update([MESSAGES.remembered(asked, reply, Stamp(number, 0))])  # type: ignore[list-item]
        return asked

    result = {"role": "user", "content": [RESULT | {"tool_use_id": "toolu_call_0"}]}
    first = say(threaded(system="Be brief.", tools=[ADD]), "1")
    second = say(threaded("msg_1", messages=[result]), "2")
    third = say(threaded("msg_2", messages=[result]), "3")
    turn = (Message("assistant", "Hm.", (NativeCall("call_0", "add", '{"a": 1}'),)), Message("tool", "2", call_id="call_0"))
    assert second.request.messages == (*first.request.messages, *turn)
    assert third.request.messages == (*first.request.messages, *turn, *turn)
    assert third.request.tools == first.request.tools
    assert say(threaded("msg_1", messages=[result]), "4").request == second.request  # a thread may be continued twice


def test_a_thread_that_is_not_kept_is_told_by_its_code() -> None:
    with pytest.raises(BadRequest) as caught:
        read_request(threaded("msg_9"))
    answer = MESSAGES.failure(WireFailure(400, str(caught.value), caught.value.param, caught.value.code))
    assert (answer.status, answer.body["error"]["type"]) == (404, "not_found_error")
    assert answer.body["error"]["details"] == {"error_code": "thread_not_found"}


def test_a_thread_goes_on_from_no_answer_of_another_api() -> None:
    kept = {"resp_1": [{"type": "message", "role": "user", "content": "?"}]}
    with pytest.raises(BadRequest) as caught:
        read_request(threaded("resp_1"), recall=kept.get)
    assert caught.value.code == "thread_not_found"


def test_what_a_thread_keeps_is_not_said_again() -> None:
    for name, value in (("system", "Be brief."), ("tools", [ADD])):
        assert (failure(threaded("msg_1", **{name: value})) or "").startswith(f"{name}: the thread keeps")
    assert "does not match any of the expected tags" in (failure(BODY | {"thread": {"type": "fork"}}) or "")
