"""The recipes of docs/ci.md: their commands are run as they stand there, on a loop of a user's own package."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from whichloop.cli.init import SETTINGS

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
GATES = "gate --baseline baselines/mine.json --loop my_package.loops:Mine"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def commands(lines: str) -> list[list[str]]:
    """The words of each `whichloop …`, the program's name left out."""
    return [shlex.split(line)[1:] for line in lines.splitlines() if line.startswith("whichloop ")]


def steps() -> Iterator[str]:
    """Every command of both recipes."""
    github, gitlab = (yaml.safe_load(block) for block in blocks("yaml"))
    job: dict[str, Any] = github["jobs"]["gate"]
    yield from (step["run"].removesuffix("|| [ $? -eq 3 ]\n") for step in job["steps"] if "run" in step)
    yield from gitlab["gate"]["script"]


def test_both_recipes_gate():
    assert len([step for step in steps() if GATES in step]) == 2


@pytest.mark.parametrize(("code", "passes"), [(0, True), (1, False), (2, False), (3, True), (4, False)])
def test_an_undecided_gate_alone_passes_the_step_on_github(code, passes):
    """As GitHub runs a step: `bash -e`."""
    (step,) = (
        step["run"]
        for step in yaml.safe_load(blocks("yaml")[0])["jobs"]["gate"]["steps"]
        if "whichloop gate" in step.get("run", "")
    )
    as_if_ended = f"whichloop() {{ return {code}; }}\n{step}"
    assert (subprocess.run(["bash", "-e", "-c", as_if_ended]).returncode == 0) == passes


@pytest.mark.slow
@pytest.mark.thorough
def test_the_recipes_work(whichloop, here):
    package = here / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "loops.py").write_text("from whichloop.loops.bare import Bare as Mine\n", encoding="utf-8")

    (here / "baselines").mkdir()
    for words in commands(blocks("sh")[0]):
        fewer = ("--tasks", "8") if words[0] == "compare" else ()  # of the page's 300
        assert whichloop(*words, *fewer).code == 0
    assert (here / "baselines" / "mine.json").is_file()

    for words in commands("\n".join(steps())):
        (here / "gate.xml").unlink(missing_ok=True)
        ended = whichloop(*words)
        assert ended.code == 0, ended.err
        assert ended.out.startswith("identical")
        assert ElementTree.parse(here / "gate.xml").getroot().tag == "testsuites"
    assert list((here / "runs").glob("*/report.html"))


@pytest.mark.thorough
def test_the_command_that_bless_prints_gates_a_project_with_tools_of_its_own(whichloop, here):
    """As the page says of the files that `init` writes; fewer trials."""
    assert whichloop("init").code == 0
    compared, blessed, gated = commands(next(block for block in blocks("sh") if "--allow loop_tools" in block))
    assert whichloop(*compared, "--loop", "bare", "--profile", "clean", "--repeats", "1", "--tasks", "6", "-q").code == 0
    printed = whichloop(*blessed).out
    (command,) = commands(re.sub("^gate it with: ", "", printed, flags=re.MULTILINE))
    assert command == gated
    ended = whichloop(*gated, "-q")
    assert (ended.code, ended.out.partition(":")[0]) == (0, "identical")


def test_the_form_that_names_a_loop_names_every_loop_that_init_writes():
    """A gate refuses a run that lacks an arm of its baseline."""
    (named,) = re.findall(r"`(--loop my_loop:MyLoop [^`]*)`", PAGE)
    written = tomllib.loads(SETTINGS.format(loop='"my_loop:MyLoop"', other="finish"))
    words = shlex.split(named)
    assert [word for flag, word in pairwise(words) if flag == "--loop"] == written["loops"]
    assert [word for flag, word in pairwise(words) if flag == "--allow"] == [written["tools"]]
