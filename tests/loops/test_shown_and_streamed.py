"""What a model is shown of tools and of long results, and the answer while it is being written."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.cases import cases
from tests.loops.helpers import Script
from tests.loops.looking import VALUES, look
from tests.rows import row
from whichloop.loops import ActivityManager, Bare, CallDelta, ConversationState, Finish, Phased, ReactExtract, Stateless, Step
from whichloop.loops.bare_codecs import FORMATS
from whichloop.loops.phased.state import AgentCallbacks, TaskStatus, ToolContextManager
from whichloop.loops.shared.boundary import _AnswerSoFar
from whichloop.models.fake import FakeModel
from whichloop.protocol import Observer, Query, Reply, Request, Tool, Toolbox, WrappedModel, render_value, run_sync
from whichloop.protocol.chat import Capabilities, Chunk, NativeCall
from whichloop.protocol.events import AnswerChunk
from whichloop.protocol.moves import Answer, Inexpressible, Role
from whichloop.protocol.names import parse_spec
from whichloop.protocol.values import cap
from whichloop.protocol.wire import section
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


def search(text: str, limit: int = 5) -> list[str]:
    """Search the shop."""
    return []


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


@pytest.mark.parametrize("loop", DESIGNS, ids=named)
def test_a_tool_of_a_server_is_shown_with_what_it_takes(loop: Any) -> None:
    text = shown(loop, Tool("list_schedules", "List schedules.", OPEN, called))
    for part in ("query_model", "limit", '"integer"', '"required"', "$defs", '"since"', '"date"'):
        assert part.strip('"') in text, part


@pytest.mark.parametrize("loop", DESIGNS, ids=named)
def test_models_among_the_arguments_of_a_function_are_shown_with_their_fields(loop: Any) -> None:
    text = shown(loop, order)
    for part in ("items", "sku", "quantity", "city", "note", "for the parcel", "$defs"):
        assert part in text, part


@pytest.mark.parametrize("loop", DESIGNS, ids=named)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"q": {"$ref": "#/definitions/Q"}}, "definitions": {"Q": {"type": "integer"}}},
        {"type": "object", "oneOf": [{"required": ["by_name"]}, {"required": ["by_number"]}]},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "boolean"}},
    ],
    ids=["definitions", "one of", "any name"],
)
def test_whatever_else_a_schema_says_is_shown_too(loop: Any, schema: dict[str, Any]) -> None:
    text = shown(loop, Tool("find", "Find.", schema, called))
    assert all(word in text for word in re.findall(r"definitions|integer|oneOf|by_name|by_number|boolean", json.dumps(schema)))


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


@given(VALUES, st.integers(0, 40))
@row("S0-66")
def test_what_the_results_hook_has_shortened_is_shown_as_it_is(value: Any, most: int) -> None:
    class Shortens(ActivityManager):
        def _process_results(self, state: ConversationState, results: Any) -> Any:
            return [result | {"result": {"n": 1}} for result in results]

    loop = Stateless(response_style=None, manager=Shortens)
    assert look(loop, value, max(most, 8))[1] == look(loop, {"n": 1}, 8)[1]


class Updates(AgentCallbacks):
    """Keeps the outputs of calls."""

    def __init__(self) -> None:
        self.outputs: list[str] = []

    def on_tool_call_update(
        self, task_id: str, tool_index: int, status: TaskStatus, output: str | None = None, error: str | None = None
    ) -> None:
        self.outputs += [output] if output is not None else []


@pytest.mark.parametrize("layout", ["executor", "agent"])
@given(VALUES, st.integers(0, 40))
@row("S1-11", "S1-31")
def test_the_context_manager_and_the_callbacks_have_all_of_a_result(layout: Any, value: Any, most: int) -> None:
    kept, updates = _KeptPointers(), Updates()
    outcome, _ = look(Phased(tool_layout=layout, context_manager=kept, callbacks=updates), value, most)
    assert [found.result for found in kept.load(kept.pointers)] == [render_value(value)]
    assert updates.outputs == [render_value(value)]
    assert outcome.details["tasks"][0]["toolCalls"][0]["output"] == render_value(value)


class _KeptPointers(ToolContextManager):
    """Knows the pointers of all that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.pointers: list[str] = []

    def save(self, tool_name: str, args: Mapping[str, Any], result: Any, task_id: str, query_id: str) -> str:
        self.pointers.append(super().save(tool_name, args, result, task_id, query_id))
        return self.pointers[-1]


@row("S3-40")
def test_on_step_and_the_trajectory_have_the_tools_own_object() -> None:
    own = ["x" * 500]
    steps: list[Any] = []

    def on_step(step: Step) -> None:
        steps.extend(result.output for result in step.tool_results)

    look(Finish(max_steps=4, on_step=on_step), own, 20)
    outcome, _ = look(ReactExtract(), own, 20)
    assert steps[0] is own
    assert outcome.details["trajectory"]["observation_0"] is own


# --- the answer's text while it is being written: the same pieces of text whatever the design's format is ---


STREAMING: list[Any] = [
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


@pytest.mark.parametrize("loop", STREAMING, ids=repr)
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


@pytest.mark.parametrize("loop", STREAMING[:3], ids=repr)
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
