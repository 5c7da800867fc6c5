"""Tasks, the suites they come in, and the environments they are solved in; tasks that are known to be bad leave the denominator.

A tool of a world is a function whose first argument is the world; a loop sees the others. Building a tool's schema takes a
millisecond, binding it to a new world a few microseconds.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from whichloop.protocol import Model, Plan, Query, Tool, plan_from_json, plan_to_json
from whichloop.protocol.json_text import digest
from whichloop.protocol.names import near
from whichloop.protocol.own_code import own_words
from whichloop.protocol.plan import refs
from whichloop.protocol.values import counted, shown_short

TemplateRole = Literal["strata", "clusters"]
"""What the label `template` means for verdicts. `strata`: the templates are the ones asked about, each task is a unit. `clusters`:
they are a sample of others like them, and the tasks of one template are one unit."""
DEFAULT_PLAN_CALLS = 10
"""Taken for the longest plan if no task has one."""
BY_CONSTRUCTION = "by_construction"
"""The label of a task whose plan holds its answer without a call that yields it: the scripted model, which gives the plan's answer,
is right there by construction. Its value says why."""
SPARE_TOOL_STEPS = 5
"""Added to twice the longest plan: the limit of a loop that has none of its own. It leaves room to make each call once more."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question, what it takes to solve it, and how an answer is judged. A loop sees `query` and nothing else.

    Raises ValueError that names task and field for a value of another type.
    """

    id: str
    """Unique within the suite, stable across versions of it."""
    query: Query
    expected: Any
    """The right answer; None if the right answer is that there is none."""
    scorer: str = "exact"
    """A scorer's name with options, `numeric(tolerance=0.01)`; see `whichloop.metrics.scorers`."""
    plan: Plan | None = None
    no_plan: str = ""
    """Why there is no plan; such a task runs on a real model and is excluded under the scripted one."""
    quarantined: str = ""
    """Why the task must not be run at all; empty if it may be run."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Difficulty, split, template: whatever tables may be grouped by. `cluster` names the template tasks share; tasks of one
    `instance` (of the same facts) always stand in the same split."""
    world: Mapping[str, Any] = field(default_factory=dict)
    """What `Suite.open` builds the task's environment from, as JSON."""
    end_state: Any = None
    """What the environment's `state()` must be in the end, as JSON; None: the answer alone is judged."""

    def __post_init__(self) -> None:
        if problem := _mistyped(self, _TASK_FIELDS):
            raise ValueError(f"task {shown_short(self.id)}: {problem}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON, of which the suite's digest is made. An empty `world` and no `end_state` are left out."""
        query, plan = self.query, None if self.plan is None else plan_to_json(self.plan)
        asked = {"text": query.text, "context": query.context, "schema": query.schema}
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        data |= {"query": asked, "plan": plan, "labels": dict(self.labels), "world": dict(self.world)}
        left_out: dict[str, Any] = {"world": {}, "end_state": None}
        return {name: value for name, value in data.items() if name not in left_out or value != left_out[name]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Task:
        """Read what `as_dict` returned. Raises KeyError, TypeError or ValueError for anything else."""
        plan = data["plan"]
        changed = {"query": Query(**data["query"]), "plan": None if plan is None else plan_from_json(plan)}
        return cls(**{**data, **changed})


_TASK_FIELDS: Mapping[str, tuple[Any, str]] = {
    "id": (str, "a text"),
    "query": (Query, "Query(text)"),
    "plan": (Plan | None, "plan_from_lines(text)"),
    "scorer": (str, 'the name of a scorer, such as "numeric" or "package.module:function"'),
    "no_plan": (str, "a text"),
    "quarantined": (str, "a text"),
    "labels": (Mapping, "a dict"),
    "world": (Mapping, "a dict"),
}
"""Field of a task → its type, and what to give."""


def _mistyped(owner: object, wanted_fields: Mapping[str, tuple[Any, str]]) -> str:
    """Return which field has a value of another type, and what to give; empty if none has. `wanted_fields`: as `_TASK_FIELDS`."""
    for name, (wanted, cure) in wanted_fields.items():
        value = getattr(owner, name)
        if not isinstance(value, wanted) or isinstance(value, bool):
            return f"{name}: {given_instead(cure, value)}"
    return ""


def given_instead(cure: str, value: object) -> str:
    """Return what to give, and what was given; a text, which may be long, is only called one."""
    return f"give {cure}, {'not a text' if isinstance(value, str) else f'got {shown_short(value)}'}"


def is_by_construction(task: Task) -> bool:
    """Return whether the scripted model is right by construction on a task that is run: see BY_CONSTRUCTION."""
    return task.plan is not None and not task.quarantined and bool(task.labels.get(BY_CONSTRUCTION))


def states_its_answer(task: Task) -> bool:
    """Return whether the plan of a task that is run gives its answer as it is, without a reference to what a call gives."""
    plan = task.plan
    return plan is not None and not task.quarantined and bool(plan.calls) and plan.answer is not None and not any(refs(plan.answer))


def restates(task: Task) -> bool:
    """Return whether a plan states an answer that is written in another way than the expected one, so that the two may differ."""
    return states_its_answer(task) and task.plan is not None and task.plan.answer != task.expected


@runtime_checkable
class Environment(Protocol):
    """The world of one trial: tools over state that no other trial sees."""

    @property
    def tools(self) -> Sequence[Tool]: ...

    def state(self) -> Any:
        """Return the end state as JSON, for scorers that judge it; None if there is no state."""

    def close(self) -> None:
        """Give back what the environment holds."""


@runtime_checkable
class HasUser(Protocol):
    """An environment with a user whom a model can play."""

    def played_by(self, model: Model) -> Environment:
        """Return the environment with its user played by a model, in place of the script."""


@dataclass(frozen=True, slots=True, init=False)
class StatelessEnvironment:
    """Tools without any state behind them."""

    tools: tuple[Tool, ...]

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]]) -> None:
        """`tools`: tools, or functions, which become tools. Raises TypeError for anything else, or an argument without a type."""
        if not isinstance(tools, Iterable):
            raise TypeError(f"StatelessEnvironment: tools: give a list of functions or tools, got a {type(tools).__name__}")
        own_tools = tuple(tool if isinstance(tool, Tool) else Tool.from_function(tool) for tool in tools)
        object.__setattr__(self, "tools", own_tools)

    def state(self) -> Any:
        return None

    def close(self) -> None:
        return None


