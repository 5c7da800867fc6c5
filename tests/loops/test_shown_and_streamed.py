"""What a model is shown of tools and of long results, and the answer while it is being written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.cases import cases
from tests.loops.helpers import Heard, Streaming
from tests.loops.looking import VALUES, look
from tests.loops.phased.helpers import LAYOUTS, CallbackLog
from tests.rows import row
from whichloop.loops import ActivityManager, Bare, ConversationState, Finish, Phased, ReactExtract, Stateless
from whichloop.loops.bare_codecs import FORMATS
from whichloop.loops.phased.state import ToolContextManager
from whichloop.loops.shared.boundary import _AnswerSoFar
from whichloop.models.fake import FakeModel
from whichloop.protocol import Query, Reply, Request, Tool, Toolbox, render_value, run_sync
from whichloop.protocol.chat import Chunk, NativeCall
from whichloop.protocol.events import AnswerChunk
from whichloop.protocol.moves import Answer, Inexpressible, Role
from whichloop.protocol.names import parse_spec
from whichloop.protocol.values import cap
from whichloop.runs.registry import make_loop

DESIGNS: list[Any] = [
    *(Bare(decision_format=name) for name in ("json", "fields", "native")),
    Finish(max_steps=4),
    Phased(),
    ReactExtract(),
    Stateless(),
]


def named(loop: Any) -> str:
    return f"{loop.name} {getattr(loop, 'decision_format', '')}".strip()


class Item(BaseModel):
    sku: str
    quantity: int = 1


@dataclass
class Place:
    city: str


def order(items: list[Item], to: Place, note: Annotated[str | None, Field(description="for the parcel")] = None) -> int:
    """Order items."""
    return len(items)


def called(**arguments: Any) -> None: ...


OPEN = {
    "type": "object",
    "properties": {"query_model": {"$ref": "#/$defs/Query"}, "limit": {"type": "integer"}},
    "required": ["query_model"],
    "$defs": {"Query": {"type": "object", "properties": {"since": {"type": "string", "format": "date"}}, "required": ["since"]}},
}


def shown(loop: Any, tool: Any) -> str:
    """Every text of the first request that names the tool, and the schemas that it offers natively."""
    model = FakeModel.script([], "done")
    run_sync(loop.run(Query("What is there?"), Toolbox([tool]), model))
    for request in model.requests:
        text = "\n".join(message.content for message in request.messages)
        text += json.dumps([spec.parameters for spec in request.tools]) if request.tools else ""
        if (tool.name if isinstance(tool, Tool) else tool.__name__) in text or request.tools:
            return text
    raise AssertionError("no request names the tool")


DEFINED = {"type": "object", "properties": {"q": {"$ref": "#/definitions/Q"}}, "definitions": {"Q": {"type": "integer"}}}
EITHER = {"type": "object", "oneOf": [{"required": ["by_name"]}, {"required": ["by_number"]}]}
ANY_NAME = {"type": "object", "properties": {}, "additionalProperties": {"type": "boolean"}}
SHOWN: list[tuple[Any, str]] = [
    (Tool("list_schedules", "List schedules.", OPEN, called), "query_model limit integer required $defs since date"),
    (order, "items sku quantity city note for the parcel $defs"),
    (Tool("find", "Find.", DEFINED, called), "definitions integer"),
    (Tool("find", "Find.", EITHER, called), "oneOf by_name by_number"),
    (Tool("find", "Find.", ANY_NAME, called), "boolean"),
]


@pytest.mark.parametrize("loop", DESIGNS, ids=named)
def test_a_tool_is_shown_with_all_that_its_schema_says(loop: Any) -> None:
    for tool, words in SHOWN:
        assert all(word in shown(loop, tool) for word in words.split())


# --- a limit on results is one on what a model reads: hooks, callbacks, states and stores have all of a result ---


SPECS = [
    "bare",
    "bare(decision_format=native)",
    "finish",
    "phased",
    "phased(tool_layout=agent)",
    "react_extract",
    "stateless",
    "stateless(response_style=detailed)",
    "stateless(history_as=messages)",
    "repeat_guard(loop=stateless)",
]


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=cases(12))
@given(VALUES, st.integers(0, 40))
def test_a_model_reads_a_long_result_as_if_the_tool_had_cut_it(spec: str, value: Any, most: int) -> None:
    loop = make_loop(parse_spec(spec))
    whole = render_value(value)
    shown = value if len(whole) <= most else cap(whole, most)
    assert look(loop, value, most)[1] == look(loop, shown, 10**6)[1]


@given(VALUES, st.integers(0, 40))
@row("S0-66")
def test_the_results_hook_and_the_state_have_all_of_a_result(value: Any, most: int) -> None:
    heard: list[Any] = []

    class Listens(ActivityManager):
        def _process_results(self, state: ConversationState, results: Any) -> Any:
            heard.extend(result["result"] for result in results)
            return results

    outcome, _ = look(Stateless(response_style=None, manager=Listens), value, most)
    state = ConversationState.model_validate_json(outcome.details["state"].model_dump_json())
    assert heard == [value]
    assert state.conversation_history[0].results[0]["result"] == value


@pytest.mark.parametrize("layout", LAYOUTS)
@given(VALUES, st.integers(0, 40))
@row("S1-11", "S1-31")
def test_the_context_manager_and_the_callbacks_have_all_of_a_result(layout: Any, value: Any, most: int) -> None:
    kept, told = ToolContextManager(), CallbackLog()
    outcome, _ = look(Phased(tool_layout=layout, context_manager=kept, callbacks=told), value, most)
    (call,) = outcome.details["tasks"][0]["toolCalls"]
    ((_, calls),) = told.of("on_task_tool_calls_set")
    assert [found.result for found in kept.load([one.pointer for one in calls])] == [render_value(value)]
    assert [output for _, _, output, _ in told.updates if output is not None] == [render_value(value)] == [call["output"]]


# --- the answer's text while it is being written: the same pieces of text whatever the design's format is ---


STREAMING: list[Any] = [
    *(Bare(decision_format=name) for name in ("json", "fields")),
    Finish(max_steps=4),
    Phased(),
    ReactExtract(),
    Stateless(),
]
ANSWER = 'It costs 1.50 €, "today" only.\nSo buy it now: tea \\ coffee [[2]] ##.'


def answered(loop: Any, model: Any, query: Query[Any] | None = None) -> tuple[Any, list[AnswerChunk]]:
    heard = Heard(streams=True)
    outcome = run_sync(loop.run(query or Query("What does tea cost?"), Toolbox(), Streaming(then=model.complete), heard))
    return outcome.answer, heard.of(AnswerChunk)


@pytest.mark.parametrize("loop", STREAMING, ids=repr)
def test_the_pieces_are_the_answer_and_come_one_by_one(loop: Any) -> None:
    answer, pieces = answered(loop, FakeModel.script([], ANSWER))
    assert "".join(piece.text for piece in pieces) == answer == ANSWER
    assert len(pieces) > len(ANSWER) / 5
    assert {piece.number for piece in pieces} == {pieces[0].number}


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
