"""The subject of a check, and its finding."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, overload

from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import Replayed
from whichloop.datasets.validity.checks import Problem
from whichloop.protocol import ToolSpec

from .reference_agents import BaselineResult

MAX_RUN = 1_000
"""Default number of tasks whose tools are called."""

MAX_CHARS = 400
"""Maximum length of a problem."""

Status = Literal["ok", "warning", "failed", "left out"]
Progress = Callable[[str, int, int], None]
"""A callback with the name of a check, the number of tasks done, and their total."""


def unwatched(check: str, done: int, total: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class SuiteFinding:
    """The finding of one check."""

    check: str
    says: str
    """The rule that it checks, in a sentence."""
    status: Status
    problems: tuple[str, ...] = ()
    """The first problems, or the reason why the check was left out."""
    count: int = 0
    """Number of all problems."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Subject:
    """A suite under check."""

    suite: Suite
    tasks: Sequence[Task]
    """The tasks that are not quarantined."""
    sample: Sequence[Task]
    """The tasks whose tools are checked and called."""
    drawn: bool = False
    """Whether `tasks` are a sample."""
    run_tools: bool = True
    """Whether tools may be called; they may act on the real world."""
    seed: int = 0
    progress: Progress = unwatched
    specs: dict[str, tuple[ToolSpec, ...]] = field(default_factory=dict)
    """Task → its tools, for opened environments."""
    truths: dict[str, tuple[Replayed, ...]] = field(default_factory=dict)
    """Task → its replayed plan, for the plans in the sample that replay."""
    baselines: list[BaselineResult] = field(default_factory=list)
    """The results of the baselines, in the order of running."""

    @cached_property
    def planned(self) -> list[Task]:
        """The tasks of the sample that have a plan."""
        return [task for task in self.sample if task.plan is not None]

    def with_plans(self) -> list[Task]:
        """Return the tasks of the sample with a plan. Raises LeftOut if there are none."""
        if not self.planned:
            raise LeftOut("no task has a plan")
        return self.planned

    def specs_of(self, task: Task) -> tuple[ToolSpec, ...]:
        """Return the tools of a task's environment."""
        if task.id not in self.specs:
            with closing(self.suite.open(task)) as environment:
                self.specs[task.id] = tuple(tool.spec for tool in environment.tools)
        return self.specs[task.id]

    def each(self, check: str, tasks: Sequence[Task]) -> Iterator[Task]:
        """Yield the tasks one by one, reporting progress."""
        for done, task in enumerate(tasks):
            self.progress(check, done, len(tasks))
            yield task


class LeftOut(Exception):
    """A check does not apply to this suite; the message says why."""


Find = Callable[[Subject], Iterable[Problem] | Awaitable[list[Problem]]]
"""A function that finds problems; it raises LeftOut and the exceptions of the suite's own code."""


@dataclass(frozen=True, slots=True)
class SuiteCheck:
    """A check of a suite."""

    name: str
    says: str
    find: Find
    calls_tools: bool = False


def sound(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return the tasks without quarantined ones; the sequence itself if there are none."""
    places = [place for place, task in enumerate(tasks) if not task.quarantined]
    return tasks if len(places) == len(tasks) else _Selection(tasks, places)


def sampled(tasks: Sequence[Task], most: int, seed: int) -> Sequence[Task]:
    """Return at most so many tasks, drawn evenly, in their order."""
    if len(tasks) <= most:
        return tasks
    draw, places = Draw("sample", seed), set[int]()
    while len(places) < most:
        places.add(draw.integer(0, len(tasks) - 1))
    selection = _Selection(tasks, sorted(places))
    return tuple(selection) if most <= MAX_RUN else selection


@dataclass(frozen=True)
class _Selection(Sequence[Task]):
    """A selection of tasks that is read lazily, so that the tasks of a large file need not fit into memory."""

    tasks: Sequence[Task]
    places: Sequence[int]

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Task: ...
    @overload
    def __getitem__(self, place: slice) -> _Selection: ...
    def __getitem__(self, place: int | slice) -> Task | _Selection:
        return _Selection(self.tasks, self.places[place]) if isinstance(place, slice) else self.tasks[self.places[place]]
