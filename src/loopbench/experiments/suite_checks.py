"""Whether a suite can be trusted: every check on it, as `loopbench check suite` runs them, and the quick ones for each comparison.

After the Agentic Benchmark Checklist (Zhu et al. 2025, arXiv:2507.02825). Checks of files look at all tasks; those that open
environments or call tools look at a sample of them.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from loopbench.datasets.checks import (
    Problem,
    argument_problems,
    copy_problems,
    likeness_problems,
    schema_problems,
    set_aside,
    split_problems,
    tool_problems,
)
from loopbench.datasets.generating import Draw
from loopbench.datasets.isolation import gold_problems, order_problems, state_problems
from loopbench.datasets.task import Suite, Task
from loopbench.datasets.validity import Replayed, goal_problems, plan_problems, replay, unanswerable_problems
from loopbench.metrics.judgement import Judgement
from loopbench.metrics.record import Record
from loopbench.metrics.scorers import scores_of
from loopbench.metrics.statistics import accuracy_interval
from loopbench.models.faults import NOT_DETERMINED
from loopbench.models.receipts import call_digest
from loopbench.protocol import PlannedCall, resolve, run_sync
from loopbench.protocol.digest import canonical_json
from loopbench.protocol.tools import cap, error_text

from .baselines import ORACLE, Baseline, Constant, Passed, baselines, bench, passed, trial, without_calls
from .trial import Done

MOST_RUN = 1_000
"""Tasks whose tools are called, where nothing else is said."""
MOST_QUICK = 200
"""Tasks that a comparison looks at before it begins."""
MOST_KEPT = 20
"""Problems of one check that are kept; the others are counted."""
MOST_CHARS = 400
"""Of one problem."""

Status = Literal["ok", "warning", "failed", "left out"]
Progress = Callable[[str, int, int], None]
"""Told of a check's name, how many tasks are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    says: str
    """What it checks, in a sentence."""
    status: Status
    problems: tuple[str, ...] = ()
    """The first of them; why the check was left out, where it was."""
    count: int = 0
    """Of all problems."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Subject:
    """A suite under check."""

    suite: Suite
    tasks: Sequence[Task]
    """All that are not quarantined."""
    sample: Sequence[Task]
    """Those of them whose environments are opened."""
    run_tools: bool = True
    """False: the tools may act on the real world; none is called."""
    seed: int = 0
    progress: Progress = field(default=lambda check, done, total: None)
    truths: dict[str, tuple[Replayed, ...]] = field(default_factory=dict)
    """Task → its plan, replayed; of those plans in the sample that can be."""
    baselines: list[Passed] = field(default_factory=list)
    """In the order in which they ran."""

    @cached_property
    def planned(self) -> list[Task]:
        """Of the sample."""
        return [task for task in self.sample if task.plan is not None]

    def each(self, check: str, tasks: Sequence[Task]) -> Iterator[Task]:
        """The tasks, one by one, with progress."""
        for done, task in enumerate(tasks):
            self.progress(check, done, len(tasks))
            yield task


class _LeftOut(Exception):
    """A check that says nothing about this suite; the message says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    name: str
    says: str
    find: Callable[[Subject], Iterable[Problem] | Awaitable[list[Problem]]]
    calls_tools: bool = False


# --- checks that look at the tasks alone ---


def _plain_json(subject: Subject) -> Iterator[Problem]:
    for task in subject.tasks:
        try:
            canonical_json(task.as_dict())
        except (TypeError, ValueError, RecursionError) as error:
            yield Problem(f"task {task.id!r} is no JSON: {error}")


def _plans(subject: Subject) -> Iterator[Problem]:
    return (Problem(text) for task in subject.tasks for text in plan_problems(task))


def _goals(subject: Subject) -> Iterator[Problem]:
    return (Problem(text) for task in subject.tasks for text in goal_problems(task))


def _answers(subject: Subject) -> Iterator[Problem]:
    """By the task's own scorer; one that is not built in may want to see the state too, which only a replay shows."""
    for task in subject.tasks:
        if ":" in task.scorer:
            continue
        right = NOT_DETERMINED if task.expected is None else task.expected
        try:
            score, nothing = _score(task, right), max(_score(task, ""), _score(task, None))
        except Exception as error:  # an unknown scorer, or a schema that is none
            yield Problem(f"task {task.id!r}, scorer {task.scorer}: {type(error).__name__}: {error_text(error)}")
            continue
        if score < 1:
            yield Problem(f"task {task.id!r}: {right!r} is expected, and gets {score:g} from scorer {task.scorer}")
        if nothing > 0:
            yield Problem(f"task {task.id!r}: an empty answer counts as right")


def _score(task: Task, answer: Any) -> float:
    return scores_of(Judgement(dataclasses.replace(task, end_state=None), answer, "finished"))["accuracy"]


