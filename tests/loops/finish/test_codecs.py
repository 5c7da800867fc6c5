"""The formats of the finish loop: native calls and XML carry every move that they can say."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.finish.codec_helpers import EVENT, JSON, PLAIN_JSON, WORDS, Event
from tests.rows import row
from whichloop.loops.finish import FinishCodec, XmlCodec
from whichloop.loops.finish.answer import Output
from whichloop.protocol import (
    Act,
    Answer,
    Codec,
    Completion,
    Inexpressible,
    Move,
    NativeCall,
    PlanTask,
    Recovery,
    Reply,
    Role,
    Tasks,
    Text,
    ToolCall,
    Understanding,
    WireError,
)

OUTPUTS: list[Any] = [
    Output.of(None),
    Output.of(EVENT),
    Output.of({"type": "number"}),
    Output.of({"type": "array", "items": {"type": "string"}}),
    Output.of({}),
    Output.of_model(Event),
]

TEXT, OBJECT, NUMBER, LIST, ANY, MODEL = (FinishCodec(output) for output in OUTPUTS)

XML_TEXT, XML_OBJECT, XML_NUMBER, XML_LIST, XML_ANY, XML_MODEL = (XmlCodec(output) for output in OUTPUTS)

FORCED = FinishCodec(OUTPUTS[0], "finish.forced", Role.ANSWER, 0)

NATIVE: list[Codec] = [TEXT, OBJECT, NUMBER, LIST, ANY, MODEL, FORCED]

XML: list[Codec] = [XML_TEXT, XML_OBJECT, XML_NUMBER, XML_LIST, XML_ANY, XML_MODEL]

CODECS = NATIVE + XML

ODD: st.SearchStrategy[Any] = st.sampled_from([float("nan"), math.inf, (1, 2), {1: 2}, {1, 2}, b"b", object, 10**5000, 1 << 70])

ANYTHING = JSON | ODD | st.lists(ODD, max_size=1)

CALLS = st.builds(ToolCall, WORDS, st.dictionaries(WORDS, ANYTHING, max_size=3))

EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS,
        "seats": st.integers() | ANYTHING,
        "price": st.floats(allow_nan=False, allow_infinity=False) | ANYTHING,
        "sold out": st.booleans() | ANYTHING,
        "sold_out": st.booleans(),
        "tags": st.lists(WORDS, max_size=3),
        "grid": st.lists(st.lists(st.integers(), max_size=2), max_size=2),
        "place": st.fixed_dictionaries({"city": WORDS}, optional={"place": st.fixed_dictionaries({"city": WORDS})}),
        "copy": st.none() | WORDS,
        "kind": st.sampled_from(["a", 2, None, "b"]),
        "any": ANYTHING,
        'é <&> "': WORDS,
        "": ANYTHING,
    },
)

MOVES: st.SearchStrategy[Move] = st.one_of(
    st.builds(Act, WORDS, st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(Answer, WORDS, ANYTHING | EVENTS, st.none() | st.none() | st.floats(0, 1)),
    st.builds(Text, WORDS),
    st.sampled_from([Understanding("x"), Tasks((PlanTask("1", "x"),)), Completion(True), Recovery("retry")]),
)


def comes_back(codec: Codec, move: Move) -> bool:
    """The law for one move; False where it cannot be said."""
    try:
        reply = codec.render(move)
    except Inexpressible:
        return False
    assert codec.parse(reply) == move
    return True


@given(move=MOVES)
@settings(deadline=None, max_examples=cases(60))
def test_law_finish_render_raises_inexpressible_or_the_move_comes_back(move: Move) -> None:
    for codec in CODECS:
        comes_back(codec, move)


PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), max_size=12)


@given(
    thought=PRINTABLE,
    names=st.lists(PRINTABLE.filter(lambda name: name != "__finish__"), min_size=1, max_size=3),
    arguments=st.dictionaries(st.text(max_size=4), PLAIN_JSON, max_size=3),
    value=PLAIN_JSON.filter(lambda value: value is not None),
    text=st.text(max_size=12),
)
@settings(deadline=None, max_examples=cases(50))
def test_bound_native_calls_can_say_any_json_and_any_text(
    thought: str, names: list[str], arguments: dict[str, Any], value: Any, text: str
) -> None:
    for codec in (TEXT, OBJECT, ANY):
        assert comes_back(codec, Act(thought, tuple(ToolCall(name, arguments) for name in names)))
    assert comes_back(TEXT, Answer(thought, text))
    assert comes_back(FORCED, Answer(thought, text))
    assert comes_back(ANY, Answer(thought, value))


@given(
    thought=PRINTABLE.map(str.strip).filter(lambda text: "<" not in text and "`" not in text and "&" not in text),
    text=st.text(max_size=12),
    number=st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    words=st.lists(st.text(max_size=5), max_size=3),
)
@settings(deadline=None, max_examples=cases(50))
def test_bound_xml_can_say_any_text_number_and_list_of_texts(thought: str, text: str, number: Any, words: list[str]) -> None:
    assert comes_back(XML_TEXT, Answer(thought, text))
    assert comes_back(XML_NUMBER, Answer(thought, number))
    assert comes_back(XML_LIST, Answer(thought, words))
    value = {"name": text, "seats": 3, "price": 0.5, "sold out": True, "tags": words, "grid": [[1, 2], [3]], "copy": None}
    assert comes_back(XML_OBJECT, Answer(thought, value | {"place": {"city": text, "place": {"city": "y"}}}))


@pytest.mark.parametrize("schema", [{"type": ["number", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}], ids=str)
def test_null_can_be_said_only_where_it_is_taken(schema: Any) -> None:
    taking, other = Output.of(schema, takes_null=True), Output.of(schema)
    for codec in (FinishCodec(taking), XmlCodec(taking)):
        assert comes_back(codec, Answer("none is known"))
    for codec in (FinishCodec(other), XmlCodec(other), FinishCodec(Output.of({"type": "number"}, takes_null=True))):
        assert not comes_back(codec, Answer("none is known"))


def test_gaps_of_the_finish_codecs_are_what_their_documentation_says() -> None:
    call = ToolCall("add", {})
    for codec in CODECS:
        assert isinstance(codec, Codec)
        assert not comes_back(codec, Act("", ()))
        assert not comes_back(codec, Answer("done"))
        assert not comes_back(codec, Answer("", "x", 0.5))
        assert not comes_back(codec, Text("x"))
        assert comes_back(codec, Act("", (call, call))) is (codec.max_calls == 64)
    assert not comes_back(TEXT, Act("", (ToolCall("__finish__", {}),)))
    assert not comes_back(TEXT, Act("", (call,) * 65))
    assert not comes_back(TEXT, Answer("", 3))
    assert not comes_back(NUMBER, Answer("", "3"))
    assert not comes_back(OBJECT, Answer("", "x"))
    assert not comes_back(MODEL, Answer("", {"seats": 1}))
    assert not comes_back(XML_TEXT, Answer("<output>", "x"))
    assert not comes_back(XML_ANY, Answer("", 3))
    assert not comes_back(XML_ANY, Answer("", {"x": 1}))


ARGUMENTS = (
    st.text(max_size=20)
    | JSON.map(json.dumps)
    | st.sampled_from(["[" * 10_000, '{"a":' * 10_000, "NaN", '{"answer": 1e999}', "9" * 5000])
)

TAGS = st.sampled_from(
    [
        f"<{slash}{name}{rest}>"
        for name in ("output", "answer", "name", "place", "city", "tags", "item")
        for slash in ("", "/")
        for rest in ("", "/", ' x="1"')
    ]
)

MARKUP = st.lists(TAGS | WORDS, max_size=12).map("".join)


@given(
    text=MARKUP | st.text(max_size=20), calls=st.lists(st.tuples(st.sampled_from(["add", "__finish__", ""]), ARGUMENTS), max_size=3)
)
@example(text="<output>" * 3000 + "</output>", calls=[])
@example(text="<output>" + "<place>" * 1500 + "</place>" * 1500 + "</output>", calls=[])
@example(text="<output>" + "<answer>" * 20000 + "</output>", calls=[])
@example(text="<output>" + "<![CDATA[" * 20000 + "</output>", calls=[])
@example(text="<output><price>" + "9" * 5000 + "</price></output>", calls=[])
@example(text="<output><any>" + "[" * 5000 + "</any></output>", calls=[])
@example(text="<output><name>&#0;&#xD800;&#9999999;&bogus;</name></output>", calls=[])
@settings(deadline=None, max_examples=cases(30))
@row("X-6")
def test_finish_any_reply_is_a_move_or_a_wire_error(text: str, calls: list[tuple[str, str]]) -> None:
    reply = Reply(text, tuple(NativeCall("", name, arguments) for name, arguments in calls))
    for codec in CODECS:
        match parsed(codec, reply):
            case WireError() as error:
                assert str(error).strip()
            case move:
                assert isinstance(move, Act | Answer)
    for output in OUTPUTS:
        output.stated_in_xml(text)


def parsed(codec: Codec, reply: Reply) -> Move | WireError:
    try:
        return codec.parse(reply)
    except WireError as error:
        return error


def test_parse_takes_finish_beside_other_calls_as_the_answer_and_needs_a_call() -> None:
    calls = (NativeCall("1", "add", "{}"), NativeCall("2", "__finish__", '{"answer": "x"}'))
    assert TEXT.parse(Reply("t", calls)) == Answer("t", "x")
    assert XML_TEXT.parse(Reply("t", calls)) == Answer("t", "x")
    with pytest.raises(WireError, match="no tool was called"):
        TEXT.parse(Reply("x"))
    with pytest.raises(WireError, match="'answer'"):
        TEXT.parse(Reply("", (NativeCall("", "__finish__", "{}"),)))
