"""Chats of every client are read alike: who said what, which calls were made, and what came of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs.chats import as_messages, read_chat, read_reply
from whichloop.experiments.import_runs.conversation import CallResult, ConversationItem, ModelTurn, SaidToModel
from whichloop.experiments.import_runs.formats.table import read_messages
from whichloop.metrics.trace import ModelExchange, ToolRun

ARGUMENTS = {"item": "lampp"}
CALL, LC = {"name": "price", "id": "c1"}, {"lc": 1, "type": "constructor"}


def lc(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {**LC, "id": ["langchain", "schema", kind], "kwargs": kwargs}


def part(kind: str, **more: Any) -> dict[str, Any]:
    return {"part_kind": kind, **more}


CHATS: dict[str, list[Any]] = {
    "openai": [
        {"role": "user", "content": "lamp?"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "price", "arguments": '{"item": "lampp"}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "KeyError: lampp"},
        {"role": "assistant", "content": "unknown"},
    ],
    "anthropic": [
        {"role": "user", "content": "lamp?"},
        {"role": "assistant", "content": [{"type": "tool_use", **CALL, "input": ARGUMENTS}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "KeyError", "is_error": True}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "unknown"}]},
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "lamp?"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "price", "input": ARGUMENTS}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "KeyError"}], "status": "error"}}]},
        {"role": "assistant", "content": [{"text": "unknown"}]},
    ],
    "vercel": [
        {"role": "user", "content": "lamp?"},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "price", "input": ARGUMENTS}]},
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "error-text", "value": "KeyError"}}],
        },
        {"role": "assistant", "content": "unknown"},
    ],
    "vercel page": [
        {"role": "user", "parts": [{"type": "text", "text": "lamp?"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "tool-price", "toolCallId": "c1", "state": "output-error", "input": ARGUMENTS, "errorText": "KeyError"},
                {"type": "step-start"},
                {"type": "text", "text": "unknown"},
            ],
        },
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "lamp?"}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"functionCall": {"name": "price", "args": ARGUMENTS}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "price", "response": {"error": "KeyError"}}}]},
        {"role": "model", "parts": [{"text": "unknown"}]},
    ],
    "responses": [
        {"role": "user", "content": "lamp?"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "price", "arguments": '{"item": "lampp"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "KeyError: lampp"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "unknown"}]},
    ],
    "langchain": [
        lc("HumanMessage", content="lamp?"),
        lc("AIMessage", content="", tool_calls=[{**CALL, "args": ARGUMENTS, "type": "tool_call"}]),
        lc("ToolMessage", content="KeyError", tool_call_id="c1", status="error"),
        {"type": "ai", "data": {"content": "unknown"}},
    ],
    "pydantic-ai": [
        {"kind": "request", "parts": [part("user-prompt", content="lamp?")]},
        {"kind": "response", "parts": [part("tool-call", tool_name="price", args=ARGUMENTS, tool_call_id="c1")]},
        {"kind": "request", "parts": [part("retry-prompt", content="KeyError", tool_name="price", tool_call_id="c1")]},
        {"kind": "response", "parts": [part("text", content="unknown")]},
    ],
    "gen_ai": [
        {"role": "user", "parts": [{"type": "text", "content": "lamp?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", **CALL, "arguments": ARGUMENTS}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "KeyError: lampp"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "unknown"}]},
    ],
}


@pytest.mark.parametrize("client", CHATS)
def test_the_same_chat_of_every_client_is_the_same_trial(client: str) -> None:
    asked, called, result, said = read_chat(CHATS[client])
    assert asked == SaidToModel("user", "lamp?")
    assert isinstance(called, ModelTurn)
    assert isinstance(said, ModelTurn)
    assert isinstance(result, CallResult)
    ((call),) = called.calls
    assert (call.name, call.arguments, call.id in ("c1", "")) == ("price", '{"item": "lampp"}', True)
    assert (said.text, said.calls, "KeyError" in result.text, result.call_id) == ("unknown", (), True, call.id)
    row = read_messages(CHATS[client])
    assert row is not None
    trace, answer = row
    (run,) = [event for event in trace.events if isinstance(event, ToolRun)]
    assert (run.call.arguments, run.status, answer, trace.query) == (ARGUMENTS, "error", "unknown", "lamp?")
    assert [event.move_kind for event in trace.events if isinstance(event, ModelExchange)] == ["act", "answer"]
    assert ("wire" in trace.untold) == (client not in ("openai", "responses"))


def test_replies_stand_in_whatever_a_provider_wraps_them() -> None:
    for client, chat in CHATS.items():
        reply = chat[-1] if client != "vercel page" else {"role": "assistant", "parts": chat[-1]["parts"][3:]}
        wrapped = (
            {"choices": [{"message": reply}]},
            {"output": {"message": reply}},
            {"candidates": [{"content": reply}]},
            {"output": [{"type": "reasoning", "summary": []}, reply]} if client == "responses" else [reply],
            {"generations": [[{"text": "x", "type": "ChatGeneration", "message": reply}]]},
        )
        for data in (reply, *wrapped):
            found = read_reply(data)
            assert found is not None, (client, data)
            assert found.text == "unknown"
    nothing: list[Any] = [None, {}, [], {"choices": []}]
    assert [read_reply(data) for data in nothing] == [None] * 4


def test_parallel_calls_of_one_response_are_one_reply() -> None:
    calls = [{"type": "function_call", "call_id": f"c{n}", "name": "price", "arguments": "{}"} for n in range(3)]
    outputs = [{"type": "function_call_output", "call_id": f"c{n}", "output": "1"} for n in range(3)]
    turn, *results = read_chat([*calls, *outputs])
    assert isinstance(turn, ModelTurn)
    assert (len(turn.calls), len(results)) == (3, 3)


def test_a_system_prompt_beside_the_messages_is_the_first_message() -> None:
    for key in ("system", "instructions", "systemInstruction"):
        told = as_messages(read_chat({key: [{"type": "text", "text": "be kind"}], "messages": [{"role": "user", "content": "hi"}]}))
        assert [(message.role, message.content) for message in told] == [("system", "be kind"), ("user", "hi")]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "robot"}, "message 1: role is 'robot', not system, user, assistant or tool"),
        ({"role": "assistant", "content": [{"type": "mystery"}]}, "message 1: a part of kind 'mystery' is not understood"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "message 1: the name of a tool call is not a text"),
        ({"role": "user", "content": 3}, "message 1: content is neither a text nor a list of parts"),
        (7, "message 1: the message is not an object: 7"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(message: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        read_chat([message])


leaves: st.SearchStrategy[Any] = st.sampled_from([None, True, 3, "x", "", [], {}, [[{}]], {"role": "user"}])
keys = st.sampled_from(
    ["role", "content", "type", "parts", "tool_calls", "functionCall", "text", "output", "message", "kwargs", "id"]
)
kinds = st.sampled_from(["assistant", "tool", "tool_use", "tool_result", "text", "function_call", "reasoning", "message"])
values = st.recursive(
    leaves | kinds, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@given(values)
def test_anything_is_read_or_refused(data: Any) -> None:
    for read in (read_chat, read_reply):
        try:
            found: Any = read(data)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017  # what is read is no error
        else:
            assert found is None or isinstance(found, list | ModelTurn)


def test_any_list_of_items_is_a_prompt() -> None:
    items: list[ConversationItem] = [SaidToModel("user", "a"), ModelTurn("b"), CallResult("c", "1")]
    assert [message.role for message in as_messages(items)] == ["user", "assistant", "tool"]
