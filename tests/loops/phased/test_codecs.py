"""Design 1's codecs: what they can say comes back as it was, and whatever a model writes is a move or a WireError."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.loops.helpers import comes_back
from tests.rows import row
from whichloop.loops.phased.codecs import (
    ANSWER,
    PLAN,
    REASON,
    REFLECT,
    SELECT,
    SUMMARIZE,
    UNDERSTAND,
    answer_codec,
    contexts_codec,
)
from whichloop.protocol import NativeCall, Reply, Role, ToolCall
from whichloop.protocol.moves import (
    Act,
    Answer,
    Codec,
    Completion,
    Move,
    PlanTask,
    Recovery,
    Tasks,
    Text,
    Understanding,
    WireError,
)

CONTEXTS = contexts_codec({"c1": "3 [r:1]", "c2": "five [r:2]", "c3": ""})
TYPED = answer_codec({"type": "integer"})
TYPED_NULL = answer_codec({"type": ["integer", "null"]}, takes_null=True)
ROLES: list[tuple[Codec, Role]] = [
    (UNDERSTAND, Role.UNDERSTAND),
    (PLAN, Role.PLAN),
    (SELECT, Role.SELECT),
    (REFLECT, Role.REFLECT),
    (CONTEXTS, Role.SUMMARIZE),
    (REASON, Role.REASON),
    (SUMMARIZE, Role.SUMMARIZE),
    (ANSWER, Role.ANSWER),
    (TYPED, Role.ANSWER),
    (TYPED_NULL, Role.ANSWER),
]
CODECS = [codec for codec, _ in ROLES]

WORDS = st.one_of(st.text(max_size=8), st.sampled_from(["", "\ud800", "\x00", "[r:1]", "null", '{"a": 1}', "```", "none"]))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [math.nan, math.inf, (1, 2), {1: 2}, {1, 2}, b"b", object, 10**5000, ToolCall("a", {})]
)
ANYTHING = JSON | ODD | st.lists(ODD, max_size=1)
TEXTS = st.lists(WORDS, max_size=3).map(tuple)
PLANNED = st.builds(PlanTask, WORDS, WORDS, st.sampled_from(["use_tools", "reason"]), TEXTS)
CALLS = st.builds(ToolCall, WORDS, st.dictionaries(WORDS, JSON, max_size=3))
ODD_CALLS = st.builds(ToolCall, WORDS, st.dictionaries(WORDS, ANYTHING, max_size=3))
MOVES: st.SearchStrategy[Move] = st.one_of(
    st.builds(Act, WORDS, st.lists(ODD_CALLS, max_size=3).map(tuple)),
    st.builds(Answer, WORDS, ANYTHING, st.none() | st.floats(0, 1)),
    st.builds(Understanding, WORDS, TEXTS),
    st.builds(Tasks, st.lists(PLANNED, max_size=3).map(tuple), WORDS),
    st.builds(Completion, st.booleans(), WORDS, TEXTS, st.none() | st.floats(0, 1)),
    st.builds(Text, WORDS),
    st.just(Recovery("retry")),
)


@given(MOVES)
def test_law_render_raises_inexpressible_or_the_move_comes_back(move: Move) -> None:
    for codec in CODECS:
        comes_back(codec, move)


@given(text=WORDS, texts=TEXTS, tasks=st.lists(PLANNED, max_size=3), calls=st.lists(CALLS, max_size=3), value=JSON)
def test_bound_ordinary_moves_are_always_expressible(
    text: str, texts: tuple[str, ...], tasks: list[PlanTask], calls: list[ToolCall], value: Any
) -> None:
    assert comes_back(UNDERSTAND, Understanding(text, texts))
    assert comes_back(PLAN, Tasks(tuple(tasks), text))
    assert comes_back(SELECT, Act(text, tuple(calls))) is bool(calls or not text)
    assert comes_back(SELECT, Text(text)) is (text.strip() not in ("", "none"))
    assert comes_back(REFLECT, Completion(bool(texts), text, texts))
    assert comes_back(CONTEXTS, Text(text))
    assert comes_back(REASON, Text(text))
    assert comes_back(ANSWER, Answer("", text))
    assert comes_back(TYPED, Answer(text, value)) is (value is not None)
    assert comes_back(TYPED_NULL, Answer(text, value))


def test_gaps_of_each_codec_are_what_its_documentation_says() -> None:
    call = ToolCall("add", {})
    gaps: list[tuple[Codec, Move]] = [(codec, Recovery("skip")) for codec in CODECS]
    gaps += [(SELECT, Act("", (call,) * 65)), (REFLECT, Completion(True, confidence=0.5)), (TYPED, Answer("", 3, 0.5))]
    gaps += [(ANSWER, Answer("because", "x")), (ANSWER, Answer("", 3)), (ANSWER, Text("x")), (REASON, Answer("", "x"))]
    for codec, move in gaps:
        assert not comes_back(codec, move), (codec, move)
    assert comes_back(SELECT, Act("", (call,) * 64))


def test_a_missing_answer_is_none() -> None:
    for codec, text in ((TYPED_NULL, '{"reasoning": "why"}'), (TYPED, '{"answer": null}')):
        with pytest.raises(WireError, match='"answer" is missing'):
            codec.parse(Reply(text))


def test_an_answer_that_is_not_whole_yet_is_told_as_far_as_it_goes() -> None:
    assert TYPED.answer_so_far('{"reasoning": "r", "answer": "Be', {}) == ANSWER.answer_so_far("Be", {}) == "Be"
    assert UNDERSTAND.answer_so_far('{"answer": "x"}', {}) == REASON.answer_so_far("x", {}) == ""


def test_contexts_are_those_whose_last_word_stands_in_the_text() -> None:
    reply = CONTEXTS.render(Text("It is 3 [r:1]"))
    assert json.loads(reply.text) == {"contexts": ["c1", "c3"], "why": "It is 3 [r:1]"}


@row("S1-24")
def test_a_reflection_has_four_fields_and_a_single_text_is_a_list_of_one() -> None:
    reply = Reply('{"isComplete": false, "reasoning": "r", "missingInfo": "m", "suggestedNextSteps": "s"}')
    assert REFLECT.parse(reply) == Completion(False, "r", ("m",))
    for wrong in ('"isComplete": 1', '"reasoning": 1', '"missingInfo": 1', '"suggestedNextSteps": [1]'):
        with pytest.raises(WireError, match=wrong.partition(":")[0]):
            REFLECT.parse(Reply(f'{{"isComplete": true, {wrong}}}'))


KEYS = st.sampled_from(
    ["intent", "entities", "tasks", "summary", "isComplete", "reasoning", "missingInfo", "contexts", "why", "answer", "id"]
)
TASK_LIKE = st.dictionaries(st.sampled_from(["id", "description", "taskType", "dependsOn"]), JSON, max_size=4)
REPLIES = st.one_of(
    WORDS,
    JSON.map(json.dumps),
    st.dictionaries(KEYS, JSON | st.lists(TASK_LIKE, max_size=2), max_size=5).map(json.dumps),
)


@given(text=REPLIES, arguments=REPLIES)
@example("[" * 100_000, "[" * 100_000)
@example('{"a":' * 10_000, "9" * 5_000)
@example('{"isComplete": NaN}', '{"a": NaN}')
@example('{"tasks": [{"id": "a", "description": "b", "taskType": ["x"]}]}', "null")
@row("X-6")
def test_any_reply_is_a_move_or_a_wire_error(text: str, arguments: str) -> None:
    for codec in CODECS:
        for reply in (Reply(text), Reply(text, (NativeCall("", text, arguments),))):
            try:
                codec.parse(reply)
            except WireError as error:
                assert str(error).strip()  # noqa: PT017


@pytest.mark.parametrize("arguments", ["[1]", "3", "null", '{"a": ', "nope", '{"a": NaN}'])
@row("X-6")
def test_arguments_that_are_no_object_are_a_wire_error(arguments: str) -> None:
    with pytest.raises(WireError, match=r"arguments of add"):
        SELECT.parse(Reply("", (NativeCall("1", "add", arguments),)))


def test_codecs_are_codecs_and_tell_their_roles() -> None:
    for codec, role in ROLES:
        assert isinstance(codec, Codec)
        assert (codec.role, codec.max_calls) == (role, 64 if codec is SELECT else 0)