def _unanswerable(subject: Subject) -> Iterator[Problem]:
    """One task is no share, however few there are."""
    if sum(task.expected is None for task in subject.tasks) > 1:
        yield from map(Problem, unanswerable_problems(subject.tasks))


def _splits(subject: Subject) -> Iterable[Problem]:
    if not any(task.labels.get("split") for task in subject.tasks):
        raise _LeftOut("no task says which split it is in")
    return split_problems(subject.tasks)


# --- checks that open environments and call no tool ---


def _arguments(subject: Subject) -> Iterator[Problem]:
    for task in subject.each("arguments", _with_plans(subject)):
        environment = subject.suite.open(task)
        try:
            yield from argument_problems(task, environment.tools)
        finally:
            environment.close()


def _tools(subject: Subject) -> Iterator[Problem]:
    """Plans of all tasks count; which tools there are is seen in the sample."""
    every = subject.suite.tasks
    if not any(task.plan for task in every):
        raise _LeftOut("no task has a plan")
    seen: dict[str, None] = {}
    for task in subject.each("tools", subject.sample):
        environment = subject.suite.open(task)
        try:
            seen |= dict.fromkeys(tool.name for tool in environment.tools)
        finally:
            environment.close()
    # In a sample a distractor may be missing that other tasks have.
    distractors = subject.suite.distractors if len(subject.sample) == len(every) else subject.suite.distractors & seen.keys()
    yield from tool_problems(every, seen, distractors)


def _with_plans(subject: Subject) -> list[Task]:
    if not subject.planned:
        raise _LeftOut("no task has a plan")
    return subject.planned


# --- checks that call tools ---


async def _replays(subject: Subject) -> list[Problem]:
    tasks = _with_plans(subject)
    setting, problems, records = bench(subject.suite, tasks), [], []
    for task in subject.each("replay", tasks):
        done = await trial(ORACLE, task, setting)
        records.append(done.record)
        if done.record.status != "scored" or done.record.accuracy < 1:
            problems.append(Problem(_why(task, done)))
        else:
            subject.truths[task.id] = await replay(task, subject.suite)
    subject.baselines.append(passed(ORACLE, records))
    return problems


def _why(task: Task, done: Done) -> str:
    """Why the oracle's trial did not score 1."""
    record = done.record
    if record.status != "scored":
        return f"task {task.id!r}: {record.reason}"
    trace = json.loads(done.trace)
    if problem := trace["details"].get("problem"):
        return str(problem)
    if record.scores.get("answer", record.accuracy) < 1:
        return f"task {task.id!r}: the plan's answer is {record.answer!r}, expected is {task.expected!r}"
    state = trace["end_state"]
    return f"task {task.id!r}: after the plan the state is {_json(state['found'])}, expected is {_json(state['expected'])}"


