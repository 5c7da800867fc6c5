"""Design 2, React -> Extract: each option changes what the loop does."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.loops.helpers import Script, extract, react
from tests.loops.looking import check_tool_max_chars, check_tool_threads, check_tool_timeout_s
from tests.loops.react_extract.helpers import BAD, run, shown, system
from tests.rows import row
from whichloop.loops.react_extract import ReactExtract
from whichloop.protocol import (
    ContextOverflow,
    Role,
    StopReason,
)
from whichloop.runs.built_in import options_of


@row("react_extract.max_iterations")
def test_option_max_iterations_bounds_the_react_calls() -> None:
    for limit in (1, 3):
        model = Script(*[react("add", a=1, b=2)] * limit, extract("3"))
        run(ReactExtract(max_iterations=limit), model)
        assert model.roles.count(Role.DECIDE) == limit
    with pytest.raises(ValueError, match="max_iterations must be at least 1"):
        ReactExtract(max_iterations=0)


@row("react_extract.extract")
def test_option_extract_off_takes_the_answer_of_finish_or_the_last_thought() -> None:
    loop = ReactExtract(extract=False)
    model = Script(react("add", a=1, b=2), react("finish", "Sure.", answer=3))
    outcome = run(loop, model)
    assert (outcome.answer, outcome.stop, model.roles) == (3, StopReason.FINISHED, [Role.DECIDE] * 2)
    assert 'finish: ends the run; give your answer as {"answer": ...}' in system(model.requests[0])
    assert run(loop, Script(react("finish", "It is 3."))).answer == "It is 3."
    assert run(loop, Script(BAD)).answer is None


@row("react_extract.on_parse_error")
def test_option_on_parse_error_ends_the_loop_or_goes_on() -> None:
    for loop, calls in ((ReactExtract(), 2), (ReactExtract(on_parse_error="observe"), 3)):
        model = Script(BAD, react("finish") if calls == 3 else extract("x"), extract("x"))
        run(loop, model)
        assert len(model.requests) == calls


@row("react_extract.on_unknown_tool")
def test_option_on_unknown_tool_goes_on_or_ends_the_loop() -> None:
    for loop, calls in ((ReactExtract(), 3), (ReactExtract(on_unknown_tool="finish"), 2)):
        model = Script(react("fly"), react("finish") if calls == 3 else extract("x"), extract("x"))
        run(loop, model)
        assert len(model.requests) == calls


@pytest.mark.parametrize("retries", [0, 1, 2])
@row("react_extract.parse_retries")
def test_option_parse_retries_asks_extract_again_with_the_error_shown(retries: int) -> None:
    model = Script(react("finish"), *[BAD] * 2, extract("x"))
    outcome = run(ReactExtract(parse_retries=retries), model)
    assert model.roles.count(Role.ANSWER) == retries + 1
    assert outcome.answer == ("x" if retries == 2 else None)
    for k in range(1, retries + 1):
        assert f"[[ ## error_{k} ## ]]\nYour last reply could not be read: The reply lacks" in shown(model.requests[-1])
    with pytest.raises(ValueError, match="must be at least 0"):
        ReactExtract(parse_retries=-1)


@row("react_extract.overflow_attempts")
def test_option_overflow_attempts_of_none_goes_straight_to_extract() -> None:
    for attempts, stop in ((0, StopReason.CONTEXT_OVERFLOW), (1, StopReason.FINISHED)):
        model = Script(react("add", a=1, b=2), ContextOverflow("long"), *([react("finish")] * attempts), extract("x"))
        assert run(ReactExtract(overflow_attempts=attempts), model).stop is stop
    with pytest.raises(ValueError, match="must be at least 0"):
        ReactExtract(overflow_attempts=-1)


@pytest.mark.parametrize(
    ("replies", "note"),
    [
        (["add"], "The run was cut off at its limit"),
        ([BAD], "The last step could not be read"),
        ([ContextOverflow("long")], "The run ended because the trajectory no longer fits"),
        (["finish"], None),
    ],
)
@row("react_extract.tell_extract")
def test_option_tell_extract_passes_the_reason(replies: list[Any], note: str | None) -> None:
    said = {"add": react("add", a=1, b=2), "finish": react("finish")}
    model = Script(*[said.get(reply, reply) if isinstance(reply, str) else reply for reply in replies], extract("x"))
    run(ReactExtract(max_iterations=1, tell_extract=True), model)
    assert ("[[ ## note ## ]]" in shown(model.requests[-1])) is (note is not None)
    assert (note or "") in shown(model.requests[-1])


def test_options_are_the_fields_with_a_line_each_and_the_program_is_none_of_them() -> None:
    options = options_of(ReactExtract)
    assert "program" not in options
    assert options.keys() == {field.name for field in dataclasses.fields(ReactExtract)} - {"program"}
    assert all(option.doc for option in options.values())


@row("react_extract.tool_max_chars")
def test_option_tool_max_chars_cuts_what_the_model_reads_and_by_default_nothing_does() -> None:
    check_tool_max_chars(ReactExtract)


@row("react_extract.tool_timeout_s")
def test_option_tool_timeout_s_limits_a_call_and_by_default_nothing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    check_tool_timeout_s(ReactExtract, monkeypatch)


@row("react_extract.tool_threads")
def test_option_tool_threads_puts_tools_on_threads_of_their_own_or_on_the_callers() -> None:
    check_tool_threads(ReactExtract, here_by_default=True)
