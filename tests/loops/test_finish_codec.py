"""Design 3: its wire formats, XML and Partial. What a codec can say comes back; any reply is a move or a WireError."""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import datetime
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, Literal, Optional

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, Field

from loopbench.loops.finish import FinishCodec, Partial, XmlCodec
from loopbench.loops.finish.codec import native_codec
from loopbench.loops.finish.output import JsonOutput, ModelOutput
from loopbench.loops.finish.partial import partial_json
from loopbench.loops.finish.stated import StatedAnswer, stated_in_xml
from loopbench.loops.finish.xml_output import input_xml, instruction, model_xml, output_xml, read_output
from loopbench.protocol import (
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
    JsonOutput.of(None),
    JsonOutput.of(EVENT),
    JsonOutput.of({"type": "number"}),
    JsonOutput.of({"type": "array", "items": {"type": "string"}}),
    JsonOutput.of({}),
    ModelOutput.of(Event),
]
TEXT, OBJECT, NUMBER, LIST, ANY, MODEL = (FinishCodec(output) for output in OUTPUTS)
XML_TEXT, XML_OBJECT, XML_NUMBER, XML_LIST, XML_ANY, XML_MODEL = (XmlCodec(output) for output in OUTPUTS)
FORCED = native_codec(OUTPUTS[0], Role.ANSWER)
NATIVE: list[Codec] = [TEXT, OBJECT, NUMBER, LIST, ANY, MODEL, FORCED]
XML: list[Codec] = [XML_TEXT, XML_OBJECT, XML_NUMBER, XML_LIST, XML_ANY, XML_MODEL]
CODECS = NATIVE + XML

WORDS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "__finish__",
            "add",
            "",
            "<output>",
            "</answer>",
            "<answer>",
            "&lt;",
            "&#65;",
            "```xml",
            "]]>",
            "<![CDATA[x]]>",
            " a\r\n",
            "\ud800",
            "\x00",
        ]
    ),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
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
@settings(deadline=None, max_examples=120)
def test_law_finish_render_raises_inexpressible_or_the_move_comes_back(move: Move) -> None:
    for codec in CODECS:
        comes_back(codec, move)


PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), max_size=12)
PLAIN_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    thought=PRINTABLE,
    names=st.lists(PRINTABLE.filter(lambda name: name != "__finish__"), min_size=1, max_size=3),
    arguments=st.dictionaries(st.text(max_size=4), PLAIN_JSON, max_size=3),
    value=PLAIN_JSON.filter(lambda value: value is not None),
    text=st.text(max_size=12),
)
@settings(deadline=None, max_examples=100)
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
@settings(deadline=None, max_examples=100)
def test_bound_xml_can_say_any_text_number_and_list_of_texts(thought: str, text: str, number: Any, words: list[str]) -> None:
    assert comes_back(XML_TEXT, Answer(thought, text))
    assert comes_back(XML_NUMBER, Answer(thought, number))
    assert comes_back(XML_LIST, Answer(thought, words))
    value = {"name": text, "seats": 3, "price": 0.5, "sold out": True, "tags": words, "grid": [[1, 2], [3]], "copy": None}
    assert comes_back(XML_OBJECT, Answer(thought, value | {"place": {"city": text, "place": {"city": "y"}}}))


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
@settings(deadline=None, max_examples=120)
def test_X_6_finish_any_reply_is_a_move_or_a_wire_error(text: str, calls: list[tuple[str, str]]) -> None:
    reply = Reply(text, tuple(NativeCall("", name, arguments) for name, arguments in calls))
    for codec in CODECS:
        match parsed(codec, reply):
            case WireError() as error:
                assert str(error).strip()
            case move:
                assert isinstance(move, Act | Answer)
    for output in OUTPUTS:
        stated_in_xml(output, text)


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


# --- XML ---


def test_S3_2_input_xml_has_descriptions_escaped_text_items_and_nested_models_and_leaves_out_none() -> None:
    event = Event(name="a < b & c", tags=["x", "y>"], place=Place(city="Rome"), others=[Place(city="Oslo", zip_code=7)])
    assert model_xml(event).splitlines() == [
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


def test_S3_2_input_xml_shows_an_enums_value_and_names_that_are_no_text() -> None:
    class Size(Enum):
        BIG = "big"

    assert input_xml({"size": Size.BIG, "by": {1: "one", Size.BIG: [Size.BIG]}}).splitlines()[1:-1] == [
        "    <size>big</size>",
        "    <by>",
        "        <1>one</1>",
        "        <big>",
        "            <item>big</item>",
        "        </big>",
        "    </by>",
    ]


class Sentiment(BaseModel):
    sentiment: str = Field(description="positive, negative, or neutral")
    confidence: float = Field(description="Confidence score 0-1")
    note: str = ""


def test_S3_22_B3_14_the_instruction_is_the_documents_text_with_description_attributes() -> None:
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


def test_S3_22_lists_and_nested_objects_show_their_parts_and_recursion_ends() -> None:
    lines = instruction(EVENT).splitlines()
    start = lines.index("    <place>")
    assert lines[start : start + 4] == ["    <place>", "        <city></city>", "        <place></place>", "    </place>"]
    assert lines[lines.index("    <tags>") + 1] == "        <item></item>"


def read(text: str, model: type[BaseModel] = Event) -> Any:
    return stated_in_xml(ModelOutput.of(model), text).value


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("a < b", "a < b"),
        ("AT&T &amp; R&D", "AT&T & R&D"),
        ("<b>bold</b> & <br/>", "<b>bold</b> & <br/>"),
        ("<![CDATA[1 < 2 && </name> &amp;]]>", "1 < 2 && </name> &amp;"),
        ("&lt;name&gt; &#65;&#x42; &quot;&apos;", "<name> AB \"'"),
        ("&unknown; &#0; &#xD800;", "&unknown; &#0; &#xD800;"),
        (" kept ", " kept "),
        ("", ""),
    ],
)
def test_S3_44_X_8_text_is_read_as_it_is_meant(inside: str, expected: str) -> None:
    assert read(f"<output><name>{inside}</name></output>").name == expected


