"""Each wiring against the laws of loops, in the real environment of its framework; skipped where that is not installed.

LOOPBENCH_HOME=FOLDER pytest tests/frameworks/test_conformance.py -m slow
"""

import pytest

from loopbench.checks.loop import check_loop
from loopbench.frameworks.environments import known_frameworks
from loopbench.frameworks.installing import framework_class
from loopbench.protocol.names import parse_spec
from loopbench.runs.registry import make_loop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

AS_DOCUMENTED = {
    "agent_framework": "agent_framework(tool_errors=shown)",
    "deepagents": "deepagents(tool_errors=shown)",
    "google_adk": "google_adk(tool_errors=shown)",
    "langchain": "langchain(tool_errors=shown)",
    "langgraph": "langgraph(tool_errors=shown)",
    "openai_agents": "openai_agents(tool_errors=shown, unknown_tool=shown)",
    "pydantic_ai": "pydantic_ai(tool_errors=shown, retries=10)",
}
"""Frameworks whose defaults keep a tool's error from the model, with the options that show it."""


def needs(name):
    try:
        assert framework_class(name)().version
    except ValueError as error:
        pytest.skip(str(error))


def broken(spec):
    return {finding.law: finding.detail for finding in check_loop(make_loop(parse_spec(spec))) if finding.status == "failed"}


@pytest.mark.parametrize("name", known_frameworks())
def test_a_wiring_keeps_the_laws(name):
    needs(name)
    assert broken(AS_DOCUMENTED.get(name, name)) == {}


@pytest.mark.parametrize("name", AS_DOCUMENTED)
def test_defaults_keep_a_tools_error_from_the_model_and_nothing_else(name):
    needs(name)
    assert broken(name).keys() <= {"tool errors", "finishing"}
