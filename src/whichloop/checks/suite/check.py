"""The laws of suites, of files for all tasks, of tools for a sample of them; and what runs them, quickly before a comparison."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Suite, Task, is_by_construction, states_its_answer
from whichloop.datasets.validity import Replayed, checks, replay
from whichloop.datasets.validity.checks import Problem, schema_problems
from whichloop.datasets.validity.replay import gold_problems, order_problems, state_problems
from whichloop.metrics.answers import Judgement
from whichloop.metrics.scorers import scorer_named, scores_of
from whichloop.metrics.statistics import accuracy_interval
from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.receipts import call_digest
from whichloop.protocol import Toolbox, ToolSpec, render_value, resolve
from whichloop.protocol.json_text import canonical_json, whole_numbers_as_int
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.values import cap, counted, error_text
from whichloop.runs.lookup import answer_score, compares, made_by
from whichloop.runs.trial.trial import FinishedTrial

from ..shared.law import MAX_CHARS, Finding, Law, NotApplicable, Progress, judged, unwatched
from .reference_agents import NOBODY, ORACLE, BaselineResult, baselines, bench, passed, trial, without_calls

MAX_RUN = 1_000
"""Default number of tasks whose tools are called."""


@dataclass(frozen=True)
class Subject:
    suite: Suite
    tasks: Sequence[Task]
    """The tasks that are not quarantined."""
    sample: Sequence[Task]
    """The tasks whose tools are checked and called."""
    drawn: bool = False
    """Whether `tasks` are a sample."""
    run_tools: bool = True
    """Whether tools may be called; they may act on the real world."""
    progress: Progress = unwatched
    specs: dict[str, tuple[ToolSpec, ...]] = field(default_factory=dict)
    """Task → its tools, for opened environments."""
    truths: dict[str, tuple[Replayed, ...]] = field(default_factory=dict)
    """Task → its replayed plan, for the plans in the sample that replay."""
    baselines: list[BaselineResult] = field(default_factory=list)
    """The results of the baselines, in the order of running."""

    def with_plans(self) -> list[Task]:
        """Return the tasks of the sample with a plan. Raises NotApplicable if there are none."""
        if planned := [task for task in self.sample if task.plan is not None]:
            return planned
        raise NotApplicable("no task has a plan")

    def specs_of(self, task: Task) -> tuple[ToolSpec, ...]:
        if task.id not in self.specs:
            with closing(self.suite.open(task)) as environment:
                self.specs[task.id] = tuple(tool.spec for tool in environment.tools)
        return self.specs[task.id]

    def each(self, law: str, tasks: Sequence[Task]) -> Iterator[Task]:
        """Yield the tasks one by one, reporting progress."""
        for done, task in enumerate(tasks):
            self.progress(law, done, len(tasks))
            yield task


def sound(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return the tasks without quarantined ones; the sequence itself if there are none, which may read its file as needed."""
    return [task for task in tasks if not task.quarantined] if any(task.quarantined for task in tasks) else tasks


def sampled(tasks: Sequence[Task], most: int) -> Sequence[Task]:
    """Return at most so many tasks, drawn evenly, in their order."""
    if len(tasks) <= most:
        return tasks
    draw, places = Draw("sample", 0), set[int]()
    while len(places) < most:
        places.add(draw.integer(0, len(tasks) - 1))
    return tuple(tasks[place] for place in sorted(places))


def _plain_json(subject: Subject) -> Iterator[Problem]:
    for task in subject.tasks:
        try:
            canonical_json(task.as_dict())
        except (TypeError, ValueError, RecursionError) as error:
            yield Problem(f"task {task.id!r} is not JSON: {error}")


def _of_each(check: Callable[[Task], Iterable[Problem]]) -> Callable[[Subject], Iterator[Problem]]:
    return lambda subject: (problem for task in subject.tasks for problem in check(task))


