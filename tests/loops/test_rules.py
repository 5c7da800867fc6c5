"""The rules for all designs, each over all of them: what ends a run, what tools may do, names, limits, and the options of tools."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Heard, in_turn, python, texts
from tests.loops.looking import check_tool_max_chars, check_tool_timeout_s
from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper
from tests.rows import row
from whichloop.loops import Bare, BudgetExceeded, ContextOverflow, Finish, Phased, ReactExtract, Stateless
from whichloop.models.fake import FakeModel
from whichloop.protocol import SILENT, Loop, Observer, ProviderError, Query, Reply, Request, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.events import ToolFinished
from whichloop.protocol.names import parse_spec
from whichloop.protocol.outcome import Outcome, StopReason
from whichloop.runs.registry import make_loop

FIVE: dict[str, Any] = {
    "bare": Bare,
    "finish": partial(Finish, max_steps=4),
    "phased": Phased,
    "react_extract": ReactExtract,
    "stateless": Stateless,
}
each_design = pytest.mark.parametrize("name", FIVE)
each_variant = pytest.mark.parametrize("name", DESIGNS)
DOWN, LONG = ProviderError("down"), ContextOverflow("long")


class Failing(Shopper):
    """A shopper that raises instead of giving its n-th reply, and all later ones."""

    def __init__(self, place: int, error: BaseException) -> None:
        super().__init__()
        self.place, self.error = place, error

    async def complete(self, request: Request) -> Reply:
        if len(self.requests) >= self.place:
            self.requests.append(request)
            raise self.error
        return await super().complete(request)


def shopped(loop: Loop, model: Any, function: Any, observer: Observer = SILENT, **how: Any) -> Outcome[Any]:
    tools = Toolbox([Tool.from_function(function, name="price", **how)])
    return run_sync(loop.run(Query(QUESTION), tools, model, observer))


def price(item: str) -> str:
    """What an item costs."""
    return PRICES[item]


def requests_of(name: str) -> int:
    """How many requests a whole run of a design makes."""
    model = Shopper()
    assert shopped(DESIGNS[name](), model, price, blocking=False).answer == ANSWER
    return len(model.requests)


# --- what a model raises ---


LEAVING = [BudgetExceeded("spent"), ZeroDivisionError("a bug"), asyncio.CancelledError()]


@pytest.mark.parametrize(("name", "leaving"), in_turn(DESIGNS, LEAVING), ids=repr)
@row("G-3", "S0-28")
def test_budgets_bugs_and_cancellation_leave_at_any_request(name: str, leaving: BaseException) -> None:
    async def main() -> Any:
        task = asyncio.current_task()
        assert task is not None
        if isinstance(leaving, asyncio.CancelledError):
            task.cancel()  # else it would be an error of the model's own
        return await DESIGNS[name]().run(Query(QUESTION), Toolbox([price]), model)

    for place in range(requests_of(name)):
        model = Failing(place, leaving)
        with pytest.raises(type(leaving)):
            run_sync(main())


@pytest.mark.parametrize(("name", "error"), in_turn(DESIGNS, [DOWN, LONG]), ids=str)
@row("G-2", "G-3", "S2-7")
def test_a_failing_provider_ends_the_run_at_any_request_without_another(name: str, error: Exception) -> None:
    loop, stop = DESIGNS[name](), StopReason.PROVIDER_ERROR if error is DOWN else StopReason.CONTEXT_OVERFLOW
    for place in range(requests_of(name)):
        model = Failing(place, error)
        outcome = shopped(loop, model, price)
        assert (outcome.answer, outcome.stop) == (None, stop)
        assert (outcome.details["error"].endswith(str(error)), outcome.details["exception"]) == (True, error)
        assert stop in loop.stops
        attempts = 6 if (name, error) == ("react_extract", LONG) else 3 if "phased" in name else 1  # tasks ask at once
        assert place < len(model.requests) <= place + attempts


# --- what a tool does ---

WORDING = {
    "bare": "{kind}: {text}",
    "native": "{kind}: {text}",
    "finish": "Tool error: {kind}: {text}",
    "finish in parallel": "Tool error: {kind}: {text}",
    "phased": "{kind}: {text}",
    "phased agent": "{kind}: {text}",
    "react_extract": "Error: {text}",
    "stateless": "ERROR - {text}",
}
"""How each design says what a tool raised: a rewording is another design."""
RAISED = [OSError("v"), SystemExit("v"), GeneratorExit("v"), KeyError("v"), StopIteration("v")]


@pytest.mark.parametrize(("name", "how"), in_turn(DESIGNS, [(raised, place % 2 == 0) for place, raised in enumerate(RAISED)]))
@row("G-4", "G-5", "X-10", "B3-11")
def test_whatever_a_tool_raises_is_an_error_result_in_the_words_of_its_design(name: str, how: tuple[BaseException, bool]) -> None:
    raised, blocking = how

    def bad(item: str) -> str:
        raise raised

    heard, model = Heard(), Shopper()
    outcome = shopped(DESIGNS[name]().with_step_limit(4), model, bad, heard, blocking=blocking)
    assert outcome.stop not in (StopReason.PROVIDER_ERROR, StopReason.CRASHED)
    results = {(event.observation.status, event.observation.error_type) for event in heard.of(ToolFinished)}
    assert results == {("error", type(raised).__name__)}
    assert WORDING[name].format(kind=type(raised).__name__, text="'v'" if isinstance(raised, KeyError) else "v") in texts(model)


@pytest.mark.parametrize(("name", "blocking"), in_turn(DESIGNS, [True, False]))
@row("G-5", "S1-30")
def test_an_interrupt_leaves_the_loop(name: str, blocking: bool) -> None:
    def stop(item: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shopped(DESIGNS[name](), Shopper(), stop, blocking=blocking)


class Thing:
    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


@each_variant
@row("G-5", "X-10")
def test_what_json_cannot_say_is_shown_as_its_text(name: str) -> None:
    assert shopped(DESIGNS[name](), Shopper(), lambda item: Thing(PRICES[item])).answer == ANSWER


@each_variant
@row("X-10", "B0-32")
def test_a_hung_tool_is_an_error_result(name: str) -> None:
    let_go, model, heard = threading.Event(), Shopper(), Heard()

    def hang(item: str) -> str:
        let_go.wait(30)
        return PRICES[item]

    shopped(DESIGNS[name]().with_step_limit(2), model, hang, heard, time_limit_s=0.02)
    let_go.set()
    assert {event.observation.error_type for event in heard.of(ToolFinished)} == {"TimeoutError"}
    assert WORDING[name].format(kind="TimeoutError", text="no result within 0.02 s") in texts(model)


@pytest.mark.parametrize(("name", "tool_name"), in_turn(DESIGNS, ["submit", "finish", "__finish__"], whole=8))
@row("G-6", "X-18", "B2-5")
def test_a_design_reserves_its_own_name_and_no_other(name: str, tool_name: str) -> None:
    tools = Toolbox([Tool.from_function(lambda: "it ran", name=tool_name)])
    model = FakeModel.script([ToolCall(tool_name, {})], "x")
    if tool_name == {"finish": "__finish__", "finish in parallel": "__finish__", "react_extract": "finish"}.get(name):
        with pytest.raises(ValueError, match=tool_name):
            run_sync(DESIGNS[name]().run(Query("Q"), tools, model))
        assert model.requests == []
    else:
        assert run_sync(DESIGNS[name]().run(Query("Q"), tools, model)).answer == "x"
        assert "it ran" in texts(model)


# --- limits ---

LIMITED: dict[str, tuple[str, int]] = {
    "bare": ("max_steps", 1),
    "finish": ("max_steps", 1),
    "phased": ("max_tool_tasks", 0),
    "react_extract": ("max_iterations", 1),
    "stateless": ("max_iterations", 1),
}
"""The option that limits each design, and what it has beside n tool steps."""


@each_design
@given(steps=st.integers(0, 30))
@row("G-8", "X-13")
def test_n_tool_steps_are_a_limit_in_the_designs_own_unit_unless_its_user_gave_one(name: str, steps: int) -> None:
    option, more = LIMITED[name]
    kind = type(FIVE[name]())
    given, limited = kind(tool_max_chars=5), {option: steps + more}
    assert given.with_step_limit(steps) == replace(given, **limited)
    assert make_loop(parse_spec(name), steps) == kind(**limited)
    assert make_loop(parse_spec(f"{name}({option}=2)"), steps) == kind(**{option: 2})
    assert make_loop(parse_spec(name)) == kind()


@each_design
@row("G-8")
def test_a_plan_as_long_as_the_limit_can_be_answered_and_a_longer_one_cannot(name: str) -> None:
    loop = FIVE[name]().with_step_limit(2)
    assert isinstance(loop, Loop)
    for calls, done in ((2, True), (3, False)):
        model = FakeModel.script([ToolCall("look", {"place": place}) for place in range(calls)], "done")
        heard = Heard()
        look = Tool.from_function(lambda place: place, name="look")
        ended = run_sync(loop.run(Query("Q"), Toolbox([look]), model, heard))
        assert (ended.stop is StopReason.FINISHED) is done
        assert ended.stop in loop.stops
        assert 2 <= len(heard.of(ToolFinished)) <= 2 + (name in ("bare", "react_extract", "finish", "stateless"))


# --- options that all have ---


@each_design
@row("bare.tool_max_chars", "finish.tool_max_chars", "phased.tool_max_chars")
@row("react_extract.tool_max_chars", "stateless.tool_max_chars")
def test_option_tool_max_chars_cuts_what_the_model_reads_and_by_default_nothing_does(name: str) -> None:
    check_tool_max_chars(FIVE[name])


@each_design
@row("bare.tool_timeout_s", "finish.tool_timeout_s", "phased.tool_timeout_s")
@row("react_extract.tool_timeout_s", "stateless.tool_timeout_s")
def test_option_tool_timeout_s_limits_a_call_and_by_default_nothing_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_tool_timeout_s(FIVE[name], monkeypatch)


# --- imports ---

FRAMEWORKS = ("dspy", "jsonschema", "langchain", "langchain_core", "autogen", "openai", "mlflow")
RUNS_ALONE = """
from whichloop.loops.bare_standalone import ToolRegistry, run_agent
tools = ToolRegistry()
tools.register('add')(lambda a, b: a + b)
assert run_agent('What is 5 + 3?', registry=tools)['final_answer'] == '8'
"""


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (RUNS_ALONE, (*FRAMEWORKS, "pydantic")),
        ("import whichloop.loops.finish", FRAMEWORKS),
        ("import whichloop.loops.phased", (*FRAMEWORKS, "pydantic")),
    ],
    ids=["bare", "finish", "phased"],
)
@row("S4-22")
def test_a_design_without_a_framework_loads_none(code: str, absent: tuple[str, ...]) -> None:
    done = python(f"import sys\n{code}\nprint([name for name in {absent} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr
