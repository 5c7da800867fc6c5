"""How far each design holds its answer to the query's schema, and what it makes of a type, as docs/product.md says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

import whichloop
from tests.loops.helpers import react
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.loops import Finish, Guarded, Phased, ProviderRetry, ReactExtract, Stateless
from whichloop.loops.bare import MAX_STEPS_TEXT, Bare
from whichloop.loops.phased.run import ANSWER_RETRIES
from whichloop.models.fake import FakeItem, FakeModel
from whichloop.protocol import Loop, NativeCall, Observer, Outcome, Plan, Query, RunEvent, StopReason, Toolbox, run_sync
from whichloop.protocol.events import LoopNote
from whichloop.protocol.moves import Answer, Reply
from whichloop.protocol.schema import AnswerType

T = TypeVar("T")


class Bill(BaseModel):
    total: int


SCHEMA = Bill.model_json_schema()


def answered(loop: Loop, *items: FakeItem) -> tuple[Any, StopReason]:
    ended = run_sync(loop.run(Query("What is the bill?", schema=SCHEMA), Toolbox(), FakeModel(*items)))
    return ended.answer, ended.stop


PHASED = Phased(understand=False, plan=False, reflect=False, max_tool_tasks=0)
UNCHECKED: list[tuple[Loop, FakeItem, Any]] = [
    (Bare(), Answer("", {"total": "many"}), '{"total": "many"}'),
    (Bare(), Answer("", {"total": 7}), '{"total": 7}'),
    (PHASED, Answer("", {"total": "many"}), {"total": "many"}),
    (Stateless(response_style=None), Answer("", '{"total": "many"}', 0.9), {"total": "many"}),
    (Stateless(response_style=None), Answer("", "About seven.", 0.9), "About seven."),
]


@pytest.mark.parametrize(("loop", "said", "answer"), UNCHECKED)
def test_what_a_design_does_not_check_comes_as_the_model_gave_it(loop: Loop, said: FakeItem, answer: Any) -> None:
    found, stop = answered(loop, said)
    assert (found, stop in (StopReason.FINISHED, StopReason.FORCED)) == (answer, True)


FINISH = Reply("", (NativeCall("c1", "__finish__", '{"total": "many"}'),))
EXTRACT = "[[ ## reasoning ## ]]\nSo.\n\n[[ ## total ## ]]\nmany\n\n[[ ## completed ## ]]"
CHECKED: list[tuple[Loop, list[FakeItem]]] = [
    (Finish(max_steps=2, parse_retries=0), [FINISH]),
    (ReactExtract(), [react("finish"), EXTRACT]),
]


@pytest.mark.parametrize(("loop", "said"), CHECKED)
def test_what_a_design_checks_is_no_answer_if_it_does_not_fit(loop: Loop, said: list[FakeItem]) -> None:
    assert answered(loop, *said) == (None, StopReason.PARSE_FAILED)


class Part(BaseModel):
    grams: int


class Parcel(BaseModel):
    carrier: str
    parts: list[Part]


PARCEL: dict[str, Any] = {"carrier": "Post", "parts": [{"grams": 3}]}
PARCEL_TEXT = json.dumps(PARCEL)
STATING: list[tuple[Loop, list[FakeItem]]] = [
    (Bare(), [Answer("", PARCEL)]),
    (Bare(instructions="Reply in JSON."), [Answer("", PARCEL)]),
    (Bare(instructions=None), [Answer("", PARCEL)]),
    (Bare(decision_format="fields"), [Answer("", PARCEL_TEXT)]),
    (Bare(decision_format="native"), [Answer("", PARCEL_TEXT)]),
    (Finish(max_steps=2), [Answer("", PARCEL)]),
    (PHASED, [Answer("", PARCEL)]),
    (ReactExtract(), [react("finish"), Answer("", PARCEL)]),
    (Stateless(response_style=None), [Answer("", PARCEL_TEXT, 0.9)]),
]


@pytest.mark.parametrize("schema", [Parcel, Parcel.model_json_schema()], ids=["type", "schema"])
@pytest.mark.parametrize(("loop", "said"), STATING)
def test_a_request_states_every_field_of_the_type_before_any_refusal(loop: Loop, said: list[FakeItem], schema: Any) -> None:
    model = FakeModel(*said)
    ended = run_sync(loop.run(Query("What is sent?", schema=schema), Toolbox(), model))
    assert ended.ok
    assert len(model.requests) == len(said)
    shown = json.dumps([*(one.as_dict() for one in model.requests[-1].messages), *(t.parameters for t in model.requests[-1].tools)])
    assert all(field in shown for field in ("carrier", "parts", "grams"))


# --- a type for a schema ---


@dataclass(frozen=True)
class Owed:
    total: int


class Positive(BaseModel):
    """Refuses what its JSON schema lets through."""

    total: int

    @field_validator("total")
    @classmethod
    def is_owed(cls, value: int) -> int:
        if value < 0:
            raise ValueError("nothing is owed")
        return value


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    due: date


def typed(kind: type[T], loop: Loop, *items: FakeItem) -> Outcome[T | None]:
    return run_sync(loop.run(Query("What is the bill?", schema=kind), Toolbox(), FakeModel(*items)))


SAYING_SEVEN: list[tuple[Loop, list[FakeItem]]] = [
    (Bare(), [Answer("", {"total": 7})]),
    (Finish(max_steps=2), [Answer("", {"total": 7})]),
    (PHASED, [Answer("", {"total": 7})]),
    (ReactExtract(), [react("finish"), Answer("", {"total": 7})]),
    (Stateless(response_style=None), [Answer("", '{"total": 7}', 0.9)]),
    (ProviderRetry(Guarded(Bare())), [Answer("", {"total": 7})]),
]


@pytest.mark.parametrize(("loop", "said"), SAYING_SEVEN)
def test_every_design_gives_an_instance_of_the_type(loop: Loop, said: list[FakeItem]) -> None:
    assert typed(Bill, loop, *said).answer == Bill(total=7)
    assert typed(Owed, loop, *said).answer == Owed(7)


def stated(loop: Loop, value: Any) -> Answer:
    """An answer as the design's format has it."""
    if isinstance(loop, Stateless):
        return Answer("", json.dumps(value), 0.9)
    is_text = isinstance(loop, Bare) and loop.decision_format == "fields"
    return Answer("", json.dumps(value) if is_text else value)


