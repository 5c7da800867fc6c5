"""Design 0, its laws: what its codecs can say comes back; any reply and any tool end in an outcome within the limits."""

from __future__ import annotations

import json
import math
from typing import Any

import dspy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.helpers import Script, comes_back
from tests.rows import row
from whichloop.loops.stateless import ConversationState, ManualAgentLoop, Stateless
from whichloop.loops.stateless.signatures import (
    MAX_CALLS,
    AgentReasonerSignature,
    DecideCodec,
    ErrorRecoverySignature,
    FormatDetailedResponse,
    FormatResponse,
    ProseCodec,
    RecoverCodec,
    SummarizeEntries,
    SummarizeHistory,
    ValidateCodec,
    ValidateReasoning,
    constrained,
)
from whichloop.loops.stateless.state import json_copy
from whichloop.protocol import (
    Act,
    Answer,
    Codec,
    Completion,
    ContextOverflow,
    Move,
    NativeCall,
    Outcome,
    PlanTask,
    ProviderError,
    Query,
    Recovery,
    Reply,
    Role,
    Tasks,
    Text,
    Tool,
    Toolbox,
    ToolCall,
    Understanding,
    WireError,
    run_sync,
)


def thoughtful(signature: Any) -> Any:
    """The signature that a chain of thought has."""
    return dspy.ChainOfThought(signature).predict.signature


DECIDING = thoughtful(AgentReasonerSignature)


CODECS: list[Any] = [
    DecideCodec(DECIDING),
    DecideCodec(DECIDING, calls_win=True),
    DecideCodec(constrained(DECIDING, ("add", "any"))),
    RecoverCodec(thoughtful(ErrorRecoverySignature)),
    ValidateCodec(ValidateReasoning),
    ProseCodec(FormatResponse, "formatter"),
    ProseCodec(thoughtful(FormatDetailedResponse), "formatter"),
    ProseCodec(SummarizeHistory, "history_summarizer"),
    ProseCodec(thoughtful(SummarizeEntries), "entry_summarizer"),
]


DECIDE, _, CONSTRAINED, RECOVER, VALIDATE, FORMAT, DETAILED, SUMMARIZE, COMPRESS = CODECS


BREAKING = "\n\r\t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029\ufeff\ud800\x00"


WORDS = st.one_of(
    st.text(max_size=8),
    st.text(st.sampled_from(f"ab {BREAKING}"), max_size=6),
    st.sampled_from(
        ["add", "", "[[ ## reasoning ## ]]", "x\n[[ ## completed ## ]]", " [[ ## a ## ]] b", "```", '{"a": 1}', "null", "3"]
    ),
)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def nested(levels: int) -> Any:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        float("nan"),
        math.inf,
        (1, 2),
        {1: 2},
        {1, 2},
        b"b",
        object,
        10**5000,
        1 << 70,
        ToolCall("a", {}),
        nested(59),
        nested(90),
        nested(400),
    ]
)


ANYTHING = JSON | ODD | st.lists(ODD, max_size=1)


CALLS = st.builds(ToolCall, WORDS, st.dictionaries(WORDS, ANYTHING, max_size=3))


CONFIDENCES = st.none() | st.floats(0, 1) | st.sampled_from([True, 2.0, float("nan"), "0.5"])


MOVES: st.SearchStrategy[Move] = st.one_of(
    st.builds(Act, WORDS, st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(Answer, WORDS, ANYTHING | WORDS, CONFIDENCES),
    st.builds(Text, WORDS),
    st.builds(Completion, st.booleans(), WORDS | st.just(""), st.lists(WORDS, max_size=2).map(tuple), CONFIDENCES),
    st.builds(Recovery, st.sampled_from(["retry", "alternative_tool", "skip", "fail"]), st.none() | CALLS, WORDS),
    st.sampled_from([Understanding("x"), Tasks((PlanTask("1", "x"),))]),
)


@given(move=MOVES)
@settings(deadline=None, max_examples=cases(50))
def test_law_render_raises_inexpressible_or_the_move_comes_back(move: Move) -> None:
    for codec in CODECS:
        comes_back(codec, move)


PRINTABLE = (
    st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=12)
    .map(str.strip)
    .filter(lambda text: "[[ ##" not in text)
)


