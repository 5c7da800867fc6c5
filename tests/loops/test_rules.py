"""The rules for all designs, each over all of them: what ends a run, what tools may do, names, limits, options and arguments."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import designs
from tests.loops.helpers import Heard, add, in_turn, python, texts
from tests.loops.looking import check_tool_max_chars, check_tool_timeout_s
from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper, price
from tests.loops.test_resumable import DESIGNS as MANY
from tests.rows import row
from whichloop.loops import (
    Bare,
    ContextOverflow,
    Finish,
    Phased,
    ProviderRetry,
    ReactExtract,
    RepeatGuard,
    Resumable,
    Stateless,
)
from whichloop.loops.bare_standalone import run_agent
from whichloop.loops.stateless import ManualAgentLoop
from whichloop.models.fake import FakeModel
from whichloop.models.metering import Budget
from whichloop.protocol import (
    SILENT,
    Loop,
    Observer,
    ProviderError,
    Query,
    Reply,
    Request,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.protocol.events import RequestFailed, ToolFinished
from whichloop.protocol.moves import Act, Answer, WireError
from whichloop.protocol.names import parse_spec
from whichloop.protocol.outcome import Outcome
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


def shopped(loop: Loop, model: Any, function: Any, observer: Observer = SILENT, **how: Any) -> Outcome[Any]:
    tools = Toolbox([Tool.from_function(function, name="price", **how)])
    return run_sync(loop.run(Query(QUESTION), tools, model, observer))


@pytest.mark.parametrize(("name", "error"), in_turn(DESIGNS, [DOWN, LONG]), ids=str)
@row("G-2", "G-3", "S2-7")
def test_a_failing_provider_ends_the_run_which_tells_its_error(name: str, error: Exception) -> None:
    loop, stop = DESIGNS[name](), StopReason.PROVIDER_ERROR if error is DOWN else StopReason.CONTEXT_OVERFLOW
    model = FakeModel(then=error)
    outcome = shopped(loop, model, price)
    assert (outcome.answer, outcome.stop, len(model.requests)) == (None, stop, 1)
    assert (outcome.details["error"].endswith(str(error)), outcome.details["exception"]) == (True, error)


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
@row("bare.tool_max_chars", "finish.tool_max_chars", "phased.tool_max_chars")
@row("react_extract.tool_max_chars", "stateless.tool_max_chars")
def test_option_tool_max_chars_cuts_what_the_model_reads_and_by_default_nothing_does(name: str) -> None:
    check_tool_max_chars(FIVE[name])


@each_design
@row("bare.tool_timeout_s", "finish.tool_timeout_s", "phased.tool_timeout_s")
@row("react_extract.tool_timeout_s", "stateless.tool_timeout_s")
def test_option_tool_timeout_s_limits_a_call_and_by_default_nothing_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_tool_timeout_s(FIVE[name], monkeypatch)


WITHOUT_FRAMEWORK = """
import sys
import whichloop.loops.phased
from whichloop.loops.bare_standalone import ToolRegistry, run_agent
tools = ToolRegistry()
tools.register('add')(lambda a, b: a + b)
assert run_agent('What is 5 + 3?', registry=tools)['final_answer'] == '8'
assert 'pydantic' not in sys.modules
import whichloop.loops.finish
print({'dspy', 'jsonschema', 'langchain', 'langchain_core', 'autogen', 'openai', 'mlflow'} & sys.modules.keys())
"""


@row("S4-22")
def test_the_designs_without_a_framework_load_none() -> None:
    done = python(WITHOUT_FRAMEWORK)
    assert done.stdout.strip() == "set()", done.stderr


# --- what a tool or a model raises that looks like an end of the run ---

LOOPS: dict[str, Callable[[], Loop]] = {name: lambda loop=loop: loop for name, loop in MANY.items()} | {
    "resumable": lambda: Resumable(Bare())
}
CALLING = sorted(LOOPS.keys() - {"finish forced"})
"""Those that call tools."""


async def of_another_task() -> None:
    """Await a task that somebody else has cancelled."""
    other = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other


async def awaiting(item: str) -> str:
    """What an item costs."""
    await of_another_task()
    return PRICES[item]


def raising(item: str) -> str:
    """What an item costs."""
    raise asyncio.CancelledError


TOOLS: dict[str, Callable[[], Tool]] = {
    "async": lambda: Tool.from_function(awaiting, name="price"),
    "in a thread": lambda: Tool.from_function(raising, name="price"),
    "in place": lambda: Tool.from_function(raising, name="price", blocking=False),
    "async with a time limit": lambda: Tool.from_function(awaiting, name="price", time_limit_s=60),
}


@pytest.mark.parametrize(("name", "kind"), in_turn(CALLING, [*TOOLS]))
def test_a_tool_that_raises_it_has_failed_and_the_run_goes_on(name: str, kind: str) -> None:
    heard = Heard()

    async def main() -> Any:
        return await LOOPS[name]().with_step_limit(4).run(Query(QUESTION), Toolbox([TOOLS[kind]()]), Shopper(), heard)

    outcome = run_sync(main())
    assert isinstance(outcome.stop, StopReason)
    finished = [event.observation for event in heard.events if isinstance(event, ToolFinished)]
    assert finished
    assert {(seen.status, seen.error_type) for seen in finished} == {("error", "CancelledError")}


class Cancelled(Shopper):
    """A model whose first requests await what somebody else has cancelled."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures
        self.asked = 0

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked <= self.failures:
            await of_another_task()
        return await super().complete(request)


