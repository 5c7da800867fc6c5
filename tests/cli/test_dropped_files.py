"""A file that is dropped into a folder of variants without what that folder asks for, or that fails, is one line."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import here, whichloop

__all__ = ["here", "whichloop"]


def check_one_line(code: int, errors: str, folder: Path, said: str) -> None:
    assert errors.startswith("error: ")
    assert f" {folder / 'wrong_file.py'}: {said}" in errors
    assert errors.count("\n") == 1
    assert code == 2


@pytest.mark.parametrize(
    ("package", "code", "said", "command"),
    [
        ("whichloop.experiments.import_runs.formats", "FORMAT = 7", "FORMAT must be a Format", ["import", "wrong_file.py"]),
    ],
)
def test_a_dropped_file_without_what_its_folder_asks_for_is_one_line(
    here: Path, whichloop: Any, monkeypatch: pytest.MonkeyPatch, package: str, code: str, said: str, command: list[str]
) -> None:
    (here / "wrong_file.py").write_text(f"{code}\n")
    found = import_module(package)
    monkeypatch.setattr(found, "__path__", [*found.__path__, str(here)])
    monkeypatch.setattr(found, "wrong_file", None, raising=False)  # undone behind the import, which sets it
    ended = whichloop(*command)
    check_one_line(ended.code, ended.err, here, said)
