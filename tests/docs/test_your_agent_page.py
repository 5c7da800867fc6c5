"""docs/your-agent.md names every fault, outcome, variable and option; its agent for Node runs.

`python -m tests.docs.test_your_agent_page --write` renews the table of faults.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.pages import block, head, row, write_block
from tests.docs.pages import DOCS
from tests.docs.samples import samples
from tests.prepared import said_by
from whichloop.checks.program import FAULTS, OUTCOMES
from whichloop.programs.program import Program
from whichloop.programs.worker import trial_environment
from whichloop.runs.built_in import options_of

PAGE = DOCS / "your-agent.md"
TEXT = PAGE.read_text("utf-8")


def faults() -> str:
    return "\n".join([*head("fault", "what happens"), *(row(f"`{fault.name}`", fault.text) for fault in FAULTS)])


def test_every_fault_outcome_variable_and_option_is_on_the_page() -> None:
    assert block(PAGE, "faults").strip() == faults()
    assert all(f"| `{outcome}` |" in TEXT for outcome in OUTCOMES)
    told = trial_environment("http://127.0.0.1:1/t/x", "?", "m", 1)
    assert not [name for name in told if f"`{name}`" not in TEXT and name != "OPENAI_API_BASE"]
    own = [name for name in options_of(Program) if name not in ("command", "max_steps")]
    assert not [name for name in own if f"`{name}=" not in TEXT]


@pytest.mark.slow
@pytest.mark.thorough
def test_an_agent_that_no_sample_runs_does(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("it is not installed")
    for sample in samples(TEXT):
        if sample.file:
            (tmp_path / sample.file).write_text(sample.text)
    agent, profile = ["--program", "node my_agent.mjs"], ["--profile", "flaky-tools"]
    words = ["compare", *agent, *profile, "--suite", "arithmetic(size=2)", "-q", "--json"]
    path = {"PYTHONPATH": os.pathsep.join(filter(None, (*sys.path, str(tmp_path))))}
    (arm,) = json.loads(said_by(tmp_path, os.environ | path, "-m", "whichloop", *words))["arms"]
    assert arm["errored"] == 0
    assert arm["accuracy"]["value"] > 0.3


if __name__ == "__main__" and "--write" in sys.argv:
    write_block(PAGE, "faults", faults())
