"""Design 2, React -> Extract: what its document says, a test for every row, named after it."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import Script, extract, react
from tests.loops.react_extract.helpers import BAD, TOOLS, add, events, run, shown, system, trajectory
from tests.prepared import ran_in_fork
from tests.rows import row
from whichloop.loops.react_extract import ReactAgent, ReactExtract, format_trajectory
from whichloop.loops.react_extract_codecs import ExtractCodec, ReactCodec, instructions_with_tools
from whichloop.protocol import (
    Act,
    Inexpressible,
    ProviderError,
    Query,
    Role,
    StopReason,
    Toolbox,
    ToolCall,
    run_sync,
)


@row("S2-1")
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


@row("S2-2", "B2-7")
def test_the_limit_is_five_by_default() -> None:
    model = Script(*[react("add", a=1, b=2)] * 5, extract("3"))
    run(ReactExtract(), model)
    assert ReactExtract().max_iterations == 5
    assert model.roles == [Role.DECIDE] * 5 + [Role.ANSWER]


@row("S2-3")
def test_a_react_call_gets_trajectory_and_tools_and_gives_thought_name_and_arguments() -> None:
    model = Script(react("add", "Sum.", a=1, b=2), react("finish"), extract("3"))
    run(ReactExtract(), model)
    second = model.requests[1]
    for tool in ("- add: Add two numbers. Arguments: ", "- divide: Divide a by b. Arguments: ", "- events: "):
        assert tool in system(second)
    assert shown(second).startswith("[[ ## thought_0 ## ]]\nSum.")
    assert isinstance(second.codec, ReactCodec)
    assert list(second.codec.signature.output_fields) == ["next_thought", "next_tool_name", "next_tool_args"]
    assert "[[ ## query ## ]]\nQ\n" in second.messages[-1].content


@row("S2-4")
def test_finish_is_always_offered_and_leads_to_extract() -> None:
    model = Script(react("finish"), extract("42"))
    outcome = run(ReactExtract(), model)
    assert "- finish: takes no arguments" in system(model.requests[0])
    assert "- finish: " in instructions_with_tools("I.", Toolbox())
    assert trajectory(outcome)["observation_0"] == "Completed."
    assert model.roles == [Role.DECIDE, Role.ANSWER]
    assert "Completed." in shown(model.requests[1])
    assert outcome.answer == "42"


@row("S2-5")
def test_a_tool_runs_its_result_is_the_observation_and_the_iteration_rises() -> None:
    model = Script(react("add", a=1, b=2), react("add", a=3, b=4), react("finish"), extract("x"))
    outcome = run(ReactExtract(), model)
    assert [trajectory(outcome)[f"observation_{k}"] for k in (0, 1)] == [3, 7]
    assert outcome.steps == 3


@row("S2-6")
def test_at_the_limit_extract_follows_as_well() -> None:
    outcome = run(ReactExtract(max_iterations=1), Script(react("add", a=1, b=2), extract("3")))
    assert (outcome.answer, outcome.stop) == ("3", StopReason.FORCED)


@row("S2-7")
def test_an_unreadable_react_reply_is_logged_and_leads_to_extract(caplog: pytest.LogCaptureFixture) -> None:
    model = Script(react("add", a=1, b=2), BAD, extract("3"))
    with caplog.at_level(logging.INFO, "whichloop.loops.react_extract"):
        outcome = run(ReactExtract(), model)
    assert "iteration 1: The reply lacks next_thought" in caplog.text
    assert model.roles == [Role.DECIDE, Role.DECIDE, Role.ANSWER]
    assert (outcome.answer, outcome.stop) == ("3", StopReason.PARSE_FAILED)


@row("S2-7", "G-3")
def test_a_provider_error_makes_no_second_call() -> None:
    for replies in ([], [react("add", a=1, b=2)], [react("finish")]):
        model = Script(*replies, ProviderError("down"), then=extract("x"))
        outcome = run(ReactExtract(parse_retries=2), model)
        assert (outcome.answer, outcome.stop, outcome.details["error"]) == (None, StopReason.PROVIDER_ERROR, "down")
        assert len(model.requests) == len(replies) + 1


@row("S2-8")
def test_extract_is_a_chain_of_thought_over_query_and_whole_trajectory() -> None:
    steps = [react("add", f"Step {k}.", a=k, b=1) for k in range(3)]
    model = Script(*steps, react("finish", "Enough."), extract("3", "By adding."))
    outcome = run(ReactExtract(), model)
    request = model.requests[-1]
    assert isinstance(request.codec, ExtractCodec)
    assert list(request.codec.signature.output_fields) == ["reasoning", "answer"]
    assert request.messages[-1].content.startswith("[[ ## query ## ]]\nQ\n")
    assert all(f"Step {k}." in shown(request) for k in range(3))
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
    _, name, args = run_sync(agent.act(Query("Q"), after, model))
    assert (name, args) == ("finish", {})


@row("S2-9")
def test_without_extract_the_arguments_of_finish_are_returned_too() -> None:
    agent = ReactAgent(ReactExtract(extract=False).predictors["react"], Toolbox(), extract=False)
    after, name, args = run_sync(agent.act(Query("Q"), {}, Script(react("finish", answer="A"))))
    assert (name, args, after["tool_args_0"]) == ("finish", {"answer": "A"}, {"answer": "A"})


@row("S2-10", "S2-14")
def test_instructions_are_built_from_the_tools_given() -> None:
    texts = []
    for tools in ((add,), (events,), (add, events)):
        model = Script(react("finish"), extract("x"))
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
    """An environment that keeps the names that whichloop reads of it."""

    read: set[str]

    def get(self, key: str, default: Any = None) -> Any:
        frame = sys._getframe(1)
        module = str(frame.f_globals["__name__"])
        if module == "os" and frame.f_back is not None:
            module = str(frame.f_back.f_globals["__name__"])
        if module.startswith("whichloop"):
            self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        return str(self.get(key))


@row("S2-11")
def test_the_loop_reads_no_environment_but_the_debug_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(os.environ, OPENAI_API_KEY="k", MODEL="m", MAX_ITERATIONS="1")
    watched.read = set()
    monkeypatch.setattr(os, "environ", watched)
    outcome = run(ReactExtract(), Script(react("add", a=1, b=2), react("finish"), extract("3")))
    assert outcome.steps == 2
    assert watched.read == {"DSPY_DEBUG"}


DEBUGGED = """\
import os, sys
import dspy
from whichloop.dspy_seam import lm_of
from whichloop.loops.react_extract import ReactExtract, ReactExtractProgram
from whichloop.protocol import Capabilities, Query, Reply, Role, Toolbox

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


