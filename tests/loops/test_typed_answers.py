"""How far each design holds its answer to the query's schema, and what it makes of a type, as docs/product.md says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

import whichloop
from tests.loops.helpers import Heard, in_turn, react
from tests.rows import row
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.loops import Finish, Guarded, Phased, ProviderRetry, ReactExtract, Stateless
from whichloop.loops.bare import MAX_STEPS_TEXT, Bare
from whichloop.loops.phased.run import ANSWER_RETRIES
from whichloop.models.fake import FakeItem, FakeModel
from whichloop.protocol import Answer, Loop, NativeCall, Outcome, Plan, Query, Reply, StopReason, Toolbox, run_sync
from whichloop.protocol.events import LoopNote
from whichloop.protocol.schema import AnswerType


class Bill(BaseModel):
    total: int


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


class Part(BaseModel):
    grams: int


class Parcel(BaseModel):
    carrier: str
    parts: list[Part]


SCHEMA = Bill.model_json_schema()
PHASED = Phased(understand=False, plan=False, reflect=False, max_tool_tasks=0)
STATELESS = Stateless(response_style=None)
LOOPS: dict[str, Loop] = {
    "bare": Bare(),
    "other words": Bare(instructions="Reply in JSON."),
    "no words": Bare(instructions=None),
    "fields": Bare(decision_format="fields"),
    "native": Bare(decision_format="native"),
    "finish": Finish(max_steps=2),
    "phased": PHASED,
    "react_extract": ReactExtract(),
    "stateless": STATELESS,
    "stateless in turns": Stateless(response_style=None, history_as="messages"),
    "wrapped": ProviderRetry(Guarded(Bare())),
}
each_loop = pytest.mark.parametrize("name", LOOPS)


def stated(loop: Loop, value: Any) -> list[FakeItem]:
    """What a model says to answer, as the design's format has it."""
    if isinstance(loop, Stateless):
        return [Answer("", json.dumps(value), 0.9)]
    is_text = isinstance(loop, Bare) and loop.decision_format != "json"
    before = [react("finish")] if isinstance(loop, ReactExtract) else []
    return [*before, Answer("", json.dumps(value) if is_text else value)]


def asked(loop: Loop, schema: Any, *items: FakeItem, then: FakeItem | None = None) -> tuple[Outcome[Any], FakeModel]:
    model = FakeModel(*items, then=then)
    return run_sync(loop.run(Query("What is the bill?", schema=schema, history=()), Toolbox(), model)), model


@pytest.mark.parametrize(
    ("loop", "said", "answer"),
    [
        (Bare(), Answer("", {"total": "many"}), '{"total": "many"}'),
        (Bare(), Answer("", {"total": 7}), '{"total": 7}'),
        (PHASED, Answer("", {"total": "many"}), {"total": "many"}),
        (STATELESS, Answer("", '{"total": "many"}', 0.9), {"total": "many"}),
        (STATELESS, Answer("", "About seven.", 0.9), "About seven."),
    ],
)
def test_what_a_design_does_not_check_comes_as_the_model_gave_it(loop: Loop, said: FakeItem, answer: Any) -> None:
    ended, _ = asked(loop, SCHEMA, said)
    assert (ended.answer, ended.stop in (StopReason.FINISHED, StopReason.FORCED)) == (answer, True)


MANY = Reply("", (NativeCall("c1", "__finish__", '{"total": "many"}'),))
EXTRACTED = "[[ ## reasoning ## ]]\nSo.\n\n[[ ## total ## ]]\nmany\n\n[[ ## completed ## ]]"


@pytest.mark.parametrize(
    ("loop", "said"), [(Finish(max_steps=2, parse_retries=0), [MANY]), (ReactExtract(), [react("finish"), EXTRACTED])]
)
def test_what_a_design_checks_is_no_answer_if_it_does_not_fit_and_a_json_value_if_it_does(loop: Loop, said: list[FakeItem]) -> None:
    ended, _ = asked(loop, SCHEMA, *said)
    assert (ended.answer, ended.stop) == (None, StopReason.PARSE_FAILED)
    ended, _ = asked(loop, SCHEMA, *stated(loop, {"total": 7}))
    assert (ended.answer, ended.stop) == ({"total": 7}, StopReason.FINISHED)


@pytest.mark.parametrize(("name", "schema"), in_turn(LOOPS, [Parcel, Parcel.model_json_schema()]))
def test_a_request_states_every_field_of_the_type_before_any_refusal(name: str, schema: Any) -> None:
    said = stated(LOOPS[name], {"carrier": "Post", "parts": [{"grams": 3}]})
    ended, model = asked(LOOPS[name], schema, *said)
    assert (ended.ok, len(model.requests)) == (True, len(said))
    last = model.requests[-1]
    shown = json.dumps([*(one.as_dict() for one in last.messages), *(tool.parameters for tool in last.tools)])
    assert all(field in shown for field in ("carrier", "parts", "grams"))


@each_loop
def test_every_design_gives_an_instance_of_the_type(name: str) -> None:
    loop = LOOPS[name]
    for kind in (Bill, Owed):
        assert asked(loop, kind, *stated(loop, {"total": 7}))[0].answer == kind(total=7)


