"""The three splits of an optimization: train and dev for the optimizer, test locked until the programs are final."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whichloop.datasets.task import Suite, Task
from whichloop.protocol.digest import digest
from whichloop.protocol.names import SCRIPTED
from whichloop.runs.lookup import tasks_of_split

from .config import OptimizeConfig
from .manifest import SplitEntry, SplitName


@dataclass(frozen=True, slots=True)
class Splits:
    """The tasks of an optimization; the optimizer never gets `test`."""

    train: Sequence[Task]
    dev: Sequence[Task]
    test: Sequence[Task]

    def entries(self) -> dict[SplitName, SplitEntry]:
        """Return sizes and digests, by split."""
        splits = {name: SplitEntry(tasks=len(tasks), digest=_digest(tasks)) for name, tasks in self._named().items()}
        return {**splits, "test": splits["test"].model_copy(update={"opened": None})}

    @property
    def searched(self) -> Mapping[str, tuple[str, Task]]:
        """Task id → split name and task, for all tasks that an optimizer may see."""
        return {task.id: (name, task) for name, tasks in (("train", self.train), ("dev", self.dev)) for task in tasks}

    def _named(self) -> dict[SplitName, Sequence[Task]]:
        return {"train": self.train, "dev": self.dev, "test": self.test}


def split(suite: Suite, config: OptimizeConfig) -> Splits:
    """Return the suite's own splits, or if it has none, splits by task id. Raises ValueError for an empty one."""
    search = config.search
    by_name = {
        "train": _usable(suite, "train", config)[: search.train],
        "dev": _usable(suite, "dev", config)[: search.dev],
        "test": tasks_of_split(suite, "test")[: config.compare.tasks],
    }
    split_of: dict[str, str] = {}
    for name, tasks in by_name.items():
        for task in tasks:
            if split_of.setdefault(task.id, name) != name:
                raise ValueError(f"suite {suite.name}: task {task.id} is in two splits, {split_of[task.id]} and {name}")
    return Splits(**by_name)


def _usable(suite: Suite, name: str, config: OptimizeConfig) -> list[Task]:
    """Return the usable tasks of a split, without quarantined ones and those that lack a plan for the scripted model."""
    scripted = config.model == SCRIPTED
    usable = [task for task in tasks_of_split(suite, name) if not task.quarantined and not (scripted and task.plan is None)]
    if not usable:
        reason = f"all are quarantined{f', or have no plan, which the scripted model needs; {_WAYS_OUT}' if scripted else ''}"
        raise ValueError(f"suite {suite.name}: no task of its split {name} can be run: {reason}")
    return usable


_WAYS_OUT = "run a real one (--model), or learn plans from such a run by the command whichloop suite learn"


def _digest(tasks: Sequence[Task]) -> str:
    return digest([task.as_dict() for task in tasks])
