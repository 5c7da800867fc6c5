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

from whichloop.protocol.digest import canonical_json

from .faults import mislead

MAX_DEPTH, MAX_NODES = 8, 500
"""Levels and parts of a schema that are looked at for one value: optional parts may multiply without end."""
MAX_LENGTH = 1_000
"""Longest text or list that a schema's minimum is met with."""
MAX_PLACES = 16
"""Places in a value at which an answer is looked for."""
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
        value = holder[key]
        with contextlib.suppress(Unfillable):
            if not fits(schema, value) and same(fill(schema, value), filled):
                return value
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
    """One walk through one schema."""

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
                for name in sorted(properties, key=_rank):
                    for inner in self.places(properties[name], value, depth + 1):
                        yield self._object(schema, depth, {name: inner})
            elif schema.get("type", "object") == "object":
                yield self._object(schema, depth, {"answer": value})
            if schema.get("type") == "array" and isinstance(schema.get("items"), Mapping):
                for inner in self.places(schema["items"], value, depth + 1):
                    more = _bounded(schema.get("minItems")) - 1
                    yield [inner, *([self.least(schema["items"], depth + 1)] * more if more > 0 else [])]

    def least(self, part: object, depth: int) -> Any:
        """Return a small value of a part's kind; the caller checks whether it is valid. Raises Unfillable."""
        schema = self._resolved(part, depth)
        if "const" in schema:
            return schema["const"]
        if "default" in schema and self._takes(schema, schema["default"]):
            return schema["default"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][0]
        for option in _options(schema):
            with contextlib.suppress(Unfillable):
                candidate = self.least(option, depth + 1)
                if self._takes(schema, candidate):
                    return candidate
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = (kind or ["null"])[0] if isinstance(kind, list) else kind
        if kind == "object":
            return self._object(schema, depth, {})
        if kind == "array":
            count = _bounded(schema.get("minItems"))
            return [self.least(schema.get("items", {}), depth + 1)] * count if count else []
        if kind == "string":
            return "-" * _bounded(schema.get("minLength"))
        if kind in ("integer", "number"):
            return self._number(schema)
        return False if kind == "boolean" else None

    def _number(self, schema: Mapping[str, object]) -> object:
        """Return 0, or a number at a bound."""
        candidates: list[float] = [0]
        bounds = (
            ("minimum", 0, math.ceil),
            ("exclusiveMinimum", 1, math.floor),
            ("maximum", 0, math.floor),
            ("exclusiveMaximum", -1, math.ceil),
        )
        for key, step, to_whole in bounds:
            if isinstance(bound := schema.get(key), int | float) and math.isfinite(bound):
                candidates.append((to_whole(bound) if schema.get("type") == "integer" else bound) + step)
        return next((number for number in candidates if self._takes(schema, number)), 0)

    def _object(self, schema: Mapping[str, Any], depth: int, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is given and the least of all else that is required, in the schema's order."""
        offered, required = schema.get("properties"), schema.get("required")
        offered = offered if isinstance(offered, Mapping) else {}
        names_wanted = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        wanted = dict.fromkeys([*names_wanted, *fixed])
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
                name = step.replace("~1", "/").replace("~0", "~")
                if not isinstance(schema, Mapping) or name not in schema:
                    raise Unfillable("a reference to nothing")
                schema = schema[name]
        raise Unfillable("references without end")


def _options(schema: Mapping[str, object]) -> Iterator[Any]:
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        yield from options if isinstance(options, list) else ()


def _rank(name: str) -> int:
    """Return a sort key: properties named for an answer come first, the others stay in the schema's order."""
    plain = name.lower()
    return _FOR_ANSWERS.index(plain) if plain in _FOR_ANSWERS else len(_FOR_ANSWERS)


def _bounded(wanted: Any) -> int:
    """Return a minimum that a schema states, as a count. Raises Unfillable for one that is too high to meet."""
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return 0
    if wanted > MAX_LENGTH:
        raise Unfillable("the schema wants too much")
    return max(0, int(wanted))
