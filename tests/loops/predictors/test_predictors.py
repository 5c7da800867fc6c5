"""Every design's prompts as a program and as modules of DSPy: what may be changed is in its place, and nothing else moves."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils import DummyLM
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import to_jsonable_python

from tests.cases import cases
from tests.loops.drawn import BY_ROLE, FAILURES, WITH_CALLS
from tests.loops.helpers import add
from tests.loops.predictors import helpers
from tests.loops.predictors.helpers import PREDICTORS, SPECS, Kept, _name, each_spec, examples_of, loop_of, ran, scripted, seen
from whichloop.dspy_seam import SignatureCodec
from whichloop.dspy_seam.program import LoopProgram, PredictorCall
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.loops.react_extract import ReactExtract, ReactExtractProgram
from whichloop.protocol import Loop, Message, NativeCall, Optimizable, Program, Reply, Request, ToolCall
from whichloop.protocol.moves import Act, PlanTask, Recovery, Tasks, Text, Understanding
from whichloop.protocol.names import parse_spec
from whichloop.protocol.program import read_program
from whichloop.protocol.wire import CONVERSATION, EXAMPLES
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched


@pytest.mark.parametrize(
    "spec", ["bare", "bare(instructions=none)", "finish", "finish(system_prompt=none)", "phased(understand=false)"]
)
def test_labelled_examples_are_text_below_the_instructions(spec: str) -> None:
    loop = loop_of(spec)
    labelled = {"query": "What is 1 + 1?", "answer": {"sum": 2}, "task": "t"}
    program = {name: replace(prompt, demos=(labelled,)) for name, prompt in loop.predictors.items()}
    requests, _, record = scripted(loop.with_predictors(program))
    assert record.status == "scored"
    for request in requests:
        system = request.messages[0]
        assert system.role == "system"
        own = loop.predictors[_name(request)].instructions
        assert system.content.startswith(f'{own}\n\n{EXAMPLES}\n\nQuestion: What is 1 + 1?\nAnswer: {{"sum": 2}}')
        assert request.examples == 0


def test_a_users_own_program_is_changed_as_a_copy() -> None:
    own = ReactExtractProgram()
    own.react.demos = [dspy.Example(query="q", trajectory="", next_thought="t", next_tool_name="add", next_tool_args={"a": 1})]
    loop = ReactExtract(program=own.program)
    prompt = loop.predictors["react"]
    assert prompt.demos[0]["next_tool_args"] == {"a": 1}
    changed = loop.with_predictors({"react": replace(prompt, instructions="Other.", demos=())})
    assert (own.react.signature.instructions, len(own.react.demos)) == (prompt.instructions, 1)
    assert changed.predictors == {**loop.predictors, "react": replace(prompt, instructions="Other.", demos=())}


@each_spec
def test_its_predictors_are_those_that_the_configuration_asks(spec: str) -> None:
    loop = loop_of(spec)
    assert isinstance(loop, Loop)
    assert isinstance(loop, Optimizable)
    assert tuple(loop.predictors) == PREDICTORS[spec]
    module = LoopProgram(loop)
    assert tuple(name for name, _ in module.named_predictors()) == PREDICTORS[spec]
    fields = [(tuple(prompt.inputs), tuple(prompt.outputs)) for prompt in loop.predictors.values()]
    assert len(set(fields)) == len(fields)
    signatures = [predictor.signature for predictor in module.predictors()]
    assert not any(a.equals(b) for place, a in enumerate(signatures) for b in signatures[:place])
    assert all("answer" not in prompt.outputs for prompt in loop.predictors.values())  # which labelled examples have


@each_spec
def test_its_state_is_saved_copied_and_loaded(spec: str, tmp_path: Path) -> None:
    loop, program = examples_of(spec)
    program = {name: replace(prompt, instructions=f"Be quick, {name}.") for name, prompt in program.items()}
    module = LoopProgram(loop.with_predictors(program))
    assert module.program == program
    assert copy.deepcopy(module).program == program
    other = LoopProgram(loop)
    other.load_state(module.dump_state())
    assert other.program == program
    file = tmp_path / "optimized.json"
    module.save(file)
    saved = read_program(file)
    assert loop.with_predictors(saved.program).predictors == program
    assert [seen(request) for request in scripted(loop.with_predictors(saved.program))[0]] == [
        seen(request) for request in scripted(loop.with_predictors(program))[0]
    ]


@each_spec
def test_a_changed_loop_keeps_its_options_and_its_program_under_a_limit(spec: str) -> None:
    loop, program = examples_of(spec)
    changed = loop.with_predictors(program)
    assert changed.with_step_limit(7).predictors == program
    if "loop" not in parse_spec(spec).options:
        assert changed.with_step_limit(7) == loop.with_step_limit(7)
    assert changed.stops == loop.stops
    assert loop.predictors != program


@pytest.mark.parametrize(
    ("spec", "garbled"),
    [
        ("bare", Reply('{"thought":')),
        ("bare(decision_format=native)", Reply("", (NativeCall("1", "add", '{"a":'),))),
        ("finish", Reply("", (NativeCall("1", "add", '{"a":'),))),
        ("finish", Reply("I have called no tool.")),
        ("phased", Reply('"intent": "a sum"}')),
        ("react_extract", Reply("?")),
        ("stateless", Reply("?")),
    ],
)
def test_a_reply_that_cannot_be_read_is_no_demonstration(spec: str, garbled: Reply) -> None:
    model, calls, _ = ran(loop_of(spec), [garbled])
    assert model.requests
    assert calls == []


STEPS = [{"next_thought": "Done.", "next_tool_name": "finish", "next_tool_args": {}}, {"reasoning": "", "answer": "5"}]


@pytest.mark.parametrize("is_set", [True, False])
def test_a_module_asks_the_lm_that_is_set_on_it_else_the_one_that_dspy_has(is_set: bool) -> None:
    module = LoopProgram(ReactExtract(), [add])
    if is_set:
        module.set_lm(DummyLM(STEPS * 2))
    with dspy.context(lm=None if is_set else DummyLM(STEPS * 2)):
        assert module(query="What is 2 + 3?").answer == "5"
        assert asyncio.run(module.acall(query="What is 2 + 3?")).answer == "5"


def test_a_module_without_lm_or_query_says_so() -> None:
    module = LoopProgram(ReactExtract(), [add])
    with dspy.context(lm=None), pytest.raises(ValueError, match="no LM is configured"):
        module(query="What is 2 + 3?")
    with dspy.context(lm=DummyLM(STEPS)), pytest.raises(ValueError, match=r"'query' is missing: .*; given: question"):
        module(question="What is 2 + 3?")


# --- laws ---


EVERY = settings(
    deadline=None, max_examples=cases(5), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
REPLIES = st.lists(st.one_of(*BY_ROLE.values()) | WITH_CALLS | FAILURES, max_size=14)


@each_spec
@EVERY
@given(replies=REPLIES)
def test_a_loops_own_program_changes_no_request_and_each_says_whose_it_is(spec: str, replies: list[Any]) -> None:
    loop = loop_of(spec)
    own = loop.predictors
    assert loop.with_predictors({}).predictors == loop.with_predictors(own).predictors == own
    before, calls, outcome = ran(loop, replies)
    check_told(before, own, calls)
    after, calls_after, outcome_after = ran(loop.with_predictors(own), replies)
    assert [seen(request) for request in before.requests] == [seen(request) for request in after.requests]
    assert all(request.examples == 0 for request in before.requests)
    assert (calls, outcome.stop, outcome.answer) == (calls_after, outcome_after.stop, outcome_after.answer)


def check_told(model: Kept, own: Program, calls: list[PredictorCall]) -> None:
    """Requests tell their predictor and its inputs, which say what was asked and nothing that came later."""
    for request, said in model.asked:
        asked = request.prompted
        assert asked is not None
        given = asked.inputs()
        assert given.keys() == own[asked.predictor].inputs.keys()
        assert json.dumps(to_jsonable_python(dict(given))) == said
        if CONVERSATION in given:
            shown = [message.content for message in request.messages if message.role != "system"]
            assert [item["content"] for item in json.loads(given[CONVERSATION]) if item["role"] != "system"] == shown
    for call in calls:
        assert call.inputs.keys() == own[call.predictor].inputs.keys()
        assert call.outputs.keys() >= own[call.predictor].outputs.keys()


@pytest.mark.parametrize(
    ("spec", "predictor", "replies"),
    [
        ("phased", "reason", [Understanding("A sum."), Tasks((PlanTask("1", "Think.", "reason"),)), Text("Five.")]),
        ("stateless", "recovery", [Act("Try.", (ToolCall("fail", {"a": 1, "b": 2}),)), Recovery("skip")]),
        ("stateless", "history_summarizer", [Act("x" * 3100, (ToolCall("add", {"a": 1, "b": 2}),)), Text("Long.")]),
        (
            "stateless(max_history_length=1)",
            "entry_summarizer",
            [*[Act("", (ToolCall("add", {"a": 1, "b": 2}),))] * 2, Text("Two.")],
        ),
    ],
)
def test_what_is_changed_reaches_predictors_that_are_seldom_asked_and_no_others(
    spec: str, predictor: str, replies: list[Any]
) -> None:
    loop = loop_of(spec)
    own = loop.predictors[predictor]
    _, calls, _ = ran(loop, replies)
    demo = next({**call.inputs, **call.outputs} for call in calls if call.predictor == predictor)
    changed = loop.with_predictors({predictor: replace(own, instructions=f"{own.instructions} MARK.", demos=(demo,))})
    asked, _, _ = ran(changed, replies)
    assert {_name(request) for request in asked.requests if request.examples} == {predictor}
    assert {_name(request) for request in asked.requests if "MARK." in request.messages[0].content} == {predictor}


@pytest.mark.parametrize("spec", SPECS[:-1])
def test_what_a_model_was_shown_and_said_comes_back_as_a_demonstration(spec: str) -> None:
    loop = loop_of(spec)
    plain, calls, _ = helpers.scripted_as_it_is(spec, "tool.raises")
    told = [request for request in plain if _is_told(request, calls)]
    for call in calls:
        matching = [request for request in told if _inputs(request) == call.inputs and _name(request) == call.predictor]
        assert matching
        prompt = replace(loop.predictors[call.predictor], demos=({**call.inputs, **call.outputs},))
        requests, _, _ = scripted(loop.with_predictors({call.predictor: prompt}), "tool.raises")
        shown = next(helpers.split(request)[0] for request in requests if _name(request) == call.predictor)
        check_shown(matching[0], call, shown, in_prose="history_as=messages" in spec)


def check_shown(request: Request, call: PredictorCall, shown: list[Message], *, in_prose: bool) -> None:
    codec = request.codec
    if isinstance(codec, SignatureCodec):
        user, said = shown
        assert in_prose or request.messages[-1].content.startswith(user.content)
        assert all(str(value) in user.content for value in call.inputs.values())
        assert to_jsonable_python(codec.read(Reply(said.content))) == call.outputs
        return
    given = [message for message in request.messages if message.role != "system"]
    assert [(m.role, m.content, [(c.name, c.arguments) for c in m.calls]) for m in shown[: len(given)]] == [
        (m.role, m.content, [(c.name, c.arguments) for c in m.calls]) for m in given
    ]
    assert shown[len(given)].role == "assistant"
    (output,) = call.outputs.values()
    said = shown[len(given)]
    assert output == said.content or json.loads(output) == {
        "text": said.content,
        "calls": [{"name": call.name, "arguments": call.arguments} for call in said.calls],
    }


def _is_told(request: Request, calls: list[PredictorCall]) -> bool:
    return any(_inputs(request) == call.inputs for call in calls)


def _inputs(request: Request) -> Any:
    assert request.prompted is not None
    return to_jsonable_python(dict(request.prompted.inputs()))


@pytest.mark.thorough
def test_over_http_a_run_with_demonstrations_has_the_digest_of_the_run_in_process(
    over_http: Callable[[], AbstractContextManager[None]], tmp_path: Path
) -> None:
    loops: list[str] = []
    for spec in ("bare", "finish", "react_extract"):
        loop, program = examples_of(spec)
        file = tmp_path / f"{len(loops)}.json"
        LoopProgram(loop.with_predictors(program)).save(file)
        loops.append(f"{spec}@{file}")
    config = CompareConfig(loops=tuple(loops), suite="arithmetic(size=1)", profiles=("flaky-tools",), runs=tmp_path, mlflow=False)
    found = []
    for way in (nullcontext, over_http):
        experiment = prepare(config)
        with way():
            assert run(experiment, Unwatched()) == ""
        found.append(results(experiment.folder))
    inside, outside = (
        sorted((record.arm, record.task, record.stop, record.trace_digest) for record in one.records) for one in found
    )
    assert inside == outside
    assert {record.status for one in found for record in one.records} == {"scored"}
