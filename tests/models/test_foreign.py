"""The codec for programs that bring none: the law of codecs, the request's rules, and what is left of what cannot be said."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets import typed
from whichloop.models.filling import Unfillable, fill, filled_value, fits, least, otherwise, same
from whichloop.models.server.foreign import ForeignCodec
from whichloop.models.wires.base import Incoming
from whichloop.models.wires.chat import CHAT
from whichloop.protocol import Act, Answer, Completion, Inexpressible, Reply, Request, Text, ToolCall, ToolSpec, WireError

OBJECT = {"type": "object"}
ADD = ToolSpec("add", "", OBJECT | {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]})
SEARCH = ToolSpec("search", "", OBJECT | {"properties": {"query": {"type": "string"}}, "required": ["query"]})
SUBMIT = ToolSpec("submit", "", OBJECT | {"properties": {"answer": {}}, "required": ["answer"]})
SUBMIT_TEXT = ToolSpec("final_answer", "", OBJECT | {"properties": {"answer": {"type": "string"}}, "required": ["answer"]})
SUBMIT_NUMBER = ToolSpec("submit", "", OBJECT | {"properties": {"answer": {"type": "number"}}, "required": ["answer"]})
FINISH = ToolSpec("finish", "", OBJECT | {"properties": {}})
TASK_TOOLS = ("add", "search")


def codec_for(
    tools: tuple[ToolSpec, ...] = (), choice: str | None = None, schema: Any = None, parallel: bool = True
) -> ForeignCodec:
    return ForeignCodec(Request((), tools, choice, schema, parallel_calls=parallel), TASK_TOOLS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["answer", "a", "b", "x"]), inner, max_size=2),
    max_leaves=5,
)
thoughts = st.sampled_from(["", "I see."])
tool_names = st.sampled_from(["add", "search", "submit", "finish", "else"])
tool_calls = st.builds(ToolCall, tool_names, st.dictionaries(st.sampled_from(["a", "b", "answer"]), json_values, max_size=2))
moves = st.one_of(
    st.builds(Act, thoughts, st.lists(tool_calls, max_size=3).map(tuple)),
    st.builds(Answer, thoughts, json_values, st.none() | st.just(0.9)),
    st.builds(Text, st.text(max_size=5)),
    st.just(Completion(True)),
)
types = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
schemas = st.recursive(
    st.fixed_dictionaries({}, optional={"type": types, "enum": st.lists(json_values, min_size=1, max_size=2)}),
    lambda inner: (
        st.builds(lambda items, least: {"type": "array", "items": items, "minItems": least}, inner, st.integers(0, 2))
        | st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=2))
        | st.builds(
            lambda properties, closed: {
                "type": "object",
                "properties": properties,
                "required": list(properties)[:2],
                "additionalProperties": not closed,
            },
            st.dictionaries(st.sampled_from(["answer", "a", "b", "reason"]), inner, max_size=3),
            st.booleans(),
        )
    ),
    max_leaves=4,
)
tools = st.lists(
    st.sampled_from([ADD, SEARCH, SUBMIT, SUBMIT_TEXT, SUBMIT_NUMBER, FINISH]), max_size=3, unique_by=lambda tool: tool.name
)


@st.composite
def codecs(draw: st.DrawFn) -> ForeignCodec:
    offered = tuple(draw(tools))
    choices = [None, "auto", "none", *(["required", *(tool.name for tool in offered)] if offered else [])]
    return codec_for(offered, draw(st.sampled_from(choices)), draw(st.none() | schemas), draw(st.booleans()))


@given(codecs(), moves)
def test_a_move_reads_back_or_cannot_be_said(codec, move):
    try:
        reply = codec.render(move)
    except Inexpressible:
        assert codec.unsaid == [move]
        return
    assert codec.parse(reply) == move
    assert codec.constrained(reply) == reply or codec.request.tool_choice == "required" or codec.is_forced


@given(codecs(), st.text(max_size=20), moves)
def test_what_is_left_of_any_move_keeps_to_the_request(codec, prose, move):
    try:
        reply = codec.render(move)
    except Inexpressible:
        reply = Reply(prose)
    made = codec.constrained(reply)
    if codec.request.tool_choice == "required" or codec.is_forced:
        assert made.calls
        assert not codec.is_forced or {call.name for call in made.calls} == {codec.request.tool_choice}
    if codec.request.tool_choice == "none":
        assert not made.calls
    assert codec.request.parallel_calls or len(made.calls) <= 1
    if codec.request.response_schema is not None and not made.calls and fillable(codec.request.response_schema):
        assert fits(codec.request.response_schema, json.loads(made.text))


@given(codecs(), st.text(max_size=20))
def test_any_text_is_read_as_an_answer_or_is_a_wire_error(codec, text):
    with contextlib.suppress(WireError):
        assert isinstance(codec.parse(Reply(text)), Answer)


def test_calls_are_native_and_their_ids_unique_in_the_conversation():
    history = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "tool_calls": [{"id": "call_0", "type": "function", "function": {"name": "add", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_0", "content": "0"},
    ]
    offered = [{"type": "function", "function": {"name": "add"}}]
    codec = ForeignCodec(CHAT.read(Incoming({"model": "m", "messages": history, "tools": offered})).request)
    reply = codec.render(Act("Both.", (ToolCall("add", {"a": 1}), ToolCall("add", {"a": 2}))))
    assert [call.id for call in reply.calls] == ["call_1", "call_2"]
    assert (reply.text, reply.finish_reason) == ("Both.", "tool_calls")


def test_how_many_calls_a_request_leaves_room_for():
    assert [codec_for((ADD,), parallel=parallel).max_calls for parallel in (True, False)] == [64, 1]
    assert codec_for((ADD,), "none").max_calls == codec_for((ADD, SUBMIT), "submit").max_calls == 0


@pytest.mark.parametrize(
    ("offered", "choice", "found"),
    [
        ((ADD, SUBMIT), None, "submit"),
        ((ADD, SUBMIT), "none", None),
        ((ADD, SEARCH), "required", None),
        ((ADD, ToolSpec("Record", "", OBJECT)), None, None),
        ((ADD, ToolSpec("Record", "", OBJECT)), "required", "Record"),
        ((ToolSpec("Final-Answer", "", OBJECT),), None, "Final-Answer"),
    ],
)
def test_which_tool_is_the_way_to_finish(offered, choice, found):
    finishing = codec_for(offered, choice).finishing
    assert (finishing.name if finishing else None) == found


def said(codec: ForeignCodec, move: Any) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the one call that the move comes out as."""
    try:
        reply = codec.render(move)
    except Inexpressible:
        reply = Reply("prose")
    (call,) = codec.constrained(reply).calls
    return call.name, json.loads(call.arguments)


