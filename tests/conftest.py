"""What tests share: made-up records, small suites, a way to run one trial. Hypothesis draws the same cases each time, untimed."""

from __future__ import annotations

import ast
import asyncio.unix_events
import functools
import gc
import logging
import os
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest import logging as pytest_logging
from _pytest.logging import catching_logs
from hypothesis import HealthCheck, settings
from hypothesis.internal import entropy
from hypothesis.internal.conjecture import providers

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in its background, whose children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as nohup starts a command
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: threads that wait for tiny matrices burn a core each

from tests.cases import EXPLORED, QUICK, USUAL
from tests.forking import run_in_forks
from tests.over_http import OverHttp, Switchboard, open_switchboard
from tests.prepared import start_for_asyncio
from tests.rows import chosen, rows_of
from whichloop.datasets import arithmetic
from whichloop.datasets.task import StatelessEnvironment, Suite, Task
from whichloop.metrics.record import Record
from whichloop.models.profiles import load_profile
from whichloop.models.scripted import Script, Scripted
from whichloop.models.tunnel import Tunnel
from whichloop.protocol import HARNESS_STOPS, Loop, Plan, PlannedCall, Query, Ref, Tool
from whichloop.protocol.names import Spec
from whichloop.runs import trial_models
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import FinishedTrial, TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

gc.disable()  # until all tests are collected: to rewrite and import them makes millions of objects that stay


def pytest_addoption(parser: pytest.Parser) -> None:
    says = "run only tests marked with this row of docs/conformance.md, such as S4-11, or with a row of this design, such as S4"
    length = "how long to fuzz the readers of files, all kinds together (slow tests; default 60); `make fuzz` takes an hour"
    parser.addoption("--fuzz-seconds", type=float, default=60.0, metavar="S", help=length)
    forks = "run tests in so many processes that are forks of this one, or auto: one more than there are processors"
    parser.addoption("--forks", default="0", metavar="N", help=forks)
    parser.addoption("--row", action="append", default=[], metavar="ID", help=says)


