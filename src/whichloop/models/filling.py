"""Values that fit a JSON schema: an answer put where the schema has room for it, and the least that it wants beside it.

What constrained decoding does to a real model: whatever it has to say comes out in the shape that was asked for.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema.validators import validator_for
from referencing import Registry

from whichloop.protocol.digest import canonical_json
from whichloop.protocol.json_text import Json

from .faults import mislead

MAX_DEPTH = 8
"""Levels of a schema that are filled."""
MAX_NODES = 500
"""Parts of a schema that are looked at for one value: optional parts may multiply without end."""
MAX_LENGTH = 1_000
"""Longest text, list or object that a schema's minimum is met with."""
MAX_PLACES = 16
"""Places in a value at which an answer is looked for."""
ANSWER = "answer"
_FOR_ANSWERS = (ANSWER, "final_answer", "finalanswer", "result", "value", "output", "response", "text", "content")
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
    filler = _Filler(schema)
    for filled in filler.with_value(schema, value, 0):
        if fits(schema, filled):
            return filled
    raise Unfillable("the schema has no place for this value")


def least(schema: Mapping[str, object]) -> Any:
    """Return the least value that is valid under a schema. Raises Unfillable if none is found."""
    candidate = _Filler(schema).least(schema, 0)
    if not fits(schema, candidate):
        raise Unfillable("no value is found that the schema takes")
    return candidate


def otherwise(schema: Mapping[str, object], value: object) -> object:
    """Return another value that the schema takes, different in every leaf that can be; None if there is not one.

    What a fluent model makes up that has no idea: the right form, and nothing in it is true.
    """
    return _otherwise(canonical_json(schema), canonical_json(value))


@functools.lru_cache(maxsize=512)  # the trials of a task share it, and it takes some milliseconds
def _otherwise(schema_text: str, value_text: str) -> Any:
    schema, root = json.loads(schema_text), [json.loads(value_text)]
    listed = list(_enumerations(schema))
    try:
        validator = validator_for(schema)(schema, registry=Registry())
        changed = [_change(place, root, validator, listed) for place in list(_leaves(root))]
    except Exception:  # a schema may be anything: unknown types, broken patterns, references to themselves
        return None
    return root[0] if any(changed) else None


def _change(place: tuple[Any, Any], root: Sequence[object], validator: Any, listed: Sequence[Sequence[Any]]) -> bool:
    """Give a leaf another value. Return whether one was found."""
    holder, key = place
    old = holder[key]
    for other in (*(item for items in listed if old in items for item in items if item != old), mislead(old)):
        holder[key] = other
        if type(other) is type(old) and validator.is_valid(root[0]):
            return True
    holder[key] = old
    return False


