"""Values that fit a JSON schema: an answer put where the schema has room for it, and the least that it wants beside it.

What constrained decoding does to a real model: whatever it has to say comes out in the shape that was asked for.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema.validators import validator_for
from referencing import Registry

from whichloop.protocol.json_text import canonical_json

from .faults import mislead

MAX_DEPTH, MAX_NODES = 8, 500
"""Levels and parts of a schema that are looked at for one value: optional parts may multiply without end."""
MAX_LENGTH = 1_000
"""Longest text or list that a schema's minimum is met with."""
MAX_PLACES = 16
_FOR_ANSWERS = ("answer", "final_answer", "finalanswer", "result", "value", "output", "response", "text", "content")
"""Properties that are meant for an answer, whatever stands before them."""


class Unfillable(ValueError):
    """A schema that a value cannot be put into."""


def fits(schema: Mapping[str, object], value: object) -> bool:
    """Whether a value is valid under a schema; a broken schema, or one that refers to elsewhere, takes nothing."""
    try:
        validator = validator_for(schema)(schema, registry=Registry())  # an empty registry fetches nothing
        return bool(validator.is_valid(value))
    except Exception:  # a schema is a client's: unknown types, broken patterns, references to themselves
        return False


def fill(schema: Mapping[str, object], value: object) -> Any:
    """Return the value if valid, else an object, list or nesting of them that has it in the first place that takes it.

    Properties named for an answer come first. Raises Unfillable.
    """
    for filled in _Filler(schema).places(schema, value, 0):
        if fits(schema, filled):
            return filled
    raise Unfillable("the schema has no place for this value")


def least(schema: Mapping[str, object]) -> Any:
    """Return the least value that is valid under a schema. Raises Unfillable if none is found."""
    candidate = _Filler(schema).least(schema, 0)
    if not fits(schema, candidate):
        raise Unfillable("no value is found that the schema takes")
    return candidate


def filled_value(schema: Mapping[str, object], filled: object) -> object:
    """Return the value that `fill` made this of; all of it if there is not one."""
    for holder, key in itertools.islice(_places(filled), MAX_PLACES):
        with contextlib.suppress(Unfillable):
            if not fits(schema, holder[key]) and same(fill(schema, holder[key]), filled):
                return holder[key]
    return filled


def otherwise(schema: Mapping[str, object], value: object) -> object:
    """Return another value that the schema takes, different in every leaf that can be; None if there is not one.

    What a fluent model makes up that has no idea: the right form, and nothing in it is true.
    """
    return _otherwise(canonical_json(schema), canonical_json(value))


@functools.lru_cache(maxsize=512)  # the trials of a task share it, and it takes some milliseconds
def _otherwise(schema_text: str, value_text: str) -> Any:
    schema, root = json.loads(schema_text), [json.loads(value_text)]
    listed = [parent[key] for parent, key in _places(schema) if key == "enum" and isinstance(parent[key], list)]
    is_changed = False
    for holder, key in list(_places(root)):
        old = holder[key]
        for other in [] if isinstance(old, dict | list) else [*itertools.chain(*(e for e in listed if old in e)), mislead(old)]:
            holder[key] = other
            if other != old and type(other) is type(old) and fits(schema, root[0]):
                is_changed = True
                break
        else:
            holder[key] = old
    return root[0] if is_changed else None