@pytest.mark.parametrize(("name", "is_watched"), in_turn(LOOPS, [True, False]))
def test_a_model_that_raises_it_gives_no_reply_which_is_the_providers_error(name: str, is_watched: bool) -> None:
    heard = Heard()
    observed = (heard,) if is_watched else ()
    outcome = run_sync(LOOPS[name]().run(Query(QUESTION), Toolbox([price]), Cancelled(100), *observed))
    assert (outcome.stop, outcome.ok) == (StopReason.PROVIDER_ERROR, False)
    assert "the model raised CancelledError" in str(outcome.error)
    if is_watched:
        assert {type(event.error) for event in heard.events if isinstance(event, RequestFailed)} == {ProviderError}


@pytest.mark.parametrize("name", ["bare", "phased", "stateless"])
def test_another_attempt_mends_it(name: str) -> None:
    loop = ProviderRetry(LOOPS[name](), attempts=3)
    assert run_sync(loop.run(Query(QUESTION), Toolbox([price]), Cancelled(2))).answer is not None


# --- a WireError of the model's own ---


@pytest.mark.parametrize("design", designs.DESIGNS)
def test_no_design_stumbles_over_it(design: str) -> None:
    model = FakeModel(then=WireError("of the model's own"))
    loop = make_loop(parse_spec(design), tool_steps=3)
    with contextlib.suppress(WireError, RuntimeError):  # and no other error
        outcome = loop.run_sync(Query("1 + 2?"), Toolbox([add]), model)  # type: ignore[attr-defined]
        assert outcome.stop != StopReason.FINISHED


# --- what a product gives a loop by mistake is told in one line, before anything is asked ---


def in_lines(item: str) -> Iterator[str]:
    """What an item costs, line by line."""
    yield item


class Rows:
    def __call__(self) -> Iterator[str]:
        yield "row"


def unpriced(item: str) -> float:
    """What an item costs."""
    raise KeyError(item)


MISTAKEN: list[tuple[dict[str, Any], str]] = [
    ({"query": "How much?"}, "^query: Query is needed, not str"),
    ({"tools": [unpriced]}, "^tools: Toolbox is needed, not list"),
    ({"model": "openai/gpt-4o-mini"}, "^model: Model is needed, not str"),
    ({"model": FakeModel}, "^model: Model is needed, not the class FakeModel"),
    ({"observer": print}, "^observer: Observer is needed, not builtin_function_or_method"),
]


@pytest.mark.parametrize(("name", "mistaken"), in_turn(LOOPS, MISTAKEN))
def test_an_argument_of_another_type_is_told(name: str, mistaken: tuple[dict[str, Any], str]) -> None:
    mistake, told = mistaken
    model = FakeModel()
    given: dict[str, Any] = {"query": Query("How much?"), "tools": Toolbox([unpriced]), "model": model} | mistake
    with pytest.raises(TypeError, match=told):
        run_sync(LOOPS[name]().run(**given))
    assert model.requests == []


MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Reply(cast(Any, None)), TypeError, "Reply: text must be a text"),
    (lambda: Budget(tokens=cast(Any, "5")), ValueError, "Budget: tokens must be 0 or more, or None for no limit, not '5'"),
    (lambda: Resumable(Bare(), budget=Budget(seconds=5)), ValueError, "budget: limit calls, tokens or dollars, not seconds"),
    (lambda: Toolbox([in_lines]), TypeError, "tool 'in_lines' is a generator function, which a call only begins: return a list"),
    (lambda: Tool("rows", "", {}, Rows()), TypeError, "tool 'rows' is a generator function"),
    (lambda: Tool.from_function(unpriced, name="my price"), ValueError, "tool 'my price': no provider takes this name"),
    (lambda: Query(cast(Any, 3)), TypeError, "query: text must be a text, not int"),
    (lambda: Toolbox(cast(Any, unpriced)), TypeError, "tools: give a list of tools or functions, not function"),
    (lambda: Toolbox([unpriced], time_limit_s=-1), ValueError, "toolbox: time_limit_s must be more than 0 s, or None, not -1"),
    (lambda: ProviderRetry(cast(Any, "finish")), TypeError, "loop: give a loop, such as Finish(), not "),
]


@pytest.mark.parametrize(("made", "error", "words"), MISTAKES)
def test_a_mistake_is_told_where_it_is_made(made: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=re.escape(words)) as raised:
        made()
    assert "\n" not in str(raised.value)


def test_a_service_hears_of_a_model_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "whichloop.loops")
    Bare().run_sync(Query("How much?"), Toolbox([unpriced]), FakeModel(then=ProviderError("the provider is down")))
    told = [record.getMessage() for record in caplog.records]
    assert any("the run ends as provider_error: " in line and "the provider is down" in line for line in told)


def test_a_tool_that_raises_is_logged_with_its_traceback_and_answers_go_on(caplog: pytest.LogCaptureFixture) -> None:
    model = FakeModel(Act("Look.", (ToolCall("unpriced", {"item": "tea"}),)), Answer("", "unknown"))
    caplog.set_level(logging.INFO, "whichloop.loops.tools")
    ended = run_sync(Bare().run(Query("How much?"), Toolbox([unpriced]), model))
    assert (ended.answer, ended.ok) == ("unknown", True)
    (record,) = caplog.records
    assert record.getMessage() == "tool unpriced raised KeyError"
    kind, _, trace = record.exc_info or (None, None, None)
    assert kind is KeyError
    assert trace is not None


OPTIONS: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (Finish, {"parse_retries": "1"}, "^Finish: parse_retries: Input should be a valid integer, got '1'$"),
    (Bare, {"max_consecutive_errors": "x"}, "^Bare: max_consecutive_errors: Input should be a valid integer.*, or None, got 'x'$"),
    (Bare, {"fences": "cut"}, "^Bare: fences: Input should be 'refuse' or 'read', got 'cut'$"),
    (Bare, {"max_steps": -1}, "max_steps must be at least 1, not -1$"),
    (Bare, {"max_consecutive_errors": 0}, "max_consecutive_errors must be at least 1"),
    (Finish, {"max_tokens": 0}, "max_tokens"),
    (Phased, {"max_tool_tasks": -1}, "max_tool_tasks"),
    (Phased, {"cancel_grace_s": float("nan")}, "cancel_grace_s"),
    (ReactExtract, {"max_iterations": 0}, "max_iterations must be at least 1"),
    (Stateless, {"response_style": "long"}, "response_style: Input should be 'concise' or 'detailed', or None, got 'long'$"),
    (partial(ManualAgentLoop, Toolbox()), {"told_max_iterations": 0}, "told_max_iterations must be at least 1"),
    (partial(RepeatGuard, Bare()), {"stop_at": 2}, "stop_at must be at least warn_at"),
    (partial(ProviderRetry, Bare()), {"delay_s": -1.0}, "delay_s must be at least 0"),
    (run_agent, {"query": "?", "config": Bare(decision_format="native")}, "llm_func gives text"),
]


@pytest.mark.parametrize(("make", "options", "said"), OPTIONS)
@row("B4-16", "X-19", "finish.max_tokens")
def test_a_mistake_in_an_option_is_one_line_that_names_it(make: Callable[..., Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        make(**options)
    assert "\n" not in str(raised.value)
