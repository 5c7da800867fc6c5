"""Draws replies that a grammar allows, and values that a JSON schema allows; of schemas only what our grammars have."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from loopbench.protocol import AnyCall, Grammar, JsonValue, NativeCall, Reply, TextLine, ToolSpec

CHARACTERS = 'abc XYZ 019 .,:;-_#[]{}<>"\\/é'


def drawn_reply(grammar: Grammar, tools: Sequence[ToolSpec], draw: random.Random) -> Reply:
    """Return a reply of the grammar."""
    text, calls = "", list[NativeCall]()
    for part in draw.choice(grammar.alternatives):
        match part:
            case TextLine():
                text += drawn_text(draw, 1, part.max_chars)
            case JsonValue():
                text += json.dumps(drawn_value(part.schema, draw, part.schema.get("$defs", {})), ensure_ascii=False)
            case AnyCall():
                tool = draw.choice(tools)
                arguments = drawn_value(tool.parameters, draw, tool.parameters.get("$defs", {}))
                calls.append(NativeCall("call_0", tool.name, json.dumps(arguments)))
            case _:
                text += part
    return Reply(text, tuple(calls), None, "tool_calls" if calls else "stop")


def drawn_text(draw: random.Random, least: int, most: int) -> str:
    return "".join(draw.choices(CHARACTERS, k=draw.randint(least, min(most, least + 12))))


def drawn_value(schema: Any, draw: random.Random, shared: Mapping[str, Any]) -> Any:
    """Return a value of the schema."""
    if not isinstance(schema, Mapping):
        return drawn_value({"type": "string"}, draw, shared)
    if "$ref" in schema:
        return drawn_value(shared[schema["$ref"].rpartition("/")[2]], draw, shared)
    for word, values in (("enum", schema.get("enum")), ("const", [schema.get("const")])):
        if word in schema and values:
            return draw.choice(values)
    if "anyOf" in schema:
        return drawn_value(draw.choice(schema["anyOf"]), draw, shared)
    kind = schema.get("type", "string")
    match draw.choice(kind) if isinstance(kind, list) else kind:
        case "object":
            return _drawn_object(schema, draw, shared)
        case "array":
            least = schema.get("minItems", 0)
            size = draw.randint(least, schema.get("maxItems", least + 2))
            return [drawn_value(schema.get("items", {}), draw, shared) for _ in range(size)]
        case "integer":
            return draw.randint(schema.get("minimum", -9), schema.get("maximum", 9))
        case "number":
            return draw.choice([0, 0.5, 1])
        case "boolean":
            return draw.random() < 0.5
        case "null":
            return None
        case _:
            return drawn_text(draw, schema.get("minLength", 0), schema.get("maxLength", 300))


def _drawn_object(schema: Mapping[str, Any], draw: random.Random, shared: Mapping[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    known = schema.get("properties", {}).items()
    return {name: drawn_value(each, draw, shared) for name, each in known if name in required or draw.random() < 0.5}
