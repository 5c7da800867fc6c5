"""The answer's text while it is being written: the same pieces of text whatever the design's format is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Script
from whichloop.loops import AnswerChunk, Bare, Finish, Phased, Query, ReactExtract, Stateless, Toolbox
from whichloop.loops.bare_codecs import FORMATS
from whichloop.loops.shared.boundary import _AnswerSoFar
from whichloop.models.fake import FakeModel
from whichloop.protocol import (
    Answer,
    CallDelta,
    Capabilities,
    Chunk,
    Inexpressible,
    NativeCall,
    Observer,
    Reply,
    Request,
    Role,
    run_sync,
)
from whichloop.protocol.model import WrappedModel
from whichloop.protocol.wire import section

LOOPS: list[Any] = [
    *(Bare(decision_format=name) for name in ("json", "fields")),
    Finish(max_steps=4),
    Phased(),
    ReactExtract(),
    Stateless(),
]
ANSWER = 'It costs 1.50 €, "today" only.\nSo buy it now: tea \\ coffee [[2]] ##.'


class InPieces(WrappedModel):
    """A model whose replies come in pieces of a few characters."""

    capabilities = Capabilities()

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        reply = await self.model.complete(request)
        for start in range(0, len(reply.text), 3):
            yield Chunk(reply.text[start : start + 3])
        for place, call in enumerate(reply.calls):
            yield Chunk(call=CallDelta(place, call.id, call.name))
            for start in range(0, len(call.arguments), 3):
                yield Chunk(call=CallDelta(place, arguments=call.arguments[start : start + 3]))
        yield Chunk(reply=reply)


class Heard(Observer):
    streams = True

    def __init__(self) -> None:
        self.pieces: list[AnswerChunk] = []

    def on_event(self, event: Any) -> None:
        self.pieces += [event] if isinstance(event, AnswerChunk) else []


def answered(loop: Any, model: Any, query: Query[Any] | None = None) -> tuple[Any, list[AnswerChunk]]:
    heard = Heard()
    outcome = run_sync(loop.run(query or Query("What does tea cost?"), Toolbox(), InPieces(model), heard))
    return outcome.answer, heard.pieces


@pytest.mark.parametrize("loop", LOOPS, ids=repr)
def test_the_pieces_are_the_answer_and_come_one_by_one(loop: Any) -> None:
    answer, pieces = answered(loop, FakeModel.script([], ANSWER))
    assert "".join(piece.text for piece in pieces) == answer == ANSWER
    assert len(pieces) > len(ANSWER) / 5
    assert {piece.number for piece in pieces} == {pieces[0].number}


def test_a_call_and_an_answer_that_is_no_text_have_none() -> None:
    assert answered(Bare(), FakeModel(Answer("", 5)))[1] == []
    assert answered(Bare(max_steps=1), FakeModel(Reply("no JSON at all")))[1] == []


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (Bare(decision_format="fields"), ["Thought: The Answer: is near.\nAnswer: 5 [[ ## answer ## ]] a\n"]),
        (
            ReactExtract(),
            [
                "[[ ## next_thought ## ]]\n\n[[ ## next_tool_name ## ]]\nfinish\n\n[[ ## next_tool_args ## ]]\n{}",
                "[[ ## reasoning ## ]]\nIt follows.\n\n[[ ## answer ## ]]\n5 [[ ## answer ## ]] a\n\n[[ ## completed ## ]]\n",
            ],
        ),
    ],
    ids=["fields", "sections"],
)
def test_the_pieces_are_what_is_read_as_the_answer_and_nothing_around_it(loop: Any, said: list[str]) -> None:
    answer, pieces = answered(loop, FakeModel(*map(Reply, said)))
    assert "".join(piece.text for piece in pieces) == answer == "5 [[ ## answer ## ]] a"


@pytest.mark.parametrize("loop", LOOPS[:3], ids=repr)
def test_a_reply_that_comes_whole_is_one_piece(loop: Any) -> None:
    heard = Heard()
    run_sync(loop.run(Query("What does tea cost?"), Toolbox(), Script(Answer("", ANSWER)), heard))
    assert [piece.text for piece in heard.pieces] == [ANSWER]


def test_a_call_beside_the_one_that_answers_is_no_part_of_the_answer() -> None:
    calls = (NativeCall("a", "look", '{"answer": "No."}'), NativeCall("z", "__finish__", json.dumps({"answer": ANSWER})))
    pieces = answered(Finish(max_steps=4), FakeModel(Reply("", calls)))[1]
    assert ("".join(piece.text for piece in pieces), len(pieces) > 9) == (ANSWER, True)


def test_an_answer_that_is_refused_is_followed_by_another_one() -> None:
    model = FakeModel(Answer("", "seven"), Answer("", "7"))
    answer, pieces = answered(Bare(), model, Query("How many?", schema=int))
    assert answer == 7
    texts = {number: "".join(piece.text for piece in pieces if piece.number == number) for number in (0, 1)}
    assert texts == {0: "seven", 1: "7"}


@pytest.mark.parametrize("codec", [FORMATS["json"], FORMATS["fields"]], ids=lambda codec: codec.name)
@given(st.text(min_size=1), st.data())
def test_what_comes_only_adds_and_ends_as_the_answer(codec: Any, text: str, data: st.DataObject) -> None:
    try:
        reply: Reply = codec.render(Answer("", text))
    except Inexpressible:
        return
    so_far: Callable[..., str] = codec.answer_so_far
    cut = data.draw(st.integers(0, len(reply.text)))
    whole = so_far(reply.text, {})
    assert whole == text
    assert whole.startswith(so_far(reply.text[:cut], {}))


def test_a_thought_beside_a_native_call_and_lines_of_another_field_are_no_answer() -> None:
    assert not hasattr(FORMATS["native"], "answer_so_far")
    fields: Callable[..., str] = FORMATS["fields"].answer_so_far  # type: ignore[union-attr]  # as above
    assert fields("Thought: x\nAnswer: 5 pounds\nTool: add", {}) == "5 pounds"
    assert fields("```\nAnswer: 5\n```", {}) == "5"
    assert section("[[ ## reasoning ## ]]\nsee [[ ## answer ## ]] now\n\n[[ ## answer ## ]]\nTwo.\n\n[[ #", "answer") == "Two."


def test_a_long_answer_is_read_in_a_time_that_does_not_grow_with_its_square() -> None:
    reads = list[int]()

    class Codec:
        role = Role.DECIDE

        def answer_so_far(self, text: str, calls: Mapping[str, str]) -> str:
            reads.append(len(text))
            return text

    so_far, whole = _AnswerSoFar(Request((), codec=cast(Any, Codec()))), "abcd" * 10_000
    pieces = [so_far.add(Chunk("abcd")) for _ in range(10_000)]
    assert "".join([*pieces, so_far.add(Chunk(reply=Reply(whole)))]) == whole
    assert sum(reads) < 100 * 40_000
