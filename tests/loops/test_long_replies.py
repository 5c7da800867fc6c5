"""No reader of a model's text takes more steps than the text has characters, whatever is in it. Steps are counted, never timed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.dspy_seam import chat_format
from whichloop.dspy_seam.requests import MAX_NESTED
from whichloop.loops.finish import StreamChunk
from whichloop.loops.finish.answer import Output
from whichloop.loops.finish.hooks import MIN_GROWTH, partial_json, streamed
from whichloop.models.scripted_calls import pieces
from whichloop.protocol import Chunk, NativeCall, Reply, run_sync

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
