"""OpenAI's own client over Responses, unmodified: by reference and with items that it keeps, whole and in streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from whichloop.protocol import Reply, ToolCall

from . import bench
from .served import QUESTION, Book, fixed, of, run
from .wire_refusals import REFUSALS

BODY = {"model": "scripted", "input": QUESTION}


def specs(trial: Any) -> list[Any]:
    return [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in trial.toolbox.specs
    ]


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


def test_the_official_client_raises_its_own_error_with_the_field() -> None:
    rows = [case for case in REFUSALS if case.wire == "responses"][::3]

    async def work(server: Any, asking: Any) -> list[Any]:
        met = []
        for case in rows:
            with pytest.raises(openai.APIStatusError) as caught:
                await asking.responses.create(**BODY, extra_body=case.change)
            met.append(caught.value)
        return met

    for case, raised in zip(rows, run(work, Book(any=fixed(Reply("x")))), strict=True):
        assert (raised.status_code, raised.type) == (case.status, "invalid_request_error"), case.what
        assert (raised.param or "").startswith(case.param)


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
