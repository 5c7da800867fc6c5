"""Every design's prompts as a program: what may be changed stands where it belongs, and nothing else moves."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import dspy
import pytest
from dspy.utils import DummyLM
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import to_jsonable_python

from loopbench.datasets.task import StatelessEnvironment, Suite, Task
from loopbench.dspy_seam import FORMAT, SignatureCodec
from loopbench.dspy_seam.program import LoopProgram, PredictorCall, ReportingModel
from loopbench.experiments.compare.prepare import prepare
from loopbench.experiments.compare.results import results
from loopbench.experiments.compare.run import run
from loopbench.loops import Microcompact, ReactExtract, ReactExtractProgram, RepeatGuard, Stateless
from loopbench.metrics.record import Record
from loopbench.models.profiles import Clears, Profile
from loopbench.protocol import (
    SILENT,
    Act,
    Answer,
    Capabilities,
    Chunk,
    Completion,
    ContextOverflow,
    Inexpressible,
    Loop,
    Message,
    Model,
    Move,
    NativeCall,
    Observer,
    Optimizable,
    Outcome,
    Plan,
    PlannedCall,
    PlanTask,
    Program,
    ProviderError,
    Query,
    Recovery,
    Ref,
    Reply,
    Request,
    Tasks,
    Text,
    Tool,
    Toolbox,
    ToolCall,
    Understanding,
    WrappedModel,
    run_sync,
)
from loopbench.protocol.names import parse_spec
from loopbench.protocol.program import CONVERSATION, EXAMPLES, read_program
from loopbench.runs.config import CompareConfig
from loopbench.runs.engine.runner import Unwatched
from loopbench.runs.registry import Spec, make_loop
from loopbench.runs.schedule import Arm, Trial
from loopbench.runs.trial.setting import TrialContext
from loopbench.runs.trial.trial import run_trial

LIMIT = 4
PHASES = ("understand", "plan", "select", "reason", "reflect", "contexts", "answer")
STATELESS = ("reasoner", "history_summarizer", "entry_summarizer", "recovery", "formatter")
PREDICTORS: Mapping[str, tuple[str, ...]] = {
    "bare": ("decide",),
    "bare(decision_format=fields)": ("decide",),
    "bare(decision_format=native)": ("decide",),
    "bare(decision_format=native, instructions=none)": ("decide",),
    'bare(instructions="Reply with JSON.")': ("decide",),
    "finish": ("decide",),
    "finish(system_prompt=none)": ("decide",),
    "finish(forced_finish=xml, finish_with_tools=ask_again)": ("decide",),
    "phased": PHASES,
    "phased(tool_layout=agent)": (*PHASES, "summarize"),
    "phased(plan=false)": tuple(name for name in PHASES if name not in ("plan", "reason")),
    "phased(understand=false, reflect=false)": tuple(name for name in PHASES if name not in ("understand", "reflect")),
    "react_extract": ("react", "extract"),
    "react_extract(extract=false, on_parse_error=observe)": ("react",),
    "stateless": STATELESS,
    "stateless(response_style=detailed, validate_output=true)": (*STATELESS[:3], "validator", *STATELESS[3:]),
    "stateless(response_style=none, max_recovery_rounds=0)": STATELESS[:3],
    "stateless(enable_error_recovery=false, max_history_length=none)": ("reasoner", "history_summarizer", "formatter"),
    "stateless(max_history_length=1, constrain_names=true)": STATELESS,
    "stateless(history_as=messages)": tuple(name for name in STATELESS if name != "history_summarizer"),
    "repeat_guard(loop=bare)": ("decide",),
    "microcompact(loop=finish, keep=1)": ("decide",),
    "microcompact(loop=phased)": PHASES,
}
"""Spec → the predictors that its configuration has, in order."""
SPECS = list(PREDICTORS)
SELDOM = frozenset({"reason", "recovery", "history_summarizer", "entry_summarizer"})
EVERY = settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


DRAWN = [spec for spec in SPECS if spec not in ("phased(plan=false)", "microcompact(loop=phased)", "repeat_guard(loop=bare)")]


def each(specs: list[str]) -> list[Any]:
    """The designs themselves are among the fast tests, their ablations among the thorough ones."""
    return [spec if "(" not in spec else pytest.param(spec, marks=pytest.mark.thorough) for spec in specs]


def loop_of(spec: str) -> Any:
    return make_loop(parse_spec(spec), LIMIT)


# --- drawn replies ---

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


class Told:
    """Gives the drawn replies, a move in the request's own codec where that can say it; ids of calls are never used twice."""

    name = "told"
    capabilities = Capabilities()

    def __init__(self, replies: list[Any]) -> None:
        self.replies = list(replies)
        self.calls = 0

    async def complete(self, request: Request) -> Reply:
        reply = self.replies.pop(0) if self.replies else ProviderError("down")
        if isinstance(reply, Exception):
            raise reply
        if not isinstance(reply, Reply):
            assert request.codec is not None
            try:
                reply = request.codec.render(reply)
            except Inexpressible:
                reply = Reply(repr(reply))
        self.calls += len(reply.calls)
        named = tuple(replace(call, id=f"id{self.calls}_{place}") for place, call in enumerate(reply.calls))
        return replace(reply, calls=named)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


