"""Checks that call tools: they replay plans and run baselines."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import Replayed, replay
from whichloop.datasets.validity.checks import Problem, told_problems
from whichloop.datasets.validity.replay import gold_problems, order_problems, state_problems
from whichloop.metrics.record import Record
from whichloop.models.receipts import call_digest
from whichloop.protocol import PlannedCall, resolve
from whichloop.protocol.digest import canonical_json, whole_numbers_as_int
from whichloop.protocol.values import cap, counted, error_text
from whichloop.runs.lookup import made_by
from whichloop.runs.trial.trial import FinishedTrial

from .reference_agents import ORACLE, BaselineResult, baselines, bench, passed, trial
from .subject import MAX_CHARS, MAX_RUN, Subject, SuiteCheck, sampled


async def _replays(subject: Subject) -> list[Problem]:
    tasks = subject.with_plans()
    setting, problems, records = bench(subject.suite, tasks), [], []
    for task in subject.each("replay", tasks):
        finished_trial = await trial(ORACLE, task, setting)
        records.append(finished_trial.record)
        if finished_trial.record.status != "scored" or not finished_trial.record.is_solved:
            problems.append(Problem(why_it_failed(task, finished_trial)))
        else:
            subject.truths[task.id] = await replay(task, subject.suite)
    subject.baselines.append(passed(ORACLE, records))
    return problems


def why_it_failed(task: Task, finished_trial: FinishedTrial) -> str:
    """Return why the oracle's trial did not score 1."""
    record, trace = finished_trial.record, json.loads(finished_trial.trace or "{}")
    if problem := trace.get("details", {}).get("problem"):
        return str(problem)
    if record.status != "scored":
        return f"task {task.id!r}: {record.reason}"
    if record.scores.get("answer", record.accuracy) < 1:
        return f"task {task.id!r}: the plan's answer is {record.answer!r}{made_by(task)}, expected is {task.expected!r}"
    state = trace["end_state"]
    return f"task {task.id!r}: after the plan the state is {_json(state['found'])}, expected is {_json(state['expected'])}"


def _json(value: Any) -> str:
    return cap(canonical_json(value), MAX_CHARS // 2)


def _receipts(subject: Subject) -> Iterator[Problem]:
    """Check receipts, including those of alternatives, which must differ from other calls. Equal integers count as equal."""
    for task in subject.with_plans():
        truth = subject.truths.get(task.id)
        if truth is None or task.plan is None:
            continue
        values = {call.call_id: call.value for call in truth if not call.failed}
        owners: dict[str, str] = {}
        for call, tool, arguments in _all_forms(task.plan.calls, values):
            try:
                canonical_json(arguments)
            except (TypeError, ValueError, RecursionError) as error:  # a model could not write such a call
                yield Problem(f"task {task.id!r}, call {call!r}: the arguments are not JSON: {error}")
                continue
            receipt = call_digest(tool, whole_numbers_as_int(arguments))
            if owners.setdefault(receipt, call) != call:
                yield Problem(
                    f"task {task.id!r}: calls {owners[receipt]!r} and {call!r} have the same receipt, {receipt} (3.0 counts as 3)"
                )


def _all_forms(calls: Iterable[PlannedCall], values: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield planned call, tool, and resolved arguments."""
    for call in calls:
        for option in (call, *call.alternatives):
            try:
                yield call.id, option.tool, resolve(option.arguments, values)
            except (KeyError, IndexError, TypeError):  # an alternative that needs a result that this replay lacks
                continue


TaskCheck = Callable[[Task, Suite, Sequence[Replayed]], Awaitable[list[str]]]


def _per_task(name: str, check: TaskCheck) -> Callable[[Subject], Awaitable[list[Problem]]]:
    """Return a check of single tasks whose plan replays."""

    async def find(subject: Subject) -> list[Problem]:
        tasks = [task for task in subject.with_plans() if task.id in subject.truths]
        return [
            problem
            for task in subject.each(name, tasks)
            for problem in await _task_check(check, task, subject, subject.truths[task.id])
        ]

    return find


async def _task_check(check: TaskCheck, task: Task, subject: Subject, truth: Sequence[Replayed]) -> list[Problem]:
    try:
        return [Problem(text) for text in await check(task, subject.suite, truth)]
    except Exception as error:  # the suite's own code
        return [Problem(f"task {task.id!r}: {type(error).__name__}: {error_text(error)}")]


async def _gold(subject: Subject) -> list[Problem]:
    """Check names and descriptions, and also results if tools may be called."""
    problems: list[Problem] = []
    visible: dict[str, str] = {}
    for task in subject.each("gold", subject.sample):
        task_problems = await _task_check(gold_problems, task, subject, subject.truths.get(task.id, ()))
        problems += task_problems
        if not task_problems:
            visible[task.id] = _visible_text(task, subject)
    sound = [task for task in subject.sample if task.id in visible]
    return [*problems, *told_problems(sound, lambda task: visible[task.id])]


def _visible_text(task: Task, subject: Subject) -> str:
    """Return all that a loop sees before it calls a tool."""
    return " ".join([task.query.full_text, *(f"{tool.name} {tool.description}" for tool in subject.specs_of(task))])


async def _guessing(subject: Subject) -> list[Problem]:
    """Run the baselines; those that call no tool cost nothing and get many tasks, whatever the sample."""
    wide = sampled(subject.tasks, MAX_RUN, subject.seed)
    problems = []
    for baseline in baselines(subject.tasks, subject.seed):
        if baseline.calls_tools and not subject.run_tools:
            continue
        tasks = subject.sample if baseline.calls_tools else wide
        setting = bench(subject.suite, tasks)
        records = [(await trial(baseline, task, setting)).record for task in subject.each(baseline.name, tasks)]
        result = passed(baseline, records, drawn=subject.drawn or len(tasks) < len(subject.tasks))
        subject.baselines.append(result)
        problems += [Problem(text) for text in passes_too_many(result)]
        problems += [Problem(f"{baseline.name}: task {record.task!r}: {record.reason}") for record in _broken(records)]
    return problems


def _broken(records: Iterable[Record]) -> list[Record]:
    """Return the trials that the suite's scorer or environment made fail; no baseline uses a provider."""
    return [record for record in records if record.status == "errored"]


def passes_too_many(result: BaselineResult) -> Iterator[str]:
    """Yield a sentence if a baseline passes too many tasks."""
    if result.share is not None and result.is_too_many:
        which = ", ".join(result.solved[:3]) + (", …" if len(result.solved) > 3 else "")
        share = f"{result.share.value:.1%} of {counted(result.share.n, 'task')} [{result.share.low:.1%}, {result.share.high:.1%}]"
        yield f"{result.baseline.name} ({result.baseline.says}) passes {share}: {which}"


CALLED: tuple[SuiteCheck, ...] = (
    SuiteCheck("replay", "each plan scores 1.00, by answer and end state", _replays, calls_tools=True),
    SuiteCheck("receipts", "calls are JSON, and no two calls of a task have the same receipt", _receipts, calls_tools=True),
    SuiteCheck(
        "order",
        "calls give the same results in any order that a plan allows",
        _per_task("order", order_problems),
        calls_tools=True,
    ),
    SuiteCheck(
        "state",
        "trials start from the same state and do not affect each other",
        _per_task("state", state_problems),
        calls_tools=True,
    ),
)
GOLD = SuiteCheck("gold", "no question, tool or result reveals what a loop must not see", _gold)
GUESSING = SuiteCheck("guessing", "agents that do no work solve almost no task", _guessing)
