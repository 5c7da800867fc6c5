"""What a plan in JSON may be: the model that checks it, and the JSON schema that says so to others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from loopbench.protocol.names import nearest

_REFERENCE = {
    "type": "object",
    "description": "The result of an earlier call, or the part of it at a path.",
    "properties": {"$ref": {"type": "string"}, "path": {"type": "array", "items": {"type": ["string", "integer"]}}},
    "required": ["$ref"],
    "additionalProperties": False,
}
_MARK = "value of a plan"
_VALUE = {
    "description": "A literal, or a reference to the result of an earlier call, at any depth.",
    "if": {"type": "object", "required": ["$ref"]},
    "then": {"$ref": "#/$defs/Reference"},
    "else": {"items": {"$ref": "#/$defs/Value"}, "additionalProperties": {"$ref": "#/$defs/Value"}},
}


def _with_right_references(value: Any) -> Any:
    """Return the value as it is. Raises ValueError for an object with the key `$ref` that is no reference."""
    if isinstance(value, Mapping):
        if "$ref" in value:
            path = value.get("path", [])
            right = isinstance(value["$ref"], str) and isinstance(path, list) and value.keys() <= {"$ref", "path"}
            if not right or not all(isinstance(part, str | int) and not isinstance(part, bool) for part in path):
                raise ValueError('a reference is {"$ref": ID} or {"$ref": ID, "path": [KEY, …]}')
        for item in value.values():
            _with_right_references(item)
    elif isinstance(value, list):
        for item in value:
            _with_right_references(item)
    return value


Value = Annotated[Any, AfterValidator(_with_right_references), WithJsonSchema({"format": _MARK})]


_TYPES = {
    "string_type": "text belongs here",
    "list_type": "a list belongs here",
    "bool_type": "true or false belongs here",
    "dict_type": "an object belongs here",
    "model_type": "an object belongs here",
    "model_attributes_type": "an object belongs here",
}
"""What pydantic calls a value of another kind → what would be right."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CallInJson(_Strict):
    """One call of a plan."""

    id: str = Field(description="The name by which other calls and the answer refer to its result.")
    tool: str = Field(description="The name of the tool.")
    arguments: dict[str, Value] = Field(description="The tool's arguments by name.")
    goal: str = Field(description="What the call is for, in words that no other call of the plan has.")
    alternatives: list[CallInJson] = Field(default=[], description="Calls that may replace this one; they have its id.")
    fails: bool = Field(default=False, description="An error is the expected result.")
    after: list[str] = Field(default=[], description="Ids of further calls that must come before this one.")


class PlanInJson(_Strict):
    """The calls that solve a task, each after those that it refers to, and the answer."""

    calls: list[CallInJson]
    answer: Value = Field(description="The right answer; null if saying that there is none is right.")


def plan_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a plan: an object, a list of calls or lines, or the lines in one text."""
    generated = json.dumps(PlanInJson.model_json_schema())
    schema = json.loads(generated.replace(f'"format": "{_MARK}"', '"$ref": "#/$defs/Value"'))
    parts = schema.pop("$defs")
    lines = "a call a line, such as left = stock(item='chair')"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plan of a task",
        "anyOf": [
            {"$ref": "#/$defs/PlanInJson"},
            {
                "type": "array",
                "items": {"$ref": "#/$defs/CallInJson"},
                "description": "The calls alone; the task's right answer is the plan's.",
            },
            {"type": "array", "items": {"type": "string"}, "description": f"Lines: {lines}."},
            {"type": "string", "description": f"Lines in one text: {lines}."},
        ],
        "$defs": {"PlanInJson": schema, **parts, "Reference": _REFERENCE, "Value": _VALUE},
    }


def checked_plan(value: Any) -> Mapping[str, Any]:
    """Return a plan in JSON as it is. Raises ValueError, in a line, for the first thing in it that is no plan's."""
    if not isinstance(value, Mapping):
        raise ValueError("a plan is an object with calls and answer, a list of calls, or a call a line, not a mix of them")
    try:
        PlanInJson.model_validate(value)
    except ValidationError as error:
        raise ValueError(_first(error)) from None
    return value


def _first(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False)[0]
    where = _place(details["loc"])
    if details["type"] == "missing":
        return f"{where} is missing"
    if details["type"] == "extra_forbidden":
        known_fields = PlanInJson.model_fields if len(details["loc"]) == 1 else CallInJson.model_fields
        return f"{where}: there is no such field; {nearest(str(details['loc'][-1]), known_fields)}"
    problem = _TYPES.get(details["type"]) or details["msg"].removeprefix("Value error, ")
    return f"{where}: {problem}" if where else problem


def _place(path: tuple[str | int, ...]) -> str:
    """Return a path as it is written in Python: `calls[0].tool`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
