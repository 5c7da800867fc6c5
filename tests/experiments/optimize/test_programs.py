"""Programs to read, and how two differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sealing import reseal
from whichloop.experiments.optimize.program_text import (
    NamedProgram,
    PredictorDiff,
    demo_title,
    diff_lines,
    origin,
    parts,
    program_diff,
    program_named,
)
from whichloop.protocol import Message, Prompt, Reply
from whichloop.protocol.program import conversation_text, reply_text

LINES = st.lists(st.sampled_from(["", "a", "b", "+a", "-b", "@@", "\r", "\u2028x"]), max_size=6).map("\n".join)
DEMOS = st.lists(
    st.dictionaries(st.sampled_from(["query", "answer", "conversation"]), st.sampled_from(["1", 2, None, "a\nb"])), max_size=4
)
PROGRAM = st.dictionaries(
    st.sampled_from(["react", "extract"]),
    st.builds(lambda text, demos: Prompt(text, {}, {}, tuple(demos)), LINES, DEMOS),
    min_size=1,
).map(lambda predictors: NamedProgram("p", predictors))


def state(instructions: str, demos: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"signature": {"instructions": instructions, "fields": []}, "demos": demos or []}


def saved(path: Path, **predictors: Any) -> str:
    path.write_text(json.dumps({**predictors, "metadata": {}}), encoding="utf-8")
    reseal(path)
    return str(path)


# Laws.


@given(PROGRAM)
def test_a_program_is_equal_to_itself(program):
    found = program_diff(program, program)
    assert found.equal
    assert [*diff_lines(found)] == []


@given(PROGRAM, PROGRAM)
def test_a_diff_turned_around_adds_what_it_removed(a, b):
    there, back = program_diff(a, b), program_diff(b, a)
    assert there.equal == back.equal == (a.predictors == b.predictors)
    for one in there.predictors:
        other = next(found for found in back.predictors if found.name == one.name)
        assert sorted(map(repr, one.added)) == sorted(map(repr, other.removed))
        assert sorted(map(repr, one.removed)) == sorted(map(repr, other.added))
        assert (len(one.shared), one.reordered) == (len(other.shared), other.reordered)


def marked(found: PredictorDiff, mark: str) -> list[str]:
    return [line for line in found.instructions if line.startswith(mark)]


@given(PROGRAM, PROGRAM)
def test_a_diff_accounts_for_every_line_and_demonstration(a, b):
    for found in program_diff(a, b).predictors:
        old, new = (side.predictors.get(found.name, Prompt("", {}, {})) for side in (a, b))
        assert len(found.shared) + len(found.removed) == len(old.demos)
        assert len(found.shared) + len(found.added) == len(new.demos)
        more = len(new.instructions.split("\n")) - len(old.instructions.split("\n"))
        assert len(marked(found, "+")) - len(marked(found, "-")) == more
        assert bool(found.instructions) == (old.instructions != new.instructions)


@given(PROGRAM, PROGRAM)
def test_json_says_the_same(a, b):
    found = program_diff(a, b)
    made = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert made["equal"] == found.equal
    assert made["predictors"].keys() == a.predictors.keys() | b.predictors.keys()


# What a name leads to.


def test_a_loop_names_its_own_program():
    assert program_named("bare").predictors.keys() == {"decide"}
    assert program_diff(program_named("bare"), program_named("bare")).equal


def test_a_file_is_a_program_with_where_it_comes_from(tmp_path):
    path = saved(tmp_path / "p.json", decide=state("Do it."), whichloop={"loop": "bare", "seed": 3, "budget": {"calls": 9}})
    found = program_named(path)
    assert found.predictors["decide"].instructions == "Do it."
    assert origin(found) == (("loop", "bare"), ("seed", "3"), ("budget", '{"calls": 9}'))


def test_a_loop_with_a_file_is_the_whole_program(tmp_path):
    path = saved(tmp_path / "p.json", decide=state("Do it."))
    assert program_named(f"bare@{path}").predictors["decide"].instructions == "Do it."
    found = program_diff(program_named("bare"), program_named(f"bare@{path}"))
    assert [line.text for line in diff_lines(found)][-1] == "+Do it."


@pytest.mark.parametrize(
    ("name", "said"),
    [("nothing", "unknown loop 'nothing'"), ("two words", "is not a name"), ("bare(x=1)", "unknown option 'x'")],
)
def test_what_is_neither_is_refused(name, said):
    with pytest.raises(ValueError, match=said):
        program_named(name)


def test_a_file_that_is_not_there_is_told_as_one():
    with pytest.raises(ValueError, match=r"^nothing\.json: no such file$"):
        program_named("nothing.json")


def test_numbers_that_json_lacks_are_refused(tmp_path):
    path = saved(tmp_path / "p.json", decide=state("x", [{"query": float("nan")}]))
    with pytest.raises(ValueError, match=r"p\.json"):
        program_named(path)


# Demonstrations.


def test_a_conversation_is_shown_turn_by_turn():
    talk = conversation_text([Message("user", "How many?"), Message("assistant", "I look."), Message("user", "3 found")])
    demo = {"conversation": talk, "reply": reply_text(Reply("It is 3.")), "augmented": True}
    assert [(part.label, part.text) for part in parts(demo)] == [
        ("user", "How many?"),
        ("assistant", "I look."),
        ("user", "3 found"),
        ("assistant", "It is 3."),
    ]
    assert demo_title(1, demo) == "demonstration 1, from a run"


def test_native_calls_of_a_conversation_are_shown():
    said = json.dumps({"text": "", "calls": [{"name": "find", "arguments": '{"n": 1}'}]})
    found = parts({"conversation": conversation_text([Message("user", "Go")]), "reply": said})
    assert ("assistant", 'find {"n": 1}') in [(part.label, part.text) for part in found]


def test_other_demonstrations_are_shown_field_by_field():
    assert [(part.label, part.text) for part in parts({"query": "Why?", "answer": [1, 2]})] == [
        ("query", "Why?"),
        ("answer", "[1, 2]"),
    ]


def test_demonstrations_are_told_apart_by_content(tmp_path):
    one, two, three = ({"query": str(n), "answer": n} for n in range(3))
    a = program_named(saved(tmp_path / "a.json", decide=state("Do.", [one, two])))
    b = program_named(saved(tmp_path / "b.json", decide=state("Do.", [three, one])))
    (found,) = program_diff(a, b).predictors
    assert (found.shared, found.removed, found.added, found.reordered) == ((one,), (two,), (three,), False)
    lines = [line.text for line in diff_lines(program_diff(a, b))][2:]
    assert lines == [
        "decide",
        "@@ demonstrations: 1 removed, 1 added, 1 kept @@",
        "-query: 1",
        "-answer: 1",
        "+query: 2",
        "+answer: 2",
    ]


def test_an_other_order_is_a_difference(tmp_path):
    one, two = {"query": "1"}, {"query": "2"}
    a = program_named(saved(tmp_path / "a.json", decide=state("Do.", [one, two])))
    b = program_named(saved(tmp_path / "b.json", decide=state("Do.", [two, one])))
    found = program_diff(a, b)
    assert (found.equal, found.predictors[0].reordered) == (False, True)
    assert [line.text for line in diff_lines(found)][-1] == "@@ demonstrations: 0 removed, 0 added, 2 kept, in another order @@"


def test_a_predictor_of_one_side_is_said_to_be(tmp_path):
    a = program_named(saved(tmp_path / "a.json", one=state("Do."), two=state("Do.")))
    b = program_named(saved(tmp_path / "b.json", one=state("Do."), three=state("Go.")))
    found = program_diff(a, b)
    assert [(item.name, item.status) for item in found.predictors] == [("one", "equal"), ("two", "removed"), ("three", "added")]
    assert f"two (only in {a.name})" in [line.text for line in diff_lines(found)]
