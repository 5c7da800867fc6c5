"""What OpenAI's API refuses in the schemas of tools and of replies, in its own words (sources: docs/serve.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from whichloop.protocol.json_text import Json

Context = tuple[str, ...]
"""Where a schema stands in the whole one, as OpenAI's messages show it."""

_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


def function_problem(schema: Mapping[str, object], *, strict: bool) -> str | None:
    """Return what is wrong with the schema of a tool's parameters; None if nothing is. `strict`: structured outputs."""
    problem = _root_problem(schema)
    if problem is None and "properties" not in schema:
        problem = _in_context((), "object schema missing properties")
    return problem or _inner_problem(schema, strict=strict)


def reply_problem(schema: Mapping[str, object]) -> str | None:
    """Return what is wrong with the schema of a reply under structured outputs; None if nothing is."""
    return _root_problem(schema) or _inner_problem(schema, strict=True)


def _root_problem(schema: Mapping[str, object]) -> str | None:
    kind = schema.get("type")
    return None if kind == "object" else f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'"


def _inner_problem(schema: Mapping[str, object], *, strict: bool) -> str | None:
    for context, inner in inner_schemas(schema):
        if (problem := _array_problem(context, inner)) or (strict and (problem := _strict_problem(context, inner))):
            return problem
    return None


def inner_schemas(root: Mapping[str, object]) -> Iterator[tuple[Context, Mapping[str, Json]]]:
    """Yield all schemas in one, outer ones first; the depth of a body is bounded (see `check_depth`)."""
    waiting: list[tuple[Context, object]] = [((), root)]
    while waiting:
        context, schema = waiting.pop()
        if not isinstance(schema, Mapping):
            continue
        yield context, schema
        inner: list[tuple[Context, object]] = []
        for key in _MAPS:
            if isinstance(schema.get(key), Mapping):
                inner += [((*context, key, str(name)), value) for name, value in schema[key].items()]
        for key in _LISTS:
            if isinstance(schema.get(key), list):
                inner += [((*context, key, str(place)), value) for place, value in enumerate(schema[key])]
        inner += [((*context, key), schema[key]) for key in ("items", "additionalProperties") if key in schema]
        waiting += reversed(inner)


def _array_problem(context: Context, schema: Mapping[str, object]) -> str | None:
    kinds = schema.get("type")
    if "items" in schema:
        return None
    if kinds == "array":
        return _in_context(context, "array schema missing items")
    if isinstance(kinds, list) and "array" in kinds:
        return _in_context((*context, "type", str(kinds.index("array"))), "array schema missing items")
    return None


def _strict_problem(context: Context, schema: Mapping[str, object]) -> str | None:
    if schema.get("type") != "object":
        return None
    if schema.get("additionalProperties") is not False:
        return _in_context(context, "'additionalProperties' is required to be supplied and to be false")
    required, properties = schema.get("required"), schema.get("properties")
    named_properties = properties if isinstance(properties, Mapping) else {}
    missing = [name for name in named_properties if not isinstance(required, list) or name not in required]
    if missing:
        problem = "'required' is required to be supplied and to be an array including every key in properties."
        return _in_context(context, f"{problem} Missing '{missing[0]}'")
    return None


def _in_context(context: Context, problem: str) -> str:
    return f"In context={context!r}, {problem}"
