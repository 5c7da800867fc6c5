"""What a product gives a loop by mistake is told in one line, before anything is asked."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

from tests.rows import row
from whichloop.loops import Bare, Finish, Guarded, Loop, Microcompact, Phased, ProviderRetry, ReactExtract, RepeatGuard, Stateless
from whichloop.loops.bare_standalone import run_agent
from whichloop.loops.stateless import ActivityManager, ManualAgentLoop
from whichloop.models.fake import FakeModel
from whichloop.models.metering import Budget
from whichloop.protocol import NativeCall, Observer, Query, Reply, RunEvent, StopReason, StopRun, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.model import FunctionModel, ProviderError, Request
from whichloop.protocol.moves import Act, Answer, PlanTask, Tasks, Understanding

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


def in_lines(item: str) -> Iterator[str]:
    """What an item costs, line by line."""
    yield item


async def in_turn(item: str) -> AsyncIterator[str]:
    """What an item costs, one after the other."""
    yield item


class Rows:
    def __call__(self) -> Iterator[str]:
        yield "row"


def price(item: str) -> float:
    """What an item costs."""
    raise KeyError(item)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ({"query": "How much?"}, "^query: Query is needed, not str"),
        ({"tools": [price]}, "^tools: Toolbox is needed, not list"),
        ({"model": "openai/gpt-4o-mini"}, "^model: Model is needed, not str"),
        ({"model": FakeModel}, "^model: Model is needed, not the class FakeModel"),
        ({"observer": print}, "^observer: Observer is needed, not builtin_function_or_method"),
    ],
)
def test_an_argument_of_another_type_is_told(name: str, mistake: dict[str, Any], told: str) -> None:
    model = FakeModel()
    given = {"query": Query("How much?"), "tools": Toolbox([price]), "model": model} | mistake
    with pytest.raises(TypeError, match=told):
        LOOPS[name]().run_sync(**given)
    assert model.requests == []


NATIVE_CALL = NativeCall("1", "price", "{}")
MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Reply(cast(Any, None)), TypeError, "Reply: text must be a text"),
    (lambda: Reply("", cast(Any, NATIVE_CALL)), TypeError, "Reply: text must be a text, calls a tuple of NativeCalls"),
    (lambda: Budget(tokens=cast(Any, "5")), ValueError, "Budget: tokens must be 0 or more, or None for no limit, not '5'"),
    (lambda: Toolbox([in_lines]), TypeError, "tool 'in_lines' is a generator function, which a call only begins: return a list"),
    (lambda: Toolbox([partial(in_turn)]), TypeError, "tool 'in_turn' is a generator function"),
    (lambda: Tool("rows", "", {}, Rows()), TypeError, "tool 'rows' is a generator function"),
    (lambda: Toolbox([lambda: 1]), ValueError, "tool '<lambda>': no provider takes this name"),
    (lambda: Tool.from_function(price, name="my price"), ValueError, "tool 'my price': no provider takes this name"),
    (lambda: FunctionModel(cast(Any, "gpt")), TypeError, "function: give a function of the request, not str"),
    (lambda: Query(cast(Any, 3)), TypeError, "query: text must be a text, not int"),
    (lambda: Query("How much?", cast(Any, ["tea"])), TypeError, "query: context must be a text, not list"),
    (lambda: Toolbox(cast(Any, price)), TypeError, "tools: give a list of tools or functions, not function"),
    (lambda: Toolbox(cast(Any, Tool.from_function(price))), TypeError, "tools: give a list of tools or functions, not Tool"),
    (lambda: Toolbox([price], time_limit_s=-1), ValueError, "toolbox: time_limit_s must be more than 0 s, or None, not -1"),
    (lambda: Toolbox([price], max_chars=-1), ValueError, "toolbox: max_chars must be 0 or more, or None, not -1"),
    (lambda: Tool.from_function(price, time_limit_s=float("nan")), ValueError, "not nan"),
]


@pytest.mark.parametrize(("made", "error", "words"), MISTAKES)
def test_a_mistake_is_told_where_it_is_made(made: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=re.escape(words)) as raised:
        made()
    assert "\n" not in str(raised.value)


async def answering(request: Request) -> Reply:
    assert request.codec is not None
    return request.codec.render(Answer("", "Two."))


def answering_in_text(request: Request) -> str:
    return '{"final_answer": "Two."}'


@pytest.mark.parametrize("function", [answering, answering_in_text, lambda request: answering(request)])
def test_a_function_is_a_model(function: Callable[[Request], Any]) -> None:
    model = FunctionModel(function, name="mine")
    assert (model.name, Bare().run_sync(Query("How many?"), Toolbox(), model).answer) == ("mine", "Two.")
    with pytest.raises(TypeError, match=r"^model: Model is needed, not function$"):
        Bare().run_sync(Query("How many?"), Toolbox(), cast(Any, function))


PLAIN = Stateless(response_style=None, enable_error_recovery=False)


@pytest.mark.parametrize("loop", [Bare(), PLAIN, Bare(validate_arguments=False)], ids=repr)
def test_a_toolbox_may_check_arguments_in_designs_that_hand_them_over_as_they_are(loop: Any) -> None:
    seen: list[Any] = []

    def double(number: int) -> int:
        """Twice a number."""
        seen.append(number)
        return 2

    for checked in (False, True):
        closing = Answer("", "2", 0.9 if isinstance(loop, Stateless) else None)
        model = FakeModel(Act("", (ToolCall("double", {"number": "many"}),)), then=closing)
        loop.run_sync(Query("Twice?"), Toolbox([double], check_arguments=checked, time_limit_s=9), model)
    assert seen == ["many"]


def test_an_observer_that_would_yield_is_refused() -> None:
    class Yields(Observer):
        def on_event(self, event: RunEvent) -> Iterator[None]:  # type: ignore[override]
            yield

    model = FakeModel()
    with pytest.raises(TypeError, match=r"^observer: Yields\.on_event is a generator function, and its events would be lost"):
        Finish().run_sync(Query("How much?"), Toolbox(), model, Yields())
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
    caplog.set_level(logging.INFO, "whichloop.loops")
    ended = run_sync(loop.run(Query("How much?"), Toolbox([price]), FakeModel(then=ProviderError("the provider is down"))))
    assert (ended.stop, ended.ok) == (StopReason.PROVIDER_ERROR, False)
    told = [record.getMessage() for record in caplog.records]
    assert any("the run ends as provider_error: " in line and "the provider is down" in line for line in told)


def test_a_tool_that_raises_is_logged_with_its_traceback_and_answers_go_on(caplog: pytest.LogCaptureFixture) -> None:
    model = FakeModel(Act("Look.", (ToolCall("price", {"item": "tea"}),)), Answer("", "unknown"))
    caplog.set_level(logging.INFO, "whichloop.loops.tools")
    ended = run_sync(Bare().run(Query("How much?"), Toolbox([price]), model))
    assert (ended.answer, ended.ok) == ("unknown", True)
    (record,) = caplog.records
    assert record.getMessage() == "tool price raised KeyError"
    kind, _, trace = record.exc_info or (None, None, None)
    assert kind is KeyError
    assert trace is not None


# --- options ---

MANAGER = partial(ActivityManager, ManualAgentLoop(Toolbox()), Toolbox())
AGENT = partial(ManualAgentLoop, Toolbox())
GUARD, RETRY = partial(RepeatGuard, Bare()), partial(ProviderRetry, Bare())

OPTIONS: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (Finish, {"parse_retry": 1}, r"^Finish: unknown option 'parse_retry'; did you mean 'parse_retries'\?"),
    (Finish, {"parse_retries": "1"}, "^Finish: parse_retries: Input should be a valid integer, got '1'$"),
    (Finish, {"parse_retries": None}, "^Finish: parse_retries: .*, got None$"),
    (ReactExtract, {"extract": "yes"}, "^ReactExtract: extract: Input should be a valid boolean, got 'yes'$"),
    (Bare, {"max_consecutive_errors": "x"}, "^Bare: max_consecutive_errors: Input should be a valid integer.*, or None, got 'x'$"),
    (Bare, {"fences": "cut"}, "^Bare: fences must be one of refuse, read, not 'cut'$"),
    (Bare, {"decision_format": 7}, "^Bare: decision_format must be one of json, fields, native, not 7$"),
    (Bare, {"max_steps": -1}, "max_steps must be at least 1, not -1$"),
    (Bare, {"max_consecutive_errors": 0}, "max_consecutive_errors must be at least 1"),
    (Bare, {"answer_retries": -1}, "^answer_retries must be at least 0, not -1$"),
    (Finish, {"max_steps": -1}, "max_steps"),
    (Finish, {"max_tokens": 0}, "max_tokens"),
    (Finish, {"finish_with_tools": "maybe"}, "finish_with_tools"),
    (Finish, {"forced_finish": None}, "^Finish: forced_finish must be one of both, tool_choice, xml, off, not None$"),
    (Phased, {"max_rounds": 0}, "max_rounds"),
    (Phased, {"max_tool_tasks": -1}, "max_tool_tasks"),
    (Phased, {"cancel_grace_s": float("nan")}, "cancel_grace_s"),
    (Phased, {"prompts": {"plann": "x"}}, "plann"),
    (Phased, {"failed_dependency": "runn"}, "failed_dependency must be one of run, skip, fail, not 'runn'"),
    (Phased, {"tool_layout": "both"}, "tool_layout must be one of executor, agent, not 'both'"),
    (ReactExtract, {"max_iterations": 0}, "max_iterations must be at least 1"),
    (ReactExtract, {"parse_retries": -1}, "parse_retries must be at least 0"),
    (ReactExtract, {"overflow_attempts": -1}, "overflow_attempts must be at least 0"),
    (Stateless, {"response_style": "long"}, "response_style must be one of concise, detailed, None, not 'long'$"),
    (MANAGER, {"execution_mode": "paralel"}, "execution_mode must be one of sequential, parallel, selective"),
    (MANAGER, {"max_iterations": 0}, "max_iterations must be at least 1"),
    (MANAGER, {"max_history_length": 0}, "max_history_length must be at least 1"),
    (MANAGER, {"max_empty_decisions": 0}, "max_empty_decisions must be at least 1"),
    (MANAGER, {"tool_timeout_s": 0}, "tool_timeout_s must be more than 0 s"),
    (AGENT, {"finish_with_tools": "run-first"}, "finish_with_tools must be one of stop, run_first, ask_again"),
    (AGENT, {"history_as": "message"}, "history_as must be one of prose, messages"),
    (AGENT, {"told_max_iterations": 0}, "told_max_iterations must be at least 1"),
    (AGENT, {"max_recovery_rounds": -1}, "max_recovery_rounds must be at least 0"),
    (GUARD, {"warn_at": 1}, "warn_at must be at least 2"),
    (GUARD, {"stop_at": 2}, "stop_at must be at least warn_at"),
    (RETRY, {"attempts": 0}, "attempts"),
    (RETRY, {"delay_s": -1.0}, "delay_s"),
    (RETRY, {"delay_s": 61.0}, "delay_s"),
    (partial(Microcompact, Bare()), {"keep": 0}, "keep must be at least 1"),
    (run_agent, {"query": "?", "config": Bare(decision_format="native")}, "llm_func gives text"),
]


@pytest.mark.parametrize(("make", "options", "said"), OPTIONS)
@row("B4-16", "X-19", "finish.max_tokens")
def test_a_mistake_in_an_option_is_one_line_that_names_it(make: Callable[..., Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        make(**options)
    assert "\n" not in str(raised.value)
