"""Tests that run in forks are told of as those that run in one process; a fork that dies fails one test and no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

CONFTEST = """
import pytest

from tests.forking import run_in_forks


def pytest_runtestloop(session):
    return run_in_forks(session, 2)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    yield tmp_path_factory.mktemp("shared")
    print("shared is torn down")
"""
MODULE = """
import os, sys
import pytest

at_import = sys.stdout


@pytest.fixture(scope="module")
def module():
    yield
    print("module is torn down")


def test_passes(shared, tmp_path, record_property):
    assert tmp_path.parent == shared.parent
    record_property("known", "by the report")


def test_fails(module):
    print("what it printed ü \\udcff", file=at_import)
    assert os.getpid() == 0


@pytest.mark.skip(reason="on purpose")
def test_is_skipped():
    pass


@pytest.mark.xfail
def test_fails_as_expected():
    raise ValueError


@pytest.mark.parametrize("number", range(3))
def test_has_cases(module, number):
    pass
"""
DEADLY = """
import os, signal, subprocess, sys


def test_before():
    pass


def test_is_killed():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            os.set_inheritable(fd, True)  # what the fork holds, the process holds that it starts
        except OSError:
            pass
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(4)"], close_fds=False)
    os.kill(os.getpid(), signal.SIGKILL)


def test_between():
    pass


def test_ends_its_process():
    os._exit(0)


def test_after():
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", os.fspath(Path(__file__).parents[1]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # to import them takes most of the time
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_a=MODULE, test_b=DEADLY, test_c=MODULE.replace("def test_fails(", "def test_fails_too("))
    return pytester


def test_reports_are_those_of_one_process_but_for_tests_that_end_theirs(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("-rA")
    result.assert_outcomes(passed=11, failed=4, skipped=2, xfailed=2)
    result.stdout.fnmatch_lines_random(
        [
            "*what it printed ü*",
            "*assert * == 0",
            "the process that ran this test ended, with exit code -9",
            "the process that ran this test ended, with exit code 0",
            "FAILED test_b.py::test_is_killed*",
            "FAILED test_b.py::test_ends_its_process*",
            "PASSED test_b.py::test_between",
            "PASSED test_b.py::test_after",
        ]
    )
    assert result.stdout.str().count("module is torn down") == 2


def test_what_a_session_shares_is_torn_down_by_a_fork_that_lives(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("-rA", "test_a.py", "test_c.py")
    result.stdout.fnmatch_lines(["*Captured stdout teardown*", "shared is torn down"])


def test_a_fork_that_ends_between_tests_is_an_error(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_z="import atexit, os\ndef test_it(): atexit.register(os._exit, 7)")
    result = suite.runpytest_subprocess("test_z.py")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(["*ended between them, with exit code 7*"])
