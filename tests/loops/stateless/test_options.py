"""The stateless design: a test for every option."""

from __future__ import annotations

import inspect
import json
import threading
from typing import Any

import dspy
import pytest

from tests.loops.helpers import Script
from tests.loops.looking import check_tool_max_chars, check_tool_threads, check_tool_timeout_s
from tests.loops.stateless.helpers import (
    ADD,
    EMPTY,
    FAIL,
    PLAIN,
    STOP,
    Decides,
    Watch,
    add,
    detailed,
    fail,
    formatted,
    run,
    shown,
    system,
    think,
)
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.stateless import (
    ActivityManager,
    ConversationManager,
    ManualAgentLoop,
    Stateless,
    StatelessProgram,
)
from whichloop.loops.stateless.agent import DEFAULT_TOLD
from whichloop.protocol import (
    Act,
    Answer,
    Completion,
    Query,
    Recovery,
    Reply,
    Role,
    StopReason,
    Text,
    Toolbox,
    run_sync,
)
from whichloop.protocol import ToolCall as Call


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (ActivityManager, {"execution_mode": "paralel"}, "execution_mode must be one of sequential, parallel, selective"),
        (ActivityManager, {"max_iterations": 0}, "max_iterations must be at least 1"),
        (ActivityManager, {"max_history_length": 0}, "max_history_length must be at least 1"),
        (ActivityManager, {"max_empty_decisions": 0}, "max_empty_decisions must be at least 1"),
        (ActivityManager, {"tool_timeout_s": 0}, "tool_timeout_s must be more than 0 s"),
        (ManualAgentLoop, {"finish_with_tools": "run-first"}, "finish_with_tools must be one of stop, run_first, ask_again"),
        (ManualAgentLoop, {"history_as": "message"}, "history_as must be one of prose, messages"),
        (ManualAgentLoop, {"told_max_iterations": 0}, "told_max_iterations must be at least 1"),
        (ManualAgentLoop, {"max_recovery_rounds": -1}, "max_recovery_rounds must be at least 0"),
    ],
)
def test_an_option_out_of_range_is_refused_when_the_part_is_built(kind: Any, options: dict[str, Any], message: str) -> None:
    before = {ActivityManager: (Decides(), Toolbox()), ManualAgentLoop: (Toolbox(),)}[kind]
    with pytest.raises(ValueError, match=message):
        kind(*before, **options)


@row("stateless.max_iterations")
def test_agent_and_manager_have_the_defaults_of_the_loop() -> None:
    """So that what stands in a seed's constructor and in the loop cannot come apart."""
    manager = inspect.signature(ActivityManager).parameters
    assert manager["max_iterations"].default == Stateless.__dataclass_fields__["max_iterations"].default == DEFAULT_TOLD
    kept = inspect.signature(ConversationManager).parameters["max_history_length"]
    assert kept.default == Stateless.__dataclass_fields__["max_history_length"].default


def test_option_max_iterations_bounds_the_decisions() -> None:
    model = Script(then=think(ADD))
    assert run(Stateless(max_iterations=2), model).stop is StopReason.MAX_STEPS
    assert len(model.requests) == 2
    assert Stateless().max_iterations == 10
    with pytest.raises(ValueError, match="max_iterations must be at least 1"):
        Stateless(max_iterations=0)


@row("stateless.execution_mode")
def test_option_execution_mode_runs_calls_one_by_one_or_at_once() -> None:
    most = {}
    for mode in ("sequential", "parallel", "selective"):
        watch = Watch(seconds=0.2)
        run(Stateless(response_style=None, execution_mode=mode), Script(think(*[("work", {"n": 1})] * 3), STOP), watch.work)
        most[mode] = watch.most
    assert most == {"sequential": 1, "parallel": 3, "selective": 1}
    with pytest.raises(ValueError, match="execution_mode must be one of sequential, parallel, selective"):
        Stateless(execution_mode="fast")  # type: ignore[arg-type]


@row("stateless.enable_error_recovery")
def test_option_enable_error_recovery_off_shows_errors_to_the_next_decision() -> None:
    model = Script(think(FAIL), STOP)
    loop = Stateless(response_style=None, enable_error_recovery=False)
    run(loop, model)
    assert model.roles == [Role.DECIDE, Role.DECIDE]
    assert shown(model.requests[1], "last_tool_results") == "fail: ERROR - broken"
    assert PLAIN.stops - loop.stops == {StopReason.RECOVERY_FAILED}


