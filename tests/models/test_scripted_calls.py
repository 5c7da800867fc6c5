"""One script of calls and an answer serves every design."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from tests.cases import cases
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.guarded import Guarded
from whichloop.loops.phased import Phased
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import Query, Recovery, StopReason, Toolbox, ToolCall

DESIGNS: dict[str, Any] = {
    "bare": Bare(),
    "bare native": Bare(decision_format="native"),
    "finish": Finish(max_steps=6),
    "phased": Phased(),
    "phased agent": Phased(tool_layout="agent"),
    "react_extract": ReactExtract(),
    "stateless": Stateless(),
    "stateless without a style": Stateless(response_style=None),
    "bare fields": Bare(decision_format="fields"),
    "guarded": Guarded(Bare()),
}


@dataclass
class Sum:
    total: float


@pytest.mark.parametrize("name", DESIGNS)
@settings(max_examples=cases(8), deadline=None)
@given(items=st.lists(st.sampled_from(["tea", "milk", "gold"]), max_size=4, unique=True), is_typed=st.booleans())
def test_a_script_makes_its_calls_in_order_and_gives_its_answer(name: str, items: list[str], is_typed: bool) -> None:
    made: list[str] = []

    def price(item: str) -> str:
        """What an item costs."""
        made.append(item)
        return {"tea": "41.5", "milk": "73.25"}[item]

    answer: Any = {"total": 3.5} if is_typed else "3.5"
    model = FakeModel.script([ToolCall("price", {"item": item}) for item in items], answer)
    query: Query[Any] = Query("What do they cost?", schema=Sum) if is_typed else Query("What do they cost?")
    outcome = DESIGNS[name].run_sync(query, Toolbox([price]), model)
    assert outcome.stop is StopReason.FINISHED
    assert outcome.answer == (Sum(3.5) if is_typed else "3.5")
    assert made == items


@pytest.mark.parametrize("is_asked", [False, True])
@pytest.mark.parametrize("kind", [str | None, float | None, Sum | None], ids=str)
@pytest.mark.parametrize("name", DESIGNS)
def test_an_answer_of_none_is_null_under_a_type_that_takes_it_and_is_refused_elsewhere(
    name: str, kind: Any, is_asked: bool
) -> None:
    def price(item: str) -> str:
        """What an item costs."""
        return "41.5"

    def run(schema: Any) -> Any:
        calls = [ToolCall("price", {"item": "tea"})] if is_asked else []
        model = FakeModel.script(calls, None)
        return DESIGNS[name].run_sync(Query("What does it cost?", schema=schema), Toolbox([price]), model)

    outcome = run(kind)
    assert (outcome.answer, outcome.is_null, outcome.ok) == (None, True, True)
    for schema in (None, str, float):
        with pytest.raises(
            ValueError, match=r"^the script cannot say the answer None in the format .*null .*int \| None\)\)"
        ) as told:
            run(schema)
        assert "\n" not in str(told.value)


class Level(Enum):
    HIGH = "high"


class Due(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    pay_on: date
    level: Level


@dataclass
class Line:
    cents: Decimal
    dues: list[Due]


@pytest.mark.parametrize("name", DESIGNS)
def test_arguments_and_answer_may_be_instances(name: str) -> None:
    got: list[Any] = []

    def pay(line: Line, at: datetime, limit: timedelta) -> str:
        """Pay a line."""
        got.append((line, at, limit))
        return "paid"

    due = Due(payOn=date(2026, 3, 1), level=Level.HIGH)
    given = Line(Decimal("5.50"), [due]), datetime(2026, 3, 1, 9, 30, tzinfo=UTC), timedelta(hours=2)
    model = FakeModel.script([ToolCall("pay", dict(zip(("line", "at", "limit"), given, strict=True)))], due)
    outcome = DESIGNS[name].run_sync(Query("Pay it.", schema=Due), Toolbox([pay], check_arguments=True), model)
    assert got == [given]
    assert outcome.answer == due


def test_what_is_no_call_and_a_move_with_a_field_of_a_wrong_type_are_told_in_a_line() -> None:
    with pytest.raises(TypeError, match=r"^calls: give ToolCalls, such as ToolCall\('price', .*\), not 'price'$"):
        FakeModel.script(cast(Any, ["price"]), "3")
    wrong = Recovery(cast(Any, False), cast(Any, "no"))
    for loop in DESIGNS.values():
        with pytest.raises(
            ValueError, match=r"^then cannot answer request 1, of role \w+ in the format [\w.]+: give .*Recovery"
        ) as told:
            loop.run_sync(Query("?"), Toolbox([]), FakeModel(then=wrong))
        assert "\n" not in str(told.value)


def test_an_answer_that_lacks_a_field_is_told_with_the_fields_that_the_format_wants() -> None:
    schema = {"type": "object", "properties": {"order": {"type": "string"}, "note": {"type": "string", "default": ""}}}
    model = FakeModel.script([], {"order": "A"})
    with pytest.raises(ValueError, match=r"\(the answer must have exactly the properties .*note.*, also those with a default\)"):
        ReactExtract().run_sync(Query("Which order?", schema=schema), Toolbox([]), model)
