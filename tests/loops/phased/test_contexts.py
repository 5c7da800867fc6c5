"""Where results are kept, and what the formats of single phases say."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Notes
from tests.loops.phased.helpers import ADD, executor, finished, task
from tests.rows import row
from whichloop.loops.phased import ToolContextManager
from whichloop.loops.phased.codecs import ANSWER, REASON, REFLECT, SELECT, UNDERSTAND, answer_codec, contexts_codec
from whichloop.protocol import Completion, NativeCall, Reply, Text, WireError, render_value

KEPT = st.lists(
    st.tuples(
        st.text(max_size=5),
        st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
        st.one_of(st.text(max_size=20), st.integers(), st.none(), st.lists(st.integers(), max_size=2)),
        st.sampled_from(["q1", "q2", "../q3"]),
    ),
    max_size=5,
)


@given(KEPT)
@row("S1-31")
def test_memory_and_directory_keep_the_same(tmp_path_factory: pytest.TempPathFactory, saved: list[Any]) -> None:
    directory = tmp_path_factory.mktemp("contexts")
    memory, disk = ToolContextManager(), ToolContextManager(directory)
    pointers = [[kept.save(tool, args, result, "t", query) for tool, args, result, query in saved] for kept in (memory, disk)]
    again = ToolContextManager(directory=str(directory))
    assert pointers[0] == pointers[1]
    assert len(set(pointers[0])) == len(saved)
    for kept in (memory, disk, again):
        found = kept.load(pointers[0])
        assert [item.result for item in found] == [render_value(result) for _, _, result, _ in saved]
        assert found == memory.load(pointers[0])
        for query in ("q1", "q2", "../q3"):
            mine = [pointer for pointer, item in zip(pointers[0], saved, strict=True) if item[3] == query]
            assert kept.pointers_for(query) == mine


@row("S1-31")
def test_many_who_share_a_directory_take_no_pointer_from_each_other(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)

    def save(who: int) -> None:
        kept = ToolContextManager(tmp_path)
        barrier.wait(20)
        for number in range(25):
            kept.save("t", {}, f"{who}.{number}", "t", "q")

    users = [threading.Thread(target=save, args=(who,)) for who in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    kept = ToolContextManager(tmp_path)
    results = [found.result for found in kept.load(kept.pointers_for("q"))]
    for who in range(4):
        assert [text for text in results if text.startswith(f"{who}.")] == [f"{who}.{number}" for number in range(25)]


@row("S1-31")
def test_memory_writes_nothing_and_unknown_pointers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = ToolContextManager()
    kept.save("add", {"a": {1, 2}}, object, "t", "q")
    assert list(tmp_path.iterdir()) == []
    for manager in (kept, ToolContextManager(tmp_path)):
        for pointer in ("", "../etc", "0" * 16 + "/000009"):
            with pytest.raises(KeyError) as refused:
                manager.load([pointer])
            assert refused.value.args == (pointer,)


@row("S1-31")
def test_a_directory_that_cannot_be_written_loses_no_result(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    notes, work = Notes(), task(ADD)
    made = executor(context_manager=ToolContextManager(blocked / "x"), observer=notes)
    assert finished(made.execute_tools(work, "q"))
    assert (work.toolCalls or [])[0].output == "3"
    assert [kind for kind, _ in notes.notes] == ["not_kept"]


def test_arguments_that_json_cannot_say_are_kept_as_text() -> None:
    kept = ToolContextManager()
    loop: list[Any] = []
    loop.append(loop)
    (found,) = kept.load([kept.save("t", {"x": loop}, 1, "t", "q")])
    assert found.args == {"arguments": render_value({"x": loop})}


# --- formats ---

CONTEXTS = contexts_codec({"c1": "3 [r:1]", "c2": "five [r:2]", "c3": ""})


TYPED = answer_codec({"type": "integer"})


TYPED_NULL = answer_codec({"type": ["integer", "null"]}, takes_null=True)


def test_a_missing_answer_is_none() -> None:
    for codec, text in ((TYPED_NULL, '{"reasoning": "why"}'), (TYPED, '{"answer": null}')):
        with pytest.raises(WireError, match='"answer" is missing'):
            codec.parse(Reply(text))


def test_an_answer_that_is_not_whole_yet_is_told_as_far_as_it_goes() -> None:
    assert TYPED.answer_so_far('{"reasoning": "r", "answer": "Be', {}) == ANSWER.answer_so_far("Be", {}) == "Be"
    assert UNDERSTAND.answer_so_far('{"answer": "x"}', {}) == REASON.answer_so_far("x", {}) == ""


def test_contexts_are_those_whose_last_word_stands_in_the_text() -> None:
    reply = CONTEXTS.render(Text("It is 3 [r:1]"))
    assert json.loads(reply.text) == {"contexts": ["c1", "c3"], "why": "It is 3 [r:1]"}


@row("S1-24")
def test_a_reflection_has_four_fields_and_a_single_text_is_a_list_of_one() -> None:
    reply = Reply('{"isComplete": false, "reasoning": "r", "missingInfo": "m", "suggestedNextSteps": "s"}')
    assert REFLECT.parse(reply) == Completion(False, "r", ("m",))
    for wrong in ('"isComplete": 1', '"reasoning": 1', '"missingInfo": 1', '"suggestedNextSteps": [1]'):
        with pytest.raises(WireError, match=wrong.partition(":")[0]):
            REFLECT.parse(Reply(f'{{"isComplete": true, {wrong}}}'))


@pytest.mark.parametrize("arguments", ["[1]", "3", "null", '{"a": ', "nope", '{"a": NaN}'])
@row("X-6")
def test_arguments_that_are_no_object_are_a_wire_error(arguments: str) -> None:
    with pytest.raises(WireError, match=r"arguments of add"):
        SELECT.parse(Reply("", (NativeCall("1", "add", arguments),)))
