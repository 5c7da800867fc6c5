"""The three splits of an optimization: train and dev for the optimizer, test under lock until nothing is changed any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopbench.datasets.task import Suite, Task
from loopbench.protocol.digest import digest
from loopbench.runs.lookup import tasks_of_split

from .config import OptimizeConfig
from .manifest import SplitEntry, SplitName


@dataclass(frozen=True, slots=True)
class Splits:
    """The tasks of an optimization. The optimizer is never handed `test`."""

    train: Sequence[Task]
    dev: Sequence[Task]
    test: Sequence[Task]

    def entries(self) -> dict[SplitName, SplitEntry]:
        """Return sizes and digests, by split."""
        splits = {name: SplitEntry(tasks=len(tasks), digest=_digest(tasks)) for name, tasks in self._named().items()}
        return {**splits, "test": splits["test"].model_copy(update={"opened": None})}

    @property
    def searched(self) -> Mapping[str, tuple[str, Task]]:
        """Task id → its split's name and the task, of all tasks that an optimizer may see."""
        return {task.id: (name, task) for name, tasks in (("train", self.train), ("dev", self.dev)) for task in tasks}

    def _named(self) -> dict[SplitName, Sequence[Task]]:
        return {"train": self.train, "dev": self.dev, "test": self.test}


def split(suite: Suite, config: OptimizeConfig) -> Splits:
    """The suite's own splits, or, where it has none, by the tasks' ids. Raises ValueError for an empty one."""
    search = config.search
    found = {
        "train": _teaching(suite, "train", config)[: search.train],
        "dev": _teaching(suite, "dev", config)[: search.dev],
        "test": tasks_of_split(suite, "test")[: config.compare.tasks],
    }
    seen: dict[str, str] = {}
    for name, tasks in found.items():
        for task in tasks:
            if seen.setdefault(task.id, name) != name:
                raise ValueError(f"suite {suite.name}: task {task.id} is in two splits, {seen[task.id]} and {name}")
    return Splits(**found)


def _teaching(suite: Suite, name: str, config: OptimizeConfig) -> list[Task]:
    """Tasks of a split that can be run: a quarantined one teaches nothing, nor one that the scripted model has no plan for."""
    scripted = config.model == "scripted"
    found = [task for task in tasks_of_split(suite, name) if not task.quarantined and not (scripted and task.plan is None)]
    if not found:
        why = f"all are quarantined{f', or have no plan, which the scripted model needs; {_WAYS_OUT}' if scripted else ''}"
        raise ValueError(f"suite {suite.name}: no task of its split {name} can be run: {why}")
    return found


_WAYS_OUT = "run a real one (--model), or learn plans from such a run: loopbench suite learn"


def _digest(tasks: Sequence[Task]) -> str:
    return digest([task.as_dict() for task in tasks])
