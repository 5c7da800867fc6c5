"""What is checked, and what comes of a check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, overload

from loopbench.datasets.generating import Draw
from loopbench.datasets.task import Suite, Task
from loopbench.datasets.validity import Replayed
from loopbench.datasets.validity.checks import Problem
from loopbench.protocol import ToolSpec

from .reference_agents import Passed

MAX_RUN = 1_000
"""Tasks whose tools are called, where nothing else is said."""

MAX_CHARS = 400
"""Of one problem."""

Status = Literal["ok", "warning", "failed", "left out"]
Progress = Callable[[str, int, int], None]
"""Told of a check's name, how many tasks are done, and of how many."""


def unwatched(check: str, done: int, total: int) -> None:
    """For who needs no progress."""


@dataclass(frozen=True, slots=True)
class SuiteFinding:
    """What one check found."""

    check: str
    says: str
    """What it checks, in a sentence."""
    status: Status
    problems: tuple[str, ...] = ()
    """The first of them; why the check was left out, where it was."""
    count: int = 0
    """Of all problems."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Subject:
    """A suite under check."""

    suite: Suite
    tasks: Sequence[Task]
    """Those that are not quarantined."""
    sample: Sequence[Task]
    """Those of them whose tools are looked at and called."""
    drawn: bool = False
    """`tasks` are a sample of more."""
    run_tools: bool = True
    """False: the tools may act on the real world; none is called."""
    seed: int = 0
    progress: Progress = unwatched
    specs: dict[str, tuple[ToolSpec, ...]] = field(default_factory=dict)
    """Task → its tools, of those that were opened."""
    truths: dict[str, tuple[Replayed, ...]] = field(default_factory=dict)
    """Task → its plan, replayed; of those plans in the sample that can be."""
    baselines: list[Passed] = field(default_factory=list)
    """In the order in which they ran."""

    @cached_property
    def planned(self) -> list[Task]:
        """Of the sample."""
        return [task for task in self.sample if task.plan is not None]

    def with_plans(self) -> list[Task]:
        """Of the sample. Raises LeftOut where there is none."""
        if not self.planned:
            raise LeftOut("no task has a plan")
        return self.planned

    def specs_of(self, task: Task) -> tuple[ToolSpec, ...]:
        """The tools that its environment has."""
        if task.id not in self.specs:
            with closing(self.suite.open(task)) as environment:
                self.specs[task.id] = tuple(tool.spec for tool in environment.tools)
        return self.specs[task.id]

    def each(self, check: str, tasks: Sequence[Task]) -> Iterator[Task]:
        """The tasks, one by one, with progress."""
        for done, task in enumerate(tasks):
            self.progress(check, done, len(tasks))
            yield task


class LeftOut(Exception):
    """A check that says nothing about this suite; the message says why."""


Find = Callable[[Subject], Iterable[Problem] | Awaitable[list[Problem]]]
"""Raises LeftOut, and whatever the suite's own code raises."""


@dataclass(frozen=True, slots=True)
class SuiteCheck:
    """One check."""

    name: str
    says: str
    find: Find
    calls_tools: bool = False


def sound(tasks: Sequence[Task]) -> Sequence[Task]:
    """All but quarantined ones; the sequence itself where there are none."""
    places = [place for place, task in enumerate(tasks) if not task.quarantined]
    return tasks if len(places) == len(tasks) else _Chosen(tasks, places)


def sampled(tasks: Sequence[Task], most: int, seed: int) -> Sequence[Task]:
    """At most so many tasks, drawn evenly, in their order."""
    if len(tasks) <= most:
        return tasks
    draw, places = Draw("sample", seed), set[int]()
    while len(places) < most:
        places.add(draw.integer(0, len(tasks) - 1))
    chosen = _Chosen(tasks, sorted(places))
    return tuple(chosen) if most <= MAX_RUN else chosen


@dataclass(frozen=True)
class _Chosen(Sequence[Task]):
    """Some of many tasks, read when they are asked for: those of a large file need not fit into memory."""

    tasks: Sequence[Task]
    places: Sequence[int]

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> Task: ...
    @overload
    def __getitem__(self, place: slice) -> _Chosen: ...
    def __getitem__(self, place: int | slice) -> Task | _Chosen:
        return _Chosen(self.tasks, self.places[place]) if isinstance(place, slice) else self.tasks[self.places[place]]