OBJECTS = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=8) | st.none() | st.booleans(), max_size=3)


@given(text=PRINTABLE, name=PRINTABLE, arguments=OBJECTS, confidence=st.floats(0, 1))
@settings(deadline=None, max_examples=cases(50))
def test_bound_calls_answers_recoveries_verdicts_and_prose_are_expressible(
    text: str, name: str, arguments: dict[str, Any], confidence: float
) -> None:
    call = ToolCall(name, arguments)
    for calls in ((), (call,), (call, call)):
        assert comes_back(DECIDE, Act(text, calls))
    for value in (text, None):
        assert comes_back(DECIDE, Answer(text, value, confidence))
    for strategy in ("retry", "alternative_tool", "skip", "fail"):
        assert comes_back(RECOVER, Recovery(strategy, call, text))
        assert comes_back(RECOVER, Recovery(strategy, None, text))
    assert comes_back(VALIDATE, Completion(True, "", (text,)))
    for codec in (FORMAT, DETAILED, SUMMARIZE, COMPRESS):
        assert comes_back(codec, Text(text))


@given(answer=st.text(max_size=20).filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text)))
@settings(deadline=None)
def test_bound_an_answer_may_be_any_text_at_all(answer: str) -> None:
    assert comes_back(DECIDE, Answer("t", answer, 0.5))


def test_gaps_of_each_codec_are_what_its_documentation_says() -> None:
    assert not comes_back(DECIDE, Answer("t", 3, 0.5))
    assert not comes_back(DECIDE, Answer("t", "3"))
    assert comes_back(DECIDE, Answer("t", None, 0.0))
    assert not comes_back(DECIDE, Answer("t", "3", 1.5))
    assert not comes_back(DECIDE, Act("t", (ToolCall("add", {}),) * (MAX_CALLS + 1)))
    assert comes_back(DECIDE, Act("t", (ToolCall("add", {}),) * MAX_CALLS))
    for value, sayable in ((nested(60), True), (nested(300), False), (float("nan"), False), ("\ud800", False)):
        assert comes_back(DECIDE, Act("t", (ToolCall("add", {"a": value}),))) is sayable
        assert comes_back(RECOVER, Recovery("retry", ToolCall("add", {"a": value}))) is sayable
    assert not comes_back(CONSTRAINED, Act("t", (ToolCall("other", {}),)))
    assert comes_back(CONSTRAINED, Act("t", (ToolCall("add", {}),)))
    assert not comes_back(VALIDATE, Completion(True, "reason"))
    assert not comes_back(FORMAT, Text(" white space "))
    for codec in CODECS:
        assert isinstance(codec, Codec)
        assert not comes_back(codec, Understanding("x"))
    assert [codec.max_calls for codec in CODECS] == [MAX_CALLS] * 3 + [1] + [0] * 5


VALID = [
    DECIDE.render(Act("t", (ToolCall("add", {"a": 1, "b": 2}),))).text,
    DECIDE.render(Answer("t", "3", 0.5)).text,
    RECOVER.render(Recovery("retry", ToolCall("add", {"a": 1}), "r")).text,
    VALIDATE.render(Completion(True, "", ("x",))).text,
    FORMAT.render(Text("x")).text,
    COMPRESS.render(Text("x")).text,
]


HEADERS = st.sampled_from([f"[[ ## {name} ## ]]" for codec in CODECS for name in codec.signature.output_fields])


SECTIONS = st.lists(st.tuples(HEADERS, st.just("\n"), JSON.map(json.dumps) | WORDS), max_size=6)


REPLIES = st.one_of(
    st.text(max_size=30),
    JSON.map(json.dumps),
    SECTIONS.map(lambda sections: "\n".join("".join(parts) for parts in sections)),
    st.tuples(st.sampled_from(VALID), st.integers(0, 400), st.integers(0, 20), WORDS).map(
        lambda cut: cut[0][: cut[1]] + cut[3] + cut[0][cut[1] + cut[2] :]
    ),
)