def described_tools(environment: Environment) -> list[list[Any]]:
    """Return what a loop is told of an environment's tools, and close the environment.

    Raises ValueError for what is no environment of tools.
    """
    if not isinstance(environment, Environment):
        raise ValueError(f"Suite: open gave a {type(environment).__name__}, which is no environment; {_OPENS}")
    try:
        if other := [tool for tool in environment.tools if not isinstance(tool, Tool)]:
            raise ValueError(f"Suite: open gave an environment whose tools hold a {type(other[0]).__name__}; {_MAKES}")
        return as_described(environment.tools)
    finally:
        environment.close()


def as_described(tools: Iterable[Tool]) -> list[list[Any]]:
    """Return what a loop is told of each of these tools: name, description and the JSON schema of its arguments."""
    return [[tool.name, tool.description, tool.parameters] for tool in tools]


_OPENS = "it has to give one for each task, such as lambda task: StatelessEnvironment([price, add])"
_MAKES = "Tool.from_function(f) makes a tool of a function"


_SUITE_FIELDS: Mapping[str, tuple[Any, str]] = {
    "name": (str, "a text"),
    "version": (str, 'a text, such as "1"'),
    "tasks": (Sized, "a list of tasks"),
    "step_limit": (int | None, "a whole number"),
    "shared": (str, "a text"),
    "distractors": (Set, "a frozenset of tools' names"),
    "templates": (str, '"strata" or "clusters"'),
}
"""Field of a suite → its type, and what to give."""


@dataclass(frozen=True)
class Suite:
    """A named, versioned list of tasks.

    Raises ValueError for a repeated task id, an empty list, what is no task, a field of another type, or no function as `open`.
    """

    name: str
    version: str
    tasks: Sequence[Task]
    open: Callable[[Task], Environment]
    """Opens a task's environment in its initial state."""
    step_limit: int | None = None
    """Longest run in tool steps; None: twice the longest plan and five more."""
    shared: str = ""
    """Digest of the data that all tasks' environments share, such as a collection of documents; empty if there is none."""
    distractors: frozenset[str] = frozenset()
    """Tools that no plan needs: they are there to tempt."""
    templates: TemplateRole = "strata"

    def __post_init__(self) -> None:
        if not callable(self.open):
            raise ValueError(f"Suite: open is a {type(self.open).__name__}, not a function of a task; {_OPENS}")
        if problem := _mistyped(self, _SUITE_FIELDS):
            raise ValueError(f"Suite: {problem}")
        if not len(self.tasks):
            raise ValueError(f"suite {self.name!r} holds no task")
        seen: set[str] = set()
        for place, task in enumerate(self.tasks, 1):
            if not isinstance(task, Task):
                raise ValueError(
                    f"suite {self.name!r}: task {place} of the list is {shown_short(task)}; give Task(id, query, expected)"
                )
            if task.id in seen:
                raise ValueError(f"suite {self.name!r}: task id {task.id!r} is a duplicate")
            if task.query.images:
                raise ValueError(f"suite {self.name!r}: task {task.id!r} has images, which a comparison does not show")
            seen.add(task.id)

    def __repr__(self) -> str:
        """Return a line that names the suite and counts its tasks."""
        return f"<Suite {self.name}, version {self.version}: {counted(len(self.tasks), 'task')}>"

    def opened(self, task: Task) -> Environment:
        """Open a task before a run begins.

        Raises ValueError, which names suite, task and place, for what the user's code raises. OSErrors and our ValueErrors pass.
        """
        try:
            return self.open(task)
        except Exception as error:
            if not (words := own_words(error)):
                raise
            raise ValueError(f"suite {self.name!r}: task {task.id!r} cannot be opened: {words}") from error

    def cluster_of(self, task: Task) -> str:
        """Name a task's unit of inference: its label `cluster`, else its template where templates are clusters."""
        labels = task.labels
        return str(labels.get("cluster") or (labels.get("template", "") if self.templates == "clusters" else ""))

    @cached_property
    def max_tool_steps(self) -> int:
        """The limit of tool steps of a loop that has none of its own."""
        longest = max((len(task.plan.calls) for task in self.tasks if task.plan), default=DEFAULT_PLAN_CALLS)
        return 2 * longest + SPARE_TOOL_STEPS if self.step_limit is None else self.step_limit

    @cached_property
    def digest(self) -> str:
        """sha256 of tasks, version and tools: two suites of equal digest ask the same."""
        tools = described_tools(self.opened(self.tasks[0]))
        parts = [self.name, self.version, self.max_tool_steps, tools, *([self.shared] if self.shared else [])]
        return digest([*parts, [task.as_dict() for task in self.tasks]])


def with_quarantine(suite: Suite, entries: Mapping[str, str]) -> Suite:
    """Return the suite with tasks quarantined, by id and reason; its digest changes. Raises ValueError for an unknown id."""
    if not entries:
        return suite
    task_ids = {task.id for task in suite.tasks}
    for name in entries:
        if name not in task_ids:
            hint = near(name, sorted(task_ids))
            raise ValueError(f"quarantine: suite {suite.name!r} has no task {name!r}{f'; {hint}' if hint else ''}")
    marked = (replace(task, quarantined=entries[task.id]) if task.id in entries else task for task in suite.tasks)
    return replace(suite, tasks=tuple(marked))


World = TypeVar("World")
Found = TypeVar("Found")


class UnknownName(LookupError):
    """The world has nothing of this name."""


def look_up(table: Mapping[Any, Found], key: object, problem: str, error: type[Exception] = UnknownName) -> Found:
    """Return what stands under a key. Raises `error`, which says the problem, where nothing does."""
    if key not in table:
        raise error(problem)
    return table[key]


class InvalidRequest(ValueError):
    """An argument of a tool is out of range."""


class Toolset(Generic[World]):
    """The tools that every trial of a suite has, as functions of (world, arguments …)."""

    def __init__(self, *functions: Callable[..., Any], writes: Collection[Callable[..., Any]] | None = None) -> None:
        """Name, description and schema come from each function's name, whole docstring and argument types.

        The functions run in place: none may block. `writes`: those that change what counts of the world, the others being
        read-only; None: any may. Raises TypeError for an argument without a JSON schema.
        """
        self._templates = tuple(
            Tool.from_function(
                functools.partial(function, None),
                name=function.__name__,
                description=inspect.getdoc(function) or "",
                blocking=False,
                read_only=writes is not None and function not in writes,
            )
            for function in functions
        )
        self._functions = functions

    def bound_to(self, world: World) -> tuple[Tool, ...]:
        """Return the tools, acting on this world."""
        return tuple(
            replace(tool, function=functools.partial(function, world))
            for tool, function in zip(self._templates, self._functions, strict=True)
        )

    def over(self, world: World, read_state: Callable[[World], Any] = lambda world: None) -> WorldEnvironment[World]:
        """Return an environment of the tools alone. `read_state`: see `WorldEnvironment`."""
        return WorldEnvironment(self.bound_to(world), world, read_state)


@dataclass(frozen=True, slots=True)
class WorldEnvironment(Generic[World]):
    """An environment of tools over one world that no other trial sees."""

    tools: tuple[Tool, ...]
    world: World
    read_state: Callable[[World], Any] = field(default=lambda world: None)
    """Reads the world's state as JSON, for scoring."""
    end: Callable[[World], None] = field(default=lambda world: None)
    """Gives back what the world holds."""

    def state(self) -> Any:
        return self.read_state(self.world)

    def close(self) -> None:
        self.end(self.world)