@pytest.mark.parametrize(("name", "total"), in_turn(["bare", "fields", "phased", "stateless", "stateless in turns"], ["many", -1]))
def test_what_the_type_refuses_is_asked_for_again_with_the_reason(name: str, total: object) -> None:
    loop, heard = LOOPS[name], Heard()
    model = FakeModel(*stated(loop, {"total": total}), *stated(loop, {"total": 5}))
    ended: Outcome[Any] = run_sync(loop.run(Query("What is the bill?", schema=Positive), Toolbox(), model, heard))
    assert (ended.answer, ended.ok, ended.error) == (Positive(total=5), True, None)
    shown = "".join(message.content for message in model.requests[-1].messages)
    assert "the answer is no Positive: total: " in shown
    assert json.dumps(total) in shown.replace("\\", "")
    if isinstance(loop, Bare):
        (note,) = heard.of(LoopNote)
        assert note.kind == "invalid_answer"
        assert note.data["problem"].startswith("the answer is no Positive: total: ")


@pytest.mark.parametrize(
    ("loop", "stop", "requests"),
    [
        (Bare(), StopReason.PARSE_FAILED, 3),
        (Bare(answer_retries=0), StopReason.PARSE_FAILED, 1),
        (Bare(max_consecutive_errors=1, answer_retries=4), StopReason.PARSE_FAILED, 5),
        (Bare(max_steps=2), StopReason.MAX_STEPS, 2),
        (PHASED, StopReason.PARSE_FAILED, 1 + ANSWER_RETRIES),
        (Stateless(response_style=None, max_iterations=4), StopReason.MAX_STEPS, 4),
    ],
)
@row("bare.answer_retries")
def test_what_the_type_refuses_again_and_again_is_no_answer(loop: Loop, stop: StopReason, requests: int) -> None:
    ended, model = asked(loop, Positive, then=stated(loop, {"total": -1})[-1])
    assert (ended.answer, ended.stop, ended.ok, len(model.requests)) == (None, stop, False, requests)
    assert ended.details["error"].startswith("the answer is no Positive: total: ")


NULLS: list[tuple[Loop, list[FakeItem]]] = [
    (Bare(), ['{"thought": "", "final_answer": null}']),
    (Bare(fences="read"), ['```json\n{"final_answer": null, "tool_name": ""}\n```']),
    (Bare(decision_format="fields"), ["Thought: none\nAnswer: null"]),
    (Bare(decision_format="native"), ["null"]),
    (Guarded(Bare()), ['{"final_answer": null}']),
    (Finish(max_steps=2), [Answer("", None)]),
    (PHASED, ['{"reasoning": "", "answer": null}']),
    (ReactExtract(), [react("finish"), Answer("", None)]),
    (STATELESS, [Answer("", "null", 0.9)]),
    (STATELESS, [Answer("", None, 0.9)]),
    (Stateless(), [Answer("", None, 0.9)]),
]


@pytest.mark.parametrize(("case", "kind"), in_turn(NULLS, [int | None, str | None, Bill | None, type(None)]))
def test_law_null_in_a_designs_own_format_is_the_answer_of_any_type_that_takes_it(
    case: tuple[Loop, list[FakeItem]], kind: Any
) -> None:
    loop, said = case
    ended, model = asked(loop, kind, *said)
    assert (ended.answer, ended.is_null, ended.ok, ended.error) == (None, True, True, None)
    assert (ended.messages[-1].content, len(model.requests)) == ("null", len(said))


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
def test_a_design_with_retries_tells_the_model_what_only_the_type_refuses(loop: Loop, before: list[FakeItem]) -> None:
    ended, model = asked(loop, Positive, *before, saying(loop, -1), saying(loop, 5))
    assert (ended.answer, ended.ok, ended.error) == (Positive(total=5), True, None)
    assert "nothing is owed" in "".join(message.content for message in model.requests[-1].messages)
    ended, _ = asked(loop, Positive.model_json_schema(), *before, saying(loop, -1))
    assert (ended.answer, ended.ok) == ({"total": -1}, True)
    ended, _ = asked(loop, Positive, *before, then=saying(loop, -1))
    assert (ended.answer, ended.stop) == (None, StopReason.PARSE_FAILED)
    assert "nothing is owed" in str(ended.error)
    assert f"error={ended.error!r}" in repr(ended)


def test_a_text_is_read_as_what_the_type_wants_it_to_be() -> None:
    for kind, text, answer in (
        (str, "[1, 2]", "[1, 2]"),
        (list[int], "[1, 2]", [1, 2]),
        (int, "7", 7),
        (Strict, '{"due": "2026-03-01"}', Strict(due=date(2026, 3, 1))),
    ):
        assert asked(Bare(), kind, Answer("", text))[0].answer == answer
    for decision_format in ("fields", "native"):
        assert asked(Bare(decision_format=decision_format), str, Answer("", "Ann"))[0].answer == "Ann"
    ended, _ = asked(Bare(max_steps=1), Bill, "no JSON")
    assert (ended.answer, ended.stop, ended.details["answer"]) == (None, StopReason.MAX_STEPS, MAX_STEPS_TEXT)


def test_a_trial_judges_json_also_where_the_query_has_a_type(tmp_path: Path) -> None:
    query = Query("What is the bill?", schema=Bill)
    assert (query.answer_type, query.for_design.answer_type) == (AnswerType(Bill), None)
    assert query == query.for_design == Query("What is the bill?", schema=SCHEMA)
    task = Task("t", query, {"total": 7}, scorer="schema", plan=Plan((), {"total": 7}))
    suite = Suite("bills", "1", (task,), lambda task: StatelessEnvironment(()))
    run = whichloop.compare([Finish()], suite=suite, profiles=["clean"], mlflow=False, runs=tmp_path)
    assert list(run.trials["accuracy"]) == [1.0]
