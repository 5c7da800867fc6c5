"""BFCL's functions as they are published, and as stub tools that acknowledge a call and note it down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
from pydantic import Field

from whichloop.protocol import Tool, ToolArgumentError

from ..importing.json_files import JsonRow
from ..task import WorldEnvironment

ACKNOWLEDGED = {"status": "accepted", "note": "This function is a stub: it does nothing and has no result to wait for."}
MAX_NAME = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that providers do not allow in a function's name; dots above all."""

_TYPES = {
    **{name: name for name in ("string", "integer", "number", "boolean", "array", "object")},
    **{"float": "number", "list": "array", "tuple": "array", "dict": "object"},
}
"""BFCL's name of a type → JSON schema's; "any" has none."""
_JSON_TYPES: dict[type, str] = {
    **{bool: "boolean", int: "integer", float: "number", str: "string"},
    **{list: "array", dict: "object", type(None): "null"},
}


def _enum(validator: Any, options: Sequence[Any], value: Any, schema: Mapping[str, Any]) -> Iterable[jsonschema.ValidationError]:
    if not any(loose_text(value) == loose_text(option) for option in options):
        yield jsonschema.ValidationError(f"{value!r} is not one of {list(options)!r}")


_Typed = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int),
)
"""JSON schema, but 5.0 is no integer: BFCL goes by Python's types, where an int does for a float and not the reverse."""
_Official = jsonschema.validators.extend(_Typed, {"enum": _enum})
"""The same, and an enum's texts are compared without letter case and punctuation."""


_NO_MATTER = str.maketrans({**dict.fromkeys(" ,./-_*^"), "'": '"'})
"""Characters that do not count in texts: "April 1, 2024" is "april 1 2024"."""


def loose_text(value: Any) -> Any:
    """Return a text without letter case, spaces and the characters `,./-_*^`, with `"` for `'`; any other value as it is."""
    return value.translate(_NO_MATTER).lower() if isinstance(value, str) else value


class ParameterRow(JsonRow):
    """A parameter as BFCL describes it."""

    type: Literal["string", "integer", "float", "number", "boolean", "array", "list", "tuple", "dict", "object", "any", ""] = "any"
    description: str | None = None
    format: str | None = None
    enum: Annotated[list[Any], Field(min_length=1)] | None = None
    default: Any = None
    properties: dict[str, ParameterRow] | None = None
    required: list[str] | None = None
    items: ParameterRow | None = None

    def as_schema(self) -> dict[str, Any]:
        """Return the parameter as JSON schema."""
        schema: dict[str, Any] = {"type": _TYPES[self.type]} if self.type in _TYPES else {}
        for name in ("description", "format", "enum", "default", "required"):
            if name in self.model_fields_set and (name == "default" or getattr(self, name) is not None):
                schema[name] = getattr(self, name)
        if self.properties is not None:
            schema["properties"] = {name: inner.as_schema() for name, inner in self.properties.items()}
        if self.items is not None:
            schema["items"] = self.items.as_schema()
        return schema


class ParametersRow(ParameterRow):
    """All parameters of a function."""

    type: Literal["dict", "object"]

    def as_schema(self) -> dict[str, Any]:
        """Return them as the JSON schema of an object that takes no others."""
        inner = {name: parameter.as_schema() for name, parameter in (self.properties or {}).items()}
        required = {} if self.required is None else {"required": self.required}
        return {"type": "object", **required, "properties": inner, "additionalProperties": False}


class FunctionRow(JsonRow):
    """A function as BFCL describes it."""

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    parameters: ParametersRow