def same(one: object, other: object) -> bool:
    """Return whether two values are equal as JSON: 1, 1.0 and true are three values."""
    try:
        return canonical_json(one) == canonical_json(other)
    except (TypeError, ValueError, RecursionError):
        return False


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the key of every part of a value, the outer ones first, with the list or object that holds it."""
    level = [value]
    while level:
        holders = [part for part in level if isinstance(part, dict | list)]
        places = [(part, key) for part in holders for key in (part if isinstance(part, dict) else range(len(part)))]
        yield from places
        level = [holder[key] for holder, key in places]


class _Filler:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.left = MAX_NODES

    def places(self, part: object, value: object, depth: int) -> Iterator[Any]:
        """Yield values made of `value` that a part of the schema may take, the best first."""
        if self._takes(part, value):
            yield value
        with contextlib.suppress(Unfillable):
            schema = self._resolved(part, depth)
            for option in _options(schema):
                yield from self.places(option, value, depth + 1)
            properties = schema.get("properties")
            if isinstance(properties, Mapping) and properties:
                ranks = {name: place for place, name in enumerate(_FOR_ANSWERS)}
                for name in sorted(properties, key=lambda name: ranks.get(name.lower(), len(ranks))):
                    for inner in self.places(properties[name], value, depth + 1):
                        yield self._object(schema, depth, {name: inner})
            elif schema.get("type", "object") == "object":
                yield self._object(schema, depth, {"answer": value})
            if schema.get("type") == "array" and isinstance(schema.get("items"), Mapping):
                for inner in self.places(schema["items"], value, depth + 1):
                    yield [inner, *[self.least(schema["items"], depth + 1)] * (_count(schema, "minItems") - 1)]

    def least(self, part: object, depth: int) -> Any:
        """Return a small value of a part's kind; the caller checks whether it is valid. Raises Unfillable."""
        schema = self._resolved(part, depth)
        listed = schema["enum"] if isinstance(schema.get("enum"), list) else []
        for candidate in (*(schema[key] for key in ("const", "default") if key in schema), *listed):
            if self._takes(schema, candidate):
                return candidate
        for option in _options(schema):
            with contextlib.suppress(Unfillable):
                candidate = self.least(option, depth + 1)
                if self._takes(schema, candidate):
                    return candidate
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match (kind or ["null"])[0] if isinstance(kind, list) else kind:
            case "object":
                return self._object(schema, depth, {})
            case "array":
                count = _count(schema, "minItems")
                return [self.least(schema.get("items", {}), depth + 1)] * count if count else []
            case "string":
                return "-" * _count(schema, "minLength")
            case "integer" | "number" as number:
                bounds = [schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")]
                finite = [bound for bound in bounds if isinstance(bound, int | float) and math.isfinite(bound)]
                near = [math.floor(bound) if number == "integer" else bound for bound in finite]
                candidates = (0, *(bound + step for bound in near for step in (0, 1, -1)))
                return next((candidate for candidate in candidates if self._takes(schema, candidate)), 0)
            case other:
                return False if other == "boolean" else None

    def _object(self, schema: Mapping[str, Any], depth: int, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given and the least of all else that is required, in the schema's order."""
        offered = schema["properties"] if isinstance(schema.get("properties"), Mapping) else {}
        required = schema["required"] if isinstance(schema.get("required"), list) else []
        wanted = dict.fromkeys([*(name for name in required if isinstance(name, str)), *fixed])
        names = [*(name for name in offered if name in wanted), *(name for name in wanted if name not in offered)]
        return {name: fixed[name] if name in fixed else self.least(offered.get(name, {}), depth + 1) for name in names}

    def _takes(self, schema: object, value: object) -> bool:
        """Whether a part of the schema takes a value; its references are looked up in the root."""
        shared = {name: self.root[name] for name in ("$defs", "definitions", "$schema") if name in self.root}
        return fits({**shared, **schema}, value) if isinstance(schema, Mapping) else schema is True

    def _resolved(self, schema: object, depth: int) -> Mapping[str, Any]:
        """Return the schema that a reference within the root stands for. Raises Unfillable."""
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            raise Unfillable("the schema is too large")
        for _ in range(MAX_DEPTH):
            ref = schema.get("$ref") if isinstance(schema, Mapping) else None
            if not isinstance(ref, str):
                return schema if isinstance(schema, Mapping) else {}
            schema = self.root
            for step in ref.removeprefix("#").split("/")[1:]:
                schema = schema.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(schema, Mapping) else None
            if schema is None:
                raise Unfillable("a reference to nothing")
        raise Unfillable("references without end")


def _options(schema: Mapping[str, object]) -> Iterator[Any]:
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        yield from options if isinstance(options, list) else ()


def _count(schema: Mapping[str, object], key: str) -> int:
    """Return a minimum that a schema states, as a count, within bounds."""
    wanted = schema.get(key)
    return int(min(max(0, wanted), MAX_LENGTH)) if isinstance(wanted, int | float) else 0
