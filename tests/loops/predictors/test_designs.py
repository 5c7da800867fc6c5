"""The prompts of single designs as a program, and every design's as modules of DSPy: saved, copied, loaded, called."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import dspy
import pytest
from dspy.utils import DummyLM

from tests.loops.helpers import add
from tests.loops.predictors.helpers import PREDICTORS, _name, each_spec, examples_of, loop_of, ran, scripted, seen
from whichloop.dspy_seam import FORMAT
from whichloop.dspy_seam.program import LoopProgram
from whichloop.loops.react_extract import ReactExtract, ReactExtractProgram
from whichloop.protocol import Loop, NativeCall, Optimizable, Reply
from whichloop.protocol.names import parse_spec
from whichloop.protocol.predictor import EXAMPLES
from whichloop.protocol.program import read_program


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


def test_a_demonstration_of_a_typed_field_reads_from_json_as_from_the_model() -> None:
    loop, program = examples_of("stateless")
    demo = program["reasoner"].demos[0]
    assert isinstance(demo["reasoning_output"], dict)
    reasoner = cast(Any, loop).with_predictors(program).program.agent_reasoner.reasoner.predict
    output_type = reasoner.signature.output_fields["reasoning_output"].annotation
    typed = dict(demo) | {"reasoning_output": output_type(**demo["reasoning_output"])}
    assert FORMAT.format_demos(reasoner.signature, [dict(demo)]) == FORMAT.format_demos(reasoner.signature, [typed])


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
    assert saved.on(loop) == program
    assert [seen(request) for request in scripted(loop.with_predictors(saved.on(loop)))[0]] == [
        seen(request) for request in scripted(loop.with_predictors(program))[0]
    ]


@each_spec
def test_an_unknown_predictor_is_refused(spec: str) -> None:
    loop = loop_of(spec)
    with pytest.raises(ValueError, match="predictor 'nobody' is not one of this loop's"):
        loop.with_predictors({"nobody": next(iter(loop.predictors.values()))})


@each_spec
def test_a_changed_loop_keeps_its_options_and_its_program_under_a_limit(spec: str) -> None:
    loop, program = examples_of(spec)
    changed = loop.with_predictors(program)
    assert changed.with_step_limit(7).predictors == program
    assert changed.with_step_limit(7) == loop.with_step_limit(7) or "loop" in parse_spec(spec).options
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
