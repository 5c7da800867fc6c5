"""The stateless design as a dspy.Module."""

from __future__ import annotations

import copy
from typing import Any

import dspy
import pytest

from tests.loops.helpers import Script
from tests.loops.stateless.helpers import ADD, FAIL, PLAIN, STOP, TOOLS, add, formatted, recover, run, system, think
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


def test_a_program_answers_from_the_configured_model_and_lends_its_predictors() -> None:
    config = Stateless(response_style=None)
    program = StatelessProgram([add], config)
    assert {name for name, _ in program.named_predictors()} >= {"agent.agent_reasoner.reasoner.predict"}
    model = Script(think(ADD), STOP)
    with dspy.context(lm=lm_of(model)):
        made = program(query="Q")
    assert (made.answer, made.stop, made.confidence) == ("3", "finished", 0.9)
    predictor = program.agent.agent_reasoner.reasoner.predict
    predictor.signature = predictor.signature.with_instructions("Do it well.")
    model = Script(STOP)
    run(Stateless(response_style=None, program=program), model)
    assert "Do it well." in system(model.requests[0])
    copied = copy.deepcopy(program)
    assert copied.agent.agent_reasoner.reasoner.predict is not predictor
    with pytest.raises(ValueError, match="response_style"):
        Stateless(program=program)


def test_a_program_is_saved_loaded_and_bootstrapped(tmp_path: Any) -> None:
    class Model(Script):
        async def complete(self, request: Any) -> Reply:
            known = "add: 3" in request.messages[-1].content
            reply: Reply = request.codec.render(Answer("t", "3", 0.9) if known else Act("t", (Call("add", {"a": 1, "b": 2}),)))
            return reply

    program = StatelessProgram([add], PLAIN)
    with dspy.context(lm=lm_of(Model()), trace=[]):
        teleprompter = dspy.BootstrapFewShot(metric=lambda example, made, trace=None: made.answer == "3", max_labeled_demos=0)
        made = teleprompter.compile(program, trainset=[dspy.Example(query="What is 1 + 2?").with_inputs("query")])
    demos = made.agent.agent_reasoner.reasoner.predict.demos
    assert len(demos) == 1
    made.save(tmp_path / "program.json")
    loaded = StatelessProgram([add], PLAIN)
    loaded.load(tmp_path / "program.json")
    texts = []
    for source in (made, loaded):
        model = Script(STOP)
        run(Stateless(response_style=None, program=source), model)
        texts.append([message.content for message in model.requests[0].messages])
    assert len(texts[0]) == 4, "system, the demonstration's two messages, the question"
    assert texts[0] == texts[1]


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
