"""React -> Extract: faults of its document, and the program as a dspy.Module."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from tests.loops.helpers import Script, add, extract, react
from tests.loops.react_extract.helpers import BAD, run, shown, trajectory
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.react_extract import ReactExtract, ReactExtractProgram
from whichloop.protocol import ContextOverflow, ProviderError, Query, Role, StopReason, Tool, Toolbox, run_sync

ADD = react("add", a=1, b=2)
FINISH = react("finish")
LONG = ContextOverflow("long")
A = Role.ANSWER

# --- faults ---


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        (react("divide", a=1, b=0), "Error: float division by zero"),
        (react("add", a=1), "Error: Tool 'add': missing argument 'b'"),
        (react("fly"), "Error: Unknown tool fly"),
    ],
)
@row("B2-2", "B2-3", "X-17", "G-4")
def test_a_call_that_fails_is_an_observation_that_extract_sees_without_traceback(reply: str, seen: str) -> None:
    model = Script(reply, reply, FINISH, extract("cannot say"))
    outcome = run(ReactExtract(), model)
    assert trajectory(outcome)["observation_0"].startswith(seen)
    assert shown(model.requests[-1]).count(seen) == 2
    assert "Traceback" not in shown(model.requests[1])
    assert (outcome.answer, outcome.stop) == ("cannot say", StopReason.FINISHED)


@row("B2-5")
def test_a_program_refuses_a_tool_named_finish() -> None:
    with pytest.raises(ValueError, match="'finish'"):
        ReactExtractProgram([Tool.from_function(lambda: "x", name="finish")])


STEPS = [react("add", f"Step {k}.", a=1, b=2) for k in range(4)]


@pytest.mark.parametrize(
    ("options", "replies", "stop", "kept"),
    [
        ({"overflow_attempts": 0}, [*STEPS, LONG, extract("3")], "context_overflow", {0, 1, 2, 3}),
        ({"overflow_attempts": 1}, [*STEPS, LONG, LONG, extract("3")], "context_overflow", {1, 2, 3}),
        ({"overflow_attempts": 3}, [*STEPS, *[LONG] * 4, extract("3")], "context_overflow", {3}),
        ({"max_iterations": 4}, [*STEPS, LONG, extract("3")], "forced", {1, 2, 3}),
        ({"overflow_attempts": 1}, [*STEPS[:3], LONG, FINISH, LONG, extract("3")], "finished", {2}),
    ],
)
@row("B2-6", "X-17", "react_extract.overflow_attempts")
def test_each_attempt_drops_an_iteration_and_extract_has_attempts_of_its_own(
    options: dict[str, Any], replies: list[Any], stop: str, kept: set[int]
) -> None:
    model = Script(*replies)
    outcome = run(ReactExtract(**options), model)
    assert (outcome.answer, outcome.stop, len(model.requests)) == ("3", stop, len(replies))
    assert {k for k in range(4) if f"Step {k}." in shown(model.requests[-1])} == kept
    assert {f"observation_{k}" for k in range(3)} <= trajectory(outcome).keys()


def test_overflows_of_react_are_counted_over_the_whole_run() -> None:
    model = Script(ADD, ADD, LONG, ADD, LONG, LONG, LONG, extract("A"))
    outcome = run(ReactExtract(overflow_attempts=2), model)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("A", StopReason.CONTEXT_OVERFLOW, 3)
    assert [shown(request)[6:15] for request in model.requests[2:]] == [*(f"thought_{k}" for k in (0, 1, 1, 2, 2)), ""]
    assert [f"thought_{k}" in trajectory(outcome) for k in range(3)] == [True] * 3


@pytest.mark.parametrize(
    ("failure", "stop"), [(BAD, "parse_failed"), (ProviderError("down"), "provider_error"), (LONG, "context_overflow")]
)
@row("B2-8", "X-17")
def test_extract_failing_keeps_the_trajectory_and_says_why(failure: Any, stop: str) -> None:
    outcome = run(ReactExtract(max_iterations=1), Script(ADD, then=failure))
    assert (outcome.answer, outcome.stop, trajectory(outcome)["observation_0"]) == (None, stop, 3)
    assert outcome.details["error"].startswith("The reply lacks reasoning, answer." if failure == BAD else str(failure))


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        (react("divide", a=1, b=0), "The run was cut off at its limit"),
        (BAD, "The last step could not be read"),
        (LONG, "The run ended because the trajectory no longer fits"),
        (FINISH, None),
    ],
)
@row("B2-9", "react_extract.tell_extract")
def test_option_tell_extract_passes_the_reason_which_is_not_told_by_default(reply: Any, note: str | None) -> None:
    texts = []
    for told in (False, True):
        model = Script(reply, extract("x"))
        run(ReactExtract(max_iterations=1, tell_extract=told), model)
        texts.append(shown(model.requests[-1]))
    assert "[[ ## note ## ]]" not in texts[0]
    assert texts[1].removeprefix(texts[0]).lstrip().startswith(f"[[ ## note ## ]]\n{note}" if note else "")
    assert note or texts[1] == texts[0]


@pytest.mark.parametrize("retries", [0, 1, 2])
@row("react_extract.parse_retries", "B2-8")
def test_option_parse_retries_asks_extract_again_with_the_error_shown(retries: int) -> None:
    model = Script(FINISH, *[BAD] * 2, extract("x"))
    outcome = run(ReactExtract(parse_retries=retries), model)
    assert model.roles.count(A) == retries + 1
    assert outcome.answer == ("x" if retries == 2 else None)
    for k in range(1, retries + 1):
        assert f"[[ ## error_{k} ## ]]\nYour last reply could not be read: The reply lacks" in shown(model.requests[-1])
    typed = Script(FINISH, extract('["many"]'), BAD, extract("[7]"))
    outcome = ReactExtract(parse_retries=retries).run_sync(Query("Q", schema=list[int]), Toolbox(), typed)
    assert (outcome.answer, outcome.steps) == ([7] if retries == 2 else None, 1)


# --- the program ---


def answering(request: Any) -> Any:
    """A model that adds once, finishes, and answers; a pure function of the request."""
    if request.role is Role.ANSWER:
        return "[[ ## reasoning ## ]]\nIt is the sum.\n[[ ## answer ## ]]\n3"
    name, args = ("finish", "{}") if "observation_0" in shown(request) else ("add", '{"a": 1, "b": 2}')
    return f"[[ ## next_thought ## ]]\nOn.\n[[ ## next_tool_name ## ]]\n{name}\n[[ ## next_tool_args ## ]]\n{args}"


def test_program_is_called_like_any_module() -> None:
    program = ReactExtractProgram([add])
    with dspy.context(lm=lm_of(Script(then=answering))):
        prediction = program(query="1 + 2?")
        again = run_sync(program.acall(query="1 + 2?"))
    assert (prediction.answer, prediction.reasoning, prediction.stop) == ("3", "It is the sum.", "finished")
    assert prediction.trajectory["observation_0"] == 3
    assert again.toDict() == prediction.toDict()


@row("S2-8")
def test_program_has_two_predictors_and_extract_reasons_first() -> None:
    program = ReactExtractProgram([add])
    assert [name for name, _ in program.named_predictors()] == ["react", "extract"]
    assert list(program.extract.signature.output_fields) == ["reasoning"]
    assert list(program.react.signature.input_fields) == list(program.extract.signature.input_fields) == ["query", "trajectory"]


def test_program_compiles_with_bootstrap_few_shot_and_keeps_the_traced_steps() -> None:
    trainset = [dspy.Example(query="1 + 2?", answer="3").with_inputs("query")]
    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, prediction, trace=None: example.answer == prediction.answer,
        max_bootstrapped_demos=1,
        max_labeled_demos=0,
    )
    model = Script(then=answering)
    with dspy.context(lm=lm_of(model)):
        compiled = optimizer.compile(ReactExtractProgram([add]), trainset=trainset)
    assert model.roles == [Role.DECIDE, Role.DECIDE, Role.ANSWER]
    demo = compiled.react.demos[0]
    assert set(demo.keys()) >= {"query", "trajectory", "next_thought", "next_tool_name", "next_tool_args"}
    assert compiled.extract.demos[0]["answer"] == "3"
    ReactExtract(program=compiled.program).run_sync(Query("Q"), Toolbox([add]), again := Script(then=answering))
    assert "1 + 2?" in again.requests[0].messages[1].content
