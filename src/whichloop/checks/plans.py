"""What is wrong with the plans in a file of tasks, or with one plan in a file: everything, not only the first mistake."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from whichloop.datasets.validity.checks import argument_problems, goal_problems, plan_problems
from whichloop.protocol import Plan, Query, ToolSpec, plan_to_json, render_value
from whichloop.protocol.plan_lines import plan_to_lines
from whichloop.protocol.values import cap, counted
from whichloop.runs.lookup import compares, contradiction
from whichloop.text.doc import Doc, TraceLines, lines_of

from .suite.check import is_given, why_it_failed
from .suite.reference_agents import ORACLE, Oracle, bench, trial

TABLES: Mapping[str, Callable[[Path], RowTable]] = {".csv": csv_table, ".jsonl": jsonl_table, ".parquet": parquet_table}
"""Ending of a file of tasks → the table that reads it; any other file holds one plan."""
MAX_SHOWN_CHARS = 200
"""Characters of a result or an answer that a problem quotes."""


@dataclass(slots=True)
class PlanFindings:
    """What was found in a file."""

    carried_out: bool
    """Whether the plans' calls were made."""
    tasks: list[Task] = field(default_factory=list)
    """Those that could be read."""
    found: dict[str, list[str]] = field(default_factory=dict)
    """Place in the file → what is wrong there, in the order of the file."""
    yielded: int = 0
    """Plans that state their answer although a call gives it; known where the calls were made."""
    is_alone: bool = False
    """Whether the file holds one plan, and no task with a right answer."""
    answer: Any = None
    """What the calls of a plan alone lead to."""
    unused: str = ""
    """Which columns nothing was read from."""

    @property
    def problems(self) -> tuple[str, ...]:
        """A line each."""
        return tuple(f"{where}: {text}" for where, texts in self.found.items() for text in texts)

    @property
    def plans(self) -> list[Plan]:
        return [task.plan for task in self.tasks if task.plan is not None]


def plan_findings(path: Path, tools: OwnTools | None = None, *, run_tools: bool = False) -> PlanFindings:
    """Read a file and check its plans. `tools`: those that the plans call, if they are known. `run_tools`: make the calls, too.

    Raises OSError for a file that cannot be read, and ValueError for one that is no file of tasks at all.
    """
    table, findings = TABLES.get(path.suffix.lower()), PlanFindings(run_tools and tools is not None)
    if table is None:
        _read_single(path, tools, findings)
        if findings.carried_out and findings.tasks and not findings.problems:
            (alone,) = findings.tasks
            try:
                replayed = asyncio.run(replay(alone, Suite("plans", "", (alone,), (tools or NO_TOOLS).open)))
                findings.answer = planned_answer(alone, replayed)
            except ValueError as error:
                findings.found[str(path)].append(str(error))
        return findings
    rows = table(path)
    reader = RowReader(rows, {}, rows.name, tools or NO_TOOLS)
    sound: dict[str, tuple[Task, bool]] = {}  # with whether the plan gives an answer of its own
    try:
        for index, (number, cells) in enumerate(reader.rows()):
            where = reader.table.at(number)
            texts = findings.found.setdefault(where, [])
            try:
                task = reader.task(index, cells, is_checked=tools is not None)
            except BrokenPlan as error:
                texts += map(str, error.each)
            except ValueError as error:
                texts.append(str(error))
            else:
                findings.tasks.append(task)
                texts += _problems(task, tools)
                if not texts and task.plan is not None:
                    sound[where] = task, reader.answers_itself(cells)
    except ValueError as error:  # what is not even a row ends the file
        where, _, problem = str(error).partition(": ")
        findings.found.setdefault(where, []).append(f"{problem}; what follows was not read")
    if findings.carried_out and sound:
        asyncio.run(_carry_out(findings, sound, tools or NO_TOOLS))
    findings.unused = reader.unused()
    return findings


