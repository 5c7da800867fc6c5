"""Streamed replies, and partial answers: what is known while JSON is being written."""

from __future__ import annotations

import datetime
import json
from enum import StrEnum
from typing import Any, Literal, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.cases import cases
from tests.loops.finish.helpers import JSON, SEARCH, AnswerOutput, agent_of, finish, native, run, says
from tests.loops.helpers import Script, Streaming
from tests.rows import row
from whichloop.loops.finish import Finish, Partial, StreamChunk
from whichloop.loops.finish.answer import Output
from whichloop.loops.finish.hooks import partial_json, so_far
from whichloop.protocol import Reply, Request, StopReason, run_sync

DONE = says(native("__finish__", {"answer": "Paris, of course", "confidence": 0.95}), text="Let me answer.")


def streamed(*replies: Reply, size: int = 4, model: Any = None, **attributes: Any) -> tuple[Any, list[StreamChunk]]:
    chunks: list[StreamChunk] = []
    model = model or Streaming(*replies, size=size)
    result = agent_of(model, None, lambda self, chunk: chunks.append(chunk), **attributes)(question="?")
    return result, chunks


@pytest.mark.parametrize("size", [1, 4, 1000])
@row("S3-29", "S3-30", "S3-46")
def test_chunks_carry_text_partial_answer_or_call_and_the_last_is_done(size: int) -> None:
    looking = says(native("search", {"query": "python creation"}), text="I will look.")
    result, chunks = streamed(looking, DONE, size=size)
    assert result == AnswerOutput(answer="Paris, of course", confidence=0.95)
    assert "".join(chunk.content or "" for chunk in chunks) == "I will look.Let me answer."
    assert all(chunk.content is None for chunk in chunks if chunk.partial is not None or chunk.tool_call is not None)
    assert chunks[-1].done
    assert sum(chunk.done for chunk in chunks) == 2
    calls = [chunk.tool_call for chunk in chunks if chunk.tool_call is not None]
    assert (calls[-1].name, calls[-1].id, json.loads(calls[-1].arguments)) == ("search", "id_search", {"query": "python creation"})
    partials = [chunk.partial for chunk in chunks if chunk.partial is not None]
    kind: Any = Partial[AnswerOutput]
    assert all(isinstance(partial, kind) for partial in partials)
    assert partials[-1].model_dump() == result.model_dump()
    assert {partial.confidence for partial in partials} <= {None, 0.95}
    assert all("Paris, of course".startswith(partial.answer or "") for partial in partials)


@row("S3-31")
def test_text_then_calls_are_streamed_then_tools_run_then_on_step() -> None:
    order: list[str] = []

    def note() -> str:
        order.append("tool")
        return ""

    def on_stream(self: Any, chunk: StreamChunk) -> None:
        order.append("done" if chunk.done else "text" if chunk.content else "call" if chunk.tool_call else "partial")

    model = Streaming(says(native("note"), text="Look"), finish(), size=4)
    agent_of(model, lambda self, step: order.append("on_step"), on_stream, tools=[note])(question="?")
    assert order[: order.index("on_step") + 1] == ["text", "call", "call", "done", "tool", "on_step"]


@row("S3-46")
def test_a_reply_is_streamed_iff_on_stream_is_defined_and_the_forced_call_too() -> None:
    result, chunks = streamed(SEARCH, finish("late"), max_steps=1)
    assert (result.answer, sum(chunk.done for chunk in chunks), chunks[-1].partial.answer) == ("late", 2, "late")

    class Unstreamed(Script):
        def stream(self, request: Request) -> Any:
            raise AssertionError("on_stream is not defined")

    assert agent_of(Unstreamed(finish()))(question="?").answer == "x"


@pytest.mark.parametrize("is_async", [True, False])
@row("S3-46", "S3-17")
def test_on_stream_that_raises_aborts_and_the_stream_is_closed(is_async: bool) -> None:
    def plain(self: Any, chunk: StreamChunk) -> None:
        raise OSError("pipe")

    async def later(self: Any, chunk: StreamChunk) -> None:
        raise OSError("pipe")

    async def main() -> None:
        model = Streaming(DONE)
        with pytest.raises(OSError, match="pipe") as caught:
            await agent_of(model, None, later if is_async else plain).acall(question="?")
        assert (model.closed, len(model.requests)) == (1, 1), caught  # at once, not when the exception is let go

    run_sync(main())
    loop = Finish(on_stream=lambda chunk: 1 / 0)
    assert run(loop, Streaming(DONE)).stop is StopReason.TERMINATED
    assert StopReason.TERMINATED in loop.stops


