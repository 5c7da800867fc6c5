"""What a product gives a loop by mistake is told in one line, before anything is asked."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

from tests.loops.helpers import in_turn
from tests.rows import row
from whichloop.loops import (
    Bare,
    Finish,
    Guarded,
    Microcompact,
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
from whichloop.protocol import Query, Reply, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.model import ProviderError
from whichloop.protocol.moves import Act, Answer

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


class Rows:
    def __call__(self) -> Iterator[str]:
        yield "row"


def price(item: str) -> float:
    """What an item costs."""
    raise KeyError(item)


MISTAKEN: list[tuple[dict[str, Any], str]] = [
    ({"query": "How much?"}, "^query: Query is needed, not str"),
    ({"tools": [price]}, "^tools: Toolbox is needed, not list"),
    ({"model": "openai/gpt-4o-mini"}, "^model: Model is needed, not str"),
    ({"model": FakeModel}, "^model: Model is needed, not the class FakeModel"),
    ({"observer": print}, "^observer: Observer is needed, not builtin_function_or_method"),
]


@pytest.mark.parametrize(("name", "mistaken"), in_turn(LOOPS, MISTAKEN))
def test_an_argument_of_another_type_is_told(name: str, mistaken: tuple[dict[str, Any], str]) -> None:
    mistake, told = mistaken
    model = FakeModel()
    given = {"query": Query("How much?"), "tools": Toolbox([price]), "model": model} | mistake
    with pytest.raises(TypeError, match=told):
        LOOPS[name]().run_sync(**given)
    assert model.requests == []


MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Reply(cast(Any, None)), TypeError, "Reply: text must be a text"),
    (lambda: Budget(tokens=cast(Any, "5")), ValueError, "Budget: tokens must be 0 or more, or None for no limit, not '5'"),
    (lambda: Resumable(Bare(), budget=Budget(seconds=5)), ValueError, "budget: limit calls, tokens or dollars, not seconds"),
    (lambda: Toolbox([in_lines]), TypeError, "tool 'in_lines' is a generator function, which a call only begins: return a list"),
    (lambda: Tool("rows", "", {}, Rows()), TypeError, "tool 'rows' is a generator function"),
    (lambda: Tool.from_function(price, name="my price"), ValueError, "tool 'my price': no provider takes this name"),
    (lambda: Query(cast(Any, 3)), TypeError, "query: text must be a text, not int"),
    (lambda: Toolbox(cast(Any, price)), TypeError, "tools: give a list of tools or functions, not function"),
    (lambda: Toolbox([price], time_limit_s=-1), ValueError, "toolbox: time_limit_s must be more than 0 s, or None, not -1"),
    (lambda: ProviderRetry(cast(Any, "finish")), TypeError, "loop: give a loop, such as Finish(), not "),
]


@pytest.mark.parametrize(("made", "error", "words"), MISTAKES)
def test_a_mistake_is_told_where_it_is_made(made: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=re.escape(words)) as raised:
        made()
    assert "\n" not in str(raised.value)


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


def test_a_service_hears_of_a_model_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "whichloop.loops")
    Bare().run_sync(Query("How much?"), Toolbox([price]), FakeModel(then=ProviderError("the provider is down")))
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

OPTIONS: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (Finish, {"parse_retry": 1}, r"^Finish: unknown option 'parse_retry'; did you mean 'parse_retries'\?"),
    (Finish, {"parse_retries": "1"}, "^Finish: parse_retries: Input should be a valid integer, got '1'$"),
    (Bare, {"max_consecutive_errors": "x"}, "^Bare: max_consecutive_errors: Input should be a valid integer.*, or None, got 'x'$"),
    (Bare, {"fences": "cut"}, "^Bare: fences must be one of refuse, read, not 'cut'$"),
    (Bare, {"max_steps": -1}, "max_steps must be at least 1, not -1$"),
    (Bare, {"max_consecutive_errors": 0}, "max_consecutive_errors must be at least 1"),
    (Finish, {"max_tokens": 0}, "max_tokens"),
    (Phased, {"max_tool_tasks": -1}, "max_tool_tasks"),
    (Phased, {"cancel_grace_s": float("nan")}, "cancel_grace_s"),
    (Phased, {"prompts": {"plann": "x"}}, "plann"),
    (ReactExtract, {"max_iterations": 0}, "max_iterations must be at least 1"),
    (Stateless, {"response_style": "long"}, "response_style must be one of concise, detailed, None, not 'long'$"),
    (partial(ManualAgentLoop, Toolbox()), {"told_max_iterations": 0}, "told_max_iterations must be at least 1"),
    (partial(RepeatGuard, Bare()), {"stop_at": 2}, "stop_at must be at least warn_at"),
    (partial(ProviderRetry, Bare()), {"delay_s": 61.0}, "delay_s"),
    (run_agent, {"query": "?", "config": Bare(decision_format="native")}, "llm_func gives text"),
]


@pytest.mark.parametrize(("make", "options", "said"), OPTIONS)
@row("B4-16", "X-19", "finish.max_tokens")
def test_a_mistake_in_an_option_is_one_line_that_names_it(make: Callable[..., Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        make(**options)
    assert "\n" not in str(raised.value)
