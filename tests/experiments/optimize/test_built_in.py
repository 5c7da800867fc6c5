"""An optimizer is one file of the package `optimizers`: nothing else has to name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopbench.experiments.optimize import optimizers as package
from loopbench.experiments.optimize.optimizer import optimizer_named, optimizers
from loopbench.protocol.names import parse_spec

FILE = '''
"""Unchanged: the student as it is."""

from dataclasses import dataclass

from loopbench.experiments.optimize.built_in import BuiltIn


@dataclass(frozen=True, slots=True)
class Unchanged(BuiltIn):
    """Gives the student back."""

    name = "Unchanged"

    patience: int = 1
    """Nothing is done so often."""

    def _search(self, workshop, student):
        return student


OPTIMIZER = Unchanged
'''


@pytest.fixture
def dropped_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unchanged.py").write_text(FILE, encoding="utf-8")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])


def test_every_file_is_an_optimizer_with_a_summary() -> None:
    files = {path.stem for folder in package.__path__ for path in Path(folder).glob("*.py")} - {"__init__"}
    assert len(optimizers()) == len(files)
    assert all(optimizer.summary for optimizer in optimizers())


@pytest.mark.usefixtures("dropped_in")
def test_a_file_that_is_dropped_in_is_found_by_name() -> None:
    found = optimizer_named(parse_spec("unchanged(patience=3)"))
    assert (found.name, dict(found.options)) == ("Unchanged", {"patience": 3})
    assert "Unchanged" in {optimizer.name for optimizer in optimizers()}