ASKING: list[Loop] = [
    Bare(),
    Bare(decision_format="fields"),
    PHASED,
    Stateless(response_style=None),
    Stateless(response_style=None, history_as="messages"),
]


@pytest.mark.parametrize("total", ["many", -1])
@pytest.mark.parametrize("loop", ASKING, ids=repr)
def test_what_the_type_refuses_is_asked_for_again_with_the_reason(loop: Loop, total: object) -> None:
    model = FakeModel(stated(loop, {"total": total}), stated(loop, {"total": 5}))
    ended = run_sync(loop.run(Query("What is the bill?", schema=Positive), Toolbox(), model))
    assert (ended.answer, ended.ok, ended.error) == (Positive(total=5), True, None)
    shown = "".join(message.content for message in model.requests[-1].messages)
    assert "the answer is no Positive: total: " in shown
    assert json.dumps(total) in shown.replace("\\", "")


@pytest.mark.parametrize("loop", ASKING[:2], ids=repr)
def test_bare_tells_of_an_answer_that_the_type_refuses(loop: Loop) -> None:
    told: list[dict[str, Any]] = []

    class Observing(Observer):
        def on_event(self, event: RunEvent) -> None:
            if isinstance(event, LoopNote):
                told.append(event.as_dict())

    model = FakeModel(stated(loop, {"total": -1}), stated(loop, {"total": 5}))
    run_sync(loop.run(Query("What is the bill?", schema=Positive), Toolbox(), model, Observing()))
    (note,) = told
    assert note["kind"] == "invalid_answer"
    assert note["data"]["problem"].startswith("the answer is no Positive: total: ")


REFUSING: list[tuple[Loop, StopReason, int]] = [
    (Bare(), StopReason.PARSE_FAILED, 3),
    (Bare(answer_retries=0), StopReason.PARSE_FAILED, 1),
    (Bare(max_consecutive_errors=1, answer_retries=4), StopReason.PARSE_FAILED, 5),
    (Bare(max_steps=2), StopReason.MAX_STEPS, 2),
    (PHASED, StopReason.PARSE_FAILED, 1 + ANSWER_RETRIES),
    (Stateless(response_style=None, max_iterations=4), StopReason.MAX_STEPS, 4),
]


@pytest.mark.parametrize(("loop", "stop", "asked"), REFUSING)
def test_what_the_type_refuses_again_and_again_is_no_answer(loop: Loop, stop: StopReason, asked: int) -> None:
    model = FakeModel(then=stated(loop, {"total": -1}))
    ended = run_sync(loop.run(Query("What is the bill?", schema=Positive), Toolbox(), model))
    assert (ended.answer, ended.stop, ended.ok, len(model.requests)) == (None, stop, False, asked)
    assert ended.details["error"].startswith("the answer is no Positive: total: ")


SAYING_NULL: list[tuple[Loop, list[FakeItem]]] = [
    (Bare(), ['{"thought": "", "final_answer": null}']),
    (Bare(fences="read"), ['```json\n{"final_answer": null, "tool_name": ""}\n```']),
    (Bare(decision_format="fields"), ["Thought: none\nAnswer: null"]),
    (Bare(decision_format="native"), ["null"]),
    (Guarded(Bare()), ['{"final_answer": null}']),
    (Finish(max_steps=2), [Answer("", None)]),
    (PHASED, ['{"reasoning": "", "answer": null}']),
    (ReactExtract(), [react("finish"), Answer("", None)]),
    (Stateless(response_style=None), [Answer("", "null", 0.9)]),
    (Stateless(response_style=None), [Answer("", None, 0.9)]),
    (Stateless(), [Answer("", None, 0.9)]),
]


