"""OpenAI's Responses, the server's side: by law for what is written and read, by the official client, and by table for refusals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from whichloop.models.server import answers as memory
from whichloop.models.server.answers import Chat as Memory
from whichloop.models.wires.base import BadRequest, Stamp, WireRequest
from whichloop.models.wires.responses import RESPONSES, read_request
from whichloop.protocol import Message, Reply, ToolCall

from . import bench
from .responses_cases import CALL, CASES, OUTPUT, USER
from .served import QUESTION, Book, fixed, of, run
from .test_chat_wire import json_values, replies
from .vendor_cases import RefusedCase

BODY = {"model": "scripted", "input": QUESTION}
STAMP = Stamp("0123456789abcdef01234567", 1_700_000_000)
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD = {"type": "function", "name": "add", "description": "Adds.", "parameters": PARAMETERS}


def specs(trial: Any) -> list[Any]:
    return [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in trial.toolbox.specs
    ]


def refused(body: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_request(body)
    return caught.value


def over_the_wire(data: Any) -> Any:
    return json.loads(json.dumps(data))


# --- laws ---


@given(replies)
def test_a_stream_puts_together_what_a_whole_response_says(reply: Reply) -> None:
    asked = read_request(BODY)
    events = [event.data for event in RESPONSES.events(asked, reply, STAMP)]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event.name for event in RESPONSES.events(asked, reply, STAMP)] == [event["type"] for event in events]
    whole = RESPONSES.reply(asked, reply, STAMP)
    assert events[-1]["response"] == whole
    assert events[-1]["type"] == f"response.{whole['status']}"
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == whole["output"]
    for place, item in enumerate(whole["output"]):
        own = [event for event in events if event.get("output_index") == place]
        said = "".join(event["delta"] for event in own if event["type"].endswith(".delta"))
        assert said == (item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"])
        closed = any(re.search(r"(text|arguments)\.done$", event["type"]) for event in own)
        assert closed == (item["status"] == "completed")


@given(replies)
def test_a_response_that_is_passed_back_is_read_as_the_reply_that_it_was(reply: Reply) -> None:
    asked = read_request(BODY)
    output = over_the_wire(RESPONSES.reply(asked, reply, STAMP)["output"])
    for item in output:
        if item["type"] == "function_call":
            item |= {"name": "add", "call_id": item["call_id"] or "c"}
    ids = dict.fromkeys(item["call_id"] for item in output if item["type"] == "function_call")
    answers = [{"type": "function_call_output", "call_id": name, "output": "2"} for name in ids]
    read = read_request(BODY | {"input": [USER, *output, *answers]}).request.messages
    assert read[1].content == reply.text
    assert [call.id for call in read[1].calls] == [call.id for call in reply.calls]


@given(st.lists(replies, min_size=1, max_size=4))
def test_a_conversation_by_reference_is_the_one_that_is_passed_back(said: list[Reply]) -> None:
    kept = Memory()
    items: list[Any] = [USER]
    asked = read_request(BODY | {"input": items})
    for number, reply in enumerate(said):
        stamp = Stamp(f"{number:024x}", 1)
        kept.keep(RESPONSES.remembered(asked, reply, stamp))
        answer = over_the_wire(RESPONSES.reply(asked, reply, stamp))
        ids = dict.fromkeys(item["call_id"] for item in answer["output"] if item["type"] == "function_call")
        if any(not item["name"].isidentifier() for item in answer["output"] if item["type"] == "function_call"):
            return
        new = [*({"type": "function_call_output", "call_id": name, "output": "2"} for name in ids), USER]
        referred = [{"type": "item_reference", "id": item["id"]} for item in answer["output"]]
        by_id = read_request(BODY | {"input": new, "previous_response_id": answer["id"]}, kept.recall)
        by_items = read_request(BODY | {"input": [*items, *referred, *new]}, kept.recall)
        items += [*answer["output"], *new]
        asked = read_request(BODY | {"input": items})
        assert by_id.request.messages == by_items.request.messages == asked.request.messages


@given(json_values)
def test_no_body_does_more_than_be_refused(body: Any) -> None:
    for made in (body, BODY | {"input": body}, BODY | {"input": [body]}, BODY | {"tools": body, "text": body, "tool_choice": body}):
        with contextlib.suppress(BadRequest):
            assert read_request(made).request.messages


# --- reading ---


def test_instructions_come_first_and_items_become_messages() -> None:
    body = BODY | {
        "instructions": "Be short.",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Add."}]},
            USER,
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
            CALL | {"id": "fc_1", "status": "completed"},
            CALL | {"call_id": "c2"},
            OUTPUT,
            OUTPUT | {"call_id": "c2", "output": [{"type": "input_text", "text": "4"}, {"type": "input_text", "text": "2"}]},
        ],
    }
    read = read_request(body).request.messages
    assert [message.role for message in read] == ["system", "system", "user", "assistant", "tool", "tool"]
    assert (read[3].content, [call.id for call in read[3].calls]) == ("So.", ["c1", "c2"])
    assert read[5] == Message("tool", "42", (), "c2")


def test_tools_and_choices_are_read() -> None:
    several = [ADD, {"type": "web_search"}, {"type": "custom", "name": "patch"}]
    read = read_request(BODY | {"tools": several, "tool_choice": {"type": "function", "name": "add"}, "parallel_tool_calls": False})
    assert ([tool.name for tool in read.request.tools], read.request.tool_choice) == (["add"], "add")
    assert not read.request.parallel_calls
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}
    assert read_request(BODY | {"tools": [ADD], "tool_choice": allowed}).request.tool_choice == "add"
    assert read_request(BODY | {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}).request.tool_choice is None
    assert refused(BODY | {"tool_choice": "required"}).param == "tool_choice"
    assert refused(BODY | {"tools": [{"type": "hammer"}]}).param == "tools[0].type"


SEARCH = {"type": "web_search_preview_2025_03_11"}


@pytest.mark.parametrize(
    ("tools", "choice", "read"),
    [
        ([SEARCH], "required", "auto"),
        ([ADD, SEARCH], "required", "required"),
        ([SEARCH], {"type": "web_search"}, "auto"),
        ([ADD, {"type": "computer_use_preview"}], {"type": "computer_use"}, "auto"),
        ([ADD, {"type": "custom", "name": "patch"}], {"type": "custom", "name": "patch"}, "auto"),
        ([ADD, {"type": "mcp", "server_label": "s"}], {"type": "mcp", "server_label": "s", "name": "any"}, "auto"),
        ([SEARCH], {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}, "auto"),
        ([ADD, SEARCH], {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}, ADD]}, "auto"),
    ],
)
def test_a_forced_tool_of_openai_s_is_no_tool_of_the_model(tools: list[Any], choice: Any, read: str) -> None:
    assert read_request(BODY | {"tools": tools, "tool_choice": choice}).request.tool_choice == read


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"type": "file_search"}, "file_search"),
        ({"type": "custom", "name": "write"}, "write"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "t"}]}, "t"),
    ],
)
def test_a_forced_tool_of_openai_s_must_be_offered(choice: dict[str, Any], named: str) -> None:
    offered = [SEARCH, {"type": "custom", "name": "patch"}, {"type": "mcp", "server_label": "s"}]
    error = refused(BODY | {"tools": [ADD, *offered], "tool_choice": choice})
    assert (str(error), error.param) == (f"Tool choice '{named}' not found in 'tools' parameter.", "tool_choice")


def test_a_response_goes_on_from_no_message_of_another_api() -> None:
    kept: dict[str, Any] = {"msg_1": [{"messages": []}]}
    with pytest.raises(BadRequest) as caught:
        read_request(BODY | {"previous_response_id": "msg_1"}, kept.get)
    assert caught.value.failure.code == "previous_response_not_found"


def test_what_a_response_repeats_of_its_request() -> None:
    given = {"instructions": "Add.", "metadata": {"a": "b"}, "store": False, "temperature": 0.5, "reasoning": {"effort": "low"}}
    made = RESPONSES.reply(read_request(BODY | given | {"tools": [ADD]}), Reply("4"), STAMP)
    assert {name: made[name] for name in given} == given | {"reasoning": {"effort": "low", "summary": None}}
    assert made["tools"] == [ADD | {"strict": True, "output_schema": None}]


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_what_is_refused_and_how(case: RefusedCase) -> None:
    error = refused(BODY | case.change)
    assert (error.param, error.failure.code) == (case.param, case.code)
    assert case.said in str(error)


def test_the_page_has_a_row_with_a_source_for_each_case() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    table = page.split("| what | `param` | `code` | source |\n")[2].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]
    shown = [(what, param.strip("`"), code.strip("`")) for what, param, code, _ in rows]
    assert shown == [(case.what, case.param or "null", case.code or "null") for case in CASES]
    assert all(re.search(r"\w+/[\w.-]+#\d+|\w+/[\w.-]+, `\w+`", source) for _, _, _, source in rows)


# --- the official client ---


def test_the_official_client_goes_through_a_whole_trial_by_reference() -> None:
    trial = bench.Bench(bench.chain(3))

    async def work(server: Any, asking: Any) -> Any:
        given: Any = QUESTION
        last: str | None = None
        for _ in range(9):
            made = await asking.responses.create(
                model="scripted", input=given, tools=specs(trial), previous_response_id=last, instructions="Add."
            )
            calls = [item for item in made.output if item.type == "function_call"]
            if not calls:
                return made
            last, given = made.id, []
            for call in calls:
                seen = await trial.toolbox.call(ToolCall(call.name, json.loads(call.arguments), call.call_id))
                given.append({"type": "function_call_output", "call_id": call.call_id, "output": seen.data})
        return None

    made = run(work, Book(any=of(trial)))
    assert (made.output_text, made.status, made.object) == (trial.expected, "completed", "response")
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens > 0
    assert trial.tunnel.unknown == ()


def test_the_official_client_keeps_the_conversation_itself_in_streams() -> None:
    trial = bench.Bench(bench.chain(3))

    async def work(server: Any, asking: Any) -> Any:
        items: list[Any] = [{"role": "user", "content": QUESTION}]
        for _ in range(9):
            async with asking.responses.stream(model="scripted", input=items, tools=specs(trial), store=False) as stream:
                made = await stream.get_final_response()
            items += [item.model_dump(exclude={"parsed_arguments"}, exclude_none=True) for item in made.output]
            calls = [item for item in made.output if item.type == "function_call"]
            if not calls:
                return made.output_text
            for call in calls:
                seen = await trial.toolbox.call(ToolCall(call.name, json.loads(call.arguments), call.call_id))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": seen.data})
        return None

    assert run(work, Book(any=of(trial))) == trial.expected


class Total(BaseModel):
    total: int


def test_the_client_without_asyncio_and_its_parse_helper() -> None:
    trial = bench.Bench(bench.chain(1))

    async def work(server: Any, asking: Any) -> Any:
        first = await asking.responses.create(**BODY, tools=specs(trial))
        (call,) = (item for item in first.output if item.type == "function_call")
        seen = await trial.toolbox.call(ToolCall(call.name, json.loads(call.arguments), call.call_id))
        output = {"type": "function_call_output", "call_id": call.call_id, "output": seen.data}
        more: dict[str, Any] = {"model": "scripted", "input": [output], "previous_response_id": first.id}

        def ask() -> Any:
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as plain:
                parsed = plain.responses.parse(**more, text_format=Total)
                kinds = [event.type for event in plain.responses.create(**more, stream=True)]
                return parsed, kinds

        return await asyncio.to_thread(ask)

    parsed, kinds = run(work, Book(any=of(trial)))
    assert parsed.output_parsed == Total(total=int(trial.expected))
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")


def test_the_official_client_meets_each_refusal_as_that_of_the_vendor() -> None:
    async def work(server: Any, asking: Any) -> list[Any]:
        met = []
        for case in CASES:
            with pytest.raises(openai.APIStatusError) as caught:
                await asking.responses.create(**BODY, extra_body=case.change)
            met.append(caught.value)
        return met

    for case, raised in zip(CASES, run(work, Book(any=fixed(Reply("x")))), strict=True):
        assert raised.status_code == (404 if "(404)" in case.what else 400), case.what
        assert (raised.type, raised.param, raised.code) == ("invalid_request_error", case.param, case.code), case.what


def test_pages_that_are_not_there_are_refused_in_the_vendors_form() -> None:
    asked = [("GET", "/v1/responses/resp_1", 404), ("DELETE", "/v1/responses/resp_1", 404), ("GET", "/v1/responses", 405)]

    async def work(server: Any, asking: Any) -> list[Any]:
        async with httpx.AsyncClient() as plain:
            return [await plain.request(method, server.url + path) for method, path, _ in asked]

    for (_, _, status), response in zip(asked, run(work, Book(any=fixed(Reply("x")))), strict=True):
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_what_is_not_stored_cannot_be_gone_on_from() -> None:
    async def work(server: Any, asking: Any) -> Any:
        made = await asking.responses.create(**BODY, store=False)
        with pytest.raises(openai.BadRequestError) as caught:
            await asking.responses.create(**BODY, previous_response_id=made.id)
        return caught.value

    assert run(work, Book(any=fixed(Reply("x")))).code == "previous_response_not_found"


# --- what is kept ---


def test_answers_are_forgotten_by_number(monkeypatch: Any) -> None:
    monkeypatch.setattr(memory, "MAX_ANSWERS", 3)
    kept = Memory()
    for number in range(4):
        kept.keep((f"r{number}", [number]))
    assert [kept.recall(f"r{number}") for number in range(4)] == [None, [1], [2], [3]]


def test_an_asked_request_keeps_its_items() -> None:
    asked = read_request(BODY)
    assert isinstance(asked, WireRequest)
    found = RESPONSES.remembered(asked, Reply("4"), STAMP)
    assert found is not None
    name, items = found
    assert name == f"resp_{STAMP.id}"
    assert [item["role"] for item in items] == ["user", "assistant"]
