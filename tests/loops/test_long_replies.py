"""No reader of a model's text takes more steps than the text has characters, whatever is in it. Steps are counted, never timed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.dspy_seam import chat_format
from whichloop.dspy_seam.requests import MAX_NESTED
from whichloop.loops.finish import StreamChunk, xml_output
from whichloop.loops.finish.answer import Output
from whichloop.loops.finish.hooks import MIN_GROWTH, partial_json, streamed
from whichloop.loops.finish.xml_output import read_output
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Chunk, NativeCall, Reply, WireError, run_sync

# --- XML ---

NODE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
NESTED = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "integer"}, "a": {"type": "string"}}}},
        "o": {"type": "object", "properties": {"a": {"type": "string"}, "x": {"type": ["number", "null"]}}},
    },
}
SCHEMAS: list[Any] = [NESTED, {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}}]
TAGS = ("a", "b", "o", "item", "c", "output")
PIECES = st.sampled_from(["x", "<", "<a/>", "<b\tx='1'>", *(f"<{tag}>" for tag in TAGS), *(f"</{tag}>" for tag in TAGS)])


@settings(deadline=None, max_examples=cases(100))
@given(st.lists(PIECES, min_size=1, max_size=6), st.integers(1, 200), st.sampled_from(SCHEMAS))
@example(["<b>", "<a>", "x", "</a>"], 200, NESTED)
@example(["<o>", "<a>", "x", "</a>"], 200, NESTED)
@example(["<item>", "<c>"], 200, NESTED)
def test_an_element_is_made_and_read_once_for_each_tag_at_most(units, times, schema):
    text = f"<output>{''.join(units) * times}</output>"
    made, read = [], []

    class Counted(xml_output._Element):
        def __init__(self, *args: Any) -> None:
            made.append(args[0])
            super().__init__(*args)

        def value(self, text: str, typed: bool) -> Any:
            read.append(len(text))
            return super().value(text, typed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(xml_output, "_Element", Counted)
        with contextlib.suppress(WireError):  # nested too deep
            read_output(text, schema)
    assert len(read) < len(made) <= text.count("<") + 2
    assert sum(read) <= xml_output.MAX_DEPTH * len(text)


# --- DSPy's chat format ---


class Plan(dspy.Signature):
    """State a plan."""

    query: str = dspy.InputField()
    steps: list[str] = dspy.OutputField()


@settings(deadline=None)
@given(st.sampled_from(["{", "[", '"', "a", "{'a':", "[[ ## ", "\\", "1,"]), st.integers(1, 30_000))
def test_values_are_repaired_only_if_they_are_short_and_flat(unit, times):
    repaired: list[str] = []

    def parse_value(text: str, annotation: Any) -> Any:
        repaired.append(text)
        raise ValueError("not repaired here")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chat_format, "parse_value", parse_value)
        patched.setattr(dspy.ChatAdapter, "parse", lambda self, signature, text: parse_value(text, None))
        with pytest.raises((AdapterParseError, ValueError)):
            chat_format.FORMAT.parse(Plan, f"[[ ## steps ## ]]\n{unit * times}")
    assert all(len(text) <= chat_format.MAX_REPAIRED for text in repaired)
    assert all(max(text.count("{"), text.count("[")) <= 2 * MAX_NESTED or unit == "[[ ## " for text in repaired)


# --- streams, and what scorers read ---


SMALL_MAX_EACH = 600
"""Characters up to which every piece is handed out, here: what the product takes would make each case take a second."""


@settings(max_examples=cases(8))
@given(st.integers(0, 15_000), st.sampled_from(["__finish__", "add"]))
def test_a_streamed_call_is_read_in_time_that_grows_with_its_length(chars, name):
    arguments = f'{{"answer": "{"x" * chars}"}}'
    given_out: list[StreamChunk] = []
    read: list[int] = []

    def counting(text: str) -> Any:
        read.append(len(text))
        return partial_json(text)

    async def chunks() -> AsyncIterator[Chunk]:
        for chunk in pieces(Reply("", (NativeCall("1", name, arguments),))):
            yield chunk

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("whichloop.loops.finish.hooks.partial_json", counting)
        patched.setattr("whichloop.loops.finish.hooks.MAX_EACH", SMALL_MAX_EACH)
        reply = run_sync(streamed(chunks(), Output.of(None), given_out.append))
    assert reply.calls[0].arguments == arguments
    longer = [length for length in read if length > SMALL_MAX_EACH]
    assert all(after >= before * (1 + MIN_GROWTH) for before, after in pairwise(longer[:-1]))
    assert sum(longer) <= (2 + 1 / MIN_GROWTH) * len(arguments)
    if name == "__finish__":
        assert given_out[-1].partial == {"answer": "x" * chars}
    assert given_out[-1].done


@pytest.mark.parametrize("value", ["{s:e,'```json{':```", "[{s:e,'```json{':```]"])
def test_a_value_on_which_the_repair_itself_fails_is_unreadable(value):
    """json_repair 0.64 raises AssertionError; found by benchmarks/hostile_replies.py, block 77."""
    with pytest.raises(AdapterParseError):
        chat_format.FORMAT.parse(Plan, f"[[ ## steps ## ]]\n{value}")
