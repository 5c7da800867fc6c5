"""A pytest plugin: the fixture `whichloop_gate` holds a loop to its baseline within a team's own tests.

    def test_agent(whichloop_gate):
        whichloop_gate("my.module:Loop", suite="events", profile="flaky-tools", tasks=40)

`pytest --loop-bless` writes the baseline beside the test, in `baselines/`; from then on the test fails where the loop got worse,
and says task by task how. Tests that use the fixture carry the marker `whichloop_gate`, whose keywords are defaults for its calls.

The fixture `agent_checks` runs an agent with one fault at a time, and demands what it does with them:

    def test_my_agent(agent_checks):
        agent_checks("my.module:solve", require={"unknown_tool": "told", "empty": "recovered"})

Every pytest that finds whichloop installed loads this module, so the gate itself is imported by the first test that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # seconds to import, for every pytest
    from whichloop.checks.program.in_tests import AgentChecks
    from whichloop.experiments.gate.in_tests import LoopGate

GATE = "whichloop_gate"
PROPERTIES = {GATE: "loop gates", "agent_checks": "agent checks"}
"""What a test's report calls the line that the summary shows → the summary's title."""
ANNOTATION = "github_annotation"
"""What a test's report calls a workflow command of GitHub's."""
_BLESSED = pytest.StashKey[set[Path]]()
"""Baselines that this session wrote."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("whichloop", "loops held to their baselines")
    group.addoption("--loop-bless", action="store_true", help="Write the baselines of whichloop_gate instead of judging by them.")
    group.addoption("--loop-runs", type=Path, metavar="DIR", help="Keep the gates' run directories there [default: pytest's own].")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BLESSED] = set()
    config.addinivalue_line(
        "markers", "whichloop_gate(**settings): holds a loop to its baseline; keywords are defaults for the fixture's calls"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses the fixture has the marker, so that `-m whichloop_gate` finds them all."""
    for item in items:
        if GATE in getattr(item, "fixturenames", ()) and item.get_closest_marker(GATE) is None:
            item.add_marker(pytest.mark.whichloop_gate)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, title in PROPERTIES.items():
        lines = [f"{test}: {line}" for test, line in _lines_of(terminalreporter, name)]
        if lines:
            terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)
    for _, line in _lines_of(terminalreporter, ANNOTATION):
        terminalreporter.write_line(line)  # at the start of a line, where GitHub looks for its commands


def _lines_of(reporter: pytest.TerminalReporter, name: str) -> Iterator[tuple[str, str]]:
    """Yield each test with each line that its report holds under this name."""
    for reports in reporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                yield from ((report.nodeid, str(line)) for held_under, line in report.user_properties if held_under == name)


@pytest.fixture
def whichloop_gate(request: pytest.FixtureRequest, tmp_path: Path) -> LoopGate:
    """Call it with a loop; see `LoopGate`."""
    kept = request.config.getoption("--loop-runs")
    runs = tmp_path if kept is None else request.config.invocation_params.dir / kept
    gate: LoopGate = import_module("whichloop.experiments.gate.in_tests").LoopGate(request, runs, request.config.stash[_BLESSED])
    return gate


@pytest.fixture
def agent_checks(request: pytest.FixtureRequest) -> AgentChecks:
    """Call it with an agent; see `AgentChecks`."""
    safe_for_others: Callable[[str], str] = import_module("whichloop.text.output").safe_for_others
    checks: AgentChecks = import_module("whichloop.checks.program.in_tests").AgentChecks(
        request.node, lambda line: request.node.user_properties.append(("agent_checks", safe_for_others(line)))
    )
    return checks
