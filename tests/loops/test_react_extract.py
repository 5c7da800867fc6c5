"""Design 2, React -> Extract: a test for every row, named after it; then the same loop as a dspy.Module."""
# ruff: noqa: N802  (row ids keep their capitals)

from __future__ import annotations

import asyncio
import copy
import dataclasses
import gc
import inspect
import json
import logging
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopbench.dspy_seam import lm_of
from loopbench.loops.bare import Bare
from loopbench.loops.react_extract import (
    ExtractAgent,
    ExtractCodec,
    FinishingReactCodec,
    ReactAgent,
    ReactCodec,
    ReactExtract,
    ReactExtractProgram,
    ReactStep,
    format_trajectory,
    instructions_with_tools,
)
from loopbench.protocol import (
    SILENT,
    Act,
    BudgetExceeded,
    ContextOverflow,
    Inexpressible,
    Observer,
    Outcome,
    ProviderError,
    Query,
    Role,
    StopReason,
    Tool,
    Toolbox,
    ToolCall,
    run_sync,
)
from loopbench.protocol.names import parse_spec
from loopbench.runs.options import options_of
from loopbench.runs.registry import make_loop


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def divide(a: float, b: float) -> float:
    """Divide a by b."""
    return a / b


def events(city: str) -> list[dict[str, str]]:
    """What is on in a city."""
    return [{"name": "Jazz", "city": city}]


TOOLS = (add, divide, events)
BAD = "I think the answer is 3."


def run(loop: ReactExtract, model: Any, *functions: Tool | Callable[..., Any], observer: Observer = SILENT) -> Outcome:
    return run_sync(loop.run(Query("Q"), Toolbox(functions or TOOLS), model, observer))


def trajectory(outcome: Outcome) -> dict[str, Any]:
    return dict(outcome.details["trajectory"])


def shown(request: Any) -> str:
    """The trajectory as a request shows it."""
    content: str = request.messages[-1].content
    return content.partition("[[ ## trajectory ## ]]\n")[2].partition("\n\nRespond with the corresponding output fields")[0]


def system(request: Any) -> str:
    content: str = request.messages[0].content
    return content


# --- the law: any reply, any tool ---

