"""Any value as text: what a tool returned or raised, cut to a length."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import sys
import textwrap
import types
import weakref
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from tests.prepared import ran_in_fork
from tests.protocol.helpers import python
from whichloop.protocol import render_value
from whichloop.protocol.values import cap, plain_value


class Color(str, enum.Enum):  # noqa: UP042 - a StrEnum would be shown as its value anyway
    RED = "red"


class Level(enum.Enum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = None


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    x: Any = None


class BrokenStr:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class ExitingStr:
    def __str__(self) -> str:
        sys.exit(1)


class BrokenMapping(dict[str, Any]):
    def items(self) -> Any:
        raise OSError("gone")


def circular_list() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def circular_dict() -> dict[str, Any]:
    value: dict[str, Any] = {"tags": {"a"}}
    value["self"] = {"again": [value]}
    return value


def nested_list(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


characters = st.characters() | st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"])
any_text = st.text(characters, max_size=6) | st.sampled_from(["<A object at 0x7f00>", " at 0x1f", "{", "\x00"])
json_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)

json_values = st.recursive(
    json_scalars | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)

hashable = st.recursive(
    json_scalars
    | st.floats()
    | any_text
    | st.binary(max_size=3)
    | st.sampled_from([Level.LOW, Color.RED, decimal.Decimal("0.1"), object]),
    lambda inner: st.frozensets(inner, max_size=3) | st.tuples(inner, inner) | st.builds(Point, inner),
    max_leaves=6,
)

ODD = (object(), BrokenStr(), ExitingStr(), len, Model, ValueError("v"), 10**5000, circular_list())
odd_things = st.integers(0, len(ODD) - 1).map(ODD.__getitem__)  # sampled_from would ask for their repr

any_value = st.recursive(
    hashable | odd_things | st.builds(Model, x=hashable),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.tuples(inner)
        | st.sets(hashable, max_size=3)
        | st.builds(Point, inner)
        | st.builds(Model, x=inner)
        | st.builds(types.MappingProxyType, st.dictionaries(any_text, inner, max_size=2))
        | st.builds(collections.deque, st.lists(inner, max_size=2))
        | st.builds(BrokenMapping, st.dictionaries(st.text(max_size=2), inner, max_size=2))
    ),
    max_leaves=8,
)


@given(any_value)
def test_any_value_becomes_text_that_can_be_sent(value: Any) -> None:
    text = render_value(value)
    assert type(text) is str
    assert text.encode()
    assert "object at 0x" not in text
    assert render_value(value) == text


@given(json_values)
def test_json_is_shown_as_json(value: Any) -> None:
    text = render_value(value)
    if isinstance(value, str) or value is None:
        assert text == str(value)
    else:
        assert json.loads(text) == value


@given(any_value)
def test_the_plain_value_is_what_the_text_shows(value: Any) -> None:
    plain = plain_value(value)
    assert render_value(plain) == render_value(value)
    assert plain_value(plain) == plain or plain is value


@given(st.lists(hashable, max_size=6, unique=True))
def test_sets_are_shown_alike_in_whatever_order_they_were_filled(items: list[Any]) -> None:
    left: set[Any] = set()
    right: set[Any] = set()
    for one, other in zip(items, reversed(items), strict=True):
        left.add(one)
        right.add(other)
    assert render_value(left) == render_value(right)
    assert render_value([left]) == render_value([right])
    assert render_value({(1, 2): left}) == render_value({(1, 2): right})
    assert render_value(Point(left)) == render_value(Point(right))


EXAMPLES: list[tuple[Any, str]] = [
    (None, "None"),
    (Color.RED, "red"),
    ([Color.RED, Level.LOW, None], '["red", "Level.LOW", null]'),
    (float("nan"), "NaN"),
    ([datetime.date(2024, 2, 29), decimal.Decimal("1.50")], '["2024-02-29", "1.50"]'),
    (Point(1, {"b", "a"}), '{"x": 1, "y": ["a", "b"]}'),
    (Model(x=[Point(1)]), '{"x": [{"x": 1, "y": null}]}'),
    (Model(x={"k": ({3, 1, 2}, Level.LOW)}), '{"x": {"k": [[1, 2, 3], 1]}}'),
    ({1: 2, None: 3}, '{"1": 2, "null": 3}'),
    ({3, 1, 2}, "[1, 2, 3]"),
    ({1, "1", None, "None"}, '["1", "None", 1, null]'),
    (frozenset({frozenset({2, 1}), frozenset()}), "[[1, 2], []]"),
    # what JSON cannot say is shown as Python says it
    ({(1, 2): {"b", "a"}, "k": ("x",)}, "{(1, 2): {'a', 'b'}, 'k': ('x',)}"),
    ({frozenset({"b", "a"}): None}, "{{'a', 'b'}: None}"),
    (collections.defaultdict(set, {(1,): {2}}), "{(1,): {2}}"),
    (circular_list(), "[1, [...]]"),
    (circular_dict(), "{'tags': {'a'}, 'self': {'again': [{...}]}}"),
    (nested_list(5_000), "<list>"),
    (10**5000, "<int>"),
    # what cannot be shown at all is named by its type
    (BrokenStr(), "<BrokenStr>"),
    (ExitingStr(), "<ExitingStr>"),
    ([BrokenStr(), 1], '["<BrokenStr>", 1]'),
    (BrokenMapping(a=1), "<BrokenMapping>"),
    # neither addresses nor lone surrogates
    (object(), "<object object>"),
    ([len, object()], '["<built-in function len>", "<object object>"]'),
    (f"got {object()}", "got <object object>"),
    (weakref.ref(Point), f"<weakref; to '{type(Point).__name__}' (Point)>"),
    ("a\ud800b", "a?b"),
    ({"\udfff": ["\ud800"]}, '{"?": ["?"]}'),
    # an address that is the tool's own finding stays
    ("segfault at 0xdeadbeef in main", "segfault at 0xdeadbeef in main"),
]  # fmt: skip


def test_each_kind_of_value_has_its_form() -> None:
    for value, text in EXAMPLES:
        assert render_value(value) == text


def test_rendering_does_not_depend_on_the_process(tmp_path: Path) -> None:
    """The fork has a hash seed that was drawn."""
    script = """
        import dataclasses
        from pydantic import BaseModel
        from whichloop.protocol import Tool, render_value

        @dataclasses.dataclass(frozen=True)
        class Item:
            name: str
            tags: frozenset

        class Card(BaseModel, frozen=True):
            tags: frozenset[str]
            cards: "frozenset[Card]" = frozenset()

        words = [f"word{i}" for i in range(30)]
        tags = frozenset(words)
        cards = Card(tags=tags, cards={Card(tags={word, "x"}) for word in words})
        for value in (set(words), {(1, 2): set(words)}, {Item(word, tags) for word in words}, {tags: tags}, object(), cards):
            print(render_value(value))
        def tool(words: set[str] = tags) -> None: ...
        print(Tool.from_function(tool).parameters)
    """
    outputs = {python(script, PYTHONHASHSEED="0").stdout, ran_in_fork(textwrap.dedent(script), tmp_path).stdout}
    assert len(outputs) == 1
    assert "word29" in outputs.pop()


@given(st.text(max_size=50), st.integers(0, 60))
def test_a_long_text_is_cut_and_says_so(text: str, limit: int) -> None:
    shown = cap(text, limit)
    if len(text) <= limit:
        assert shown == text
    else:
        assert shown == f"{text[:limit]}... (truncated, {len(text)} characters in all)"
