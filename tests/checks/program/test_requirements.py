"""What a team demands, from text to a decision, and the fixture `agent_checks` in its own tests, each by a pytest of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.checks.program.agent_faults import BY_NAME, EITHER, OUTCOMES, RECOVERED, FaultFinding, allowed_by, parse_requirements
from whichloop.checks.program.check import ProgramReport

WORDS = st.sampled_from([*(name for name in OUTCOMES if name != "not applicable"), "recovered"])
DEMANDS = st.dictionaries(st.sampled_from(sorted(BY_NAME)), st.lists(WORDS, min_size=1, max_size=3, unique=True))


@given(DEMANDS)
def test_text_and_mapping_say_the_same(demands):
    said = {fault: "|".join(words) for fault, words in demands.items()}
    assert parse_requirements(",".join(f"{fault}={words}" for fault, words in said.items())) == parse_requirements(said)


@given(DEMANDS, st.sampled_from(sorted(OUTCOMES)))
def test_a_demand_is_met_by_the_outcomes_that_it_names_and_by_faults_that_cannot_happen(demands, outcome):
    demanded = parse_requirements({fault: "|".join(words) for fault, words in demands.items()})
    missing = ProgramReport("", "", (), tuple(FaultFinding(fault, outcome, "") for fault in demands)).missing(demanded)
    for fault, words in demands.items():
        allowed = {*words} | (RECOVERED if "recovered" in words else set()) | {"not applicable"}
        assert (fault not in missing) == (outcome in allowed)


def read_or_refused(text):
    """The requirements in a text, or the words that refuse it."""
    try:
        return parse_requirements(text)
    except ValueError as error:
        return str(error)


PIECES = [*BY_NAME, *OUTCOMES, "=", "=", ",", EITHER, " "]


@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_any_text_is_read_as_faults_with_outcomes_or_refused_in_one_line(text):
    found = read_or_refused(text)
    if isinstance(found, str):
        assert "\n" not in found
        return
    assert found.keys() <= BY_NAME.keys()
    assert all(allowed_by(text) and allowed_by(text) <= set(OUTCOMES) for text in found.values())
    assert parse_requirements(", ".join(f"{fault}={text}" for fault, text in found.items())) == found


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
