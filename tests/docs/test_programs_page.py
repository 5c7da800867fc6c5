"""docs/programs.md: each of its agents runs as the page says, is short, and knows nothing of whichloop."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.prepared import said_by
from whichloop._extras import is_installed
from whichloop.programs.program import Program
from whichloop.programs.worker import trial_environment
from whichloop.runs.built_in import options_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "programs.md"
TEXT = PAGE.read_text("utf-8")
FILES = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL) for line in block.splitlines()]
COMPARISONS = [command for command in COMMANDS if command.startswith("whichloop compare")]
SLOW = ("my_claude", "my_gemini", "--loop finish --program 'python my_agent.py'")
"""What marks the commands of slow tests: a vendor's SDK, whose import takes longer than all else, and an agent that another
command has beside that for Node.
"""
MAX_LINES = 15


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, *words: str) -> str:
    path = {"PYTHONPATH": os.pathsep.join(filter(None, (*sys.path, str(folder))))}
    return said_by(folder, os.environ | path, *words)


def test_the_page_has_the_agents_that_are_tested_here() -> None:
    assert set(FILES) == {"my_agent.py", "my_agent.mjs", "my_function.py", "my_claude.py", "my_gemini.py", "in_python.py"}
    assert len(COMPARISONS) == 5


@pytest.mark.parametrize("name", ["my_agent.py", "my_function.py", "my_claude.py", "my_gemini.py"])
def test_an_agent_is_short_and_imports_nothing_of_ours(name: str) -> None:
    assert len([line for line in FILES[name].splitlines() if line.strip()]) <= MAX_LINES
    nodes = list(ast.walk(ast.parse(FILES[name])))
    reached = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    reached |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert not [module for module in reached if module.startswith("whichloop")]


def test_the_agent_inside_of_python_needs_one_import() -> None:
    nodes = list(ast.walk(ast.parse(FILES["in_python.py"])))
    assert {node.module for node in nodes if isinstance(node, ast.ImportFrom)} == {"whichloop"}


def test_every_variable_and_option_is_on_the_page() -> None:
    told = trial_environment("http://127.0.0.1:1/t/x", "?", "m", 1)
    assert not [name for name in told if f"`{name}`" not in TEXT and name != "OPENAI_API_BASE"]
    own = [name for name in options_of(Program) if name not in ("command", "max_steps")]
    assert not [name for name in own if f"{name}=" not in TEXT]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [pytest.param(command, marks=pytest.mark.slow if any(words in command for words in SLOW) else ()) for command in COMPARISONS],
)
def test_a_command_of_the_page_runs(page: Path, command: str) -> None:
    if "node" in command and shutil.which("node") is None:
        pytest.skip("Node is not installed")
    if "my_claude" in command and not is_installed("anthropic"):
        pytest.skip("anthropic is not installed")
    if "my_gemini" in command and not (is_installed("google") and is_installed("google.genai")):
        pytest.skip("google.genai is not installed")
    _, *words = shlex.split(command)
    words += [] if "--profile" in words else ["--profile", "clean"]
    out = run(page, "-m", "whichloop", *words, "--suite", "arithmetic(size=2)", "-q", "--json")
    arms = json.loads(out)["arms"]
    assert len(arms) == 2
    for arm in arms:
        assert arm["errored"] == 0
        lets_errors_through = arm["arm"].startswith(("my_function:solve", "my_gemini:solve"))
        assert arm["accuracy"]["value"] > (0.3 if lets_errors_through else 0.7)


BOTH_WAYS = """
import runpy, sys
from whichloop.cli.main import main

runpy.run_module("in_python", run_name="__main__", alter_sys=True)
sys.argv = ["whichloop", "compare", "--loop", "in_python:my_agent", "--suite", "arithmetic(size=2)"]
sys.argv += ["--profile", "clean", "-q", "--json"]
main()
"""
"""In one process, as to import the vendor's SDK takes longer than all else."""


@pytest.mark.thorough
def test_the_loop_inside_of_python_runs_in_both_ways(page: Path) -> None:
    (page / "both_ways.py").write_text(BOTH_WAYS)
    said, _, compared = run(page, "both_ways.py").rpartition("\n{")
    assert re.search(r"^__main__:my_agent +\S+ \[.*\] <", said, re.MULTILINE)
    assert "\nAdopt      finish\n" in said
    arm = json.loads("{" + compared)["arms"][0]
    assert (arm["arm"], arm["scored"]) == ("in_python:my_agent/clean", 2)
