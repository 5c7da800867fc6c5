"""Programs: what is saved is read back, and a demonstration of a loop's own format is the conversation that it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sealing import reseal
from whichloop.loops.bare import Bare
from whichloop.loops.bare_codecs import CODEC
from whichloop.loops.react_extract import ReactExtract
from whichloop.protocol import (
    Message,
    NativeCall,
    Predictor,
    Program,
    Prompt,
    Reply,
    in_own_format,
    own_prompt,
    program_digest,
    read_program,
    with_program,
)
from whichloop.protocol.program import SavedProgram, merged
from whichloop.protocol.wire import CONVERSATION, EXAMPLES

texts = st.text(max_size=30)
ids = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=6)
native_calls = st.builds(NativeCall, ids, texts, texts)
call_lists = st.lists(native_calls, max_size=2, unique_by=lambda call: call.id).map(tuple)


@st.composite
def _turns(draw: st.DrawFn) -> list[Message]:
    """A message, and results for its calls, in any order; the ids may stand in other turns too."""
    if draw(st.booleans()):
        return [Message("user", draw(texts))]
    calls = draw(call_lists)
    results = [Message("tool", draw(texts), call_id=call.id) for call in draw(st.permutations(calls))]
    return [Message("assistant", draw(texts), calls), *results]


messages = st.lists(_turns(), min_size=1, max_size=4).map(lambda turns: [message for turn in turns for message in turn])


def _is_plain(text: str) -> bool:
    """No text that reads as calls."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return True
    return not (isinstance(data, dict) and data.keys() == {"text", "calls"})


replies = st.builds(Reply, texts.filter(_is_plain), call_lists)


@given(messages, replies)
def test_a_demonstration_is_the_conversation_that_it_was(shown: list[Message], reply: Reply) -> None:
    asked = Predictor("decide", own_prompt("", "reply")).request((), shown, CODEC).prompted
    assert asked is not None
    demo = {**asked.inputs(), **asked.outputs(reply)}
    turns = in_own_format(own_prompt("Do it.", "reply", [json.loads(json.dumps(demo))])).turns
    assert [(turn.role, turn.content) for turn in turns[: len(shown)]] == [(message.role, message.content) for message in shown]
    said = turns[len(shown)]
    assert (said.role, said.content) == ("assistant", reply.text)
    names = [[(call.name, call.arguments) for call in turn.calls] for turn in turns[: len(shown) + 1]]
    expected = [item.calls for item in shown] + [reply.calls]
    assert names == [[(call.name, call.arguments) for call in calls] for calls in expected]
    answered = [turn.call_id for turn in turns[len(shown) + 1 :]]
    assert answered == [call.id for call in said.calls]  # providers want every call answered
    assert _places(turns[: len(shown)]) == _places(shown)
    assert all(len(call.id) <= 40 for turn in turns for call in turn.calls)  # as many characters as OpenAI takes


def _places(shown: Sequence[Message]) -> list[tuple[int, int]]:
    """For each result, where the last call of its id stands: message and place in it."""
    last: dict[str, tuple[int, int]] = {}
    found = []
    for number, message in enumerate(shown):
        last |= {call.id: (number, place) for place, call in enumerate(message.calls)}
        if message.role == "tool":
            found.append(last[message.call_id])
    return found


CALL = {"id": "1", "name": "add", "arguments": "{}"}


@pytest.mark.parametrize(
    "cut",
    [
        '[{"role": "user", "content": "a qu',
        *("[]", "{}", "5", "[null]", "[{}]", '[{"role": ["user"], "content": "a"}]'),
        '[{"role": "user", "content": "a", "calls": null}]',
        json.dumps([{"role": "tool", "content": "a result without its call", "call_id": "1"}]),
        json.dumps([{"role": "assistant", "content": "a call without its result", "calls": [CALL]}]),
        json.dumps([{"role": "assistant", "content": "", "calls": [CALL]}, {"role": "user", "content": "or before it"}]),
    ],
)
def test_what_is_no_conversation_stands_as_it_is(cut: str) -> None:
    turns = in_own_format(own_prompt("", "reply", [{CONVERSATION: cut, "reply": "yes"}])).turns
    assert turns == (Message("user", cut), Message("assistant", "yes"))


