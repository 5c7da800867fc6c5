"""A real model in this process: schemas, forced tools and the formats of the five designs are kept to, whatever it means by it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from jsonschema import validate

from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.prepare import prepare
from whichloop.loops.finish.codec import XmlCodec
from whichloop.loops.finish.output import JsonOutput
from whichloop.models.local.model import open_local
from whichloop.models.real import RealModel, RealOptions
from whichloop.protocol import Answer, Grammar, JsonValue, Message, Reply, Request, Sampling, TextLine, ToolSpec
from whichloop.runs.config import CompareConfig, ProviderConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.trials import read_records

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

HELLO = (Message("user", "Add 21 and 32."),)
SHORT = Sampling(max_tokens=120)
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"sign": {"enum": ["+", "-"]}, "is_exact": {"type": "boolean"}},
    "required": ["sign", "is_exact"],
    "additionalProperties": False,
}
TAGS = {"type": "array", "items": {"type": "string"}}
ADD = ToolSpec("add", "Add two numbers.", SCHEMA)
OTHER = ToolSpec("other", "Something else.", {"type": "object", "properties": {}})

Value = TypeVar("Value")


def with_model(name: str, use: Callable[[RealModel], Awaitable[Value]]) -> Value:
    """What `use` gives of the model, whose weights are loaded once."""
    model = open_local(name, RealOptions(call_timeout_s=400, patience_s=400))

    async def used() -> Value:
        try:
            return await use(model)
        finally:
            await model.aclose()

    return asyncio.run(used())


def ask(name: str, request: Request) -> Reply:
    return with_model(name, lambda model: model.complete(request))


def test_a_response_schema_is_kept_to(smol):
    validate(json.loads(ask(smol, Request(HELLO, response_schema=SCHEMA, sampling=SHORT)).text), SCHEMA)


def test_a_grammar_is_kept_to(smol):
    grammar = Grammar((("Say: ", TextLine(9), "\n", JsonValue(SCHEMA)),))
    line, _, value = ask(smol, Request(HELLO, grammar=grammar, sampling=SHORT)).text.partition("\n")
    assert re.fullmatch(r"Say: .{1,9}", line)
    validate(json.loads(value), SCHEMA)


def test_an_answer_in_xml_is_stated_by_any_model(smol):
    schema = {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "tags": TAGS, "seats": {"type": "integer"}}}
    codec = XmlCodec(JsonOutput.of(schema))
    answer = codec.parse(ask(smol, Request(HELLO, grammar=codec.grammar(()), sampling=Sampling(max_tokens=400))))
    assert isinstance(answer, Answer)
    validate(answer.value, schema)


def test_a_forced_tool_comes_back_as_that_tool_with_arguments_that_fit_whole_and_streamed(smol):
    request = Request(HELLO, (OTHER, ADD), ADD.name, sampling=SHORT)

    async def both(model: RealModel) -> list[Reply]:
        streamed = [chunk.reply async for chunk in model.stream(request) if chunk.reply is not None]
        return [await model.complete(request), *streamed]

    for reply in with_model(smol, both):
        (call,) = reply.calls
        assert call.name == ADD.name
        validate(json.loads(call.arguments), SCHEMA)
        assert reply.finish_reason == "tool_calls"
        assert reply.usage is not None


def test_all_five_designs_read_every_reply_that_is_held_to_their_format(smol, tmp_path: Path):
    provider = ProviderConfig(call_timeout_s=400, attempts=1, constrain=True)
    config = CompareConfig(
        models=[smol], provider=provider, tasks=1, max_tool_steps=2, trial_timeout_s=900, mlflow=False, runs=tmp_path
    )
    experiment = prepare(config)
    assert compare.run(experiment, Unwatched()) == ""
    records = read_records(experiment.folder)
    assert len(records) == 5
    for record in records:
        assert record.status == "scored", record.reason
        assert not [kind for kind in record.errors if kind.startswith("wire")], record.arm
