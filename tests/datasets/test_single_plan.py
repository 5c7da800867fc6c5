"""A plan as the text of a file: each of its mistakes is told, with its line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.datasets.importing.plan_model import LinesOfJson, single_plan
from whichloop.protocol import ToolSpec

ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"], "additionalProperties": False}
TOOLS = {name: ToolSpec(name, "", ITEM) for name in ("price", "stock")}
IN_JSON = """{
 "calls": [
  {
   "id": "first",
   "tool": "price",
   "arguments": {"item": "lamp"},
   "goal": "the price"
  },
  {
   "id": "second",
   "tool": "stock",
   "arguments": {"item": {"$ref": "first"}},
   "goal": "the stock"
  },
  {
   "id": "third",
   "tool": "stock",
   "arguments": {"item": "sofa"},
   "goal": "of sofas"
  }
 ],
 "answer": {"$ref": "second"}
}"""
PLANTED_IN_JSON = {
    # what stands there → what is planted, the words that tell it
    '"price"': ('"prise"', "call 'first': no tool 'prise'; did you mean 'price'?"),
    '{"item": "sofa"}': ('{"itm": "sofa"}', "call 'third': stock: unknown argument 'itm'; did you mean 'item'?"),
    '"the price"': ("3", "calls[0].goal: text belongs here"),
    '{"$ref": "first"}': ('{"$ref": "fist"}', "refers to 'fist', not before it; did you mean 'first'?"),
    '"id": "second",\n   "tool"': ('"id": "second",\n   "tol"', "calls[1].tol: there is no such field; did you mean 'tool'?"),
    '"goal": "the stock"': ('"goal": ["the stock"]', "calls[1].goal: text belongs here"),
    '"answer"': ('"anser"', "anser: there is no such field; did you mean 'answer'?"),
}
IN_LINES = """first = price(item='lamp')
second = stock(item=first)
third = stock(
    item='sofa',
)
answer = [second, third]"""
PLANTED_IN_LINES = {
    "price(": ("prise(", "call 'first': no tool 'prise'; did you mean 'price'?"),
    "item=first": ("item=fist", "no earlier line is named 'fist'; did you mean 'first'?"),
    "item='sofa'": ("itm='sofa'", "call 'third': stock: unknown argument 'itm'; did you mean 'item'?"),
    "[second, third]": ("[second third]", "invalid syntax"),
}


def told(text: str) -> list[tuple[int, str]]:
    plan = single_plan(text)
    return sorted((mistake.line, mistake.text) for mistake in (*plan.mistakes, *plan.misfits(TOOLS)))


@pytest.mark.parametrize(("text", "planted"), [(IN_JSON, PLANTED_IN_JSON), (IN_LINES, PLANTED_IN_LINES)], ids=["JSON", "lines"])
def test_a_plan_is_told_each_of_its_planted_mistakes_in_its_line(text: str, planted: Mapping[str, tuple[str, str]]) -> None:
    @settings(max_examples=cases(60))
    @given(st.sets(st.sampled_from(sorted(planted))))
    def law(chosen: set[str]) -> None:
        broken = text
        for right in chosen:
            broken = broken.replace(right, planted[right][0])
        found = told(broken)
        assert len(found) == len(chosen)
        assert (single_plan(broken).plan is None) == bool(single_plan(broken).mistakes)
        for right in chosen:
            wrong, words = planted[right]
            last_line = broken[: broken.index(wrong) + len(wrong)].count("\n") + 1
            begins = 1 if text is IN_JSON else 2  # of a call in several lines, its first line is told
            assert any(words in said and last_line - begins < line <= last_line for line, said in found)

    law()


def test_a_line_that_is_no_python_does_not_hide_the_others() -> None:
    text = "first = price(item='lamp'\nsecond = stock(itm=first)\nthird = stock(item=)\nprise(item=third)"
    assert [line for line, _ in told(text)] == [1, 2, 3, 4]


def test_what_follows_from_a_broken_line_is_no_mistake_of_its_own() -> None:
    assert [line for line, _ in told("third = stock(item='a' 'b' 3,\n  more=1\n)\nprice(item=third)")] == [1]
    assert [line for line, _ in told("first = price('lamp')\nstock(item=first)")] == [1]


def test_a_list_of_lines_or_of_calls_has_the_lines_of_the_file() -> None:
    assert told('["first = price(item=\'lamp\')",\n\n "stock(itm=first)"]')[0][0] == 3
    calls = json.dumps(json.loads(IN_JSON)["calls"], indent=1).replace('"prise"', '"price"').replace('"first"\n', '"fist"\n')
    assert [line for line, said in told(calls) if "'fist'" in said] == [calls[: calls.index('"$ref"')].count("\n")]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    st.sampled_from([None, 1]),
)
def test_the_line_of_a_value_is_the_one_that_it_is_written_in(value: Any, indent: int | None) -> None:
    lines = LinesOfJson(json.dumps(value, indent=indent))
    number = iter(range(1, 10_000))
    next_line: Callable[[], int] = (lambda: 1) if indent is None else (lambda: next(number))

    def walk(inner: Any, path: tuple[str | int, ...], line: int) -> None:
        assert lines.at(path) == line
        for key, item in inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ():
            walk(item, (*path, key), next_line())
        if isinstance(inner, dict | list) and inner:
            next_line()  # of the closing bracket

    walk(value, (), next_line())