def test_labelled_examples_stand_below_the_instructions() -> None:
    demos: list[dict[str, Any]] = [
        {"query": "1 + 1?", "answer": 2, "task": "t"},
        {"query": "Where?", "answer": "Rome"},
        {"task": "of no use"},
    ]
    made = in_own_format(own_prompt("Do it.", "reply", demos))
    assert made.text == f"Do it.\n\n{EXAMPLES}\n\nQuestion: 1 + 1?\nAnswer: 2\n\nQuestion: Where?\nAnswer: Rome"
    assert made.turns == ()
    assert in_own_format(own_prompt("Do it.", "reply", [{"task": "t"}])).text == "Do it."


PROGRAM = {"react": Prompt("Think.", {"query": str}, {"thought": str}), "extract": own_prompt("Say.", "answer")}


@given(texts, st.lists(st.dictionaries(texts, st.integers() | texts, max_size=3), max_size=3).map(tuple))
def test_a_file_is_read_as_it_was_written(tmp_path_factory, said, demos):
    path = tmp_path_factory.mktemp("program") / "p.json"
    path.write_text(json.dumps({"react": _state(said, list(demos)), "metadata": {}, "whichloop": {"loop": "x"}}), encoding="utf-8")
    reseal(path)
    saved = read_program(path)
    assert saved == SavedProgram({"react": Prompt(said, {}, {}, demos)}, {"loop": "x"})
    changed = merged(PROGRAM, saved.program)
    assert (changed["react"].instructions, changed["react"].demos) == (said, demos)
    assert changed["extract"] == PROGRAM["extract"]
    same = said == "Think." and not demos
    assert (program_digest(changed) == program_digest(PROGRAM)) == same


@dataclass
class _Own:
    predictors: Program = field(default_factory=lambda: PROGRAM)

    def with_predictors(self, program: Program) -> _Own:
        return replace(self, predictors={**self.predictors, **program})


def _state(instructions: Any, demos: Any) -> dict[str, Any]:
    return {"signature": {"instructions": instructions, "fields": []}, "demos": demos, "lm": None, "traces": [], "train": []}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "p.json: invalid JSON"),
        ("[" * 100_000, "p.json: invalid JSON"),
        (json.dumps({"react": _state("a", [{"b": float("nan")}])}), "p.json: invalid JSON: NaN is not JSON"),
        ("[]", "p.json: not a program: expected a JSON object of predictors"),
        ("{}", "p.json: not a program: it holds no predictor"),
        ('{"react": 1}', "p.json: react: signature.instructions: expected a text"),
        (json.dumps({"react": _state("a", [1])}), "p.json: react: demos: expected a list of JSON objects"),
    ],
)
def test_a_bad_file_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said.replace(".", r"\.")) as error:
        read_program(path)
    assert "\n" not in str(error.value)


def test_a_loop_gets_the_prompts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"decide": _state("Guess.", [])}), encoding="utf-8")
    assert with_program(Bare(max_steps=3), path).predictors["decide"].instructions == "Guess."
    with pytest.raises(ValueError, match=r"p\.json: predictor 'decide' is not one of this loop's"):
        with_program(ReactExtract(), path)


def test_a_loop_of_the_users_own_keeps_its_fields_and_a_predictor_that_it_lacks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"react": _state("Guess.", [{"a": 1}]), "whichloop": {"design": "finish"}}), encoding="utf-8")
    reseal(path)
    changed = replace(PROGRAM["react"], instructions="Guess.", demos=({"a": 1},))
    assert with_program(_Own(), path).predictors == {**PROGRAM, "react": changed}
    path.write_text(json.dumps({"raect": _state("Guess.", [])}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"p\.json: predictor 'raect' is not one of this loop's; did you mean 'react'\?"):
        with_program(_Own(), path)


def test_a_program_of_another_design_is_refused_though_the_names_fit(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"decide": _state("Call __finish__.", []), "whichloop": {"design": "finish"}}), encoding="utf-8")
    reseal(path)
    with pytest.raises(ValueError, match=r"p\.json: it was saved for the design 'finish', .*; this one is 'bare'"):
        with_program(Bare(), path)