@pytest.mark.parametrize("kind", [int | None, str | None, Bill | None, None], ids=str)
@pytest.mark.parametrize(("loop", "said"), SAYING_NULL)
def test_law_null_in_a_designs_own_format_is_the_answer_of_any_type_that_takes_it(
    loop: Loop, said: list[FakeItem], kind: Any
) -> None:
    model = FakeModel(*said)
    ended = run_sync(loop.run(Query("What is the bill?", schema=kind or type(None), history=()), Toolbox(), model))
    assert (ended.answer, ended.is_null, ended.ok, ended.error) == (None, True, True, None)
    assert (ended.messages[-1].content, len(model.requests)) == ("null", len(said))


def test_null_beside_a_call_is_no_answer_of_bare() -> None:
    def owed() -> int:
        """What is owed."""
        return 7

    model = FakeModel('{"final_answer": null, "tool_name": "owed", "arguments": {}}', Answer("", 7))
    ended = Bare().run_sync(Query("What is the bill?", schema=int | None), Toolbox([owed]), model)
    assert (ended.answer, ended.usage.tool_calls if ended.usage else 0) == (7, 1)


FINISHING: list[tuple[Loop, list[FakeItem]]] = [
    (Finish(), []),
    (Finish(max_steps=0), []),
    (ProviderRetry(Finish(max_steps=4)), []),
    (ReactExtract(parse_retries=1), [react("finish")]),
]


def saying(loop: Loop, total: int) -> FakeItem:
    """An answer as the design's format has it, also one that its codec would not write."""
    if isinstance(loop, ReactExtract):
        return Answer("", {"total": total})
    return Reply("", (NativeCall("c1", "__finish__", json.dumps({"total": total})),))


@pytest.mark.parametrize(("loop", "before"), FINISHING)
def test_a_design_with_retries_tells_the_model_what_the_type_refuses(loop: Loop, before: list[FakeItem]) -> None:
    model = FakeModel(*before, saying(loop, -1), saying(loop, 5))
    ended = run_sync(loop.run(Query("What is the bill?", schema=Positive), Toolbox(), model))
    assert (ended.answer, ended.ok, ended.error) == (Positive(total=5), True, None)
    assert "nothing is owed" in "".join(message.content for message in model.requests[-1].messages)


@pytest.mark.parametrize(("loop", "before"), FINISHING)
def test_a_json_schema_lets_through_what_only_the_type_refuses(loop: Loop, before: list[FakeItem]) -> None:
    model = FakeModel(*before, saying(loop, -1))
    ended = run_sync(loop.run(Query("What is the bill?", schema=Positive.model_json_schema()), Toolbox(), model))
    assert (ended.answer, ended.ok) == ({"total": -1}, True)


@pytest.mark.parametrize("loop", [Finish(parse_retries=1), ReactExtract(parse_retries=1)], ids=lambda loop: loop.name)
def test_what_the_type_refuses_again_and_again_ends_the_run_and_the_outcome_says_why(loop: Loop) -> None:
    before = [react("finish")] if isinstance(loop, ReactExtract) else []
    ended = typed(Positive, loop, *before, saying(loop, -1), saying(loop, -2))
    assert (ended.answer, ended.stop) == (None, StopReason.PARSE_FAILED)
    assert ended.error is not None
    assert "nothing is owed" in ended.error
    assert f"error={ended.error!r}" in repr(ended)


@pytest.mark.parametrize("answer", ["\ud800", {1: object}, [[]], float("nan"), {"total": object()}, True])
def test_any_answer_is_read_or_refused(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"^the answer is no Bill: \S"):
        AnswerType(Bill).read(answer)


def test_a_text_is_read_as_what_the_type_wants_it_to_be() -> None:
    assert typed(str, Bare(), Answer("", "[1, 2]")).answer == "[1, 2]"
    assert typed(list[int], Bare(), Answer("", "[1, 2]")).answer == [1, 2]
    assert typed(int, Bare(), Answer("", "7")).answer == 7
    assert typed(Strict, Bare(), Answer("", '{"due": "2026-03-01"}')).answer == Strict(due=date(2026, 3, 1))


def test_a_designs_own_words_for_having_no_answer_are_no_instance() -> None:
    ended = typed(Bill, Bare(max_steps=1), "no JSON")
    assert (ended.answer, ended.stop) == (None, StopReason.MAX_STEPS)
    assert ended.details["answer"] == MAX_STEPS_TEXT


def test_a_trial_judges_json_also_where_the_query_has_a_type(tmp_path: Path) -> None:
    query = Query("What is the bill?", schema=Bill)
    assert (query.answer_type, query.for_design.answer_type) == (AnswerType(Bill), None)
    assert query == query.for_design == Query("What is the bill?", schema=SCHEMA)
    task = Task("t", query, {"total": 7}, scorer="schema", plan=Plan((), {"total": 7}))
    suite = Suite("bills", "1", (task,), lambda task: StatelessEnvironment(()))
    run = whichloop.compare([Finish()], suite=suite, profiles=["clean"], mlflow=False, runs=tmp_path)
    assert list(run.trials["accuracy"]) == [1.0]
