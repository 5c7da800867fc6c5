"""Whether the answer of a task's plan is the expected one, by the task's own scorer."""

from __future__ import annotations

import dataclasses

from whichloop.datasets.task import Task
from whichloop.metrics.judgement import Judgement
from whichloop.metrics.scorers import scores_of
from whichloop.models.faults import NOT_DETERMINED
from whichloop.protocol import render_value

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