@row("stateless.response_style")
def test_option_response_style_puts_the_answer_or_leaves_it() -> None:
    replies = {"concise": [formatted("F")], "detailed": [detailed("F", "p")], None: []}
    ended = {style: run(Stateless(response_style=style), Script(STOP, *more)) for style, more in replies.items()}  # type: ignore[arg-type]
    texts = {style: outcome.details["final_response"] for style, outcome in ended.items()}
    assert texts == {"concise": "F", "detailed": "F\n\nKey Points:\n• p\n\nConfidence: 90%", None: "3"}
    assert {style: outcome.answer for style, outcome in ended.items()} == {"concise": "F", "detailed": "F", None: "3"}


@row("stateless.include_confidence")
def test_option_include_confidence_adds_or_drops_the_line() -> None:
    outcome = run(Stateless(include_confidence=True), Script(STOP, formatted("F")))
    assert (outcome.answer, outcome.details["final_response"]) == ("F", "F\n\nConfidence: 90%")
    loop = Stateless(response_style="detailed", include_confidence=False)
    assert "Confidence" not in run(loop, Script(STOP, detailed("F", "p"))).details["final_response"]


def test_what_stands_under_an_answer_does_not_spoil_a_value() -> None:
    query = Query("Q", schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    model = Script(think(final='{"n": 3}', confidence=0.5), formatted('{"n": 3}'))
    outcome = run_sync(Stateless(include_confidence=True).run(query, Toolbox(), model))
    assert (outcome.answer, outcome.confidence) == ({"n": 3}, 0.5)


def test_a_run_without_an_answer_of_its_own_has_no_confidence() -> None:
    outcome = run(Stateless(max_iterations=1), Script(think(ADD, confidence=0.9)))
    assert (outcome.stop, outcome.confidence) == (StopReason.MAX_STEPS, None)


@row("stateless.finish_with_tools")
def test_option_finish_with_tools_stops_runs_first_or_asks_again() -> None:
    both = think(ADD, should_continue=False, final_response="early")
    made = {}
    for option in ("stop", "run_first", "ask_again"):
        model = Script(both, think(final="late"))
        outcome = run(Stateless(response_style=None, finish_with_tools=option), model)
        made[option] = (outcome.answer, outcome.details["total_tool_calls"], outcome.steps)
        codec = model.requests[0].codec
        assert codec is not None
        move = codec.parse(Reply(both))
        assert isinstance(move, Act if option == "ask_again" else Answer)
    assert made == {"stop": ("early", 0, 1), "run_first": ("early", 1, 1), "ask_again": ("late", 1, 2)}
    silent = think(ADD, should_continue=False)
    assert run(Stateless(response_style=None, finish_with_tools="run_first"), Script(silent)).answer == "add: 3"
    loop = Stateless(finish_with_tools="run_first")
    assert run(loop, Script(both, formatted("neat"))).answer == "neat"


@row("stateless.constrain_names")
def test_option_constrain_names_refuses_an_unknown_tool() -> None:
    model = Script(think(("nope", {})))
    assert run(Stateless(constrain_names=True), model).stop is StopReason.PARSE_FAILED
    assert '"enum": ["add", "fail", "search", "image_search"]' in system(model.requests[0])
    assert "Name of the tool to execute" in system(model.requests[0])
    assert run(Stateless(constrain_names=True, response_style=None), Script(think(ADD), STOP)).answer == "3"
    assert Stateless(constrain_names=True, response_style=None).run_sync(Query("Q"), Toolbox(), Script(STOP)).answer == "3"


@row("stateless.validate_output")
def test_option_validate_output_adds_a_call_per_decision() -> None:
    model = Script(think(ADD), Completion(True), STOP, Completion(False))
    assert run(Stateless(response_style=None, validate_output=True), model).answer == "3"
    assert model.roles == [Role.DECIDE, Role.VALIDATE] * 2


@row("stateless.told_max_iterations")
def test_option_told_max_iterations_tells_another_limit() -> None:
    model = Script(then=think(ADD))
    run(Stateless(max_iterations=2, told_max_iterations=50), model)
    assert [shown(request, "max_iterations") for request in model.requests] == ["50", "50"]


@row("stateless.max_empty_decisions")
def test_option_max_empty_decisions_ends_the_run_sooner_or_never() -> None:
    for most, steps, stop in ((1, 1, StopReason.ERROR_VALVE), (None, 10, StopReason.MAX_STEPS)):
        loop = Stateless(max_empty_decisions=most)
        outcome = run(loop, Script(then=EMPTY))
        assert (outcome.steps, outcome.stop) == (steps, stop)
        assert (StopReason.ERROR_VALVE in loop.stops) is (most is not None)
    assert StopReason.ERROR_VALVE not in Stateless(max_iterations=2).stops


@row("stateless.max_recovery_rounds")
def test_option_max_recovery_rounds_bounds_recovery() -> None:
    for rounds in (0, 1, 3):
        model = Script(then=lambda request: Recovery("retry") if request.role is Role.RECOVER else Act("t", (Call("fail", {}),)))
        run(Stateless(max_recovery_rounds=rounds), model)
        assert model.roles.count(Role.RECOVER) == rounds
    assert StopReason.RECOVERY_FAILED not in Stateless(max_recovery_rounds=0).stops
    assert StopReason.RECOVERY_FAILED not in Stateless(max_iterations=1).stops, "the only decision is not one about errors"


@row("stateless.tool_timeout_s")
def test_option_tool_timeout_s_is_the_shorter_limit() -> None:
    release = threading.Event()

    def hang() -> None:
        """Hangs."""
        release.wait(20)

    try:
        for ours, theirs, shorter in ((0.05, 10.0, "0.05"), (10.0, 0.05, "0.05"), (None, 0.05, "0.05"), (0.05, None, "0.05")):
            loop = Stateless(response_style=None, enable_error_recovery=False, tool_timeout_s=ours)
            box = Toolbox([hang], time_limit_s=theirs)
            outcome = run_sync(loop.run(Query("Q"), box, Script(think(("hang", {})), STOP)))
            assert f"no result within {shorter} s" in outcome.details["state"].errors_encountered[0]
    finally:
        release.set()
    with pytest.raises(ValueError, match="tool_timeout_s must be more than 0"):
        Stateless(tool_timeout_s=0)


@row("stateless.max_history_length")
def test_option_max_history_length_folds_the_older_half_or_nothing() -> None:
    folds = {}
    for most in (2, None):
        model = Script(then=lambda request: Text("S.") if request.role is Role.SUMMARIZE else think_move())
        run(Stateless(max_iterations=6, max_history_length=most), model)
        folds[most] = model.roles.count(Role.SUMMARIZE)
    assert folds == {2: 4, None: 0}


def think_move() -> Act:
    return Act("t", (Call("add", {"a": 1, "b": 2}),))


@row("stateless.history_as")
def test_option_history_as_messages_makes_a_conversation_of_earlier_iterations() -> None:
    def long(n: int) -> str:
        """Long."""
        return "y" * n

    model = Script(think(("long", {"n": 900})), think(ADD), think(FAIL), STOP)
    outcome = run(Stateless(response_style=None, history_as="messages", enable_error_recovery=False), model, long, add, fail)
    assert outcome.answer == "3"
    assert [message.role for message in model.requests[0].messages] == ["system", "user"]
    last = model.requests[-1].messages
    assert [message.role for message in last] == ["system", *["user", "assistant"] * 3, "user"]
    assert last[1].content == "Q"
    assert last[3].content == f"long: {'y' * 900}", "results stay whole"
    assert json.loads(last[2].content.partition("\n")[2]) == [{"tool_name": "long", "parameters": {"n": 900}}]
    assert shown(model.requests[-1], "last_tool_results") == "fail: ERROR - broken"
    assert "Iteration 1" not in last[-1].content
    through = Script(think(ADD), STOP)
    with dspy.context(lm=lm_of(through)):
        assert StatelessProgram([add], Stateless(response_style=None, history_as="messages"))(query="Q").answer == "3"
    assert len(through.requests[1].messages) == 4


@row("stateless.tool_max_chars")
def test_option_tool_max_chars_cuts_what_the_model_reads_and_by_default_nothing_does() -> None:
    check_tool_max_chars(Stateless)


@row("stateless.tool_timeout_s")
def test_option_tool_timeout_s_limits_a_call_and_by_default_nothing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tool_timeout_s(Stateless, monkeypatch)


@row("stateless.tool_threads")
def test_option_tool_threads_puts_tools_on_threads_of_their_own_or_on_the_callers() -> None:
    check_tool_threads(Stateless, here_by_default=True)
