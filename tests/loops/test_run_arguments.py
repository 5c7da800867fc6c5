"""What a product gives a loop by mistake is told in one line, before anything is asked."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from loopbench.loops.bare import Bare
from loopbench.loops.finish import Finish
from loopbench.loops.guarded import Guarded
from loopbench.loops.microcompact import Microcompact
from loopbench.loops.phased import Phased
from loopbench.loops.provider_retry import ProviderRetry
from loopbench.loops.react_extract import ReactExtract
from loopbench.loops.repeat_guard import RepeatGuard
from loopbench.loops.stateless import Stateless
from loopbench.models.fake import FakeModel
from loopbench.protocol import (
    Act,
    Answer,
    Loop,
    Observer,
    PlanTask,
    ProviderError,
    Query,
    RunEvent,
    StopReason,
    StopRun,
    Tasks,
    Toolbox,
    ToolCall,
    Understanding,
    run_sync,
)

LOOPS: dict[str, Callable[[], Any]] = {
    "bare": Bare,
    "finish": Finish,
    "phased": Phased,
    "react_extract": ReactExtract,
    "stateless": Stateless,
    "guarded": lambda: Guarded(Bare()),
    "microcompact": lambda: Microcompact(Bare()),
    "provider_retry": lambda: ProviderRetry(Bare()),
    "repeat_guard": lambda: RepeatGuard(Bare()),
}


def price(item: str) -> float:
    """What an item costs."""
    raise KeyError(item)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ({"query": "How much?"}, r"^query: give a Query, not str; Query\(text\) makes one"),
        ({"tools": [price]}, r"^tools: give a Toolbox, not list; Toolbox\(\[function, …\]\) makes one"),
        ({"model": "openai/gpt-4o-mini"}, r"^model: give a Model, not str; resolve_model\('provider/name'\) makes one"),
        ({"model": FakeModel}, "^model: give a Model, not the class FakeModel"),
    ],
)
def test_an_argument_of_another_type_is_told_with_what_makes_the_right_one(name: str, mistake: dict[str, Any], told: str) -> None:
    model = FakeModel()
    given = {"query": Query("How much?"), "tools": Toolbox([price]), "model": model} | mistake
    with pytest.raises(TypeError, match=told):
        LOOPS[name]().run_sync(**given)
    assert model.requests == []


def test_an_observer_whose_events_nobody_would_await_is_refused() -> None:
    class Waits(Observer):
        async def on_event(self, event: RunEvent) -> None:  # type: ignore[override]
            raise AssertionError(event)

    model = FakeModel()
    with pytest.raises(TypeError, match=r"^observer: Waits\.on_event is async, and its events would be lost"):
        Finish().run_sync(Query("How much?"), Toolbox(), model, Waits())
    assert model.requests == []


@pytest.mark.parametrize("wrong", ["finish", Finish, None])
def test_what_is_no_loop_cannot_be_wrapped(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^loop: give a loop, such as Finish\(\), not "):
        ProviderRetry(wrong)


class Denied(StopRun):
    """A product's own reason to end a run."""


def denied(item: str) -> float:
    """What an item costs."""
    raise Denied(item)


PLANS = (Understanding("the price of tea", ("tea",)), Tasks((PlanTask("t1", "Look tea up."),)))
CALLING: list[tuple[Loop, tuple[Any, ...]]] = [
    (Bare(), ()),
    (Finish(max_steps=3), ()),
    (ReactExtract(), ()),
    (Stateless(), ()),
    (ProviderRetry(Guarded(Bare())), ()),
    (Phased(), PLANS),
    (Phased(tool_layout="agent"), PLANS),
]


@pytest.mark.parametrize(("loop", "before"), CALLING)
def test_a_tool_ends_the_run_with_the_products_own_exception(loop: Loop, before: tuple[Any, ...]) -> None:
    model = FakeModel(*before, Act("", (ToolCall("denied", {"item": "tea"}),)))
    with pytest.raises(Denied, match=r"^tea$"):
        run_sync(loop.run(Query("How much?"), Toolbox([denied]), model))
    assert len(model.requests) == len(before) + 1


@pytest.mark.parametrize("loop", [Bare(), Finish(max_steps=3), ReactExtract(), Stateless(), Phased()], ids=lambda loop: loop.name)
def test_a_service_hears_of_a_model_that_fails(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "loopbench.loops")
    ended = run_sync(loop.run(Query("How much?"), Toolbox([price]), FakeModel(then=ProviderError("the provider is down"))))
    assert (ended.stop, ended.ok) == (StopReason.PROVIDER_ERROR, False)
    told = [record.getMessage() for record in caplog.records]
    assert any("the run ends as provider_error: " in line and "the provider is down" in line for line in told)


def test_a_tool_that_raises_is_logged_with_its_traceback_and_answers_go_on(caplog: pytest.LogCaptureFixture) -> None:
    model = FakeModel(Act("Look.", (ToolCall("price", {"item": "tea"}),)), Answer("", "unknown"))
    caplog.set_level(logging.INFO, "loopbench.loops.tools")
    ended = run_sync(Bare().run(Query("How much?"), Toolbox([price]), model))
    assert (ended.answer, ended.ok) == ("unknown", True)
    (record,) = caplog.records
    assert record.getMessage() == "tool price raised KeyError"
    kind, _, trace = record.exc_info or (None, None, None)
    assert kind is KeyError
    assert trace is not None


def test_an_attempt_that_is_made_again_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "loopbench.loops")
    loop = ProviderRetry(Bare(), attempts=2)
    assert run_sync(loop.run(Query("How much?"), Toolbox([price]), FakeModel(ProviderError("busy"), Answer("", "2")))).ok
    assert [record.getMessage() for record in caplog.records] == ["attempt 1 of 2 failed, and the next follows: busy"]