@dataclass(frozen=True, slots=True)
class StubFunction:
    """A function of a row, as its tool needs it."""

    name: str
    """The name as published."""
    tool: str
    """The tool's name, which providers' protocols allow."""
    row: FunctionRow
    schema: Mapping[str, Any]
    """JSON schema of the arguments as a model is shown it."""
    accepted_schema: Mapping[str, Any]
    """JSON schema of the arguments that the stub takes: those of `schema`, and the allowed values that contradict it."""

    def problem(self, arguments: Mapping[str, Any]) -> str:
        """Return what is wrong with a call's arguments; empty if nothing is."""
        found = [
            (".".join(map(str, error.absolute_path)), error) for error in _Official(self.accepted_schema).iter_errors(arguments)
        ]
        return "; ".join(f"{where}: {error.message}" if where else error.message for where, error in found)

    def shows(self, parameter: str, value: Any) -> bool:
        """Whether a value fits the schema of a parameter that the function has."""
        return bool(_Typed(self.schema["properties"][parameter]).is_valid(value))


def tool_names(names: Sequence[str]) -> dict[str, str]:
    """Return, for each published name, one that providers allow: "." and the like become "_", and what then clashes gets a number.

    A name that is legal already keeps itself.
    """
    legal_names: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (_legal(name) != name, names.index(name))):
        base, number = _legal(name), 1
        legal = base
        while legal in legal_names.values():
            number += 1
            legal = f"{base[: MAX_NAME - len(str(number)) - 1]}_{number}"
        legal_names[name] = legal
    return legal_names


def _legal(name: str) -> str:
    return _ILLEGAL.sub("_", name)[:MAX_NAME]


def stub_functions(rows: Sequence[FunctionRow], calls: Any) -> dict[str, StubFunction]:
    """Return functions by published name, in the row's order.

    `calls`: those that are right, `[{function: {parameter: [value, …]}}]`. None of their values is refused, whatever the function's
    own schema says of it.
    """
    names = tool_names(list(dict.fromkeys(row.name for row in rows)))
    functions = {}
    for row in rows:
        schema = row.parameters.as_schema()
        allowed: dict[str, list[Any]] = {name: [] for name in schema["properties"]}
        for call in calls if isinstance(calls, list) else ():
            for name, options in call.get(row.name, {}).items():
                allowed.setdefault(name, []).extend(options)
        taken = {name: _widened(inner, allowed[name]) for name, inner in schema["properties"].items()}
        functions[row.name] = StubFunction(row.name, names[row.name], row, schema, {**schema, "properties": taken})
    return functions


def _widened(schema: Mapping[str, Any], allowed: Sequence[Any]) -> dict[str, Any]:
    """Return what the official checker looks at before it compares values: a type, that of a list's items, and the enum."""
    merged = _type_and_enum(schema, allowed)
    if merged.get("type") and isinstance(schema.get("items"), dict):
        merged["items"] = _type_and_enum(schema["items"], [item for value in allowed if isinstance(value, list) for item in value])
    return merged


def _type_and_enum(schema: Mapping[str, Any], allowed: Sequence[Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    if "type" in schema:
        types = {schema["type"], *(_JSON_TYPES[type(value)] for value in allowed if value != "")}
        types -= {"integer"} if "number" in types else set()
        merged["type"] = sorted(types) if len(types) > 1 else types.pop()
    if "enum" in schema:
        merged["enum"] = [*schema["enum"], *allowed]
    return merged


def stub_tools(functions: Iterable[StubFunction]) -> WorldEnvironment[Any]:
    """Return a row's functions as tools that only note down how they are called.

    The state: the calls made and those refused, each in order, under the functions' published names.
    """
    noted: dict[str, list[dict[str, Any]]] = {"calls": [], "refused": []}

    def stub(function: StubFunction) -> Callable[..., Mapping[str, str]]:
        def call(**arguments: Any) -> Mapping[str, str]:
            problem = function.problem(arguments)
            noted["refused" if problem else "calls"].append({"function": function.name, "arguments": arguments})
            if problem:
                raise ToolArgumentError(f"Tool '{function.tool}': {problem}")
            return ACKNOWLEDGED

        return call

    tools = tuple(Tool(item.tool, item.row.description, item.schema, stub(item), blocking=False) for item in functions)
    return WorldEnvironment(tools, noted, lambda state: {kind: list(calls) for kind, calls in state.items()})
