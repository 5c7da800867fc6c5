"""The stateless design as a dspy.Module."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import ADD, FAIL, PLAIN, STOP, TOOLS, add, agent, formatted, recover, run, state, think
from tests.rows import row
from whichloop.dspy_seam import lm_of
from whichloop.loops.stateless import (
    ConversationState,
    Stateless,
    StatelessProgram,
)
from whichloop.protocol import (
    Act,
    Answer,
    Reply,
    StopReason,
)
from whichloop.protocol import ToolCall as Call


def test_a_program_answers_from_the_configured_model() -> None:
    program = StatelessProgram([add], PLAIN)
    assert [name for name, _ in program.named_predictors()] == [*PLAIN.predictors]
    with dspy.context(lm=lm_of(Script(think(ADD), STOP))):
        made = program(query="Q")
    assert (made.answer, made.stop, made.confidence, made.state.total_tool_calls) == ("3", "finished", 0.9, 1)


def test_a_program_is_saved_loaded_and_bootstrapped(tmp_path: Any) -> None:
    class Model(Script):
        async def complete(self, request: Any) -> Reply:
            known = "add: 3" in request.messages[-1].content
            reply: Reply = request.codec.render(Answer("t", "3", 0.9) if known else Act("t", (Call("add", {"a": 1, "b": 2}),)))
            return reply

    program = StatelessProgram([add], PLAIN)
    program.reasoner.signature = program.reasoner.signature.with_instructions("Do it well.")
    with dspy.context(lm=lm_of(Model()), trace=[]):
        teleprompter = dspy.BootstrapFewShot(metric=lambda example, made, trace=None: made.answer == "3", max_labeled_demos=0)
        made = teleprompter.compile(program, trainset=[dspy.Example(query="What is 1 + 2?").with_inputs("query")])
    assert len(made.reasoner.demos) == 1
    made.save(tmp_path / "program.json")
    loaded = StatelessProgram([add], PLAIN)
    loaded.load(tmp_path / "program.json")
    texts = []
    for source in (made, loaded):
        model = Script(STOP)
        run(PLAIN.with_predictors(source.program), model)
        texts.append([message.content for message in model.requests[0].messages])
    assert len(texts[0]) == 4, "system, the demonstration's two messages, the question"
    assert "Do it well." in texts[0][0]
    assert texts[0] == texts[1]


def test_the_predictors_of_an_agent_by_itself_stand_in_dspys_trace() -> None:
    decider = agent(None)
    with dspy.context(lm=lm_of(Script(think(ADD))), trace=[]):
        decider(state())
        [(predictor, inputs, outputs)] = dspy.settings.trace
    assert predictor is decider.agent_reasoner.reasoner.predict
    assert (inputs["user_query"], outputs.reasoning_output.calls[0].tool_name) == ("Q", "add")


def test_both_ways_to_a_model_send_equal_messages() -> None:
    direct, through = (Script(think(ADD, FAIL), recover("skip"), STOP, formatted("F")) for _ in range(2))
    config = Stateless()
    run(config, direct)
    with dspy.context(lm=lm_of(through)):
        StatelessProgram(TOOLS, config)(query="Q")
    assert [request.messages for request in direct.requests] == [request.messages for request in through.requests]
    assert direct.roles == through.roles


NOT_PLAIN = think(("fail", {"why": "X"})).replace('"X"', "NaN")

NOT_PLAIN_RETRY = recover("retry", retry_with_params={"why": "X"}).replace('"X"', "NaN")


@pytest.mark.parametrize(
    ("replies", "stop"),
    [
        ([NOT_PLAIN], StopReason.PARSE_FAILED),
        ([think(*[ADD] * 101)], StopReason.PARSE_FAILED),
        ([think(FAIL), NOT_PLAIN_RETRY], StopReason.RECOVERY_FAILED),
    ],
)
@row("S0-68")
def test_both_ways_to_a_model_refuse_the_same_replies(replies: list[str], stop: StopReason) -> None:
    assert run(PLAIN, Script(*replies)).stop is stop
    with dspy.context(lm=lm_of(Script(*replies))):
        made = StatelessProgram(TOOLS, PLAIN)(query="Q")
    assert made.stop == stop
    assert ConversationState.model_validate_json(made.state.model_dump_json()) == made.state
