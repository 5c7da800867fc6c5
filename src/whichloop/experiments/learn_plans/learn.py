"""Plans learned from a run: the calls of trials that solved their tasks, so that the scripted model can follow them.

The input is a run on a real or recorded model, the output the run's suite with plans. Of a task's successful trials it uses the one
with the fewest calls, or the next one if that teaches no plan. If tools may be run, a replay proves what the trace cannot.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import Replayed, carry_out
from whichloop.metrics.answers import Judgement
from whichloop.metrics.record import Record
from whichloop.metrics.scorers import scores_of
from whichloop.metrics.trace import ToolRun
from whichloop.protocol import Plan, PlannedCall, StopReason, Tool, plan_to_json, refs, render_value, resolve
from whichloop.protocol.redact import MARK
from whichloop.protocol.threads import run_blocking
from whichloop.protocol.tools import bounded_toolbox
from whichloop.protocol.values import counted, error_text
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.lookup import suite_of
from whichloop.runs.manifest import read_manifest
from whichloop.runs.permissions import allowed_code, own_code
from whichloop.runs.store.files import RunError, write_whole
from whichloop.runs.store.trials import read_records, read_trace

from .imported_suite import imported_suite, size_of
from .plan_from_trace import (
    FixedValue,
    Kind,
    PlanDraft,
    PlanStep,
    Unlearnable,
    draft_of,
    leaves,
    plan_of,
    successful_calls,
)


@dataclass(frozen=True, slots=True)
class Lesson:
    task: str
    trial: str
    """ARM/TASK/REPEAT."""
    plan: Plan
    fixed_values: tuple[FixedValue, ...]
    """The values that could have been references."""

    @property
    def references(self) -> int:
        """Count the references in arguments and answer."""
        return sum(1 for part in (*(call.arguments for call in self.plan.calls), self.plan.answer) for _ in refs(part))


@dataclass(frozen=True, slots=True)
class LearnedSuite:
    """A run's suite with the plans learned from its trials."""

    run: str
    """The name of the run's directory."""
    checked: bool
    """Whether each plan was replayed and scored 1.0."""
    tasks: tuple[Task, ...]
    """All tasks of the suite, in its order; unchanged if nothing was learned, with the reason if it has no plan."""
    lessons: tuple[Lesson, ...]
    not_learned: Mapping[str, str]
    """Task → reason why no plan was learned."""
    tools: str = ""
    """The value for `--tools` once the tasks are in a file; empty if the function has no name."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "checked": self.checked,
            "tasks": len(self.tasks),
            "learned": len(self.lessons),
            "references": sum(lesson.references for lesson in self.lessons),
            "plans": [
                {"task": lesson.task, "trial": lesson.trial, "calls": len(lesson.plan.calls), "references": lesson.references}
                for lesson in self.lessons
            ],
            "literal": [
                {"task": lesson.task, "call": k.call, "argument": k.argument, "value": k.value, "seen": list(k.seen)}
                for lesson in self.lessons
                for k in lesson.fixed_values
            ],
            "not_learned": [{"task": task, "reason": reason} for task, reason in self.not_learned.items()],
        }


def learn_run(folder: Path, allow: Collection[str] = (), *, check: bool = False, any_order: bool = False) -> LearnedSuite:
    """Learn plans from a run, whose suite is opened again.

    `allow`: names of user code that may be imported. `check`: replay each plan, which runs the tools; plans of whichloop's own
    suites, and of imported traces, are always replayed. `any_order`: the tools only read, so that calls are ordered only by their
    results.
    Raises RunError for a changed run or suite, ValueError or OSError for an unavailable suite.
    """
    config, suite, is_own = open_suite(folder, allow)
    return learn_suite(folder, config, suite, check=check or not is_own, any_order=any_order)


def open_suite(folder: Path, allow: Collection[str] = ()) -> tuple[CompareConfig, Suite, bool]:
    """Return a run's configuration and suite, and whether the suite uses the user's own code. Raises as `learn_run` does."""
    manifest = read_manifest(folder)
    if manifest.imported is not None:
        return CompareConfig(), imported_suite(folder, manifest, read_records(folder)), False
    config = config_from(manifest.config, f"{folder}/manifest.json")
    names = own_code(config.model_copy(update={"loops": ()}))
    allowed_code(folder, names, allow)
    suite = suite_of(config)
    if manifest.suite.digest != suite.digest:
        raise RunError(f"{folder}: the suite {config.suite} has changed since this run: its tasks, its tools or its version")
    return config, suite, bool(names)


def learn_suite(folder: Path, config: CompareConfig, suite: Suite, *, check: bool = False, any_order: bool = False) -> LearnedSuite:
    """Learn plans for a suite from a run on it."""
    name = folder.resolve().name
    records: dict[str, list[Record]] = defaultdict(list)
    for record in read_records(folder):
        records[record.task].append(record)
    tasks: list[Task] = []
    lessons: list[Lesson] = []
    not_learned: dict[str, str] = {}
    for task in suite.tasks:
        if task.quarantined:
            not_learned[task.id] = f"quarantined: {task.quarantined}"
            tasks.append(task)
            continue
        try:
            lesson = _lesson(_PlanLearner(folder, suite, task, check, any_order), _solved(records.get(task.id, ()), name))
            lessons.append(lesson)
            tasks.append(replace(task, plan=lesson.plan, no_plan=""))
        except Unlearnable as error:
            not_learned[task.id] = str(error) if task.plan is None else f"{error}; it keeps the plan that it had"
            tasks.append(replace(task, no_plan=str(error)) if task.plan is None else task)
    opener = getattr(suite.open, "__qualname__", "")
    tools = config.tools or (f"{suite.open.__module__}:{opener}" if opener.isidentifier() else "")
    return LearnedSuite(name, check, tuple(tasks), tuple(lessons), not_learned, tools)


def _solved(records: Iterable[Record], run: str) -> list[Record]:
    """Return the successful trials of a task, the one with the fewest calls first. Raises Unlearnable if there is none."""
    scored = [record for record in records if record.status == "scored"]
    solved = [record for record in scored if record.is_solved]
    if not solved:
        raise Unlearnable(f"not solved in {run}" if scored else f"not run in {run}")
    with_trace = [record for record in solved if record.trace_at]
    if not with_trace:
        raise Unlearnable(f"solved in {run}, but no trace of that was kept")
    return sorted(with_trace, key=size_of)


# --- one task ---


@dataclass(frozen=True, slots=True)
class _PlanLearner:
    folder: Path
    suite: Suite
    task: Task
    check: bool
    any_order: bool

    def lesson(self, record: Record) -> Lesson:
        """Return what a successful trial teaches. Raises Unlearnable if it teaches no plan."""
        trial = record.name
        try:
            events = read_trace(self.folder, record).events
            trial_calls = successful_calls(events)
            if not trial_calls and self.task.expected is not None:
                is_called = any(isinstance(event, ToolRun) for event in events)
                raise Unlearnable(f"{'none of its calls gave a result' if is_called else 'no calls'}: cannot be learned")
            with closing(self.suite.open(self.task)) as environment:  # no tool is run
                kinds = {tool.name: result_kind(tool) for tool in environment.tools}
            draft = draft_of(trial_calls, self.task.query, kinds, any_order=self.any_order)
            plan, fixed_values = self._proved(draft, record) if self.check else self._plan(draft, record, draft.sources.values)
            data = plan_to_json(plan)
            if any(len(path) > MAX_DEPTH for path, _ in leaves(data)):
                raise Unlearnable(f"its calls are nested deeper than {MAX_DEPTH} levels")
            json.dumps(data, ensure_ascii=False, allow_nan=False).encode()  # raises for what no file can hold
            return Lesson(self.task.id, trial, plan, fixed_values)
        except Unlearnable:
            raise
        except Exception as error:  # an invalid trace or the suite's own code; one task must not prevent the plans of others
            raise Unlearnable(f"{trial}: {type(error).__name__}: {error_text(error)}") from error

    def _plan(
        self, draft: PlanDraft, record: Record, values: Mapping[str, Any], state: Any = None
    ) -> tuple[Plan, tuple[FixedValue, ...]]:
        """Return the plan with an answer that is right, given the calls' results. The end state counts if tools were run."""
        task = self.task if self.check else replace(self.task, end_state=None)
        refuted: tuple[FixedValue, ...] = ()
        for answer, fixed_values in _answers(task, record, draft):
            if _is_right(task, answer, values, state):
                return plan_of(draft.steps, answer, task.query), (*draft.fixed_values, *fixed_values, *refuted)
            refuted = refuted or (draft.sources.refuted(answer) if self.check else ())
        state_too = "" if task.end_state is None else ", or not the end state"
        raise Unlearnable(f"its calls give no answer that the scorer {task.scorer} takes for right{state_too}")

    def _proved(self, draft: PlanDraft, record: Record) -> tuple[Plan, tuple[FixedValue, ...]]:
        """Return the plan whose calls replay as they ran; a call that does not loses its references, call by call."""
        while True:
            reached: list[str] = []
            try:
                results, state = run_blocking(self._replayed(draft, reached))
                wrong = _changed_call(draft.steps, results)
            except ValueError as error:
                wrong = reached[-1] if reached else ""
                if not any(step.id == wrong and any(refs(step.arguments)) for step in draft.steps):
                    raise Unlearnable(f"its calls do not replay: {error}") from None
            if wrong is None:
                return self._plan(draft, record, {call.call_id: call.value for call in results}, state)
            draft = draft.with_literals(wrong)

    async def _replayed(self, draft: PlanDraft, reached: list[str]) -> tuple[tuple[Replayed, ...], Any]:
        """Return results and end state; `reached` gets the calls as they are made. Raises ValueError for a call that fails."""
        plan = plan_of(draft.steps, None, self.task.query)
        task = replace(self.task, plan=plan, no_plan="")

        def calls() -> Iterator[PlannedCall]:
            for call in plan.calls:
                reached.append(call.id)
                yield call

        with closing(self.suite.open(task)) as environment:
            return await carry_out(task, calls(), bounded_toolbox(environment.tools)), environment.state()


