"""The test that `whichloop init` writes, held against its own loop: the figures of docs/gate.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.pages import block
from tests.benchmarks import load_benchmark
from whichloop.cli.init import write_project


def test_what_did_not_change_passes_and_twice_the_tokens_are_found():
    made = load_benchmark("gate_of_init")
    lines = [line for line in block(made.PAGE, "a first project").split("\n") if line.startswith("|")][2:]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[1] for row in found] == [change.name for change in made.CHANGES] * 2
    for _, change, _, tokens, *outcomes in found:
        passed, regression, *_ = outcomes
        assert sum(float(share.split()[0]) for share in outcomes) == pytest.approx(1)  # no run ended in any other way
        if change in ("nothing", "other words in the prompt"):
            assert passed.startswith("1.000 ")
        elif change == "twice the tokens":
            assert regression.startswith("1.000 ")
            assert float(tokens.removeprefix("×")) > 2


def test_the_settings_are_read_from_the_test_itself(tmp_path: Path):
    write_project(tmp_path, "bare")
    asked, profiles = load_benchmark("gate_of_init").settings(tmp_path)
    assert profiles == ("flaky-tools", "flaky-format")
    assert asked["data"] == "loop_tasks.jsonl"
    assert asked["metrics"] == {"tokens": 0.1, "false_success_rate": 0.02, "calls_doubled": 0.02}
    assert asked["on_other_answers"] == "fail"
