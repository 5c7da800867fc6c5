"""XML: requests, answers, and what is read from them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.loops.finish.codec_helpers import EVENT, Event, Place, read
from tests.rows import row
from whichloop.loops.finish.answer import Output
from whichloop.loops.finish.xml_output import input_xml, instruction, output_xml, read_output


@row("S3-2")
def test_input_xml_has_descriptions_escaped_text_and_nested_models_and_leaves_out_none() -> None:
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


@row("S3-2")
def test_input_xml_writes_dates_and_times_in_iso_form() -> None:
    class Visit(BaseModel):
        day: datetime.date
        at: datetime.datetime
        until: datetime.time

    at = datetime.datetime(2026, 3, 1, 9, 30, tzinfo=datetime.UTC)
    visit = Visit(day=at.date(), at=at, until=datetime.time(11, 5))
    assert input_xml(visit).split() == [
        "<input>", "<day>2026-03-01</day>", "<at>2026-03-01T09:30:00+00:00</at>", "<until>11:05:00</until>", "</input>"
    ]  # fmt: skip


@row("S3-2")
def test_input_xml_shows_an_enums_value_and_names_that_are_no_text() -> None:
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


@row("S3-22", "B3-14")
def test_the_instruction_is_the_documents_text_with_description_attributes() -> None:
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


@row("S3-22")
def test_lists_and_nested_objects_show_their_parts_and_recursion_ends() -> None:
    lines = instruction(EVENT).splitlines()
    start = lines.index("    <place>")
    assert lines[start : start + 4] == ["    <place>", "        <city></city>", "        <place></place>", "    </place>"]
    assert lines[lines.index("    <tags>") + 1] == "        <item></item>"


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
    ],
)
@row("S3-44", "X-8")
def test_the_first_output_anywhere_is_read_with_fences_attributes_and_stray_markup(text: str) -> None:
    assert read(text).name == "x"


@row("S3-44", "X-8")
def test_lists_nested_models_and_lax_values() -> None:
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


@row("S3-44", "X-8")
def test_white_space_at_the_ends_is_layout() -> None:
    made = read("<output><kind>\n  a\n</kind><day>\n  2021-02-03\n</day><note>\n a \n b \n</note></output>", Dated)
    assert made == Dated(kind="a", day=datetime.date(2021, 2, 3), note="a \n b")


class Empty(BaseModel):
    text: str
    maybe: int | None
    words: Optional[str] = "default"  # noqa: UP045
    number: int = 5
    tags: list[str] = ["default"]


@row("S3-44")
def test_an_empty_element_is_an_empty_text_none_or_missing() -> None:
    for text, maybe, words, number in (
        ("<text></text>", "<maybe/>", "<words></words>", "<number> </number>"),
        ("<text/>", "<maybe>  </maybe>", "<words />", "<number></number>"),
    ):
        made = read(f"<output>{text}{maybe}{words}{number}<tags></tags></output>", Empty)
        assert (made.text, made.maybe, made.words, made.number, made.tags) == ("", None, None, 5, [])
    assert read("<output><name>n</name><kind></kind><day> </day></output>", Dated) == Dated()
    problem = Output.of_model(Sentiment).stated_in_xml("<output><sentiment></sentiment><confidence></confidence></output>").problem
    assert problem == "confidence: Field required"


@row("S3-44", "X-8")
def test_missing_fields_and_a_missing_output_are_named() -> None:
    assert (
        Output.of_model(Sentiment).stated_in_xml("<output></output>").problem
        == "sentiment: Field required; confidence: Field required"
    )
    assert "no <output>" in Output.of_model(Sentiment).stated_in_xml("I would say good.").problem


@given(
    st.recursive(st.text(max_size=6), lambda inner: st.lists(inner, max_size=3), max_leaves=6).filter(lambda v: isinstance(v, list))
)
@settings(deadline=None)
@row("S3-44")
def test_nested_lists_of_any_text_come_back(value: Any) -> None:
    depth: dict[str, Any] = {"type": "string"}
    if all(isinstance(item, str) for item in value):
        schema = {"type": "object", "properties": {"v": {"type": "array", "items": depth}}}
        assert read_output(output_xml({"v": value}), schema) == ("", {"v": value})
