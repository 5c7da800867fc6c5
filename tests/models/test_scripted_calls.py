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
each_design = pytest.mark.parametrize("loop", DESIGNS.values(), ids=DESIGNS.keys())


@dataclass
class Sum:
    total: float


def price(item: str) -> str:
    """What an item costs."""
    return {"tea": "41.5", "milk": "73.25"}[item]


@each_design
@settings(max_examples=cases(8), deadline=None)
@given(items=st.lists(st.sampled_from(["tea", "milk", "gold"]), max_size=4, unique=True), is_typed=st.booleans())
def test_a_script_makes_its_calls_in_order_and_gives_its_answer(loop: Any, items: list[str], is_typed: bool) -> None:
    made: list[str] = []

    def noted(item: str) -> str:
        """What an item costs."""
        made.append(item)
        return price(item)

    model = FakeModel.script([ToolCall("noted", {"item": item}) for item in items], {"total": 3.5} if is_typed else "3.5")
    query: Query[Any] = Query("What do they cost?", schema=Sum) if is_typed else Query("What do they cost?")
    outcome = loop.run_sync(query, Toolbox([noted]), model)
    assert (outcome.stop, outcome.answer, made) == (StopReason.FINISHED, Sum(3.5) if is_typed else "3.5", items)


@pytest.mark.parametrize("calls", [[], [ToolCall("price", {"item": "tea"})]], ids=["no call", "a call"])
@each_design
def test_an_answer_of_none_is_null_under_a_type_that_takes_it_and_is_refused_elsewhere(loop: Any, calls: list[ToolCall]) -> None:
    def run(schema: Any) -> Any:
        query: Query[Any] = Query("What does it cost?", schema=schema)
        return loop.run_sync(query, Toolbox([price]), FakeModel.script(calls, None))

    for kind in (str | None, float | None, Sum | None):
        outcome = run(kind)
        assert (outcome.answer, outcome.is_null, outcome.ok) == (None, True, True)
    for schema in (None, str, float):
        with pytest.raises(ValueError, match=r"^the script cannot say the answer None.*$"):
            run(schema)


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


@each_design
def test_arguments_and_answer_may_be_instances(loop: Any) -> None:
    got: list[Any] = []

    def pay(line: Line, at: datetime, limit: timedelta) -> str:
        """Pay a line."""
        got.append((line, at, limit))
        return "paid"

    due = Due(payOn=date(2026, 3, 1), level=Level.HIGH)
    given = Line(Decimal("5.50"), [due]), datetime(2026, 3, 1, 9, 30, tzinfo=UTC), timedelta(hours=2)
    model = FakeModel.script([ToolCall("pay", dict(zip(("line", "at", "limit"), given, strict=True)))], due)
    outcome = loop.run_sync(Query("Pay it.", schema=Due), Toolbox([pay], check_arguments=True), model)
    assert (got, outcome.answer) == ([given], due)


def test_what_no_design_could_say_is_refused_in_a_line_that_names_it() -> None:
    with pytest.raises(TypeError, match=r"^calls: .*'price'$"):
        FakeModel.script(cast(Any, ["price"]), "3")
    wrong = Recovery(cast(Any, False), cast(Any, "no"))
    for loop in DESIGNS.values():
        with pytest.raises(ValueError, match=r"^then cannot answer request 1.*Recovery.*$"):
            loop.run_sync(Query("?"), Toolbox([]), FakeModel(then=wrong))
    schema = {"type": "object", "properties": {"order": {"type": "string"}, "note": {"type": "string", "default": ""}}}
    with pytest.raises(ValueError, match=r"^.*note.*$"):
        ReactExtract().run_sync(Query("Which order?", schema=schema), Toolbox([]), FakeModel.script([], {"order": "A"}))