def _read_single(path: Path, tools: OwnTools | None, findings: PlanFindings) -> None:
    """Read the one plan of a file that holds no more, and what is wrong with it, with its lines."""
    findings.is_alone = True
    with path.open("rb") as file:
        data = file.read((1 << 20) + 1)
    if len(data) > 1 << 20:
        raise ValueError(f"{path}: larger than a plan can be; tasks with plans stand in a file that ends in {', '.join(TABLES)}")
    here = findings.found.setdefault(str(path), [])
    try:
        single = single_plan(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        here.append(str(error))
        return
    mistakes, name = list(single.mistakes), path.stem
    try:
        mistakes += [] if tools is None else single.misfits(_specs(tools, Task(name, Query(name), None)))
    except ValueError as error:
        mistakes.append((0, str(error)))
    for line, text in sorted(mistakes):
        findings.found.setdefault(f"{path}, line {line}" if line else str(path), []).append(text)
    if single.plan is not None and single.plan.calls:
        findings.tasks.append(Task(name, Query(name), single.plan.answer, scorer="exact", plan=single.plan))
        here += _problems(findings.tasks[0], None)
    elif single.plan is not None:
        here[:] = ["there is no call in it"]


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


async def _carry_out(findings: PlanFindings, sound: Mapping[str, tuple[Task, bool]], tools: OwnTools) -> None:
    """Carry out every plan of sound rows, by their place, in a fresh environment."""
    tasks = tuple(task for task, _ in sound.values())
    setting = bench(Suite("plans", "", tasks, tools.open), tasks)
    for where, (task, answers_itself) in sound.items():
        oracle = Oracle(task)
        finished = await trial(replace(ORACLE, loop=lambda _: oracle), task, setting)  # noqa: B023 - run at once
        if finished.record.status != "scored" or not finished.record.is_solved:
            findings.found[where].append(why_it_failed(task, finished))
        elif _yields(task, oracle.replayed):
            findings.yielded += not (task.plan is not None and task.plan.is_referring)
        elif not answers_itself and (problem := _unlike(task, oracle.replayed)):
            findings.found[where].append(problem)


def _yields(task: Task, calls: Sequence[Replayed]) -> bool:
    """Return whether the right answer is the result of a call or a part of it, or stands in a result as a word of a text."""
    if compares(task) and is_given(task, calls):
        return True
    answer = re.escape(render_value(task.expected).casefold())
    word = re.compile(rf"(?<!\w){answer}(?!\w)")
    return any(isinstance(call.value, str) and bool(word.search(call.value.casefold())) for call in calls if not call.failed)


def _unlike(task: Task, calls: Sequence[Replayed]) -> str:
    """Return in what the last result is not the right answer of a row whose plan gives none; empty if nothing can be compared."""
    with_result = [call for call in calls if not call.failed]
    if not with_result or is_by_construction(task) or not (states_its_answer(task) and compares(task)):
        return ""
    last = with_result[-1]
    got, expected = (cap(repr(value), MAX_SHOWN_CHARS) for value in (last.value, task.expected))
    problem = f"the plan has no `answer = …`, its last call {last.call_id!r} gives {got}, the row's right answer is {expected}"
    return f"task {task.id!r}: {problem} (scorer {task.scorer}); write `answer = {expected}` if no call is to give it"


def plan_doc(file: str, findings: PlanFindings, *, has_tools: bool) -> Doc:
    """Return the problems, how many plans there are and where they lead, and behind it every plan, a call per line."""
    problems, plans, alone = findings.problems, findings.plans, findings.is_alone
    more, made, count = len(problems) - 20, findings.carried_out, sum(len(plan.calls) for plan in plans)
    # Whoever follows a plan whose answer is the result of no call is right by construction.
    stated = sum(not plan.is_referring for plan in plans)
    leading = len(plans) - stated if made and not alone and not problems else 0
    answer = "" if not (made and alone and not problems) else "none" if findings.answer is None else repr(findings.answer)
    calls = "made" if made else "fit the tools, none was made: --run-tools" if has_tools else "tools unknown: --tools MODULE"
    own = f"{counted(stated, 'plan')} with the row's own answer: right by construction"
    summary = lines_of(
        ("Problems", f"{len(problems)}" if problems else "none"),
        ("Plans", f"{len(plans)} of {counted(len(findings.tasks), 'task')}, {counted(count, 'call')}"),
        ("Calls", "" if problems else calls),
        ("Right", f"{counted(leading, 'plan leads', 'plans lead')} to the right answer" if leading else ""),
        ("Answer", f"{cap(answer, MAX_SHOWN_CHARS)}, and only a task can say whether it is right" if answer else ""),
        ("Stated", own if stated and not alone else ""),
        ("Warning", f"{findings.yielded} of them: a call gives it; write `answer = NAME` last" if findings.yielded else ""),
        ("Warning", findings.unused),
    )
    shown = []
    for task in findings.tasks:
        if task.plan is not None:
            try:
                text = plan_to_lines(task.plan)
            except ValueError:
                text = json.dumps(plan_to_json(task.plan), ensure_ascii=False)
            shown.append(TraceLines(task.id, tuple(text.splitlines()), detail=True))
    told = TraceLines("", (*problems[:20], *([f"and {more} more, which --json has"] if more > 0 else [])))
    data = {
        "tasks": len(findings.tasks),
        "planned": len(plans),
        "calls": count,
        "carried_out": made,
        "by_construction": stated,
        "problems": list(problems),
    }
    return Doc(f"plans {file}", (told, summary, *shown), data)