def _lesson(pupil: _PlanLearner, trials: Sequence[Record]) -> Lesson:
    """Learn from the first trial that teaches a plan. Raises Unlearnable with the first failure if none does."""
    failures = []
    for record in trials:
        try:
            return pupil.lesson(record)
        except Unlearnable as error:
            failures.append(error)
    raise failures[0]


def _changed_call(steps: Sequence[PlanStep], replayed: Sequence[Replayed]) -> str | None:
    """Return the first call whose references give other values than in the run, though the results are the same.

    Such references point into text that only looks like JSON. If results differ, such as in a new id, references may differ too.
    """
    texts = {step.id: step.call.text for step in steps}
    now = {call.call_id: call.text for call in replayed}
    for step, call in zip(steps, replayed, strict=True):
        used = {ref.call for ref in refs(step.arguments)}
        if used and all(texts[name] == now[name] for name in used) and call.arguments != step.call.arguments:
            return step.id
    return None


def _answers(task: Task, record: Record, draft: PlanDraft) -> Iterator[tuple[Any, tuple[FixedValue, ...]]]:
    """Yield what a plan may answer: answers with references first, and the expected answer before the trial's own."""
    if task.expected is None and record.abstained:
        yield None, ()
        return
    values = [value for value in (task.expected, record.answer) if value is not None and MARK not in render_value(value)]
    filled = [draft.sources.answer(value) for value in values]
    yield from ((answer, fixed_values) for answer, fixed_values in filled if any(refs(answer)))
    yield from ((value, fixed_values) for value, (_, fixed_values) in zip(values, filled, strict=True))


