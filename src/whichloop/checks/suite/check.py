"""The list of checks, and the functions that run them on a suite."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whichloop.datasets.task import Suite
from whichloop.datasets.validity.checks import Problem
from whichloop.protocol.own_code import own_words
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.values import cap, error_text, one_line

from .reference_agents import BaselineResult
from .running import CALLED, GOLD, GUESSING
from .static import CONSTRUCTED, FILES, JSON, OPENED, SET_ASIDE
from .subject import MAX_CHARS, MAX_RUN, LeftOut, Progress, Status, Subject, SuiteCheck, SuiteFinding, sampled, sound, unwatched

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
