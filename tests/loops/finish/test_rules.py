"""The finish loop: its ends, which retries a reply has, and each option."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.drawn import WITH_CALLS
from tests.loops.finish.helpers import ADD, BAD, GOOD_AND_ADD, NOPE, VERDICT, XML, finish, native, results, run, says, steps
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import Finish
from whichloop.protocol import ContextOverflow, ProviderError, Reply, StopReason

DOWN, LONG = ProviderError("down"), ContextOverflow("long")


REACHING = [
    (limit, forced, place % 2 == 0, place // 2 % 2 * 2)
    for place, (limit, forced) in enumerate(product([None, 0, 2], ["both", "tool_choice", "xml", "off"]))
]
"""Options of `Finish`: each limit with each way to force an answer, and the others in turn."""


@pytest.mark.parametrize(("limit", "forced", "consume", "retries"), REACHING)
@row("X-21")
def test_finish_declares_exactly_the_stops_that_it_can_reach(limit: int | None, forced: Any, consume: bool, retries: int) -> None:
    loop = Finish(max_steps=limit, forced_finish=forced, retries_consume_steps=consume, parse_retries=retries)
    reached = set()
    for many in range(3):
        for first in (ADD, BAD) if many else (ADD,):
            for end in (finish(), Reply("no"), BAD, XML, DOWN, LONG):
                reached.add(run(loop, Script(*[first] * many, then=end)).stop)
    assert reached == loop.stops


# --- laws ---

NEXT: dict[str, Reply] = {
    "an invalid answer": BAD,
    "a call of no tool": Reply("well"),
    "an unknown tool": NOPE,
    "arguments that do not fit": says(native("add", {"a": "one"})),
    "arguments that are no JSON": says(native("add", '{"a": 1')),
    "a call": ADD,
    "a call whose tool fails": says(native("risky", {"x": -1})),
    "a call beside a refused one": says(*NOPE.calls, *ADD.calls),
}
"""What a model may do next, by its name."""
INVALID, RUNS_A_TOOL = (
    ("an invalid answer", "a call of no tool"),
    ("a call", "a call whose tool fails", "a call beside a refused one"),
)


@given(names=st.lists(st.sampled_from([*NEXT]), max_size=12), retries=st.integers(0, 2))
@example(names=["an invalid answer", "an unknown tool", "an invalid answer"], retries=1)
@example(names=["an invalid answer", "arguments that do not fit", "an invalid answer"], retries=1)
@settings(deadline=None, max_examples=cases(60))
@row("S3-26", "B3-20", "X-4")
def test_only_a_tool_that_ran_hands_out_fresh_retries(names: list[str], retries: int) -> None:
    failures = asked = 0
    for name in names:
        asked += 1
        failures = 0 if name in RUNS_A_TOOL else failures + (name in INVALID)
        if failures > retries:
            break
    model = Script(*(NEXT[name] for name in names), finish("ok"))
    outcome = run(Finish(max_steps=len(names) + 1, parse_retries=retries), model)
    fails = failures > retries
    assert outcome.stop is (StopReason.PARSE_FAILED if fails else StopReason.FINISHED)
    assert len(model.requests) == asked + (not fails)


@given(replies=st.lists(WITH_CALLS, max_size=6))
@settings(deadline=None, max_examples=cases(20))
def test_a_run_without_hooks_asks_the_same_as_one_whose_hook_does_nothing(replies: list[Reply]) -> None:
    asked = []
    for hook in (None, lambda step: None):
        model = Script(*replies, then=DOWN)
        run(Finish(max_steps=8, parse_retries=9, on_step=hook), model)
        asked.append([request.messages for request in model.requests])
    assert asked[0] == asked[1]


# --- options ---


@row("finish.finish_with_tools")
def test_option_finish_with_tools_asks_again_after_the_others_have_run() -> None:
    model = Script(GOOD_AND_ADD, finish("late"))
    outcome = run(steps(finish_with_tools="ask_again"), model)
    assert results(model.requests[1])[0] == "3"
    assert results(model.requests[1])[1].startswith("Not accepted yet")
    assert (outcome.answer, outcome.steps) == ("late", 2)
    assert run(Finish(finish_with_tools="ask_again"), Script(GOOD_AND_ADD)).answer == "early"  # nothing can be asked again


@pytest.mark.parametrize(
    ("option", "replies", "choices", "stop"),
    [
        ("both", [Reply("no"), XML], ["__finish__", None], StopReason.FORCED),
        ("tool_choice", [finish()], ["__finish__"], StopReason.FORCED),
        ("tool_choice", [Reply("no")], ["__finish__"], StopReason.MAX_STEPS),
        ("xml", [XML], [None], StopReason.FORCED),
        ("off", [], [], StopReason.MAX_STEPS),
    ],
)
@row("finish.forced_finish")
def test_option_forced_finish_is_both_or_one_way_or_a_canned_text(
    option: Any, replies: list[Any], choices: list[Any], stop: StopReason
) -> None:
    model = Script(ADD, *replies)
    outcome = run(Finish(max_steps=1, forced_finish=option), model)
    assert [request.tool_choice for request in model.requests[1:]] == choices
    assert outcome.stop is stop
    assert outcome.answer == ("x" if stop is StopReason.FORCED else "Maximum steps reached without a final answer")


@row("finish.list_tools_in_error", "B3-10")
def test_option_list_tools_in_error_adds_the_known_ones() -> None:
    model = Script(says(native("nope")), finish())
    run(steps(list_tools_in_error=True), model)
    assert results(model.requests[1]) == ["Tool error: Tool 'nope' not found. Available tools: add, risky, __finish__"]


@row("finish.typed_output")
def test_option_typed_output_off_takes_a_text_whatever_the_schema() -> None:
    for typed, answer in ((True, {"sentiment": "s", "score": 1}), (False, "s")):
        model = Script(says(native("__finish__", answer if isinstance(answer, dict) else {"answer": answer})))
        assert run(Finish(typed_output=typed), model, schema=VERDICT).answer == answer
        assert list(model.requests[0].tools[-1].parameters["properties"]) == (["sentiment", "score"] if typed else ["answer"])


@row("finish.system_prompt")
def test_option_system_prompt_is_the_first_message_or_there_is_none() -> None:
    for text, roles in (("Be brief.", ["system", "user"]), (None, ["user"])):
        model = Script(finish())
        run(Finish(system_prompt=text), model)
        assert [message.role for message in model.requests[0].messages] == roles
        assert text is None or model.requests[0].messages[0].content == text


@row("finish.temperature", "finish.max_tokens")
def test_option_temperature_and_option_max_tokens_reach_every_request_or_are_left_out() -> None:
    for options in ({"temperature": 0.5, "max_tokens": 9}, {}):
        model = Script(ADD, finish())
        run(Finish(max_steps=1, **options), model)  # type: ignore[arg-type]  # of two types
        assert [request.sampling.as_dict() for request in model.requests] == [options] * 2


def test_hooks_do_not_tell_two_loops_apart() -> None:
    assert Finish(on_step=lambda step: None) == Finish()
