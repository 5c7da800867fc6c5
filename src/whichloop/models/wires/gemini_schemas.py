"""Gemini's schemas, a part of OpenAPI's, as JSON Schema; and what the API refuses in them (sources: docs/serve.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from whichloop.protocol.json_text import Json

from .gemini_fields import (
    broken_rule,
    inside,
    invalid_value,
    items,
    message,
    message_type,
    one_of,
    struct,
    text,
    texts,
)

SCHEMA = message_type(
    "Schema",
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties minLength"
    " maxLength pattern example anyOf propertyOrdering default items minimum maximum",
)
_TYPES = frozenset({"TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_WORDS = ("format", "title", "description", "pattern")
_COUNTS = ("maxItems", "minItems", "minProperties", "maxProperties", "minLength", "maxLength")
_BOUNDS = ("minimum", "maximum")


class _Place(NamedTuple):
    """Where a schema is: as Google names places when it reads a body, and as it does when a rule is broken."""

    in_body: str
    in_rules: str

    def field(self, name: str) -> _Place:
        return _Place(inside(self.in_body, name), inside(self.in_rules, name))


def parameters_schema(value: object, where: str) -> dict[str, Json]:
    """Return the schema of a function's parameters as JSON Schema. Raises BadRequest."""
    return _schema(value, _Place(where, where), may_be_empty=True)


def reply_schema(value: object, where: str) -> dict[str, Json]:
    """Return the schema of a reply as JSON Schema. Raises BadRequest."""
    return _schema(value, _Place(where, where), may_be_empty=False)


def _schema(value: object, place: _Place, *, may_be_empty: bool) -> dict[str, Json]:
    """Return a schema of Gemini's as JSON schema; `may_be_empty`: whether an object may be without properties."""
    data = message(value, place.in_body, SCHEMA)
    kind = one_of(data, "type", place.in_body, "Type", _TYPES)
    type_name = "" if kind in (None, "TYPE_UNSPECIFIED") else str(kind)
    properties = {
        name: _schema(inner, _property(place, name, number), may_be_empty=may_be_empty)
        for number, (name, inner) in enumerate(struct(data, "properties", place.in_body).items())
    }
    schema: dict[str, Any] = {name: text(data, name, place.in_body) for name in _WORDS if name in data}
    schema |= _numbers(data, place)
    if "default" in data:
        schema["default"] = data["default"]
    if type_name:
        schema["type"] = [type_name.lower(), "null"] if data.get("nullable") is True else type_name.lower()
    if options := texts(data, "enum", place.in_body):
        schema["enum"] = list(options)
    if "items" in data:
        schema["items"] = _schema(data["items"], place.field("items"), may_be_empty=may_be_empty)
    if choices := items(data, "anyOf", place.in_body):
        schema["anyOf"] = [
            _schema(item, _Place(in_body, f"{place.in_rules}.any_of[{number}]"), may_be_empty=may_be_empty)
            for number, (item, in_body) in enumerate(choices)
        ]
    if type_name == "OBJECT":
        schema["properties"] = properties
    if required := texts(data, "required", place.in_body):
        schema["required"] = list(required)
    _check(data, type_name, place, properties)
    if type_name == "OBJECT" and not properties and not may_be_empty:
        raise broken_rule(f"{place.in_rules}.properties", "should be non-empty for OBJECT type")
    return schema


def _property(place: _Place, name: str, number: int) -> _Place:
    return _Place(f"{place.in_body}.properties[{number}].value", f"{place.in_rules}.properties[{name}]")


def _numbers(data: Mapping[str, object], place: _Place) -> dict[str, Json]:
    """Return the bounds in a schema; a whole number may be written as text, as protocol buffers write those of 64 bits."""
    numbers: dict[str, Any] = {}
    for name in (*_COUNTS, *_BOUNDS):
        value = data.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            value = int(value)
        is_number = isinstance(value, int if name in _COUNTS else int | float) and not isinstance(value, bool)
        if value is not None and not is_number:
            raise invalid_value(inside(place.in_body, name), "TYPE_INT64" if name in _COUNTS else "TYPE_DOUBLE", value)
        if value is not None:
            numbers[name] = value
    return numbers


def _check(data: Mapping[str, object], kind: str, place: _Place, properties: Mapping[str, object]) -> None:
    """Check what Google checks of one schema."""
    where = place.in_rules
    if not kind and "anyOf" not in data:
        raise broken_rule(f"{where}.type", "must be specified when not using one_of, any_of or all_of fields")
    if kind == "ARRAY" and "items" not in data:
        raise broken_rule(f"{where}.items", "missing field.")
    for name in ("properties", "required"):
        if kind not in ("OBJECT", "") and data.get(name):
            raise broken_rule(f"{where}.{name}", "only allowed for OBJECT type")
    if kind not in ("STRING", "") and data.get("enum"):
        raise broken_rule(f"{where}.enum", "only allowed for STRING type")
    for number, name in enumerate(texts(data, "required", place.in_body)):
        if name not in properties:
            raise broken_rule(f"{where}.required[{number}]", "property is not defined")
