"""Requests and answers of the finish loop in XML: what is written, and what is read."""

from __future__ import annotations

import contextlib
import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.cases import cases
from tests.loops.test_codecs import EVENT
from tests.rows import row
from whichloop.loops.finish import xml_output
from whichloop.loops.finish.answer import Output
from whichloop.loops.finish.xml_output import input_xml, instruction, output_xml, read_output
from whichloop.protocol import WireError


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


NODE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
LEAVES = {"c": {"type": "integer"}, "a": {"type": "string"}}
NESTED = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "array", "items": {"type": "object", "properties": LEAVES}},
        "o": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
}
SCHEMAS = st.sampled_from([NESTED, {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}}])
TAGS = [f"<{slash}{name}>" for name in ("a", "b", "o", "item", "c", "output") for slash in ("", "/")]
PIECES = st.sampled_from([*TAGS, "<a/>", "<b\tx='1'>", "x", "<"])


@settings(deadline=None, max_examples=cases(100))
@given(st.lists(PIECES, min_size=1, max_size=6), st.integers(1, 200), SCHEMAS)
@example(["<b>", "<a>", "x", "</a>"], 200, NESTED)
@example(["<o>", "<a>", "x", "</a>"], 200, NESTED)
@example(["<item>", "<c>"], 200, NESTED)
def test_an_element_is_made_and_read_once_for_each_tag_at_most(units, times, schema) -> None:
    """Steps are counted, never timed: they grow with the length of the reply and with nothing else."""
    text = f"<output>{''.join(units) * times}</output>"
    made, read = list[str](), list[int]()

    class Counted(xml_output._Element):
        def __init__(self, name: str, *args: Any) -> None:
            made.append(name)
            super().__init__(name, *args)

        def value(self, text: str, typed: bool) -> Any:
            read.append(len(text))
            return super().value(text, typed)

    with pytest.MonkeyPatch.context() as patched, contextlib.suppress(WireError):  # nested too deep
        patched.setattr(xml_output, "_Element", Counted)
        read_output(text, schema)
    assert len(read) < len(made) <= text.count("<") + 2
    assert sum(read) <= xml_output.MAX_DEPTH * len(text)
