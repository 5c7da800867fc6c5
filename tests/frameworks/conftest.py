"""Environments that look as if frameworks were installed, with this interpreter in them."""

import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import here, whichloop
from whichloop.frameworks import table

__all__ = ["here", "whichloop"]

TOYS = Path(__file__).parents[1] / "programs" / "toy_solvers.py"


def make_environment(folder, **packages):
    """An environment with packages of these versions; underscores in their names stand for hyphens."""
    site = folder / "lib" / "python3.11" / "site-packages"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    if not (folder / "bin" / "python").exists():
        (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (folder / "pyvenv.cfg").write_text("version_info = 3.11.7\n")
    for old in site.glob("*.dist-info"):
        (old / "METADATA").unlink()
        old.rmdir()
    for name, version in packages.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
    return folder


def skip_without(*names):
    """Skip a test whose frameworks are not installed."""
    for name in names:
        try:
            assert table.FRAMEWORKS[name]().version
        except ValueError as error:
            pytest.skip(str(error))


@pytest.fixture(autouse=True)
def environments(monkeypatch):
    """Where the Makefile installs frameworks for the tests; without it, WHICHLOOP_HOME counts."""
    if folder := os.environ.get("WHICHLOOP_TESTED_FRAMEWORKS"):
        monkeypatch.setenv("WHICHLOOP_HOME", folder)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of installed environments, empty."""
    monkeypatch.setenv("WHICHLOOP_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "frameworks"


@pytest.fixture
def toy_wiring(tmp_path, monkeypatch):
    """The wiring of OpenAI Agents, replaced by a while loop that needs no package."""
    folder = tmp_path / "wiring"
    folder.mkdir()
    wiring = folder / "openai_agents.py"
    wiring.write_text(f"{TOYS.read_text()}\n\nsolve = while_loop\n")
    monkeypatch.setattr(table, "WIRING", folder)
    return wiring
