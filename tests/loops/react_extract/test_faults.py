"""Design 2, React -> Extract: faults of the document, and the semantics built."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loops.helpers import Notes, Script, extract, react
from tests.loops.react_extract.helpers import BAD, run, shown, trajectory
from tests.rows import row
from whichloop.loops.react_extract import ReactExtract, ReactExtractProgram, format_trajectory
from whichloop.protocol import ContextOverflow, Query, Role, StopReason, Tool, Toolbox


@row("B2-2")
def test_a_tools_exception_is_an_observation_without_traceback() -> None:
    model = Script(react("divide", a=1, b=0), react("finish"), extract("none"))
    outcome = run(ReactExtract(), model)
    assert trajectory(outcome)["observation_0"] == "Error: float division by zero"
    assert "Traceback" not in shown(model.requests[1])
    assert outcome.steps == 2


@row("B2-2")
def test_arguments_that_do_not_fit_are_an_observation() -> None:
    outcome = run(ReactExtract(), Script(react("add", a=1), react("finish"), extract("x")))
    assert trajectory(outcome)["observation_0"].startswith("Error: Tool 'add': missing argument 'b'")


@row("B2-3")
def test_an_unknown_tool_is_an_observation_that_uses_its_iteration() -> None:
    outcome = run(ReactExtract(max_iterations=2), Script(react("fly"), react("finish"), extract("x")))
    assert trajectory(outcome)["observation_0"] == "Error: Unknown tool fly"
    assert (outcome.stop, outcome.steps) == (StopReason.FINISHED, 2)


@row("B2-3", "B2-4")
def test_or_it_ends_the_loop_like_an_unreadable_reply() -> None:
    model = Script(react("fly"), extract("x"))
    outcome = run(ReactExtract(on_unknown_tool="finish", on_parse_error="observe"), model)
    assert trajectory(outcome) == {"error_0": "Unknown tool fly"}
    assert (outcome.answer, outcome.stop) == ("x", StopReason.PARSE_FAILED)


@row("B2-4")
def test_an_unreadable_reply_leaves_its_error_and_nothing_else_and_extract_sees_it() -> None:
    model = Script(react("add", a=1, b=2), BAD, extract("3"))
    outcome = run(ReactExtract(), model)
    assert [key for key in trajectory(outcome) if key.endswith("_1")] == ["error_1"]
    assert f"[[ ## error_1 ## ]]\n{trajectory(outcome)['error_1']}" in shown(model.requests[-1])


@row("B2-5", "G-6", "X-18")
def test_a_tool_named_finish_is_refused_and_other_names_are_ordinary() -> None:
    finish = Tool.from_function(lambda: "x", name="finish")
    model = Script()
    with pytest.raises(ValueError, match="'finish'"):
        run(ReactExtract(), model, finish)
    with pytest.raises(ValueError, match="'finish'"):
        ReactExtractProgram([finish])
    assert model.requests == []
    for name in ("submit", "branch", "__finish__"):
        ordinary = Tool.from_function(lambda: "ran", name=name)
        outcome = run(ReactExtract(), Script(react(name), react("finish"), extract("x")), ordinary)
        assert trajectory(outcome)["observation_0"] == "ran"


class Narrow:
    """Answers like a script, but its context holds `limit` characters of trajectory."""

    def __init__(self, script: Any, limit: int) -> None:
        self.script, self.limit = script, limit
        self.name, self.capabilities, self.stream = script.name, script.capabilities, script.stream

    async def complete(self, request: Any) -> Any:
        if len(shown(request)) > self.limit:
            self.script.requests.append(request)
            raise ContextOverflow(f"more than {self.limit} characters")
        return await self.script.complete(request)


@row("B2-6")
def test_the_oldest_iterations_leave_the_prompt_but_not_the_trajectory() -> None:
    single = run(ReactExtract(max_iterations=1), Script(react("add", a=1, b=2), extract("3")))
    one = len(format_trajectory(trajectory(single)))
    script = Script(*[react("add", a=1, b=2)] * 4, react("finish"), extract("3"))
    notes = Notes()
    outcome = run(ReactExtract(), Narrow(script, 3 * one + 10), observer=notes)
    whole = trajectory(outcome)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("3", StopReason.FINISHED, 5)
    assert [f"observation_{k}" in whole for k in range(5)] == [True] * 5
    last = shown(script.requests[-1])
    assert [f"[[ ## thought_{k} ## ]]" in last for k in range(5)] == [False, False, True, True, True]
    assert [kind for kind, _ in notes.notes] == ["trimmed"]


@pytest.mark.parametrize("attempts", [0, 1, 3])
@row("B2-6")
def test_after_the_attempts_extract_follows_with_context_overflow(attempts: int) -> None:
    steps = [react("add", f"Step {k}.", a=1, b=2) for k in range(4)]
    script = Script(*steps, *[ContextOverflow("long")] * (attempts + 1), extract("3"))
    outcome = run(ReactExtract(overflow_attempts=attempts), script)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("3", StopReason.CONTEXT_OVERFLOW, 4)
    assert script.roles == [Role.DECIDE] * (4 + attempts + 1) + [Role.ANSWER]
    assert [f"Step {k}." in shown(script.requests[-1]) for k in range(4)] == [k >= attempts for k in range(4)]


def test_overflows_of_react_are_counted_over_the_whole_run_and_extract_has_attempts_of_its_own() -> None:
    step, long = react("add", a=1, b=2), ContextOverflow("long")
    script = Script(step, step, long, step, long, long, long, extract("A"))
    outcome = run(ReactExtract(overflow_attempts=2), script)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("A", StopReason.CONTEXT_OVERFLOW, 3)
    assert [shown(request)[6:15] for request in script.requests[2:]] == [*(f"thought_{k}" for k in (0, 1, 1, 2, 2)), ""]
    assert [f"thought_{k}" in trajectory(outcome) for k in range(3)] == [True] * 3


@row("B2-6")
def test_an_overflow_with_nothing_left_to_drop_goes_to_extract() -> None:
    script = Script(ContextOverflow("long"), extract("guess"))
    assert run(ReactExtract(), script).stop is StopReason.CONTEXT_OVERFLOW
    assert script.roles == [Role.DECIDE, Role.ANSWER]


@row("B2-6")
def test_extract_drops_iterations_too_and_then_gives_up() -> None:
    steps = [react("add", f"Step {k}.", a=1, b=2) for k in range(2)]
    script = Script(*steps, ContextOverflow("long"), extract("3"))
    outcome = run(ReactExtract(max_iterations=2), script)
    assert (outcome.answer, outcome.stop) == ("3", StopReason.FORCED)
    assert [f"Step {k}." in shown(script.requests[-1]) for k in range(2)] == [False, True]
    lost = run(ReactExtract(max_iterations=2), Script(*steps, then=ContextOverflow("long")))
    assert (lost.answer, lost.stop, lost.details["error"]) == (None, StopReason.CONTEXT_OVERFLOW, "long")
    assert "thought_1" in trajectory(lost)


@row("B2-8")
def test_an_unreadable_extract_reply_gives_no_answer_but_the_trajectory() -> None:
    model = Script(react("add", a=1, b=2), react("finish"), BAD)
    outcome = run(ReactExtract(), model)
    assert (outcome.answer, outcome.stop) == (None, StopReason.PARSE_FAILED)
    assert trajectory(outcome)["observation_0"] == 3
    assert outcome.details["error"].startswith("The reply lacks reasoning, answer.")
    assert len(model.requests) == 3


@row("B2-9")
def test_extract_is_not_told_why_the_run_ended() -> None:
    for limit, replies in ((1, [react("divide", a=1, b=0)]), (5, [BAD])):
        texts = []
        for loop in (ReactExtract(max_iterations=limit), ReactExtract(max_iterations=limit, tell_extract=True)):
            model = Script(*replies, extract("x"))
            run(loop, model)
            texts.append(shown(model.requests[-1]))
        assert "[[ ## note ## ]]" not in texts[0]
        assert texts[1].startswith(f"{texts[0]}\n\n[[ ## note ## ]]\nThe ")


@pytest.mark.parametrize("limit", [1, 2, 5])
@row("B2-10")
def test_exactly_max_iterations_react_calls_and_finish_is_one_of_them(limit: int) -> None:
    step = react("add", a=1, b=2)
    tools_only = Script(*[step] * limit, extract("3"))
    assert run(ReactExtract(max_iterations=limit), tools_only).stop is StopReason.FORCED
    assert tools_only.roles == [Role.DECIDE] * limit + [Role.ANSWER]
    finishing = Script(*[step] * (limit - 1), react("finish"), extract("3"))
    assert run(ReactExtract(max_iterations=limit), finishing).stop is StopReason.FINISHED
    assert finishing.roles == [Role.DECIDE] * limit + [Role.ANSWER]


@row("B2-11")
def test_an_unreadable_reply_can_be_an_observation_that_uses_its_iteration() -> None:
    model = Script(BAD, react("finish"), extract("x"))
    outcome = run(ReactExtract(on_parse_error="observe", max_iterations=2), model)
    assert (outcome.stop, outcome.steps) == (StopReason.FINISHED, 2)
    assert list(trajectory(outcome))[:2] == ["error_0", "thought_1"]
    assert "[[ ## error_0 ## ]]\nThe reply lacks" in shown(model.requests[1])
    only_bad = run(ReactExtract(on_parse_error="observe", max_iterations=2), Script(BAD, BAD, extract("x")))
    assert (only_bad.stop, only_bad.steps) == (StopReason.FORCED, 2)


@row("B2-6")
def test_extract_has_attempts_of_its_own() -> None:
    long = ContextOverflow("long")
    steps = [react("add", f"Step {k}.", a=1, b=2) for k in range(3)]
    script = Script(*steps, long, react("finish"), long, extract("3"))
    outcome = run(ReactExtract(overflow_attempts=1), script)
    assert (outcome.answer, outcome.stop) == ("3", StopReason.FINISHED)
    assert [f"Step {k}." in shown(script.requests[-1]) for k in range(3)] == [False, False, True]


@row("B2-8")
def test_an_answer_of_another_type_is_asked_for_again_with_what_is_wrong() -> None:
    for retries, asked, answer in ((2, 4, [7]), (1, 3, None)):
        model = Script(react("finish"), extract('["many"]'), BAD, extract("[7]"))
        outcome = ReactExtract(parse_retries=retries).run_sync(Query("Q", schema=list[int]), Toolbox(), model)
        assert (len(model.requests), outcome.answer, outcome.steps) == (asked, answer, 1)
    assert list(trajectory(outcome)) == ["thought_0", "tool_name_0", "tool_args_0", "observation_0"]


@pytest.mark.parametrize(
    ("last", "answer", "stop"),
    [
        (react("finish", "T.", answer=0), 0, StopReason.FINISHED),
        (react("finish", "T.", answer=""), "", StopReason.FINISHED),
        (react("finish", "T."), "T.", StopReason.FINISHED),
        (BAD, "First.", StopReason.PARSE_FAILED),
        (react("add", "Last.", a=1, b=2), "Last.", StopReason.MAX_STEPS),
    ],
)
@row("react_extract.extract")
def test_without_extract_a_false_answer_is_one_and_the_last_thought_stands_for_none(
    last: str, answer: Any, stop: StopReason
) -> None:
    outcome = run(ReactExtract(extract=False, max_iterations=2), Script(react("add", "First.", a=1, b=2), last))
    assert (outcome.answer, outcome.stop, outcome.steps) == (answer, stop, 2)
