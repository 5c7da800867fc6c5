"""The list of checks, and the functions that run them on a suite; the quick ones run at the start of a comparison."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity.checks import Problem, schema_problems
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scores_of
from whichloop.metrics.statistics import accuracy_interval
from whichloop.protocol import Toolbox
from whichloop.protocol.own_code import own_words
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.values import cap, error_text, one_line
from whichloop.runs.lookup import answer_score

from .reference_agents import NOBODY, BaselineResult, ReferenceAgent, without_calls
from .running import CALLED, GOLD, GUESSING, passes_too_many
from .subject import (
    CONSTRUCTED,
    FILES,
    JSON,
    MAX_CHARS,
    MAX_RUN,
    OPENED,
    SCHEMAS,
    SET_ASIDE,
    Find,
    LeftOut,
    Progress,
    Status,
    Subject,
    SuiteCheck,
    SuiteFinding,
    sampled,
    sound,
    unwatched,
)

MAX_READ = 100_000
"""Maximum number of tasks to read."""
MAX_KEPT = 20
"""Maximum number of stored problems per check; the others are only counted."""

CHECKS: tuple[SuiteCheck, ...] = (JSON, *FILES, *OPENED, *CALLED, GOLD, GUESSING, CONSTRUCTED, SET_ASIDE)

_TASK_CHECKS = frozenset({"json", "plans", "goals", "schemas", "answers", "unanswerable", "arguments", "replay", "receipts"})
"""Names of the checks that cover tasks one by one and replay their plans."""

NEEDS_PERMISSION = "calls tools that may act on the real world; --run-tools allows it"


def _ignore(finding: SuiteFinding) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Checked:
    """A suite with the findings of all checks."""

    suite: Suite
    sample: int
    """Number of tasks whose tools were checked, and called if `ran_tools`."""
    ran_tools: bool
    findings: tuple[SuiteFinding, ...]
    baselines: tuple[BaselineResult, ...]

    @property
    def ok(self) -> bool:
        return not any(finding.status == "failed" for finding in self.findings)


def check_suite(
    suite: Suite,
    *,
    tasks: int | None = None,
    seed: int = 0,
    run_tools: bool = True,
    progress: Progress = unwatched,
) -> Checked:
    """Run every check on a suite, in the order of CHECKS.

    `tasks`: number of tasks, drawn with `seed`, whose tools are checked and called; default: all up to 1,000. `run_tools=False`
    skips checks that call a tool. Raises ValueError for `tasks` below 1.
    """
    if tasks is not None and tasks < 1:
        raise ValueError(f"tasks is {tasks}, and must be at least 1")
    usable = sound(suite.tasks)
    read = sampled(usable, MAX_READ, seed)
    sample = sampled(read, MAX_RUN if tasks is None else tasks, seed)
    subject = Subject(suite, read, sample, len(read) < len(usable), run_tools, seed, progress)
    findings = run_blocking(find_all(CHECKS, subject))
    return Checked(suite, len(sample), run_tools, tuple(findings), tuple(subject.baselines))


def task_problems(suite: Suite) -> list[str]:
    """Return the problems of a suite's tasks, one line each and at most 20 per check, for tests of a suite.

    It runs the checks of single tasks: files, planned arguments, replays by the task's scorer and end state, receipts. Only the
    oracle runs, and tasks are not compared. Tools are called. Quarantined tasks are skipped.
    """
    tasks = sound(suite.tasks)
    findings = run_blocking(find_all((check for check in CHECKS if check.name in _TASK_CHECKS), Subject(suite, tasks, tasks)))
    return [problem for finding in findings if finding.status == "failed" for problem in finding.problems]


async def find_all(checks: Iterable[SuiteCheck], subject: Subject) -> list[SuiteFinding]:
    findings: list[SuiteFinding] = []
    for check in checks:
        subject.progress(check.name, 0, len(subject.tasks))
        findings.append(await _finding(check, subject, blocked=bool(findings) and findings[0].status == "failed"))
    return findings


async def _finding(check: SuiteCheck, subject: Subject, *, blocked: bool = False) -> SuiteFinding:
    if blocked:
        return SuiteFinding(check.name, check.says, "left out", ("tasks are not JSON; fix that first",))
    if not len(subject.tasks) and check.name != "set aside":
        return SuiteFinding(check.name, check.says, "left out", ("every task is quarantined",))
    if check.calls_tools and not subject.run_tools:
        return SuiteFinding(check.name, check.says, "left out", (NEEDS_PERMISSION,))
    try:
        problems = check.find(subject)
        return _summary(check, await problems if inspect.isawaitable(problems) else list(problems))
    except LeftOut as reason:
        return SuiteFinding(check.name, check.says, "left out", (str(reason),))
    except Exception as error:  # the suite's own code: its tasks, environments and scorers may raise anything
        return _summary(check, [Problem(f"the suite raised {own_words(error) or f'{type(error).__name__}: {error_text(error)}'}")])


def _summary(check: SuiteCheck, problems: Sequence[Problem]) -> SuiteFinding:
    """Return the finding of a check, its failures first."""
    ordered = sorted(problems, key=lambda problem: not problem.fails)
    status: Status = "ok" if not ordered else "failed" if ordered[0].fails else "warning"
    texts = tuple(cap(one_line(problem.text), MAX_CHARS) for problem in ordered[:MAX_KEPT])
    return SuiteFinding(check.name, check.says, status, texts, len(ordered))


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
