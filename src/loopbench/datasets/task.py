"""Tasks, the suites they come in, and the environments they are solved in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from loopbench.protocol import Plan, Query, Tool, plan_to_json
from loopbench.protocol.digest import digest

SPARE_TOOL_STEPS = 3
"""Added to the longest plan: the default step limit leaves room for this many stumbles."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question, what it takes to solve it, and how an answer is judged. A loop sees `query` and nothing else."""

    id: str
    """Unique within the suite, stable across versions of it."""
    query: Query
    expected: Any
    """The right answer; None where saying that there is none is right."""
    scorer: str = "exact"
    """A scorer's name with options, `numeric(tolerance=0.01)`; see `loopbench.metrics.scorers`."""
    plan: Plan | None = None
    no_plan: str = ""
    """Why there is no plan; such a task runs on a real model and is excluded under the scripted one."""
    quarantined: str = ""
    """Why the task must not be run at all; empty where it may."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Difficulty, split, template: whatever tables may be grouped by. `cluster` names the template tasks share."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; what the suite's digest is made of."""
        return {
            "id": self.id,
            "query": {"text": self.query.text, "context": self.query.context, "schema": self.query.schema},
            "expected": self.expected,
            "scorer": self.scorer,
            "plan": None if self.plan is None else plan_to_json(self.plan),
            "no_plan": self.no_plan,
            "quarantined": self.quarantined,
            "labels": dict(self.labels),
        }


@runtime_checkable
class Environment(Protocol):
    """The world of one trial: tools over state that no other trial sees."""

    @property
    def tools(self) -> Sequence[Tool]: ...

    def state(self) -> Any:
        """The end state as JSON, for scorers that judge it; None where there is none."""

    def close(self) -> None:
        """Give back what the environment holds."""


@dataclass(frozen=True, slots=True)
class StatelessEnvironment:
    """Tools without any state behind them."""

    tools: tuple[Tool, ...]

    def state(self) -> Any:
        return None

    def close(self) -> None:
        return None


@dataclass(frozen=True)
class Suite:
    """A named, versioned list of tasks. Raises ValueError for a repeated task id or an empty list."""

    name: str
    version: str
    tasks: tuple[Task, ...]
    open: Callable[[Task], Environment]
    """Opens a task's environment in its fresh state."""
    step_limit: int | None = None
    """Longest run in tool steps; None: the longest plan + 3."""

    def __post_init__(self) -> None:
        ids = [task.id for task in self.tasks]
        if not ids:
            raise ValueError(f"suite {self.name!r} holds no task")
        if len(set(ids)) != len(ids):
            twice = next(name for name in ids if ids.count(name) > 1)
            raise ValueError(f"suite {self.name!r}: task id {twice!r} stands twice")

    @property
    def max_tool_steps(self) -> int:
        """The one step limit that every arm of a comparison gets."""
        if self.step_limit is not None:
            return self.step_limit
        return max((len(task.plan.calls) for task in self.tasks if task.plan), default=10) + SPARE_TOOL_STEPS

    @cached_property
    def digest(self) -> str:
        """sha256 of tasks, version and tools: two suites of equal digest ask the same."""
        environment = self.open(self.tasks[0])
        try:
            tools = [[tool.name, tool.description, tool.parameters] for tool in environment.tools]
        finally:
            environment.close()
        return digest([self.name, self.version, self.max_tool_steps, tools, [task.as_dict() for task in self.tasks]])
