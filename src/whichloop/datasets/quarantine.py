"""Quarantine: tasks that are known to be bad leave the denominator, by a list of their ids with a reason each."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from whichloop.protocol.json_text import DuplicateKeyError, load_json
from whichloop.protocol.names import near

from .task import Suite, Task


def read_quarantine(file: Path) -> dict[str, str]:
    """Read reasons by task id from a JSON object if the file's name ends in `.json`, else from TOML, `task-id = "the reason"`.

    Raises OSError, and ValueError in one line that names the file for anything else than ids with a reason each.
    """
    kind, load = ("JSON", load_json) if file.suffix == ".json" else ("TOML", tomllib.loads)
    try:
        entries = load(file.read_text(encoding="utf-8"))
    except DuplicateKeyError as error:
        raise ValueError(f"{file}: {error}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, or not the format
        raise ValueError(f"{file}: not {kind}: {error}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{file}: a quarantine is an object of task ids with a reason each, not a {type(entries).__name__}")
    for task, reason in entries.items():
        if not isinstance(reason, str):
            raise ValueError(f"{file}: task {task!r}: the reason is {json.dumps(reason, default=str)}, and must be a text")
        if not reason.strip():
            raise ValueError(f"{file}: task {task!r}: the reason is empty")
    return entries


def with_quarantine(suite: Suite, entries: Mapping[str, str]) -> Suite:
    """Return the suite with tasks quarantined, by id and reason; its digest changes. Raises ValueError for an unknown id."""
    if not entries:
        return suite
    marked = _Marked(suite.tasks, entries)
    task_ids = {task.id for task in suite.tasks}
    for name in entries:
        if name not in task_ids:
            hint = near(name, sorted(task_ids))
            raise ValueError(f"quarantine: suite {suite.name!r} has no task {name!r}{f'; {hint}' if hint else ''}")
    return replace(suite, tasks=tuple(marked) if isinstance(suite.tasks, tuple) else marked)


@dataclass(frozen=True)
class _Marked(Sequence[Task]):
    """Tasks that are read when they are asked for, some of them quarantined."""

    tasks: Sequence[Task]
    reasons: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.tasks)

    @overload
    def __getitem__(self, place: int) -> Task: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Task]: ...
    def __getitem__(self, place: int | slice) -> object:
        item = self.tasks[place]
        return self._marked(item) if isinstance(item, Task) else _Marked(item, self.reasons)

    def __iter__(self) -> Iterator[Task]:
        return map(self._marked, self.tasks)

    def _marked(self, task: Task) -> Task:
        reason = self.reasons.get(task.id)
        return task if reason is None else replace(task, quarantined=reason)
