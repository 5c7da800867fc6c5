"""Every design's prompts as a program: what may be changed is in its place, and nothing else moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import to_jsonable_python

from tests.cases import cases
from tests.loops.predictors.helpers import (
    PREDICTORS,
    SPECS,
    Kept,
    _name,
    each_spec,
    examples_of,
    loop_of,
    program_from,
    ran,
    scripted,
    scripted_as_it_is,
    seen,
    split,
)
from whichloop.dspy_seam import SignatureCodec
from whichloop.dspy_seam.program import LoopProgram, PredictorCall
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import prepare, run
from whichloop.protocol import ContextOverflow, Message, NativeCall, Program, ProviderError, Reply, Request, ToolCall
from whichloop.protocol.moves import Act, Answer, Completion, Move, PlanTask, Recovery, Tasks, Text, Understanding
from whichloop.protocol.predictor import CONVERSATION
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched

SELDOM = frozenset({"reason", "recovery", "history_summarizer", "entry_summarizer"})


EVERY = settings(
    deadline=None, max_examples=cases(5), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
WORDS = st.text(max_size=8) | st.sampled_from(["finish", "__finish__", "[[ ## answer ## ]]", "<output>", "{", "\ud800", "\x00"])
NUMBERS = st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers(0, 9)})
CALLS = st.builds(ToolCall, st.sampled_from(["add", "add", "fail", "gone"]), NUMBERS)
TASKS = st.builds(
    PlanTask,
    st.sampled_from(["1", "2"]),
    WORDS,
    st.sampled_from(["use_tools", "reason"]),
    st.lists(st.just("1"), max_size=1).map(tuple),
)
MOVES: st.SearchStrategy[Move] = st.one_of(
    st.builds(Act, WORDS, st.lists(CALLS, min_size=1, max_size=2).map(tuple)),
    st.builds(Act, WORDS, CALLS.map(lambda call: (call,))),
    st.builds(Act, WORDS, CALLS.map(lambda call: (call,))),
    st.builds(Answer, WORDS, WORDS, st.none() | st.floats(0, 1)),
    st.builds(Answer, WORDS),
    st.builds(Text, WORDS),
    st.builds(Understanding, WORDS),
    st.builds(Tasks, st.lists(TASKS, max_size=3).map(tuple)),
    st.builds(Completion, st.booleans(), WORDS),
    st.builds(Recovery, st.sampled_from(["retry", "skip", "fail"]), st.none() | CALLS, WORDS),
)
RAW = st.builds(
    Reply,
    WORDS | st.text(max_size=40),
    st.lists(
        st.builds(NativeCall, st.just("?"), st.sampled_from(["add", "__finish__", "gone"]), WORDS | st.just("[1]")), max_size=2
    ).map(tuple),
)
REPLIES = st.lists(MOVES | MOVES | MOVES | RAW | st.sampled_from([ProviderError("down"), ContextOverflow("too long")]), max_size=14)


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


@each_spec
@EVERY
@given(replies=REPLIES, recorded=REPLIES)
def test_demonstrations_stand_in_their_place_and_leave_requests_legal(spec: str, replies: list[Any], recorded: list[Any]) -> None:
    loop = loop_of(spec)
    program = program_from(loop, ran(loop, recorded)[1])
    before, _, _ = ran(loop, replies)
    after, _, outcome = ran(loop.with_predictors(program), replies)
    assert outcome.stop in loop.stops
    assert len(before.requests) == len(after.requests)
    for plain, request in zip(before.requests, after.requests, strict=True):
        assert request.prompted is not None
        examples, rest = split(request)
        demos = program[request.prompted.predictor].demos
        assert (len(examples) >= 2 * len(demos)) if demos else not examples
        assert rest == list(plain.messages)
        assert request.messages[0] == plain.messages[0] or plain.messages[0].role != "system"
        assert seen(request) | {"messages": [], "examples": 0} == seen(plain) | {"messages": []}
        check_calls(request)


def check_calls(request: Request) -> None:
    """OpenAI's order: each call of a message is answered right below it, in order, and no id stands twice."""
    ids = [call.id for message in request.messages for call in message.calls]
    assert len(ids) == len(set(ids))
    open_ids: list[str] = []
    for message in request.messages:
        if message.role == "tool":
            assert open_ids.pop(0) == message.call_id
        else:
            assert not open_ids
            open_ids = [call.id for call in message.calls]
    assert not open_ids


@each_spec
def test_changed_instructions_stand_in_the_requests_of_that_predictor_alone(spec: str) -> None:
    loop = loop_of(spec)
    changed = {
        name: replace(prompt, instructions=f"{prompt.instructions}\nMARK {name}.".strip())
        for name, prompt in loop.predictors.items()
    }
    asked = set[str]()
    for fault in ("", "tool.raises") if "(" not in spec else ("",):
        plain, _, _ = scripted_as_it_is(spec, fault)
        for name, prompt in changed.items():
            for request in scripted(loop.with_predictors({name: prompt}), fault)[0]:
                assert request.prompted is not None
                asked.add(request.prompted.predictor)
                shown = "\n".join(message.content for message in request.messages)
                assert (f"MARK {name}." in shown) == (request.prompted.predictor == name)
                assert (f"MARK {name}." in request.messages[0].content) == (request.prompted.predictor == name)
        assert all("MARK" not in message.content for request in plain for message in request.messages)
    assert asked >= set(PREDICTORS[spec]) - SELDOM


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
def test_so_do_those_that_are_seldom_asked(spec: str, predictor: str, replies: list[Any]) -> None:
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
    plain, calls, _ = scripted_as_it_is(spec, "tool.raises")
    told = [request for request in plain if _is_told(request, calls)]
    for call in calls:
        matching = [request for request in told if _inputs(request) == call.inputs and _name(request) == call.predictor]
        assert matching
        prompt = replace(loop.predictors[call.predictor], demos=({**call.inputs, **call.outputs},))
        requests, _, _ = scripted(loop.with_predictors({call.predictor: prompt}), "tool.raises")
        shown = next(split(request)[0] for request in requests if _name(request) == call.predictor)
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
