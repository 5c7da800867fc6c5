"""A function's arguments as a pydantic model: their JSON schema, and a check before the call.

The only module of this package that needs pydantic; `tools.py` loads it when the first typed tool is built.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from types import GenericAlias, SimpleNamespace
from typing import Any, NotRequired, Required, Unpack, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from whichloop.protocol.json_text import canonical_json

from .values import ToolArgumentError, error_text, render_value, shown_short, underlying

_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
_NOT_GIVEN: Any = object()
"""Default of a parameter that may be left out and has no default."""


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
    """Every argument is passed by name: there are no positional-only ones and no `*args`."""
    named: tuple[tuple[str, str], ...]
    """The parameters that an argument can name, each with its field."""

    @classmethod
    def of(cls, function: Callable[..., Any], tool: str) -> Arguments:
        """Read the arguments of a function; a callable without signature accepts any argument.

        `**arguments: Unpack[Fields]` of a TypedDict (PEP 692) are as many arguments as it has keys.

        Raises TypeError if a type has no JSON schema or a default is pydantic's `Field(…)`, which no plain call fills in.
        """
        try:
            parameters = tuple(inspect.signature(function).parameters.values())
        except (ValueError, TypeError):  # some builtins have none: anything goes
            parameters = (inspect.Parameter("kwargs", _VAR_KEYWORD),)
        parameters, hints = _unpacked(parameters, _type_hints(function))
        read = tuple((parameter, hints.get(parameter.name, Any)) for parameter in parameters)
        try:
            in_words = repr([(type(parameter.default), parameter, hint) for parameter, hint in read])
            hash(read)
        except Exception:  # a default that may change, or whose own methods raise
            return _read(tool, read)
        arguments = _read_once(tool, read, in_words)
        return replace(arguments, parameters=parameters, json_schema=deepcopy(arguments.json_schema))

    def bind(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Check and convert; return the positional and the keyword arguments of the call.

        Raises ToolArgumentError, which names every unknown, missing and mistyped argument and lists what is allowed.
        """
        checked = self.check(arguments)
        # An extra argument may be called p0, or like the parameter that takes it.
        values = {name: getattr(checked, where) for name, where in self.named if name in arguments}
        if checked.__pydantic_extra__:
            values |= checked.__pydantic_extra__
        return ((), values) if self.by_name else self._spread(values)

    def check(self, arguments: Mapping[str, Any]) -> BaseModel:
        """Return the arguments as fields. Raises as `bind` does."""
        try:
            return self.model.model_validate(arguments)
        except ValidationError as error:
            raise self._error(self._complaint(error)) from None
        except Exception as error:  # the user's validator may raise anything
            raise self._error(f"{type(error).__name__}: {error_text(error)}") from None

    def bind_unchecked(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments unchanged, positional ones in their places."""
        return ((), dict(arguments)) if self.by_name else self._spread(dict(arguments))

    def _spread(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Split off the positional arguments: positional-only ones, and all before a filled `*args`."""
        rest = next((p.name for p in self.parameters if p.kind is _VAR_POSITIONAL), None)
        extra = values.pop(rest) if rest is not None and isinstance(values.get(rest), list | tuple) else ()
        positional: list[Any] = []
        for parameter in self.parameters:
            wanted = parameter.kind is _POSITIONAL_ONLY or (extra and parameter.kind is parameter.POSITIONAL_OR_KEYWORD)
            if not wanted:
                continue
            if parameter.name in values:
                positional.append(values.pop(parameter.name))
            elif parameter.default is not inspect.Parameter.empty:
                positional.append(parameter.default)
            else:  # unchecked arguments: whatever follows would land in its place
                raise self._error(f"missing argument '{parameter.name}'")
        return (*positional, *extra), values

    def _complaint(self, error: ValidationError) -> str:
        problems = []
        for item in error.errors(include_url=False, include_context=False):
            where = ".".join(str(part) for part in item["loc"])
            if item["type"] == "extra_forbidden":
                problems.append(f"unknown argument '{where}'")
            elif item["type"] == "missing":
                problems.append(f"missing argument '{where}'")
            else:
                problems.append(f"argument '{where}': {item['msg']}, got {shown_short(item['input'])}")
        return "; ".join(problems)

    def _error(self, problem: str) -> ToolArgumentError:
        return ToolArgumentError(f"Tool '{self.tool}': {problem}. Allowed: {self.allowed}")

    @property
    def allowed(self) -> str:
        """The arguments in words: `a: number, b: number (optional)`."""
        required = set(self.json_schema.get("required", ()))
        defs = self.json_schema.get("$defs", {})
        parts = []
        for name, schema in self.json_schema["properties"].items():
            parts.append(f"{name}: {_kind(schema, defs)}" + ("" if name in required else " (optional)"))
        others = self.json_schema.get("additionalProperties", True)
        if others is not False:
            parts.append("any other name" + ("" if others is True else f": {_kind(others, defs)}"))
        return ", ".join(parts) or "no arguments"


def _read(tool: str, read: Sequence[tuple[inspect.Parameter, Any]]) -> Arguments:
    """Make the model of a tool's parameters, each with its type."""
    fields: dict[str, Any] = {}
    open_ended = False
    for index, (parameter, annotation) in enumerate(read):
        if isinstance(parameter.default, FieldInfo):
            raise TypeError(f"tool {tool!r}: say {parameter.name}: Annotated[…, Field(…)] = …, not = Field(…)")
        if parameter.kind is _VAR_KEYWORD:
            open_ended = True
            if annotation is not Any:
                fields["__pydantic_extra__"] = GenericAlias(dict, (str, annotation))
        elif parameter.kind is _VAR_POSITIONAL:
            fields[f"p{index}"] = (GenericAlias(list, (annotation,)), Field(default=[], alias=parameter.name))
        elif parameter.default is inspect.Parameter.empty:
            fields[f"p{index}"] = (annotation, Field(alias=parameter.name))
        elif parameter.default is _NOT_GIVEN:
            fields[f"p{index}"] = (annotation, Field(default_factory=object, alias=parameter.name))
        else:
            fields[f"p{index}"] = (annotation, Field(default=parameter.default, alias=parameter.name))
    config = ConfigDict(extra="allow" if open_ended else "forbid", arbitrary_types_allowed=False)
    try:
        model = create_model(tool, __config__=config, **fields)
        schema = model.model_json_schema(schema_generator=_PlainSchema)
    except PydanticUserError as error:
        reason = str(error).splitlines()[0]
        raise TypeError(f"tool {tool!r}: an argument's type has no JSON schema ({reason})") from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    parameters = tuple(parameter for parameter, _ in read)
    by_name = all(p.kind not in (_POSITIONAL_ONLY, _VAR_POSITIONAL) for p in parameters)
    named = tuple((p.name, f"p{index}") for index, p in enumerate(parameters) if p.kind is not _VAR_KEYWORD)
    return Arguments(tool, model, parameters, schema, by_name, named)


@lru_cache(maxsize=512)
def _read_once(tool: str, read: tuple[tuple[inspect.Parameter, Any], ...], in_words: str) -> Arguments:
    """Do as `_read` does, once for equal parameters: a suite may define its tools anew in each trial, and each takes a millisecond.

    `in_words`: the parameters in words, which tell apart what is equal and yet not the same, such as True and 1.
    """
    return _read(tool, read)


class _PlainSchema(GenerateJsonSchema):
    """Makes schemas for providers: without titles made of parameter names, and without defaults that JSON cannot say."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def encode_default(self, dft: Any) -> Any:
        """Raises PydanticSerializationError for NaN and infinity too."""
        default = super().encode_default(dft)
        try:
            canonical_json(default)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return default

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Ignore that a default without JSON form (a function, NaN) is left out of the schema; the call still uses it."""


def _type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    target: Any = underlying(function)
    if inspect.isclass(target):
        target = target.__init__
    elif not inspect.isroutine(target):
        target = type(target).__call__
    target = inspect.unwrap(target)
    hints: dict[str, Any] = {}
    for name, annotation in getattr(target, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= get_type_hints(alone, getattr(target, "__globals__", {}), include_extras=True)
        except Exception:  # it names what only a type checker sees, or is prose: this argument takes any value
            hints[name] = Any
    return hints


def _unpacked(
    parameters: tuple[inspect.Parameter, ...], hints: Mapping[str, Any]
) -> tuple[tuple[inspect.Parameter, ...], Mapping[str, Any]]:
    """Put the keys of `**arguments: Unpack[Fields]` in its place, with their types."""
    last = parameters[-1] if parameters else None
    packed = hints.get(last.name) if last is not None and last.kind is _VAR_KEYWORD else None
    if get_origin(packed) is not Unpack:
        return parameters, hints
    (fields,) = get_args(packed)
    key_hints: dict[str, Any] = {}
    unpacked = list(parameters[:-1])
    for name, hint in get_type_hints(fields, include_extras=True).items():
        marker = get_origin(hint)  # of a string annotation the class itself does not know it
        is_needed = marker is Required or (name in fields.__required_keys__ and marker is not NotRequired)
        default = inspect.Parameter.empty if is_needed else _NOT_GIVEN
        unpacked.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
        key_hints[name] = get_args(hint)[0] if marker in (NotRequired, Required) else hint
    return tuple(unpacked), {**hints, **key_hints}


def _kind(schema: Any, defs: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _kind(defs[schema["$ref"].removeprefix("#/$defs/")], defs)
    if "enum" in schema or "const" in schema:
        return " or ".join(repr(value) for value in schema.get("enum", (schema.get("const"),)))
    options = schema.get("anyOf", schema.get("oneOf"))
    if options is not None:
        return " or ".join(_kind(option, defs) for option in options)
    return str(schema.get("type", "any"))


@dataclass(frozen=True, slots=True)
class AnswerType:
    """The type of an answer: a pydantic model, a dataclass, a TypedDict or any other that has a JSON schema."""

    kind: Any

    @property
    def name(self) -> str:
        return self.kind.__name__ if isinstance(self.kind, type) else str(self.kind)

    @property
    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema. Raises TypeError for a type that has none."""
        try:
            return TypeAdapter(self.kind).json_schema()
        except PydanticUserError as error:
            raise TypeError(f"schema: {self.kind!r} has no JSON schema ({str(error).splitlines()[0]})") from None

    @property
    def takes_null(self) -> bool:
        """Whether None is an instance, as it is of `int | None`."""
        try:
            return TypeAdapter(self.kind).validate_json("null") is None
        except ValidationError:
            return False

    def read(self, answer: Any) -> Any:
        """Return the instance that a text or a JSON value states; a text may be JSON itself, as that of `bare` is.

        Raises ValueError that says what is wrong.
        """
        adapter: TypeAdapter[Any] = TypeAdapter(self.kind)
        problem = "it cannot be read"
        answer_text = "null" if answer is None else render_value(answer)
        for text in [json.dumps(answer), answer] if isinstance(answer, str) else [answer_text]:
            try:
                return adapter.validate_json(text)
            except ValidationError as error:
                problem = first_problem(error) or problem
        raise ValueError(f"the answer is no {self.name}: {problem}")


def first_problem(error: ValidationError) -> str:
    """Return the first thing that is wrong with a JSON value; empty for a text that is none."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return ""
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]
