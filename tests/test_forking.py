"""Tests that run in forks are told of as those that run in one process; a fork that dies fails one test and no other."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.forking import files_by_cost

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
import os, signal, sys, warnings
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


@pytest.mark.parametrize("number", range(3))
def test_has_cases(module, number):
    pass


@pytest.mark.skip(reason="on purpose")
def test_is_skipped():
    pass


@pytest.mark.xfail
def test_fails_as_expected():
    raise ValueError


def test_warns():
    warnings.warn("take care")
"""
DEADLY = """
import os, signal, subprocess, sys


def test_before():
    pass


def test_is_killed():
    global child
    held = [int(name) for name in os.listdir("/proc/self/fd")]
    for fd in held:
        try:
            os.set_inheritable(fd, True)
        except OSError:
            pass
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(4)"], close_fds=False)
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
    result.assert_outcomes(passed=13, failed=4, skipped=2, xfailed=2, warnings=2)
    result.stdout.fnmatch_lines_random(
        [
            "*what it printed ü*",
            "*assert * == 0",
            "the process that ran this test ended, with exit code -9",
            "the process that ran this test ended, with exit code 0",
            "*UserWarning: take care",
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


@pytest.mark.slow
def test_nothing_more_is_begun_after_as_many_failures_as_are_allowed(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("--maxfail=1")
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_fork_that_ends_between_tests_is_an_error(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_z="import atexit, os\ndef test_it(): atexit.register(os._exit, 7)")
    result = suite.runpytest_subprocess("test_z.py")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(["*ended between them, with exit code 7*"])


def test_files_stay_whole_and_the_costliest_come_last() -> None:
    marks = {"a": ["timeout", ""], "b": ["", ""], "c": ["thorough", "thorough"], "d": ["thorough"]}
    items: list[Any] = [SimpleNamespace(path=Path(name), keywords={mark}) for name, all_of in marks.items() for mark in all_of]
    assert list(files_by_cost(items)) == [[2, 3], [6], [4, 5], [0, 1]]


def test_files_that_ask_for_one_fork_count_as_one_file() -> None:
    shared = SimpleNamespace(IN_ONE_FORK="trees")
    items: list[Any] = [
        SimpleNamespace(path=Path(name), keywords=set(), module=module)
        for name, module in (("a", shared), ("b", SimpleNamespace()), ("c", shared), ("d", None))
    ]
    assert list(files_by_cost(items)) == [[0, 2], [1], [3]]
