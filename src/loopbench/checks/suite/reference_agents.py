"""Agents that say more about a suite than about themselves: one that follows each plan, and others that do no work.

They are loops, run by the harness like any other. The first must solve every task; the others must solve next to none: do-nothing
agents pass 22 of 50 tasks of a well-known benchmark (tau2-bench, issue 224), and lead its table.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from loopbench.datasets.generating import Draw
from loopbench.datasets.task import Suite, Task
from loopbench.datasets.validity import carry_out, planned_answer
from loopbench.datasets.validity.checks import MAX_UNANSWERABLE
from loopbench.metrics.record import Record
from loopbench.metrics.statistics import Interval, accuracy_interval
from loopbench.models.faults import NOT_DETERMINED
from loopbench.models.filling import Unfillable, fits, least
from loopbench.models.profiles import load_profile
from loopbench.protocol import (
    SILENT,
    Capabilities,
    Chunk,
    Loop,
    Message,
    Model,
    ModelError,
    Observer,
    Outcome,
    ProviderError,
    Query,
    Reply,
    Request,
    StopReason,
    Toolbox,
    ToolCall,
    WireError,
)
from loopbench.protocol.digest import canonical_json
from loopbench.protocol.names import Spec
from loopbench.protocol.wire import read_call
from loopbench.runs.schedule import Arm, Trial
from loopbench.runs.trial.setting import FinishedTrial, TrialContext
from loopbench.runs.trial.trial import run_trial
from loopbench.runs.trial_models import TrialModels

SUSPECT, TOO_MANY = 0.05, 0.10
"""A share of tasks that an agent passes without work is too large where it is surely above the first, or above the second at all.

Surely: the whole of its 95 % interval; in a sample of a suite's tasks this alone counts. One task is never too many, however few
there are.
"""

ENDS = frozenset({StopReason.FINISHED})


# --- the agents ---


@dataclass(frozen=True, slots=True)
class Oracle:
    """Makes the calls of one task's plan and gives the plan's answer."""

    task: Task

    name = "oracle"
    stops = ENDS | {StopReason.TERMINATED}

    def with_step_limit(self, tool_steps: int) -> Self:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        assert self.task.plan is not None
        try:
            made = await carry_out(self.task, self.task.plan.calls, tools)
            answer = planned_answer(self.task, made)
        except ValueError as error:
            return Outcome(None, StopReason.TERMINATED, 0, details={"problem": str(error)})
        return Outcome(NOT_DETERMINED if answer is None else answer, StopReason.FINISHED, len(made))


@dataclass(frozen=True, slots=True)
class Blind:
    """Makes the calls that the model wants and never shows it what came of them."""

    steps: int = 3
    """A prompt that stays the same gets the same reply: more would show nothing."""

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
            for call in _readable(reply):
                await tools.call(call)
        return Outcome(None, StopReason.MAX_STEPS, self.steps)


def _readable(reply: Reply) -> Iterator[ToolCall]:
    for call in reply.calls:
        try:
            yield read_call(call)
        except WireError:
            continue


@dataclass(frozen=True, slots=True)
class Constant:
    """Gives one answer to everything and touches nothing."""

    answer: Any = ""
    """The empty text: no answer at all."""

    name = "constant"
    stops = ENDS

    def with_step_limit(self, tool_steps: int) -> Self:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return Outcome(self.answer, StopReason.FINISHED, 0)


@dataclass(frozen=True, slots=True)
class Echo:
    """Answers with the question's own text."""

    name = "echo"
    stops = ENDS

    def with_step_limit(self, tool_steps: int) -> Self:
        return self

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return Outcome(query.full_text, StopReason.FINISHED, 0)


