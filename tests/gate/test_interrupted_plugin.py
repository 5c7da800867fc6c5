"""A test with the fixture `loop_gate` that a signal interrupts, in a process of its own, as a CI server cancels a job."""

from __future__ import annotations

import signal
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.thorough
TEST = """
import os
from loopbench.experiments.gate import in_tests

def after_one(told, record):
    os.kill(os.getpid(), {number})

def test_agent(loop_gate, monkeypatch):
    monkeypatch.setattr(in_tests._Told, "finished", after_one)
    loop_gate("bare", suite="arithmetic(size=12)", profile="flaky-tools")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_reported_as_failed_with_what_is_known_wherever_a_server_looks(pytester, monkeypatch, number):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makepyfile(test_mine=TEST.format(number=int(number)))
    ended = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--loop-bless", "--junit-xml", "j.xml")
    assert ended.ret == pytest.ExitCode.INTERRUPTED, ended.stderr.str()
    (failure,) = ElementTree.parse(pytester.path / "j.xml").iter("failure")
    assert failure.attrib["message"].startswith("interrupted after ")
    assert failure.attrib["message"].endswith(" of 12 trials")
    assert "interrupted after " in (pytester.path / "summary.md").read_text()
    ended.stdout.fnmatch_lines(["*test_agent: interrupted after * of 12 trials"])
    ended.assert_outcomes(failed=1)
