"""`check suite` and `check program`, as their user runs them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from whichloop.checks.program import FAULTS
from whichloop.checks.suite import CHECKS
from whichloop.programs.program import Program

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


ROOT = Path(__file__).parents[2]
AGENTS = ROOT / "tests" / "programs" / "agents.py"
LIGHT = AGENTS.with_name("light_agents.py")
ONE = ("--fault", "unknown_tool")


@pytest.mark.slow
def test_every_fault_is_checked_if_none_is_named(whichloop):
    found = whichloop("check", "program", "--json", "finish").json
    assert [one["name"] for one in found["findings"]] == [fault.name for fault in FAULTS]


def test_an_executable_meets_faults_of_every_outcome(whichloop):
    """A process for each: one fault for each thing that can happen to it."""
    expected = {"cut_json": "told", "tool_raises": "told", "empty": "silent", "dropped": "handled", "never_finishes": "unlimited"}
    named = [word for fault in expected for word in ("--fault", fault)]
    done = whichloop("check", "program", "--json", *named, "--", "python", str(LIGHT))
    assert {one["name"]: one["outcome"] for one in done.json["findings"]} == expected


@pytest.mark.parametrize(
    "agent",
    [
        (f"{LIGHT}:plain_function",),
        pytest.param(("tests.programs.agents:in_the_event_loop",), marks=pytest.mark.slow),
        pytest.param(("finish",), marks=pytest.mark.slow),
        ("bare(tool_timeout_s=1)",),
        pytest.param((f"{sys.executable} {LIGHT}",), marks=pytest.mark.slow),
    ],
)
def test_an_agent_may_be_named_in_many_ways(whichloop, agent, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    done = whichloop("check", "program", *ONE, *agent)
    assert done.code == 0, done.err
    assert re.search("^unknown_tool +told +answer 3126$", done.out, re.MULTILINE)
    assert "request 2 says: " in done.out


def test_a_demanded_outcome_that_is_missing_fails_the_command(whichloop):
    demand = ("--require", "unknown_tool=told,empty=recovered", "--fault", "unknown_tool", "--fault", "empty")
    done = whichloop("check", "program", f"{LIGHT}:plain_function", *demand)
    assert done.code == 1
    assert done.out.endswith("Demanded   1 of 2 outcomes are there\nMissing    empty: demanded recovered, found silent\n")
    kept = whichloop("check", "program", "finish", *demand)
    assert kept.code == 0
    assert kept.out.endswith("Demanded   2 of 2 outcomes are there\n")


def test_junit_and_page_hold_hostile_text_as_text(whichloop, tmp_path):
    (tmp_path / "hostile.py").write_text(
        f"import sys\n\nsys.path.insert(0, {str(ROOT)!r})\n\n\n"
        "def solve(question, tools, **where):\n    from tests.programs.light_agents import plain_function\n"
        "    answer = plain_function(question, tools, **{k: where[k] for k in ('base_url', 'api_key', 'model')})\n"
        "    return answer if answer.isdigit() else '<script>alert(1)</script>]]>\\x00\\x1b[31m'\n"
    )
    outputs = ("--junit", "found.xml", "--page", "found.html", "--require", "empty=told")
    done = whichloop("check", "program", f"{tmp_path}/hostile.py:solve", "--fault", "empty", *outputs)
    assert done.code == 1, done.err
    root = ElementTree.fromstring((tmp_path / "found.xml").read_text())
    assert [suite.get("failures") for suite in root.iter("testsuite")] == ["1"]
    assert ["demanded told, found silent" in failure.get("message", "") for failure in root.iter("failure")] == [True]
    page = (tmp_path / "found.html").read_text()
    assert "<script>alert" not in page
    assert "demanded told, found silent" in page
    assert "\x1b" not in done.out + page


def test_an_agent_that_cannot_solve_the_task_is_told_so(whichloop):
    done = whichloop("check", "program", "--", "echo", "41")
    assert done.code == 1
    assert "it does not solve a task without any fault: its answer was '41' (stop finished), not 3126" in done.out


def test_a_program_that_can_begin_is_let_begin(here):
    (here / "fine.py").write_text("def solve(question, tools, **where): ...\ndef talk(task): ...\ndef few(q, t, *, model): ...\n")
    for command in ("fine.py:solve", "fine.py:talk", "fine.py:few", "python fine.py", "python -m fine", "python -c pass", "cat x"):
        assert Program(command).version == ""
