"""The functions that run the laws of suites; the quick ones run at the start of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity.checks import Problem, schema_problems
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scores_of
from whichloop.metrics.statistics import accuracy_interval
from whichloop.protocol import Toolbox
from whichloop.protocol.threads import run_blocking
from whichloop.runs.lookup import answer_score

from ..shared.law import Finding, Law, Progress, judged, unwatched
from .laws import CHECKS, FILES, MAX_RUN, Subject, sampled, sound
from .reference_agents import NOBODY, BaselineResult, without_calls

MAX_READ = 100_000
"""Maximum number of tasks to read."""
_TASK_CHECKS = frozenset({"json", "plans", "goals", "schemas", "answers", "unanswerable", "arguments", "replay", "receipts"})
"""Names of the laws that cover tasks one by one and replay their plans."""
NEEDS_PERMISSION = "calls tools that may act on the real world; --run-tools allows it"


@dataclass(frozen=True, slots=True)
class Checked:
    """A suite with the findings of all laws."""

    suite: Suite
    sample: int
    """Number of tasks whose tools were checked, and called if `ran_tools`."""
    ran_tools: bool
    findings: tuple[Finding, ...]
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
    """Check every law on a suite, in the order of CHECKS.

    `tasks`: number of tasks, drawn with `seed`, whose tools are checked and called; default: all up to 1,000. `run_tools=False`
    skips laws that call a tool. Raises ValueError for `tasks` below 1.
    """
    if tasks is not None and tasks < 1:
        raise ValueError(f"tasks is {tasks}, and must be at least 1")
    usable = sound(suite.tasks)
    read = sampled(usable, MAX_READ, seed)
    sample = sampled(read, MAX_RUN if tasks is None else tasks, seed)
    subject = Subject(suite, read, sample, len(read) < len(usable), run_tools, seed, progress)
    findings = run_blocking(_find_all(CHECKS, subject))
    return Checked(suite, len(sample), run_tools, tuple(findings), tuple(subject.baselines))


def task_problems(suite: Suite) -> list[str]:
    """Return the problems of a suite's tasks, one line each and at most 20 per law, for tests of a suite.

    It runs the laws of single tasks: files, planned arguments, replays by the task's scorer and end state, receipts. Only the
    oracle runs, and tasks are not compared. Tools are called. Quarantined tasks are skipped.
    """
    tasks = sound(suite.tasks)
    findings = run_blocking(_find_all((law for law in CHECKS if law.name in _TASK_CHECKS), Subject(suite, tasks, tasks)))
    return [problem for finding in findings if finding.status == "failed" for problem in finding.problems]


async def _find_all(laws: Iterable[Law], subject: Subject) -> list[Finding]:
    findings: list[Finding] = []
    for law in laws:
        subject.progress(law.name, 0, len(subject.tasks))
        why_not = ""
        if findings and findings[0].status == "failed":
            why_not = "tasks are not JSON; fix that first"
        elif not len(subject.tasks) and law.name != "set aside":
            why_not = "every task is quarantined"
        elif law.calls_tools and not subject.run_tools:
            why_not = NEEDS_PERMISSION
        findings.append(Finding(law.name, "not run", why_not) if why_not else await judged(law, subject, "suite"))
    return findings


# --- quickly ---

MAX_QUICK, MAX_QUICKLY_OPENED, MAX_QUICK_SCHEMAS = 200, 40, 5
"""Maximum number of tasks in a quick check, of tasks whose tools are checked, and of answer schemas."""


def quick_problems(suite: Suite, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the problems of a suite that quick checks find, one line per law.

    They call no tool and no model, and cover at most 200 tasks: files, planned arguments, tools, and agents that do nothing or
    always give one answer, scored on untouched environments. 120 tasks take about 0.1 s.
    """
    usable = sound(sampled(tasks, MAX_QUICK, 0))
    is_sample = min(len(tasks), MAX_QUICK) < len(suite.tasks)  # such as one split
    subject = Subject(suite, usable, sampled(usable, MAX_QUICKLY_OPENED, 0), is_sample)
    schemas = Law("schemas", "", lambda subject: schema_problems(subject.tasks, MAX_QUICK_SCHEMAS))
    laws = [*(schemas if law.name == "schemas" else law for law in FILES), Law("guessing", "", _guesses_untouched)]
    # Tools need the plans of all tasks; a sample does not show a share, and the agent "not determined" covers it.
    too_much = {"tools"} if len(suite.tasks) > MAX_RUN else set()
    too_much |= {"unanswerable"} if is_sample else set()
    findings = run_blocking(_find_all([law for law in laws if law.name not in too_much], subject)) if len(usable) else []
    failed = [finding for finding in findings if finding.status == "failed"]
    return tuple(f"{one.law}: {one.detail}{f' (and {one.count - 1} more)' if one.count > 1 else ''}" for one in failed)


async def _guesses_untouched(subject: Subject) -> list[Problem]:
    """Score agents that call no tool without running trials. Users' own scorers, which may call a model, are skipped."""
    tasks = [task for task in subject.tasks if ":" not in task.scorer]
    problems: list[Problem] = []
    for baseline in without_calls(tasks) if tasks else ():
        answers = [(await baseline.loop(task).run(task.query, Toolbox(), NOBODY)).answer for task in tasks]
        scores = [_untouched(task, subject.suite, answer) for task, answer in zip(tasks, answers, strict=True)]
        share = accuracy_interval([[score] for score in scores], [str(task.labels.get("cluster", "")) for task in tasks])
        solved = tuple(task.id for task, score in zip(tasks, scores, strict=True) if score >= 1)
        problems += map(Problem, BaselineResult(baseline, share, solved=solved, drawn=subject.drawn).too_many())
    return problems


def _untouched(task: Task, suite: Suite, answer: object) -> float:
    """Return the score of an answer without tool calls. The environment is opened only if its state matters."""
    score = answer_score(task, answer)
    if task.end_state is None or not score:
        return score
    with closing(suite.open(task)) as environment:
        return scores_of(Judgement(task, answer, "finished", environment.state()))["accuracy"]
