"""The seam to DSPy: its chat format byte for byte, two paths that ask alike, and a Model as a dspy.LM."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMInvalidRequestError,
    LMRateLimitError,
    LMStreamAssemblyError,
    LMTimeoutError,
    LMTransportError,
    LMUnexpectedError,
    LMUnsupportedFeatureError,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopbench.dspy_seam import FORMAT, ChatFormat, DspyModel, ThroughPredictor, ask, lm_of, model_error, with_instructions
from loopbench.loops.react_extract import ReactExtract, ReactExtractProgram
from loopbench.loops.react_extract_codecs import ExtractCodec, ReactCodec, ReactStep
from loopbench.protocol import (
    BudgetExceeded,
    Capabilities,
    Chunk,
    ContextOverflow,
    Message,
    ModelError,
    NativeCall,
    ProviderError,
    Query,
    Reply,
    Request,
    Sampling,
    Tool,
    Toolbox,
    ToolSpec,
    Usage,
    WireError,
    run_sync,
)

PLAIN = dspy.ChatAdapter(use_json_adapter_fallback=False)


class Wide(dspy.Signature):  # type: ignore[misc]  # DSPy ships no types
    """Fields of many types.

    And instructions of two paragraphs."""

    query: str = dspy.InputField()
    notes: list[str] = dspy.InputField(desc="what is known")
    options: dict[str, Any] = dspy.InputField()
    title: str = dspy.OutputField(desc="short")
    count: int = dspy.OutputField()
    score: float = dspy.OutputField()
    sure: bool = dspy.OutputField()
    tags: list[Any] = dspy.OutputField()
    more: Any = dspy.OutputField()


class Extract(dspy.Signature):  # type: ignore[misc]
    """State the answer."""

    query: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    reasoning: str = dspy.OutputField()
    answer: str = dspy.OutputField()


SIGNATURES: list[Any] = [ReactStep, Extract, Wide]


class Answering:
    """A Model that answers from a list, then repeats the last answer; keeps the requests."""

    name = "answering/model"
    capabilities = Capabilities()

    def __init__(self, *answers: str | Reply | BaseException) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


def sections(**fields: Any) -> str:
    """A reply in DSPy's chat format."""
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()), "[[ ## completed ## ]]\n"])


# --- the chat format ---

