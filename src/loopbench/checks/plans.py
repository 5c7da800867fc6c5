"""What is wrong with the plans in a file of tasks, or with one plan in a file: everything, not only the first mistake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopbench.datasets.csv import CsvTable
from loopbench.datasets.importing.columns import Columns
from loopbench.datasets.importing.json_files import json_value
from loopbench.datasets.importing.own_tools import NO_TOOLS, OwnTools
from loopbench.datasets.importing.reader import RowReader, read_plan
from loopbench.datasets.importing.table import RowTable
from loopbench.datasets.jsonl import JsonLines
from loopbench.datasets.parquet import ParquetTable
from loopbench.datasets.task import Suite, Task, restates
from loopbench.datasets.validity.checks import argument_problems, goal_problems, plan_problems
from loopbench.protocol import Query
from loopbench.runs.gold import contradiction

from .suite.reference_agents import ORACLE, bench, trial
from .suite.running import why_it_failed

TABLES: Mapping[str, Callable[[Path], RowTable]] = {
    ".csv": lambda path: CsvTable(path, ","),
    ".jsonl": JsonLines,
    ".parquet": ParquetTable,
}
"""Ending of a file of tasks → the table that reads it; any other file holds one plan."""
MAX_PLAN_BYTES = 1 << 20
"""Largest file of a single plan."""


@dataclass(frozen=True, slots=True)
class PlanFindings:
    """What was found in a file."""

    tasks: tuple[Task, ...]
    """Those that could be read."""
    problems: tuple[str, ...]
    """A line each, in the order of the file."""
    carried_out: bool
    """Whether the plans' calls were made."""

    @property
    def planned(self) -> int:
        """Number of tasks that have a plan."""
        return sum(task.plan is not None for task in self.tasks)

    @property
    def calls(self) -> int:
        """Number of calls of all plans."""
        return sum(len(task.plan.calls) for task in self.tasks if task.plan is not None)


def plan_findings(path: Path, tools: OwnTools | None = None, *, run_tools: bool = False) -> PlanFindings:
    """Read a file and check its plans. `tools`: those that the plans call, if they are known. `run_tools`: make the calls, too.

    Raises OSError for a file that cannot be read, and ValueError for one that is no file of tasks at all.
    """
    table = TABLES.get(path.suffix.lower())
    tasks: list[Task] = []
    sound: dict[str, Task] = {}
    problems: list[str] = []
    for where, found in _single(path) if table is None else _rows(table(path), tools):
        if isinstance(found, Task):
            tasks.append(found)
            texts = list(_problems(found, tools))
            if not texts:
                sound[where] = found
        else:
            texts = [found]
        problems += [f"{where}: {text}" for text in texts]
    carried_out = run_tools and tools is not None
    if carried_out:
        problems += asyncio.run(_failures(sound, tools or NO_TOOLS))
    return PlanFindings(tuple(tasks), tuple(problems), carried_out)


def _rows(table: RowTable, tools: OwnTools | None) -> Iterator[tuple[str, Task | str]]:
    """Yield the place of each row, and its task or what is wrong with it. What is not even a row ends the file."""
    reader = RowReader(table, Columns({}), table.name, tools or NO_TOOLS)
    rows = enumerate(table.rows())
    while True:
        try:
            index, (_, number, cells) = next(rows)
        except StopIteration:
            return
        except ValueError as error:
            yield table.source, f"{str(error).removeprefix(f'{table.source}, ')}; what follows was not read"
            return
        where = reader.at(number)
        try:
            yield where, reader.task(index, cells) if tools is None else reader.checked(index, number, cells)
        except ValueError as error:
            yield where, str(error).removeprefix(f"{where}, ").removeprefix(f"{where}: ")
        except RecursionError:
            yield where, "it is nested too deep"


def _single(path: Path) -> Iterator[tuple[str, Task | str]]:
    """Yield the one task of a file that holds a plan alone, or what is wrong with the plan."""
    with path.open("rb") as file:
        data = file.read(MAX_PLAN_BYTES + 1)
    if len(data) > MAX_PLAN_BYTES:
        raise ValueError(f"{path}: larger than a plan can be; tasks with plans stand in a file that ends in {', '.join(TABLES)}")
    try:
        text = data.decode("utf-8-sig")
        value = json_value(text) if text.lstrip()[:1] in ("{", "[") else text
        plan = read_plan("plan", value, None)
    except (ValueError, RecursionError) as error:
        yield str(path), str(error) or "it is nested too deep"
        return
    if not plan.calls:
        yield str(path), "there is no call in it"
        return
    yield str(path), Task(id=path.stem, query=Query(path.stem), expected=plan.answer, scorer="exact", plan=plan)


def _problems(task: Task, tools: OwnTools | None) -> Iterator[str]:
    """Yield what is wrong with a task's plan as it stands."""
    if task.plan is None:
        return
    for problem in (*plan_problems(task), *goal_problems(task)):
        yield problem.text
    if restates(task) and (said := contradiction(task, task.plan.answer)):
        yield said
    if tools is None:
        return
    try:
        environment = tools.open(task)
    except ValueError as error:
        yield str(error)
        return
    try:
        yield from (problem.text for problem in argument_problems(task, [tool.spec for tool in environment.tools]))
    finally:
        environment.close()


async def _failures(tasks: Mapping[str, Task], tools: OwnTools) -> Sequence[str]:
    """Carry out every plan in a fresh environment, and say where and why one did not solve its task. `tasks`: by place."""
    planned = {where: task for where, task in tasks.items() if task.plan is not None}
    setting, found = bench(Suite("plans", "", tuple(planned.values()), tools.open), tuple(planned.values())), []
    for where, task in planned.items():
        finished = await trial(ORACLE, task, setting)
        if finished.record.status != "scored" or finished.record.accuracy < 1:
            found.append(f"{where}: {why_it_failed(task, finished)}")
    return found