def _is_right(task: Task, answer: Any, values: Mapping[str, Any], state: Any) -> bool:
    """Tell whether the answer, as a loop states it, scores 1.0."""
    try:
        stated = "not determined" if answer is None else resolve(answer, values)
    except (KeyError, IndexError, TypeError):  # a reference into text that only looks like JSON
        return False
    if task.query.schema is None:
        stated = render_value(stated)
    return scores_of(Judgement(task, stated, StopReason.FINISHED.value, state))["accuracy"] >= 1


MAX_DEPTH = 60
"""Maximum depth of a plan, which readers of files limit too."""


def result_kind(tool: Tool) -> Kind:
    """Return what a tool gives by its function's return type; if that says nothing, what its results read as."""
    try:
        return _kind(inspect.signature(tool.function, eval_str=True).return_annotation)
    except Exception:  # no signature, or names that only a type checker sees
        return "json"


_WALKED = (dict, list, tuple, Mapping, Sequence, bool, int, float, type(None))
"""Types of results into whose JSON references can point, if their items have these types too."""


def _kind(stated: Any) -> Kind:
    """Return the kind of a type and its parts. Only JSON's own types survive JSON: a date does not read back as a date."""
    origin, parts = get_origin(stated), get_args(stated)
    if origin is Annotated:
        return _kind(parts[0])
    if origin is Literal:
        return _weakest({_kind(type(value)) for value in parts})
    if origin in (Union, UnionType):
        return _weakest({_kind(part) for part in parts})
    kind = origin or stated
    if kind is str:
        return "text"
    if not isinstance(kind, type) or kind in (inspect.Signature.empty, object, Any):
        return "json"
    if not issubclass(kind, _WALKED) or issubclass(kind, Enum | str | bytes):
        return "other"
    keys = parts[:1] if issubclass(kind, Mapping) else ()
    return "other" if set(keys) - {str, Any} or "other" in map(_kind, parts) else "json"


def _weakest(kinds: Collection[Kind]) -> Kind:
    """Return the least of several kinds: a value that may be any of them promises no more."""
    return "other" if "other" in kinds else "text" if set(kinds) == {"text"} else "json"


# --- the file ---


def write_suite(learned: LearnedSuite, out: Path) -> None:
    """Write one line of JSON per task, all of them or none. Raises ValueError if no plan was learned."""
    if not learned.lessons:
        most = Counter(learned.not_learned.values()).most_common(3)
        reasons = "; ".join(f"{counted(n, 'task')}: {reason}" for reason, n in most)
        raise ValueError(f"{learned.run}: no plan was learned ({reasons})")
    lines = [f"{json.dumps(task.as_dict(), allow_nan=False)}\n" for task in learned.tasks]
    write_whole(out, "".join(lines).encode("ascii"))
