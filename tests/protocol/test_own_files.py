"""What a name that is typed like a file's stands for, told without importing the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from whichloop.protocol.own_code import loop_of_program, loops_in, named_as_file, named_with_dots

SOURCE = """
raise SystemExit("imported")

def solve(task): ...

class Settings: ...

class Mine(Imported):
    async def run(self, query, tools, model): ...

class Other(Mine): ...
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "torn.py").write_text("class (")
    for file in ("mine.py", "shop/loop.py"):
        (tmp_path / file).write_text(SOURCE)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("mine.py:Mine", "mine:Mine"),
        ("./mine.py:Mine(tries=2)", "mine:Mine(tries=2)"),
        ("./mine.py:Mine@best.json", "mine:Mine@best.json"),
        ("shop/loop.py:Mine", "shop.loop:Mine"),
        ("mine.py:", "mine:Mine"),
        ("mine.py", "mine"),
        ("torn.py:", "torn:NAME"),
        ("gone.py:Mine", ""),
        ("../mine.py:Mine", ""),
        ("mine:Mine", ""),
        ("bare", ""),
        ("python mine.py", ""),
    ],
)
def test_a_name_typed_as_a_files_is_turned_into_a_modules(typed: str, meant: str) -> None:
    assert named_as_file(typed) == meant


def test_a_file_alone_stands_for_its_loop_where_one_is_wanted() -> None:
    assert named_as_file("./mine.py", wants_loop=True) == "mine:Mine"
    assert named_as_file("torn.py", wants_loop=True) == "torn"


def test_a_file_below_the_current_directory_may_be_typed_in_full(tmp_path: Path) -> None:
    assert named_as_file(f"{tmp_path}/shop/loop.py:Mine") == "shop.loop:Mine"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("mine.Mine", "mine:Mine"),
        ("shop.loop.Mine", "shop.loop:Mine"),
        ("mine:", "mine:Mine"),
        ("torn:", ""),
        ("gone.Mine", ""),
        ("bare", ""),
        ("../mine.Mine", ""),
    ],
)
def test_dots_instead_of_a_colon_are_noticed(typed: str, meant: str) -> None:
    assert named_with_dots(typed) == meant


def test_loops_are_told_from_other_classes_and_from_functions() -> None:
    assert loops_in(Path("mine.py")) == ["Mine", "Other"]
    assert loops_in(Path("torn.py")) == loops_in(Path("gone.py")) == []
    assert [loop_of_program(program) for program in ("mine:Mine", "mine.py:Other")] == ["mine:Mine", "mine:Other"]
    others = ("mine:solve", "mine.py:Settings", "gone:Mine", "python mine.py", "./agent", "", "mine")
    assert [loop_of_program(program) for program in others] == [""] * len(others)
