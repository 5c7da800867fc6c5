"""Replies that a grammar allows: draws them, and says of one whether it is. Of JSON schema only what our grammars have."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema.validators import validator_for

from whichloop.protocol import AnyCall, Grammar, GrammarPart, JsonValue, NativeCall, OneOf, Repeated, Reply, TextLine, ToolSpec

CHARACTERS = 'abc XYZ 019 .,:;-_#[]{}<>"\\/é'


def drawn_reply(grammar: Grammar, tools: Sequence[ToolSpec], draw: random.Random) -> Reply:
    """Return a reply of the grammar."""
    parts = draw.choice(grammar.alternatives)
    calls = tuple(_drawn_call(draw.choice(tools), draw) for part in parts if isinstance(part, AnyCall))
    return Reply("".join(_drawn_part(part, draw) for part in parts), calls, None, "tool_calls" if calls else "stop")


def _drawn_call(tool: ToolSpec, draw: random.Random) -> NativeCall:
    return NativeCall("call_0", tool.name, json.dumps(drawn_value(tool.parameters, draw, tool.parameters.get("$defs", {}))))


def _drawn_part(part: GrammarPart, draw: random.Random) -> str:
    match part:
        case str():
            return part
        case TextLine():
            return drawn_text(draw, 1, part.max_chars)
        case JsonValue():
            return json.dumps(drawn_value(part.schema, draw, part.schema.get("$defs", {})), ensure_ascii=False)
        case OneOf():
            return draw.choice(part.texts)
        case Repeated():
            times = draw.randint(part.least, part.least + 2 if part.most is None else part.most)
            return "".join(_drawn_part(each, draw) for _ in range(times) for each in part.parts)
        case AnyCall():
            return ""


def is_allowed(reply: Reply, grammar: Grammar, tools: Sequence[ToolSpec]) -> bool:
    """Whether a grammar allows a reply; white space within JSON may be as it likes, and text may stand beside a native call."""
    parameters = {tool.name: tool.parameters for tool in tools}
    fit = all(call.name in parameters and _fits(json.loads(call.arguments), parameters[call.name]) for call in reply.calls)
    return fit and any(_allows(parts, reply) for parts in grammar.alternatives)


def _allows(parts: tuple[GrammarPart, ...], reply: Reply) -> bool:
    if AnyCall() in parts:
        return bool(reply.calls)
    return not reply.calls and len(reply.text) in _ends(parts, reply.text, 0)


def _ends(parts: tuple[GrammarPart, ...], text: str, start: int) -> set[int]:
    """Return where the parts can end that begin at `start`."""
    places = {start}
    for part in parts:
        places = {end for place in places for end in _part_ends(part, text, place)}
    return places


def _part_ends(part: GrammarPart, text: str, start: int) -> set[int]:
    match part:
        case str():
            return {start + len(part)} if text.startswith(part, start) else set()
        case TextLine():
            line = (text[start:].splitlines() or [""])[0][: part.max_chars]
            return set(range(start + 1, start + len(line) + 1))
        case JsonValue():
            try:
                value, end = json.JSONDecoder().raw_decode(text, start)
            except ValueError:
                return set()
            return {end} if _fits(value, part.schema) else set()
        case OneOf():
            return {start + len(each) for each in part.texts if text.startswith(each, start)}
        case Repeated():
            found, places, times = set[int](), {start}, 0
            while places and times <= (len(text) if part.most is None else part.most):
                found |= places if times >= part.least else set()
                places = {end for place in places for end in _ends(part.parts, text, place)}
                times += 1
            return found
        case AnyCall():
            raise AssertionError("a native call has no text")


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    return bool(validator_for(schema)(schema).is_valid(value))


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
