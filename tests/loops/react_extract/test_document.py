"""Design 2, React -> Extract: what its document says, its faults, what extract does after each end, and each option."""

from __future__ import annotations

from typing import Any, NamedTuple

import dspy
import pytest

from tests.loops.helpers import Script, add, extract, react
from tests.loops.react_extract.helpers import BAD, TOOLS, events, run, shown, system, trajectory
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.react_extract import ReactAgent, ReactExtract, ReactExtractProgram
from whichloop.loops.react_extract_codecs import ExtractCodec, ReactCodec, instructions_with_tools
from whichloop.protocol import ContextOverflow, ProviderError, Query, Role, StopReason, Tool, Toolbox, ToolCall, run_sync
from whichloop.protocol.moves import Act, Inexpressible

ADD = react("add", a=1, b=2)
FINISH = react("finish")
LONG = ContextOverflow("long")
D, A = Role.DECIDE, Role.ANSWER


@row("S2-1", "S2-5")
def test_the_trajectory_is_a_dict_with_four_numbered_keys_per_step() -> None:
    outcome = run(ReactExtract(), Script(react("add", "First.", a=1, b=2), react("finish", "Done."), extract("3")))
    assert trajectory(outcome) == {
        "thought_0": "First.",
        "tool_name_0": "add",
        "tool_args_0": {"a": 1, "b": 2},
        "observation_0": 3,
        "thought_1": "Done.",
        "tool_name_1": "finish",
        "tool_args_1": {},
        "observation_1": "Completed.",
    }


class Case(NamedTuple):
    """A run, and what comes of it."""

    options: dict[str, Any]
    replies: list[Any]
    stop: str
    answer: Any
    steps: int
    roles: list[Role]


