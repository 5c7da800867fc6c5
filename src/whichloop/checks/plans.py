"""What is wrong with the plans in a file of tasks, or with one plan in a file: everything, not only the first mistake."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whichloop.datasets.csv import csv_table
from whichloop.datasets.importing.columns import RowTable
from whichloop.datasets.importing.own_tools import NO_TOOLS, OwnTools
from whichloop.datasets.importing.plan_model import BrokenPlan, single_plan
from whichloop.datasets.importing.reader import RowReader
from whichloop.datasets.jsonl import jsonl_table
from whichloop.datasets.parquet import parquet_table
from whichloop.datasets.task import Suite, Task, is_by_construction, restates, states_its_answer
from whichloop.datasets.validity import Replayed, planned_answer, replay
from whichloop.datasets.validity.checks import argument_problems, call_misfits, goal_problems, plan_problems
from whichloop.protocol import Plan, Query, ToolSpec, plan_to_json, render_value
from whichloop.protocol.plan_lines import plan_to_lines
from whichloop.protocol.values import cap, counted
from whichloop.runs.lookup import compares, contradiction
from whichloop.text.doc import Doc, TraceLines, lines_of

from .suite.laws import is_given, why_it_failed
from .suite.reference_agents import ORACLE, Oracle, bench, trial

TABLES: Mapping[str, Callable[[Path], RowTable]] = {
    ".csv": csv_table,
    ".jsonl": jsonl_table,
    ".parquet": parquet_table,
}
"""Ending of a file of tasks → the table that reads it; any other file holds one plan."""
MAX_PLAN_BYTES = 1 << 20
"""Largest file of a single plan."""
MAX_SHOWN_CHARS = 200
"""Characters of a result or an answer that a problem quotes."""


@dataclass(frozen=True, slots=True)
class PlanFindings:
    """What was found in a file."""

    tasks: tuple[Task, ...]
    """Those that could be read."""
    problems: tuple[str, ...]
    """A line each, in the order of the file."""
    carried_out: bool
    """Whether the plans' calls were made."""
    yielded: int = 0
    """Number of plans that state their answer although one of their calls gives it; known where the calls were made."""
    is_alone: bool = False
    """Whether the file holds one plan, and no task with a right answer."""
    answer: Any = None
    """What the calls of a plan alone lead to, where they were made."""
    unused: str = ""
    """Which columns nothing was read from, in words; empty if there are none."""

    @property
    def planned(self) -> int:
        """Number of tasks that have a plan."""
        return sum(task.plan is not None for task in self.tasks)

    @property
    def stated(self) -> int:
        """Number of plans whose answer is the result of no call, so that whoever follows one is right by construction."""
        return sum(task.plan is not None and not task.plan.is_referring for task in self.tasks)

    @property
    def calls(self) -> int:
        """Number of calls of all plans."""
        return sum(len(task.plan.calls) for task in self.tasks if task.plan is not None)


@dataclass(frozen=True, slots=True)
class _ReadTask:
    """A task of a file, and whether its plan gives an answer of its own; otherwise the plan has the right answer of the row."""

    task: Task
    answers_itself: bool


def plan_findings(path: Path, tools: OwnTools | None = None, *, run_tools: bool = False) -> PlanFindings:
    """Read a file and check its plans. `tools`: those that the plans call, if they are known. `run_tools`: make the calls, too.

    Raises OSError for a file that cannot be read, and ValueError for one that is no file of tasks at all.
    """
    table = TABLES.get(path.suffix.lower())
    if table is None:
        return _single_findings(path, tools, run_tools=run_tools)
    tasks: list[Task] = []
    sound: dict[str, _ReadTask] = {}
    found: dict[str, list[str]] = {}
    rows = table(path)
    reader = RowReader(rows, {}, rows.name, tools or NO_TOOLS)
    for where, task_or_problem in _rows(reader, tools):
        if isinstance(task_or_problem, _ReadTask):
            tasks.append(task_or_problem.task)
            texts = list(_problems(task_or_problem.task, tools))
            if not texts and task_or_problem.task.plan is not None:
                sound[where] = task_or_problem
        else:
            texts = [task_or_problem]
        found.setdefault(where, []).extend(texts)
    carried_out = run_tools and tools is not None
    yielded = asyncio.run(_carried_out(sound, tools or NO_TOOLS, found)) if carried_out and sound else 0
    problems = tuple(f"{where}: {text}" for where, texts in found.items() for text in texts)
    return PlanFindings(tuple(tasks), problems, carried_out=carried_out, yielded=yielded, unused=reader.unused())