@dataclass(frozen=True, slots=True)
class RandomCalls:
    """Calls tools at random, with words and numbers of the question and of what it has seen; the last result is its answer."""

    seed: int = 0
    calls: int = 5

    name = "random-calls"
    stops = ENDS

    def with_step_limit(self, tool_steps: int) -> Self:
        return replace(self, calls=min(self.calls, tool_steps))

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        draw, shown, answer = Draw("random-calls", self.seed, query.full_text), query.full_text, ""
        specs = tools.specs
        for _ in range(self.calls if specs else 0):
            spec = draw.choice(specs)
            seen = await tools.call(ToolCall(spec.name, _Guesser(draw, shown, spec.parameters).arguments()))
            shown += f" {seen.data[:MAX_SHOWN]}"
            answer = seen.data if seen.ok else answer
        return Outcome(answer or None, StopReason.FINISHED, self.calls)


MAX_SHOWN = 2_000
"""Characters of a result that random calls draw their words from."""
MAX_DEPTH = 5
"""Levels of a schema that random values are drawn for; below them stands the least that is valid."""
_QUOTED = re.compile(r"[\"']([^\"']{1,60})[\"']")
_WORD = re.compile(r"[\w-]+")
_INTEGER = re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.])")


@dataclass(frozen=True, slots=True)
class _Guesser:
    """Draws values that fit a schema, as someone would who has read the text and understood nothing."""

    draw: Draw
    text: str
    root: Mapping[str, Any]
    """The whole schema, which references are looked up in."""

    def arguments(self) -> dict[str, Any]:
        made = self._object(self.root, 0)
        return made if isinstance(made, dict) else {}

    def _value(self, schema: Any, depth: int) -> Any:
        schema = self._resolved(schema)
        if "enum" in schema or "const" in schema:
            return self.draw.choice(schema.get("enum") or [schema.get("const")])
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._value(self.draw.choice(options), depth)
        kind = schema.get("type")
        if depth < MAX_DEPTH and kind == "object":
            return self._object(schema, depth)
        if depth < MAX_DEPTH and kind == "array":
            count = self.draw.integer(max(1, int(schema.get("minItems", 0))), max(2, int(schema.get("minItems", 0))))
            return [self._value(schema.get("items", {}), depth + 1) for _ in range(count)]
        made = self._plain(kind)
        return made if fits(schema, made) else self._least(schema)

    def _plain(self, kind: Any) -> Any:
        if kind == "boolean":
            return self.draw.chance(0.5)
        if kind in ("integer", "number"):
            return int(self.draw.choice(_INTEGER.findall(self.text) or [str(self.draw.integer(0, 100))]))
        if kind == "null":
            return None
        return self.draw.choice((_QUOTED if self.draw.chance(0.5) else _WORD).findall(self.text) or ["x"])

    def _object(self, schema: Mapping[str, Any], depth: int) -> Any:
        required = schema.get("required", ())
        properties: Mapping[str, Any] = schema.get("properties", {})
        return {
            name: self._value(rules, depth + 1) for name, rules in properties.items() if name in required or self.draw.chance(0.5)
        }

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        found: Any = schema if isinstance(schema, Mapping) else {}
        for _ in range(MAX_DEPTH):
            name = str(found.get("$ref", ""))
            if not name.startswith("#/$defs/"):
                return found if isinstance(found, Mapping) else {}
            found = self.root.get("$defs", {}).get(name.removeprefix("#/$defs/"), {})
        return {}

    def _least(self, schema: Mapping[str, Any]) -> Any:
        try:
            return least({**({"$defs": self.root["$defs"]} if "$defs" in self.root else {}), **schema})
        except Unfillable:
            return None


# --- what each may pass ---


@dataclass(frozen=True, slots=True)
class ReferenceAgent:
    """An agent, and how many tasks it may pass."""

    name: str
    says: str
    loop: Callable[[Task], Loop]
    calls_tools: bool = False
    asks_model: bool = False
    """The scripted one, under the profile `clean`: only tasks with a plan can be asked."""
    suspect: float = SUSPECT
    """A share that is surely larger is too large."""
    most: float = TOO_MANY
    """A share that is larger at all is too large."""

    def too_many(self, passed: Interval, *, drawn: bool = False) -> bool:
        """Whether so many passed tasks say that the suite can be solved without work. `drawn`: from more tasks, by chance."""
        surely = passed.low > self.suspect
        return passed.value * passed.n > 1 and (surely or (passed.value > self.most and not drawn))


