"""The quick checks at the start of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity.checks import Problem, schema_problems
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scores_of
from whichloop.metrics.statistics import accuracy_interval
from whichloop.protocol import Toolbox
from whichloop.protocol.threads import run_blocking
from whichloop.runs.lookup import answer_score

from .check import find_all
from .reference_agents import NOBODY, BaselineResult, ReferenceAgent, without_calls
from .running import GUESSING, passes_too_many
from .static import FILES, JSON, OPENED, SCHEMAS
from .subject import MAX_RUN, Find, Subject, SuiteCheck, SuiteFinding, sampled, sound

MAX_QUICK, MAX_QUICKLY_OPENED, MAX_QUICK_SCHEMAS = 200, 40, 5
"""Maximum number of tasks in a quick check, of tasks whose tools are checked, and of answer schemas."""


def quick_problems(suite: Suite, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the problems of a suite that quick checks find, one line per check.

    They call no tool and no model, and cover at most 200 tasks: files, planned arguments, tools, and agents that do nothing or
    always give one answer, scored on untouched environments. 120 tasks take about 0.1 s.
    """
    usable = sound(sampled(tasks, MAX_QUICK, 0))
    is_sample = min(len(tasks), MAX_QUICK) < len(suite.tasks)  # such as one split
    subject = Subject(suite, usable, sampled(usable, MAX_QUICKLY_OPENED, 0), is_sample)
    checks = [replace(check, find=_QUICKER.get(check, check.find)) for check in (JSON, *FILES, *OPENED, GUESSING)]
    if len(suite.tasks) > MAX_RUN:
        checks = [check for check in checks if check.name != "tools"]  # it needs the plans of all tasks
    if subject.drawn:  # a sample does not show a share; the agent "not determined" covers it
        checks = [check for check in checks if check.name != "unanswerable"]
    findings = run_blocking(find_all(checks, subject)) if len(usable) else []
    return tuple(_line(finding) for finding in findings if finding.status == "failed")


def _line(finding: SuiteFinding) -> str:
    more = f" (and {finding.count - 1} more)" if finding.count > 1 else ""
    return f"{finding.check}: {finding.problems[0]}{more}"


async def _guesses_untouched(subject: Subject) -> list[Problem]:
    """Score agents that call no tool without running trials. Users' own scorers, which may call a model, are
    skipped."""
    tasks = [task for task in subject.tasks if ":" not in task.scorer]
    problems: list[Problem] = []
    for baseline in without_calls(tasks) if tasks else ():
        answers = [(await baseline.loop(task).run(task.query, Toolbox(), NOBODY)).answer for task in tasks]
        scores = [_untouched(task, subject.suite, answer) for task, answer in zip(tasks, answers, strict=True)]
        problems += map(Problem, passes_too_many(_as_passed(baseline, tasks, scores, subject.drawn)))
    return problems


_QUICKER: Mapping[SuiteCheck, Find] = {
    SCHEMAS: lambda subject: schema_problems(subject.tasks, MAX_QUICK_SCHEMAS),
    GUESSING: _guesses_untouched,
}
"""Quicker variants of checks that take too long for a comparison."""


def _untouched(task: Task, suite: Suite, answer: object) -> float:
    """Return the score of an answer without tool calls. The environment is opened only if its state matters."""
    score = answer_score(task, answer)
    if task.end_state is None or not score:
        return score
    with closing(suite.open(task)) as environment:
        return scores_of(Judgement(task, answer, "finished", environment.state()))["accuracy"]


def _as_passed(baseline: ReferenceAgent, tasks: Sequence[Task], scores: Sequence[float], drawn: bool) -> BaselineResult:
    share = accuracy_interval([[score] for score in scores], [str(task.labels.get("cluster", "")) for task in tasks])
    return BaselineResult(
        baseline, share, solved=tuple(task.id for task, score in zip(tasks, scores, strict=True) if score >= 1), drawn=drawn
    )