def _rows(reader: RowReader, tools: OwnTools | None) -> Iterator[tuple[str, _ReadTask | str]]:
    """Yield the place of each row, and its task or what is wrong with it. What is not even a row ends the file."""
    rows = enumerate(reader.rows())
    while True:
        try:
            index, (number, cells) = next(rows)
        except StopIteration:
            return
        except ValueError as error:
            where, _, problem = str(error).partition(": ")
            yield where, f"{problem}; what follows was not read"
            return
        where = reader.table.at(number)
        try:
            task = reader.task(index, cells, is_checked=tools is not None)
            yield where, _ReadTask(task, reader.answers_itself(cells))
        except ValueError as error:
            yield from ((where, text) for text in _each_mistake(error, tools))


def _each_mistake(error: ValueError, tools: OwnTools | None) -> Iterator[str]:
    """Yield each mistake of a plan that is why a row cannot be read, and what does not fit the tools in the calls that can be read;
    the error itself where something else is why."""
    if not isinstance(error, BrokenPlan):
        yield str(error)
        return
    yield from map(str, error.each)
    if tools is None:
        return
    try:
        specs = _specs(tools, Task("plan", Query("plan"), None))
    except ValueError as problem:
        yield str(problem)
        return
    for call in error.calls:
        yield from (f"call {call.id!r}: {text}" for _, text in call_misfits(call, specs))


def _single_findings(path: Path, tools: OwnTools | None, *, run_tools: bool) -> PlanFindings:
    """Check a file that holds a plan alone."""
    task, problems = _single(path, tools)
    carried_out = run_tools and tools is not None
    findings = PlanFindings(() if task is None else (task,), tuple(problems), carried_out=carried_out, is_alone=True)
    if tools is None or not carried_out or task is None or problems:
        return findings
    return asyncio.run(_alone(findings, str(path), Suite("plans", "", (task,), tools.open)))


