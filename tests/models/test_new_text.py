"""What differs between two requests has the words by which they differ, and no request is counted whole."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from whichloop.models.feedback import texts_apart, words_of
from whichloop.protocol import Message, NativeCall, Request

WORDS = (re.compile(r"[^\W\d_]+"), re.compile(r"\w*[^\W\d]\w*"))

PIECES = ["sum", "Sum", "sums", "7", "x7", " ", "  ", "\n", "\\n", "ΟΔΟΣ", "é", "_", "-"]

texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
calls = st.lists(st.builds(NativeCall, st.just("1"), st.sampled_from(["add", "mul"]), texts), max_size=2).map(tuple)
messages = st.lists(st.builds(Message, st.sampled_from(["user", "assistant"]), texts, calls), max_size=4)


def asked(found: list[Message]) -> Request:
    return Request(tuple(found))


def whole(found: list[Message]) -> list[str]:
    return [text for message in found for text in (message.content, *(f"{call.name} {call.arguments}" for call in message.calls))]


def assert_as_new(some: Counter[str], others: Counter[str], before: Counter[str], now: Counter[str]) -> None:
    assert others - some == now - before
    assert some - others == before - now


@given(messages, messages, messages, messages)
def test_the_words_that_are_new_are_those_of_the_whole_requests(first, old, new, last):
    before, now = [*first, *old, *last], [*first, *new, *last]
    some, others = texts_apart(asked(before), asked(now))
    said = (some, others, whole(before), whole(now))
    for found in WORDS:
        assert_as_new(*(Counter(word for text in those for word in found.findall(text)) for those in said))
    assert_as_new(*(Counter(words_of(*those)) for those in said))


def test_what_both_say_is_left_out():
    system, question = Message("system", "You solve tasks. " * 1000), Message("user", "State: one two three. Go on.")
    asked_again = Message("user", "State: one four three. Go on.")
    assert texts_apart(asked([system, question]), asked([system, asked_again])) == (["two"], ["four"])
    more = [system, question, Message("assistant", "call"), Message("user", "Error")]
    assert texts_apart(asked([system, question]), asked(more)) == ([], ["call", "Error"])
    assert texts_apart(asked(more), asked(more)) == ([], [])