def pytest_configure(config: pytest.Config) -> None:
    """Keep what commands keep for later ones out of the home of whoever runs the tests."""
    os.environ.setdefault("WHICHLOOP_HOME", str(config.rootpath / ".pytest_cache" / "whichloop-home"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return for `-n auto` one more than there are processors: some tests wait for processes, or for the end of a time limit."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forks if `--forks` asks for any: pytest does otherwise."""
    asked = session.config.getoption("--forks")
    count = pytest_xdist_auto_num_workers() if asked == "auto" else int(asked)
    return run_in_forks(session, count) if count else None


@pytest.hookimpl(tryfirst=True)  # before pytest reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that start a process of the command, or cost much, as thorough; leave out what `--row` did not ask for.

    Raises UsageError for a row that no test holds, which is a slip of the hand.
    """
    costly = frozenset(Path(__file__).with_name("costly.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if "machine" in getattr(item, "fixturenames", ()) or item.nodeid.partition("[")[0] in costly:
            item.add_marker(pytest.mark.thorough)
    wanted: list[str] = config.getoption("--row")
    if not wanted:
        return
    held = [item for item in items if any(chosen(row_id, wanted) for row_id in rows_of(item))]
    unknown = [one for one in wanted if not any(chosen(row_id, [one]) for item in held for row_id in rows_of(item))]
    if unknown:
        raise pytest.UsageError(f"--row {unknown[0]}: no test is marked with it")
    config.hook.pytest_deselected(items=[item for item in items if item not in held])
    items[:] = held


def pytest_collection_finish() -> None:
    """Spare the garbage collector what is there before the first test: it would look through millions of objects again."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # allocations between two looks: a test ends long before its garbage fills the memory


def _stay_in_memory(fd: Any) -> None:
    """Write nothing through to the disk: tests end processes, which lose nothing that they have written, and never the machine."""


os.fsync = _stay_in_memory
vars(ssl)["create_default_context"] = functools.cache(ssl.create_default_context)
"""A client asks for one, which reads the certificates of all authorities anew: that takes longer than most tests."""


_parse = ast.parse


def _parse_undisturbed(*args: Any, **options: Any) -> Any:
    """Parse once more, without the garbage collector, where Python 3.11 confuses two threads that parse (CPython issue 106905).

    It counts the depth of all their syntax trees by one number, and raises SystemError if another thread parses while the
    collector, at whose start Hypothesis runs code, interrupts this one. Hypothesis parses the lambdas that it describes.
    """
    try:
        return _parse(*args, **options)
    except SystemError:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return _parse(*args, **options)
        finally:
            if was_enabled:
                gc.enable()


vars(ast)["parse"] = _parse_undisturbed


class _CatchingAtRoot(catching_logs[Any]):
    """Catches what tests log at the root alone: to look at a thousand loggers, six times a test, takes longer than many a test."""

    __slots__ = ()

    def __enter__(self) -> Any:
        if self.level is not None:  # by --log-level
            return super().__enter__()
        logging.getLogger().addHandler(self.handler)
        self.attached_loggers.append(logging.getLogger())
        return self.handler


vars(pytest_logging)["catching_logs"] = _CatchingAtRoot
asyncio.unix_events.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": start_for_asyncio})  # type: ignore[attr-defined]

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault of a test
settings.register_profile("repeatable", UNTIMED, max_examples=USUAL, derandomize=True)
settings.register_profile("quick", UNTIMED, max_examples=QUICK, derandomize=True)
settings.register_profile("explore", UNTIMED, max_examples=EXPLORED)
settings.load_profile("repeatable")

_NO_CONSTANTS, _constants_of_modules = providers._local_constants, providers._get_local_constants


def _constants_to_draw() -> Any:
    """Draw no constants from the modules that are imported by now, where each run is to draw the same cases.

    Which modules these are depends on the tests before, and to look all of them up takes each process seconds.
    """
    return _NO_CONSTANTS if settings.default.derandomize else _constants_of_modules()  # type: ignore[union-attr]  # a profile is loaded


vars(providers)["_get_local_constants"] = _constants_to_draw
vars(entropy)["NP_RANDOM"] = entropy.NumpyRandomWrapper()
"""Hypothesis seeds and restores numpy's own generator around each case unless it has one already. No test draws from it."""


def make_record(**changes: Any) -> Record:
    values: dict[str, Any] = {
        "arm": "a",
        "suite": "s",
        "suite_digest": "d",
        "task": "t1",
        "repeat": 0,
        "seed": 0,
        "status": "scored",
        "stop": "finished",
        "scores": {"accuracy": 1.0},
        "steps": 2,
        "calls": {"decide": 2},
        "started_at": 100.0,
    }
    return Record(**(values | changes))


@pytest.fixture(scope="session")
def record() -> Callable[..., Record]:
    """Makes a record; keywords replace fields."""
    return make_record


def make_manifest(**parts: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "created": "2026-01-01T00:00:00+00:00",
        "config": {"suite": "s", "models": ["scripted"], "repeats": 1, "alpha": 0.05, "margin": 0.02},
        "seed": 0,
        "versions": {"record": 1, "policy_and_profiles": 1},
        "suite": {"name": "s", "version": "1", "digest": "d", "tasks": 1, "max_tool_steps": 5},
        "profiles": {"clean": "p"},
        "arms": [],
        "packages": {},
        "python": "3.11",
        "platform": "Linux",
    }
    return whole | parts | {"config": whole["config"] | parts.get("config", {}), "suite": whole["suite"] | parts.get("suite", {})}


@pytest.fixture(scope="session")
def manifest_json() -> Callable[..., dict[str, Any]]:
    """Makes a manifest as it is written; keywords replace parts of it, and fields of its configuration and its suite."""
    return make_manifest


def double(n: int) -> int:
    """Twice n."""
    return 2 * n


def make_suite(tools: tuple[Tool, ...] = (), **changes: Any) -> Suite:
    plan = Plan((PlannedCall("c1", "double", {"n": 21}, "Find twice 21."),), Ref("c1"))
    task = replace(Task("t1", Query("Twice 21?"), 42, "numeric", plan), **changes)
    environment = StatelessEnvironment(tools or (Tool.from_function(double, blocking=False),))
    return Suite("tiny", "1", (task,), lambda _: environment)


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Suite]:
    """Makes a suite of one task: twice 21 is 42. Keywords replace the task's fields."""
    return make_suite


@pytest.fixture(scope="session")
def arithmetic_suite() -> Suite:
    return arithmetic.load()


class Written:
    """A loop whose `run` is a function `run(query, tools, model, observer)`."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run

    name = "written"
    stops = HARNESS_STOPS

    def with_step_limit(self, tool_steps: int) -> Written:
        return self


@pytest.fixture(scope="session")
def written() -> Callable[[Callable[..., Any]], Loop]:
    """Makes a loop of a function `run(query, tools, model, observer)`."""
    return Written


def run_one(
    loop: Loop, suite: Suite, *, profile: str = "clean", models: Mapping[str, Any] | None = None, attempt: int = 0, **setting: Any
) -> FinishedTrial:
    """One trial of a suite's first task; with `models`, on the first of them in place of the scripted one."""
    model = next(iter(models)) if models else "scripted"
    arm = Arm("arm", Spec("loop", {}), loop, model, load_profile(profile))
    trial = Trial(arm, suite.tasks[0], 0, 0, attempt)
    return asyncio.run(run_trial(trial, TrialContext(suite, TrialModels(models or {}), **setting)))


@pytest.fixture(scope="session")
def one_trial() -> Callable[..., FinishedTrial]:
    return run_one


@pytest.fixture
def over_http() -> Callable[..., AbstractContextManager[None]]:
    """Within its block all runs of this process ask the scripted model through a server on loopback, as a real one is asked."""
    return _over_http


@contextmanager
def _over_http(wire: str = "chat") -> Iterator[None]:
    boards: dict[asyncio.AbstractEventLoop, tuple[Switchboard, ExitStack]] = {}
    opened = TrialModels.opened

    @asynccontextmanager
    async def opened_with_server(models: TrialModels) -> AsyncIterator[TrialModels]:
        async with open_switchboard(wire) as board, opened(models) as ready:
            with ExitStack() as trials:
                boards[asyncio.get_running_loop()] = board, trials
                yield ready

    def put_through(script: Script, tunnel: Tunnel) -> OverHttp:
        board, trials = boards[asyncio.get_running_loop()]
        return trials.enter_context(board.put_through(Scripted(script, tunnel)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrialModels, "opened", opened_with_server)
        patch.setattr(trial_models, "Scripted", put_through)
        yield
