"""The built-in optimizers, and the packages that they need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import core_only
from whichloop._extras import EXTRA_OF, MissingExtra
from whichloop.experiments.optimize.config import BESIDE_DSPY, load_optimize_config, packages_of
from whichloop.experiments.optimize.optimizer import optimizers


def test_every_optimizer_has_a_summary() -> None:
    assert all(optimizer.summary for optimizer in optimizers())


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
