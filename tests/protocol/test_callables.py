"""Anything callable becomes a tool: functions, methods, partials, classes, in modules of every kind."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from tests.protocol.helpers import given_to
from whichloop.protocol import Tool

SOURCE = '''
from typing import Literal, Optional
from pydantic import BaseModel


class Item(BaseModel):
    name: str
    parts: list["Item"] = []


class Shop:
    def buy(self, item: Item, *more: Item, how: Literal["card", "cash"] = "card", note: Optional[str] = None, **rest: int) -> str:
        """Buy items."""
        return f"{item.name} {len(more)} {how}"

    async def __call__(self, item: Item, count: int = 1) -> str:
        """Order."""
        return item.name * count


buy = Shop().buy
order = Shop()
'''


def load(path: Path, source: str) -> Any:
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_module_with_postponed_annotations_makes_the_same_tools(tmp_path: Path) -> None:
    plain = load(tmp_path / "plain.py", SOURCE)
    postponed = load(tmp_path / "postponed.py", "from __future__ import annotations\n" + SOURCE)
    for name in ("buy", "order"):
        left, right = (Tool.from_function(getattr(module, name)) for module in (plain, postponed))
        assert left.spec == right.spec
    assert given_to(postponed.buy, item={"name": "a"}, more=[{"name": "b"}], rest="x").error_type == "InvalidArguments"
    assert given_to(postponed.buy, item={"name": "a"}, more=[{"name": "b"}], how="cash", x=3).value == "a 1 cash"
    assert given_to(postponed.order, item={"name": "a"}, count="2").value == "aa"


class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def add(self, by: int) -> int:
        """Add to the start."""
        return self.start + by

    @classmethod
    def of(cls, start: int) -> int:
        """Make one."""
        return start

    @staticmethod
    def twice(number: int) -> int:
        """Double."""
        return 2 * number

    def __call__(self, by: int) -> int:
        return self.start + by


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def power(base: int, exponent: int = 2, /, *, modulo: int | None = None) -> int:
    """Raise to a power."""
    return pow(base, exponent, modulo)


CALLABLES: list[tuple[Any, str, str, dict[str, Any], dict[str, Any], Any]] = [
    # function, name, description, properties, arguments, result
    (Counter(5).add, "add", "Add to the start.", {"by": {"type": "integer"}}, {"by": "1"}, 6),
    (Counter.of, "of", "Make one.", {"start": {"type": "integer"}}, {"start": "1"}, 1),
    (Counter.twice, "twice", "Double.", {"number": {"type": "integer"}}, {"number": "1"}, 2),
    (Counter(5), "Counter", "Counts.", {"by": {"type": "integer"}}, {"by": "1"}, 6),
    (wrapped(Counter(5).add), "add", "Add to the start.", {"by": {"type": "integer"}}, {"by": "1"}, 6),
    (functools.cache(Counter.twice), "twice", "Double.", {"number": {"type": "integer"}}, {"number": "1"}, 2),
    (functools.partial(power, 3), "power", "Raise to a power.",
     {"exponent": {"default": 2, "type": "integer"}, "modulo": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}},
     {"exponent": "3"}, 27),
    (functools.partial(functools.partial(Counter.twice), number=4), "twice", "Double.",
     {"number": {"default": 4, "type": "integer"}}, {}, 8),
    (Counter, "Counter", "Counts.", {"start": {"default": 0, "type": "integer"}}, {"start": "x"}, None),
    (dict, "dict", inspect.getdoc(dict) or "", {}, {"a": 1}, {"a": 1}),  # a builtin without signature
]  # fmt: skip


@pytest.mark.parametrize(("function", "name", "description", "properties", "arguments", "result"), CALLABLES)
def test_anything_callable_becomes_a_tool(function, name, description, properties, arguments, result):
    tool = Tool.from_function(function)
    assert (tool.name, tool.description, tool.parameters["properties"]) == (name, description, properties)
    assert given_to(tool, **arguments).value == result


def google(city: str, nights: Annotated[int, Field(description="How long.")] = 1, *more: str) -> str:
    """Book a room.

    Only once: never twice.

    Args:
        city: Where to, with
            a second line.

            And a paragraph: this.
        nights (int, optional): Not this one.
        *more: What else is wanted.

    Returns:
        A number.
    """
    return city


def sphinx(city: str, nights: list[int], more: str = "") -> str:
    """Book a room.

    :param list[int] nights: How long.
    """
    return city


def test_what_a_docstring_says_of_an_argument_is_that_arguments_description() -> None:
    told = ["Where to, with a second line. And a paragraph: this.", "How long.", "What else is wanted."]
    for function, description, expected in (
        (google, "Book a room.\n\nOnly once: never twice.\n\nReturns:\n    A number.", told),
        (sphinx, "Book a room.", [None, "How long.", None]),
    ):
        made = Tool.from_function(function)
        assert made.description == description
        assert [schema.get("description") for schema in made.parameters["properties"].values()] == expected
    plain = Tool.from_function(google, description="Mine.")
    assert plain.description == "Mine."
    assert "Where to" not in json.dumps(plain.parameters)


@given(st.text("Args: \n\tcity:()*param", max_size=80))
def test_any_docstring_is_a_description(text: str) -> None:
    def book(city: str) -> str:
        return city

    book.__doc__ = text
    tool = Tool.from_function(book)
    told = tool.parameters["properties"]["city"].get("description")
    assert tool.description == inspect.cleandoc(text) if told is None else told in " ".join(text.split())