class Kept(WrappedModel):
    """Keeps each request, with what its predictor's inputs say before the reply."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.asked: list[tuple[Request, Any]] = []

    @property
    def requests(self) -> list[Request]:
        return [request for request, _ in self.asked]

    async def complete(self, request: Request) -> Reply:
        said = None if request.prompted is None else json.dumps(to_jsonable_python(dict(request.prompted.inputs())))
        self.asked.append((request, said))
        return await self.model.complete(request)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail(a: int, b: int) -> int:
    """Fail."""
    raise ValueError("no")


def ran(loop: Loop, replies: list[Any]) -> tuple[Kept, list[PredictorCall], Outcome]:
    calls: list[PredictorCall] = []
    model = Kept(ReportingModel(Told(replies), calls))
    tools = Toolbox([Tool.from_function(function, blocking=False) for function in (add, fail)])
    return model, calls, run_sync(loop.run(Query("What is 2 + 3?"), tools, model))


def seen(request: Request) -> dict[str, Any]:
    """All of a request that a model or the harness can see."""
    assert request.codec is not None
    predictor = None if request.prompted is None else request.prompted.predictor
    told = {"role": request.role, "scope": request.scope, "codec": request.codec.name, "predictor": predictor}
    return request.as_dict() | told | {"examples": request.examples}


def split(request: Request) -> tuple[list[Message], list[Message]]:
    """Demonstrations, and the messages without them."""
    messages = list(request.messages)
    first = 1 if messages[0].role == "system" else 0
    last = first + request.examples
    return messages[first:last], messages[:first] + messages[last:]


def program_from(loop: Any, calls: list[PredictorCall], most: int = 2) -> Program:
    """The loop's own program with recorded calls as demonstrations."""
    return {
        name: replace(prompt, demos=tuple({**call.inputs, **call.outputs} for call in calls if call.predictor == name)[:most])
        for name, prompt in loop.predictors.items()
    }


# --- real runs of the scripted model ---

