"""Importer of BFCL's single-turn categories (Patil et al., ICML 2025) as published: questions, functions, calls that are right.

Read are versions 3 and 4: simple, multiple, parallel, parallel_multiple and irrelevance, and of the live ones
simple, multiple, parallel, parallel_multiple, irrelevance and relevance. A file holds JSON lines of `id`, `question` and
`function`, and `possible_answer/` beside it a file of the same name with the calls that are right, each parameter with its allowed
values. Nothing is ever evaluated.

The functions have no implementation. Stub tools acknowledge a call and note it down; one whose arguments are missing, unknown or of
a wrong type is refused, as a real function would, and noted down as refused; a value that is allowed is never refused. Scored are
the calls, not the answer's text: each call that is wanted has been made once, and no other (scorer `bfcl`). A wrong call that was
accepted cannot be taken back, a repeated one is one too many, a refused one may be made again. In irrelevance no function fits:
right is an answer without any call, refused ones included, so that a loop which never calls anything gets that category right. In
relevance any call is right.

Calls are judged and refused as the published checker does it.

The plan makes each call with the first of its allowed values. A row that has no right calls, or whose right calls contradict its
own functions, is quarantined with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..importing.json_files import check_limit
from ..task import Suite, Task, WorldEnvironment
from .files import ANY_CALL, CATEGORIES, file_tasks, files_in
from .functions import FunctionRow, stub_functions, stub_tools, tool_names
from .official import officially_right

__all__ = ["CATEGORIES", "SUITE", "VERSION", "calls_are_right", "load", "tool_names"]

VERSION = "2"


def load(data: Path | None = None, category: str | None = None, limit: int | None = None) -> Suite:
    """Read the suite `bfcl` from files as published; the data is not part of this package.

    `data`: a file of questions, or a folder of which the supported ones are read, `--data PATH`. `category`: only that one.
    `limit`: how many rows to take from the start of each file; all where left out.

    Task ids are the rows' own. Raises OSError where a file cannot be read, and ValueError that names file, line and field for a row
    that is none, for a row of another category (multi-turn, web search …) and for answers of other questions.
    """
    if data is None:
        raise ValueError("bfcl: no data file; give a published one, or a folder of them, with --data PATH")
    check_limit("bfcl", limit)
    if category is not None and category not in CATEGORIES:
        raise ValueError(f"bfcl: category is {category!r}, and must be one of {', '.join(CATEGORIES)}")
    tasks: dict[str, Task] = {}
    for path in files_in(Path(data)):
        for where, task in file_tasks(path, category, limit):
            if task.id in tasks:
                raise ValueError(f"{where}: id {task.id!r} is a duplicate")
            tasks[task.id] = task
    if not tasks:
        of = "" if category is None else f" of category {category!r}"
        raise ValueError(f"{data}: no row{of}; each line is one object with 'id', 'question' and 'function'")
    return Suite("bfcl", VERSION, tuple(tasks.values()), _open, distractors=_unused(tasks.values()))


def calls_are_right(task: Task, state: Any) -> bool:
    """Return whether the calls in an end state are those that the task expects."""
    listed = state if isinstance(state, Mapping) else {}
    calls, refused = (listed.get(key) or [] for key in ("calls", "refused"))
    if task.expected == ANY_CALL:
        return bool(calls or refused)
    if task.expected == []:
        return not calls and not refused
    return officially_right(task.expected, calls, task.world.get("functions", ()))


def _open(task: Task) -> WorldEnvironment[Any]:
    rows = [FunctionRow.model_validate(row) for row in task.world["functions"]]
    return stub_tools(stub_functions(rows, task.expected).values())


def _unused(tasks: Iterable[Task]) -> frozenset[str]:
    offered = {tool.name for task in tasks for tool in _open(task).tools}
    return frozenset(offered - {call.tool for task in tasks if task.plan for call in task.plan.calls})


SUITE = load
