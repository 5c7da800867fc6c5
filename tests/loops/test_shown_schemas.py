"""Every design shows what a tool takes: names, types, what is required and nested fields stand in its first prompt."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from whichloop.loops import Bare, Finish, Phased, Query, ReactExtract, Stateless, Tool, Toolbox
from whichloop.models.fake import FakeModel
from whichloop.protocol import run_sync

DESIGNS: list[Any] = [
    *(Bare(decision_format=name) for name in ("json", "fields", "native")),
    Finish(max_steps=4),
    Phased(),
    ReactExtract(),
    Stateless(),
]


def named(loop: Any) -> str:
    return f"{loop.name} {getattr(loop, 'decision_format', '')}".strip()


class Item(BaseModel):
    sku: str
    quantity: int = 1


@dataclass
class Place:
    city: str


def order(items: list[Item], to: Place, note: Annotated[str | None, Field(description="for the parcel")] = None) -> int:
    """Order items."""
    return len(items)


def search(text: str, limit: int = 5) -> list[str]:
    """Search the shop."""
    return []


def called(**arguments: Any) -> None: ...


OPEN = {
    "type": "object",
    "properties": {"query_model": {"$ref": "#/$defs/Query"}, "limit": {"type": "integer"}},
    "required": ["query_model"],
    "$defs": {"Query": {"type": "object", "properties": {"since": {"type": "string", "format": "date"}}, "required": ["since"]}},
}


def shown(loop: Any, tool: Any) -> str:
    """Every text of the first request that names the tool, and the schemas that it offers natively."""
    model = FakeModel.script([], "done")
    run_sync(loop.run(Query("What is there?"), Toolbox([tool]), model))
    for request in model.requests:
        text = "\n".join(message.content for message in request.messages)
        text += json.dumps([spec.parameters for spec in request.tools]) if request.tools else ""
        if (tool.name if isinstance(tool, Tool) else tool.__name__) in text or request.tools:
            return text
    raise AssertionError("no request names the tool")


@pytest.mark.parametrize("loop", DESIGNS, ids=named)
def test_a_tool_of_a_server_is_shown_with_what_it_takes(loop: Any) -> None:
    text = shown(loop, Tool("list_schedules", "List schedules.", OPEN, called))
    for part in ("query_model", "limit", '"integer"', '"required"', "$defs", '"since"', '"date"'):
        assert part.strip('"') in text, part


@pytest.mark.parametrize("loop", DESIGNS, ids=named)
def test_models_among_the_arguments_of_a_function_are_shown_with_their_fields(loop: Any) -> None:
    text = shown(loop, order)
    for part in ("items", "sku", "quantity", "city", "note", "for the parcel", "$defs"):
        assert part in text, part


@pytest.mark.parametrize("loop", [Bare(), ReactExtract(), Phased()], ids=named)
def test_a_plain_signature_is_shown_as_ever(loop: Any) -> None:
    text = shown(loop, search)
    assert "required" not in text.partition("search")[2].partition("\n")[0]
    if loop.name == "bare":
        assert "search(text: str, limit: int = 5) -> list[str]: Search the shop.\n" in f"{text}\n"


@pytest.mark.parametrize("loop", DESIGNS, ids=named)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"q": {"$ref": "#/definitions/Q"}}, "definitions": {"Q": {"type": "integer"}}},
        {"type": "object", "oneOf": [{"required": ["by_name"]}, {"required": ["by_number"]}]},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "boolean"}},
    ],
    ids=["definitions", "one of", "any name"],
)
def test_whatever_else_a_schema_says_is_shown_too(loop: Any, schema: dict[str, Any]) -> None:
    text = shown(loop, Tool("find", "Find.", schema, called))
    assert all(word in text for word in re.findall(r"definitions|integer|oneOf|by_name|by_number|boolean", json.dumps(schema)))