def _json(value: Any) -> str:
    return cap(canonical_json(value), MOST_CHARS // 2)


def _receipts(subject: Subject) -> Iterator[Problem]:
    """An alternative counts too: it must not be taken for another call."""
    for task in _with_plans(subject):
        truth = subject.truths.get(task.id)
        if truth is None or task.plan is None:
            continue
        values = {call.call_id: call.value for call in truth if not call.failed}
        owners: dict[str, str] = {}
        for call, receipt in _all_receipts(task.plan.calls, values):
            if owners.setdefault(receipt, call) != call:
                yield Problem(f"task {task.id!r}: calls {owners[receipt]!r} and {call!r} have the same receipt, {receipt}")


def _all_receipts(calls: Iterable[PlannedCall], values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for call in calls:
        for option in (call, *call.alternatives):
            try:
                yield call.id, call_digest(option.tool, resolve(option.arguments, values))
            except (KeyError, IndexError, TypeError):  # an alternative that needs what this replay did not give
                continue


TaskCheck = Callable[[Task, Suite, Sequence[Replayed]], Awaitable[list[str]]]


def _of_each(name: str, check: TaskCheck) -> Callable[[Subject], Awaitable[list[Problem]]]:
    """A check of single tasks, on those whose plan replays."""

    async def find(subject: Subject) -> list[Problem]:
        tasks = [task for task in _with_plans(subject) if task.id in subject.truths]
        return [
            problem for task in subject.each(name, tasks) for problem in await _checked(check, task, subject, subject.truths[task.id])
        ]

    return find


async def _checked(check: TaskCheck, task: Task, subject: Subject, truth: Sequence[Replayed]) -> list[Problem]:
    try:
        return [Problem(text) for text in await check(task, subject.suite, truth)]
    except Exception as error:  # the suite's own code
        return [Problem(f"task {task.id!r}: {type(error).__name__}: {error_text(error)}")]


async def _gold(subject: Subject) -> list[Problem]:
    """Results are looked at where tools may be called, names and descriptions in any case."""
    problems = []
    for task in subject.each("gold", subject.sample):
        problems += await _checked(gold_problems, task, subject, subject.truths.get(task.id, ()))
    return problems


async def _guessing(subject: Subject) -> list[Problem]:
    """Agents that call no tool see many tasks, whatever the sample: they cost nothing."""
    wide = sampled(subject.tasks, MOST_RUN, subject.seed)
    problems = []
    for baseline in baselines(subject.tasks, subject.seed):
        if baseline.calls_tools and not subject.run_tools:
            continue
        tasks = subject.sample if baseline.calls_tools else wide
        setting = bench(subject.suite, tasks)
        records = [(await trial(baseline, task, setting)).record for task in subject.each(baseline.name, tasks)]
        found = passed(baseline, records)
        subject.baselines.append(found)
        problems += [Problem(text) for text in _passes_too_many(found)]
        problems += [Problem(f"{baseline.name}: task {record.task!r}: {record.reason}") for record in _broken(records)]
    return problems


def _broken(records: Iterable[Record]) -> list[Record]:
    """Errored by the suite's own scorer or environment: no baseline meets a provider."""
    return [record for record in records if record.status == "errored"]


def _passes_too_many(found: Passed) -> Iterator[str]:
    if found.share is not None and found.is_too_many:
        which = ", ".join(found.solved[:3]) + (", …" if len(found.solved) > 3 else "")
        share = f"{found.share.value:.1%} of {found.share.n} tasks [{found.share.low:.1%}, {found.share.high:.1%}]"
        yield f"{found.baseline.name} ({found.baseline.says}) passes {share}: {which}"


# --- the list ---

FILES: tuple[Check, ...] = (
    Check("plans", "a task has a plan that makes calls, or says why it has none", _plans),
    Check("goals", "the goal of a call stands neither in the question nor in another goal", _goals),
    Check("schemas", "answer schemas are valid and take the expected answer", lambda s: schema_problems(s.tasks)),
    Check("answers", "the expected answer is right by the task's scorer, an empty one is not", _answers),
    Check("unanswerable", "at most one task in ten has no answer", _unanswerable),
    Check("splits", "no instance and no question stands in two splits", _splits),
    Check("copies", "no two tasks ask the same of the same world", lambda s: copy_problems(s.tasks)),
    Check("near copies", "no near copy's answer passes, numbers masked, least of all from another split", lambda s: likeness_problems(s.tasks)),
)
OPENED: tuple[Check, ...] = (
    Check("arguments", "planned arguments fit the tools' schemas", _arguments),
    Check("tools", "each tool is used by a plan, or is named a distractor", _tools),
)
CALLED: tuple[Check, ...] = (
    Check("replay", "each plan scores 1.00, by answer and end state", _replays, calls_tools=True),
    Check("receipts", "no two calls of a task have the same receipt", _receipts, calls_tools=True),
    Check("order", "a plan's calls give the same in another order that it allows", _of_each("order", order_problems), calls_tools=True),
    Check("state", "each trial starts afresh and sees no other", _of_each("state", state_problems), calls_tools=True),
)
CHECKS: tuple[Check, ...] = (
    Check("json", "tasks are plain JSON", _plain_json),
    *FILES,
    *OPENED,
    *CALLED,
    Check("gold", "no tool shows what a loop must not see", _gold),
    Check("guessing", "agents that do no work pass next to no task", _guessing),
    Check("set aside", "every task has a plan, and none is quarantined", lambda subject: set_aside(subject.suite.tasks)),
)

NEEDS_PERMISSION = "calls tools that may act on the real world; --run-tools lets it"


# --- running them ---


@dataclass(frozen=True, slots=True)
class Checked:
    """A suite, and what all checks found."""

    suite: Suite
    sample: int
    """Tasks whose environments were opened."""
    findings: tuple[Finding, ...]
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
    heard: Callable[[Finding], None] = lambda finding: None,
    progress: Progress = lambda check, done, total: None,
) -> Checked:
    """Every check, in the order of CHECKS.

    `tasks`: how many are opened and run, drawn with `seed`; left out, all up to 1,000. `run_tools=False`: checks that call a tool
    are left out. `heard`: told of each finding. Raises ValueError for `tasks` below 1.
    """
    if tasks is not None and tasks < 1:
        raise ValueError(f"tasks is {tasks}, and must be at least 1")
    sound = _sound(suite.tasks)
    sample = sampled(sound, MOST_RUN if tasks is None else tasks, seed)
    subject = Subject(suite, sound, sample, run_tools, seed, progress)
    found = run_sync(_all(subject, heard))
    return Checked(suite, len(sample), tuple(found), tuple(subject.baselines))


def _sound(tasks: Sequence[Task]) -> Sequence[Task]:
    """All but quarantined ones; the sequence itself where there are none."""
    return [task for task in tasks if not task.quarantined] if any(task.quarantined for task in tasks) else tasks


def sampled(tasks: Sequence[Task], most: int, seed: int) -> Sequence[Task]:
    """At most so many tasks, drawn evenly, in their order."""
    if len(tasks) <= most:
        return tasks
    draw, places = Draw("sample", seed), set[int]()
    while len(places) < most:
        places.add(draw.integer(0, len(tasks) - 1))
    return tuple(tasks[place] for place in sorted(places))


async def _all(subject: Subject, heard: Callable[[Finding], None]) -> list[Finding]:
    made: list[Finding] = []
    for check in CHECKS:
        made.append(await _finding(check, subject, blocked=bool(made) and made[0].status == "failed"))
        heard(made[-1])
    return made


async def _finding(check: Check, subject: Subject, *, blocked: bool = False) -> Finding:
    if blocked:
        return Finding(check.name, check.says, "left out", ("tasks are no JSON; mend that first",))
    if not subject.tasks and check.name != "set aside":
        return Finding(check.name, check.says, "left out", ("all tasks are quarantined",))
    if check.calls_tools and not subject.run_tools:
        return Finding(check.name, check.says, "left out", (NEEDS_PERMISSION,))
    try:
        found = check.find(subject)
        return _summed_up(check, await found if inspect.isawaitable(found) else list(found))
    except _LeftOut as reason:
        return Finding(check.name, check.says, "left out", (str(reason),))
    except Exception as error:  # the suite's own code: its tasks, environments and scorers may raise anything
        return _summed_up(check, [Problem(f"the suite raised {type(error).__name__}: {error_text(error)}")])


def _summed_up(check: Check, problems: Sequence[Problem]) -> Finding:
    """Failures first."""
    ordered = sorted(problems, key=lambda problem: not problem.fails)
    status: Status = "ok" if not ordered else "failed" if ordered[0].fails else "warning"
    texts = tuple(cap(" ".join(problem.text.split()), MOST_CHARS) for problem in ordered[:MOST_KEPT])
    return Finding(check.name, check.says, status, texts, len(ordered))


# --- before a comparison ---


def quick_problems(suite: Suite, tasks: Sequence[Task]) -> tuple[str, ...]:
    """What is wrong with a suite as far as it shows at once, a line per check; empty where nothing is.

    No tool is called and no model asked: on at most 200 of the tasks the checks of files, the planned arguments, the tools, and
    agents that do nothing or give one answer to all, scored on environments that nothing has touched. 120 tasks take about 0.1 s.
    """
    subject = Subject(suite, _sound(tasks), sampled(_sound(tasks), MOST_QUICK, 0))
    subject = dataclasses.replace(subject, tasks=subject.sample)
    checks = [CHECKS[0], *FILES, *(check for check in OPENED if check.name != "tools" or len(suite.tasks) <= MOST_RUN)]
    checks.append(Check("guessing", "agents that do no work pass next to no task", _guesses_untouched))
    findings = [run_sync(_finding(check, subject)) for check in checks] if subject.tasks else []
    return tuple(_line(finding) for finding in findings if finding.status == "failed")


def _line(finding: Finding) -> str:
    more = f" (and {finding.count - 1} more)" if finding.count > 1 else ""
    return f"{finding.check}: {finding.problems[0]}{more}"


def _guesses_untouched(subject: Subject) -> Iterator[Problem]:
    """Agents whose answer is the same for all tasks, without a trial: nothing would happen in it."""
    constant = [(baseline, baseline.loop(subject.tasks[0])) for baseline in without_calls(subject.tasks)]
    scores: dict[str, list[float]] = {}
    for task in subject.tasks:
        state = _untouched(task, subject.suite)
        for baseline, loop in constant:
            if isinstance(loop, Constant):
                judged = scores_of(Judgement(task, loop.answer, "finished", state))
                scores.setdefault(baseline.name, []).append(judged["accuracy"])
    clusters = [str(task.labels.get("cluster", "")) for task in subject.tasks]
    for baseline, _ in constant:
        if baseline.name in scores:
            yield from map(Problem, _passes_too_many(_as_passed(baseline, subject.tasks, scores[baseline.name], clusters)))


def _untouched(task: Task, suite: Suite) -> Any:
    """The state of a new environment, where it is judged."""
    if task.end_state is None:
        return None
    environment = suite.open(task)
    try:
        return environment.state()
    finally:
        environment.close()


def _as_passed(baseline: Baseline, tasks: Sequence[Task], scores: Sequence[float], clusters: Sequence[str]) -> Passed:
    share = accuracy_interval([[score] for score in scores], clusters)
    return Passed(baseline, share, solved=tuple(task.id for task, score in zip(tasks, scores, strict=True) if score >= 1))
