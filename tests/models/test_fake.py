"""The public fake model: it gives listed answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.guarded import Guarded
from whichloop.loops.phased import Phased
from whichloop.loops.react_extract import ReactExtract
from whichloop.loops.stateless import Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import (
    Act,
    Answer,
    Message,
    NativeCall,
    ProviderError,
    Query,
    Recovery,
    Reply,
    Request,
    StopReason,
    Text,
    Tool,
    Toolbox,
    ToolCall,
    run_sync,
)


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


TOOLS = Toolbox([Tool.from_function(add, blocking=False)])
SUM = Act("Add them.", (ToolCall("add", {"a": 2, "b": 3}),))


def test_moves_are_written_in_the_format_of_the_request() -> None:
    model = FakeModel(SUM, Answer("That is it.", "5"))
    outcome = run_sync(Bare().run(Query("2 + 3?"), TOOLS, model))
    assert (outcome.answer, outcome.stop) == ("5", StopReason.FINISHED)
    assert [request.messages[-1].content for request in model.requests] == [
        "2 + 3?",
        '{"status": "success", "data": "5", "tool_name": "add"}',
    ]


def test_a_list_that_is_too_short_says_so() -> None:
    with pytest.raises(LookupError, match=r"request 2 \(role decide\) has no item: the list has 1"):
        run_sync(Bare().run(Query("2 + 3?"), TOOLS, FakeModel(SUM)))


def test_a_move_that_the_format_cannot_express_is_named() -> None:
    with pytest.raises(ValueError, match=r"^item 1 cannot answer request 1, .* bare.json, with Text\(text='hello'\): .+$"):
        run_sync(Bare().run(Query("2 + 3?"), TOOLS, FakeModel(Text("hello"))))
    with pytest.raises(ValueError, match=r"^then cannot answer request 2, .*: only calls and an answer .* alone$"):
        run_sync(Finish(max_steps=1).run(Query("2 + 3?"), TOOLS, FakeModel(then=SUM)))


def test_without_a_codec_moves_are_native_calls_and_streams_add_up() -> None:
    async def streamed() -> list[str]:
        request = Request((Message("user", "2 + 3?"),))
        return [chunk.call.arguments async for chunk in FakeModel(SUM).stream(request) if chunk.call is not None]

    reply = run_sync(FakeModel(SUM).complete(Request((Message("user", "2 + 3?"),))))
    assert reply.calls == (NativeCall("call_0", "add", '{"a": 2, "b": 3}'),)
    assert "".join(run_sync(streamed())) == reply.calls[0].arguments
    assert reply.usage is not None
    assert reply.usage.estimated


def asked(text: str = "2 + 3?") -> Request:
    return Request((Message("user", text),))


def test_a_function_answers_by_the_request_and_then_follows_the_list() -> None:
    async def slowly(request: Request) -> str:
        await asyncio.sleep(0)
        return f"slowly: {request.messages[-1].content}"

    def fails(request: Request) -> Exception:
        return ProviderError(f"down for {request.messages[-1].content}")

    model: FakeModel = FakeModel(slowly, fails, then=lambda request: Reply(f"{len(model.requests)}"))
    assert run_sync(model.complete(asked("a"))).text == "slowly: a"
    with pytest.raises(ProviderError, match="down for b"):
        run_sync(model.complete(asked("b")))
    assert [run_sync(model.complete(asked(text))).text for text in "cd"] == ["3", "4"]
    assert [request.messages[-1].content for request in model.requests] == ["a", "b", "c", "d"]


DESIGNS: dict[str, Any] = {
    "bare": Bare(),
    "bare native": Bare(decision_format="native"),
    "finish": Finish(max_steps=6),
    "phased": Phased(),
    "phased agent": Phased(tool_layout="agent"),
    "react_extract": ReactExtract(),
    "stateless": Stateless(),
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


@each_design
def test_an_answer_of_none_is_null_under_a_type_that_takes_it_and_is_refused_elsewhere(loop: Any) -> None:
    def run(schema: Any) -> Any:
        query: Query[Any] = Query("What does it cost?", schema=schema)
        return loop.run_sync(query, Toolbox([price]), FakeModel.script([ToolCall("price", {"item": "tea"})], None))

    for kind in (str | None, Sum | None):
        outcome = run(kind)
        assert (outcome.answer, outcome.is_null, outcome.ok) == (None, True, True)
    for schema in (None, float):
        with pytest.raises(ValueError, match=r"^the script cannot say the answer None.*$"):
            run(schema)


@dataclass
class Line:
    cents: Decimal
    due: date


@each_design
def test_arguments_and_answer_may_be_instances(loop: Any) -> None:
    got: list[Any] = []

    def pay(line: Line, limit: timedelta) -> str:
        """Pay a line."""
        got.append((line, limit))
        return "paid"

    line, limit = Line(Decimal("5.50"), date(2026, 3, 1)), timedelta(hours=2)
    model = FakeModel.script([ToolCall("pay", {"line": line, "limit": limit})], line)
    outcome = loop.run_sync(Query("Pay it.", schema=Line), Toolbox([pay], check_arguments=True), model)
    assert (got, outcome.answer) == ([(line, limit)], line)


def test_what_no_design_could_say_is_refused_in_a_line_that_names_it() -> None:
    with pytest.raises(TypeError, match=r"^calls: .*'price'$"):
        FakeModel.script(cast(Any, ["price"]), "3")
    with pytest.raises(ValueError, match=r"^then cannot answer request 1.*Recovery.*$"):
        Bare().run_sync(Query("?"), Toolbox([]), FakeModel(then=Recovery(cast(Any, False), cast(Any, "no"))))
