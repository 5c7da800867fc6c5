"""What `__finish__` takes: the tool's parameters, and the check of its arguments against a JSON schema or a pydantic model.

Rows such as G-6 are those of docs/conformance.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol, TypeVar, overload

from pydantic import BaseModel, ValidationError

from whichloop.protocol import Observation, Tool, Toolbox, ToolCall, ToolSpec
from whichloop.protocol.tools import ToolboxAround

from .partial import Partial

FINISH = "__finish__"
DESCRIPTION = "Give your final answer. This ends the task."
WRAPPED = "answer"
"""The one argument that holds an answer which is not an object."""
MAX_PROBLEMS = 5


class InvalidOutput(ValueError):
    """The arguments of `__finish__` do not fit; the message says where, in words that a model can act on."""


class Output(Protocol):
    """The answer's form."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON schema of the arguments of `__finish__`, type "object"."""

    @property
    def is_wrapped(self) -> bool:
        """Whether the answer is the one argument `answer`, not the arguments."""

    @property
    def takes_null(self) -> bool:
        """Whether null is an answer."""

    def validate(self, arguments: Mapping[str, Any]) -> Any:
        """Return the answer that the arguments state. Raises InvalidOutput."""

    def built(self, arguments: Mapping[str, Any]) -> Any:
        """Do what `validate` does, for a user's hook. Raises pydantic's ValidationError if a model validates."""

    def converted(self, tree: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return arguments from the texts of an XML reply."""

    def snapshot(self, so_far: Mapping[str, Any], complete: Mapping[str, Any]) -> Any:
        """Return what is known of an answer whose arguments are still being written."""


def spec_of(output: Output) -> ToolSpec:
    """Return the tool as the model sees it."""
    return ToolSpec(FINISH, DESCRIPTION, output.parameters)


# --- a JSON schema ---


@dataclass(frozen=True, slots=True)
class JsonOutput:
    """An answer by JSON schema. A schema of type "object" states the arguments themselves; any other, the one argument `answer`."""

    parameters: Mapping[str, Any]
    schema: Mapping[str, Any] | None
    """Schema of the answer; None for text."""
    is_wrapped: bool
    refusal: Callable[[Any], str] | None = None
    """Says what is wrong with an answer that the schema allows, empty if nothing is; None: all that it allows is right."""
    takes_null: bool = False

    @classmethod
    def of(
        cls, schema: Mapping[str, Any] | None, refusal: Callable[[Any], str] | None = None, takes_null: bool = False
    ) -> JsonOutput:
        if schema is not None and schema.get("type") == "object":
            return cls(schema, schema, False, refusal)
        answer_schema: dict[str, Any] = {"type": "string"} if schema is None else dict(schema)
        definitions = {"$defs": answer_schema.pop("$defs")} if "$defs" in answer_schema else {}  # "#/$defs/…" means the root
        wrapped = {"type": "object", "properties": {WRAPPED: answer_schema}, "required": [WRAPPED], "additionalProperties": False}
        return cls(wrapped | definitions, schema, True, refusal, takes_null)

    def validate(self, arguments: Mapping[str, Any]) -> Any:
        if not self.is_wrapped:
            value: Any = dict(arguments)
        elif arguments.keys() == {WRAPPED}:
            value = arguments[WRAPPED]
        else:
            raise InvalidOutput(f"exactly one argument is expected, {WRAPPED!r}; got {', '.join(arguments) or 'none'}")
        problems = _problems(value, self.schema, WRAPPED if self.is_wrapped else "")
        if problems:
            raise InvalidOutput("; ".join(problems))
        if self.refusal is not None and (problem := self.refusal(value)):
            raise InvalidOutput(problem)
        return value

    def built(self, arguments: Mapping[str, Any]) -> Any:
        return self.validate(arguments)

    def converted(self, tree: Mapping[str, Any]) -> Mapping[str, Any]:
        arguments = converted(tree, self.parameters, self.parameters)
        assert isinstance(arguments, dict)  # as the tree is
        return arguments

    def snapshot(self, so_far: Mapping[str, Any], complete: Mapping[str, Any]) -> Any:
        return dict(so_far)


def _problems(value: Any, schema: Mapping[str, Any] | None, where: str) -> list[str]:
    if schema is None:
        return [] if isinstance(value, str) else [f"{where}: {_short_repr(value)} is not of type 'string'"]
    # Imported here: it takes long, and an answer in plain text needs none of it.
    from jsonschema.validators import validator_for
    from referencing import Registry

    validator = validator_for(schema)(schema, registry=Registry())  # an empty registry fetches nothing
    try:
        errors = [error for error, _ in zip(validator.iter_errors(value), range(MAX_PROBLEMS), strict=False)]
    except RecursionError:
        return [f"{where or 'the arguments'}: nested too deep"]
    return [f"{_place(where, error.absolute_path) or 'the arguments'}: {error.message[:300]}" for error in errors]


def _place(where: str, path: Any) -> str:
    return ".".join(part for part in (where, *map(str, path)) if part)


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- a pydantic model ---


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """An answer that is an instance of a pydantic model."""

    model: type[BaseModel]
    parameters: Mapping[str, Any]
    is_wrapped: ClassVar[bool] = False
    takes_null: ClassVar[bool] = False

    @classmethod
    def of(cls, model: type[BaseModel]) -> ModelOutput:
        """Return the output for a model. Raises TypeError for one that is not an object, such as a RootModel of a list."""
        return cls(model, _schema_of(model))

    def validate(self, arguments: Mapping[str, Any]) -> Any:
        try:
            return self.built(arguments)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)[:MAX_PROBLEMS]
            raise InvalidOutput(
                "; ".join(f"{_place('', item['loc']) or 'the arguments'}: {item['msg']}" for item in problems)
            ) from None

    def built(self, arguments: Mapping[str, Any]) -> Any:
        return self.model.model_validate(dict(arguments))

    def converted(self, tree: Mapping[str, Any]) -> Mapping[str, Any]:
        return tree  # pydantic reads numbers, dates and the rest from text itself

    def snapshot(self, so_far: Mapping[str, Any], complete: Mapping[str, Any]) -> Any:
        return Partial.read(self.model, so_far, complete)


@lru_cache(maxsize=256)
def _schema_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return a model's schema with its properties at the top; for a model that holds itself, pydantic puts a reference there."""
    schema = model.model_json_schema()
    if "$ref" in schema:
        schema = dict(resolved(schema, schema)) | {"$defs": schema["$defs"]}
    if schema.get("type") != "object":
        raise TypeError(f"{model.__name__} is not an object, as the arguments of {FINISH} are: give it a field for its value")
    return schema


# --- texts to values, by schema ---


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema after following its reference to `#/$defs/…`; references to elsewhere are not followed."""
    for _ in range(20):  # a reference to a reference to itself
        if not isinstance(schema, Mapping):
            return {}
        target = schema.get("$ref")
        if not isinstance(target, str):
            return schema
        place: Any = root
        for key in target.removeprefix("#").strip("/").split("/"):
            place = place.get(key) if key and isinstance(place, Mapping) else place
        schema = place
    return {}


def options_of(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a schema, null first; the schema itself if it has none."""
    schema = resolved(schema, root)
    kinds = schema.get("type")
    alternatives: list[Mapping[str, Any]]
    if isinstance(kinds, list):
        alternatives = [dict(schema) | {"type": kind} for kind in kinds]
    else:
        either = schema.get("anyOf", schema.get("oneOf"))
        alternatives = [resolved(item, root) for item in either] if isinstance(either, list) else [dict(schema)]
    return sorted(alternatives, key=lambda option: option.get("type") != "null")


def converted(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """Return a tree of texts with the texts read as their schema's types; a text that cannot be read so stays."""
    options = options_of(schema, root)
    if isinstance(value, Mapping):
        shape = next((option for option in options if option.get("properties")), {})
        return {name: converted(item, shape.get("properties", {}).get(name), root) for name, item in value.items()}
    if isinstance(value, list):
        shape = next((option for option in options if option.get("type") == "array"), {})
        return [converted(item, shape.get("items"), root) for item in value]
    return _read(value, options) if isinstance(value, str) else value


def _read(text: str, options: list[Mapping[str, Any]]) -> Any:
    for option in options:
        for allowed in option.get("enum", [option["const"]] if "const" in option else []):
            if text == allowed or text.strip() == json.dumps(allowed):
                return allowed
        if option.get("type") in _FORMS:
            try:
                value = json.loads(text.strip().lower())
            except (ValueError, RecursionError):
                continue
            if isinstance(value, _FORMS[option["type"]]) and isinstance(value, bool) is (option["type"] == "boolean"):
                return value
    return text


_FORMS: Mapping[str, Any] = {"boolean": bool, "integer": int, "number": int | float, "null": type(None)}


F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__whichloop_tool__"


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    blocking: bool = True,
    time_limit_s: float | None = None,
    max_chars: int | None = None,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **settings: Any) -> Any:
    """Make a function a tool: its name, docstring and argument types describe it. The function itself is unchanged.

    `time_limit_s`: seconds for one call. `max_chars`: characters that a model reads of one result. None: the module's limits.
    Raises TypeError if an argument's type has no JSON schema.
    """
    if function is None:
        return lambda decorated: _marked(decorated, settings)
    return _marked(function, settings)


def _marked(function: F, settings: dict[str, Any]) -> F:
    setattr(function, _MARK, Tool.from_function(function, **settings))
    return function


def as_tool(given: Tool | Callable[..., Any]) -> Tool:
    """Return a given tool, the tool of a decorated function, or one made of a plain function."""
    if isinstance(given, Tool):
        return given
    marked = getattr(given, _MARK, None)
    return marked if isinstance(marked, Tool) else Tool.from_function(given)


def refuse_reserved(tools: Toolbox) -> None:
    """Raise ValueError for a tool named `__finish__`, which ends the run (row G-6)."""
    if FINISH in tools:
        raise ValueError(f"a tool may not be named {FINISH!r}: that name ends the run")


class CurrentTools(ToolboxAround):
    """The tools that a run was given, without those that `on_step` removed and with those that it added."""

    def __init__(self, within: Toolbox) -> None:
        super().__init__(within)
        self._tools = dict(within._tools)  # a copy: what is added and removed is so for this run only
        self._offered: tuple[ToolSpec, ...] = ()

    def add(self, given: Tool | Callable[..., Any]) -> None:
        """Offer a tool; the same tool again changes nothing. Raises ValueError for another tool's name, and for `__finish__`."""
        added = as_tool(given)
        present = self.get(added.name)
        if added.name == FINISH:
            raise ValueError(f"a tool may not be named {FINISH!r}: that name ends the run")
        # By equality: a method is a new object each time that it is named.
        if present is not None and present is not added and present.function != added.function:
            raise ValueError(f"another tool is named {added.name!r} already; remove it first")
        self._tools.setdefault(added.name, added)

    def remove(self, name: str) -> None:
        """Stop offering a tool; an unknown name changes nothing. Raises ValueError for `__finish__`."""
        if name == FINISH:
            raise ValueError(f"{FINISH} cannot be removed: without it the run could not end")
        self._tools.pop(name, None)

    def specs_with(self, finish: ToolSpec) -> tuple[ToolSpec, ...]:
        """Return what a model reads of the tools and, last, of `__finish__`; like `specs` the same tuple as long as they stay."""
        offered = (*self.specs, finish)
        if offered != self._offered:
            self._offered = offered
        return self._offered

    async def call(self, call: ToolCall, *, validate: bool = True) -> Observation:
        if self.get(call.name) is self.within.get(call.name):  # both None for a tool that nobody knows
            return await self.within.call(call, validate=validate)
        return await Toolbox.call(self, call, validate=validate)
