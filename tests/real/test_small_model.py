"""A real model in this process: schemas, forced tools and the formats of the five designs are kept to, whatever it means by it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from jsonschema import validate

from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare.run import prepare
from whichloop.models.local.model import open_model
from whichloop.models.real import RealModel, RealOptions
from whichloop.protocol import Message, Reply, Request, Sampling, ToolSpec
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
ADD = ToolSpec("add", "Add two numbers.", SCHEMA)
OTHER = ToolSpec("other", "Something else.", {"type": "object", "properties": {}})

Value = TypeVar("Value")


def with_model(name: str, use: Callable[[RealModel], Awaitable[Value]]) -> Value:
    """What `use` gives of the model, whose weights are loaded once."""
    model = open_model(name, options=RealOptions(call_timeout_s=400, patience_s=400))

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


def test_all_five_designs_run_and_read_every_reply_that_follows_a_schema(smol, tmp_path: Path):
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
        if record.arm in ("bare", "phased"):  # their replies are JSON
            assert not [kind for kind in record.errors if kind.startswith("wire")], record.arm
