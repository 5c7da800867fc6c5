"""The formats of the finish loop: native calls and XML carry every move that they can say; requests and answers in XML."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.cases import cases
from tests.loops.finish.helpers import JSON
from tests.loops.helpers import comes_back
from tests.rows import row
from whichloop.loops.finish import FinishCodec, XmlCodec
from whichloop.loops.finish.answer import Output
from whichloop.loops.finish.xml_output import input_xml, instruction, output_xml, read_output
from whichloop.protocol import (
    Act,
    Answer,
    Codec,
    Completion,
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


class Place(BaseModel):
    city: str
    zip_code: int | None = None


class Event(BaseModel):
    name: str = Field(description='its "title"')
    seats: int = 0
    price: Decimal = Decimal(0)
    sold_out: bool = False
    day: datetime.date | None = None
    tags: list[str] = []
    place: Place | None = Field(None, description="where")
    others: list[Place] = []


EVENT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "its title"},
        "seats": {"type": "integer"},
        "price": {"type": "number"},
        "sold out": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "place": {"$ref": "#/$defs/place"},
        "copy": {"type": ["string", "null"]},
        "kind": {"enum": ["a", 2, None]},
        "any": {},
        'é <&> "': {"type": "string"},
        "": True,
    },
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}, "place": {"$ref": "#/$defs/place"}}}},
}
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
CODECS: list[Codec] = [TEXT, OBJECT, NUMBER, LIST, ANY, MODEL, FORCED]
CODECS += [XML_TEXT, XML_OBJECT, XML_NUMBER, XML_LIST, XML_ANY, XML_MODEL]

# --- what a format can say ---

SPECIAL = ["__finish__", "add", "<output>", "</answer>", "<answer>", "&lt;", "&#65;", "```xml", "]]>", "<![CDATA[x]]>", " a\r\n"]
WORDS = st.text(max_size=8) | st.sampled_from([*SPECIAL, "\ud800", "\0"])
ODD: st.SearchStrategy[Any] = st.sampled_from([float("nan"), math.inf, (1, 2), {1: 2}, {1, 2}, b"b", object, 10**5000, 1 << 70])
ANYTHING = JSON | WORDS | ODD | st.lists(ODD, max_size=1)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS,
        "seats": st.integers() | ANYTHING,
        "price": st.floats(allow_nan=False, allow_infinity=False) | ANYTHING,
        "sold out": st.booleans() | ANYTHING,
        "tags": st.lists(WORDS, max_size=3),
        "grid": st.lists(st.lists(st.integers(), max_size=2), max_size=2),
        "place": st.fixed_dictionaries({"city": WORDS}, optional={"place": st.fixed_dictionaries({"city": WORDS})}),
        "copy": st.none() | WORDS,
        "kind": st.sampled_from(["a", 2, None, "b"]),
        "any": ANYTHING,
        'é <&> "': WORDS,
    },
)
CALLS = st.builds(ToolCall, WORDS, st.dictionaries(WORDS, ANYTHING, max_size=3))
MOVES: st.SearchStrategy[Move] = st.one_of(
    st.builds(Act, WORDS, st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(Answer, WORDS, ANYTHING | EVENTS, st.none() | st.none() | st.floats(0, 1)),
    st.sampled_from([Text("x"), Understanding("x"), Tasks((PlanTask("1", "x"),)), Completion(True), Recovery("retry")]),
)
PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), max_size=12)


@given(move=MOVES)
@settings(deadline=None, max_examples=cases(60))
def test_law_finish_render_raises_inexpressible_or_the_move_comes_back(move: Move) -> None:
    for codec in CODECS:
        comes_back(codec, move)


@given(
    thought=PRINTABLE,
    names=st.lists(PRINTABLE.filter(lambda name: name != "__finish__"), min_size=1, max_size=3),
    arguments=st.dictionaries(st.text(max_size=4), JSON, max_size=3),
    value=JSON.filter(lambda value: value is not None),
    text=st.text(max_size=12),
)
@settings(deadline=None, max_examples=cases(50))
def test_bound_native_calls_can_say_any_json_and_any_text(
    thought: str, names: list[str], arguments: dict[str, Any], value: Any, text: str
) -> None:
    for codec in (TEXT, OBJECT, ANY):
        assert comes_back(codec, Act(thought, tuple(ToolCall(name, arguments) for name in names)))
    for codec in (TEXT, FORCED):
        assert comes_back(codec, Answer(thought, text))
    assert comes_back(ANY, Answer(thought, value))


@given(
    thought=PRINTABLE.map(str.strip).filter(lambda text: "<" not in text and "`" not in text and "&" not in text),
    text=st.text(max_size=12),
    number=st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    words=st.lists(st.text(max_size=5), max_size=3),
)
@settings(deadline=None, max_examples=cases(50))
def test_bound_xml_can_say_any_text_number_and_list_of_texts(thought: str, text: str, number: Any, words: list[str]) -> None:
    for codec, said in ((XML_TEXT, text), (XML_NUMBER, number), (XML_LIST, words)):
        assert comes_back(codec, Answer(thought, said))
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
        for move in (Act("", ()), Answer("done"), Answer("", "x", 0.5), Text("x")):
            assert not comes_back(codec, move)
        assert comes_back(codec, Act("", (call, call))) is (codec.max_calls == 64)
    acts: list[Move] = [Act("", (ToolCall("__finish__", {}),)), Act("", (call,) * 65)]
    gaps: list[tuple[Codec, list[Move]]] = [
        (TEXT, [*acts, Answer("", 3)]),
        (NUMBER, [Answer("", "3")]),
        (OBJECT, [Answer("", "x")]),
        (MODEL, [Answer("", {"seats": 1})]),
        (XML_TEXT, [Answer("<output>", "x")]),
        (XML_ANY, [Answer("", 3), Answer("", {"x": 1})]),
    ]
    assert not [move for codec, moves in gaps for move in moves if comes_back(codec, move)]


ARGUMENTS = st.text(max_size=20) | JSON.map(json.dumps) | st.sampled_from(["[" * 10_000, "NaN", '{"answer": 1e999}', "9" * 5000])
TAGS = st.builds(
    "<{}{}{}>".format,
    st.sampled_from(["", "/"]),
    st.sampled_from(["output", "answer", "name", "place", "city", "tags", "item"]),
    st.sampled_from(["", "/", ' x="1"']),
)
MARKUP = st.lists(TAGS | WORDS, max_size=12).map("".join)


@given(text=MARKUP, calls=st.lists(st.tuples(st.sampled_from(["add", "__finish__", ""]), ARGUMENTS), max_size=3))
@example(text="<output>" * 3000 + "</output>", calls=[])
@example(text="<output>" + "<place>" * 1500 + "</place>" * 1500 + "</output>", calls=[])
@example(text="<output>" + "<answer>" * 20000 + "</output>", calls=[])
@example(text="<output>" + "<![CDATA[" * 20000 + "</output>", calls=[])
@example(text="<output><price>" + "9" * 5000 + "</price></output>", calls=[])
@example(text="<output><any>" + "[" * 5000 + "</any></output>", calls=[])
@settings(deadline=None, max_examples=cases(30))
@row("X-6")
def test_finish_any_reply_is_a_move_or_a_wire_error(text: str, calls: list[tuple[str, str]]) -> None:
    reply = Reply(text, tuple(NativeCall("", name, arguments) for name, arguments in calls))
    for codec in CODECS:
        with contextlib.suppress(WireError):
            assert isinstance(codec.parse(reply), Act | Answer)
    for output in OUTPUTS:
        output.stated_in_xml(text)


def test_parse_takes_finish_beside_other_calls_as_the_answer_and_needs_a_call() -> None:
    calls = (NativeCall("1", "add", "{}"), NativeCall("2", "__finish__", '{"answer": "x"}'))
    assert TEXT.parse(Reply("t", calls)) == XML_TEXT.parse(Reply("t", calls)) == Answer("t", "x")
    for reply, said in ((Reply("x"), "no tool was called"), (Reply("", (NativeCall("", "__finish__", "{}"),)), "'answer'")):
        with pytest.raises(WireError, match=said):
            TEXT.parse(reply)


# --- XML that is written ---


class Size(Enum):
    BIG = "big"


class Visit(BaseModel):
    at: datetime.datetime = datetime.datetime(2026, 3, 1, 9, 30, tzinfo=datetime.UTC)
    until: datetime.time = datetime.time(11, 5)


@row("S3-2")
def test_input_xml_has_descriptions_escaped_text_nested_parts_and_leaves_out_none() -> None:
    event = Event(name="a < b & c", tags=["x", "y>"], place=Place(city="Rome"), others=[Place(city="Oslo", zip_code=7)])
    assert input_xml(event).splitlines() == [
        "<input>",
        '    <name description="its &quot;title&quot;">a &lt; b &amp; c</name>',
        "    <seats>0</seats>",
        "    <price>0</price>",
        "    <sold_out>false</sold_out>",
        "    <tags>",
        "        <item>x</item>",
        "        <item>y&gt;</item>",
        "    </tags>",
        '    <place description="where">',
        "        <city>Rome</city>",
        "    </place>",
        "    <others>",
        "        <item>",
        "            <city>Oslo</city>",
        "            <zip_code>7</zip_code>",
        "        </item>",
        "    </others>",
        "</input>",
    ]
    assert input_xml({"a": None}) == "<input>\n</input>"
    assert input_xml(Visit()).split()[1:-1] == ["<at>2026-03-01T09:30:00+00:00</at>", "<until>11:05:00</until>"]
    odd = {"size": Size.BIG, "by": {1: "one", Size.BIG: [Size.BIG]}}
    assert "".join(input_xml(odd).split()) == "<input><size>big</size><by><1>one</1><big><item>big</item></big></by></input>"


class Sentiment(BaseModel):
    sentiment: str = Field(description="positive, negative, or neutral")
    confidence: float = Field(description="Confidence score 0-1")
    note: str = ""


@row("S3-22", "B3-14")
def test_the_instruction_is_the_documents_text_with_description_attributes_and_parts() -> None:
    assert instruction(Sentiment.model_json_schema()) == (
        "You must provide your final answer now. Respond with your answer in the following XML structure:\n"
        "<output>\n"
        '    <sentiment description="positive, negative, or neutral"></sentiment>\n'
        '    <confidence description="Confidence score 0-1"></confidence>\n'
        "    <note></note>\n"
        "</output>\n"
        "\n"
        "Fill in the values. Do not repeat the descriptions."
    )
    lines = instruction(EVENT).splitlines()
    start = lines.index("    <place>")
    assert lines[start : start + 4] == ["    <place>", "        <city></city>", "        <place></place>", "    </place>"]
    assert lines[lines.index("    <tags>") + 1] == "        <item></item>"


# --- XML that is read ---


def read(text: str, model: type[BaseModel] = Event) -> Any:
    return Output.of_model(model).stated_in_xml(text).value


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("a < b", "a < b"),
        ("AT&T &amp; R&D", "AT&T & R&D"),
        ("<b>bold</b> & <br/>", "<b>bold</b> & <br/>"),
        ("<![CDATA[1 < 2 && </name> &amp;]]>", "1 < 2 && </name> &amp;"),
        ("&lt;name&gt; &#65;&#x42; &quot;&apos;", "<name> AB \"'"),
        ("&unknown; &#0; &#xD800;", "&unknown; &#0; &#xD800;"),
        ("\n  layout \n", "layout"),
        ("&#32;kept&#10;", " kept\n"),
        ("<![CDATA[ kept ]]>", " kept "),
        (
            "the <output>of</output> a <place>of <city>it</city></place>",
            "the <output>of</output> a <place>of <city>it</city></place>",
        ),
        ("", ""),
    ],
)
@row("S3-44", "X-8")
def test_text_is_read_as_it_is_meant(inside: str, expected: str) -> None:
    assert read(f"<output><name>{inside}</name></output>").name == expected


@pytest.mark.parametrize(
    "text",
    [
        "Sure!\n```xml\n<output>\n  <name>x</name>\n</output>\n```\nBye.",
        "<output><name description='its title'>x</name></output> <output><name>y</name></output>",
        '<output id="1" ><name description="a > b">x</name><name>y</name></output>',
        "<output> stray < words & <tags> <name>x</name></output>",
        "<input><name>z</name></input><output><name>x</name></output>",
        "In <output> tags: <output><name>x</name></output>",
        "<output><output><name>x</name></output></output>",
    ],
)
@row("S3-44", "X-8")
def test_the_first_output_anywhere_is_read_with_fences_attributes_and_stray_markup(text: str) -> None:
    assert read(text).name == "x"


@row("S3-44", "X-8")
def test_lists_nested_models_and_lax_values() -> None:
    event = read(
        "<output><name>n</name><seats> 3 </seats><price>0.10</price><sold_out>true</sold_out><day>\n2020-02-01\n</day>"
        "<tags><item>a</item> <item></item></tags><place><city>Rome</city><zip_code></zip_code></place>"
        "<others>\n<item><city>Oslo</city><zip_code>7</zip_code></item>\n<item><city>Bonn</city></item></others></output>"
    )
    assert event == Event(
        name="n",
        seats=3,
        price=Decimal("0.10"),
        sold_out=True,
        day=datetime.date(2020, 2, 1),
        tags=["a", ""],
        place=Place(city="Rome"),
        others=[Place(city="Oslo", zip_code=7), Place(city="Bonn")],
    )
    assert read("<output><sentiment>good</sentiment><confidence>0.95</confidence></output>", Sentiment).confidence == 0.95


class Empty(BaseModel):
    text: str
    maybe: int | None
    words: Optional[str] = "default"  # noqa: UP045
    number: int = 5
    kind: Literal["a", "b"] = "b"
    tags: list[str] = ["default"]


@pytest.mark.parametrize(
    "parts", ["<text></text><maybe/><words></words><kind></kind>", "<text/><maybe>  </maybe><words /><kind> </kind>"]
)
@row("S3-44", "X-8")
def test_an_empty_element_is_an_empty_text_none_or_missing_and_that_is_named(parts: str) -> None:
    assert read(f"<output>{parts}<number></number><tags></tags></output>", Empty) == Empty(text="", maybe=None, words=None, tags=[])
    for text, problem in (
        ("<output><sentiment></sentiment><confidence></confidence></output>", "confidence: Field required"),
        ("<output></output>", "sentiment: Field required; confidence: Field required"),
        ("I would say good.", "the reply holds no <output>…</output>"),
    ):
        assert Output.of_model(Sentiment).stated_in_xml(text).problem == problem


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "7", 7),
        ({"type": "integer"}, "7.5", "7.5"),
        ({"type": "boolean"}, " True ", True),
        ({"type": "number"}, "true", "true"),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": "string"}, "null", "null"),
        ({"enum": ["a", 2]}, "2", 2),
        ({"enum": ["a", "2"]}, "2", "2"),
        ({"const": 3}, "3", 3),
    ],
)
@row("S3-44")
def test_under_a_schema_a_text_is_read_as_a_type_that_it_fits(schema: Any, text: str, value: Any) -> None:
    read_value = read_output(f"<output><v>{text}</v></output>", {"properties": {"v": schema}})[1]["v"]
    assert (read_value, type(read_value)) == (value, type(value))


@given(st.lists(st.text(max_size=6) | st.lists(st.text(max_size=6), max_size=3), max_size=3))
@settings(deadline=None)
@row("S3-44")
def test_lists_of_any_text_come_back(value: Any) -> None:
    items = {"type": "array", "items": {"type": "string"}} if any(isinstance(item, list) for item in value) else {"type": "string"}
    if all(isinstance(item, list) == (items["type"] == "array") for item in value):
        schema = {"type": "object", "properties": {"v": {"type": "array", "items": items}}}
        assert read_output(output_xml({"v": value}), schema) == ("", {"v": value})
