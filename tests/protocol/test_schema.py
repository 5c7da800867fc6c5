"""Arguments of tools: their JSON schema, and the check before a given_to."""

from __future__ import annotations

import datetime
import enum
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field

from tests.protocol.helpers import given_to
from whichloop.protocol import Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.json_text import canonical_json

if TYPE_CHECKING:
    pass

P = inspect.Parameter
KINDS = (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY)
NAMES = ("a", "self", "schema", "_x", "p0", "p1", "model_config", "json", "class_", "é")
OTHER_NAMES = ("z", "p2", "kwargs2", "A", "")


class Recorder:
    """A function of any signature, which tells what reached which parameter."""

    __name__ = "recorder"

    def __init__(self, signature: inspect.Signature) -> None:
        self.__signature__ = signature
        self.ran = 0

    def __call__(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        self.ran += 1
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


@st.composite
def signatures(draw: st.DrawFn) -> inspect.Signature:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    kinds = sorted(draw(st.sampled_from(KINDS)) for _ in names)
    parameters, optional = [], False
    for name, kind in zip(names, kinds, strict=True):
        # positional parameters after one with a default need one as well
        has_default = draw(st.booleans()) or (optional and kind is not P.KEYWORD_ONLY)
        optional = optional or has_default
        parameters.append(P(name, kind, default=f"default of {name}" if has_default else P.empty))
    if draw(st.booleans()):
        place = sum(parameter.kind is not P.KEYWORD_ONLY for parameter in parameters)
        parameters.insert(place, P("rest", P.VAR_POSITIONAL))
    if draw(st.booleans()):
        parameters.append(P("more", P.VAR_KEYWORD))
    return inspect.Signature(parameters)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Recorder, dict[str, Any], dict[str, Any]]:
    """A function, arguments that fit it, and what must reach its parameters."""
    signature = draw(signatures())
    arguments: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is P.VAR_POSITIONAL:
            expected[name] = tuple(draw(st.lists(st.integers(), max_size=3)))
            if expected[name] or draw(st.booleans()):
                arguments[name] = list(expected[name])
        elif parameter.kind is P.VAR_KEYWORD:
            expected[name] = draw(st.dictionaries(st.sampled_from(OTHER_NAMES), st.integers(), max_size=2))
            arguments |= expected[name]
        elif parameter.default is P.empty or draw(st.booleans()):
            arguments[name] = expected[name] = draw(st.integers() | st.text(max_size=3))
        else:
            expected[name] = parameter.default
    order = draw(st.permutations(list(arguments)))
    return Recorder(signature), {name: arguments[name] for name in order}, expected


@given(calls(), st.booleans())
def test_every_argument_reaches_its_parameter(made: tuple[Recorder, dict[str, Any], dict[str, Any]], validate: bool) -> None:
    function, arguments, expected = made
    box = Toolbox([Tool.from_function(function, blocking=False)])
    seen = run_sync(box.call(ToolCall("recorder", arguments), validate=validate))
    assert seen.ok, seen.data
    assert seen.value == expected


@given(signatures())
def test_the_schema_says_what_the_signature_says(signature: inspect.Signature) -> None:
    schema = Tool.from_function(Recorder(signature)).parameters
    named = [parameter for parameter in signature.parameters.values() if parameter.kind is not P.VAR_KEYWORD]
    assert schema["type"] == "object"
    assert list(schema["properties"]) == [parameter.name for parameter in named]
    required = [p.name for p in named if p.default is P.empty and p.kind is not P.VAR_POSITIONAL]
    assert schema.get("required", []) == required
    assert schema["additionalProperties"] is (len(named) < len(signature.parameters))
    assert canonical_json(schema)


@given(st.data())
def test_unknown_and_missing_arguments_are_all_named_and_nothing_runs(data: st.DataObject) -> None:
    signature = data.draw(signatures().filter(lambda made: all(p.kind is not P.VAR_KEYWORD for p in made.parameters.values())))
    function = Recorder(signature)
    required = [p.name for p in signature.parameters.values() if p.default is P.empty and p.kind is not P.VAR_POSITIONAL]
    missing = data.draw(st.sets(st.sampled_from(required)) if required else st.just(set()))
    unknown = data.draw(st.sets(st.sampled_from(OTHER_NAMES), min_size=0 if missing else 1))
    arguments = dict.fromkeys([*(name for name in required if name not in missing), *unknown], 1)
    seen = run_sync(Toolbox([function]).call(ToolCall("recorder", arguments)))
    assert (seen.status, seen.error_type, seen.value, function.ran) == ("error", "InvalidArguments", None, 0)
    problems, allowed = seen.data.split(". Allowed: ")
    for name in required:
        assert (f"missing argument '{name}'" in problems) is (name in missing)
    for name in OTHER_NAMES:
        assert (f"unknown argument '{name}'" in problems) is (name in unknown)
    assert all(f"{name}: " in allowed for name in signature.parameters)


