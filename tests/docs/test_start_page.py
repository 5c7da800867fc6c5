"""docs/start.md is followed word by word in an empty folder. `--write` renews what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, preformatted, write_output
from tests.prepared import Prepared

ROOT = DOCS.parent
PAGE = DOCS / "start.md"
INSTALL = "pip install"
MAX_FAILURE_LINES = 10


def scripts() -> list[str]:
    """Return the page's blocks of commands, without the one that installs."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if INSTALL not in block]


WITHOUT_MLFLOW = """
import runpy, sys
sys.modules["mlflow"] = None
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs a module as a command, as if MLflow were not installed."""


def followed(folder: Path) -> list[str]:
    """Carry out the blocks one after the other in a folder, and return what each prints.

    As the page has it installed: without MLflow, and pytest with no plugin but ours. Once blessed, one profile of the two is gated:
    the other is another value of the same test.
    """
    source, hidden = ROOT / "src", folder / "hidden"
    hidden.mkdir()
    (hidden / "without_mlflow.py").write_text(WITHOUT_MLFLOW, encoding="utf-8")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "COLUMNS": "80",
        "PYTHONPATH": f"{hidden}{os.pathsep}{source}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "whichloop.pytest_plugin",
        "PYTEST_ADDOPTS": "-p no:unraisableexception",  # it collects garbage five times at the end
        "LANG": "C.UTF-8",
    } | {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS")}
    return ["".join(carried_out(line, folder, environment) for line in script.splitlines()) for script in scripts()]


def carried_out(line: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Return what a line of a block prints: a command, and behind `||` what is done where it fails; else it may not fail.

    Our command and pytest are forks of a process that has imported us already; a shell does the rest.
    """
    command, _, otherwise = line.partition(" || ")
    words = shlex.split(command, comments=True)
    if "pytest" in words and "--loop-bless" not in words:
        words += ["-k", "flaky-tools"]
    pipes: dict[str, Any] = {"cwd": folder, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    is_module = words[:2] == ["python", "-m"]  # which may import what lies in the folder, as a command may not
    if is_module or words[0] == "whichloop":
        run = ["-m", "without_mlflow", *words[2:]] if is_module else ["-P", "-m", "without_mlflow", *words]
        started: subprocess.Popen[str] = Prepared([sys.executable, *run], **pipes)
    else:
        started = subprocess.Popen(["bash", "-euo", "pipefail", "-c", command], **pipes)
    with started as process:
        said, errors = process.communicate()
    assert process.returncode == 0 or otherwise, said + errors
    return said + (carried_out(otherwise, folder, environment) if process.returncode else "")


def shown(printed: list[str]) -> tuple[str, str]:
    """Return the answer of the comparison, and the beginning of the failure."""
    _, compared, _, failed = printed
    begin = failed.index("regression: ")
    failure = re.sub(r"\S+-loop_tasks-\w+", "RUN", failed[begin:]).splitlines()[:MAX_FAILURE_LINES]
    return compared.strip(), "\n".join(line.rstrip() for line in [*failure, "…"])


@pytest.mark.thorough
def test_the_page_can_be_followed_word_by_word_once_installed(tmp_path):
    printed = followed(tmp_path)
    assert printed[-1].rstrip().endswith("as it should")
    assert "2 passed" in printed[2]
    assert "1 passed" in printed[2]
    assert shown(printed) == (preformatted(PAGE, "answer"), preformatted(PAGE, "failure"))
    table = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"^wrote (\S+)$", printed[0], re.MULTILINE):
        assert f"| `{name}` |" in table
        assert (tmp_path / name).is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_can_be_followed_word_by_word_in_an_environment_that_it_makes(tmp_path):
    """Installed from a clone, as the page says, from the package index that pip is set to, by a shell that knows nothing else."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    script = "\n".join(["set -euo pipefail", *blocks]).replace("git clone ADDRESS", f"git clone --quiet {ROOT}")
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.lower().endswith("_proxy")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "80", "LANG": "C.UTF-8"} | kept
    ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.rstrip().endswith("as it should")
    assert preformatted(PAGE, "answer") in ended.stdout
    assert not list((tmp_path / ".venv").glob("lib/*/site-packages/mlflow"))


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as made_in:
        answer, failure = shown(followed(Path(made_in)))
    write_output(PAGE, "answer", answer)
    write_output(PAGE, "failure", failure)
