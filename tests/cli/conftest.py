"""The command within this process: what a process of its own would add is 2 s."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.main import get_command

import whichloop as package
from tests.prepared import start_command
from whichloop.cli import main as command
from whichloop.cli.main import main
from whichloop.protocol import modules
from whichloop.reports.html import page as html
from whichloop.runs.store.trials import count_rows

MADE, READ = functools.cache(get_command), functools.cache(version)
"""To make all commands of their functions, and to read what is installed, takes longer than most commands of the tests."""


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
def whichloop(here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Runs the command in a directory of its own. What laws a loop of the user's own breaks, it leaves to the tests of that."""
    monkeypatch.delenv("COLUMNS", raising=False)  # as wide as it wants
    monkeypatch.setattr("whichloop.experiments.compare.run._note_broken_laws", lambda _: None)  # a process for each comparison

    monkeypatch.setattr(command, "get_command", MADE)
    monkeypatch.setattr(modules, "version", READ)

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["whichloop", *arguments])
        capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as left:
            code = left.code
        said = capsys.readouterr()
        return Ended(code or 0, said.out, said.err)

    return call


SOURCE = Path(package.__file__).parents[1]


@dataclass(frozen=True)
class BareMachine:
    """Commands as processes of a machine with nothing on it: a new home and no caches. The user's own modules are in `folder`."""

    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder), str(SOURCE)])
        home = str(self.folder / "home")
        return {"PATH": os.defpath, "HOME": home, "PYTHONPATH": path, "PYTHONHASHSEED": "random", **more}

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start a command; `more`: variables of its environment."""
        return start_command(arguments, self.folder, self.environment(**more))

    def ended(self, child: subprocess.Popen[str]) -> Ended:
        """Wait for the end of a command."""
        out, err = child.communicate(timeout=120)
        return Ended(child.returncode, out, err)

    def run(self, *arguments: str, **more: str) -> Ended:
        """Run a command to its end."""
        return self.ended(self.start(*arguments, **more))

    @contextlib.contextmanager
    def running(self, *arguments: str, **more: str) -> Iterator[subprocess.Popen[str]]:
        """A command that is killed at the end of the block."""
        child = self.start(*arguments, **more)
        try:
            yield child
        finally:
            child.kill()
            child.communicate()

    def only_run(self) -> Path:
        """Return the one run directory, as soon as it has a line of results."""
        for _ in range(6_000):
            found = [path.parent for path in (self.folder / "runs").glob("*/trials.sqlite") if count_rows(path.parent)]
            if found:
                return found[0]
            time.sleep(0.01)
        raise AssertionError("no run has begun")


@pytest.fixture
def machine(here: Path) -> BareMachine:
    """The current directory as a bare machine."""
    return BareMachine(here)


@contextlib.contextmanager
def no_page() -> Iterator[None]:
    """Within the block no page of a run is made: its file is empty. `test_report.py` and the tests of pages have it made."""
    with patch.object(html, "report_html", lambda *_, **__: ""):
        yield


SMALL_RUN = ["--suite", "arithmetic(size=12)", "--quiet"]


@pytest.fixture
def compare(whichloop):
    """Runs a comparison, and gives its directory."""

    def call(*arguments):
        profile = () if "--profile" in arguments else ("--profile", "clean")
        with no_page():
            ended = whichloop("compare", *SMALL_RUN, *arguments, *profile, "--json")
        assert ended.code == 0, ended.err
        return str(ended.json["run"])

    return call


@pytest.fixture(scope="session")
def kept_runs() -> dict[tuple[str, ...], Path]:
    """What `compared_once` was asked → a copy of the run, in a folder that is called as the run's was."""
    return {}


@pytest.fixture
def compared_once(whichloop, kept_runs: dict[tuple[str, ...], Path], tmp_path_factory) -> Callable[..., Path]:
    """Runs a comparison of built-in loops when it is asked for the first time, and gives the directory of the run, or of a copy.

    `page`: with its page, which is empty otherwise.
    """

    def call(*arguments: str, page: bool = False) -> Path:
        asked = (*arguments, "page") if page else arguments
        if asked in kept_runs:
            kept = kept_runs[asked]
            again = Path.cwd() / kept.parent.name / kept.name
            shutil.copytree(kept, again)
            return again
        with contextlib.nullcontext() if page else no_page():
            run = Path(whichloop("compare", *arguments, "--json").json["run"])
        kept_runs[asked] = tmp_path_factory.mktemp("kept") / run.parent.name / run.name
        shutil.copytree(run, kept_runs[asked])
        return run

    return call


@pytest.fixture(scope="session")
def kept() -> dict[tuple[str, ...], Path]:
    """What `compare` was asked → a directory with the run, and its baseline as b.json."""
    return {}


@pytest.fixture
def blessed(whichloop, compare, kept, tmp_path_factory):
    """Blesses a run of one loop as b.json, and gives its directory. It is made once where it is of built-in loops alone."""

    def call(*arguments):
        asked = arguments or ("--loop", "finish", "--profile", "flaky-format")
        can_be_kept = not Path("runs").exists() and not any(":" in word or word == "--cassette" for word in asked)
        if can_be_kept and asked in kept:
            shutil.copytree(kept[asked], ".", dirs_exist_ok=True)
            (run,) = (Path.cwd() / "runs").iterdir()
            return str(run)
        run = compare(*asked)
        assert whichloop("gate", run, "--bless", "--output", "b.json").code == 0
        if can_be_kept:
            kept[asked] = tmp_path_factory.mktemp("kept")
            shutil.copytree("runs", kept[asked] / "runs")
            shutil.copy("b.json", kept[asked])
        return run

    return call
