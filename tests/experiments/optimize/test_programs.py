"""Programs to read, and how two differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sealing import reseal
from whichloop.experiments.optimize.program_text import NamedProgram, program_diff, program_lines, program_named
from whichloop.protocol import Message, Prompt, Reply
from whichloop.protocol.predictor import conversation_text, reply_text

LINES = st.lists(st.sampled_from(["", "a", "b", "+a", "-b", "@@", "\r", "\u2028x"]), max_size=6).map("\n".join)
DEMOS = st.lists(
    st.dictionaries(st.sampled_from(["query", "answer", "conversation"]), st.sampled_from(["1", 2, None, "a\nb"])), max_size=4
)
PROGRAM = st.dictionaries(
    st.sampled_from(["react", "extract"]),
    st.builds(lambda text, demos: Prompt(text, {}, {}, tuple(demos)), LINES, DEMOS),
    min_size=1,
).map(lambda predictors: NamedProgram("p", predictors))


def saved(path: Path, text: str = "Do it.", demos: list[dict[str, Any]] | None = None, **about: Any) -> str:
    state = {"decide": {"signature": {"instructions": text, "fields": []}, "demos": demos or []}}
    path.write_text(json.dumps({**state, "metadata": {}, "whichloop": about}), encoding="utf-8")
    reseal(path)
    return str(path)


@given(PROGRAM, PROGRAM)
def test_a_diff_accounts_for_every_line_and_is_empty_between_equal_programs(a: NamedProgram, b: NamedProgram) -> None:
    assert program_diff(a, a) == ()
    old, new = [*program_lines(a.predictors)], [*program_lines(b.predictors)]
    kinds = [line[:1] for line in program_diff(a, b)[2:]]
    assert kinds.count("+") - kinds.count("-") == len(new) - len(old)
    assert bool(kinds) == (old != new)


def test_a_loop_names_its_own_program_and_with_a_file_the_whole(tmp_path: Path) -> None:
    own = program_named("bare")
    assert own.predictors.keys() == {"decide"}
    path = saved(tmp_path / "p.json", seed=3)
    assert program_named(path).about == {"seed": 3}
    with_file = program_named(f"bare@{path}")
    assert with_file.predictors["decide"].instructions == "Do it."
    assert [line for line in program_diff(own, with_file)[2:] if line.startswith("+")] == ["+Do it."]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "unknown loop 'nothing'"),
        ("two words", "is not a name"),
        ("bare(x=1)", "unknown option 'x'"),
        ("nothing.json", r"^nothing\.json: no such file$"),
    ],
)
def test_what_is_neither_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        program_named(name)


def test_a_demonstration_is_shown_turn_by_turn_with_native_calls_or_field_by_field() -> None:
    talk = conversation_text([Message("user", "How many?"), Message("assistant", "I look."), Message("user", "3 found")])
    native = json.dumps({"text": "", "calls": [{"name": "find", "arguments": '{"n": 1}'}]})
    demos = (
        {"conversation": talk, "reply": reply_text(Reply("It is 3.")), "augmented": True},
        {"conversation": conversation_text([Message("user", "Go")]), "reply": native},
        {"query": "Why?", "answer": [1, 2]},
    )
    result = "tool: (What came of this call is not part of the example.)"
    assert [*program_lines({"decide": Prompt("Do.", {}, {}, demos)})] == [
        *("── decide", "Do."),
        *("── decide, demonstration from a run", "user: How many?", "assistant: I look.", "user: 3 found", "assistant: It is 3."),
        *("── decide, demonstration", "user: Go", 'assistant: find {"n": 1}', result),
        *("── decide, demonstration", "query: Why?", "answer: [1, 2]"),
    ]
