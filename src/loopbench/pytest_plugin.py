"""A pytest plugin: the fixture `loop_gate` holds a loop to its baseline within a team's own tests.

    def test_agent(loop_gate):
        loop_gate("my.module:Loop", suite="events", profile="flaky-tools", tasks=40)

`pytest --loop-bless` writes the baseline beside the test, in `baselines/`; from then on the test fails where the loop got worse,
and says task by task how. Tests that use the fixture carry the marker `loop_gate`, whose keywords are defaults for its calls.

Loaded by every pytest that finds loopbench installed: what takes time to import is imported by the first call.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pytest

if TYPE_CHECKING:
    from loopbench.experiments.compare.prepare import Experiment
    from loopbench.experiments.compare.results import Results
    from loopbench.experiments.gate import GateResult

OnUndecided = Literal["fail", "skip", "pass"]
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
    return LoopGate(
        request.node,
        request.path.parent / "baselines" / f"{_file_name(request.node)}.json",
        config.getoption("--loop-runs") or tmp_path,
        config.getoption("--loop-bless"),
        {} if marker is None else marker.kwargs,
    )


def _file_name(node: pytest.Item) -> str:
    """`test_agents.test_mine` of test_agents.py::test_mine."""
    names = [node.path.stem, *node.nodeid.split("::")[1:]]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", ".".join(names)).strip("-.")


@dataclass(frozen=True, slots=True)
class LoopGate:
    """Holds loops to a baseline, from within one test."""

    item: pytest.Item
    default_baseline: Path
    runs: Path
    blesses: bool
    """Write baselines instead of judging by them."""
    defaults: Mapping[str, Any]
    """The marker's keywords."""

    def __call__(self, loop: str | type, **settings: Any) -> GateResult | None:
        """Run `loop`, a name as `--loop` takes it or a class, and fail the test where it is worse than its baseline.

        `baseline`: a file, relative to the test's folder [baselines/MODULE.TEST.json]. `margin`: what accuracy may fall by [0.02].
        `metrics`: other metric → the share that it may grow by, such as {"tokens": 0.1}. `alpha`: level of the tests [0.05].
        `on_undecided`: fail [default], skip or pass. All other keywords are settings of a comparison: suite, profile, tasks,
        repeats, seed, model, cassette, … Gives what was found; None where a baseline was written. Bad settings, and a baseline of
        something else, fail the test with a line that names them.
        """
        try:
            return self._hold(loop, _Asked.of({**self.defaults, **settings}))
        except (ValueError, OSError) as error:
            mistake = str(error)
        pytest.fail(f"loop_gate: {mistake}", pytrace=False)  # out here, where no context prints it twice

    def _hold(self, loop: str | type, asked: _Asked) -> GateResult | None:
        from loopbench.experiments.gate import check_asked, judge, read_baseline
        from loopbench.experiments.gate.judge import refuse_other

        path = self.default_baseline if asked.baseline is None else self.item.path.parent / asked.baseline
        if self.blesses:
            self._check_free(path)
            self._bless(self._run(self._prepared(loop, asked.settings)), path)
            return None
        if not path.is_file():
            pytest.fail(f"no baseline {path}; write it with: pytest --loop-bless {self.item.nodeid}", pytrace=False)
        baseline = read_baseline(path)
        check_asked(baseline, asked.metrics, asked.alpha)
        experiment = self._prepared(loop, asked.settings)
        refuse_other(experiment.folder, experiment.manifest, baseline)  # before a run that may cost money
        judged = judge(self._run(experiment), baseline, metrics=asked.metrics, alpha=asked.alpha, path=path)
        self._end(judged, asked.on_undecided)
        return judged

    def _prepared(self, loop: str | type, settings: Mapping[str, Any]) -> Experiment:
        from loopbench.experiments.compare.prepare import prepare
        from loopbench.runs.config import config_from

        _check_no_loop_runs(self.item)
        named = loop if isinstance(loop, str) else f"{loop.__module__}:{loop.__qualname__}"
        data = {"loops": (named,), "runs": self.runs, "mlflow": False} | _plural(settings)
        return prepare(config_from(data, self.item.nodeid))

    def _run(self, experiment: Experiment) -> Results:
        from loopbench.experiments.compare.results import results
        from loopbench.experiments.compare.run import run
        from loopbench.runs.engine.runner import Unwatched

        stopped = run(experiment, Unwatched())
        if stopped:
            pytest.fail(f"the run was not finished: {stopped}", pytrace=False)
        return results(experiment.folder)

    def _check_free(self, path: Path) -> None:
        """One baseline for two calls would hold the first against what the second gave."""
        if path.resolve() in self.item.config.stash[_BLESSED]:
            raise ValueError(f"{path} was written by another call just now; give each call a file of its own: baseline=…")

    def _bless(self, found: Results, path: Path) -> None:
        from loopbench.experiments.gate import bless, write_baseline

        write_baseline(path, bless(found))
        self.item.config.stash[_BLESSED].add(path.resolve())
        self._say(f"blessed {len(found.records)} trials: {path}")

    def _end(self, judged: GateResult, on_undecided: OnUndecided) -> None:
        from loopbench.experiments.gate import headline, text

        self._say(headline(judged))
        if judged.outcome in ("identical", "pass") or (judged.outcome == "undecided" and on_undecided == "pass"):
            return
        if judged.outcome == "undecided" and on_undecided == "skip":
            pytest.skip(headline(judged))
        pytest.fail(text(judged), pytrace=False)

    def _say(self, line: str) -> None:
        self.item.user_properties.append((PROPERTY, line))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call's keywords, sorted."""

    settings: Mapping[str, Any]
    metrics: Mapping[str, float]
    alpha: float
    baseline: str | Path | None
    on_undecided: OnUndecided

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> _Asked:
        from loopbench.experiments.gate import DEFAULT_METRICS
        from loopbench.metrics.statistics import ALPHA
        from loopbench.metrics.summary import PRIMARY

        settings = dict(given)
        margin = settings.pop("margin", DEFAULT_METRICS[PRIMARY])
        metrics = settings.pop("metrics", {})
        on_undecided = settings.pop("on_undecided", "fail")
        alpha = settings.pop("alpha", ALPHA)
        if not isinstance(metrics, Mapping):
            raise ValueError(f"metrics maps metric to margin, such as {{'tokens': 0.1}}, got {metrics!r}")
        if on_undecided not in get_args(OnUndecided):
            raise ValueError(f"on_undecided is {', '.join(get_args(OnUndecided))}, got {on_undecided!r}")
        for name, value in {"margin": margin, "alpha": alpha, **metrics}.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} is a number, got {value!r}")
        return cls(
            metrics={PRIMARY: margin, **metrics},
            alpha=alpha,
            baseline=settings.pop("baseline", None),
            on_undecided=on_undecided,
            settings=settings,
        )


_PLURALS = {"profile": "profiles", "model": "models"}


def _plural(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`profile="clean"` as `profiles=("clean",)`, which a comparison knows."""
    made = dict(settings)
    for one, many in _PLURALS.items():
        if one in made:
            if many in made:
                raise ValueError(f"{one} and {many} are both given")
            made[many] = (made.pop(one),)
    return made


def _check_no_loop_runs(item: pytest.Item) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise pytest.UsageError(f"{item.nodeid}: loop_gate runs an event loop of its own; call it from a test that is not async")
