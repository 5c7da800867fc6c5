"""Which replies a codec can read, as a grammar that a server holds a model to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .moves import Codec
from .tool_calls import ToolSpec


@dataclass(frozen=True, slots=True)
class TextLine:
    """A text of one line that is not empty."""

    max_chars: int = 120


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value as JSON."""

    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AnyCall:
    """A native call of one of the tools that the request offers, or of the one that it forces."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several texts."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same parts, several times one after the other."""

    parts: tuple[GrammarPart, ...]
    least: int
    most: int | None = None
    """None: as often as the server's own bound allows."""


GrammarPart = str | TextLine | JsonValue | AnyCall | OneOf | Repeated
"""A part of a reply; a text stands for itself."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The replies that a server lets a model give, token by token (constrained decoding)."""

    alternatives: tuple[tuple[GrammarPart, ...], ...]
    """Each reply is one of these: its parts, one after the other."""

    def as_dict(self) -> dict[str, Any]:
        """Return the grammar as JSON: a list of alternatives, each a list of parts.

        A line is `{"line": characters}`, a value `{"json": schema}`, a call `{"call": true}`, one of several texts
        `{"one_of": texts}`, and parts that repeat `{"repeated": parts, "least": times, "most": times or null}`.
        """
        return {"alternatives": [[_part_as_json(part) for part in parts] for parts in self.alternatives]}


def _part_as_json(part: GrammarPart) -> object:
    match part:
        case TextLine():
            return {"line": part.max_chars}
        case JsonValue():
            return {"json": dict(part.schema)}
        case AnyCall():
            return {"call": True}
        case OneOf():
            return {"one_of": list(part.texts)}
        case Repeated():
            return {"repeated": [_part_as_json(each) for each in part.parts], "least": part.least, "most": part.most}
    return part


def json_object(properties: Mapping[str, Any]) -> JsonValue:
    """Return a JSON object that has exactly these properties, in this order. `properties`: name → JSON schema."""
    shared = {name: schema for each in properties.values() for name, schema in each.get("$defs", {}).items()}
    schema = {"type": "object", "properties": dict(properties), "required": list(properties), "additionalProperties": False}
    return JsonValue(schema | ({"$defs": shared} if shared else {}))


@runtime_checkable
class GrammarCodec(Codec, Protocol):
    """A codec that says which replies it can read, so that a server can hold a model to them."""

    def grammar(self, tools: Sequence[ToolSpec]) -> Grammar:
        """Return a grammar of replies that `parse` reads; it may leave out some. `tools`: those that a call can name."""


@runtime_checkable
class SchemaCodec(Codec, Protocol):
    """A codec whose replies are JSON of one schema."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the reply."""
