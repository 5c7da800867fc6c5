"""Which lines a thread comes to, as its trace tells them, and when nobody is followed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.runs.engine import job as seen_lines
from whichloop.runs.engine.job import LineWatch, SeenLines


@pytest.fixture(autouse=True)
def nobody_follows() -> Iterator[None]:
    """What this process had traced before, such as a coverage, stays as it was."""
    before = threading.gettrace()
    yield
    threading.settrace(before)


def ran(watch: LineWatch, call: Callable[[], Any], then: Callable[[], None] = lambda: None, debugger: Any = None) -> None:
    """Call in a thread of its own that is followed."""

    def follow() -> None:
        sys.settrace(debugger)
        watch.begin()
        call()
        then()
        sys.settrace(None)

    thread = threading.Thread(target=follow)
    thread.start()
    thread.join()


def made(folder: Path, takes: list[bool]) -> tuple[Path, Callable[[], Any]]:
    """Return a module with a function of an `if` per item, which is taken where that is true, and the function."""
    path = folder / "own_branches.py"
    path.write_text("def solve():\n" + "".join(f"    if {take}:\n        int()\n" for take in map(str, map(int, takes))))
    names: dict[str, Any] = {}
    exec(compile(path.read_text().replace("if 1", "if int(1)").replace("if 0", "if int(0)"), str(path), "exec"), names)
    return path, names["solve"]


@given(takes=st.lists(st.booleans(), min_size=1, max_size=8))
def test_the_lines_seen_are_those_that_ran(tmp_path_factory, takes):
    path, solve = made(tmp_path_factory.mktemp("lines"), takes)
    watch, seen = LineWatch([str(path)]), SeenLines({"own_branches.py": path})
    ran(watch, solve)
    for said in watch.news().values():
        seen.add(said)
    ifs = {2 + 2 * at for at in range(len(takes))}
    assert seen.of("own_branches.py") == ifs | {3 + 2 * at for at, take in enumerate(takes) if take}
    assert watch.news() == {}, "told once"


def test_of_other_files_and_beside_a_debugger_nothing_is_seen(tmp_path):
    path, solve = made(tmp_path, [True])
    other = LineWatch([str(tmp_path / "other.py")])
    ran(other, solve)
    assert other.news() == {}
    watch = LineWatch([str(path)])
    ran(watch, solve, debugger=lambda *_: None)
    assert watch.news() == {}


def test_code_of_which_too_many_lines_run_is_given_up_and_nothing_is_claimed_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(seen_lines, "MAX_EVENTS", 3)
    path, solve = made(tmp_path, [True] * 4)
    watch, seen = LineWatch([str(path)]), SeenLines({"own_branches.py": path})
    still: list[Any] = []
    ran(watch, solve, lambda: still.append(sys.gettrace()))
    assert still == [None], "it runs at its own speed from then on"
    seen.add(watch.news()["lines"])
    assert not seen.is_whole
