"""The recipes of docs/ci.md: their commands are run as they stand there, on a loop of a user's own package."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
GATE = "gate --baseline baselines/mine.json"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("code", "passes"), [(0, True), (1, False), (2, False), (3, True), (4, False)])
def test_an_undecided_gate_alone_passes_the_step_on_github(code, passes):
    """As GitHub runs a step: `bash -e`."""
    steps = yaml.safe_load(blocks("yaml")[0])["jobs"]["gate"]["steps"]
    (step,) = (each["run"] for each in steps if "whichloop gate" in each.get("run", ""))
    assert (subprocess.run(["bash", "-e", "-c", f"whichloop() {{ return {code}; }}\n{step}"]).returncode == 0) == passes


@pytest.mark.thorough
def test_the_recipe_works(whichloop, here):
    (here / "my_package").mkdir()
    (here / "my_package" / "loops.py").write_text("from whichloop import Finish\n\n\nclass Mine(Finish):\n    pass\n")
    (here / "pyproject.toml").write_text(blocks("toml")[0])
    for line in blocks("sh")[0].replace("events(size=300)", "events(size=12)").splitlines():
        if line.startswith("whichloop "):
            assert whichloop(*shlex.split(line)[1:]).code == 0
    scripts = yaml.safe_load(blocks("yaml")[1])["gate"]["script"]
    (gate,) = (line for line in scripts if GATE in line)
    assert whichloop(*shlex.split(gate)[1:]).code == 0
    assert "<testsuite" in (here / "gate.xml").read_text()