CONFIGS = st.builds(
    ReactExtract,
    max_iterations=st.integers(1, 5),
    extract=st.booleans(),
    on_parse_error=st.sampled_from(["finish", "observe"]),
    on_unknown_tool=st.sampled_from(["observe", "finish"]),
    parse_retries=st.integers(0, 2),
    overflow_attempts=st.integers(0, 3),
    tell_extract=st.booleans(),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
MARKED = st.builds(
    "[[ ## next_thought ## ]]\n{}\n[[ ## next_tool_name ## ]]\n{}\n[[ ## next_tool_args ## ]]\n{}".format,
    st.text(max_size=8),
    st.sampled_from(["add", "any", "finish", "nope", ""]),
    st.one_of(JSON.map(json.dumps), st.text(max_size=8), st.just('{"value": 1}')),
)
EXTRACTED = st.builds("[[ ## reasoning ## ]]\n{}\n[[ ## answer ## ]]\n{}".format, st.text(max_size=8), st.text(max_size=8))
FAILURES = st.sampled_from([ProviderError("down"), ContextOverflow("too long")])
REPLIES = st.one_of(MARKED, MARKED, EXTRACTED, st.text(max_size=20), FAILURES)


class Odd:
    """A result that JSON cannot say and whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


RESULTS = st.one_of(JSON, st.sampled_from([Odd(), {1, 2}, b"\xff", object(), SystemExit(3), KeyError("k"), ValueError("v")]))


@given(loop=CONFIGS, replies=st.lists(REPLIES, max_size=7), result=RESULTS)
@settings(deadline=None, max_examples=80)
def test_X_21_G_9_any_reply_and_any_tool_end_in_an_outcome_within_the_limits(
    loop: ReactExtract, replies: list[Any], result: Any, kit: Any
) -> None:
    def anything(value: Any = None) -> Any:
        """Gives whatever it is to give."""
        if isinstance(result, BaseException):
            raise result
        return result

    model = kit.Script(*replies, then=BAD)
    tools = [Tool.from_function(f, name=n, blocking=False) for f, n in ((add, "add"), (anything, "any"))]
    outcome = run(loop, model, *tools)
    decisions, answers = model.roles.count(Role.DECIDE), model.roles.count(Role.ANSWER)
    assert outcome.stop in loop.stops
    assert outcome.steps <= loop.max_iterations
    assert outcome.steps <= decisions <= outcome.steps + loop.overflow_attempts + 1
    assert answers <= (loop.parse_retries + loop.overflow_attempts + 1 if loop.extract else 0)
    assert sorted(model.roles, key=str, reverse=True) == model.roles, "extract stands last"
    indices = sorted({int(key.rpartition("_")[2]) for key in trajectory(outcome)})
    assert indices == list(range(outcome.steps))
    for k in indices:
        kinds = [key.rpartition("_")[0] for key in trajectory(outcome) if key.endswith(f"_{k}")]
        assert kinds in (["thought", "tool_name", "tool_args", "observation"], ["error"])


# --- S2: what the document says ---


def test_S2_1_the_trajectory_is_a_dict_with_four_numbered_keys_per_step(kit: Any) -> None:
    outcome = run(ReactExtract(), kit.Script(kit.react("add", "First.", a=1, b=2), kit.react("finish", "Done."), kit.extract("3")))
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


def test_S2_2_B2_7_the_limit_is_five_by_default(kit: Any) -> None:
    model = kit.Script(*[kit.react("add", a=1, b=2)] * 5, kit.extract("3"))
    run(ReactExtract(), model)
    assert ReactExtract().max_iterations == 5
    assert model.roles == [Role.DECIDE] * 5 + [Role.ANSWER]


def test_S2_3_a_react_call_gets_trajectory_and_tool_list_and_gives_thought_name_and_arguments(kit: Any) -> None:
    model = kit.Script(kit.react("add", "Sum.", a=1, b=2), kit.react("finish"), kit.extract("3"))
    run(ReactExtract(), model)
    second = model.requests[1]
    for tool in ("- add: Add two numbers. Arguments: ", "- divide: Divide a by b. Arguments: ", "- events: "):
        assert tool in system(second)
    assert shown(second).startswith("[[ ## thought_0 ## ]]\nSum.")
    assert list(second.codec.signature.output_fields) == ["next_thought", "next_tool_name", "next_tool_args"]
    assert "[[ ## query ## ]]\nQ\n" in second.messages[-1].content


def test_S2_4_finish_is_always_offered_and_leads_to_extract(kit: Any) -> None:
    model = kit.Script(kit.react("finish"), kit.extract("42"))
    outcome = run(ReactExtract(), model)
    assert "- finish: takes no arguments" in system(model.requests[0])
    assert "- finish: " in instructions_with_tools("I.", Toolbox())
    assert trajectory(outcome)["observation_0"] == "Completed."
    assert model.roles == [Role.DECIDE, Role.ANSWER]
    assert "Completed." in shown(model.requests[1])
    assert outcome.answer == "42"


def test_S2_5_a_tool_runs_its_result_is_the_observation_and_the_iteration_rises(kit: Any) -> None:
    model = kit.Script(kit.react("add", a=1, b=2), kit.react("add", a=3, b=4), kit.react("finish"), kit.extract("x"))
    outcome = run(ReactExtract(), model)
    assert [trajectory(outcome)[f"observation_{k}"] for k in (0, 1)] == [3, 7]
    assert outcome.steps == 3


def test_S2_6_at_the_limit_extract_follows_as_well(kit: Any) -> None:
    outcome = run(ReactExtract(max_iterations=1), kit.Script(kit.react("add", a=1, b=2), kit.extract("3")))
    assert (outcome.answer, outcome.stop) == ("3", StopReason.FORCED)


def test_S2_7_an_unreadable_react_reply_is_logged_and_leads_to_extract(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    model = kit.Script(kit.react("add", a=1, b=2), BAD, kit.extract("3"))
    with caplog.at_level(logging.INFO, "loopbench.loops.react_extract"):
        outcome = run(ReactExtract(), model)
    assert "iteration 1: The reply lacks next_thought" in caplog.text
    assert model.roles == [Role.DECIDE, Role.DECIDE, Role.ANSWER]
    assert (outcome.answer, outcome.stop) == ("3", StopReason.PARSE_FAILED)


def test_S2_7_G_3_a_provider_error_makes_no_second_call(kit: Any) -> None:
    for replies in ([], [kit.react("add", a=1, b=2)], [kit.react("finish")]):
        model = kit.Script(*replies, ProviderError("down"), then=kit.extract("x"))
        outcome = run(ReactExtract(parse_retries=2), model)
        assert (outcome.answer, outcome.stop, outcome.details["error"]) == (None, StopReason.PROVIDER_ERROR, "down")
        assert len(model.requests) == len(replies) + 1


def test_S2_8_extract_is_a_chain_of_thought_over_query_and_whole_trajectory(kit: Any) -> None:
    steps = [kit.react("add", f"Step {k}.", a=k, b=1) for k in range(3)]
    model = kit.Script(*steps, kit.react("finish", "Enough."), kit.extract("3", "By adding."))
    outcome = run(ReactExtract(), model)
    request = model.requests[-1]
    assert list(request.codec.signature.output_fields) == ["reasoning", "answer"]
    assert request.messages[-1].content.startswith("[[ ## query ## ]]\nQ\n")
    assert all(f"Step {k}." in shown(request) for k in range(3))
    assert outcome.details["reasoning"] == "By adding."


def test_S2_9_one_react_call_returns_trajectory_name_and_arguments_without_observation(kit: Any) -> None:
    agent = ReactAgent(dspy.Predict(ReactStep))
    before = {"thought_0": "a", "tool_name_0": "add", "tool_args_0": {}, "observation_0": 1, "error_1": "unreadable"}
    kept = dict(before)
    model = kit.Script(kit.react("add", "b", a=1, b=2), kit.react("finish", "c"))
    after, name, args = run_sync(agent.act(Query("Q"), Toolbox(TOOLS), before, model))
    assert (name, args) == ("add", {"a": 1, "b": 2})
    assert after == before | {"thought_2": "b", "tool_name_2": "add", "tool_args_2": {"a": 1, "b": 2}}
    assert before == kept
    _, name, args = run_sync(agent.act(Query("Q"), Toolbox(TOOLS), after, model))
    assert (name, args) == ("finish", {})


def test_S2_9_without_extract_the_arguments_of_finish_are_returned_too(kit: Any) -> None:
    agent = ReactAgent(dspy.Predict(ReactStep), extract=False)
    after, name, args = run_sync(agent.act(Query("Q"), Toolbox(), {}, kit.Script(kit.react("finish", answer="A"))))
    assert (name, args, after["tool_args_0"]) == ("finish", {"answer": "A"}, {"answer": "A"})


def test_S2_10_S2_14_instructions_are_built_from_the_tools_given(kit: Any) -> None:
    texts = []
    for tools in ((add,), (events,), (add, events)):
        model = kit.Script(kit.react("finish"), kit.extract("x"))
        run(ReactExtract(), model, *tools)
        texts.append(system(model.requests[0]))
    assert ["- add: " in text for text in texts] == [True, False, True]
    assert ["- events: " in text for text in texts] == [False, True, True]
    assert instructions_with_tools("I.", Toolbox([add])).splitlines() == [
        "I.",
        "",
        "Tools:",
        '- add: Add two numbers. Arguments: {"a":{"type":"integer"},"b":{"type":"integer"}}',
        "- finish: takes no arguments; the trajectory holds all that the answer needs.",
    ]


class Watched(dict[str, str]):
    """An environment that keeps the names that loopbench reads of it."""

    read: set[str]

    def get(self, key: str, default: Any = None) -> Any:
        frame = sys._getframe(1)
        module = str(frame.f_globals["__name__"])
        if module == "os" and frame.f_back is not None:
            module = str(frame.f_back.f_globals["__name__"])
        if module.startswith("loopbench"):
            self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        return str(self.get(key))


def test_S2_11_the_loop_reads_no_environment_but_the_debug_switch(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(os.environ, OPENAI_API_KEY="k", MODEL="m", MAX_ITERATIONS="1")
    watched.read = set()
    monkeypatch.setattr(os, "environ", watched)
    outcome = run(ReactExtract(), kit.Script(kit.react("add", a=1, b=2), kit.react("finish"), kit.extract("3")))
    assert outcome.steps == 2
    assert watched.read == {"DSPY_DEBUG"}


DEBUGGED = """\
import os, sys
import dspy
from loopbench.dspy_seam import lm_of
from loopbench.loops.react_extract import ReactExtract, ReactExtractProgram
from loopbench.protocol import Capabilities, Query, Reply, Role, Toolbox

class Model:
    name, capabilities = "m", Capabilities()
    async def complete(self, request):
        if request.role is Role.ANSWER:
            return Reply("[[ ## reasoning ## ]]\\nWHY\\n[[ ## answer ## ]]\\nTHIS")
        return Reply("[[ ## next_thought ## ]]\\nTHOUGHT\\n[[ ## next_tool_name ## ]]\\nfinish\\n[[ ## next_tool_args ## ]]\\n{}")

for value in (None, "false", "true", "TRUE"):
    if value:
        os.environ["DSPY_DEBUG"] = value
    for path in ("model", "predictor"):
        print(f"<{value} {path}>", file=sys.stderr)
        if path == "model":
            ReactExtract().run_sync(Query("QUESTION"), Toolbox(), Model())
        else:
            with dspy.context(lm=lm_of(Model())):
                ReactExtractProgram()(query="QUESTION")
"""


def test_S2_12_dspy_debug_writes_prompts_and_replies_to_stderr(kit: Any) -> None:
    done = kit.python(DEBUGGED)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    parts = re.split(r"<(\w+ \w+)>\n", done.stderr)[1:]
    written = dict(zip(parts[::2], parts[1::2], strict=True))
    assert written.keys() == {f"{value} {path}" for value in ("None", "false", "true", "TRUE") for path in ("model", "predictor")}
    for switch, text in written.items():
        if switch.startswith(("None", "false")):
            assert text == "", switch
        else:
            assert [text.count(word) for word in ("prompt:", "reply:", "THIS", "WHY")] == [2, 2, 1, 1], switch
            assert text.count("QUESTION") == 2, switch


def test_S2_13_one_tool_per_iteration(kit: Any) -> None:
    calls: list[int] = []

    def spy(n: int) -> None:
        """Count."""
        calls.append(n)

    model = kit.Script(kit.react("spy", n=1), kit.react("spy", n=2), kit.react("finish"), kit.extract("x"))
    run(ReactExtract(), model, spy)
    assert calls == [1, 2]
    codec = model.requests[0].codec
    assert codec.max_calls == 1
    with pytest.raises(Inexpressible):
        codec.render(Act("", (ToolCall("spy", {"n": 1}), ToolCall("spy", {"n": 2}))))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ("[1, 2]", "Failed to parse field next_tool_args: it must be a JSON object, not: [1, 2]"),
        ("3", "Failed to parse field next_tool_args: it must be a JSON object, not: 3"),
        ("null", "Failed to parse field next_tool_args: it must be a JSON object, not: null"),
        ("", "Failed to parse field next_tool_args: it must be a JSON object, not: "),
        ("[1,\n2]", "Failed to parse field next_tool_args: it must be a JSON object, not: [1,\n2]"),
        ("[" * 100_000, "A value is nested too deep to be read."),
    ],
)
def test_S2_15_X_6_arguments_that_are_no_object_are_a_parse_error(args: str, text: str, kit: Any) -> None:
    reply = f"[[ ## next_thought ## ]]\nt\n[[ ## next_tool_name ## ]]\nadd\n[[ ## next_tool_args ## ]]\n{args}"
    outcome = run(ReactExtract(), kit.Script(reply, kit.extract("x")))
    assert trajectory(outcome) == {"error_0": text}
    assert outcome.stop is StopReason.PARSE_FAILED


def test_S2_15_reply_fields_are_thought_name_and_args(kit: Any) -> None:
    model = kit.Script("[[ ## next_thought ## ]]\nt\n[[ ## next_tool_args ## ]]\n{}", kit.extract("x"))
    assert trajectory(run(ReactExtract(), model))["error_0"].startswith(
        "The reply lacks next_tool_name. It must have the sections "
    )


def test_S2_16_the_outcome_is_answer_reasoning_and_trajectory(kit: Any) -> None:
    outcome = run(ReactExtract(), kit.Script(kit.react("finish"), kit.extract("A", "R")))
    assert outcome.answer == "A"
    assert outcome.details.keys() == {"reasoning", "trajectory"}
    assert outcome.details["reasoning"] == "R"


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


def test_S2_16_extracts_fields_follow_the_querys_schema(kit: Any) -> None:
    fields = {
        "reasoning": "r",
        "name": "Jazz",
        "seats": 40,
        "price": 12.5,
        "sold_out": "false",
        "answer_reasoning": '["a"]',
        "extra": "null",
        "anything": '{"x": 1}',
    }
    reply = "".join(f"[[ ## {name} ## ]]\n{text}\n" for name, text in fields.items())
    model = kit.Script(kit.react("finish"), reply)
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
def test_S2_16_a_schema_without_properties_is_one_field(schema: Any, text: str, value: Any, kit: Any) -> None:
    model = kit.Script(kit.react("finish"), kit.extract(text))
    assert run_sync(ReactExtract().run(Query("Q", schema=schema), Toolbox(), model)).answer == value


def test_S2_17_observations_are_kept_as_returned_and_shown_as_text(kit: Any) -> None:
    model = kit.Script(kit.react("events", "Look.", city="Tōkyō"), kit.react("finish"), kit.extract("Jazz"))
    outcome = run(ReactExtract(), model)
    assert trajectory(outcome)["observation_0"] == [{"name": "Jazz", "city": "Tōkyō"}]
    assert shown(model.requests[1]) == (
        "[[ ## thought_0 ## ]]\nLook.\n\n[[ ## tool_name_0 ## ]]\nevents\n\n"
        '[[ ## tool_args_0 ## ]]\n{"city": "Tōkyō"}\n\n[[ ## observation_0 ## ]]\n[{"name": "Jazz", "city": "Tōkyō"}]'
    )


@given(steps=st.lists(st.sampled_from(["add", "bad"]), min_size=1, max_size=4))
@settings(deadline=None, max_examples=30)
def test_S2_17_keys_of_one_step_stay_together_and_in_order(steps: list[str], kit: Any) -> None:
    replies = [BAD if step == "bad" else kit.react("add", a=1, b=2) for step in steps]
    model = kit.Script(*replies, kit.react("finish"), kit.extract("x"))
    outcome = run(ReactExtract(on_parse_error="observe"), model)
    assert shown(model.requests[-1]) == format_trajectory(trajectory(outcome))
    order = re.findall(r"\[\[ ## (\w+)_(\d+) ## \]\]", shown(model.requests[-1]))
    assert [int(k) for _, k in order] == sorted(int(k) for _, k in order)
    for k, step in enumerate(steps):
        kinds = [kind for kind, index in order if int(index) == k]
        assert kinds == (["error"] if step == "bad" else ["thought", "tool_name", "tool_args", "observation"])


# --- B2: gaps of the document, and the semantics built ---


def test_B2_2_a_tools_exception_is_an_observation_without_traceback(kit: Any) -> None:
    model = kit.Script(kit.react("divide", a=1, b=0), kit.react("finish"), kit.extract("none"))
    outcome = run(ReactExtract(), model)
    assert trajectory(outcome)["observation_0"] == "Error: float division by zero"
    assert "Traceback" not in shown(model.requests[1])
    assert outcome.steps == 2


def test_B2_2_arguments_that_do_not_fit_are_an_observation(kit: Any) -> None:
    outcome = run(ReactExtract(), kit.Script(kit.react("add", a=1), kit.react("finish"), kit.extract("x")))
    assert trajectory(outcome)["observation_0"].startswith("Error: Tool 'add': missing argument 'b'")


def test_B2_3_an_unknown_tool_is_an_observation_that_uses_its_iteration(kit: Any) -> None:
    outcome = run(ReactExtract(max_iterations=2), kit.Script(kit.react("fly"), kit.react("finish"), kit.extract("x")))
    assert trajectory(outcome)["observation_0"] == "Error: Unknown tool fly"
    assert (outcome.stop, outcome.steps) == (StopReason.FINISHED, 2)


def test_B2_3_B2_4_or_it_ends_the_loop_like_an_unreadable_reply(kit: Any) -> None:
    model = kit.Script(kit.react("fly"), kit.extract("x"))
    outcome = run(ReactExtract(on_unknown_tool="finish", on_parse_error="observe"), model)
    assert trajectory(outcome) == {"error_0": "Unknown tool fly"}
    assert (outcome.answer, outcome.stop) == ("x", StopReason.PARSE_FAILED)


def test_B2_4_an_unreadable_reply_leaves_its_error_and_nothing_else_and_extract_sees_it(kit: Any) -> None:
    model = kit.Script(kit.react("add", a=1, b=2), BAD, kit.extract("3"))
    outcome = run(ReactExtract(), model)
    assert [key for key in trajectory(outcome) if key.endswith("_1")] == ["error_1"]
    assert f"[[ ## error_1 ## ]]\n{trajectory(outcome)['error_1']}" in shown(model.requests[-1])


def test_B2_5_G_6_X_18_a_tool_named_finish_is_refused_and_other_names_are_ordinary(kit: Any) -> None:
    finish = Tool.from_function(lambda: "x", name="finish")
    model = kit.Script()
    with pytest.raises(ValueError, match="'finish'"):
        run(ReactExtract(), model, finish)
    with pytest.raises(ValueError, match="'finish'"):
        ReactExtractProgram([finish])
    assert model.requests == []
    for name in ("submit", "branch", "__finish__"):
        ordinary = Tool.from_function(lambda: "ran", name=name)
        outcome = run(ReactExtract(), kit.Script(kit.react(name), kit.react("finish"), kit.extract("x")), ordinary)
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


def test_B2_6_the_oldest_iterations_leave_the_prompt_but_not_the_trajectory(kit: Any) -> None:
    single = run(ReactExtract(max_iterations=1), kit.Script(kit.react("add", a=1, b=2), kit.extract("3")))
    one = len(format_trajectory(trajectory(single)))
    script = kit.Script(*[kit.react("add", a=1, b=2)] * 4, kit.react("finish"), kit.extract("3"))
    notes = kit.Notes()
    outcome = run(ReactExtract(), Narrow(script, 3 * one + 10), observer=notes)
    whole = trajectory(outcome)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("3", StopReason.FINISHED, 5)
    assert [f"observation_{k}" in whole for k in range(5)] == [True] * 5
    last = shown(script.requests[-1])
    assert [f"[[ ## thought_{k} ## ]]" in last for k in range(5)] == [False, False, True, True, True]
    assert [kind for kind, _ in notes.notes] == ["trimmed"]


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_B2_6_after_the_attempts_extract_follows_with_context_overflow(attempts: int, kit: Any) -> None:
    steps = [kit.react("add", f"Step {k}.", a=1, b=2) for k in range(4)]
    script = kit.Script(*steps, *[ContextOverflow("long")] * (attempts + 1), kit.extract("3"))
    outcome = run(ReactExtract(overflow_attempts=attempts), script)
    assert (outcome.answer, outcome.stop, outcome.steps) == ("3", StopReason.CONTEXT_OVERFLOW, 4)
    assert script.roles == [Role.DECIDE] * (4 + attempts + 1) + [Role.ANSWER]
    assert [f"Step {k}." in shown(script.requests[-1]) for k in range(4)] == [k >= attempts for k in range(4)]


def test_B2_6_an_overflow_with_nothing_left_to_drop_goes_to_extract(kit: Any) -> None:
    script = kit.Script(ContextOverflow("long"), kit.extract("guess"))
    assert run(ReactExtract(), script).stop is StopReason.CONTEXT_OVERFLOW
    assert script.roles == [Role.DECIDE, Role.ANSWER]


def test_B2_6_extract_drops_iterations_too_and_then_gives_up(kit: Any) -> None:
    steps = [kit.react("add", f"Step {k}.", a=1, b=2) for k in range(2)]
    script = kit.Script(*steps, ContextOverflow("long"), kit.extract("3"))
    outcome = run(ReactExtract(max_iterations=2), script)
    assert (outcome.answer, outcome.stop) == ("3", StopReason.FORCED)
    assert [f"Step {k}." in shown(script.requests[-1]) for k in range(2)] == [False, True]
    lost = run(ReactExtract(max_iterations=2), kit.Script(*steps, then=ContextOverflow("long")))
    assert (lost.answer, lost.stop, lost.details["error"]) == (None, StopReason.CONTEXT_OVERFLOW, "long")
    assert "thought_1" in trajectory(lost)


def test_B2_8_an_unreadable_extract_reply_gives_no_answer_but_the_trajectory(kit: Any) -> None:
    model = kit.Script(kit.react("add", a=1, b=2), kit.react("finish"), BAD)
    outcome = run(ReactExtract(), model)
    assert (outcome.answer, outcome.stop) == (None, StopReason.PARSE_FAILED)
    assert trajectory(outcome)["observation_0"] == 3
    assert outcome.details["error"].startswith("The reply lacks reasoning, answer.")
    assert len(model.requests) == 3


def test_B2_9_extract_is_not_told_why_the_run_ended(kit: Any) -> None:
    for limit, replies in ((1, [kit.react("divide", a=1, b=0)]), (5, [BAD])):
        texts = []
        for loop in (ReactExtract(max_iterations=limit), ReactExtract(max_iterations=limit, tell_extract=True)):
            model = kit.Script(*replies, kit.extract("x"))
            run(loop, model)
            texts.append(shown(model.requests[-1]))
        assert "[[ ## note ## ]]" not in texts[0]
        assert texts[1].startswith(f"{texts[0]}\n\n[[ ## note ## ]]\nThe ")


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_B2_10_exactly_max_iterations_react_calls_and_finish_is_one_of_them(limit: int, kit: Any) -> None:
    step = kit.react("add", a=1, b=2)
    tools_only = kit.Script(*[step] * limit, kit.extract("3"))
    assert run(ReactExtract(max_iterations=limit), tools_only).stop is StopReason.FORCED
    assert tools_only.roles == [Role.DECIDE] * limit + [Role.ANSWER]
    finishing = kit.Script(*[step] * (limit - 1), kit.react("finish"), kit.extract("3"))
    assert run(ReactExtract(max_iterations=limit), finishing).stop is StopReason.FINISHED
    assert finishing.roles == [Role.DECIDE] * limit + [Role.ANSWER]


def test_B2_11_an_unreadable_reply_can_be_an_observation_that_uses_its_iteration(kit: Any) -> None:
    model = kit.Script(BAD, kit.react("finish"), kit.extract("x"))
    outcome = run(ReactExtract(on_parse_error="observe", max_iterations=2), model)
    assert (outcome.stop, outcome.steps) == (StopReason.FINISHED, 2)
    assert list(trajectory(outcome))[:2] == ["error_0", "thought_1"]
    assert "[[ ## error_0 ## ]]\nThe reply lacks" in shown(model.requests[1])
    only_bad = run(ReactExtract(on_parse_error="observe", max_iterations=2), kit.Script(BAD, BAD, kit.extract("x")))
    assert (only_bad.stop, only_bad.steps) == (StopReason.FORCED, 2)


# --- options: each one changes what the loop does ---


def test_option_max_iterations_bounds_the_react_calls(kit: Any) -> None:
    for limit in (1, 3):
        model = kit.Script(*[kit.react("add", a=1, b=2)] * limit, kit.extract("3"))
        run(ReactExtract(max_iterations=limit), model)
        assert model.roles.count(Role.DECIDE) == limit
    with pytest.raises(ValueError, match="max_iterations must be at least 1"):
        ReactExtract(max_iterations=0)


def test_option_extract_off_takes_the_answer_of_finish_or_the_last_thought(kit: Any) -> None:
    loop = ReactExtract(extract=False)
    model = kit.Script(kit.react("add", a=1, b=2), kit.react("finish", "Sure.", answer=3))
    outcome = run(loop, model)
    assert (outcome.answer, outcome.stop, model.roles) == (3, StopReason.FINISHED, [Role.DECIDE] * 2)
    assert 'finish: ends the run; give your answer as {"answer": ...}' in system(model.requests[0])
    assert run(loop, kit.Script(kit.react("finish", "It is 3."))).answer == "It is 3."
    assert run(loop, kit.Script(BAD)).answer is None


def test_option_on_parse_error_ends_the_loop_or_goes_on(kit: Any) -> None:
    for loop, calls in ((ReactExtract(), 2), (ReactExtract(on_parse_error="observe"), 3)):
        model = kit.Script(BAD, kit.react("finish") if calls == 3 else kit.extract("x"), kit.extract("x"))
        run(loop, model)
        assert len(model.requests) == calls


def test_option_on_unknown_tool_goes_on_or_ends_the_loop(kit: Any) -> None:
    for loop, calls in ((ReactExtract(), 3), (ReactExtract(on_unknown_tool="finish"), 2)):
        model = kit.Script(kit.react("fly"), kit.react("finish") if calls == 3 else kit.extract("x"), kit.extract("x"))
        run(loop, model)
        assert len(model.requests) == calls


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_option_parse_retries_asks_extract_again_with_the_error_shown(retries: int, kit: Any) -> None:
    model = kit.Script(kit.react("finish"), *[BAD] * 2, kit.extract("x"))
    outcome = run(ReactExtract(parse_retries=retries), model)
    assert model.roles.count(Role.ANSWER) == retries + 1
    assert outcome.answer == ("x" if retries == 2 else None)
    for k in range(1, retries + 1):
        assert f"[[ ## error_{k} ## ]]\nYour last reply could not be read: The reply lacks" in shown(model.requests[-1])
    with pytest.raises(ValueError, match="must not be negative"):
        ReactExtract(parse_retries=-1)


def test_option_overflow_attempts_of_none_goes_straight_to_extract(kit: Any) -> None:
    for attempts, stop in ((0, StopReason.CONTEXT_OVERFLOW), (1, StopReason.FINISHED)):
        replies = [kit.react("add", a=1, b=2), ContextOverflow("long"), *([kit.react("finish")] * attempts), kit.extract("x")]
        assert run(ReactExtract(overflow_attempts=attempts), kit.Script(*replies)).stop is stop
    with pytest.raises(ValueError, match="must not be negative"):
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
def test_option_tell_extract_passes_the_reason(replies: list[Any], note: str | None, kit: Any) -> None:
    said = {"add": kit.react("add", a=1, b=2), "finish": kit.react("finish")}
    model = kit.Script(*[said.get(reply, reply) if isinstance(reply, str) else reply for reply in replies], kit.extract("x"))
    run(ReactExtract(max_iterations=1, tell_extract=True), model)
    assert ("[[ ## note ## ]]" in shown(model.requests[-1])) is (note is not None)
    assert (note or "") in shown(model.requests[-1])


def test_options_are_the_fields_with_a_line_each_and_the_program_is_none_of_them() -> None:
    options = options_of(ReactExtract)
    assert "program" not in options
    assert options.keys() == {field.name for field in dataclasses.fields(ReactExtract)} - {"program"}
    assert all(option.doc for option in options.values())


# --- G and X: rules for all designs ---


def test_G_2_react_extract_finish_then_extract_is_finished(kit: Any) -> None:
    assert run(ReactExtract(), kit.Script(kit.react("finish"), kit.extract("x"))).stop is StopReason.FINISHED


def test_G_2_react_extract_limit_then_extract_is_forced(kit: Any) -> None:
    outcome = run(ReactExtract(max_iterations=1), kit.Script(kit.react("add", a=1, b=2), kit.extract("3")))
    assert (outcome.stop, outcome.answer) == (StopReason.FORCED, "3")


def test_G_2_react_extract_unreadable_reply_of_either_call_is_parse_failed(kit: Any) -> None:
    react = run(ReactExtract(), kit.Script(BAD, kit.extract("x")))
    extract = run(ReactExtract(), kit.Script(kit.react("finish"), BAD))
    assert (react.stop, react.answer) == (StopReason.PARSE_FAILED, "x")
    assert (extract.stop, extract.answer) == (StopReason.PARSE_FAILED, None)


def test_G_2_react_extract_overflow_after_the_attempts_is_context_overflow(kit: Any) -> None:
    outcome = run(ReactExtract(overflow_attempts=0), kit.Script(ContextOverflow("long"), kit.extract("x")))
    assert (outcome.stop, outcome.answer) == (StopReason.CONTEXT_OVERFLOW, "x")


def test_G_2_react_extract_limit_without_extract_is_max_steps(kit: Any) -> None:
    outcome = run(ReactExtract(max_iterations=1, extract=False), kit.Script(kit.react("add", "Thinking.", a=1, b=2)))
    assert (outcome.stop, outcome.answer) == (StopReason.MAX_STEPS, "Thinking.")


def test_G_2_react_extract_provider_error(kit: Any) -> None:
    assert run(ReactExtract(), kit.Script(ProviderError("down"))).stop is StopReason.PROVIDER_ERROR


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("leaving", [BudgetExceeded("spent"), asyncio.CancelledError(), ZeroDivisionError("a bug")])
def test_G_3_react_extract_budget_cancellation_and_bugs_leave_the_loop(leaving: BaseException, before: int, kit: Any) -> None:
    with pytest.raises(type(leaving)):
        run(ReactExtract(on_parse_error="observe"), kit.Script(*[kit.react("finish")] * before, leaving))


def test_G_4_errors_keep_the_wording_of_their_design(kit: Any) -> None:
    def gone() -> None:
        raise LookupError("gone")

    model = kit.Script(kit.react("fly"), kit.react("gone"), kit.react("finish"), kit.extract("x"))
    ours = trajectory(run(ReactExtract().with_step_limit(5), model, gone))
    bare = kit.Script(kit.call("fly"), kit.call("gone"), kit.answer("x"))
    theirs = run_sync(Bare().with_step_limit(5).run(Query("Q"), Toolbox([gone]), bare)).details["history"]
    assert [ours["observation_0"], ours["observation_1"]] == ["Error: Unknown tool fly", "Error: gone"]
    assert [json.loads(theirs[k]["content"])["data"] for k in (2, 4)] == [
        "Tool 'fly' not found. Available tools: gone",
        "LookupError: gone",
    ]


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("leaving", [KeyboardInterrupt, asyncio.CancelledError])
def test_G_5_react_extract_interrupts_of_a_tool_leave_the_loop(leaving: type[BaseException], blocking: bool, kit: Any) -> None:
    def stop() -> None:
        raise leaving

    with pytest.raises(leaving):
        run(ReactExtract(), kit.Script(kit.react("stop")), Tool.from_function(stop, blocking=blocking))


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("raised", [ValueError("v"), SystemExit("v"), GeneratorExit("v")])
def test_G_5_X_10_react_extract_whatever_else_a_tool_raises_is_an_error_result(
    raised: BaseException, blocking: bool, kit: Any
) -> None:
    def bad() -> None:
        raise raised

    model = kit.Script(kit.react("bad"), kit.react("finish"), kit.extract("x"))
    outcome = run(ReactExtract(), model, Tool.from_function(bad, blocking=blocking))
    assert (trajectory(outcome)["observation_0"], outcome.answer) == ("Error: v", "x")


class Thing:
    def __str__(self) -> str:
        return "a thing"


def test_G_5_X_10_react_extract_what_json_cannot_say_is_shown_as_its_text(kit: Any) -> None:
    thing = Thing()
    model = kit.Script(kit.react("give"), kit.react("finish"), kit.extract("x"))
    outcome = run(ReactExtract(), model, Tool.from_function(lambda: thing, name="give"))
    assert trajectory(outcome)["observation_0"] is thing
    assert shown(model.requests[1]).endswith("[[ ## observation_0 ## ]]\na thing")


def test_X_10_react_extract_a_hung_tool_is_an_error_result(kit: Any) -> None:
    let_go = threading.Event()
    tools = Toolbox([Tool.from_function(lambda: let_go.wait(30), name="hang")], time_limit_s=0.02)
    outcome = run_sync(ReactExtract().run(Query("Q"), tools, kit.Script(kit.react("hang"), kit.react("finish"), kit.extract("x"))))
    let_go.set()
    assert trajectory(outcome)["observation_0"] == "Error: no result within 0.02 s"


@given(st.integers(0, 30))
def test_G_8_react_extract_n_tool_steps_are_n_plus_one_iterations(tool_steps: int) -> None:
    limited = ReactExtract(tell_extract=True).with_step_limit(tool_steps)
    assert limited == ReactExtract(tell_extract=True, max_iterations=tool_steps + 1)


def test_G_8_react_extract_the_seeds_limit_is_the_default_and_what_the_user_typed_wins() -> None:
    assert make_loop(parse_spec("react_extract"), 4) == ReactExtract(max_iterations=5)
    assert make_loop(parse_spec("react_extract"), 9) == ReactExtract(max_iterations=10)
    assert make_loop(parse_spec("react_extract(max_iterations=2)"), 9) == ReactExtract(max_iterations=2)
    assert make_loop(parse_spec("react_extract")) == ReactExtract()


def test_G_8_react_extract_a_plan_as_long_as_the_limit_can_be_finished(kit: Any) -> None:
    model = kit.Script(*[kit.react("add", a=1, b=2)] * 3, kit.react("finish"), kit.extract("3"))
    assert run(ReactExtract().with_step_limit(3), model).stop is StopReason.FINISHED


def test_X_6_react_extract_empty_replies_are_parse_errors(kit: Any) -> None:
    for reply in ("", " \n", "[[ ## completed ## ]]", "{}", "[]"):
        outcome = run(ReactExtract(), kit.Script(reply, kit.extract("x")))
        assert list(trajectory(outcome)) == ["error_0"]
        assert "lacks next_thought, next_tool_name, next_tool_args" in trajectory(outcome)["error_0"]


def test_X_6_react_extract_finish_with_arguments_is_still_finish(kit: Any) -> None:
    outcome = run(ReactExtract(), kit.Script(kit.react("finish", answer="early"), kit.extract("late")))
    assert (outcome.answer, outcome.stop) == ("late", StopReason.FINISHED)


def test_X_17_extract_after_finishing_at_once(kit: Any) -> None:
    model = kit.Script(kit.react("finish"), kit.extract("x"))
    assert run(ReactExtract(), model).answer == "x"
    assert "observation_0" in shown(model.requests[1])


def test_X_17_extract_after_the_limit_sees_every_observation(kit: Any) -> None:
    model = kit.Script(*[kit.react("add", a=k, b=0) for k in (7, 8)], kit.extract("x"))
    run(ReactExtract(max_iterations=2), model)
    assert re.findall(r"observation_\d ## \]\]\n(\d)", shown(model.requests[-1])) == ["7", "8"]


def test_X_17_extract_after_an_unreadable_reply(kit: Any) -> None:
    assert run(ReactExtract(), kit.Script(BAD, kit.extract("x"))).answer == "x"


def test_X_17_extract_after_failed_observations_only(kit: Any) -> None:
    model = kit.Script(*[kit.react("divide", a=1, b=0)] * 2, kit.react("finish"), kit.extract("cannot say"))
    outcome = run(ReactExtract(), model)
    assert shown(model.requests[-1]).count("Error: float division by zero") == 2
    assert (outcome.answer, outcome.stop) == ("cannot say", StopReason.FINISHED)


def test_X_17_extract_after_a_context_overflow(kit: Any) -> None:
    model = kit.Script(kit.react("add", a=1, b=2), ContextOverflow("l"), ContextOverflow("l"), kit.extract("x"))
    outcome = run(ReactExtract(overflow_attempts=1), model)
    assert (outcome.answer, outcome.stop) == ("x", StopReason.CONTEXT_OVERFLOW)
    assert shown(model.requests[-1]) == ""


@pytest.mark.parametrize(
    ("failure", "stop"),
    [
        (BAD, StopReason.PARSE_FAILED),
        (ProviderError("down"), StopReason.PROVIDER_ERROR),
        (ContextOverflow("long"), StopReason.CONTEXT_OVERFLOW),
    ],
)
def test_X_17_extract_failing_keeps_the_trajectory(failure: Any, stop: StopReason, kit: Any) -> None:
    outcome = run(ReactExtract(max_iterations=1), kit.Script(kit.react("add", a=1, b=2), then=failure))
    assert (outcome.answer, outcome.stop) == (None, stop)
    assert trajectory(outcome)["observation_0"] == 3


@given(loop=CONFIGS)
def test_X_21_react_extract_declares_only_stops_of_its_own(loop: ReactExtract) -> None:
    closing = StopReason.FORCED if loop.extract else StopReason.MAX_STEPS
    assert {StopReason.FINISHED, closing, StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW} <= loop.stops
    assert loop.stops <= {
        StopReason.FINISHED, closing, StopReason.PROVIDER_ERROR, StopReason.CONTEXT_OVERFLOW, StopReason.PARSE_FAILED
    }  # fmt: skip


# --- cost: what is built, is built once per program, not once per step ---


def created(work: Callable[[], object]) -> int:
    """How many signature classes a piece of work makes."""
    gc.collect()
    gc.disable()
    try:
        before = len(dspy.Signature.__subclasses__())
        work()
        return len(dspy.Signature.__subclasses__()) - before
    finally:
        gc.enable()


def counted(work: Callable[[], object], *functions: Any) -> Counter[str]:
    """How often functions are entered during a piece of work."""
    codes = {function.__code__: function.__qualname__ for function in functions}
    seen: Counter[str] = Counter()

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            seen[codes[frame.f_code]] += 1

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def tool_named(name: str) -> Tool:
    return Tool.from_function(lambda a, b: a + b, name=name, description="Add.", blocking=False)


def test_cost_is_flat_no_class_and_no_system_message_per_step(kit: Any) -> None:
    def go(steps: int, name: str) -> None:
        model = kit.Script(*[kit.react(name, a=1, b=2)] * steps, kit.react("finish"), kit.extract("x"))
        outcome = run(ReactExtract(max_iterations=100), model, tool_named(name))
        assert outcome.steps == steps + 1

    go(1, "warm")
    assert created(lambda: go(2, "first")) == created(lambda: go(40, "second")) == 1
    assert created(lambda: go(40, "second")) == 0
    rendering = (dspy.Adapter.format_system_message, dspy.ChatAdapter.format_field_structure, dspy.Adapter.format_demos)
    short, long = counted(lambda: go(2, "third"), *rendering), counted(lambda: go(40, "fourth"), *rendering)
    assert short == long == {"Adapter.format_system_message": 1, "ChatAdapter.format_field_structure": 1}
    assert not counted(lambda: go(40, "fourth"), *rendering)


def test_cost_is_flat_through_predictors_too(kit: Any) -> None:
    def go(steps: int, name: str) -> None:
        model = kit.Script(*[kit.react(name, a=1, b=2)] * steps, kit.react("finish"), kit.extract("x"))
        with dspy.context(lm=lm_of(model)):
            ReactExtractProgram([tool_named(name)], ReactExtract(max_iterations=100))(query="Q")

    go(1, "warm")
    assert created(lambda: go(2, "fifth")) == created(lambda: go(20, "sixth"))
    short = counted(lambda: go(2, "seventh"), dspy.Adapter.format_system_message)
    assert short == counted(lambda: go(20, "eighth"), dspy.Adapter.format_system_message)


# --- the program: a dspy.Module ---


def answering(request: Any) -> Any:
    """A model that adds once, finishes, and answers; a pure function of the request."""
    if request.role is Role.ANSWER:
        return "[[ ## reasoning ## ]]\nIt is the sum.\n[[ ## answer ## ]]\n3"
    name, args = ("finish", "{}") if "observation_0" in shown(request) else ("add", '{"a": 1, "b": 2}')
    return f"[[ ## next_thought ## ]]\nOn.\n[[ ## next_tool_name ## ]]\n{name}\n[[ ## next_tool_args ## ]]\n{args}"


def test_program_is_called_like_any_module(kit: Any) -> None:
    program = ReactExtractProgram([add])
    with dspy.context(lm=lm_of(kit.Script(then=answering))):
        prediction = program(query="1 + 2?")
        again = run_sync(program.acall(query="1 + 2?"))
    assert (prediction.answer, prediction.reasoning, prediction.stop) == ("3", "It is the sum.", "finished")
    assert prediction.trajectory["observation_0"] == 3
    assert again.toDict() == prediction.toDict()


def test_program_gives_properties_of_the_answer_as_fields_but_its_own_names_win(kit: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}, "unit": {"type": "string"}, "base": {"type": "string"}},
    }
    program = ReactExtractProgram([], schema=schema)
    extract = "[[ ## reasoning ## ]]\nr\n[[ ## answer ## ]]\n3\n[[ ## unit ## ]]\nm\n[[ ## base ## ]]\nten"
    with dspy.context(lm=lm_of(kit.Script(kit.react("finish"), extract))):
        prediction = program(query="Q")
    assert prediction.answer == {"answer": 3, "unit": "m", "base": "ten"}
    assert (prediction.unit, prediction.base) == ("m", "ten")


def test_S2_8_program_has_two_predictors_and_extract_reasons_first() -> None:
    program = ReactExtractProgram([add])
    assert [name for name, _ in program.named_predictors()] == ["react", "extract"]
    assert list(program.extract.signature.output_fields) == ["reasoning"]
    assert list(program.react.signature.input_fields) == list(program.extract.signature.input_fields) == ["query", "trajectory"]


def improved() -> ReactExtractProgram:
    program = ReactExtractProgram([add])
    program.react.signature = program.react.signature.with_instructions("IMPROVED REACT")
    program.extract.signature = program.extract.signature.with_instructions("IMPROVED EXTRACT")
    program.react.demos = [
        dspy.Example(query="DEMO", trajectory="", next_thought="t", next_tool_name="finish", next_tool_args={}),
    ]
    return program


def requests_of(program: ReactExtractProgram, kit: Any) -> list[Any]:
    model = kit.Script(then=answering)
    ReactExtract(program=program).run_sync(Query("Q"), Toolbox([add]), model)
    return [request.messages for request in model.requests]


def test_program_is_saved_and_loaded_as_json_and_then_asks_the_same(kit: Any, tmp_path: Path) -> None:
    file = tmp_path / "program.json"
    improved().save(str(file))
    assert json.loads(file.read_text("utf-8")).keys() == {"react", "extract", "metadata"}
    loaded = ReactExtractProgram([add])
    loaded.load(str(file))
    asked = requests_of(loaded, kit)
    assert asked == requests_of(improved(), kit) != requests_of(ReactExtractProgram([add]), kit)
    assert "IMPROVED REACT" in asked[0][0].content
    assert "DEMO" in asked[0][1].content
    assert "IMPROVED EXTRACT" in asked[-1][0].content


def test_program_can_be_copied_deeply_and_the_copy_is_independent(kit: Any) -> None:
    program = improved()
    twin = copy.deepcopy(program)
    assert requests_of(twin, kit) == requests_of(program, kit)
    twin.react.demos = []
    assert requests_of(twin, kit) != requests_of(program, kit)
    program.set_lm(lm_of(kit.Script(then=answering)))
    assert copy.deepcopy(program)(query="Q").answer == "3"


def test_program_compiles_with_labeled_few_shot_offline(kit: Any) -> None:
    trainset = [dspy.Example(query=f"Q{k}", answer=f"A{k}").with_inputs("query") for k in range(3)]
    compiled = dspy.LabeledFewShot(k=2).compile(ReactExtractProgram([add]), trainset=trainset)
    first, *_, last = requests_of(compiled, kit)
    assert len(first) == 2, "an example without a React field is no demonstration of React"
    assert [message.role for message in last] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert re.search(r"\[\[ ## answer ## \]\]\nA\d", last[2].content)


def test_program_compiles_with_bootstrap_few_shot_and_keeps_the_traced_steps(kit: Any) -> None:
    trainset = [dspy.Example(query="1 + 2?", answer="3").with_inputs("query")]
    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, prediction, trace=None: example.answer == prediction.answer,
        max_bootstrapped_demos=1,
        max_labeled_demos=0,
    )
    model = kit.Script(then=answering)
    with dspy.context(lm=lm_of(model)):
        compiled = optimizer.compile(ReactExtractProgram([add]), trainset=trainset)
    assert model.roles == [Role.DECIDE, Role.DECIDE, Role.ANSWER]
    demo = compiled.react.demos[0]
    assert set(demo.keys()) >= {"query", "trajectory", "next_thought", "next_tool_name", "next_tool_args"}
    assert compiled.extract.demos[0]["answer"] == "3"
    assert "1 + 2?" in requests_of(compiled, kit)[0][1].content


def test_instructions_changed_in_place_reach_the_next_request(kit: Any) -> None:
    program = ReactExtractProgram([add])
    requests_of(program, kit)
    program.react.signature = program.react.signature.with_instructions("x")  # a class of its own: ReactStep stays as it is
    program.extract.signature = program.extract.signature.with_instructions("x")
    requests_of(program, kit)
    program.react.signature.instructions, program.extract.signature.instructions = "NEW REACT", "NEW EXTRACT"
    first, *_, last = requests_of(program, kit)
    assert "NEW REACT" in first[0].content
    assert "NEW EXTRACT" in last[0].content


def test_the_agents_can_be_used_by_themselves(kit: Any) -> None:
    program = ReactExtractProgram()
    agent = ExtractAgent(program.extract)
    made = run_sync(agent.answer(Query("Q"), "[[ ## observation_0 ## ]]\n3", kit.Script(kit.extract("three", "As seen."))))
    assert (made.value, made.thought) == ("three", "As seen.")


def test_codecs_are_told_apart_by_name(kit: Any) -> None:
    model = kit.Script(kit.react("finish"), kit.extract("x"))
    run(ReactExtract(), model)
    run(ReactExtract(extract=False), only := kit.Script(kit.react("finish")))
    codecs = [request.codec for request in (*model.requests, *only.requests)]
    assert [type(codec) for codec in codecs] == [ReactCodec, ExtractCodec, FinishingReactCodec]
    assert len({codec.name for codec in codecs}) == 3
    assert [codec.max_calls for codec in codecs] == [1, 0, 1]


def test_run_sync_has_the_arguments_of_run_without_observer() -> None:
    assert list(inspect.signature(ReactExtract.run_sync).parameters) == ["self", "query", "tools", "model"]