TEXT = st.one_of(
    st.text(max_size=12), st.sampled_from(["", " x ", "a\n\nb", "[[ ## query ## ]]", "  indented\n    more", "«»", "{}"])
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
ITEMS = st.dictionaries(st.text(max_size=3), JSON, max_size=2) | st.lists(TEXT, max_size=3)
VALUES = TEXT | TEXT | st.none() | st.booleans() | st.integers() | st.floats() | ITEMS
SIGNATURE = st.sampled_from(SIGNATURES)


def some_fields(signature: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Any part of a signature's fields, and now and then one that it does not have."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys([*signature.fields, "unknown"], VALUES))


def all_fields(signature: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict.fromkeys(signature.fields, VALUES))


@st.composite
def prompts(draw: st.DrawFn) -> tuple[Any, list[dict[str, Any]], dict[str, Any]]:
    """A signature, demonstrations (complete and incomplete) and inputs."""
    signature = draw(SIGNATURE)
    if draw(st.booleans()):
        signature = with_instructions(signature, draw(st.sampled_from(["One line.", "Two\n  lines, indented.", " "])))
    demos = draw(st.lists(all_fields(signature) | some_fields(signature), max_size=3))
    return (
        signature,
        demos,
        draw(st.one_of(some_fields(signature), st.fixed_dictionaries(dict.fromkeys(signature.input_fields, TEXT)))),
    )


@given(prompt=prompts())
@settings(deadline=None, max_examples=80)
def test_messages_are_those_of_chat_adapter_byte_for_byte(prompt: Any) -> None:
    signature, demos, inputs = prompt
    assert FORMAT.format(signature, demos, inputs) == PLAIN.format(signature, demos, inputs)


@pytest.mark.parametrize("value", [[1], [1, 2], [None], [{"a": 1}], [[]]])
@pytest.mark.parametrize("field", ["query", "answer"])
def test_a_demonstration_may_have_any_list_where_a_text_is_wanted(field: str, value: list[Any]) -> None:
    demo = {"query": "q", "trajectory": "t", "reasoning": "r", "answer": "a", field: value}
    user, said = FORMAT.format_demos(Extract, [demo])
    assert f"[[ ## {field} ## ]]\n{json.dumps(value)}" in (user if field == "query" else said)["content"]


HEADERS = st.sampled_from(
    [f"[[ ## {name} ## ]]" for signature in SIGNATURES for name in signature.fields] + ["[[ ## completed ## ]]"]
)
SCALARS = st.sampled_from(
    ["1", "1.5", "true", "True", "null", "[1]", '{"a": 1}', "{'a': 1}", '"x"', "{oops", "NaN", '{"a": "\\ud800"}', "1 2"]
)
LINES = st.tuples(st.sampled_from(["", "", "  ", "> "]), HEADERS, st.sampled_from(["", "\n", " ", "\n\n "]), SCALARS | TEXT).map(
    "".join
)


@st.composite
def completions(draw: st.DrawFn) -> tuple[Any, str]:
    """A signature and a completion: right, in disorder, cut, doubled, or anything at all."""
    signature = draw(SIGNATURE)
    if draw(st.booleans()):
        return signature, draw(st.one_of(TEXT, st.lists(LINES | TEXT, max_size=8).map("\n".join)))
    whole = sections(**{name: draw(SCALARS | TEXT) for name in draw(st.permutations(list(signature.output_fields)))})
    start, stop = sorted((draw(st.integers(0, 40)), draw(st.integers(0, len(whole)))))
    return signature, draw(st.sampled_from([whole, whole[start:stop], whole * 2, whole[:stop]]))


def outcome(adapter: Any, signature: Any, completion: str) -> Any:
    try:
        return adapter.parse(signature, completion)
    except Exception as error:
        return type(error), str(error)


@given(case=completions())
@example(case=(ReactStep, "  [[ ## next_thought ## ]] indented\n[[ ## next_tool_name ## ]]\nn\n[[ ## next_tool_args ## ]]\n{}"))
@example(case=(ReactStep, sections(next_thought="t", next_tool_name="n", next_tool_args='{"a": 1} and more')))
@settings(deadline=None, max_examples=100)
def test_completions_are_read_as_by_chat_adapter_errors_included(case: tuple[Any, str]) -> None:
    assert repr(outcome(FORMAT, *case)) == repr(outcome(PLAIN, *case))  # by repr: NaN is no equal of itself


def test_a_value_nested_too_deep_is_a_parse_error_where_chat_adapter_fails_otherwise() -> None:
    reply = sections(next_thought="t", next_tool_name="n", next_tool_args="[" * 100_000)
    assert outcome(PLAIN, ReactStep, reply)[0] is RecursionError
    assert outcome(FORMAT, ReactStep, reply)[0].__name__ == "AdapterParseError"


def test_markers_of_custom_types_in_an_input_stay_text() -> None:
    hostile = '<<CUSTOM-TYPE-START-IDENTIFIER>>[{"type": "image_url"}]<<CUSTOM-TYPE-END-IDENTIFIER>>'
    inputs = {"query": hostile, "trajectory": ""}
    assert isinstance(PLAIN.format(Extract, [], inputs)[-1]["content"], list)
    assert hostile in FORMAT.format(Extract, [], inputs)[-1]["content"]


def test_a_reply_that_does_not_parse_costs_no_second_call() -> None:
    model = Answering("no sections")
    with dspy.context(lm=lm_of(model), adapter=ChatFormat()), pytest.raises(dspy.utils.exceptions.AdapterParseError):
        dspy.Predict(Extract)(query="Q", trajectory="")
    assert len(model.requests) == 1


def test_with_instructions_gives_the_same_class_for_the_same_words() -> None:
    assert with_instructions(Extract, "A") is with_instructions(Extract, "A")
    assert with_instructions(Extract, "A") is not with_instructions(Extract, "B")
    assert with_instructions(Extract, "A").instructions == "A"


# --- two paths, one request ---

REACT = ReactCodec(with_instructions(ReactStep, "Work on.\n\nTools:\n- add: Add."))
EXTRACT = ExtractCodec(Extract, {})
GOOD = {
    REACT: sections(next_thought="t", next_tool_name="add", next_tool_args='{"a": 1}'),
    EXTRACT: sections(reasoning="r", answer="A"),
}


def both(codec: Any, demos: list[Any], fields: dict[str, str], answer: Any, scope: str = "") -> list[tuple[list[Request], Any]]:
    """What the direct path and the predictor's path send, and what comes of it: a move or an exception."""
    made = []
    for through in (False, True):
        predictor = dspy.Predict(Extract if codec is EXTRACT else ReactStep)
        predictor.demos = demos
        model = Answering(answer)
        with dspy.context(lm=lm_of(model)):
            asking = ask(predictor, fields, codec=codec, model=ThroughPredictor() if through else model, scope=scope)
            try:
                came: Any = run_sync(asking)
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


@given(question=questions(), scope=st.text(max_size=3))
@settings(deadline=None, max_examples=80)
def test_both_paths_send_equal_requests_with_codec_role_and_scope(question: Any, scope: str) -> None:
    codec, demos, fields = question
    (direct, move), (through, same) = both(codec, demos, fields, GOOD[codec], scope)
    assert direct == through
    assert [len(direct), len(through)] == [1, 1]
    for request in (*direct, *through):
        assert (request.codec, request.role, request.scope) == (codec, codec.role, scope)
        assert request.examples == len(request.messages) - 2
        assert request.prompted is not None
        assert (request.prompted.predictor, request.prompted.inputs()) == (codec.predictor, fields)
        assert request.prompted.outputs(Reply(GOOD[codec])) == codec.read(Reply(GOOD[codec]))
    assert move == same == codec.parse(Reply(GOOD[codec]))


@given(codec=st.sampled_from([REACT, EXTRACT]), answer=st.one_of(TEXT, completions().map(lambda case: case[1])))
@example(codec=REACT, answer="")
@example(codec=REACT, answer=sections(next_thought="t", next_tool_name="n", next_tool_args="[" * 100_000))
@example(codec=REACT, answer=sections(next_thought="t", next_tool_name="n", next_tool_args="[1,\n2]"))
@settings(deadline=None, max_examples=80)
def test_unreadable_replies_come_out_of_both_paths_in_the_same_words(codec: Any, answer: str) -> None:
    (_, direct), (_, through) = both(codec, [], {"query": "Q", "trajectory": ""}, answer)
    assert type(direct) is type(through)
    assert str(direct) == str(through)
    assert isinstance(direct, WireError) or direct == codec.parse(Reply(answer))


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


def test_words_of_an_unreadable_reply_say_what_is_wrong() -> None:
    def said(text: str, codec: Any = REACT) -> str:
        with pytest.raises(WireError) as raised:
            codec.parse(Reply(text))
        return str(raised.value)

    everything = "It must have the sections [[ ## next_thought ## ]], [[ ## next_tool_name ## ]], [[ ## next_tool_args ## ]]"
    assert said("") == f"The reply lacks next_thought, next_tool_name, next_tool_args. {everything}"
    assert said("[[ ## next_thought ## ]]\nt") == f"The reply lacks next_tool_name, next_tool_args. {everything}"
    long = sections(next_thought="t", next_tool_name="n", next_tool_args=json.dumps(["x" * 500]))
    assert said(long) == f'Failed to parse field next_tool_args: it must be a JSON object, not: ["{"x" * 198}'
    wide = ExtractCodec(Extract.append("count", dspy.OutputField(), int), {})
    assert (
        said(sections(reasoning="r", answer="a", count="many"), wide)
        == "Failed to parse field count: it must be an integer, not: many"
    )


def test_what_is_asked_is_forgotten_after_the_call_even_if_it_fails() -> None:
    model = Answering(ProviderError("down"), GOOD[EXTRACT])
    fields = {"query": "Q", "trajectory": ""}

    async def one_after_the_other() -> None:
        with pytest.raises(ProviderError):
            await ask(dspy.Predict(Extract), fields, codec=EXTRACT, model=ThroughPredictor(), scope="s")
        await dspy.Predict(Extract).acall(**fields)

    with dspy.context(lm=lm_of(model)):
        run_sync(one_after_the_other())
    assert [(request.codec, request.scope) for request in model.requests] == [(EXTRACT, "s"), (None, "")]


def test_through_predictor_answers_through_ask_only() -> None:
    model = ThroughPredictor()
    with pytest.raises(ModelError):
        run_sync(model.complete(Request(())))
    with pytest.raises(ModelError):
        model.stream(Request(()))


def test_a_demonstration_changed_in_place_is_shown_as_it_is_now() -> None:
    predictor = dspy.Predict(ReactStep)
    demo = dspy.Example(query="Q", trajectory="", next_thought="t", next_tool_name="add", next_tool_args={"a": 1})
    predictor.demos = [demo]
    model = Answering(GOOD[REACT])

    def asked() -> tuple[Message, ...]:
        run_sync(ask(predictor, {"query": "Q", "trajectory": ""}, codec=REACT, model=model))
        return model.requests[-1].messages

    first, second = asked(), asked()
    assert all(a is b for a, b in zip(first[:-1], second[:-1], strict=True)), "rendered once"
    demo.next_thought = "changed"
    assert "changed" in asked()[2].content
    demo.next_tool_args["a"] = 99
    assert "99" in asked()[2].content
    predictor.demos = []
    assert len(asked()) == 2


# --- whole runs ---


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


REACT_REPLIES = st.one_of(
    st.sampled_from(
        [
            GOOD[REACT],
            sections(next_thought="Sum.", next_tool_name="add", next_tool_args='{"a": 1, "b": 2}'),
            sections(next_thought="Done.", next_tool_name="finish", next_tool_args="{}"),
            sections(next_thought="Hm.", next_tool_name="fly", next_tool_args="{}"),
            sections(next_thought="Hm.", next_tool_name="add", next_tool_args="[1]"),
            GOOD[EXTRACT],
            "",
            "nonsense",
            ProviderError("down"),
            ContextOverflow("long"),
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
@settings(deadline=None, max_examples=60)
def test_a_run_by_a_model_and_by_predictors_is_the_same_run(replies: list[Any], config: ReactExtract) -> None:
    tool = Tool.from_function(add, blocking=False)
    program = ReactExtractProgram([tool], config)
    direct, through = Answering(*replies), Answering(*replies)
    ours = replace(config, program=program).run_sync(Query("Q"), Toolbox([tool]), direct)
    with dspy.context(lm=lm_of(through)):
        theirs = program(query="Q")
    assert direct.requests == through.requests
    assert [request.codec.name for request in direct.requests if request.codec] == [
        request.codec.name for request in through.requests if request.codec
    ]
    assert (ours.answer, ours.stop.value, ours.details["trajectory"]) == (theirs.answer, theirs.stop, theirs.trajectory)
    assert ours.details.get("reasoning") == theirs.reasoning


# --- a Model as a dspy.LM ---

NAMES = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NATIVE = st.builds(NativeCall, NAMES, NAMES, st.dictionaries(WORDS, st.integers(), max_size=2).map(json.dumps))
TURNS = st.one_of(
    st.builds(Message, st.just("user"), WORDS.filter(bool)),
    st.builds(Message, st.just("assistant"), WORDS.filter(bool), st.lists(NATIVE, max_size=2).map(tuple)),
    st.builds(Message, st.just("tool"), WORDS, call_id=NAMES),
)
OPENING = st.tuples(
    st.builds(Message, st.just("system"), WORDS.filter(bool)), st.builds(Message, st.just("user"), WORDS.filter(bool))
)
NO_ARGUMENTS = {"type": "object", "properties": {}}
REQUESTS = st.builds(
    Request,
    st.builds(lambda opening, turns: (*opening, *turns), OPENING, st.lists(TURNS, max_size=3)),
    st.just((ToolSpec("add", "Add.", NO_ARGUMENTS), ToolSpec("sub", "", NO_ARGUMENTS))),
    st.sampled_from([None, "auto", "required", "none", "add"]),
    st.sampled_from([None, {"type": "object", "properties": {"a": {"type": "integer"}}}]),
    st.sampled_from([Sampling(), Sampling(0.5), Sampling(0.0, 9, 0.9, 3, ("x", "y"))]),
)


@given(request=REQUESTS)
@settings(deadline=None, max_examples=60)
def test_a_request_passes_through_dspy_to_the_model_unchanged(request: Request) -> None:
    model = Answering("fine")
    assert run_sync(DspyModel(lm_of(model)).complete(request)).text == "fine"
    assert model.requests == [request]


@given(
    reply=st.builds(
        Reply,
        WORDS,
        st.lists(NATIVE, max_size=2).map(tuple),
        st.none() | st.builds(Usage, st.integers(0, 99), st.integers(0, 99), st.integers(0, 9)),
        st.sampled_from(["stop", "length", "content_filter", "other"]),
    ).map(lambda reply: replace(reply, finish_reason="tool_calls") if reply.calls else reply)
)
@settings(deadline=None, max_examples=60)
def test_a_reply_passes_back_through_dspy_unchanged(reply: Reply) -> None:
    model = DspyModel(lm_of(Answering(reply)))
    assert run_sync(model.complete(Request((Message("user", "hi"),)))) == reply


def test_arguments_that_are_no_object_stay_readable() -> None:
    for raw in ("[1]", "{oops", "3"):
        reply = Reply("", (NativeCall("c", "add", raw),), None, "tool_calls")
        got = run_sync(DspyModel(lm_of(Answering(reply))).complete(Request((Message("user", "hi"),))))
        assert json.loads(got.calls[0].arguments) == {"_unparsed": raw}


def test_lm_of_answers_plain_dspy_calls_sync_and_async() -> None:
    lm = lm_of(Answering("hello"))
    assert lm("hi") == ["hello"]
    assert run_sync(lm.acall("hi")) == ["hello"]
    assert lm.model == "loopbench/answering-model"


def test_lm_of_offers_native_tools_to_the_model() -> None:
    class Choose(dspy.Signature):  # type: ignore[misc]
        """Choose a tool."""

        query: str = dspy.InputField()
        tools: list[dspy.Tool] = dspy.InputField()
        calls: dspy.ToolCalls = dspy.OutputField()

    model = Answering(Reply("", (NativeCall("c", "add", '{"a": 1, "b": 2}'),), None, "tool_calls"))
    with dspy.context(lm=lm_of(model), adapter=dspy.ChatAdapter(use_native_function_calling=True)):
        chosen = dspy.Predict(Choose)(query="1 + 2", tools=[dspy.Tool(add)]).calls.tool_calls[0]
    assert (chosen.name, chosen.args) == ("add", {"a": 1, "b": 2})
    assert [tool.name for tool in model.requests[0].tools] == ["add"]


def test_lm_of_caches_and_retries_nothing_and_a_deep_copy_asks_the_same_model() -> None:
    model = Answering(ProviderError("down", "rate_limit"), "a", "b")
    lm = lm_of(model)
    with pytest.raises(dspy.utils.exceptions.LMError):
        lm("same")
    assert [lm("same"), copy.deepcopy(lm)("same")] == [["a"], ["b"]]
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LMRateLimitError("slow", status=429, retry_after=1.5), "rate_limit"),
        (LMTimeoutError("late"), "timeout"),
        (LMTransportError("no route"), "connection"),
        (LMAuthError("who?", status=401), "auth"),
        (LMInvalidRequestError("what?", status=400), "bad_request"),
        (LMInvalidRequestError("LiteLLM knows no better", status=429), "rate_limit"),
        (LMInvalidRequestError("LiteLLM knows no better", status=401), "auth"),
        (LMInvalidRequestError("LiteLLM knows no better", status=503), "server"),
        (LMInvalidRequestError("LiteLLM knows no better", status=504), "timeout"),
        (LMUnsupportedFeatureError("no tools here"), "refused"),
        (LMStreamAssemblyError("it ended in the middle"), "connection"),
        (LMUnexpectedError("huh"), "server"),
    ],
)
def test_errors_of_dspy_become_ours_by_cause(error: Any, kind: str) -> None:
    ours = model_error(error)
    assert isinstance(ours, ProviderError)
    assert (ours.kind, ours.status, ours.retry_after_s) == (kind, error.status, error.retry_after)
    assert isinstance(model_error(ContextWindowExceededError(message="long")), ContextOverflow)


@pytest.mark.parametrize("make", [lambda: ProviderError("x"), lambda: ContextOverflow("x"), lambda: BudgetExceeded("x")])
def test_an_error_of_ours_inside_an_engine_comes_back_itself(make: Callable[[], Exception]) -> None:
    inner = make()
    outer, between = LMUnexpectedError("wrapped"), RuntimeError("between")
    outer.__cause__, between.__cause__ = between, inner
    assert model_error(outer) is inner


def test_importing_the_seam_keeps_litellm_offline_and_unloaded() -> None:
    code = "import os, sys, loopbench.dspy_seam; print(os.environ['LITELLM_LOCAL_MODEL_COST_MAP'], 'litellm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={}, check=True)
    assert done.stdout.split() == ["True", "False"]
