"""Where results are kept: the context manager."""

from __future__ import annotations

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
from whichloop.protocol import render_value

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