def _answers(subject: Subject) -> Iterator[Problem]:
    for task in subject.tasks:
        if ":" in task.scorer:  # a user's own scorer, which may call a model
            continue
        right = NOT_DETERMINED if task.expected is None else task.expected
        try:
            scorer_named(task.scorer)
            if not compares(task):
                continue
            score, nothing = answer_score(task, right), max(answer_score(task, ""), answer_score(task, None))
        except Exception as error:  # an unknown scorer or an invalid schema
            yield Problem(f"task {task.id!r}, scorer {task.scorer}: {type(error).__name__}: {error_text(error)}")
            continue
        if score < 1:
            yield Problem(f"task {task.id!r}: {right!r} is expected, and gets {score:g} from scorer {task.scorer}")
        if nothing > 0:
            yield Problem(f"task {task.id!r}: an empty answer counts as right")


def _splits(subject: Subject) -> Iterable[Problem]:
    if any(task.labels.get("split") for task in subject.tasks):
        return checks.split_problems(subject.tasks)
    raise NotApplicable("no task says which split it is in")


def _arguments(subject: Subject) -> Iterator[Problem]:
    for task in subject.each("arguments", subject.with_plans()):
        yield from checks.argument_problems(task, subject.specs_of(task))


def _tools(subject: Subject) -> Iterator[Problem]:
    """Compare the plans of all tasks with the tools of those in the sample."""
    every, distractors = subject.suite.tasks, subject.suite.distractors
    if not any(task.plan for task in every):
        raise NotApplicable("no task has a plan")
    available = {spec.name for task in subject.each("tools", subject.sample) for spec in subject.specs_of(task)}
    if len(subject.sample) < len(every):  # a sample may lack a distractor that other tasks have
        distractors = distractors & available
    yield from checks.tool_problems(every, available, distractors)


async def _gold(subject: Subject) -> list[Problem]:
    """Check names and descriptions, and also results if tools may be called."""
    problems: list[Problem] = []
    visible: dict[str, str] = {}
    for task in subject.each("gold", subject.sample):
        found = await _task_check(gold_problems, task, subject, subject.truths.get(task.id, ()))
        problems += found
        if not found:  # all that a loop sees before it calls a tool
            shown = [f"{tool.name} {tool.description}" for tool in subject.specs_of(task)]
            visible[task.id] = " ".join([task.query.full_text, *shown])
    seen = [task for task in subject.sample if task.id in visible]
    return [*problems, *checks.told_problems(seen, lambda task: visible[task.id])]


