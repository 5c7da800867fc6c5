"""The prompts of single designs as a program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import dspy
import pytest

from tests.loops.predictors.helpers import (
    _name,
    examples_of,
    loop_of,
    ran,
    scripted,
    seen,
    split,
)
from whichloop.dspy_seam import FORMAT
from whichloop.dspy_seam.program import LoopProgram
from whichloop.loops import Microcompact, ReactExtract, ReactExtractProgram, RepeatGuard, Stateless
from whichloop.protocol import (
    SILENT,
    Act,
    Answer,
    Loop,
    Model,
    Observer,
    Outcome,
    Query,
    Toolbox,
    ToolCall,
)
from whichloop.protocol.predictor import CONVERSATION, EXAMPLES


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


def test_bare_keeps_format_and_tools_below_whatever_the_instructions_say() -> None:
    loop = loop_of("bare")
    prompt = replace(loop.predictors["decide"], instructions="Guess.")
    requests, _, _ = scripted(loop.with_predictors({"decide": prompt}))
    plain, _, _ = scripted(loop)
    own = loop.predictors["decide"].instructions
    assert plain[0].messages[0].content.startswith(f"{own} Reply with one JSON object")
    assert requests[0].messages[0].content == plain[0].messages[0].content.replace(f"{own} ", "Guess.\n\n")


def test_extract_shows_a_labelled_example_as_dspy_does() -> None:
    loop = loop_of("react_extract")
    labelled = {"query": "What is 1 + 1?", "answer": "2", "task": "t"}
    changed = loop.with_predictors({name: replace(prompt, demos=(labelled,)) for name, prompt in loop.predictors.items()})
    requests, _, _ = scripted(changed)
    assert {_name(request): request.examples for request in requests} == {"react": 0, "extract": 2}
    assert "What is 1 + 1?" in requests[-1].messages[1].content
    assert "[[ ## answer ## ]]\n2" in requests[-1].messages[2].content


def test_react_extracts_file_loads_into_its_own_program(tmp_path: Path) -> None:
    loop, program = examples_of("react_extract")
    program = {name: replace(prompt, instructions=f"Be quick, {name}.") for name, prompt in program.items()}
    file = tmp_path / "optimized.json"
    LoopProgram(loop.with_predictors(program)).save(file)
    loaded = ReactExtractProgram()
    loaded.load(file)
    by_hand = replace(cast(ReactExtract, loop), program=loaded.program)
    assert by_hand.predictors == program
    assert [seen(request) for request in scripted(by_hand)[0]] == [
        seen(request) for request in scripted(loop.with_predictors(program))[0]
    ]


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


def test_history_as_messages_gives_demonstrations_that_tell_the_history() -> None:
    loop = loop_of("stateless(history_as=messages)")
    _, calls, _ = scripted(loop)
    histories = [call.inputs["conversation_history"] for call in calls if call.predictor == "reasoner"]
    assert histories[0] == "No previous interactions."
    assert "add" in histories[-1]
    assert "The messages above." not in "".join(histories)


def test_options_that_a_stateless_program_was_made_for_stay_as_they_are() -> None:
    changed = Stateless().with_predictors({})
    with pytest.raises(ValueError, match="validate_output must be False as in the program"):
        replace(changed, validate_output=True)


class Fixed:
    """A loop without predictors."""

    name = "fixed"
    stops: frozenset[Any] = frozenset()

    def with_step_limit(self, tool_steps: int) -> Fixed:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        raise NotImplementedError


@pytest.mark.parametrize("wrapped", [RepeatGuard(cast(Loop, Fixed())), Microcompact(cast(Loop, Fixed()))])
def test_around_a_loop_without_predictors_there_are_none(wrapped: Any) -> None:
    with pytest.raises(AttributeError, match="predictors"):
        _ = wrapped.predictors


def test_microcompact_leaves_demonstrations_whole_and_tells_what_was_shown() -> None:
    loop = loop_of("microcompact(loop=finish, keep=1)")
    _, program = examples_of("finish")
    add_up = [Act("", (ToolCall("add", {"a": 1, "b": n}),)) for n in range(3)]
    plain, _, _ = ran(loop, [*add_up, Answer("", "6")])
    assert "[old result cleared]" in [message.content for message in plain.requests[-1].messages]
    model, calls, _ = ran(loop.with_predictors(program), [*add_up, Answer("", "6")])
    examples, rest = split(model.requests[-1])
    assert rest == list(plain.requests[-1].messages)
    assert not any("cleared" in message.content for message in examples)
    assert "[old result cleared]" in calls[-1].inputs[CONVERSATION]