def with_parameters(text: str) -> str:
    """A decision whose call has these parameters."""
    return str(VALID[0]).replace('{"a": 1, "b": 2}', text)


@given(text=REPLIES)
@example("[" * 100_000)
@example("9" * 5_000)
@example("\n".join(f"[[ ## {name} ## ]]\n{'[' * 5_000}" for name in DECIDE.signature.output_fields))
@example(with_parameters('{"a": ' + "[" * 10_000 + "]" * 10_000 + "}"))
@example(with_parameters('{"a": ' + "[" * 200 + "]" * 200 + "}"))
@example(with_parameters('{"a": NaN, "b": Infinity}'))
@example(with_parameters('{"a": "\\ud800"}'))
@example(with_parameters(f'{{"a": {"9" * 4_000}}}'))
@example(with_parameters("[1]"))
@settings(deadline=None, max_examples=cases(50))
@row("X-6")
def test_any_text_is_a_move_or_a_wire_error(text: str) -> None:
    for codec in CODECS:
        move = parsed(codec, text)
        if isinstance(move, Act):
            assert len(move.calls) <= codec.max_calls
            assert all(json_copy(call.arguments) == call.arguments for call in move.calls)
        if isinstance(move, WireError):
            assert str(move).strip()


def parsed(codec: Codec, text: str) -> Move | WireError:
    try:
        return codec.parse(Reply(text))
    except WireError as error:
        return error


CONFIGS = st.builds(
    Stateless,
    max_iterations=st.integers(1, 5),
    execution_mode=st.sampled_from(["sequential", "parallel", "selective"]),
    enable_error_recovery=st.booleans(),
    response_style=st.sampled_from(["concise", "detailed", None]),
    include_confidence=st.none() | st.booleans(),
    finish_with_tools=st.sampled_from(["stop", "run_first", "ask_again"]),
    constrain_names=st.booleans(),
    validate_output=st.booleans(),
    told_max_iterations=st.none() | st.integers(1, 9),
    max_empty_decisions=st.none() | st.integers(1, 3),
    max_recovery_rounds=st.integers(0, 3),
    max_history_length=st.none() | st.integers(1, 3),
    history_as=st.sampled_from(["prose", "messages"]),
)


def decisions(said: dict[str, Any]) -> str:
    return f"[[ ## reasoning ## ]]\nr\n[[ ## reasoning_output ## ]]\n{json.dumps(said)}"


OUTPUTS = st.fixed_dictionaries(
    {
        "overall_reasoning": st.text(max_size=5),
        "confidence": st.floats(0, 1),
        "should_use_tools": st.booleans(),
        "tool_calls": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {
                    "tool_name": st.sampled_from(["add", "any", "search", "web_search", "nope", ""]),
                    "parameters": st.just({"a": 1, "b": 2}) | st.just({}) | st.dictionaries(st.text(max_size=3), JSON, max_size=2),
                    "reasoning": st.text(max_size=3),
                }
            ),
            max_size=4,
        ),
        "parallel_safe": st.booleans(),
        "should_continue": st.booleans() | st.just(True),
        "continuation_reasoning": st.text(max_size=5),
        "final_response": st.none() | st.text(max_size=5),
    }
)


MOVED: dict[Role, st.SearchStrategy[Any]] = {
    Role.DECIDE: OUTPUTS.map(decisions) | st.builds(Act, st.just("t"), st.just((ToolCall("add", {"a": 1, "b": 2}),))),
    Role.RECOVER: st.builds(
        Recovery,
        st.sampled_from(["retry", "alternative_tool", "skip", "fail"]),
        st.none() | st.builds(ToolCall, st.sampled_from(["add", "nope"]), st.just({"a": 1, "b": 2})),
        st.just("d"),
    ),
    Role.SUMMARIZE: st.builds(Text, st.sampled_from(["s", "S" * 4000])),
    Role.VALIDATE: st.builds(Completion, st.booleans()),
    Role.FORMAT: st.builds(Text, st.sampled_from(["f", ""])),
}