async def _replays(subject: Subject) -> list[Problem]:
    tasks = subject.with_plans()
    setting, problems, records = bench(subject.suite, tasks), [], []
    for task in subject.each("replay", tasks):
        finished = await trial(ORACLE, task, setting)
        records.append(finished.record)
        if finished.record.status != "scored" or not finished.record.is_solved:
            problems.append(Problem(why_it_failed(task, finished)))
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
    found, expected = (cap(canonical_json(trace["end_state"][which]), MAX_CHARS // 2) for which in ("found", "expected"))
    return f"task {task.id!r}: after the plan the state is {found}, expected is {expected}"


def _receipts(subject: Subject) -> Iterator[Problem]:
    """Check receipts, including those of alternatives, which must differ from other calls. Equal integers count as equal."""
    for task in subject.with_plans():
        if task.plan is None or (truth := subject.truths.get(task.id)) is None:
            continue
        values = {call.call_id: call.value for call in truth if not call.failed}
        owners: dict[str, str] = {}
        for call, form in [(one, form) for one in task.plan.calls for form in (one, *one.alternatives)]:
            try:
                arguments = resolve(form.arguments, values)
            except (KeyError, IndexError, TypeError):  # an alternative that needs a result that this replay lacks
                continue
            receipt = call_digest(form.tool, whole_numbers_as_int(arguments))
            if owners.setdefault(receipt, call.id) != call.id:
                both = f"calls {owners[receipt]!r} and {call.id!r}"
                yield Problem(f"task {task.id!r}: {both} have the same receipt, {receipt} (3.0 counts as 3)")


TaskCheck = Callable[[Task, Suite, Sequence[Replayed]], Awaitable[list[str]]]


def _per_task(name: str, check: TaskCheck) -> Callable[[Subject], Awaitable[list[Problem]]]:
    """Return a check of single tasks whose plan replays."""

    async def find(subject: Subject) -> list[Problem]:
        tasks = [task for task in subject.with_plans() if task.id in subject.truths]
        each = subject.each(name, tasks)
        return [problem for task in each for problem in await _task_check(check, task, subject, subject.truths[task.id])]

    return find


async def _task_check(check: TaskCheck, task: Task, subject: Subject, truth: Sequence[Replayed]) -> list[Problem]:
    try:
        return [Problem(text) for text in await check(task, subject.suite, truth)]
    except Exception as error:  # the suite's own code
        return [Problem(f"task {task.id!r}: {type(error).__name__}: {error_text(error)}")]


async def _guessing(subject: Subject) -> list[Problem]:
    """Run the baselines; those that call no tool cost nothing and get many tasks, whatever the sample."""
    wide = sampled(subject.tasks, MAX_RUN)
    problems: list[Problem] = []
    for baseline in baselines(subject.tasks):
        if baseline.calls_tools and not subject.run_tools:
            continue
        tasks = subject.sample if baseline.calls_tools else wide
        setting = bench(subject.suite, tasks)
        records = [(await trial(baseline, task, setting)).record for task in subject.each(baseline.name, tasks)]
        result = passed(baseline, records, drawn=subject.drawn or len(tasks) < len(subject.tasks))
        subject.baselines.append(result)
        # What the suite's scorer or environment made fail; no baseline uses a provider.
        errors = (f"{baseline.name}: task {one.task!r}: {one.reason}" for one in records if one.status == "errored")
        problems += map(Problem, (*result.too_many(), *errors))
    return problems


def _constructed(subject: Subject) -> Iterator[Problem]:
    """Tell of tasks that say so themselves, and of those whose plan states an answer that none of its calls gives."""
    stated = [task for task in subject.tasks if states_its_answer(task) and compares(task) and not is_by_construction(task)]
    problems = list(checks.constructed(subject.suite.tasks))
    if stated and not problems and not subject.truths:
        states = counted(len(stated), "plan states its answer", "plans state their answers")
        raise NotApplicable(f"{states}; only --run-tools shows whether a call gives it")
    yield from problems
    truths = subject.truths
    if not_given := [task.id for task in stated if task.id in truths and not is_given(task, truths[task.id])]:
        what = f"{len(not_given)} × the plan states an answer that none of its calls gives ({checks.some(not_given)})"
        yield Problem(what, False)


def is_given(task: Task, calls: Iterable[Replayed]) -> bool:
    """Return whether the result of a call, or a part of it, is the right answer."""
    parts = (part for call in calls if not call.failed for part in _parts(call.value))
    return any(answer_score(task, part if task.query.schema else render_value(part)) >= 1 for part in parts)


def _parts(value: object) -> Iterator[Any]:
    yield value
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _parts(item)


FILES = (
    Law("json", "tasks are plain JSON", _plain_json),
    Law("plans", "a task has a plan that makes calls, or says why it has none", _of_each(checks.plan_problems)),
    Law("goals", "the goal of a call is not part of the question or of another goal", _of_each(checks.goal_problems)),
    Law("schemas", "answer schemas are valid and accept the expected answer", lambda s: checks.schema_problems(s.tasks)),
    Law("answers", "the task's scorer accepts the expected answer, and rejects an empty one", _answers),
    Law("unanswerable", "at most one task in ten has no answer", lambda s: checks.unanswerable_problems(s.tasks)),
    Law("splits", "no instance and no question is in two splits", _splits),
    Law("copies", "no two tasks ask the same question about the same data", lambda s: checks.copy_problems(s.tasks)),
    Law(
        "near copies",
        "no task is solved by the answer of a near copy (numbers masked)",
        lambda s: checks.likeness_problems(s.tasks),
    ),
    Law("arguments", "planned arguments match the tools' schemas", _arguments),
    Law("tools", "each tool is used by a plan, or declared a distractor", _tools),
)
"""What calls no tool and runs no agent."""
_ORDER, _STATE = _per_task("order", order_problems), _per_task("state", state_problems)
CHECKS: tuple[Law, ...] = (
    *FILES,
    Law("replay", "each plan scores 1.00, by answer and end state", _replays, calls_tools=True),
    Law("receipts", "calls are JSON, and no two calls of a task have the same receipt", _receipts, calls_tools=True),
    Law("order", "calls give the same results in any order that a plan allows", _ORDER, calls_tools=True),
    Law("state", "trials start from the same state and do not affect each other", _STATE, calls_tools=True),
    Law("gold", "no question, tool or result reveals what a loop must not see", _gold),
    Law("guessing", "agents that do no work solve almost no task", _guessing),
    Law("by construction", "a call of the plan yields the answer", _constructed),
    Law("set aside", "every task has a plan, and none is quarantined", lambda s: checks.set_aside(s.suite.tasks)),
)

_TASK_CHECKS = frozenset({"json", "plans", "goals", "schemas", "answers", "unanswerable", "arguments", "replay", "receipts"})
"""Names of the laws that cover tasks one by one and replay their plans."""


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
    run_tools: bool = True,
    progress: Progress = unwatched,
) -> Checked:
    """Check every law on a suite, in the order of CHECKS.

    `tasks`: number of tasks, drawn evenly, whose tools are checked and called; default: all up to 1,000. `run_tools=False`
    skips laws that call a tool. Raises ValueError for `tasks` below 1.
    """
    if tasks is not None and tasks < 1:
        raise ValueError(f"tasks is {tasks}, and must be at least 1")
    usable = sound(suite.tasks)
    read = sampled(usable, 100_000)
    sample = sampled(read, MAX_RUN if tasks is None else tasks)
    subject = Subject(suite, read, sample, len(read) < len(usable), run_tools, progress)
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
            why_not = "calls tools that may act on the real world; --run-tools allows it"
        findings.append(Finding(law.name, "not run", why_not) if why_not else await judged(law, subject, "suite"))
    return findings


MAX_QUICK, MAX_QUICKLY_OPENED, MAX_QUICK_SCHEMAS = 200, 40, 5
"""Maximum number of tasks in a quick check, of tasks whose tools are checked, and of answer schemas."""


def quick_problems(suite: Suite, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the problems of a suite that quick checks find, one line per law.

    They call no tool and no model, and cover at most 200 tasks: files, planned arguments, tools, and agents that do nothing or
    always give one answer, scored on untouched environments. 120 tasks take about 0.1 s.
    """
    usable = sound(sampled(tasks, MAX_QUICK))
    is_sample = min(len(tasks), MAX_QUICK) < len(suite.tasks)  # such as one split
    subject = Subject(suite, usable, sampled(usable, MAX_QUICKLY_OPENED), is_sample)
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
        scores = []
        for task, answer in zip(tasks, answers, strict=True):
            scores.append(answer_score(task, answer))
            if task.end_state is not None and scores[-1]:  # an environment is opened only if its state matters
                with closing(subject.suite.open(task)) as environment:
                    scores[-1] = scores_of(Judgement(task, answer, "finished", environment.state()))["accuracy"]
        share = accuracy_interval([[score] for score in scores], [str(task.labels.get("cluster", "")) for task in tasks])
        solved = tuple(task.id for task, score in zip(tasks, scores, strict=True) if score >= 1)
        problems += map(Problem, BaselineResult(baseline, share, solved=solved, drawn=subject.drawn).too_many())
    return problems
