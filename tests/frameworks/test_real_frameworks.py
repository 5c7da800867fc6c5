"""Real frameworks, each in an environment of its own: one that `make test` installs, and further ones of `make test-slow`.

A test whose frameworks are not installed is skipped.

WHICHLOOP_TESTED_FRAMEWORKS names the folder of the environments, as WHICHLOOP_HOME does; without it WHICHLOOP_HOME counts.
"""

import pytest

from tests.cli.conftest import here, whichloop
from whichloop.checks.program import check_program
from whichloop.checks.program.agent_faults import BY_NAME
from whichloop.checks.program.naming import TOLD_STEPS
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop

from .conftest import skip_without

__all__ = ["here", "whichloop"]

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]

TESTED, FURTHER = ["openai_agents"], ["smolagents", "pydantic_ai"]
"""The frameworks of all tests, and those of slow tests."""
TOLD = {
    "openai_agents(tool_errors=shown, unknown_tool=shown)": ("tool_raises", "unknown_tool"),
    "pydantic_ai(tool_errors=shown, retries=10)": ("tool_raises", "unknown_tool", "cut_json", "empty"),
    "smolagents": ("tool_raises", "unknown_tool", "empty", "prose"),
}
"""Framework → faults of which it tells its model why."""
FOUND_OUT = {
    "openai_agents": {"unknown_tool": "error", "tool_raises": "untold", "empty": "silent"},
    "pydantic_ai": {"tool_raises": "error", "extra_argument": "told", "prose": "silent"},
}
"""Framework → what its defaults make of faults."""


def each(specs):
    """Parameters: the specs of further frameworks are slow tests."""
    return [pytest.param(spec, marks=pytest.mark.slow if spec.partition("(")[0] in FURTHER else ()) for spec in specs]


def outcomes(spec, faults):
    found = check_program(make_loop(parse_spec(spec), TOLD_STEPS), spec, faults=[BY_NAME[name] for name in faults])
    return {finding.fault: finding.outcome for finding in found.findings}


@pytest.mark.parametrize("spec", each(TOLD))
def test_a_framework_with_its_cures_tells_the_model(spec):
    skip_without(spec.partition("(")[0])
    assert outcomes(spec, TOLD[spec]) == dict.fromkeys(TOLD[spec], "told")


@pytest.mark.parametrize("spec", each(FOUND_OUT))
def test_the_defaults_are_found_out(spec):
    skip_without(spec)
    assert outcomes(spec, FOUND_OUT[spec]) == FOUND_OUT[spec]


@pytest.mark.parametrize("frameworks", [TESTED, pytest.param([*TESTED, *FURTHER], marks=pytest.mark.slow)])
def test_frameworks_stand_beside_a_design_and_why_explains_a_lost_trial(whichloop, frameworks):
    skip_without(*frameworks)
    loops = [word for name in ("finish", *frameworks) for word in ("--loop", name)]
    chosen = (*loops, "--suite", "arithmetic(size=6)", "--profile", "flaky-format", "--profile", "flaky-tools", "--quiet", "--json")
    run, again = (whichloop("compare", *chosen, *more).json for more in ((), ("-s", "concurrency=3")))
    assert run["invalid"] is False
    assert len(run["arms"]) == len(loops)
    for arm in run["arms"]:
        faults = arm["faults"]
        assert faults["landed"] >= 0.95 * faults["scheduled"]
        assert "@" in arm["arm"] or arm["loop"] == "finish"
    assert again["digest"] == run["digest"]
    why = whichloop("report", "--why", "latest", "--arm", "finish", "--arm", frameworks[-1], "--json").json
    examples = [example for pair in why["pairs"] for example in pair["divergences"]]
    assert examples
    assert all(example["cause"] and example["detail"] for example in examples)
