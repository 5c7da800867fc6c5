"""What only OpenAI's chat completions have."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from hypothesis import given

from whichloop.models.wires.base import Incoming, Stamp
from whichloop.models.wires.chat import CHAT
from whichloop.protocol import Message, NativeCall, Reply, Sampling, ToolSpec, Usage

from .served import Book, failure, fixed, run
from .test_wires import objects
from .wire_refusals import REFUSALS, USER

STAMP = Stamp("0", 5)
PARAMETERS = {"type": "object", "properties": {}}
ADD = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS}}


def ask(**fields: Any) -> Any:
    return CHAT.read(Incoming({"model": "scripted", "messages": [USER], **fields}))


def called(arguments: str) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "add", "arguments": arguments}}


def test_every_field_of_a_request_is_read() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "1 + "}, {"type": "text", "text": "1?"}], "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": [called('{"a":1,"b":"\\u00e9"}')]},
        {"role": "tool", "tool_call_id": "c", "content": "2"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}], "tool_calls": None},
    ]
    sampling = {"temperature": 0.5, "max_completion_tokens": 9, "top_p": 1, "seed": 3, "stop": "END", "n": 1, "functions": None}
    asked = ask(messages=messages, tools=[ADD], parallel_tool_calls=False, stream=True, user="u", **sampling)
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
    assert ask(response_format=given_format, messages=said).request.response_schema == read


@pytest.mark.parametrize(("mode", "read"), [("required", "add"), ("auto", "auto")])
def test_one_allowed_tool_that_is_required_is_forced(mode: str, read: str) -> None:
    allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "add"}}]}
    assert ask(tools=[ADD], tool_choice={"type": "allowed_tools", "allowed_tools": allowed}).request.tool_choice == read


@given(objects)
def test_arguments_of_the_history_are_written_as_the_model_writes_them(written: str) -> None:
    """Whatever white space and escapes a client's JSON has; what was no JSON comes back as it was."""
    value = json.loads(written)
    for sent, read in (
        (json.dumps(value, separators=(",", ":")), written),
        (json.dumps({"_unparsed": f"{written}, "}), f"{written}, "),
    ):
        history = [{"role": "assistant", "tool_calls": [called(sent)]}, {"role": "tool", "tool_call_id": "c", "content": ""}]
        assert ask(messages=history).request.messages[0].calls[0].arguments == read


def test_a_reply_of_calls_alone_has_no_content_and_the_older_limit_is_read() -> None:
    assert ask(max_tokens=9).request.sampling.max_tokens == 9
    made = CHAT.reply(ask(), Reply("", (NativeCall("c", "add", "{}"),)), STAMP)
    assert made["choices"][0]["message"]["content"] is None


def test_a_stream_ends_with_the_usage_where_that_is_asked_for() -> None:
    reply = Reply("x", (), Usage(1, 2))
    *chunks, last = CHAT.events(ask(stream=True, stream_options={"include_usage": True}), reply, STAMP)
    assert (last.data["choices"], last.data["usage"]["total_tokens"]) == ([], 3)
    assert all(chunk.data["usage"] is None for chunk in chunks)
    assert all("usage" not in chunk.data and chunk.data["choices"] for chunk in CHAT.events(ask(stream=True), reply, STAMP))


def test_the_official_client_raises_its_own_error_with_the_field() -> None:
    rows = [case for case in REFUSALS if case.wire == "chat"][::4]

    async def work(server: Any, asking: Any) -> list[Any]:
        return [await failure(asking, extra_body=case.change) for case in rows]

    for case, raised in zip(rows, run(work, Book(any=fixed(Reply("x")))), strict=True):
        assert (type(raised), raised.type) == (openai.BadRequestError, "invalid_request_error"), case.what
        assert (raised.param or "").startswith(case.param)
