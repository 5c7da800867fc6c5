"""A test with the fixture `loop_gate` that a signal interrupts, in a process of its own, as a CI server cancels a job."""

from __future__ import annotations

import signal
from xml.etree import ElementTree

import pytest

from tests.gate.test_plugin_of_dying_code import run_apart

pytestmark = pytest.mark.thorough
TEST = """
import os
from whichloop.experiments.gate import in_tests

def after_one(told, record):
    os.kill(os.getpid(), {number})

def test_agent(loop_gate, monkeypatch):
    monkeypatch.setattr(in_tests._NotesAtOnce, "finished", after_one)
    loop_gate("bare", suite="arithmetic(size=12)", profile="flaky-tools")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_it_is_reported_as_failed_with_what_is_known_wherever_a_server_looks(pytester, monkeypatch, number):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makepyfile(test_mine=TEST.format(number=int(number)))
    ended = run_apart(pytester, "--loop-bless", "--junit-xml", "j.xml")
    assert ended.ret == pytest.ExitCode.INTERRUPTED, ended.stderr.str()
    (failure,) = ElementTree.parse(pytester.path / "j.xml").iter("failure")
    assert failure.attrib["message"].startswith("interrupted after ")
    assert failure.attrib["message"].endswith(" of 12 trials")
    assert "interrupted after " in (pytester.path / "summary.md").read_text()
    ended.stdout.fnmatch_lines(["*_ test_agent _*", "interrupted after * of 12 trials", "FAILED * - interrupted after *"])
    ended.stdout.no_fnmatch_line("*loop gates*")
    ended.assert_outcomes(failed=1)


LOOP = """
from dataclasses import dataclass, replace
from pathlib import Path
from whichloop.loops.bare import Bare

@dataclass(frozen=True)
class Mine(Bare):
    async def run(self, *arguments):
        ended = await super().run(*arguments)
        return replace(ended, answer=-1) if Path("changed").exists() else ended
"""
DOUBTFUL = """
import os
from whichloop.experiments.gate import again

def interrupted(told, record):
    for _ in range({times}):
        os.kill(os.getpid(), {number})

def test_agent(loop_gate, monkeypatch):
    monkeypatch.setattr("whichloop.runs.engine.interruption.SAME_WISH_S", 0.0)
    monkeypatch.setattr(again.Unwatched, "finished", interrupted)
    monkeypatch.setattr("whichloop.experiments.gate.in_tests._NotesAtOnce.finished", lambda told, record: None)
    loop_gate("mine:Mine", suite="arithmetic(size=12)", profile="flaky-tools")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 1), (signal.SIGINT, 2)])
def test_while_doubtful_trials_run_once_more_it_tells_how_to_judge_the_run(pytester, monkeypatch, number, times):
    """The loop's code is the blessed one, and yet it gives other answers. A first Ctrl-C alone lets all trials under way end."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makepyfile(mine=LOOP, test_mine=DOUBTFUL.format(number=int(number), times=times))
    pytester.syspathinsert()
    assert run_apart(pytester, "--loop-bless").ret == 0
    (pytester.path / "changed").touch()
    ended = run_apart(pytester, "--junit-xml", "j.xml")
    assert ended.ret == pytest.ExitCode.INTERRUPTED, ended.stderr.str()
    (failure,) = ElementTree.parse(pytester.path / "j.xml").iter("failure")
    said, _, command = failure.attrib["message"].partition("; go on with: whichloop ")
    assert said == "interrupted after 12 of 12 trials, before the run was judged"
    assert command.startswith("gate ")
    assert command.endswith(" --baseline baselines/test_mine.test_agent.json --on-undecided fail")
    assert f"{said}; go on with: " in (pytester.path / "summary.md").read_text()
    ended.assert_outcomes(failed=1)
