"""Reference agents that test a suite: one that follows each plan, and others that do no work.

They are loops, run by the harness like any other. The first must solve every task, the others almost none: do-nothing agents pass
22 of 50 tasks of a well-known benchmark (tau2-bench, issue 224), and lead its table.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from whichloop.datasets.generating import Draw
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import Replayed, carry_out, planned_answer
from whichloop.datasets.validity.checks import MAX_UNANSWERABLE
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import Interval, accuracy_interval
from whichloop.models.faults import NOT_DETERMINED
from whichloop.models.filling import Unfillable, fill, least
from whichloop.models.profiles import load_profile
from whichloop.protocol import SILENT, Loop, Message, Observer, Outcome, Query, Reply, StopReason, Toolbox, ToolCall, WireError
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.model import FunctionModel, Model, ModelError, ProviderError, Request
from whichloop.protocol.names import SCRIPTED, Spec
from whichloop.protocol.values import counted
from whichloop.protocol.wire import read_call
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.trial.trial import FinishedTrial, TrialContext, run_trial
from whichloop.runs.trial_models import TrialModels

SUSPECT, TOO_MANY = 0.05, 0.10
"""Limits of the share of tasks that an agent passes without work, for the lower end of its 95 % interval and for its value.

In a sample of a suite's tasks only the interval counts. A single passed task is always allowed.
"""
ENDS = frozenset({StopReason.FINISHED})
MAX_SHOWN = 2_000
"""Maximum number of characters of a result that random calls draw words from."""
_QUOTED, _WORD = re.compile(r"[\"']([^\"']{1,60})[\"']"), re.compile(r"[\w-]+")
_INTEGER = re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.])")


class _Agent:
    """A loop that needs no limit."""

    stops = ENDS

    def with_step_limit(self, tool_steps: int) -> Self:
        return self


@dataclass(frozen=True, slots=True)
class Oracle(_Agent):
    """An agent that makes the calls of one task's plan and gives the plan's answer."""

    task: Task
    replayed: list[Replayed] = field(default_factory=list, compare=False)
    """The calls of its run, for who judges the plan; empty where one could not be made."""

    name = "oracle"
    stops = ENDS | {StopReason.TERMINATED}

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        assert self.task.plan is not None
        try:
            calls = await carry_out(self.task, self.task.plan.calls, tools)
            self.replayed.extend(calls)
            answer = planned_answer(self.task, calls)
        except ValueError as error:
            return Outcome(None, StopReason.TERMINATED, 0, details={"problem": str(error)})
        return Outcome(NOT_DETERMINED if answer is None else answer, StopReason.FINISHED, len(calls))


@dataclass(frozen=True, slots=True)
class Blind(_Agent):
    """An agent that makes the model's calls and never shows it the results."""

    steps: int = 3
    """Number of steps; a constant prompt gets the same reply, so more would not help."""

    name = "blind"
    stops = ENDS | {StopReason.MAX_STEPS, StopReason.PROVIDER_ERROR}

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, steps=min(self.steps, tool_steps))

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        request = Request((Message("user", query.full_text),), tools.specs)
        for step in range(1, self.steps + 1):
            try:
                reply = await model.complete(request)
            except ModelError:
                return Outcome(None, StopReason.PROVIDER_ERROR, step)
            if not reply.calls:
                return Outcome(reply.text, StopReason.FINISHED, step)
            for call in reply.calls:
                with contextlib.suppress(WireError):
                    await tools.call(read_call(call))
        return Outcome(None, StopReason.MAX_STEPS, self.steps)


@dataclass(frozen=True, slots=True)
class Answering(_Agent):
    """An agent that calls no tool and answers without thinking."""

    answer: Callable[[Query], Any]
    """What it answers a question with; an empty text means no answer."""

    name = "answering"

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return Outcome(self.answer(query), StopReason.FINISHED, 0)


@dataclass(frozen=True, slots=True)
class RandomCalls(_Agent):
    """An agent that calls random tools with words and numbers of the question and the results, and answers with the last result."""

    calls: int = 5

    name = "random-calls"

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, calls=min(self.calls, tool_steps))

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        draw, text, answer = Draw("random-calls", 0, query.full_text), query.full_text, ""
        specs = tools.specs
        for _ in range(self.calls if specs else 0):
            spec = draw.choice(specs)
            schema, required = spec.parameters, spec.parameters.get("required", ())
            chosen = [name for name in schema.get("properties", {}) if name in required or draw.chance(0.5)]
            observation = await tools.call(ToolCall(spec.name, {name: _random_value(draw, text, schema, name) for name in chosen}))
            text += f" {observation.data[:MAX_SHOWN]}"
            answer = observation.data if observation.ok else answer
        return Outcome(answer or None, StopReason.FINISHED, self.calls)


def _random_value(draw: Draw, text: str, schema: Mapping[str, Any], name: str) -> Any:
    """Return a value for an argument, with a word or a number of a text in it where the schema has room for one."""
    rules = {"$defs": schema.get("$defs", {}), **schema["properties"][name]}
    number = int(draw.choice(_INTEGER.findall(text) or [str(draw.integer(0, 100))]))
    word = draw.choice((_QUOTED if draw.chance(0.5) else _WORD).findall(text) or ["x"])
    for value in (*([draw.choice(rules["enum"])] if rules.get("enum") else []), number, word, draw.chance(0.5)):
        with contextlib.suppress(Unfillable):
            return fill(rules, value)
    with contextlib.suppress(Unfillable):
        return least(rules)
    return None


