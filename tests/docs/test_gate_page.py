"""docs/gate.md: the upgrade of a framework ends as the page says."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.docs.pages import DOCS, output_of
from tests.docs.samples import is_shown, samples
from whichloop.frameworks.installing import read_release

PAGE = (DOCS / "gate.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("framework", ["openai_agents", "langgraph"])
def test_the_gate_finds_an_upgrade_that_keeps_tools_errors_from_the_model(framework, tmp_path):
    """As the page shows it for one framework; of the other its table says the same."""
    (shown,) = (each for each in samples(PAGE) if each.language == "console" and "openai_agents@" in each.text)
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