@row("S2-12")
def test_dspy_debug_writes_prompts_and_replies_to_stderr(tmp_path: Path) -> None:
    done = ran_in_fork(DEBUGGED, tmp_path)
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


@row("S2-13")
def test_one_tool_per_iteration() -> None:
    calls: list[int] = []

    def spy(n: int) -> None:
        """Count."""
        calls.append(n)

    model = Script(react("spy", n=1), react("spy", n=2), react("finish"), extract("x"))
    run(ReactExtract(), model, spy)
    assert calls == [1, 2]
    codec = model.requests[0].codec
    assert codec is not None
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
@row("S2-15", "X-6")
def test_arguments_that_are_no_object_are_a_parse_error(args: str, text: str) -> None:
    reply = f"[[ ## next_thought ## ]]\nt\n[[ ## next_tool_name ## ]]\nadd\n[[ ## next_tool_args ## ]]\n{args}"
    outcome = run(ReactExtract(), Script(reply, extract("x")))
    assert trajectory(outcome) == {"error_0": text}
    assert outcome.stop is StopReason.PARSE_FAILED


@row("S2-15")
def test_reply_fields_are_thought_name_and_args() -> None:
    model = Script("[[ ## next_thought ## ]]\nt\n[[ ## next_tool_args ## ]]\n{}", extract("x"))
    assert trajectory(run(ReactExtract(), model))["error_0"].startswith(
        "The reply lacks next_tool_name. It must have the sections "
    )


@row("S2-16")
def test_the_outcome_is_answer_reasoning_and_trajectory() -> None:
    outcome = run(ReactExtract(), Script(react("finish"), extract("A", "R")))
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


@row("S2-16")
def test_extracts_fields_follow_the_querys_schema() -> None:
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
    model = Script(react("finish"), reply)
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
    model = Script(react("finish"), extract(text))
    assert run_sync(ReactExtract().run(Query("Q", schema=schema), Toolbox(), model)).answer == value


@row("S2-17")
def test_observations_are_kept_as_returned_and_shown_as_text() -> None:
    model = Script(react("events", "Look.", city="Tōkyō"), react("finish"), extract("Jazz"))
    outcome = run(ReactExtract(), model)
    assert trajectory(outcome)["observation_0"] == [{"name": "Jazz", "city": "Tōkyō"}]
    assert shown(model.requests[1]) == (
        "[[ ## thought_0 ## ]]\nLook.\n\n[[ ## tool_name_0 ## ]]\nevents\n\n"
        '[[ ## tool_args_0 ## ]]\n{"city": "Tōkyō"}\n\n[[ ## observation_0 ## ]]\n[{"name": "Jazz", "city": "Tōkyō"}]'
    )


@given(steps=st.lists(st.sampled_from(["add", "bad"]), min_size=1, max_size=4))
@settings(deadline=None, max_examples=cases(15))
@row("S2-17")
def test_keys_of_one_step_stay_together_and_in_order(steps: list[str]) -> None:
    replies = [BAD if step == "bad" else react("add", a=1, b=2) for step in steps]
    model = Script(*replies, react("finish"), extract("x"))
    outcome = run(ReactExtract(on_parse_error="observe"), model)
    assert shown(model.requests[-1]) == format_trajectory(trajectory(outcome))
    order = re.findall(r"\[\[ ## (\w+)_(\d+) ## \]\]", shown(model.requests[-1]))
    assert [int(k) for _, k in order] == sorted(int(k) for _, k in order)
    for k, step in enumerate(steps):
        kinds = [kind for kind, index in order if int(index) == k]
        assert kinds == (["error"] if step == "bad" else ["thought", "tool_name", "tool_args", "observation"])