@dataclass(frozen=True, slots=True)
class ReferenceAgent:
    """An agent, with limits for the share of tasks that it may pass."""

    name: str
    text: str
    """What it does."""
    loop: Callable[[Task], Loop]
    calls_tools: bool = False
    asks_model: bool = False
    """Whether it uses the scripted model under the profile `clean`, which needs tasks with a plan."""
    suspect: float = SUSPECT
    """The limit for the lower bound of the share."""
    most: float = TOO_MANY
    """The limit for the share itself."""


ORACLE = ReferenceAgent("oracle", "follows the plan", Oracle, calls_tools=True, suspect=1.0, most=1.0)


def baselines(tasks: Iterable[Task]) -> tuple[ReferenceAgent, ...]:
    """Return all agents that do no work. `tasks` give the most frequent answer."""
    return (
        ReferenceAgent("blind", "sees no result", lambda task: Blind(), calls_tools=True, asks_model=True),
        ReferenceAgent("random calls", "answers with the last result", lambda task: RandomCalls(), calls_tools=True),
        *without_calls(tasks),
    )


def without_calls(tasks: Iterable[Task]) -> tuple[ReferenceAgent, ...]:
    """Return the agents that call no tool."""
    counts = Counter[str](canonical_json(task.expected) for task in tasks if task.expected is not None)
    common = json.loads(counts.most_common(1)[0][0]) if counts else ""

    def answering(name: str, text: str, answer: Callable[[Query], Any], suspect: float = SUSPECT) -> ReferenceAgent:
        loop = Answering(answer)
        return ReferenceAgent(name, text, lambda task: loop, suspect=suspect)

    return (
        answering("do nothing", "gives no answer", lambda query: ""),
        answering("same answer", "always the suite's most frequent one", lambda query: common),
        # This is the right answer to each task without an answer, whose number has its own limit.
        answering("not determined", "always that there is no answer", lambda query: NOT_DETERMINED, MAX_UNANSWERABLE),
        answering("echo", "answers with the question", lambda query: query.full_text),
    )


async def _refuse(request: Request) -> Reply:
    raise ProviderError("this baseline asks no model", "bad_request")


NOBODY = FunctionModel(_refuse, name="nobody")


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """The tasks that a baseline passed."""

    baseline: ReferenceAgent
    share: Interval | None
    """The mean score over tasks, in [0, 1]; None if none was scored."""
    solved: tuple[str, ...] = ()
    """Tasks with a score of 1."""
    not_scored: tuple[str, ...] = ()
    """The reasons why tasks were not scored, a line each."""
    drawn: bool = False
    """Whether they are a sample of the suite's tasks."""

    @property
    def is_too_many(self) -> bool:
        """Whether the share shows that the suite can be solved without work."""
        if self.share is None:
            return False
        surely, seemingly = self.share.low > self.baseline.suspect, self.share.value > self.baseline.most and not self.drawn
        return self.share.value * self.share.n > 1 and (surely or seemingly)

    def too_many(self) -> Iterator[str]:
        """Yield a line if it passes too many tasks."""
        if self.share is not None and self.is_too_many:
            which = ", ".join(self.solved[:3]) + (", …" if len(self.solved) > 3 else "")
            share = f"{self.share.value:.1%} of {counted(self.share.n, 'task')} [{self.share.low:.1%}, {self.share.high:.1%}]"
            yield f"{self.baseline.name} ({self.baseline.text}) passes {share}: {which}"


def bench(suite: Suite, tasks: Sequence[Task]) -> TrialContext:
    """Return the context of baseline trials, with a suite of only these tasks to avoid the digest of a large one."""
    return TrialContext(replace(suite, tasks=tasks, step_limit=suite.max_tool_steps), TrialModels({NOBODY.name: NOBODY}))


async def trial(baseline: ReferenceAgent, task: Task, setting: TrialContext) -> FinishedTrial:
    """Run one baseline on one task like any other loop."""
    loop = baseline.loop(task).with_step_limit(setting.suite.max_tool_steps)
    model = SCRIPTED if baseline.asks_model else NOBODY.name
    arm = Arm(baseline.name, Spec(loop.name, {}), loop, model, load_profile("clean"))
    return await run_trial(Trial(arm, task, 0, 0), setting)


def passed(baseline: ReferenceAgent, records: Iterable[Record], *, drawn: bool = False) -> BaselineResult:
    """Summarize a baseline's trials, one per task. `drawn`: the tasks are a sample."""
    trials = list(records)
    scored = [record for record in trials if record.status == "scored"]
    share = accuracy_interval([[one.accuracy] for one in scored], [one.cluster for one in scored]) if scored else None
    solved = tuple(record.task for record in scored if record.is_solved)
    lost = tuple(f"task {one.task!r}: {one.status}: {one.reason}" for one in trials if one.status != "scored")
    return BaselineResult(baseline, share, solved, lost, drawn)