@pytest.mark.parametrize(
    "text",
    [
        "Sure!\n```xml\n<output>\n  <name>x</name>\n</output>\n```\nBye.",
        "<output><name description='its title'>x</name></output> <output><name>y</name></output>",
        '<output id="1" ><name description="a > b">x</name><name>y</name></output>',
        "<output> stray < words & <tags> <name>x</name></output>",
        "<input><name>z</name></input><output><name>x</name></output>",
    ],
)
def test_S3_44_X_8_the_first_output_anywhere_is_read_with_fences_attributes_and_stray_markup(text: str) -> None:
    assert read(text).name == "x"


def test_S3_44_X_8_lists_nested_models_and_lax_values() -> None:
    event = read(
        "<output><name>n</name><seats> 3 </seats><price>0.10</price><sold_out>true</sold_out><day>2020-02-01</day>"
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


class Dated(BaseModel):
    kind: Literal["a", "b"] = "b"
    day: datetime.date = datetime.date(2020, 1, 1)
    note: str = ""


def test_S3_44_X_8_white_space_belongs_to_a_free_text_only() -> None:
    made = read("<output><kind>\n  a\n</kind><day>\n  2021-02-03\n</day><note>\n kept \n</note></output>", Dated)
    assert made == Dated(kind="a", day=datetime.date(2021, 2, 3), note="\n kept \n")
    schema = {"type": "object", "properties": {"kind": {"type": "string", "enum": [" a ", "b"]}}}
    for text, kind in ((" a ", " a "), (" b ", "b")):
        assert stated_in_xml(JsonOutput.of(schema), f"<output><kind>{text}</kind></output>") == StatedAnswer(None, {"kind": kind})


class Empty(BaseModel):
    text: str
    maybe: int | None
    words: Optional[str] = "default"  # noqa: UP045
    number: int = 5
    tags: list[str] = ["default"]


def test_S3_44_an_empty_element_is_an_empty_text_none_or_missing() -> None:
    for text, maybe, words, number in (
        ("<text></text>", "<maybe/>", "<words></words>", "<number> </number>"),
        ("<text/>", "<maybe>  </maybe>", "<words />", "<number></number>"),
    ):
        made = read(f"<output>{text}{maybe}{words}{number}<tags></tags></output>", Empty)
        assert (made.text, made.maybe, made.words, made.number, made.tags) == ("", None, None, 5, [])
    assert read("<output><name>n</name><kind></kind><day> </day></output>", Dated) == Dated()
    problem = stated_in_xml(ModelOutput.of(Sentiment), "<output><sentiment></sentiment><confidence></confidence></output>").problem
    assert problem == "confidence: Field required"


def test_S3_44_X_8_missing_fields_and_a_missing_output_are_named() -> None:
    assert (
        stated_in_xml(ModelOutput.of(Sentiment), "<output></output>").problem
        == "sentiment: Field required; confidence: Field required"
    )
    assert "no <output>" in stated_in_xml(ModelOutput.of(Sentiment), "I would say good.").problem


@given(
    st.recursive(st.text(max_size=6), lambda inner: st.lists(inner, max_size=3), max_leaves=6).filter(lambda v: isinstance(v, list))
)
@settings(deadline=None)
def test_S3_44_nested_lists_of_any_text_come_back(value: Any) -> None:
    depth: dict[str, Any] = {"type": "string"}
    if all(isinstance(item, str) for item in value):
        schema = {"type": "object", "properties": {"v": {"type": "array", "items": depth}}}
        assert read_output(output_xml({"v": value}), schema) == ("", {"v": value})


# --- Partial ---


class City(BaseModel):
    city_name: str
    population: int
    explanation: str


def test_S3_30_partial_has_all_fields_optional() -> None:
    kind: Any = Partial[City]
    made = kind()
    assert (made.city_name, made.population, made.explanation) == (None, None, None)
    assert list(kind.model_fields) == ["city_name", "population", "explanation"]
    assert Partial[City] is kind
    with pytest.raises(TypeError, match="pydantic"):
        Partial[int]  # type: ignore[type-var]


def snapshots(model: type[BaseModel], text: str) -> list[Any]:
    """What is known after every character."""
    output = ModelOutput.of(model)
    found = (partial_json(text[:end]) for end in range(1, len(text) + 1))
    return [output.snapshot(*each) for each in found if each is not None]


def test_S3_46_S3_30_strings_grow_and_other_scalars_appear_only_when_complete() -> None:
    seen = snapshots(City, '{"city_name": "Rome \\"x\\" 12", "population": 2800000, "explanation": "old"}')
    names = [part.city_name for part in seen]
    assert {"R", "Rome", 'Rome "x" 1', 'Rome "x" 12'} <= set(names)
    assert all(name is None or 'Rome "x" 12'.startswith(name) for name in names)
    assert {part.population for part in seen} == {None, 2800000}
    kind: Any = Partial[City]
    assert all(isinstance(part, kind) for part in seen)
    assert seen[-1].model_dump() == {"city_name": 'Rome "x" 12', "population": 2800000, "explanation": "old"}


class Kind(StrEnum):
    BIG = "big"


class Mixed(BaseModel):
    kind: Kind
    size: Literal["small", "smallest"]
    day: datetime.date
    share: float
    flag: bool
    count: int
    words: list[str]
    numbers: list[int]
    inner: City | None
    many: list[City]
    loop: Optional[Mixed] = None  # noqa: UP045
    other: str = Field("", alias="another")


MIXED = {
    "kind": "big",
    "size": "smallest",
    "day": "2020-12-31",
    "share": -1.25e3,
    "flag": False,
    "count": "123",
    "words": ["one", "two"],
    "numbers": [12, 345, 6],
    "inner": {"city_name": "Rome", "population": 28, "explanation": "x"},
    "many": [{"city_name": "Oslo", "population": 700, "explanation": "y"}],
    "another": "z",
}


def test_S3_46_nothing_half_written_passes_for_a_value_and_the_end_is_the_whole() -> None:
    seen = snapshots(Mixed, json.dumps(MIXED))
    assert {part.kind for part in seen} == {None, Kind.BIG}
    assert {part.day for part in seen} == {None, datetime.date(2020, 12, 31)}
    assert {part.share for part in seen} == {None, -1250.0}
    assert {part.count for part in seen} == {None, 123}
    assert next(part.numbers for part in seen if part.numbers) == [12]
    assert {tuple(part.numbers) for part in seen if part.numbers} == {(12,), (12, 345), (12, 345, 6)}
    assert {part.inner.population for part in seen if part.inner} == {None, 28}
    assert {"R", "Rom"} <= {part.inner.city_name for part in seen if part.inner}
    whole = seen[-1]
    assert (whole.size, whole.words, whole.flag, whole.other) == ("smallest", ["one", "two"], False, "z")
    assert whole.many[0].population == 700


@given(value=st.dictionaries(st.sampled_from([*MIXED, "x"]), JSON, max_size=4), cut=st.integers(0, 200))
@settings(deadline=None, max_examples=80)
def test_S3_46_no_validation_error_arises_while_partial(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)[: cut + 1]
    for model in (Mixed, City):
        snapshots(model, text)


@given(value=st.dictionaries(st.text(max_size=4), PLAIN_JSON, max_size=4), cut=st.integers(1, 60))
@settings(deadline=None)
def test_S3_30_partial_json_of_a_whole_object_is_the_object_and_a_cut_one_holds_no_other_key(
    value: dict[str, Any], cut: int
) -> None:
    text = json.dumps(value)
    assert partial_json(text) == (value, value)
    found = partial_json(text[:cut])
    if found is not None:
        assert set(found[1]) <= set(found[0]) <= set(value)


@pytest.mark.parametrize("escaped", ['\\"', "\\\\", "\\n"])
def test_partial_json_reads_a_long_string_of_escapes_once(escaped: str) -> None:
    found = partial_json('{"number": 12, "text": "' + escaped * 50_000)  # else every quote would have the rest searched
    assert found is not None
    assert found[1] == {"number": 12}
    assert found[0]["text"] == json.loads(f'"{escaped}"') * 50_000


@dataclass
class Known:
    name: str

    def __post_init__(self) -> None:
        {"known": 1}[self.name]


class Shadowing(BaseModel):
    names: list[str]
    adapters: str
    read: bool
    known: Known
    renamed: str = Field("", validation_alias=AliasChoices("new", "old"))


def test_S3_46_partial_takes_any_names_and_types_whose_checks_raise_anything() -> None:
    value = {"names": ["a"], "adapters": "x", "read": True, "known": {"name": "known"}, "new": "y"}
    seen = snapshots(Shadowing, json.dumps(value))
    assert {part.known and part.known.name for part in seen} == {None, "known"}
    assert (seen[-1].names, seen[-1].adapters, seen[-1].read, seen[-1].renamed) == (["a"], "x", True, "y")


@pytest.mark.parametrize("text", ["", "[1", "3", "nope", '"x', "[" * 10_000])
def test_partial_json_of_no_object_is_none(text: str) -> None:
    assert partial_json(text) is None