def _single(path: Path, tools: OwnTools | None) -> tuple[Task | None, list[str]]:
    """Return the one task of a file that holds a plan alone, None if the plan cannot be read, and what is wrong, with its lines."""
    with path.open("rb") as file:
        data = file.read(MAX_PLAN_BYTES + 1)
    if len(data) > MAX_PLAN_BYTES:
        raise ValueError(f"{path}: larger than a plan can be; tasks with plans stand in a file that ends in {', '.join(TABLES)}")
    try:
        single = single_plan(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return None, [f"{path}: the text is not UTF-8 ({error.reason} at byte {error.start + 1})"]
    except (ValueError, RecursionError) as error:
        return None, [f"{path}: {str(error) or 'it is nested too deep'}"]
    mistakes = list(single.mistakes)
    try:
        mistakes += [] if tools is None else single.misfits(_specs(tools, Task(path.stem, Query(path.stem), None)))
    except ValueError as error:
        mistakes.append((0, str(error)))
    problems = [f"{path}, line {line}: {text}" if line else f"{path}: {text}" for line, text in sorted(mistakes)]
    if single.plan is None:
        return None, problems
    if not single.plan.calls:
        return None, [f"{path}: there is no call in it"]
    task = Task(id=path.stem, query=Query(path.stem), expected=single.plan.answer, scorer="exact", plan=single.plan)
    return task, problems + [f"{path}: {text}" for text in _problems(task, None)]


def _specs(tools: OwnTools, task: Task) -> dict[str, ToolSpec]:
    """Return the tools of a task by name. Raises ValueError where the user's code gives none."""
    environment = tools.open(task)
    try:
        return {tool.name: tool.spec for tool in environment.tools}
    finally:
        environment.close()


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
        specs = _specs(tools, task)
    except ValueError as error:
        yield str(error)
        return
    yield from (problem.text for problem in argument_problems(task, specs.values()))


async def _carried_out(sound: Mapping[str, _ReadTask], tools: OwnTools, found: Mapping[str, list[str]]) -> int:
    """Carry out every plan in a fresh environment, and return how many state their answer although a call gives it.

    `sound`: tasks with plans, by their place. `found`: what is wrong, by the places of all rows; what comes out is added to it.
    """
    tasks = tuple(read.task for read in sound.values())
    setting, yielded = bench(Suite("plans", "", tasks, tools.open), tasks), 0
    for where, read in sound.items():
        oracle = Oracle(read.task)
        finished = await trial(replace(ORACLE, loop=lambda _: oracle), read.task, setting)  # noqa: B023 - run at once
        if finished.record.status != "scored" or not finished.record.is_solved:
            found[where].append(why_it_failed(read.task, finished))
        elif _yields(read.task, oracle.replayed):
            yielded += not (read.task.plan is not None and read.task.plan.is_referring)
        elif problem := _unlike(read, oracle.replayed):
            found[where].append(problem)
    return yielded


async def _alone(findings: PlanFindings, where: str, suite: Suite) -> PlanFindings:
    """Carry out the plan of a file that has no right answer to hold the plan's against."""
    (task,) = suite.tasks
    try:
        calls = await replay(task, suite)
        return replace(findings, answer=planned_answer(task, calls))
    except ValueError as error:
        return replace(findings, problems=(*findings.problems, f"{where}: {error}"))


def _yields(task: Task, calls: Sequence[Replayed]) -> bool:
    """Return whether the right answer is the result of a call or a part of it, or stands in a result as a word of a text."""
    if compares(task) and is_given(task, calls):
        return True
    answer = re.escape(render_value(task.expected).casefold())
    word = re.compile(rf"(?<!\w){answer}(?!\w)")
    return any(isinstance(call.value, str) and bool(word.search(call.value.casefold())) for call in calls if not call.failed)


def _unlike(read: _ReadTask, calls: Sequence[Replayed]) -> str:
    """Return in what the last result is not the right answer of a row whose plan gives none; empty if nothing can be compared."""
    task = read.task
    with_result = [call for call in calls if not call.failed]
    if read.answers_itself or not with_result or is_by_construction(task) or not (states_its_answer(task) and compares(task)):
        return ""
    got, expected = (cap(repr(value), MAX_SHOWN_CHARS) for value in (with_result[-1].value, task.expected))
    problem = (
        f"the plan has no `answer = …`, its last call {with_result[-1].call_id!r} gives {got}, the row's right answer is {expected}"
    )
    way_out = f"mend one of them, or write `answer = {expected}` into the plan if no call is to give it"
    return f"task {task.id!r}: {problem} (scorer {task.scorer}); {way_out}"


# --- as a document ---

MAX_SHOWN = 20
"""Problems that are shown; the data have all of them."""


def plan_doc(file: str, findings: PlanFindings, *, has_tools: bool) -> Doc:
    """Return the problems, how many plans there are and where they lead, and behind it every plan, a call per line."""
    problems, more, is_sound = findings.problems[:MAX_SHOWN], len(findings.problems) - MAX_SHOWN, not findings.problems
    made, alone = findings.carried_out, findings.is_alone
    leading = findings.planned - findings.stated if made and not alone and is_sound else 0
    stated = f"{counted(findings.stated, 'plan')} with the row's own answer: right by construction"
    answer = "" if not (made and alone and is_sound) else "none" if findings.answer is None else repr(findings.answer)
    calls = "made" if made else "fit the tools, none was made: --run-tools" if has_tools else "tools unknown: --tools MODULE"
    summary = lines_of(
        ("Problems", f"{len(findings.problems)}" if findings.problems else "none"),
        ("Plans", f"{findings.planned} of {counted(len(findings.tasks), 'task')}, {counted(findings.calls, 'call')}"),
        ("Calls", calls if is_sound else ""),
        ("Right", f"{counted(leading, 'plan leads', 'plans lead')} to the right answer" if leading else ""),
        ("Answer", f"{cap(answer, MAX_SHOWN_CHARS)}, and only a task can say whether it is right" if answer else ""),
        ("Stated", stated if findings.stated and not alone else ""),
        ("Warning", f"{findings.yielded} of them: a call gives it; write `answer = NAME` last" if findings.yielded else ""),
        ("Warning", findings.unused),
    )
    plans = (
        TraceLines(task.id, tuple(_written(task.plan).splitlines()), detail=True)
        for task in findings.tasks
        if task.plan is not None
    )
    told = TraceLines("", (*problems, *([f"and {more} more, which --json has"] if more > 0 else [])))
    data = {
        "tasks": len(findings.tasks),
        "planned": findings.planned,
        "calls": findings.calls,
        "carried_out": findings.carried_out,
        "by_construction": findings.stated,
        "problems": list(findings.problems),
    }
    return Doc(f"plans {file}", (*([told] if problems else []), summary, *plans), data)


def _written(plan: Plan) -> str:
    try:
        return plan_to_lines(plan)
    except ValueError:
        return json.dumps(plan_to_json(plan), ensure_ascii=False)
