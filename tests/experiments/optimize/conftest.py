"""What tests of an optimization share: a small suite, a runner of rollouts over it, and a watcher that remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.benchmarks import load_benchmark
from tests.experiments.optimize.written import Write, Written, manifest, opened, write_design, write_test
from whichloop.datasets.task import Suite
from whichloop.experiments.optimize.candidates import Candidate, SearchCost, SearchEnd, Watcher
from whichloop.experiments.optimize.config import AGAIN
from whichloop.experiments.optimize.rollouts import Background, Rollouts
from whichloop.metrics.record import Record
from whichloop.models.metering import Budget, Meter
from whichloop.models.profiles import load_profile
from whichloop.protocol.names import parse_spec
from whichloop.runs.folders import TEST
from whichloop.runs.registry import make_loop, make_suite
from whichloop.runs.schedule import Arm
from whichloop.runs.store.files import write_manifest_json
from whichloop.runs.trial.trial import TrialContext


@dataclass
class Remembers(Watcher):
    """A watcher that keeps what it is told."""

    told: list[tuple[str, Any]] = field(default_factory=list)
    spent: list[SearchCost] = field(default_factory=list)

    def rolled_out(self, design: str, candidate: Candidate, record: Record, search: SearchCost) -> None:
        self.told.append(("rolled_out", (candidate.number, record.task, record.repeat)))
        self.spent.append(search)

    def ended(self, design: str, end: SearchEnd) -> None:
        self.told.append(("ended", (end.status, end.chosen)))

    def rollouts(self) -> list[tuple[int, str, int]]:
        return [what for kind, what in self.told if kind == "rolled_out"]


@pytest.fixture
def watcher() -> Remembers:
    return Remembers()


@pytest.fixture(scope="session")
def small_suite() -> Suite:
    return make_suite(parse_spec("arithmetic(size=40)"))


@pytest.fixture
def rollouts_of(small_suite: Suite, tmp_path: Path) -> Iterator[Callable[..., Rollouts]]:
    """Makes the runner of one design over the first tasks of a small suite; called twice, it goes on with the same log."""
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        made: dict[Path, Rollouts] = {}

        def make(
            loop: str = "bare", profile: str = "clean", tasks: int = 4, watcher: Remembers | None = None, **budget: Any
        ) -> Rollouts:
            soft = budget.pop("is_soft", False)
            spec = parse_spec(loop)
            arm = Arm(f"{spec}/{profile}", spec, make_loop(spec, small_suite.max_tool_steps), "scripted", load_profile(profile))
            found = {task.id: ("train" if place % 2 else "dev", task) for place, task in enumerate(small_suite.tasks[:tasks])}
            setting = TrialContext(small_suite, meter=Meter(Budget(**budget)))
            log = tmp_path / f"{loop}.jsonl"
            if log in made:
                made[log].close()
            rollouts = Rollouts(arm, found, setting, background, log, watcher or Remembers(), 0, soft)
            made[log] = stack.enter_context(closing(rollouts))
            return rollouts

        yield make


@pytest.fixture(scope="session")
def optimizers_benchmark() -> ModuleType:
    """benchmarks/optimizers.py, whose tables stand in the docs."""
    return load_benchmark("optimizers")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the run directory of an optimization of these designs."""

    def made(*designs: Written, **changes: Any) -> Path:
        folder = tmp_path / "run"
        folder.mkdir()
        write_manifest_json(folder, manifest(designs))
        for place, item in enumerate(designs, 1):
            write_design(folder / f"designs/{place}-{item.design}", item)
        opened(folder, designs)
        write_test(folder / TEST, designs, **changes)
        write_test(folder / AGAIN, designs, **changes)
        return folder

    return made
