"""Tools as typed functions: each schema gives a function that takes what the schema takes and hands it on unchanged."""

import inspect
import keyword
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.programs.outside.runner import annotation, source, typed_function

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
PLAIN = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"]).map(lambda kind: {"type": kind})
LITERALS = st.lists(TEXTS | st.integers() | st.booleans(), min_size=1, max_size=3).map(lambda values: {"enum": values})
SCHEMAS = st.recursive(
    PLAIN | LITERALS | st.just({}) | st.just({"type": ["string", "null"]}),
    lambda inner: (
        inner.map(lambda one: {"type": "array", "items": one})
        | st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
    ),
    max_leaves=4,
)


def _tool(name, properties, required, description):
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": description, "parameters": parameters}


@st.composite
def tools(draw):
    properties = draw(st.dictionaries(NAMES, SCHEMAS, max_size=4))
    properties = {
        name: {**schema, **draw(st.fixed_dictionaries({}, optional={"description": TEXTS}))} for name, schema in properties.items()
    }
    return _tool(draw(NAMES), properties, [name for name in properties if draw(st.booleans())], draw(TEXTS))


def _recorded(name, arguments):
    return name, arguments


@given(tools(), st.data())
def test_a_function_has_name_parameters_types_and_source_of_its_schema_and_hands_on_what_it_is_given(tool, data):
    function = typed_function(tool, _recorded, False)
    properties, required = tool["parameters"]["properties"], tool["parameters"]["required"]
    given_arguments = {name: data.draw(st.integers() | TEXTS) for name in properties}
    assert function(**given_arguments) == (tool["name"], given_arguments)
    parameters = inspect.signature(function).parameters
    assert function.__name__ == tool["name"]
    assert parameters.keys() == properties.keys()
    assert {name for name, one in parameters.items() if one.default is one.empty} == set(required)
    assert typing.get_type_hints(function).keys() == {*properties, "return"}
    assert not any(isinstance(one.annotation, str) for one in parameters.values())  # some frameworks read nothing else
    assert inspect.getsource(function) == source(tool, False)
    assert inspect.getdoc(function) is not None
    assert inspect.iscoroutinefunction(typed_function(tool, _recorded, True))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "number"}, "float"),
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"enum": ["a", 'b"c']}, "Literal['a', 'b\"c']"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "Optional[str]"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "Union[str, int]"),
        (True, "Any"),
        ({"enum": [[1], {"b": 2}], "type": "array"}, "list"),
    ],
)
def test_schemas_read_as_annotations(schema, text):
    assert annotation(schema) == text


def test_an_optional_argument_has_its_default():
    properties = {"a": {"type": "integer", "default": 3}, "b": {"type": "string"}, "c": {"default": float("inf")}}
    assert typed_function(_tool("t", properties, [], ""), _recorded, False)() == ("t", {"a": 3, "b": None, "c": None})


@pytest.mark.parametrize("name", ["ﬁ", "a b", "class", "1st", "x): pass\nimport os #"])
def test_names_that_no_function_can_have_are_refused(name):
    for tool in (_tool(name, {}, [], ""), _tool("t", {name: {}}, [], "")):
        with pytest.raises(ValueError, match="no Python function can have the name"):
            typed_function(tool, _recorded, False)
