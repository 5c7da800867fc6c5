"""A function's arguments as a pydantic model: their JSON schema, and a check before the call.

The one module of this floor that needs pydantic; `tools.py` loads it when the first tool is built.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticSchemaGenerationError, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from .tools import ToolArgumentError

_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one function."""

    tool: str
    """The tool's name, for messages."""
    model: type[BaseModel]
    """Fields are named `p0`, `p1`, …, with the parameter's name as alias: a parameter may be called `schema` or `_x`."""
    parameters: tuple[inspect.Parameter, ...]
    json_schema: Mapping[str, Any]
    by_name: bool
    """Every argument is passed by name: no positional-only ones, no `*args`."""

    @classmethod
    def of(cls, function: Callable[..., Any], tool: str) -> Arguments:
        """Raises TypeError where a type has no JSON schema. A callable without signature accepts any argument."""
        parameters = _parameters(function)
        hints = _type_hints(function)
        fields: dict[str, Any] = {}
        open_ended = False
        for index, parameter in enumerate(parameters):
            annotation = hints.get(parameter.name, Any)
            if parameter.kind is _VAR_KEYWORD:
                open_ended = True
                continue
            if parameter.kind is _VAR_POSITIONAL:
                fields[f"p{index}"] = (GenericAlias(list, (annotation,)), Field(default=[], alias=parameter.name))
            elif parameter.default is inspect.Parameter.empty:
                fields[f"p{index}"] = (annotation, Field(alias=parameter.name))
            else:
                fields[f"p{index}"] = (annotation, Field(default=parameter.default, alias=parameter.name))
        config = ConfigDict(extra="allow" if open_ended else "forbid", arbitrary_types_allowed=False)
        try:
            model = create_model(tool, __config__=config, **fields)
            schema = model.model_json_schema(schema_generator=_PlainSchema)
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema) as error:
            reason = str(error).splitlines()[0]
            raise TypeError(f"tool {tool!r}: an argument's type has no JSON schema ({reason})") from error
        schema.pop("title", None)
        schema.setdefault("properties", {})
        by_name = all(p.kind not in (_POSITIONAL_ONLY, _VAR_POSITIONAL) for p in parameters)
        return cls(tool, model, parameters, schema, by_name)

    def bind(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Check and convert; gives what to call the function with.

        Raises ToolArgumentError, which names every unknown, missing and mistyped argument and lists what is allowed.
        """
        try:
            checked = self.model.model_validate(arguments)
        except ValidationError as error:
            raise ToolArgumentError(self._complaint(error)) from None
        given = checked.model_fields_set
        values = {
            parameter.name: getattr(checked, f"p{index}")
            for index, parameter in enumerate(self.parameters)
            if f"p{index}" in given
        }
        if checked.__pydantic_extra__:
            values |= checked.__pydantic_extra__
        return ((), values) if self.by_name else self._spread(values)

    def bind_unchecked(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as they are, positional ones put in their place."""
        return ((), dict(arguments)) if self.by_name else self._spread(dict(arguments))

    def _spread(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional arguments where the signature wants them: positional-only ones, and all before a filled `*args`."""
        rest = next((p.name for p in self.parameters if p.kind is _VAR_POSITIONAL), None)
        extra = values.pop(rest, None) if rest is not None else None
        positional: list[Any] = []
        for parameter in self.parameters:
            wanted = parameter.kind is _POSITIONAL_ONLY or (extra and parameter.kind is parameter.POSITIONAL_OR_KEYWORD)
            if not wanted:
                continue
            if parameter.name in values:
                positional.append(values.pop(parameter.name))
            elif parameter.default is not inspect.Parameter.empty:
                positional.append(parameter.default)
        if isinstance(extra, list | tuple):
            positional.extend(extra)
        return tuple(positional), values

    def _complaint(self, error: ValidationError) -> str:
        problems = []
        for item in error.errors(include_url=False, include_context=False):
            where = ".".join(str(part) for part in item["loc"])
            if item["type"] == "extra_forbidden":
                problems.append(f"unknown argument '{where}'")
            elif item["type"] == "missing":
                problems.append(f"missing argument '{where}'")
            else:
                problems.append(f"argument '{where}': {item['msg']}, got {_short(item['input'])}")
        return f"Tool '{self.tool}': {'; '.join(problems)}. Allowed: {self.allowed}"

    @property
    def allowed(self) -> str:
        """The arguments in words: `a: number, b: number = 0`."""
        required = set(self.json_schema.get("required", ()))
        parts = []
        for name, schema in self.json_schema["properties"].items():
            parts.append(f"{name}: {_kind(schema)}" + ("" if name in required else " (optional)"))
        if self.json_schema.get("additionalProperties") is True:
            parts.append("any other name")
        return ", ".join(parts) or "no arguments"


class _PlainSchema(GenerateJsonSchema):
    """Schemas as a provider wants them: no titles made of parameter names, no default that JSON cannot say."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def emit_warning(self, kind: Any, detail: str) -> None:
        """A default without JSON form (a function, say) is left out of the schema; the call still uses it."""


def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # some builtins have none: anything goes
        return (inspect.Parameter("kwargs", _VAR_KEYWORD),)


def _type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = type(target).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError):  # annotations that name what only a type checker sees
        return {}


def _kind(schema: Mapping[str, Any]) -> str:
    """The type of one argument in words, read off its JSON schema."""
    if "enum" in schema or "const" in schema:
        return " or ".join(repr(value) for value in schema.get("enum", (schema.get("const"),)))
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    return str(schema.get("type", "object" if "$ref" in schema else "any"))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
