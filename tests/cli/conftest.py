"""The command within this process: what a process of its own would add is 2 s."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loopbench.cli.main import main


@dataclass(frozen=True)
class Ended:
    """A command that has come to its end."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed; only of one that went well."""
        assert self.code == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, which is not on the search path; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def loopbench(here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Runs the command in a directory of its own."""
    monkeypatch.delenv("COLUMNS", raising=False)  # as wide as it wants

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["loopbench", *arguments])
        capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as left:
            code = left.code
        said = capsys.readouterr()
        return Ended(code or 0, said.out, said.err)

    return call
