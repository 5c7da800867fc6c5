"""Look up what a configuration names: suite, tasks, arms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from whichloop.datasets.generating import SPLITS, split_of
from whichloop.datasets.importing.json_files import read_quarantine
from whichloop.datasets.importing.plan_model import refused_call
from whichloop.datasets.importing.rows import RowSuite
from whichloop.datasets.task import HasUser, Suite, Task, restates, with_quarantine
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scorer_named, scores_of
from whichloop.models.faults import NOT_DETERMINED
from whichloop.protocol import render_value
from whichloop.protocol.names import SCRIPTED, nearest, parse_spec
from whichloop.protocol.values import counted

from .config import CompareConfig, SettingError
from .registry import make_suite
from .schedule import Arm, make_arms

_COMPARING = frozenset({"exact", "normalized", "numeric", "set", "f1", "schema"})
"""Scorers that compare an answer with the expected one; others depend on calls or state, or call a model."""


def compares(task: Task) -> bool:
    """Return whether the task's scorer compares the answer with the expected one, and looks at nothing else."""
    return task.scorer.partition("(")[0].strip() in _COMPARING


def answer_score(task: Task, answer: object) -> float:
    """Return the score of an answer by itself, whatever the end state."""
    return scores_of(Judgement(dataclasses.replace(task, end_state=None), answer, "finished"))["accuracy"]


def made_by(task: Task) -> str:
    """Return which call gives the answer of a task's plan, of several the last: ` (from call 'total')`; empty if it is stated."""
    if task.plan is None or not task.plan.is_referring:
        return ""
    *_, last = (call.id for call in task.plan.calls if call.id in task.plan.rests_on)
    return f" (from call {last!r})"


def contradiction(task: Task, answer: object) -> str:
    """Return in what the answer of a task's plan is not the expected one; empty if it is, or nobody can tell.

    `answer`: with results in the place of references.

    Raises ValueError for a scorer that does not exist.
    """
    if not compares(task):
        return ""
    stated = NOT_DETERMINED if answer is None else answer
    if task.query.schema is None:
        stated = render_value(stated)
    if answer_score(task, stated) > 0:  # in part right, as by `f1`, is no contradiction
        return ""
    difference = f"the plan's answer is {answer!r}{made_by(task)}, expected is {task.expected!r}"
    return f"task {task.id!r}: {difference} (scorer {task.scorer})"


def check_tasks(config: CompareConfig, tasks: Sequence[Task]) -> None:
    """Raise SettingError if more tasks are asked for than there are."""
    if config.tasks is not None and config.tasks > len(tasks):
        where = config.suite if config.split is None else f"{config.suite}, split {config.split}"
        raise SettingError("tasks", f"{config.tasks:,} are asked for, and {where} has {len(tasks):,}")


def check_plans(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> None:
    """Raise ValueError if the scripted model is to answer, and tasks that nobody said to skip have no plan for it."""
    if config.skip_unplanned or SCRIPTED not in config.models:
        return
    unplanned = [task for task in tasks if task.plan is None and not task.quarantined]
    if not unplanned:
        return
    count = len(unplanned)
    why = f"{unplanned[0].id}: {unplanned[0].no_plan or 'the suite gives none'}"
    learn = "run a real model and learn them from the run by the command whichloop learn plans"
    rest = (
        "-s skip_unplanned=true leaves them out" if count < len(tasks) else f"write plans (whichloop list plan-schema), or {learn}"
    )
    total = counted(len(tasks), "task")
    lack = f"{counted(count, f'of {total} has', f'of {total} have')} no plan, which the scripted model needs"
    raise ValueError(f"suite {suite.name}: {lack} ({why}); {rest}")


def check_answers(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> None:
    """Raise ValueError if the scripted model is to follow a plan that states another answer than the one that is expected."""
    if SCRIPTED not in config.models:
        return
    for task in tasks:
        if task.plan is not None and restates(task) and (problem := contradiction(task, task.plan.answer)):
            raise ValueError(f"suite {suite.name}, {problem}; mend one of them, or name the task in -s quarantine=FILE")


def check_calls(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> None:
    """Raise ValueError if the scripted model is to make a call that the user's own tools refuse for its arguments."""
    if SCRIPTED not in config.models or not isinstance(suite, RowSuite):
        return
    tools = {tool.name: tool for tool in suite.tools.fixed}
    for task in tasks:
        if problem := refused_call(task, tools):
            raise ValueError(f"{suite.place_of(task.id)}: {problem}")


def check_user(config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> None:
    """Raise ValueError if a model is to play the user of tasks that have none."""
    if config.user is None:
        return
    environment = suite.opened(tasks[0])
    try:
        if not isinstance(environment, HasUser):
            raise ValueError(
                f"user {config.user}: the tasks of suite {suite.name} have no user; those of tau2's retail and airline do, and "
                "tasks of your own with `whichloop.datasets.with_user`"
            )
    finally:
        environment.close()


def suite_of(config: CompareConfig) -> Suite:
    """Return the suite that a configuration names, whole. Raises ValueError for a bad name, option or file, and OSError."""
    suite = make_suite(parse_spec(config.suite), config.data, config.tools)
    return suite if config.quarantine is None else with_quarantine(suite, read_quarantine(config.quarantine))


def resolve(config: CompareConfig) -> tuple[Suite, Sequence[Task], tuple[Arm, ...]]:
    """Return the suite of a configuration, its tasks and its arms. Raises ValueError for a name that leads to nothing."""
    suite = suite_of(config)
    for scorer, where in sorted(scorers_of(suite).items()):
        try:
            scorer_named(scorer)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return suite, tasks_of_split(suite, config.split)[: config.tasks], make_arms(config, suite)


def tasks_of_split(suite: Suite, name: str | None) -> Sequence[Task]:
    """Return the tasks of one split, or all tasks if none is named. Raises ValueError if there are none.

    A suite whose tasks say nothing of splits is split by the tasks' ids, see `split_of`.
    """
    if name is None:
        return suite.tasks
    labelled_splits = {str(task.labels["split"]) for task in suite.tasks if "split" in task.labels}

    def is_in(task: Task) -> bool:
        return (task.labels.get("split") if labelled_splits else split_of(task.id)) == name

    tasks = tuple(filter(is_in, suite.tasks))
    if not tasks:
        raise ValueError(f"suite {suite.name} has no task of split {name!r}; {nearest(name, sorted(labelled_splits or SPLITS))}")
    return tasks


def scorers_of(suite: Suite) -> Mapping[str, str]:
    """Return the suite's scorers, and where each is first named."""
    where = suite.place_of if isinstance(suite, RowSuite) else lambda task_id: f"suite {suite.name}"
    return {task.scorer: where(task.id) for task in reversed(suite.tasks)}