NOISE = st.one_of(
    st.text(max_size=20),
    st.sampled_from([ProviderError("down"), ContextOverflow("long")]),
    st.just(Reply("", (NativeCall("1", "add", '{"a": '),))),
)


class Odd:
    """A result that JSON cannot say and whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


RESULTS = st.one_of(
    JSON, st.sampled_from([Odd(), {1, 2}, b"\xff", object(), "y" * 4000, SystemExit(3), KeyError("k"), ValueError("v")])
)


@given(loop=CONFIGS, data=st.data(), result=RESULTS)
@settings(deadline=None, max_examples=cases(25))
@row("X-21", "G-9")
def test_any_reply_and_any_tool_end_in_an_outcome_within_the_limits(
    loop: Stateless,
    data: st.DataObject,
    result: Any,
) -> None:
    def anything(**given: Any) -> Any:
        if isinstance(result, BaseException):
            raise result
        return result

    def answer(request: Any) -> Any:
        if data.draw(st.integers(0, 9)) == 0:
            return data.draw(NOISE)
        return data.draw(MOVED[request.role])

    model = Script(then=answer)
    tools = Toolbox(
        [Tool(name, "", {"type": "object"}, anything, blocking=False) for name in ("add", "any", "search", "web_search")]
    )
    outcome: Outcome = run_sync(loop.run(Query("Q"), tools, model))
    assert outcome.stop in loop.stops
    assert outcome.steps <= loop.max_iterations
    assert model.roles.count(Role.DECIDE) <= loop.max_iterations
    assert outcome.confidence is None or 0 <= outcome.confidence <= 1
    assert all("Q" in request.messages[-1].content for request in model.requests)
    made = outcome.details["state"]
    assert ConversationState.model_validate_json(made.model_dump_json()) == made
    assert made.total_tool_calls == sum(
        result["status"] != "skipped" for item in made.conversation_history if item.iteration > 0 for result in item.results
    ) or any(item.iteration == -1 for item in made.conversation_history)


@given(
    changes=st.fixed_dictionaries(
        {
            "iteration_count": st.integers(1, 5),
            "recovery_rounds": st.integers(0, 3),
            "last_tool_results": st.none()
            | st.lists(
                st.sampled_from(
                    [
                        {"tool_name": "add", "status": "success", "result": [1], "execution_time": 0.0, "parameters": {}},
                        {"tool_name": "add", "status": "error", "error": "e", "error_type": "E", "parameters": {"a": [1]}},
                        {"tool_name": "add", "status": "error", "error": "e", "error_type": "E", "parameters": {}, "seen": True},
                        {"tool_name": "add", "status": "skipped", "reason": "r"},
                    ]
                ),
                max_size=4,
            ),
        }
    ),
    said=OUTPUTS,
    strategy=st.sampled_from(["retry", "alternative_tool", "skip", "fail"]),
)
@settings(deadline=None, max_examples=cases(25))
@row("X-9", "S0-24")
def test_a_decision_depends_on_its_state_alone_and_leaves_it_as_it_was(
    changes: dict[str, Any],
    said: dict[str, Any],
    strategy: Any,
) -> None:
    def answer(request: Any) -> Any:
        known = {Role.RECOVER: Recovery(strategy, None, "d"), Role.FORMAT: Text("f")}
        return known.get(request.role) or decisions(said)

    state = ConversationState(user_query="Q", **changes)
    before = state.model_copy(deep=True)
    agent = ManualAgentLoop(Toolbox(), model=Script(then=answer))
    first, second = (agent.get_next_action(state) for _ in range(2))
    assert state == before
    assert first.model_dump(exclude={"processing_time"}) == second.model_dump(exclude={"processing_time"})
    assert type(first).model_validate_json(first.model_dump_json()).model_dump() == first.model_dump()
    assert isinstance(DECIDE, DecideCodec)
