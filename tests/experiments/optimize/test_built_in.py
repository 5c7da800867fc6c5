"""An optimizer is one file of the package `optimizers`: nothing else has to name it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import core_only
from whichloop._extras import EXTRA_OF, MissingExtra
from whichloop.experiments.optimize import optimizers as package
from whichloop.experiments.optimize.config import BESIDE_DSPY, load_optimize_config, packages_of
from whichloop.experiments.optimize.optimizer import optimizer_named, optimizers
from whichloop.protocol.names import parse_spec

FILE = '''
"""Unchanged: the student as it is."""

from dataclasses import dataclass

from whichloop.experiments.optimize.built_in import BuiltIn


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


def test_the_extra_of_what_an_optimizer_needs_beside_dspy_has_dspy_too() -> None:
    extras = core_only.project()["optional-dependencies"]
    assert {*BESIDE_DSPY} <= {optimizer.name.lower() for optimizer in optimizers()}
    for name, beside in BESIDE_DSPY.items():
        assert packages_of(name.upper()) == ("dspy", beside)
        assert "whichloop[dspy]" in extras[EXTRA_OF[beside]]
    assert packages_of("my_module:Mine") == packages_of("GEPA") == ("dspy",)


@pytest.mark.parametrize("is_in_file", [True, False])
def test_the_settings_of_a_search_say_what_its_optimizer_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in_file: bool
) -> None:
    """Before anything that needs it is imported, with the one extra that has all of it."""
    for package_name in ("dspy", "optuna"):
        monkeypatch.setitem(sys.modules, package_name, None)
    file = tmp_path / "search.toml"
    file.write_text("loops = ['bare']\n[search]\noptimizer = 'MIPROv2'\n", encoding="utf-8")
    with pytest.raises(MissingExtra, match=r"^optimizer MIPROv2 needs dspy, which is not installed: pip install .*\[optimize\]"):
        load_optimize_config(*((file, {}) if is_in_file else (None, {"loops": ["bare"], "optimizer": "MIPROv2"})))