ORACLE = ReferenceAgent("oracle", "follows the plan", Oracle, calls_tools=True, suspect=1.0, most=1.0)


def baselines(tasks: Iterable[Task], seed: int = 0) -> tuple[ReferenceAgent, ...]:
    """All that do no work. `tasks`: whose most frequent answer one of them gives. `seed`: of the random calls."""
    return (
        ReferenceAgent("blind", "sees no result", lambda task: Blind(), calls_tools=True, asks_model=True),
        ReferenceAgent("random calls", "answers with the last result", lambda task: RandomCalls(seed), calls_tools=True),
        *without_calls(tasks),
    )


def without_calls(tasks: Iterable[Task]) -> tuple[ReferenceAgent, ...]:
    """Those that call no tool."""
    common = Constant(most_frequent_answer(tasks))
    nothing, none, echo = Constant(), Constant(NOT_DETERMINED), Echo()
    return (
        ReferenceAgent("do nothing", "gives no answer", lambda task: nothing),
        ReferenceAgent("same answer", "always the suite's most frequent one", lambda task: common),
        # A right answer to each task that has none: how many there may be is a rule of its own.
        ReferenceAgent("not determined", "always that there is no answer", lambda task: none, suspect=MAX_UNANSWERABLE),
        ReferenceAgent("echo", "answers with the question", lambda task: echo),
    )


def most_frequent_answer(tasks: Iterable[Task]) -> Any:
    """Of the expected ones; the first of equally frequent ones, the empty text where no task has an answer."""
    counts = Counter[str](canonical_json(task.expected) for task in tasks if task.expected is not None)
    return json.loads(counts.most_common(1)[0][0]) if counts else ""


# --- running them ---


class _Nobody:
    """A model for loops that ask none."""

    name = "nobody"
    capabilities = Capabilities()

    async def complete(self, request: Request) -> Reply:
        raise ProviderError("this baseline asks no model", "bad_request")

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))


NOBODY = _Nobody()


@dataclass(frozen=True, slots=True)
class Passed:
    """How many tasks a baseline passed."""

    baseline: ReferenceAgent
    share: Interval | None
    """Mean score over tasks, in [0, 1]; None where none was scored."""
    failed: tuple[str, ...] = ()
    """Tasks with a score below 1."""
    solved: tuple[str, ...] = ()
    """The others."""
    not_scored: tuple[str, ...] = ()
    """Why tasks were not scored, a line each."""
    drawn: bool = False
    """They are a sample of the suite's tasks."""

    @property
    def is_too_many(self) -> bool:
        return self.share is not None and self.baseline.too_many(self.share, drawn=self.drawn)


def bench(suite: Suite, tasks: Sequence[Task]) -> TrialContext:
    """What trials of baselines share. The suite is one of these tasks alone, so that a large one's digest is not taken."""
    return TrialContext(replace(suite, tasks=tasks, step_limit=suite.max_tool_steps), TrialModels({NOBODY.name: NOBODY}))


async def trial(baseline: ReferenceAgent, task: Task, setting: TrialContext) -> FinishedTrial:
    """One baseline on one task, as the harness runs any loop."""
    loop = baseline.loop(task).with_step_limit(setting.suite.max_tool_steps)
    model = "scripted" if baseline.asks_model else NOBODY.name
    arm = Arm(baseline.name, Spec(loop.name, {}), loop, model, load_profile("clean"))
    return await run_trial(Trial(arm, task, 0, 0), setting)


def passed(baseline: ReferenceAgent, records: Iterable[Record], *, drawn: bool = False) -> Passed:
    """What a baseline's trials, one per task, come to. `drawn`: the tasks are a sample."""
    found = list(records)
    scored = [record for record in found if record.status == "scored"]
    share = None
    if scored:
        share = accuracy_interval([[record.accuracy] for record in scored], [record.cluster for record in scored])
    return Passed(
        baseline,
        share,
        tuple(record.task for record in scored if record.accuracy < 1),
        tuple(record.task for record in scored if record.accuracy >= 1),
        tuple(f"task {record.task!r}: {record.status}: {record.reason}" for record in found if record.status != "scored"),
        drawn,
    )
