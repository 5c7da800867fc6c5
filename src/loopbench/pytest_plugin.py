"""A pytest plugin: the fixture `loop_gate` holds a loop to its baseline within a team's own tests.

    def test_agent(loop_gate):
        loop_gate("my.module:Loop", suite="events", profile="flaky-tools", tasks=40)

`pytest --loop-bless` writes the baseline beside the test, in `baselines/`; from then on the test fails where the loop got worse,
and says task by task how. Tests that use the fixture carry the marker `loop_gate`, whose keywords are defaults for its calls.

Every pytest that finds loopbench installed loads this module, so the gate itself is imported by the first test that uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # seconds to import, for every pytest
    from loopbench.experiments.gate.in_tests import LoopGate

PROPERTY = "loop_gate"
"""What a test's report calls the line that the summary shows."""
_BLESSED = pytest.StashKey[set[Path]]()
"""Baselines that this session wrote."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("loopbench", "loops held to their baselines")
    group.addoption("--loop-bless", action="store_true", help="Write the baselines of loop_gate instead of judging by them.")
    group.addoption("--loop-runs", type=Path, metavar="DIR", help="Keep loop_gate's run directories there [default: pytest's own].")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BLESSED] = set()
    config.addinivalue_line(
        "markers", "loop_gate(**settings): holds a loop to its baseline; keywords are defaults for the fixture's calls"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses the fixture has the marker, so that `-m loop_gate` finds them all."""
    for item in items:
        if "loop_gate" in getattr(item, "fixturenames", ()) and item.get_closest_marker("loop_gate") is None:
            item.add_marker(pytest.mark.loop_gate)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    said = list(_said(terminalreporter))
    if said:
        terminalreporter.section("loop gates")
        for line in said:
            terminalreporter.write_line(line)


def _said(reporter: pytest.TerminalReporter) -> Iterator[str]:
    for reports in reporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                yield from (f"{report.nodeid}: {value}" for name, value in report.user_properties if name == PROPERTY)


@pytest.fixture
def loop_gate(request: pytest.FixtureRequest, tmp_path: Path) -> LoopGate:
    """Call it with a loop; see `LoopGate`."""
    config, marker = request.config, request.node.get_closest_marker("loop_gate")
    if marker is not None and marker.args:
        raise pytest.UsageError(f"{request.node.nodeid}: the marker loop_gate takes keywords only, such as suite='events'")
    from loopbench.experiments.gate.in_tests import LoopGate  # seconds to import, for every pytest

    return LoopGate(
        item=request.node,
        default_baseline=request.path.parent / "baselines" / f"{_file_name(request.node)}.json",
        runs=config.getoption("--loop-runs") or tmp_path,
        blesses=config.getoption("--loop-bless"),
        blessed=config.stash[_BLESSED],
        defaults={} if marker is None else marker.kwargs,
        say=lambda line: request.node.user_properties.append((PROPERTY, line)),
    )


def _file_name(node: pytest.Item) -> str:
    """`test_agents.test_mine` of test_agents.py::test_mine."""
    names = [node.path.stem, *node.nodeid.split("::")[1:]]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", ".".join(names)).strip("-.")
