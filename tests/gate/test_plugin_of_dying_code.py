"""Loops and modules that end their process fail their own test of the fixture `loop_gate`, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.test_pytest_plugin import ALONE, run
from tests.prepared import Prepared

pytestmark = pytest.mark.thorough


def run_apart(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """In a process of its own."""
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", f"--basetemp={pytester.path / 'basetemp'}", *ALONE, *arguments]
    child = Prepared(command, cwd=Path.cwd(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = child.communicate(timeout=120)
    return pytest.RunResult(child.returncode, out.splitlines(), err.splitlines(), 0.0)


OWN = """
import os
from whichloop.loops import Bare

class {name}:
    name, stops = "own", frozenset()

    def with_step_limit(self, tool_steps):
        return self

    async def run(self, query, tools, model, observer=None):
        os._exit(0)
"""


ASKS = "return await Bare().run(query, tools, model, observer)"


def test_a_loop_that_ends_its_process_fails_its_test_only(pytester):
    loop = OWN.format(name="Own")
    pytester.makepyfile(own_ending=loop.replace("os._exit(0)", ASKS))
    pytester.makepyfile(
        """
        def test_agent(loop_gate):
            loop_gate("own_ending:Own", suite="arithmetic(size=1)")

        def test_another():
            pass
        """
    )
    run(pytester, "-o", "pythonpath=.", "--loop-bless").assert_outcomes(passed=2)
    pytester.makepyfile(own_ending=loop)
    ended = run_apart(pytester, "-o", "pythonpath=.")
    ended.assert_outcomes(passed=1, failed=1)
    ended.stdout.fnmatch_lines(["regression: every trial crashes now (SystemExit: *called os._exit(0) at own_ending.py:*)"])


def test_a_loop_that_no_other_process_finds_cannot_end_the_session(pytester, monkeypatch):
    more = """
def test_agent(loop_gate):
    loop_gate(Own, suite="arithmetic(size=1)", traces="none")

def test_another():
    pass
"""
    pytester.makepyfile(test_own=OWN.format(name="Own") + more)
    monkeypatch.chdir(pytester.mkdir("elsewhere"))
    ended = run_apart(pytester, "--import-mode=importlib", "--loop-bless", "../test_own.py")
    ended.assert_outcomes(passed=1, failed=1)
    ended.stdout.fnmatch_lines(["*Own/clean: every trial crashed (1 of 1)*called os._exit(0)*nothing was blessed*"])


def test_a_module_that_ends_its_process_when_it_is_imported_fails_its_test_only(pytester):
    pytester.makepyfile(own_leaving="import os; os._exit(0)", own_going="import posix; posix._exit(0)")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("module", ["own_leaving", "own_going"])
        def test_agent(loop_gate, module):
            loop_gate(f"{module}:Own", suite="arithmetic(size=1)")

        def test_another():
            pass
        """
    )
    ended = run_apart(pytester, "-o", "pythonpath=.", "--loop-bless")
    ended.assert_outcomes(passed=1, failed=2)
    for module in ("own_leaving", "own_going"):
        ended.stdout.fnmatch_lines([f"*importing {module} failed: *called os._exit(0)*"])