FIRST = PlannedCall("sum", "add", {"a": 2, "b": 3}, "Add 2 and 3.")
PLAN = Plan((FIRST, PlannedCall("more", "add", {"a": Ref("sum"), "b": 4}, "Add 4 to the sum.")), Ref("more"))
TASK = Task("sums", Query("What is 2 + 3 + 4?"), 9, "numeric", PLAN)
SUITE = Suite("sums", "1", (TASK,), lambda _: StatelessEnvironment((Tool.from_function(add, blocking=False),)))
FAULTS = ("", "tool.raises", "wire.malformed", "decision.unknown_tool", "provider.server")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A loop whose requests and calls are kept."""

    loop: Any
    kept: list[Kept]
    calls: list[PredictorCall]

    @property
    def name(self) -> str:
        return str(self.loop.name)

    @property
    def stops(self) -> Any:
        return self.loop.stops

    def with_step_limit(self, tool_steps: int) -> Recorded:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        self.kept.append(Kept(ReportingModel(model, self.calls)))
        outcome: Outcome = await self.loop.run(query, tools, self.kept[-1], observer)
        return outcome


def scripted(loop: Any, fault: str = "") -> tuple[list[Request], list[PredictorCall], Record]:
    profile = Profile(name="one", rates={fault: 0.5} if fault else {}, clears=Clears(feedback=1, after=0, never=0))
    recorded = Recorded(loop, [], [])
    arm = Arm("arm", Spec("recorded", {}), recorded, "scripted", profile)
    record = run_sync(run_trial(Trial(arm, TASK, 0, 0), TrialContext(SUITE))).record
    return recorded.kept[0].requests, recorded.calls, record


@cache
def examples_of(spec: str) -> tuple[Any, Program]:
    """A loop, and its program with demonstrations from a run in clean air."""
    loop = loop_of(spec)
    _, calls, record = scripted(loop)
    assert record.stop is not None
    return loop, program_from(loop, calls)


# --- the laws ---


@pytest.mark.parametrize("spec", each(DRAWN))
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


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("spec", each(SPECS))
def test_nor_does_it_in_a_scripted_run(spec: str, fault: str) -> None:
    loop = loop_of(spec)
    before, _, record = scripted(loop, fault)
    after, _, record_after = scripted(loop.with_predictors(loop.predictors), fault)
    assert [seen(request) for request in before] == [seen(request) for request in after]
    assert (record.stop, record.accuracy) == (record_after.stop, record_after.accuracy)


@pytest.mark.parametrize("spec", each(DRAWN))
@EVERY
@given(replies=REPLIES, recorded=REPLIES)
def test_demonstrations_stand_in_their_place_and_leave_requests_legal(spec: str, replies: list[Any], recorded: list[Any]) -> None:
    loop = loop_of(spec)
    program = program_from(loop, ran(loop, recorded)[1])
    before, _, _ = ran(loop, replies)
    after, _, _ = ran(loop.with_predictors(program), replies)
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


@pytest.mark.parametrize("spec", each(SPECS))
def test_changed_instructions_stand_in_the_requests_of_that_predictor_alone(spec: str) -> None:
    loop = loop_of(spec)
    changed = {
        name: replace(prompt, instructions=f"{prompt.instructions}\nMARK {name}.".strip())
        for name, prompt in loop.predictors.items()
    }
    asked = set[str]()
    for fault in FAULTS:
        plain, _, _ = scripted(loop, fault)
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


@pytest.mark.parametrize("spec", each([spec for spec in SPECS if spec != "microcompact(loop=finish, keep=1)"]))
def test_what_a_model_was_shown_and_said_comes_back_as_a_demonstration(spec: str) -> None:
    loop = loop_of(spec)
    plain, calls, _ = scripted(loop, "tool.raises")
    told = [request for request in plain if _is_told(request, calls)]
    for call in calls:
        matching = [request for request in told if _inputs(request) == call.inputs and _name(request) == call.predictor]
        assert matching
        prompt = replace(loop.predictors[call.predictor], demos=({**call.inputs, **call.outputs},))
        requests, _, _ = scripted(loop.with_predictors({call.predictor: prompt}))
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


def _name(request: Request) -> str:
    assert request.prompted is not None
    return request.prompted.predictor


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("spec", each(SPECS))
def test_a_scripted_run_with_demonstrations_ends_as_declared(spec: str, fault: str) -> None:
    loop, program = examples_of(spec)
    requests, _, record = scripted(loop.with_predictors(program), fault)
    assert record.status == "scored"
    assert record.stop in loop.stops
    assert any(request.examples for request in requests)
    for request in requests:
        if request.tools:
            examples, _ = split(request)
            assert [m for m in examples if m.role == "tool"] or not any(m.calls for m in examples)


@pytest.mark.thorough
def test_over_http_a_run_with_demonstrations_has_the_digest_of_the_run_in_process(
    over_http: Callable[[], AbstractContextManager[None]], tmp_path: Path
) -> None:
    loops: list[str] = []
    for spec in (
        "bare",
        "bare(decision_format=native)",
        "finish",
        "finish(system_prompt=none)",
        "phased",
        "react_extract",
        "stateless",
    ):
        loop, program = examples_of(spec)
        file = tmp_path / f"{len(loops)}.json"
        LoopProgram(loop.with_predictors(program)).save(file)
        loops.append(f"{spec}@{file}")
    config = CompareConfig(
        loops=tuple(loops), suite="arithmetic(size=3)", profiles=("clean", "flaky-tools"), runs=tmp_path, mlflow=False
    )
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


# --- as modules of DSPy's ---


@pytest.mark.parametrize("spec", each(SPECS))
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


@pytest.mark.parametrize("spec", each(SPECS))
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


@pytest.mark.parametrize("spec", each(SPECS))
def test_a_module_without_changes_is_the_loop_itself(spec: str) -> None:
    loop = loop_of(spec)
    assert LoopProgram(loop).program == loop.predictors


@pytest.mark.parametrize("spec", each(SPECS))
def test_an_unknown_predictor_is_refused(spec: str) -> None:
    loop = loop_of(spec)
    prompt = next(iter(loop.predictors.values()))
    with pytest.raises(ValueError, match="predictor 'nobody' is none of this loop's"):
        loop.with_predictors({"nobody": prompt})


@pytest.mark.parametrize("spec", each(SPECS))
def test_a_changed_loop_keeps_its_options_and_its_program_under_a_limit(spec: str) -> None:
    loop, program = examples_of(spec)
    changed = loop.with_predictors(program)
    assert changed.with_step_limit(7).predictors == program
    assert changed.with_step_limit(7) == loop.with_step_limit(7) or "loop" in parse_spec(spec).options
    assert changed.stops == loop.stops
    assert loop.predictors != program


# --- single designs ---


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
    by_hand = replace(cast(ReactExtract, loop), program=loaded)
    assert by_hand.predictors == program
    assert [seen(request) for request in scripted(by_hand)[0]] == [
        seen(request) for request in scripted(loop.with_predictors(program))[0]
    ]


def test_a_users_own_program_is_changed_as_a_copy() -> None:
    own = ReactExtractProgram()
    own.react.demos = [dspy.Example(query="q", trajectory="", next_thought="t", next_tool_name="add", next_tool_args={"a": 1})]
    loop = ReactExtract(program=own)
    prompt = loop.predictors["react"]
    assert prompt.demos[0]["next_tool_args"] == {"a": 1}
    changed = loop.with_predictors({"react": replace(prompt, instructions="Other.", demos=())})
    assert (own.react.signature.instructions, len(own.react.demos)) == (prompt.instructions, 1)
    assert changed.predictors["react"].instructions == "Other."
    assert changed.program is not None
    assert changed.program.extract.signature is own.extract.signature or changed.predictors["extract"] == loop.predictors["extract"]


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


@pytest.mark.parametrize("spec", ["finish", "react_extract"])
def test_a_demonstrations_field_may_have_any_name(spec: str) -> None:
    loop = loop_of(spec)
    name, prompt = next(iter(loop.predictors.items()))
    changed = loop.with_predictors({name: replace(prompt, demos=({"self": 1, "base": 2},))})
    assert LoopProgram(changed).program[name].demos == ({"self": 1, "base": 2},)


# --- in a program of the user's own ---

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