def _leaves(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the key of every leaf of a value, with the list or object that holds it."""
    for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
        if isinstance(item, dict | list):
            yield from _leaves(item)
        else:
            yield holder, key


def _enumerations(schema: object) -> Iterator[list[Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("enum"), list):
            yield schema["enum"]
        for part in schema.values():
            yield from _enumerations(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _enumerations(part)


def filled_value(schema: Mapping[str, object], filled: object) -> object:
    """Return the value that `fill` made this of; all of it if there is not one."""
    for place, value in enumerate(_inside(filled)):
        if place >= MAX_PLACES:
            break
        if not fits(schema, value) and _fills(schema, value, filled):
            return value
    return filled


def _fills(schema: Mapping[str, object], value: object, filled: object) -> bool:
    try:
        return same(fill(schema, value), filled)
    except Unfillable:
        return False


def same(one: object, other: object) -> bool:
    """Return whether two values are equal as JSON: 1, 1.0 and true are three values."""
    try:
        return canonical_json(one) == canonical_json(other)
    except (TypeError, ValueError, RecursionError):
        return False


def _inside(value: object) -> Iterator[Any]:
    """Yield all parts of a value, the outer ones first."""
    level = [value] if isinstance(value, dict | list) else []
    while level:
        parts = [item for whole in level for item in (whole.values() if isinstance(whole, dict) else whole)]
        yield from parts
        level = [part for part in parts if isinstance(part, dict | list)]


class _Filler:
    """One walk through one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.nodes = 0

    def with_value(self, schema: object, value: object, depth: int) -> Iterator[Any]:
        """Yield values made of `value` that the schema may take, the best first. Raises Unfillable."""
        self._count(depth)
        if self._fits(schema, value):
            yield value
        schema = self._resolved(schema)
        for option in _options(schema):
            yield from self._tried(option, value, depth)
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            for name in sorted(properties, key=_rank):
                for inner in self._tried(properties[name], value, depth):
                    yield self._object(schema, depth, {name: inner})
        elif schema.get("type") == "object" or "type" not in schema:
            yield self._object(schema, depth, {ANSWER: value})
        if schema.get("type") == "array" and isinstance(schema.get("items"), Mapping):
            for inner in self._tried(schema["items"], value, depth):
                rest = [self.least(schema["items"], depth + 1)] * (_bounded(schema.get("minItems"), 1) - 1)
                yield [inner, *rest]

    def _tried(self, schema: object, value: object, depth: int) -> Iterator[Any]:
        """Yield the same one level down, passing over a place that cannot be filled."""
        try:
            yield from self.with_value(schema, value, depth + 1)
        except Unfillable:
            if self.nodes > MAX_NODES:
                raise

    def least(self, schema: object, depth: int) -> Any:
        """Return a small value of the schema's kind; the caller checks whether it is valid. Raises Unfillable."""
        self._count(depth)
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "default" in schema and self._fits(schema, schema["default"]):
            return schema["default"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][0]
        for option in _options(schema):
            try:
                candidate = self.least(option, depth + 1)
            except Unfillable:
                continue
            if self._fits(schema, candidate):
                return candidate
        return self._plain(schema, depth)

    def _plain(self, schema: Mapping[str, object], depth: int) -> Any:
        """Return the least value of the schema's type."""
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = kind[0] if kind else "null"
        if kind == "object":
            return self._object(schema, depth, {})
        if kind == "array":
            count = _bounded(schema.get("minItems"), 0)
            items = schema.get("items", {})
            return [self.least(items, depth + 1)] * count if count else []
        if kind == "string":
            return "-" * _bounded(schema.get("minLength"), 0)
        if kind in ("integer", "number"):
            return _least_number(schema)
        return False if kind == "boolean" else None

    def _object(self, schema: Mapping[str, Any], depth: int, fixed: Mapping[str, Any]) -> dict[str, Json]:
        """Return what is given and the least of all else that is required, in the schema's order."""
        properties = schema.get("properties")
        offered = properties if isinstance(properties, Mapping) else {}
        required = schema.get("required")
        wanted = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        names = [name for name in offered if name in fixed or name in wanted]
        names += [name for name in dict.fromkeys((*wanted, *fixed)) if name not in offered]
        return {name: fixed[name] if name in fixed else self.least(offered.get(name, {}), depth + 1) for name in names}

    def _resolved(self, schema: object) -> Mapping[str, Any]:
        """Return the schema that a reference within the root stands for."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, Mapping):
                return {}
            ref = schema.get("$ref")
            if not isinstance(ref, str):
                return schema
            schema = self._at(ref)
        raise Unfillable("references without end")

    def _at(self, ref: str) -> object:
        if not ref.startswith("#"):
            raise Unfillable("a reference to elsewhere")
        part: object = self.root
        for step in ref[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(part, Mapping) or name not in part:
                raise Unfillable("a reference to nothing")
            part = part[name]
        return part

    def _fits(self, schema: object, value: object) -> bool:
        """Whether a part of the schema takes a value; its references are looked up in the root."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            return False
        shared = {name: self.root[name] for name in ("$defs", "definitions", "$schema") if name in self.root}
        return fits({**shared, **schema}, value)

    def _count(self, depth: int) -> None:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise Unfillable("the schema is too large")


def _options(schema: Mapping[str, object]) -> Iterator[Any]:
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        if isinstance(options, list):
            yield from options


def _rank(name: str) -> int:
    """Return a sort key: properties named for an answer come first, the others stay in the schema's order."""
    plain = name.lower()
    return _FOR_ANSWERS.index(plain) if plain in _FOR_ANSWERS else len(_FOR_ANSWERS)


def _bounded(wanted: Any, least_count: int) -> int:
    """Return a minimum that a schema states, as a count. Raises Unfillable for one that is too high to meet."""
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return least_count
    if wanted > MAX_LENGTH:
        raise Unfillable("the schema wants too much")
    return max(least_count, int(wanted))


def _least_number(schema: Mapping[str, object]) -> object:
    """Return 0, or the number that is nearest to a bound above or below it."""
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    whole = schema.get("type") == "integer"
    if isinstance(low, int | float) and low > 0:
        return -int(-low // 1) if whole else low
    if isinstance(above, int | float) and not isinstance(above, bool) and above >= 0:
        return int(above // 1) + 1 if whole else above + 1
    if isinstance(high, int | float) and high < 0:
        return int(high // 1) if whole else high
    if isinstance(below, int | float) and not isinstance(below, bool) and below <= 0:
        return -int(-below // 1) - 1 if whole else below - 1
    return 0
