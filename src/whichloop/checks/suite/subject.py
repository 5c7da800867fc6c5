"""The subject of a check, and its finding."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, overload

from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Suite, Task, is_by_construction, states_its_answer
from whichloop.datasets.validity import Replayed
from whichloop.datasets.validity.checks import (
    Problem,
    argument_problems,
    constructed,
    copy_problems,
    goal_problems,
    likeness_problems,
    plan_problems,
    schema_problems,
    set_aside,
    some,
    split_problems,
    tool_problems,
    unanswerable_problems,
)
from whichloop.metrics.scorers import scorer_named
from whichloop.models.faults import NOT_DETERMINED
from whichloop.protocol import ToolSpec, render_value
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.values import counted, error_text
from whichloop.runs.lookup import answer_score, compares

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


def _plain_json(subject: Subject) -> Iterator[Problem]:
    for task in subject.tasks:
        try:
            canonical_json(task.as_dict())
        except (TypeError, ValueError, RecursionError) as error:
            yield Problem(f"task {task.id!r} is not JSON: {error}")


def _plans(subject: Subject) -> Iterator[Problem]:
    return (problem for task in subject.tasks for problem in plan_problems(task))


def _goals(subject: Subject) -> Iterator[Problem]:
    return (problem for task in subject.tasks for problem in goal_problems(task))


def _answers(subject: Subject) -> Iterator[Problem]:
    for task in subject.tasks:
        if ":" in task.scorer:  # a user's own scorer, which may call a model
            continue
        right = NOT_DETERMINED if task.expected is None else task.expected
        try:
            scorer_named(task.scorer)
            if not compares(task):
                continue
            score, nothing = answer_score(task, right), max(answer_score(task, ""), answer_score(task, None))
        except Exception as error:  # an unknown scorer or an invalid schema
            yield Problem(f"task {task.id!r}, scorer {task.scorer}: {type(error).__name__}: {error_text(error)}")
            continue
        if score < 1:
            yield Problem(f"task {task.id!r}: {right!r} is expected, and gets {score:g} from scorer {task.scorer}")
        if nothing > 0:
            yield Problem(f"task {task.id!r}: an empty answer counts as right")


def _splits(subject: Subject) -> Iterable[Problem]:
    if not any(task.labels.get("split") for task in subject.tasks):
        raise LeftOut("no task says which split it is in")
    return split_problems(subject.tasks)


def _arguments(subject: Subject) -> Iterator[Problem]:
    for task in subject.each("arguments", subject.with_plans()):
        yield from argument_problems(task, subject.specs_of(task))


def _tools(subject: Subject) -> Iterator[Problem]:
    """Compare the plans of all tasks with the tools of those in the sample."""
    every = subject.suite.tasks
    if not any(task.plan for task in every):
        raise LeftOut("no task has a plan")
    available = {spec.name for task in subject.each("tools", subject.sample) for spec in subject.specs_of(task)}
    # A sample may lack a distractor that other tasks have.
    distractors = subject.suite.distractors if len(subject.sample) == len(every) else subject.suite.distractors & available
    yield from tool_problems(every, available, distractors)


def _constructed(subject: Subject) -> Iterable[Problem]:
    """Tell of tasks that say so themselves, and of those whose plan states an answer that none of its calls gives."""
    stated = [task for task in subject.tasks if states_its_answer(task) and compares(task) and not is_by_construction(task)]
    problems = list(constructed(subject.suite.tasks))
    if stated and not problems and not subject.truths:
        states = counted(len(stated), "plan states its answer", "plans state their answers")
        raise LeftOut(f"{states}; only --run-tools shows whether a call gives it")
    not_given = [task.id for task in stated if task.id in subject.truths and not is_given(task, subject.truths[task.id])]
    if not_given:
        problems.append(
            Problem(f"{len(not_given)} × the plan states an answer that none of its calls gives ({some(not_given)})", False)
        )
    return problems


def is_given(task: Task, calls: Iterable[Replayed]) -> bool:
    """Return whether the result of a call, or a part of it, is the right answer."""
    parts = (part for call in calls if not call.failed for part in _parts(call.value))
    return any(answer_score(task, part if task.query.schema else render_value(part)) >= 1 for part in parts)


def _parts(value: object) -> Iterator[Any]:
    yield value
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for item in inside:
        yield from _parts(item)


JSON = SuiteCheck("json", "tasks are plain JSON", _plain_json)
SCHEMAS = SuiteCheck("schemas", "answer schemas are valid and accept the expected answer", lambda s: schema_problems(s.tasks))
FILES: tuple[SuiteCheck, ...] = (
    SuiteCheck("plans", "a task has a plan that makes calls, or says why it has none", _plans),
    SuiteCheck("goals", "the goal of a call is not part of the question or of another goal", _goals),
    SCHEMAS,
    SuiteCheck("answers", "the task's scorer accepts the expected answer, and rejects an empty one", _answers),
    SuiteCheck("unanswerable", "at most one task in ten has no answer", lambda s: unanswerable_problems(s.tasks)),
    SuiteCheck("splits", "no instance and no question is in two splits", _splits),
    SuiteCheck("copies", "no two tasks ask the same question about the same data", lambda s: copy_problems(s.tasks)),
    SuiteCheck(
        "near copies",
        "no task is solved by the answer of a near copy (numbers masked), least of all from another split",
        lambda s: likeness_problems(s.tasks),
    ),
)
OPENED: tuple[SuiteCheck, ...] = (
    SuiteCheck("arguments", "planned arguments match the tools' schemas", _arguments),
    SuiteCheck("tools", "each tool is used by a plan, or declared a distractor", _tools),
)
CONSTRUCTED = SuiteCheck(
    "by construction",
    "a call of the plan yields the answer, so that a scripted model cannot be right without it",
    _constructed,
)
SET_ASIDE = SuiteCheck(
    "set aside", "every task has a plan, and none is quarantined", lambda subject: set_aside(subject.suite.tasks)
)
