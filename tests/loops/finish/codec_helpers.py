"""What the tests of formats and partial answers share."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel, Field

from whichloop.loops.finish.answer import Output


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

PLAIN_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def read(text: str, model: type[BaseModel] = Event) -> Any:
    return Output.of_model(model).stated_in_xml(text).value
