"""`whichloop check suite`, end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whichloop.checks.suite import CHECKS

NAMES = [check.name for check in CHECKS]
Command = Callable[..., Any]

PARROTS = '''
from pathlib import Path

from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.protocol import Plan, PlannedCall, Query, Ref, Tool


def wave(number: int) -> int:
    """Wave back."""
    Path("waved").touch()
    return number + 1


def parrots(loud: bool = False) -> Suite:
    tool = Tool.from_function(wave, blocking=False)
    plans = [Plan((PlannedCall("c1", "wave", {"number": n}, "Wave."),), Ref("c1")) for n in range(20)]
    said = [f"Parrot {n % 7} hears {n + 1 if loud else n}" for n in range(20)]
    tasks = [Task(f"p{n}", Query(said[n]), n + 1, "numeric", plan) for n, plan in enumerate(plans)]
    return Suite("parrots", "3", tuple(tasks), lambda task: StatelessEnvironment((tool,)))
'''

OWN_TOOLS = """
from pathlib import Path

def wave(number: int) -> int:
    'Wave.'
    Path('waved').touch()
    return number + 1
"""


@pytest.fixture
def whichloop(whichloop: Command, here: Path) -> Command:
    """The same, with a suite in the directory."""
    (here / "birds.py").write_text(PARROTS)
    return whichloop


def statuses(ended: Any) -> dict[str, str]:
    return {one["name"]: one["status"] for one in json.loads(ended.out)["findings"]}


def test_a_built_in_suite_passes_with_the_sum_first_and_a_table_of_agents(whichloop) -> None:
    ended = whichloop("check", "suite", "arithmetic(size=24)", "--tasks", "8")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    number = len(NAMES)
    sums = ["suite arithmetic(size=24)", f"Hold       {number} of {number} laws", "Tasks      24", "Called     tools of 8 tasks"]
    assert lines[:4] == sums
    assert not any(re.match(rf"{name} +ok", line) for name in NAMES for line in lines)
    assert re.search(r"^oracle +1\.000 \[0\.631, 1\.000\] +8 +follows the plan", ended.out, re.MULTILINE)
    assert re.search(r"^do nothing +0\.000 \[0\.000, 0\.142\] +24 +gives no answer", ended.out, re.MULTILINE)
    in_full = whichloop("check", "arithmetic(size=24)", "--tasks", "8", "-v").out
    assert in_full.startswith(ended.out)
    assert re.findall(r"^(.*?) +ok ", in_full, re.MULTILINE) == NAMES


def test_a_suite_that_can_be_guessed_fails_with_the_agent_and_its_share(whichloop) -> None:
    ended = whichloop("check", "suite", "birds:parrots(loud=true)", "--run-tools")
    assert ended.code == 1
    assert {"guessing", "gold"} <= set(re.findall(r"^(\w+) +FAILED ", ended.out, re.MULTILINE))
    assert "echo (answers with the question) passes 100.0% of 20 tasks [83.2%, 100.0%]: p0, p1, p2, …" in ended.out
    assert re.search(r"^echo .*TOO MANY", ended.out, re.MULTILINE)
    assert "\nBroken     2 of 19 laws\n" in ended.out


def test_tools_of_ones_own_are_called_only_with_permission(whichloop, tmp_path) -> None:
    ended = whichloop("check", "suite", "birds:parrots")
    assert ended.code == 0
    assert not (tmp_path / "waved").exists()
    assert ended.out.count("calls tools that may act on the real world; --run-tools allows it") == 4
    assert "\nCalled     no tool\n" in ended.out
    assert ended.out.count("not run") == 5
    assert "oracle" not in ended.out
    allowed = whichloop("check", "suite", "birds:parrots", "--run-tools", "--json")
    assert json.loads(allowed.out)["ran_tools"]
    assert (tmp_path / "waved").exists()


def test_own_tools_of_a_suite_that_brings_none_need_permission_too(whichloop, tmp_path) -> None:
    (tmp_path / "q.csv").write_text("question,answer\nWhat comes after 1?,2\nAnd what follows 7?,8\n")
    (tmp_path / "waving.py").write_text(OWN_TOOLS)
    given = ("check", "suite", "csv", "--data", "q.csv", "--tools", "waving", "--json")
    assert not json.loads(whichloop(*given).out)["ran_tools"]
    assert not (tmp_path / "waved").exists()
    assert json.loads(whichloop(*given, "--run-tools").out)["ran_tools"]
    assert (tmp_path / "waved").exists()


def test_json_has_checks_agents_and_what_is_set_aside(whichloop, tmp_path) -> None:
    ended = whichloop("check", "suite", "arithmetic(size=24)", "--tasks", "8", "--json")
    made = json.loads(ended.out)
    assert ended.code == 0
    assert {key: made[key] for key in ("name", "ok", "version", "tasks", "sample")} == {
        "name": "arithmetic(size=24)",
        "ok": True,
        "version": "2",
        "tasks": 24,
        "sample": 8,
    }
    assert statuses(ended) == dict.fromkeys(NAMES, "ok")
    assert [agent["agent"] for agent in made["baselines"]] == [
        "oracle",
        "blind",
        "random calls",
        "do nothing",
        "same answer",
        "not determined",
        "echo",
    ]
    assert made["baselines"][3] == {
        "agent": "do nothing",
        "passes": {"value": 0.0, "low": 0.0, "high": pytest.approx(0.142, abs=0.001), "n": 24},
        "too_many": False,
        "not_scored": 0,
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["aritmetic"], "unknown suite 'aritmetic'; did you mean 'arithmetic'"),
        (["arithmetic(size=0)"], "size is 0"),
        (["arithmetic", "--tasks", "0"], "tasks is 0, and must be at least 1"),
        (["arithmetic", "--data", "x.csv"], "takes no --data file"),
        (["gsm8k"], "--data"),
        (["birds:nothing"], "birds has no 'nothing'"),
    ],
)
def test_wrong_input_is_one_line_and_code_2(whichloop, tmp_path, arguments, said) -> None:
    ended = whichloop("check", "suite", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1


def test_long_checks_tell_how_far_they_are(whichloop, monkeypatch) -> None:
    monkeypatch.setattr("whichloop.cli.check.SAY_EVERY_S", 0.0)
    ended = whichloop("check", "suite", "arithmetic(size=12)", "--tasks", "3", "--json")
    assert "replay: 2 of 3" in ended.err.splitlines()
    assert json.loads(ended.out)["ok"]


def test_what_tools_print_is_no_part_of_the_result(whichloop, tmp_path) -> None:
    (tmp_path / "talkative.py").write_text(PARROTS.replace("def wave(", "print('hello from the suite')\n\n\ndef wave(", 1))
    ended = whichloop("check", "suite", "talkative:parrots", "--json", "--run-tools")
    assert json.loads(ended.out)["name"] == "talkative:parrots"