@pytest.mark.parametrize("choice", [None, "auto", "required", "submit"])
def test_the_answer_goes_through_the_finishing_tool(choice):
    codec = codec_for((ADD, SUBMIT), choice)
    assert said(codec, Answer("All is known.", 9)) == ("submit", {"answer": 9})


def test_a_forced_task_tool_that_is_not_due_gets_arguments_after_its_schema():
    codec = codec_for((ADD, SEARCH), "search")
    assert said(codec, Act("Next.", (ToolCall("add", {"a": 1, "b": 2}),))) == ("search", {"query": "not determined"})
    codec = codec_for((ADD, SEARCH), "add")
    assert said(codec, Answer("", 9)) == ("add", {"a": 9, "b": 0})


@pytest.mark.parametrize(
    ("schema", "answer", "text"),
    [
        ({"type": "integer"}, 9, "9"),
        (OBJECT, 9, {"answer": 9}),
        (
            OBJECT | {"properties": {"reason": {"type": "string"}, "answer": {}}, "required": ["reason", "answer"]},
            "x",
            {"reason": "", "answer": "x"},
        ),
        ({"type": "object", "properties": {"in": {"$ref": "#/$defs/I"}}, "$defs": {"I": {"type": "integer"}}}, 3, {"in": 3}),
        ({"type": "object", "properties": {"out": {"type": "object", "properties": {"v": {"type": "null"}}}}}, None, None),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, 9, [9, 0]),
        ({"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"answer": {"type": "string"}}}]}, "x", {"answer": "x"}),
    ],
)
def test_the_answer_as_json_after_the_schema(schema, answer, text):
    codec = codec_for(schema=schema)
    if answer is None:
        with pytest.raises(Inexpressible):
            codec.render(Answer("", answer))
        return
    reply = codec.render(Answer("", answer))
    assert json.loads(reply.text) == (json.loads(text) if isinstance(text, str) else text)
    assert codec.parse(reply) == Answer("", answer)


def fillable(schema: Any) -> bool:
    try:
        least(schema)
    except Unfillable:
        return False
    return True


@given(schemas, json_values)
def test_what_is_filled_is_valid_and_the_value_is_found_in_it(schema, value):
    try:
        made = fill(schema, value)
    except Unfillable:
        return
    assert fits(schema, made)
    found = filled_value(schema, made)
    assert same(found, value) or same(fill(schema, found), made)


def bush(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = bush(depth - 1) if depth else {"type": "string"}
    return {"type": "object", "properties": dict.fromkeys("abcdefgh", inner), "required": list("abcdefgh")}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "https://example.com/schema.json"},
        {"anyOf": [{"$ref": "#"}]},
        {"type": "string", "minLength": 10**12},
        {"type": "string", "pattern": "["},
        {"enum": []},
        bush(7),
    ],
)
def test_schemas_that_are_broken_or_without_end_are_given_up(schema):
    codec_for(schema=schema).constrained(Reply("x"))


def leaves_of(value: Any) -> list[Any]:
    """The told_leaves, those of an object by its keys' order."""
    if not isinstance(value, dict | list):
        return [value]
    items = [value[key] for key in sorted(value)] if isinstance(value, dict) else value
    return [leaf for item in items for leaf in leaves_of(item)]


def test_every_form_of_the_typed_suite_can_be_made_up_and_nothing_in_it_is_right() -> None:
    for task in typed.load().tasks[::5]:
        schema = task.query.schema
        assert schema is not None
        made = otherwise(schema, task.expected)
        assert fits(schema, made)
        kept = [
            new for old, new in zip(leaves_of(task.expected), leaves_of(made), strict=True) if old is not None and same(old, new)
        ]
        assert len(kept) <= 2, (task.id, kept)


@pytest.mark.parametrize(
    ("schema", "value", "made"),
    [
        ({"enum": ["red", "blue"]}, "red", "blue"),
        ({"type": "string", "pattern": r"^W-\d{3}$"}, "W-129", "W-230"),
        ({"type": "integer", "maximum": 7}, 7, None),
        ({"type": "nonsense"}, 3, None),
    ],
)
def test_the_schema_decides_what_can_be_said(schema: dict[str, Any], value: Any, made: Any) -> None:
    assert otherwise(schema, value) == made
