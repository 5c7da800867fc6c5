"""docs/gate.md: every reason has its row, and the recipe for CI and the upgrade of a framework end as the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import get_args

import pytest
import yaml

from tests.docs.pages import DOCS, output_of
from tests.docs.samples import is_shown, samples
from whichloop.experiments.gate.baseline import Accepted
from whichloop.experiments.gate.reasons import TEXTS
from whichloop.frameworks.installing import read_release

PAGE = (DOCS / "gate.md").read_text("utf-8")


def test_every_reason_has_its_row():
    cells = re.findall(r"^\| (`[^|]*`[^|]*) \|", PAGE.partition("| reason |")[2].partition("\n\n")[0], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", "".join(cells))) == TEXTS.keys() - {"dead"}, "dead: only for blessing"


def test_what_can_be_accepted_is_listed():
    (cell,) = re.findall(r"^\| `--accept CODE,…` \| (.*) \|$", PAGE, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", cell)) == get_args(Accepted)


@pytest.mark.parametrize(("code", "passes"), [(0, True), (1, False), (2, False), (3, True), (4, False)])
def test_an_undecided_gate_alone_passes_the_step_on_github(code, passes):
    """As GitHub runs a step: `bash -e`."""
    (recipe,) = (each.text for each in samples(PAGE) if each.language == "yaml")
    steps = yaml.safe_load(recipe)["jobs"]["gate"]["steps"]
    (step,) = (each["run"] for each in steps if "whichloop gate" in each.get("run", ""))
    assert (subprocess.run(["bash", "-e", "-c", f"whichloop() {{ return {code}; }}\n{step}"]).returncode == 0) == passes


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("framework", ["openai_agents", "langgraph"])
def test_the_gate_finds_an_upgrade_that_keeps_tools_errors_from_the_model(framework, tmp_path):
    """As the page shows it for one framework; of the other its table says the same."""
    (shown,) = (each for each in samples(PAGE) if each.language == "console")
    upgrades = re.findall(r"^\| `(\w+)` ([\d.]+) → \S+ \| 5 of 120 ", PAGE, re.MULTILINE)
    install, *runs = (
        shlex.split(line.replace("openai_agents@0.22.0", f"{framework}@{dict(upgrades)[framework]}"))[1:]
        for line in shown.text.splitlines()
    )
    if lacking := [name for name in install[1:] if not read_release(name).folder.exists()]:
        pytest.skip(f"not installed: whichloop install {' '.join(lacking)}")
    printed = output_of([[framework if word == "openai_agents" else word for word in run] for run in runs], tmp_path)
    assert "5 worse" in printed
    text = PAGE.partition(shown.text)[2].partition("```text\n")[2].partition("```")[0]
    assert framework == "langgraph" or is_shown(text, f"{printed}\n")
