"""The codecs of designs 2 and 4: what they can say comes back as it was, and whatever a model writes is a move or a WireError."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import comes_back
from tests.rows import row
from whichloop.dspy_seam import SignatureCodec
from whichloop.loops.bare_codecs import BareCodec, FieldsCodec, NativeCallCodec
from whichloop.loops.react_extract_codecs import extract_codec, react_codec
from whichloop.protocol import (
    Act,
    Answer,
    Codec,
    Completion,
    Move,
    PlanTask,
    Recovery,
    Reply,
    Tasks,
    Text,
    ToolCall,
    Understanding,
    WireError,
)

EVENT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "seats": {"type": "integer"},
        "price": {"type": "number"},
        "sold out": {"type": "boolean"},
        "tags": {"type": "array"},
        "place": {"type": "object"},
        "copy": {"type": ["string", "null"]},
        "a-b": {"type": "string"},
        "a_b": {"type": "string"},
        "a b": {"type": "string"},
        "reasoning": {"type": "string"},
        "model_name": {},
        "é": True,
        "": {"type": "string"},
    },
}


BARE, FIELDS, NATIVE = BareCodec(), FieldsCodec(), NativeCallCodec()
BARE_NULL, FIELDS_NULL, NATIVE_NULL = BareCodec(takes_null=True), FieldsCodec(takes_null=True), NativeCallCodec(takes_null=True)
REACT, FINISHING = react_codec("Go on.", extract=True), react_codec("Go on.", extract=False)
EXTRACT, EXTRACT_EVENT, EXTRACT_ANY, EXTRACT_NUMBER = (
    extract_codec("State the answer.", json.dumps(schema)) for schema in (None, EVENT, {}, {"type": "number"})
)
CODECS: list[Codec] = [
    *(BARE, REACT, FINISHING, FIELDS, NATIVE, EXTRACT, EXTRACT_EVENT, EXTRACT_ANY, EXTRACT_NUMBER),
    *(BARE_NULL, FIELDS_NULL, NATIVE_NULL),
]

BREAKING = "\n\r\t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029\ufeff\ud800\x00"
WORDS = st.one_of(
    st.text(max_size=8),
    st.text(st.sampled_from(f"ab {BREAKING}"), max_size=6),
    st.sampled_from(
        ["finish", "add", "", "[[ ## answer ## ]]", "x\n[[ ## completed ## ]]", " [[ ## a ## ]] b", "```", '{"a": 1}', "null", "3"]
    ),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [float("nan"), math.inf, (1, 2), {1: 2}, {1, 2}, b"b", object, 10**5000, 1 << 70, ToolCall("a", {})]
)
ANYTHING = JSON | ODD | st.lists(ODD, max_size=1)
CALLS = st.builds(ToolCall, WORDS, st.dictionaries(WORDS, ANYTHING, max_size=3))
EVENTS = st.fixed_dictionaries(dict.fromkeys(EVENT["properties"], ANYTHING))
MOVES: st.SearchStrategy[Move] = st.one_of(
    st.builds(Act, WORDS, st.lists(CALLS, max_size=2).map(tuple)),
    st.builds(Act, WORDS, CALLS.map(lambda call: (call,))),
    st.builds(Answer, WORDS, ANYTHING | EVENTS, st.none() | st.none() | st.floats(0, 1)),
    st.builds(Text, WORDS),
    st.sampled_from([Understanding("x"), Tasks((PlanTask("1", "x"),)), Completion(True), Recovery("retry")]),
)


@given(move=MOVES)
@settings(deadline=None, max_examples=cases(50))
def test_law_render_raises_inexpressible_or_the_move_comes_back(move: Move) -> None:
    for codec in CODECS:
        comes_back(codec, move)


def test_null_can_be_said_where_it_is_taken_and_a_text_is_not_read_as_null_elsewhere() -> None:
    assert all(comes_back(codec, Answer("", None)) for codec in (BARE_NULL, FIELDS_NULL, NATIVE_NULL))
    assert not any(comes_back(codec, Answer("", None)) for codec in (BARE, FIELDS, NATIVE))
    assert all(comes_back(codec, Answer("", "null")) for codec in (BARE_NULL, BARE, FIELDS, NATIVE))
    assert not any(comes_back(codec, Answer("", "null")) for codec in (FIELDS_NULL, NATIVE_NULL))


# --- the bound: what is always expressible ---

PRINTABLE = (
    st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=12)
    .map(str.strip)
    .filter(lambda text: "[[ ##" not in text)
)
TOOL_NAMES = PRINTABLE.filter(lambda name: name not in ("", "finish"))
PLAIN_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), PLAIN_JSON, max_size=3)


@given(thought=PRINTABLE, name=TOOL_NAMES, arguments=OBJECTS, value=PLAIN_JSON.filter(lambda value: value is not None))
@settings(deadline=None, max_examples=cases(50))
def test_bound_one_call_with_printable_words_and_any_json_is_always_expressible(
    thought: str, name: str, arguments: dict[str, Any], value: Any
) -> None:
    act = Act(thought, (ToolCall(name, arguments),))
    assert comes_back(BARE, act)
    assert comes_back(REACT, act)
    assert comes_back(FINISHING, act)
    assert comes_back(NATIVE, act)
    assert comes_back(FIELDS, act) or any(f"{label}:" in thought + name for label in ("Thought", "Tool", "Arguments", "Answer"))
    assert comes_back(BARE, Answer(thought, value))
    assert comes_back(FINISHING, Answer(thought, value))
    assert comes_back(REACT, Answer(thought))
    assert comes_back(EXTRACT_ANY, Answer(thought, value))


@given(thought=st.text(max_size=12), name=st.text(min_size=1, max_size=4))
@settings(deadline=None)
def test_bound_bare_can_say_any_text_at_all(thought: str, name: str) -> None:
    assert comes_back(BARE, Act(thought, (ToolCall(name, {thought: name}),)))
    assert comes_back(BARE, Answer(thought, name))


@given(thought=PRINTABLE, value=PRINTABLE)
@settings(deadline=None)
def test_bound_extract_can_say_printable_text(thought: str, value: str) -> None:
    assert comes_back(EXTRACT, Answer(thought, value))


@given(
    value=st.fixed_dictionaries(
        {
            "name": PRINTABLE,
            "seats": st.integers(),
            "price": st.floats(allow_nan=False, allow_infinity=False),
            "sold out": st.booleans(),
            "tags": st.lists(PLAIN_JSON, max_size=2),
            "place": OBJECTS,
            "copy": st.none() | st.text(max_size=4),
            "a-b": PRINTABLE,
            "a_b": PRINTABLE,
            "a b": PRINTABLE,
            "reasoning": PRINTABLE,
            "model_name": PLAIN_JSON,
            "é": PLAIN_JSON,
            "": PRINTABLE,
        }
    )
)
@settings(deadline=None)
def test_bound_extract_can_say_values_of_the_schemas_types(value: dict[str, Any]) -> None:
    assert comes_back(EXTRACT_EVENT, Answer("r", value))


@pytest.mark.parametrize("text", [" a", "a ", "a\rb", "a\u2028b", "[[ ## x ## ]]", "a\n  [[ ## answer ## ]] b"])
def test_gaps_of_the_chat_format_are_refused_in_text_and_none_in_json(text: str) -> None:
    assert not comes_back(REACT, Act(text, (ToolCall("add", {}),)))
    assert not comes_back(EXTRACT, Answer("", text))
    assert comes_back(REACT, Act("", (ToolCall("add", {text: text}),)))
    assert comes_back(EXTRACT_ANY, Answer("", text))


def test_gaps_of_each_codec_are_what_its_documentation_says() -> None:
    call = ToolCall("add", {})
    for codec in CODECS:
        assert not comes_back(codec, Act("", (call, call)))
        assert not comes_back(codec, Act("", ()))
        assert not comes_back(codec, Answer("", "x", 0.5))
        assert not comes_back(codec, Text("x"))
    assert not comes_back(BARE, Act("", (ToolCall("", {}),)))
    assert not comes_back(BARE, Answer("done"))
    assert not comes_back(REACT, Answer("done", "x"))
    assert comes_back(REACT, Answer("done"))
    assert not comes_back(REACT, Act("", (ToolCall("finish", {}),)))
    assert comes_back(FINISHING, Answer("done", "x"))
    for codec in (EXTRACT, EXTRACT_EVENT, EXTRACT_ANY):
        assert not comes_back(codec, Act("", (call,)))
    assert not comes_back(EXTRACT, Answer("", 3))
    assert not comes_back(EXTRACT_EVENT, Answer("", {"name": "Jazz"}))


# --- any text as a reply ---

VALID = [
    BARE.render(Act("t", (ToolCall("add", {"a": 1}),))).text,
    BARE.render(Answer("t", [1])).text,
    REACT.render(Act("t", (ToolCall("add", {"a": 1}),))).text,
    FINISHING.render(Answer("t", 3)).text,
    EXTRACT.render(Answer("r", "x")).text,
    EXTRACT_ANY.render(Answer("r", {"x": 1})).text,
]
HEADERS = st.sampled_from(
    [f"[[ ## {name} ## ]]" for codec in CODECS if isinstance(codec, SignatureCodec) for name in codec.signature.fields]
)
SECTIONS = st.lists(
    st.tuples(st.sampled_from(["", " ", "- "]), HEADERS, st.sampled_from(["\n", " "]), JSON.map(json.dumps) | WORDS), max_size=6
)
REPLIES = st.one_of(
    st.text(max_size=30),
    JSON.map(json.dumps),
    SECTIONS.map(lambda sections: "\n".join("".join(parts) for parts in sections)),
    st.tuples(st.sampled_from(VALID), st.integers(0, 200), st.integers(0, 20), WORDS).map(
        lambda cut: cut[0][: cut[1]] + cut[3] + cut[0][cut[1] + cut[2] :]
    ),
)


@given(text=REPLIES)
@example("[" * 100_000)
@example('{"a":' * 5_000)
@example("9" * 5_000)
@example("\n".join(f"[[ ## {name} ## ]]\n{'[' * 5_000}" for name in REACT.signature.output_fields))
@example("\n".join(f"[[ ## {name} ## ]]\n{'-' * 100_000}1" for name in EXTRACT_NUMBER.signature.output_fields))
@settings(deadline=None, max_examples=cases(50))
@row("X-6")
def test_any_text_is_a_move_or_a_wire_error(text: str) -> None:
    for codec in CODECS:
        match parsed(codec, text):
            case Act(calls=calls):
                assert len(calls) == 1
            case WireError() as error:
                assert str(error).strip()
            case other:
                assert isinstance(other, Answer)


def parsed(codec: Codec, text: str) -> Move | WireError:
    try:
        return codec.parse(Reply(text))
    except WireError as error:
        return error


def test_codecs_are_codecs() -> None:
    for codec in CODECS:
        assert isinstance(codec, Codec)
    assert [codec.max_calls for codec in CODECS] == [1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1]


def test_properties_of_equal_or_reserved_names_have_fields_of_their_own() -> None:
    names = list(EXTRACT_EVENT.signature.output_fields)
    assert len(names) == len(set(names)) == len(EVENT["properties"]) + 1
    assert set(names) == {"reasoning", *EXTRACT_EVENT.properties.values()}
    assert len({EXTRACT_EVENT.properties[name] for name in ("a-b", "a_b", "a b")}) == 3
