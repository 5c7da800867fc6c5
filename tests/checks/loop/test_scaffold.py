"""A new loop from the template: any sound name gives a loop that keeps every law, and nothing else gives anything."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.checks.loop.altered_loops import FEW, findings
from whichloop.checks.loop.contract import illegal
from whichloop.checks.loop.scaffold import new_loop
from whichloop.protocol import Loop, Message, NativeCall

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """A directory whose modules can be imported for the length of a test."""
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def made_in(folder: Path, target: str) -> Loop:
    module, _, design = target.partition(":")
    importlib.invalidate_caches()
    loop = getattr(importlib.import_module(module), design)()
    assert isinstance(loop, Loop)
    return loop


@given(name=st.text(max_size=12) | NAMES)
@example(name="class")
@example(name="json")
@example(name="a\n")
@example(name="../up")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_name_gives_two_sound_files_or_one_line_of_refusal(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("any")
    refusal = ""
    try:
        made = new_loop(name, folder)
    except ValueError as refused:
        refusal = str(refused)
    if refusal:
        assert "\n" not in refusal
        assert not list(folder.iterdir())
        return
    assert {path.name for path in folder.iterdir()} == {f"{name}.py", f"test_{name}.py"}
    tree = ast.parse(made.loop.read_text())
    ast.parse(made.test.read_text())
    design = made.target.partition(":")[2]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes == [f"{design.removesuffix('Loop')}Codec", design]
    imported = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert design not in imported


def test_what_is_written_keeps_every_law_under_its_own_name(folder):
    made = new_loop("act", folder)
    loop = made_in(folder, made.target)
    assert loop.name == "act"
    assert type(loop).__name__.endswith("Loop")
    assert [finding for finding in findings(loop, draws=FEW) if finding.status != "ok"] == []


@pytest.mark.parametrize(
    ("name", "folder_name", "said"),
    [
        ("mine", "", "mine.py already exists; nothing was written"),
        ("other", "", "test_other.py already exists; nothing was written"),
        ("new", "nowhere", "is not a directory"),
    ],
)
def test_where_it_cannot_be_written_nothing_is(tmp_path, name, folder_name, said):
    for present in ("mine.py", "test_other.py"):
        (tmp_path / present).write_text("precious")
    with pytest.raises(ValueError, match=said):
        new_loop(name, tmp_path / folder_name)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(("mine.py", "test_other.py"), "precious")


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """A system message, then texts and calls with their results in any order."""
    made = [Message("system", "Be brief.")] if draw(st.booleans()) else []
    made.append(Message("user", "Well?"))
    for _ in range(draw(st.integers(0, 4))):
        ids = draw(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=3))
        made.append(Message("assistant", "Hm.", tuple(NativeCall(name, "add", "{}") for name in ids)))
        made += [Message("tool", "3", call_id=name) for name in draw(st.permutations(ids))]
    return made


@given(conversations(), st.data())
def test_a_legal_conversation_is_no_more_once_a_result_is_lost_doubled_or_moved(messages, data):
    assert illegal(messages) == ""
    results = [index for index, message in enumerate(messages) if message.role == "tool"]
    if results:
        at = data.draw(st.sampled_from(results))
        result = messages[at]
        assert illegal([*messages[:at], *messages[at + 1 :]])
        assert illegal([*messages[:at], result, *messages[at:]])
        assert illegal([result, *messages[:at], *messages[at + 1 :]])
    assert illegal([*messages, Message("system", "Be long.")])
