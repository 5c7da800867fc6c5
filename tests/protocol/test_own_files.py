"""What a name that is typed like a file's stands for, told without importing the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from whichloop.protocol.own_code import named_as_file

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
        ("mine.py:", "mine:NAME"),
        ("mine.py", "mine"),
        ("gone.py:Mine", ""),
        ("../mine.py:Mine", ""),
        ("mine:Mine", ""),
        ("bare", ""),
        ("python mine.py", ""),
    ],
)
def test_a_name_typed_as_a_files_is_turned_into_a_modules(typed: str, meant: str) -> None:
    assert named_as_file(typed) == meant


def test_a_file_alone_is_no_name_where_one_is_wanted() -> None:
    assert named_as_file("./mine.py", wants_name=True) == "mine:NAME"


def test_a_file_below_the_current_directory_may_be_typed_in_full(tmp_path: Path) -> None:
    assert named_as_file(f"{tmp_path}/shop/loop.py:Mine") == "shop.loop:Mine"
