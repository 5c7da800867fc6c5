"""What hypothesis draws for the loops: values, moves, results of tools and whatever a model may write instead of a move."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from whichloop.protocol import ContextOverflow, NativeCall, ProviderError, Reply, ToolCall
from whichloop.protocol.moves import Act, Answer, Completion, PlanTask, Recovery, Role, Tasks, Text, Understanding

MARKUP = [
    "[[ ## answer ## ]]",
    "x\n[[ ## completed ## ]]",
    " [[ ## a ## ]] b",
    "<output>",
    "</answer>",
    "&lt;",
    "]]>",
    "```",
    "[r:1]",
]
BREAKING = "\n\r\t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029\ufeff\ud800\x00"
WORDS = st.one_of(
    st.text(max_size=8),
    st.text(st.sampled_from(f"ab {BREAKING}"), max_size=6),
    st.sampled_from(["", "add", "finish", "__finish__", "null", "none", "3", '{"a": 1}', "{", *MARKUP]),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def nested(levels: int) -> Any:
    """Lists in lists."""
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        float("nan"),
        float("inf"),
        (1, 2),
        {1: 2},
        {1, 2},
        b"b",
        object,
        10**5000,
        1 << 70,
        ToolCall("a", {}),
        *map(nested, (59, 400)),
    ]
)
"""What JSON cannot say, or what its readers refuse."""
ANYTHING = JSON | ODD | st.lists(ODD, max_size=1)


class Unshowable:
    """A result that nothing can render."""

    def __repr__(self) -> str:
        raise RuntimeError("cannot be shown")


RAISED: list[BaseException] = [
    ValueError("no"),
    SystemExit(3),
    GeneratorExit(),
    RuntimeError("\ud800"),
    TimeoutError(),
    KeyError("k"),
]
RESULTS = JSON | st.sampled_from([float("nan"), Unshowable(), {1, 2}, b"\xff", object(), "y" * 4000, StopIteration(), *RAISED])
"""What a tool returns, or raises."""

# --- moves by role, as a model that has understood its task makes them ---

NUMBERS = st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers(0, 9)})
CALLS = st.builds(
    ToolCall,
    st.sampled_from(["add", "add", "odd", "search", "gone", "finish", ""]),
    NUMBERS | st.dictionaries(WORDS, JSON, max_size=2),
)
TASKS = st.builds(
    PlanTask,
    st.sampled_from(["1", "2", "3"]),
    WORDS,
    st.sampled_from(["use_tools", "use_tools", "reason"]),
    st.lists(st.sampled_from(["1", "2", "9"]), max_size=2).map(tuple),
)
STRATEGIES = st.sampled_from(["retry", "alternative_tool", "skip", "fail"])
CONFIDENCES = st.none() | st.floats(0, 1)
ACTS: st.SearchStrategy[Any] = st.builds(Act, WORDS, st.lists(CALLS, max_size=3).map(tuple))
ANSWERS: st.SearchStrategy[Any] = st.builds(Answer, WORDS, WORDS | JSON | st.just({"answer": 3}), CONFIDENCES)
BY_ROLE: dict[Role, st.SearchStrategy[Any]] = {
    Role.UNDERSTAND: st.builds(Understanding, WORDS, st.lists(WORDS, max_size=2).map(tuple)),
    Role.PLAN: st.builds(Tasks, st.lists(TASKS, max_size=4).map(tuple)),
    Role.SELECT: ACTS,
    Role.DECIDE: ACTS | ACTS | st.builds(Act, WORDS, CALLS.map(lambda call: (call,))) | ANSWERS | st.builds(Answer, WORDS),
    Role.REFLECT: st.builds(Completion, st.booleans(), WORDS),
    Role.CONFIRM: st.builds(Completion, st.booleans(), WORDS),
    Role.VALIDATE: st.builds(Completion, st.booleans()),
    Role.RECOVER: st.builds(Recovery, STRATEGIES, st.none() | CALLS, WORDS),
    Role.REASON: st.builds(Text, WORDS),
    Role.SUMMARIZE: st.builds(Text, WORDS | st.just("S" * 4000)),
    Role.FORMAT: st.builds(Text, WORDS),
    Role.ANSWER: ANSWERS | st.builds(Answer, WORDS, WORDS),
}

# --- what else a model writes, by design ---

VALUES = JSON.map(json.dumps) | st.text(max_size=8)
NATIVE = st.builds(
    NativeCall,
    st.sampled_from(["1", "2", ""]),
    st.sampled_from(["add", "odd", "__finish__", "gone", ""]),
    VALUES | st.sampled_from(['{"a": 1, "b": 2}', '{"answer": "x"}', '{"answer": 1e999}', "[1]", "[" * 5000]),
)
WITH_CALLS = st.builds(Reply, WORDS | st.text(max_size=40), st.lists(NATIVE, max_size=3).map(tuple))
OBJECT = st.fixed_dictionaries(
    {},
    optional={
        "thought": JSON,
        "tool_name": st.sampled_from(["add", "odd", "gone", "", None, 3, []]),
        "arguments": JSON | NUMBERS,
        "final_answer": JSON,
    },
)
SECTIONS = st.builds(
    "[[ ## {} ## ]]\n{}\n[[ ## {} ## ]]\n{}\n[[ ## {} ## ]]\n{}".format,
    st.sampled_from(["next_thought", "reasoning"]),
    WORDS,
    st.sampled_from(["next_tool_name", "answer", "reasoning_output"]),
    st.sampled_from(["add", "odd", "finish", "gone", ""]) | VALUES,
    st.sampled_from(["next_tool_args", "completed"]),
    VALUES | st.just('{"a": 1}'),
)
DECISION = st.fixed_dictionaries(
    {
        "overall_reasoning": st.text(max_size=5),
        "confidence": st.floats(0, 1),
        "should_use_tools": st.booleans(),
        "tool_calls": st.none()
        | st.lists(CALLS.map(lambda call: {"tool_name": call.name, "parameters": call.arguments, "reasoning": ""}), max_size=4),
        "parallel_safe": st.booleans(),
        "should_continue": st.booleans() | st.just(True),
        "continuation_reasoning": st.text(max_size=5),
        "final_response": st.none() | st.text(max_size=5),
    }
)


def decisions(said: dict[str, Any]) -> str:
    """A decision as the stateless design reads it."""
    return f"[[ ## reasoning ## ]]\nr\n[[ ## reasoning_output ## ]]\n{json.dumps(said)}"


WRITTEN: dict[str, st.SearchStrategy[Any]] = {
    "bare": OBJECT.map(json.dumps) | VALUES,
    "finish": WITH_CALLS | st.sampled_from(["<output><answer>x</answer></output>", "<output>", "<output></output>"]),
    "phased": WITH_CALLS | OBJECT.map(json.dumps),
    "react_extract": SECTIONS,
    "stateless": DECISION.map(decisions) | SECTIONS,
}
FAILURES = st.sampled_from([ProviderError("down"), ProviderError("no", "refused"), ContextOverflow("too long")])
