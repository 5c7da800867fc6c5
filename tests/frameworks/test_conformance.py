"""Each wiring against the laws of loops, in the real environment of its framework; skipped where that is not installed.

`make test-slow` installs three; WHICHLOOP_HOME=FOLDER pytest tests/frameworks/test_conformance.py -m slow takes those of a folder.
"""

import pytest

from whichloop.checks.loop import check_loop
from whichloop.frameworks.table import FRAMEWORKS
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

from .conftest import skip_without

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


OF_THE_FRAMEWORK = {
    "autogen": {"outcome": "the run did not end within"},
    "llama_index": {
        "no state": "differs in its messages",
        "order": "the set of requests differs",
        "outcome": "the run did not end within",
    },
}
"""Framework → law that it breaks by itself → what the finding says.

AutoGen: arguments nested 20,000 deep raise RecursionError in a task of its own, and nothing wakes who waits for it. LlamaIndex runs
the calls of a reply at once, and puts their results into the next request as they come; why it does not end at one of 120 seeds is
unknown.
"""


def broken(spec):
    return {finding.law: finding.detail for finding in check_loop(make_loop(parse_spec(spec))) if finding.status == "failed"}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_wiring_keeps_the_laws(name):
    skip_without(name)
    known = OF_THE_FRAMEWORK.get(name, {})
    found = broken(AS_DOCUMENTED.get(name, name))
    assert {law: detail for law, detail in found.items() if known.get(law, "\n") not in detail} == {}


@pytest.mark.parametrize("name", AS_DOCUMENTED)
def test_defaults_keep_a_tools_error_from_the_model_and_nothing_else(name):
    skip_without(name)
    assert broken(name).keys() <= {"tool errors", "finishing"}
