"""A pytest plugin: the fixture `loop_gate` holds a loop to its baseline within a team's own tests.

    def test_agent(loop_gate):
        loop_gate("my.module:Loop", suite="events", profile="flaky-tools", tasks=40)

`pytest --loop-bless` writes the baseline beside the test, in `baselines/`; from then on the test fails where the loop got worse,
and says task by task how. Tests that use the fixture carry the marker `loop_gate`, whose keywords are defaults for its calls.

The fixture `agent_checks` runs an agent with one fault at a time, and demands what it does with them:

    def test_my_agent(agent_checks):
        agent_checks("my.module:solve", require={"unknown_tool": "told", "empty": "recovered"})

Every pytest that finds whichloop installed loads this module, so the gate itself is imported by the first test that uses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # seconds to import, for every pytest
    from whichloop.checks.program.in_tests import AgentChecks
    from whichloop.experiments.gate.in_tests import LoopGate

PROPERTIES = {"loop_gate": "loop gates", "agent_checks": "agent checks"}
"""What a test's report calls the line that the summary shows → the summary's title."""
STDERR = 2
ANNOTATION = "github_annotation"
"""What a test's report calls a workflow command of GitHub's."""
LEFT_UNKNOWN = "loop_gate_left_unknown"
"""What a test's report calls that which its gate leaves unknown."""
_STDERR = pytest.StashKey[int]()
"""File descriptor of the standard error that pytest began with, to which lines go at once while output is captured."""
_BLESSED = pytest.StashKey[set[Path]]()
"""Baselines that this session wrote."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("whichloop", "loops held to their baselines")
    group.addoption("--loop-bless", action="store_true", help="Write the baselines of loop_gate instead of judging by them.")
    group.addoption("--loop-runs", type=Path, metavar="DIR", help="Keep loop_gate's run directories there [default: pytest's own].")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BLESSED] = set()
    with suppress(OSError):  # a process may have closed its own
        config.stash[_STDERR] = os.dup(STDERR)
    config.addinivalue_line(
        "markers", "loop_gate(**settings): holds a loop to its baseline; keywords are defaults for the fixture's calls"
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    if _STDERR in config.stash:
        os.close(config.stash[_STDERR])
        del config.stash[_STDERR]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses the fixture has the marker, so that `-m loop_gate` finds them all."""
    for item in items:
        if "loop_gate" in getattr(item, "fixturenames", ()) and item.get_closest_marker("loop_gate") is None:
            item.add_marker(pytest.mark.loop_gate)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_unknown = [text for _, text in _lines_of(terminalreporter, LEFT_UNKNOWN)]
    left_unsaid = _loaded("whichloop.experiments.gate.ended_run").left_by_all(left_unknown) if left_unknown else None
    for name, title in PROPERTIES.items():
        lines = [f"{test}: {line}" for test, line in _lines_of(terminalreporter, name)]
        if left_unsaid is not None and name == "loop_gate":
            lines += left_unsaid.sentences
        if lines:
            terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)
    for _, line in _lines_of(terminalreporter, ANNOTATION):
        terminalreporter.write_line(line)  # at the start of a line, where GitHub looks for its commands
    if left_unsaid is not None:
        left_unsaid.show_on_github(terminalreporter.write_line)


def _lines_of(reporter: pytest.TerminalReporter, name: str) -> Iterator[tuple[str, str]]:
    """Yield each test with each line that its report holds under this name."""
    for reports in reporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                yield from ((report.nodeid, str(line)) for held_under, line in report.user_properties if held_under == name)


@pytest.fixture
def loop_gate(request: pytest.FixtureRequest, tmp_path: Path) -> LoopGate:
    """Call it with a loop; see `LoopGate`."""
    config, marker = request.config, request.node.get_closest_marker("loop_gate")
    if marker is not None and marker.args:
        raise pytest.UsageError(f"{request.node.nodeid}: the marker loop_gate takes keywords only, such as suite='events'")
    gate: LoopGate = _loaded("whichloop.experiments.gate.in_tests").LoopGate(
        item=request.node,
        default_baseline=request.path.parent / "baselines" / f"{_file_name(request.node)}.json",
        runs=config.getoption("--loop-runs") or tmp_path,
        blesses=config.getoption("--loop-bless"),
        blessed=config.stash[_BLESSED],
        defaults={} if marker is None else marker.kwargs,
        say=_sayer(request.node, "loop_gate"),
        annotate=lambda line: request.node.user_properties.append((ANNOTATION, line)),
        leave_open=lambda text: request.node.user_properties.append((LEFT_UNKNOWN, text)),
        tell=_teller(config),
    )
    return gate


def _sayer(node: pytest.Item, heading: str) -> Callable[[str], None]:
    """Return what adds a line, which may quote the user's own code, to the summary of the session, under a heading."""
    safe_for_others: Callable[[str], str] = _loaded("whichloop.text.output").safe_for_others
    return lambda line: node.user_properties.append((heading, safe_for_others(line)))


def _teller(config: pytest.Config) -> Callable[[str], None]:
    """Return what prints a line at once, on the standard error that pytest began with: while a test runs, its output is captured,
    and the terminal's with it; a worker of pytest-xdist has the standard error of its session."""
    opened = config.stash.get(_STDERR, None)

    def tell(line: str) -> None:
        if opened is not None:
            with suppress(OSError):  # nobody reads it any more
                os.write(opened, f"\n{line}\n".encode(errors="backslashreplace"))  # pytest's own line is not ended yet

    return tell


@pytest.fixture
def agent_checks(request: pytest.FixtureRequest) -> AgentChecks:
    """Call it with an agent; see `AgentChecks`."""
    checks: AgentChecks = _loaded("whichloop.checks.program.in_tests").AgentChecks(
        request.node, _sayer(request.node, "agent_checks")
    )
    return checks


def _loaded(module: str) -> Any:
    """Import a module when a test first needs it: it takes seconds."""
    return import_module(module)


def _file_name(node: pytest.Item) -> str:
    """`test_agents.test_mine` of test_agents.py::test_mine."""
    names = [node.path.stem, *node.nodeid.split("::")[1:]]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", ".".join(names)).strip("-.")
