"""Whatever JSON comes to Gemini's pages gets a reply or a refusal in Gemini's form, and never an error of the server's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.models.server import Server
from whichloop.protocol import Reply, Usage

from .served import Book, fixed

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["add", "a.b", "_x", "1", "\ud800"])
texts = st.sampled_from(["", "hello", "\ud800", "(", "a" * 300])


def mostly(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """These values, and now and then anything."""
    return st.integers(0, 29).flatmap(lambda number: values if number else anything)


def objects(required: dict[str, st.SearchStrategy[Any]], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields and some of the further ones."""
    optional = {name: mostly(values) for name, values in more.items()}
    return st.fixed_dictionaries({name: mostly(values) for name, values in required.items()}, optional=optional)


def of_type(*kinds: str) -> dict[str, st.SearchStrategy[Any]]:
    return {"type": st.sampled_from(kinds)}


schemas = st.recursive(
    objects(of_type("STRING"), pattern=texts, enum=st.lists(texts, max_size=2), format=texts, maxLength=st.integers())
    | objects(of_type("INTEGER", "number", "NULL", "BOOLEAN"), minimum=st.integers(), nullable=st.booleans()),
    lambda inner: (
        objects(of_type("ARRAY") | {"items": inner}, minItems=st.integers(0, 3))
        | objects(of_type("OBJECT") | {"properties": st.dictionaries(names, inner, min_size=1, max_size=2)}, title=texts)
        | objects({"anyOf": st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=4,
)
said = st.lists(objects({"text": texts}), min_size=1, max_size=2)
calls = objects({"functionCall": objects({"name": names}, id=texts, args=st.dictionaries(names, anything, max_size=2))})
results = objects({"functionResponse": objects({"name": names}, id=texts, response=st.dictionaries(names, anything, max_size=2))})
user, model = st.just("user"), st.just("model")
turns = [
    objects({"parts": said}, role=user),
    objects({"role": model, "parts": st.lists(calls, min_size=1, max_size=1)}),
    objects({"parts": st.lists(results, min_size=1, max_size=1)}, role=user),
]
functions = objects({"name": st.just("add")}, description=texts, parameters=schemas) | objects(
    {"name": st.just("add")}, parametersJsonSchema=schemas
)
declared = st.lists(objects({"functionDeclarations": st.lists(functions, min_size=1, max_size=1)}), min_size=1, max_size=1)
forced = st.just({"functionCallingConfig": {"mode": "ANY"}})
in_json = objects({"responseMimeType": st.just("application/json")}, responseSchema=schemas, maxOutputTokens=st.integers(1, 9))
asked = {"contents": st.tuples(turns[0]) | st.tuples(*turns)}
bodies = mostly(
    objects(asked, generationConfig=in_json, systemInstruction=objects({"parts": said}))
    | objects(asked | {"tools": declared}, toolConfig=forced, labels=st.dictionaries(names, texts, max_size=2))
)
sendings = st.lists(
    st.tuples(st.sampled_from(["generateContent", "streamGenerateContent", "countTokens"]), bodies), min_size=8, max_size=8
)


async def answers(sent: list[tuple[str, Any]]) -> list[httpx.Response]:
    book = Book(any=fixed(Reply("It is 3.", (), Usage(10, 5))))
    async with Server(book) as server, httpx.AsyncClient(verify=False, base_url=server.url, timeout=30) as client:
        return [await client.post(f"/v1beta/models/scripted:{verb}", content=json.dumps(body)) for verb, body in sent]


@settings(max_examples=cases(8), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(sendings)
def test_any_body_gets_a_reply_or_a_refusal_of_gemini_s(sent: list[tuple[str, Any]]) -> None:
    for (verb, _), answer in zip(sent, asyncio.run(answers(sent)), strict=True):
        told = answer.json()
        assert answer.status_code in (200, 400), answer.text
        if answer.status_code == 400:
            assert set(told) == {"error"}
            assert (told["error"]["code"], told["error"]["status"]) == (400, "INVALID_ARGUMENT")
            assert told["error"]["message"]
        else:
            kept = told if verb == "streamGenerateContent" else [told]
            assert all("totalTokens" in item if verb == "countTokens" else item["candidates"] for item in kept)
