"""A predictor is asked by a model, or by the LM that DSPy is configured with: two paths, one request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dspy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.dspy_seam.helpers import TEXT, Answering, Extract, add, all_fields, completions, sections, some_fields
from whichloop.dspy_seam import ask, lm_of, with_instructions
from whichloop.loops.react_extract import ReactExtract, ReactExtractProgram
from whichloop.loops.react_extract_codecs import ExtractCodec, ReactCodec, ReactStep
from whichloop.protocol import (
    BudgetExceeded,
    ContextOverflow,
    ProviderError,
    Query,
    Reply,
    Request,
    Tool,
    Toolbox,
    WireError,
    run_sync,
)

REACT = ReactCodec(with_instructions(ReactStep, "Work on.\n\nTools:\n- add: Add."))
EXTRACT = ExtractCodec(Extract, {})

GOOD = {
    REACT: sections(next_thought="t", next_tool_name="add", next_tool_args='{"a": 1}'),
    EXTRACT: sections(reasoning="r", answer="A"),
}


def both(codec: Any, demos: list[Any], fields: dict[str, str], answer: Any) -> list[tuple[list[Request], Any]]:
    """What a model and DSPy's LM are sent, and what comes of it: output fields or an exception."""
    made = []
    for through in (False, True):
        predictor = dspy.Predict(Extract if codec is EXTRACT else ReactStep)
        predictor.demos = demos
        model = Answering(answer)
        with dspy.context(lm=lm_of(model)):
            asking = ask(predictor, fields, codec=codec, model=None if through else model)
            try:
                came: Any = run_sync(asking)[0]
            except Exception as error:
                came = error
        made.append((model.requests, came))
    return made


STEPS = st.lists(st.text(max_size=20), max_size=3).map(
    lambda results: "\n\n".join(f"[[ ## observation_{k} ## ]]\n{text}" for k, text in enumerate(results))
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Any, list[Any], dict[str, str]]:
    """A codec, demonstrations as optimizers leave them, and the two inputs."""
    codec = draw(st.sampled_from([REACT, EXTRACT]))
    demos = draw(st.lists(all_fields(codec.signature) | some_fields(codec.signature), max_size=2))
    wrapped = draw(st.sampled_from([dict, dspy.Example]))
    return codec, [wrapped(demo) for demo in demos], {"query": draw(TEXT), "trajectory": draw(STEPS)}


@given(question=questions())
@settings(deadline=None, max_examples=cases(20))
def test_both_paths_send_equal_requests_with_codec_and_role(question: Any) -> None:
    codec, demos, fields = question
    (direct, move), (through, same) = both(codec, demos, fields, GOOD[codec])
    assert direct == through
    assert [len(direct), len(through)] == [1, 1]
    for request in (*direct, *through):
        assert (request.codec, request.role) == (codec, codec.role)
        assert request.examples == len(request.messages) - 2
        assert request.prompted is not None
        assert (request.prompted.predictor, request.prompted.inputs()) == (codec.predictor, fields)
        assert request.prompted.outputs(Reply(GOOD[codec])) == codec.read(Reply(GOOD[codec]))
    assert move == same == codec.read(Reply(GOOD[codec]))


@given(codec=st.sampled_from([REACT, EXTRACT]), answer=st.one_of(TEXT, completions().map(lambda case: case[1])))
@example(codec=REACT, answer="")
@example(codec=REACT, answer=sections(next_thought="t", next_tool_name="n", next_tool_args="[" * 100_000))
@example(codec=REACT, answer=sections(next_thought="t", next_tool_name="n", next_tool_args="[1,\n2]"))
@settings(deadline=None, max_examples=cases(20))
def test_unreadable_replies_come_out_of_both_paths_in_the_same_words(codec: Any, answer: str) -> None:
    (_, direct), (_, through) = both(codec, [], {"query": "Q", "trajectory": ""}, answer)
    assert type(direct) is type(through)
    assert str(direct) == str(through)
    assert isinstance(direct, WireError) or direct == codec.read(Reply(answer))


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("slow down", "rate_limit", status=429, retry_after_s=2.0, injected=True),
        ProviderError("broken"),
        ContextOverflow("too long"),
        BudgetExceeded("spent"),
    ],
)
def test_errors_come_out_of_both_paths_as_they_went_in(error: Exception) -> None:
    for _, came in both(REACT, [], {"query": "Q", "trajectory": ""}, error):
        assert came is error
        assert vars(came) == vars(error)


def test_only_what_dspys_lm_is_asked_stands_in_dspys_trace() -> None:
    predictor, fields = dspy.Predict(Extract), {"query": "Q", "trajectory": ""}
    with dspy.context(lm=lm_of(Answering(GOOD[EXTRACT])), trace=[]):
        run_sync(ask(predictor, fields, codec=EXTRACT, model=Answering(GOOD[EXTRACT])))
        run_sync(ask(predictor, fields, codec=EXTRACT, model=None))
        [(asked, inputs, outputs)] = dspy.settings.trace
    assert (asked, inputs, outputs.toDict()) == (predictor, fields, {"reasoning": "r", "answer": "A"})
    with dspy.context(lm=None), pytest.raises(ValueError, match="no LM is configured"):
        run_sync(ask(predictor, fields, codec=EXTRACT, model=None))


REACT_REPLIES = st.one_of(
    st.sampled_from(
        [
            GOOD[REACT],
            sections(next_thought="Sum.", next_tool_name="add", next_tool_args='{"a": 1, "b": 2}'),
            sections(next_thought="Done.", next_tool_name="finish", next_tool_args="{}"),
            sections(next_thought="Hm.", next_tool_name="add", next_tool_args="[1]"),
            "",
            ProviderError("down"),
        ]
    ),
    TEXT,
)


@given(
    replies=st.lists(REACT_REPLIES, min_size=1, max_size=5),
    config=st.builds(
        ReactExtract,
        max_iterations=st.integers(1, 3),
        extract=st.booleans(),
        on_parse_error=st.sampled_from(["finish", "observe"]),
        parse_retries=st.integers(0, 1),
        tell_extract=st.booleans(),
    ),
)
@settings(deadline=None, max_examples=cases(15))
def test_a_run_by_a_model_and_by_predictors_is_the_same_run(replies: list[Any], config: ReactExtract) -> None:
    tool = Tool.from_function(add, blocking=False)
    program = ReactExtractProgram([tool], config)
    direct, through = Answering(*replies), Answering(*replies)
    ours = replace(config, program=program.program).run_sync(Query("Q"), Toolbox([tool]), direct)
    with dspy.context(lm=lm_of(through)):
        theirs = program(query="Q")
    assert direct.requests == through.requests
    assert [request.codec.name for request in direct.requests if request.codec] == [
        request.codec.name for request in through.requests if request.codec
    ]
    assert (ours.answer, ours.stop.value, ours.details["trajectory"]) == (theirs.answer, theirs.stop, theirs.trajectory)
    assert ours.details.get("reasoning") == theirs.toDict().get("reasoning")
