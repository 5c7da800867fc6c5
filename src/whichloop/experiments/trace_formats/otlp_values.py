"""Attributes of spans in the JSON encoding of OTLP, both ways.

Source: opentelemetry-proto 1.9, `common/v1/common.proto` and the JSON protobuf encoding of the OTLP specification: 64-bit integers
are texts, and trace and span ids are hexadecimal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from whichloop.experiments.import_runs.values import list_at, mapping, objects_at
from whichloop.protocol.json_text import Json

MAX_LEVELS = 32
"""Levels of nesting of an attribute's value that are read."""


def attribute(key: str, value: Any) -> dict[str, Any]:
    """Return a text, truth value, number, or a list of texts as an attribute."""
    return {"key": key, "value": _any_value(value)}


def attributes_of(values: Mapping[str, object]) -> list[dict[str, Json]]:
    """Return all values but None as attributes."""
    return [attribute(key, value) for key, value in values.items() if value is not None]


def _any_value(value: object) -> dict[str, Json]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    return {"stringValue": str(value)}


def read_attributes(span: Mapping[str, object]) -> dict[str, Json]:
    """Return the attributes of a span, an event or a resource by key. Raises ValueError."""
    attributes = {}
    for item in objects_at(span, "attributes", "an attribute"):
        key = item.get("key")
        if not isinstance(key, str):
            raise ValueError("an attribute has no key")
        attributes[key] = read_value(mapping(item.get("value"), f"the value of {key}"))
    return attributes


def read_value(value: Mapping[str, object], levels: int = MAX_LEVELS) -> Any:
    """Return the value of an AnyValue; None for an empty one. Raises ValueError for one that is nested too deep."""
    if levels == 0:
        raise ValueError("an attribute is nested too deep")
    if "intValue" in value:
        return int(value["intValue"]) if isinstance(value["intValue"], int | str) else None
    for name in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if name in value:
            return value[name]
    if "arrayValue" in value:
        return [
            read_value(mapping(item, "an item"), levels - 1) for item in list_at(mapping(value["arrayValue"], "a list"), "values")
        ]
    if "kvlistValue" in value:
        return dict(_pairs(objects_at(mapping(value["kvlistValue"], "an object"), "values", "an entry"), levels))
    return None


def _pairs(entries: Iterable[Mapping[str, object]], levels: int) -> Iterable[tuple[str, Any]]:
    for entry in entries:
        yield str(entry.get("key")), read_value(mapping(entry.get("value"), "an entry"), levels - 1)
