"""The list of checks, and the functions that apply them to a suite."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from loopbench.datasets.task import Suite
from loopbench.datasets.validity.checks import Problem
from loopbench.protocol import run_sync
from loopbench.protocol.values import cap, error_text

from .reference_agents import Passed
from .running import CALLED, GOLD, GUESSING
from .static import FILES, JSON, OPENED, SET_ASIDE
from .subject import MAX_CHARS, MAX_RUN, LeftOut, Progress, Status, Subject, SuiteCheck, SuiteFinding, sampled, sound, unwatched

MAX_READ = 100_000
"""Most tasks that are read."""
MAX_KEPT = 20
"""Problems of one check that are kept; the others are counted."""

CHECKS: tuple[SuiteCheck, ...] = (JSON, *FILES, *OPENED, *CALLED, GOLD, GUESSING, SET_ASIDE)

_OF_TASKS = frozenset({"json", "plans", "goals", "schemas", "answers", "unanswerable", "arguments", "replay", "receipts"})
"""Names of those that look at the tasks one by one, and replay their plans."""

NEEDS_PERMISSION = "calls tools that may act on the real world; --run-tools allows it"


def _unheard(finding: SuiteFinding) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Checked:
    """A suite with the findings of all checks."""

    suite: Suite
    sample: int
    """Tasks whose tools were looked at, and called where `ran_tools`."""
    ran_tools: bool
    findings: tuple[SuiteFinding, ...]
    baselines: tuple[Passed, ...]

    @property
    def ok(self) -> bool:
        return not any(finding.status == "failed" for finding in self.findings)


def check_suite(
    suite: Suite,
    *,
    tasks: int | None = None,
    seed: int = 0,
    run_tools: bool = True,
    heard: Callable[[SuiteFinding], None] = _unheard,
    progress: Progress = unwatched,
) -> Checked:
    """Every check, in the order of CHECKS.

    `tasks`: how many have their tools looked at and called, drawn with `seed`; left out, all up to 1,000. `run_tools=False`: checks
    that call a tool are left out. `heard`: told of each finding. Raises ValueError for `tasks` below 1.
    """
    if tasks is not None and tasks < 1:
        raise ValueError(f"tasks is {tasks}, and must be at least 1")
    good = sound(suite.tasks)
    read = sampled(good, MAX_READ, seed)
    sample = sampled(read, MAX_RUN if tasks is None else tasks, seed)
    subject = Subject(suite, read, sample, len(read) < len(good), run_tools, seed, progress)
    found = run_sync(find_all(CHECKS, subject, heard))
    return Checked(suite, len(sample), run_tools, tuple(found), tuple(subject.baselines))


def task_problems(suite: Suite) -> list[str]:
    """What is wrong with a suite's tasks, one line each and at most 20 per check; empty where nothing is. For tests of a suite.

    The checks that look at tasks one by one: files, planned arguments, replays by the task's scorer and end state, receipts. No
    other agent than the oracle runs, and tasks are not compared. Tools are called. Quarantined tasks are not looked at.
    """
    tasks = sound(suite.tasks)
    found = run_sync(find_all((check for check in CHECKS if check.name in _OF_TASKS), Subject(suite, tasks, tasks)))
    return [problem for finding in found if finding.status == "failed" for problem in finding.problems]


async def find_all(
    checks: Iterable[SuiteCheck], subject: Subject, heard: Callable[[SuiteFinding], None] = _unheard
) -> list[SuiteFinding]:
    made: list[SuiteFinding] = []
    for check in checks:
        subject.progress(check.name, 0, len(subject.tasks))
        made.append(await _finding(check, subject, blocked=bool(made) and made[0].status == "failed"))
        heard(made[-1])
    return made


async def _finding(check: SuiteCheck, subject: Subject, *, blocked: bool = False) -> SuiteFinding:
    if blocked:
        return SuiteFinding(check.name, check.says, "left out", ("tasks are not JSON; fix that first",))
    if not len(subject.tasks) and check.name != "set aside":
        return SuiteFinding(check.name, check.says, "left out", ("every task is quarantined",))
    if check.calls_tools and not subject.run_tools:
        return SuiteFinding(check.name, check.says, "left out", (NEEDS_PERMISSION,))
    try:
        found = check.find(subject)
        return _summed_up(check, await found if inspect.isawaitable(found) else list(found))
    except LeftOut as reason:
        return SuiteFinding(check.name, check.says, "left out", (str(reason),))
    except Exception as error:  # the suite's own code: its tasks, environments and scorers may raise anything
        return _summed_up(check, [Problem(f"the suite raised {type(error).__name__}: {error_text(error)}")])


def _summed_up(check: SuiteCheck, problems: Sequence[Problem]) -> SuiteFinding:
    """Return the finding of a check, its failures first."""
    ordered = sorted(problems, key=lambda problem: not problem.fails)
    status: Status = "ok" if not ordered else "failed" if ordered[0].fails else "warning"
    texts = tuple(cap(" ".join(problem.text.split()), MAX_CHARS) for problem in ordered[:MAX_KEPT])
    return SuiteFinding(check.name, check.says, status, texts, len(ordered))