class Unit(enum.Enum):
    KM = "km"
    MILE = "mile"


class Place(BaseModel):
    city: str
    zip_code: int | None = None


TYPES: list[tuple[Any, dict[str, Any], str, Any, Any, Any]] = [
    # annotation, schema, in words, given, what the function gets, a wrong value
    (int, {"type": "integer"}, "integer", 3, 3, "three"),
    (list[int], {"items": {"type": "integer"}, "type": "array"}, "array", [1], [1], [1, "x"]),
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "integer or string", "a", "a", []),
    (Literal["x", 2], {"enum": ["x", 2]}, "'x' or 2", 2, 2, "y"),
    (Unit, {"$ref": "#/$defs/Unit"}, "'km' or 'mile'", "km", Unit.KM, "inch"),
    (Place, {"$ref": "#/$defs/Place"}, "object", {"city": "Bern"}, Place(city="Bern"), {"zip_code": 3000}),
    (datetime.date, {"format": "date", "type": "string"}, "string", "2024-02-29", datetime.date(2024, 2, 29), "2023-02-29"),
    (Annotated[int, Field(ge=1, description="how many")],
     {"description": "how many", "minimum": 1, "type": "integer"}, "integer", 1, 1, 0),
    (Any, {}, "any", [None], [None], None),
]  # fmt: skip


def typed(annotation: Any) -> Tool:
    def tool(value: Any) -> Any:
        return value

    tool.__annotations__ = {"value": annotation}
    return Tool.from_function(tool, blocking=False)


@pytest.mark.parametrize(("annotation", "schema", "words", "given_", "received", "wrong"), TYPES)
def test_types_become_schemas_and_values_become_types(annotation, schema, words, given_, received, wrong):
    tool = typed(annotation)
    assert tool.parameters["properties"] == {"value": schema}
    assert tool.parameters["required"] == ["value"]
    assert canonical_json(tool.parameters)
    good = given_to(tool, value=given_)
    assert good.ok, good.data
    assert good.value == received
    assert type(good.value) is type(received)
    assert f"Allowed: value: {words}" in given_to(tool).data
    if annotation is not Any:
        bad = given_to(tool, value=wrong)
        assert bad.error_type == "InvalidArguments"
        assert "argument 'value" in bad.data


def test_defaults_stand_in_the_schema_and_the_function_uses_its_own() -> None:
    marker = ["shared"]

    def search(query: str = "all", *, limits: list[str] = marker, when: datetime.date = datetime.date(2024, 1, 2)) -> list[Any]:
        return [query, limits is marker, when]

    properties = Tool.from_function(search).parameters["properties"]
    assert [item["default"] for item in properties.values()] == ["all", ["shared"], "2024-01-02"]
    assert given_to(search).value == ["all", True, datetime.date(2024, 1, 2)]


def test_unchecked_arguments_never_land_in_the_place_of_a_missing_one() -> None:
    def divide(a: float, b: float = 1.0, /) -> float:
        return a / b

    def total(start: int, *amounts: int) -> int:
        return start + sum(amounts)

    for seen in (given_to(divide, validate=False, b=2), given_to(total, validate=False, amounts=[1, 2])):
        assert seen.error_type == "InvalidArguments"
        assert "missing argument" in seen.data


def test_arguments_must_be_an_object_with_text_as_keys() -> None:
    box = Toolbox([typed(int)])
    no_objects: list[Any] = [[], "x", None, 3]
    for arguments in no_objects:
        seen = run_sync(box.call(ToolCall("tool", arguments)))
        assert (seen.error_type, seen.data) == ("InvalidArguments", "Tool 'tool': arguments must be an object")
    assert run_sync(box.call(ToolCall("tool", {1: 2}))).error_type == "InvalidArguments"  # type: ignore[dict-item]
    assert run_sync(box.call(ToolCall("tool", types.MappingProxyType({"value": 1})))).value == 1


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_any_wrong_value_makes_a_short_legible_message() -> None:
    for value in (nested(5_000), 10**5000, ["x" * 10**6], "\ud800"):
        seen = given_to(typed(bool), value=value)
        assert seen.error_type == "InvalidArguments"
        assert len(seen.data.encode()) < 400


def test_a_validator_that_raises_anything_is_a_wrong_argument() -> None:
    def refuse(value: object) -> object:
        raise KeyError("no such unit")

    assert given_to(typed(Annotated[int, BeforeValidator(refuse)]), value=1).error_type == "InvalidArguments"


def test_a_type_without_json_schema_is_refused_when_the_tool_is_made() -> None:
    for annotation in (types.ModuleType, Recorder, list[Recorder], Callable[[int], int]):
        with pytest.raises(TypeError, match=r"tool 'tool': an argument's type has no JSON schema"):
            typed(annotation)