CASES = {
    "finishing at once": Case({}, [FINISH, extract("x")], "finished", "x", 1, [D, A]),
    "the default limit": Case({}, [*[ADD] * 5, extract("3")], "forced", "3", 5, [*[D] * 5, A]),
    "a limit": Case({"max_iterations": 1}, [ADD, extract("3")], "forced", "3", 1, [D, A]),
    "finish is an iteration": Case({"max_iterations": 2}, [ADD, FINISH, extract("3")], "finished", "3", 2, [D, D, A]),
    "finish with arguments": Case({}, [react("finish", answer="early"), extract("late")], "finished", "late", 1, [D, A]),
    "an unreadable reply": Case({}, [ADD, BAD, extract("3")], "parse_failed", "3", 2, [D, D, A]),
    "an unreadable reply, seen": Case(
        {"on_parse_error": "observe", "max_iterations": 2}, [BAD, FINISH, extract("x")], "finished", "x", 2, [D, D, A]
    ),
    "unreadable replies, seen": Case(
        {"on_parse_error": "observe", "max_iterations": 2}, [BAD, BAD, extract("x")], "forced", "x", 2, [D, D, A]
    ),
    "an unreadable answer": Case({}, [FINISH, BAD], "parse_failed", None, 1, [D, A]),
    "an unknown tool": Case({"max_iterations": 2}, [react("fly"), FINISH, extract("x")], "finished", "x", 2, [D, D, A]),
    "an unknown tool ends": Case(
        {"on_unknown_tool": "finish", "on_parse_error": "observe"}, [react("fly"), extract("x")], "parse_failed", "x", 1, [D, A]
    ),
    "nothing to drop": Case({}, [LONG, extract("x")], "context_overflow", "x", 0, [D, A]),
    "no attempts": Case({"overflow_attempts": 0}, [ADD, LONG, extract("x")], "context_overflow", "x", 1, [D, D, A]),
    "one attempt": Case({"overflow_attempts": 1}, [ADD, LONG, FINISH, extract("x")], "finished", "x", 2, [D, D, D, A]),
    "extract overflows for good": Case({"max_iterations": 1}, [ADD, LONG, LONG], "context_overflow", None, 1, [D, A, A]),
    "the provider fails": Case({"parse_retries": 2}, [FINISH, ProviderError("down")], "provider_error", None, 1, [D, A]),
    "without extract": Case({"extract": False}, [ADD, react("finish", "Sure.", answer=3)], "finished", 3, 2, [D, D]),
    "an answer of zero": Case({"extract": False}, [react("finish", answer=0)], "finished", 0, 1, [D]),
    "an empty answer": Case({"extract": False}, [react("finish", answer="")], "finished", "", 1, [D]),
    "a thought for an answer": Case({"extract": False}, [react("finish", "It is 3.")], "finished", "It is 3.", 1, [D]),
    "the last thought": Case({"extract": False}, [react("add", "First.", a=1, b=2), BAD], "parse_failed", "First.", 2, [D, D]),
    "the last thought at the limit": Case(
        {"extract": False, "max_iterations": 1}, [react("add", "Last.", a=1, b=2)], "max_steps", "Last.", 1, [D]
    ),
    "no thought at all": Case({"extract": False}, [BAD], "parse_failed", None, 1, [D]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@row("G-2", "S2-2", "S2-4", "S2-6", "S2-7", "B2-3", "B2-4", "B2-7", "B2-8", "B2-10", "B2-11", "X-6", "X-17", "X-21")
@row("react_extract.max_iterations", "react_extract.extract", "react_extract.on_parse_error", "react_extract.on_unknown_tool")
@row("react_extract.overflow_attempts")
def test_a_run_goes_as_its_replies_say(case: Case) -> None:
    loop, model = ReactExtract(**case.options), Script(*case.replies)
    outcome = run(loop, model)
    assert (outcome.stop, outcome.answer, outcome.steps, model.roles) == (case.stop, case.answer, case.steps, case.roles)
    assert outcome.stop in loop.stops
    assert outcome.details.keys() >= {"trajectory"}


@row("S2-3")
def test_a_react_call_gets_trajectory_and_tools_and_gives_thought_name_and_arguments() -> None:
    model = Script(react("add", "Sum.", a=1, b=2), FINISH, extract("3"))
    run(ReactExtract(), model)
    second = model.requests[1]
    for tool in ("- add: Add two numbers. Arguments: ", "- divide: Divide a by b. Arguments: ", "- events: "):
        assert tool in system(second)
    assert shown(second).startswith("[[ ## thought_0 ## ]]\nSum.")
    assert isinstance(second.codec, ReactCodec)
    assert list(second.codec.signature.output_fields) == ["next_thought", "next_tool_name", "next_tool_args"]
    assert "[[ ## query ## ]]\nQ\n" in second.messages[-1].content


@row("S2-8", "S2-16")
def test_extract_is_a_chain_of_thought_over_query_and_whole_trajectory() -> None:
    steps = [react("add", f"Step {k}.", a=k, b=1) for k in range(3)]
    model = Script(*steps, react("finish", "Enough."), extract("3", "By adding."))
    outcome = run(ReactExtract(), model)
    request = model.requests[-1]
    assert isinstance(request.codec, ExtractCodec)
    assert list(request.codec.signature.output_fields) == ["reasoning", "answer"]
    assert request.messages[-1].content.startswith("[[ ## query ## ]]\nQ\n")
    assert all(f"Step {k}." in shown(request) for k in range(3))
    assert outcome.details.keys() == {"reasoning", "trajectory"}
    assert outcome.details["reasoning"] == "By adding."


@row("S2-9")
def test_one_react_call_returns_trajectory_name_and_arguments_without_observation() -> None:
    agent = ReactAgent(ReactExtract().predictors["react"], Toolbox(TOOLS))
    before = {"thought_0": "a", "tool_name_0": "add", "tool_args_0": {}, "observation_0": 1, "error_1": "unreadable"}
    kept = dict(before)
    model = Script(react("add", "b", a=1, b=2), react("finish", "c"))
    after, name, args = run_sync(agent.act(Query("Q"), before, model))
    assert (name, args) == ("add", {"a": 1, "b": 2})
    assert after == before | {"thought_2": "b", "tool_name_2": "add", "tool_args_2": {"a": 1, "b": 2}}
    assert before == kept
    assert run_sync(agent.act(Query("Q"), after, model))[1:] == ("finish", {})
    agent = ReactAgent(ReactExtract(extract=False).predictors["react"], Toolbox(), extract=False)
    after, name, args = run_sync(agent.act(Query("Q"), {}, Script(react("finish", answer="A"))))
    assert (name, args, after["tool_args_0"]) == ("finish", {"answer": "A"}, {"answer": "A"})


@row("S2-4", "S2-10", "S2-14")
def test_instructions_are_built_from_the_tools_given() -> None:
    for tools in ((add,), (events,), (add, events)):
        model = Script(FINISH, extract("x"))
        run(ReactExtract(), model, *tools)
        told = system(model.requests[0])
        assert ["- add: " in told, "- events: " in told] == [add in tools, events in tools]
    assert instructions_with_tools("I.", Toolbox([add])).splitlines() == [
        "I.",
        "",
        "Tools:",
        '- add: Add two numbers. Arguments: {"a":{"type":"integer"},"b":{"type":"integer"}}',
        "- finish: takes no arguments; the trajectory holds all that the answer needs.",
    ]
    model = Script(FINISH)
    run(ReactExtract(extract=False), model)
    assert 'finish: ends the run; give your answer as {"answer": ...}' in system(model.requests[0])


@row("S2-11", "S2-12")
def test_the_debug_switch_writes_prompts_and_replies_to_stderr_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAX_ITERATIONS", "1")
    for switch, counts in ((None, [0] * 3), ("false", [0] * 3), ("true", [2, 2, 1]), ("TRUE", [2, 2, 1])):
        if switch:
            monkeypatch.setenv("DSPY_DEBUG", switch)
        assert run(ReactExtract(), Script(FINISH, extract("THIS"))).answer == "THIS"
        with dspy.context(lm=lm_of(Script(FINISH, extract("THIS")))):
            ReactExtractProgram()(query="Q")
        written = capsys.readouterr()
        assert [written.err.count(word) for word in ("prompt:", "reply:", "THIS")] == [2 * count for count in counts], switch
        assert written.out == ""


@row("S2-13")
def test_one_tool_per_iteration() -> None:
    calls: list[int] = []

    def spy(n: int) -> None:
        calls.append(n)

    model = Script(react("spy", n=1), react("spy", n=2), FINISH, extract("x"))
    run(ReactExtract(), model, spy)
    assert calls == [1, 2]
    codec = model.requests[0].codec
    assert codec is not None
    assert codec.max_calls == 1
    with pytest.raises(Inexpressible):
        codec.render(Act("", (ToolCall("spy", {"n": 1}), ToolCall("spy", {"n": 2}))))


PARSING = "Failed to parse field next_tool_args: it must be a JSON object, not: "
REPLY = "[[ ## next_thought ## ]]\nt\n[[ ## next_tool_name ## ]]\nadd\n[[ ## next_tool_args ## ]]\n"
LACKS_ALL = "The reply lacks next_thought, next_tool_name, next_tool_args"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        *((f"{REPLY}{args}", f"{PARSING}{args}") for args in ("[1, 2]", "3", "null", "", "[1,\n2]")),
        (f"{REPLY}{'[' * 100_000}", "A value is nested too deep to be read."),
        (
            "[[ ## next_thought ## ]]\nt\n[[ ## next_tool_args ## ]]\n{}",
            "The reply lacks next_tool_name. It must have the sections ",
        ),
        *((reply, LACKS_ALL) for reply in ("", " \n", "[[ ## completed ## ]]", "{}", "[]")),
    ],
    ids=lambda text: text[-30:],
)
@row("S2-15", "X-6", "B2-4")
def test_a_reply_without_its_fields_is_a_parse_error_that_extract_sees(reply: str, text: str) -> None:
    model = Script(ADD, reply, extract("x"))
    outcome = run(ReactExtract(), model)
    assert [key for key in trajectory(outcome) if key.endswith("_1")] == ["error_1"]
    assert trajectory(outcome)["error_1"].startswith(text)
    assert outcome.stop is StopReason.PARSE_FAILED
    assert f"[[ ## error_1 ## ]]\n{trajectory(outcome)['error_1']}" in shown(model.requests[-1])


