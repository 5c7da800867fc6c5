"""The fixture `agent_checks` in a team's own tests, each run by a pytest of its own."""

from __future__ import annotations

import pytest

# pytester forgets what an inner pytest imports, and numpy cannot be imported twice: so all of it is there before
import whichloop.checks.program.in_tests
import whichloop.loops.finish  # noqa: F401

TEST = """
def test_agent(agent_checks):
    agent_checks({agent}, {settings})
"""


def run(pytester: pytest.Pytester, agent: str, settings: str) -> pytest.RunResult:
    pytester.makepyfile(test_mine=TEST.format(agent=agent, settings=settings))
    return pytester.runpytest_inprocess("-p", "no:cacheprovider")


def test_what_is_demanded_and_there_passes_and_is_told(pytester):
    ended = run(pytester, "'finish'", "require={'unknown_tool': 'told', 'empty': 'recovered'}")
    ended.assert_outcomes(passed=1)
    ended.stdout.fnmatch_lines(["*agent checks*", "test_mine.py::test_agent: finish: 2 told"])


def test_what_is_demanded_and_missing_fails(pytester):
    ended = run(pytester, "'react_extract'", "require='empty=told,tool_raises=told'")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["empty: demanded told, found error (stop parse_failed)"])
    ended.stdout.no_fnmatch_line("tool_raises: demanded*")


def test_a_function_is_an_agent(pytester):
    pytester.makepyfile(mine="def solve(question, tools):\n    return '41'\n")
    pytester.makepyfile(
        test_mine="from mine import solve\n\n\ndef test_agent(agent_checks):\n    agent_checks(solve, faults=['empty'])\n"
    )
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["agent_checks: it does not solve a task without any fault: its answer was '41'*"])


@pytest.mark.parametrize(
    ("agent", "settings", "says"),
    [
        ("'finsh'", "", "there is no program, framework or design 'finsh'; did you mean 'finish'?*"),
        ("'finish'", "require={'emty': 'told'}", "there is no fault 'emty'; did you mean 'empty'?*"),
        ("'finish'", "faults=['emty']", "there is no fault 'emty'; known: *"),
        ("lambda question, tools: '41'", "", "test_agent.<locals>.<lambda> cannot be imported: define it at the top of a module*"),
        ("3", "", "3 is no agent: give a name, a loop, its class, or a function"),
    ],
)
def test_a_bad_setting_fails_the_test_in_one_line(pytester, agent, settings, says):
    ended = run(pytester, agent, settings)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines([f"agent_checks: {says}"])