@row("S3-29")
def test_under_a_json_schema_the_partial_answer_is_a_dict() -> None:
    chunks: list[StreamChunk] = []
    assert run(Finish(on_stream=chunks.append), Streaming(finish("long text"), size=5)).answer == "long text"
    partials = [chunk.partial for chunk in chunks if chunk.partial]
    assert partials[-1] == {"answer": "long text"}
    assert any(partial["answer"] in "long text" and partial != partials[-1] for partial in partials)


# --- Partial[T] ---


class City(BaseModel):
    city_name: str
    population: int
    explanation: str


class Kind(StrEnum):
    BIG = "big"


class Mixed(BaseModel):
    kind: Kind
    size: Literal["small", "smallest"]
    day: datetime.date
    share: float
    flag: bool
    count: int
    words: list[str]
    numbers: list[int]
    inner: City | None
    many: list[City]
    loop: Optional[Mixed] = None  # noqa: UP045
    other: str = Field("", alias="another")


MIXED = {
    "kind": "big",
    "size": "smallest",
    "day": "2020-12-31",
    "share": -1.25e3,
    "flag": False,
    "count": "123",
    "words": ["one", "two"],
    "numbers": [12, 345, 6],
    "inner": {"city_name": "Rome", "population": 28, "explanation": "x"},
    "many": [{"city_name": "Oslo", "population": 700, "explanation": "y"}],
    "another": "z",
}


def snapshots(model: type[BaseModel], text: str) -> list[Any]:
    """What is known after every character."""
    output = Output.of_model(model)
    found = (so_far(text[:end], output) for end in range(1, len(text) + 1))
    return [each for each in found if each is not None]


@row("S3-30", "S3-46")
def test_fields_are_optional_strings_grow_and_other_scalars_appear_only_when_complete() -> None:
    kind: Any = Partial[City]
    assert list(kind.model_fields) == ["city_name", "population", "explanation"]
    assert set(kind().model_dump().values()) == {None}
    assert Partial[City] is kind
    with pytest.raises(TypeError, match="pydantic"):
        Partial[int]  # type: ignore[type-var]  # that is what is refused
    seen = snapshots(City, '{"city_name": "Rome \\"x\\" 12", "population": 2800000, "explanation": "old"}')
    names = [part.city_name for part in seen]
    assert {"R", "Rome", 'Rome "x" 1', 'Rome "x" 12'} <= set(names)
    assert all(name is None or 'Rome "x" 12'.startswith(name) for name in names)
    assert {part.population for part in seen} == {None, 2800000}
    assert all(isinstance(part, kind) for part in seen)
    assert seen[-1].model_dump() == {"city_name": 'Rome "x" 12', "population": 2800000, "explanation": "old"}


@row("S3-46")
def test_nothing_half_written_passes_for_a_value_and_the_end_is_the_whole() -> None:
    seen = snapshots(Mixed, json.dumps(MIXED))
    assert {part.kind for part in seen} == {None, Kind.BIG}
    assert {part.day for part in seen} == {None, datetime.date(2020, 12, 31)}
    assert {part.share for part in seen} == {None, -1250.0}
    assert {part.count for part in seen} == {None, 123}
    assert {tuple(part.numbers) for part in seen if part.numbers} == {(12,), (12, 345), (12, 345, 6)}
    assert {part.inner.population for part in seen if part.inner} == {None, 28}
    assert {"R", "Rom"} <= {part.inner.city_name for part in seen if part.inner}
    whole = seen[-1]
    assert (whole.size, whole.words, whole.flag, whole.other) == ("smallest", ["one", "two"], False, "z")
    assert whole.many[0].population == 700


@given(value=st.dictionaries(st.sampled_from([*MIXED, "x"]), JSON, max_size=4), cut=st.integers(0, 200))
@settings(deadline=None, max_examples=cases(20))
@row("S3-30", "S3-46")
def test_no_validation_error_arises_while_partial_and_a_cut_object_adds_no_key(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)
    assert partial_json(text) == (value, value)
    for model in (Mixed, City):
        snapshots(model, text[: cut + 1])
    found = partial_json(text[: cut + 1])
    assert found is None or set(found[1]) <= set(found[0]) <= set(value)


@pytest.mark.parametrize("text", ["", "[1", "3", "nope", '"x', "[" * 10_000])
def test_partial_json_of_no_object_is_none(text: str) -> None:
    assert partial_json(text) is None