EVENT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "What it is called"},
        "seats": {"type": "integer"},
        "price": {"type": "number", "title": "In euro"},
        "sold out": {"type": "boolean"},
        "reasoning": {"type": "array"},
        "extra": {"type": ["object", "null"]},
        "anything": True,
    },
}


@row("S2-16")
def test_extracts_fields_follow_the_querys_schema() -> None:
    said = {"reasoning": "r", "name": "Jazz", "seats": 40, "price": 12.5, "sold_out": "false", "answer_reasoning": '["a"]'}
    said |= {"extra": "null", "anything": '{"x": 1}'}
    model = Script(FINISH, "".join(f"[[ ## {name} ## ]]\n{text}\n" for name, text in said.items()))
    outcome = run_sync(ReactExtract().run(Query("Q", schema=EVENT), Toolbox(), model))
    assert outcome.answer == {
        "name": "Jazz",
        "seats": 40,
        "price": 12.5,
        "sold out": False,
        "reasoning": ["a"],
        "extra": None,
        "anything": {"x": 1},
    }
    assert "`name` (str): What it is called" in system(model.requests[1])
    assert "`price` (float): In euro" in system(model.requests[1])


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (None, "3", "3"),
        ({"type": "number"}, "3", 3.0),
        ({"type": ["string", "null"]}, '"x"', "x"),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({}, "x", "x"),
        ({"enum": ["a", "b"]}, "b", "b"),
    ],
)
@row("S2-16")
def test_a_schema_without_properties_is_one_field(schema: Any, text: str, value: Any) -> None:
    model = Script(FINISH, extract(text))
    assert run_sync(ReactExtract().run(Query("Q", schema=schema), Toolbox(), model)).answer == value


@row("S2-17")
def test_observations_are_kept_as_returned_and_shown_as_text() -> None:
    model = Script(react("events", "Look.", city="Tōkyō"), FINISH, extract("Jazz"))
    outcome = run(ReactExtract(), model)
    assert trajectory(outcome)["observation_0"] == [{"name": "Jazz", "city": "Tōkyō"}]
    assert shown(model.requests[1]) == (
        "[[ ## thought_0 ## ]]\nLook.\n\n[[ ## tool_name_0 ## ]]\nevents\n\n"
        '[[ ## tool_args_0 ## ]]\n{"city": "Tōkyō"}\n\n[[ ## observation_0 ## ]]\n[{"name": "Jazz", "city": "Tōkyō"}]'
    )


# --- faults, and the program as a dspy.Module ---


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
