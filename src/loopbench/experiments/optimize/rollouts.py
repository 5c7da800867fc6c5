"""Rollouts: an optimizer's calls of a program, each an ordinary trial, asked once, kept, and bounded by the design's budget.

A rollout is known by (program, task, draw). Asked again it costs nothing, whether the optimizer repeats itself, DSPy takes one for
a straggler and submits it a second time, or the whole optimization is gone through again after a kill: a teleprompter that is given
the same answers does the same, so that the log is all that a resume needs.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Any

from loopbench.datasets.task import Task
from loopbench.dspy_seam.program import PredictorCall, ProgramResult, ReportingModel, SampledPrediction, loop_with
from loopbench.metrics.record import Record
from loopbench.metrics.trace import Trace
from loopbench.models.metering import Meter
from loopbench.models.receipts import strip_receipts
from loopbench.protocol import SILENT, Loop, Model, Observer, Outcome, Program, Query, StopReason, Toolbox, program_digest
from loopbench.protocol.redact import redact
from loopbench.runs.engine.runner import FIRST_FAILURES
from loopbench.runs.run_state import MAX_ATTEMPTS
from loopbench.runs.schedule import Arm, Trial
from loopbench.runs.store.files import RunError
from loopbench.runs.trial.setting import FinishedTrial, NotRun, TrialContext
from loopbench.runs.trial.trial import run_trial

from .candidates import Candidate, SearchCost, Watcher
from .event_loop_thread import Background
from .feedback import feedback
from .log import JsonLinesLog, read_log


class BudgetSpent(BaseException):
    """The design's budget is used up. No Exception: optimizers swallow those, and would go on."""


class RunStopped(BaseException):
    """The run is being left, or nothing works any more; the message says which."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """What a rollout gave, without receipts."""

    record: Record
    calls: tuple[PredictorCall, ...]
    feedback: str
    spent: SearchCost
    """In all its attempts."""
    is_beyond: bool = False
    """It was asked beyond the budget, for dev scores: the search never had it."""

    @property
    def score(self) -> float:
        return self.record.scores.get("accuracy", 0.0)

    def to_json(self) -> dict[str, Any]:
        calls = [[call.predictor, dict(call.inputs), dict(call.outputs)] for call in self.calls]
        spent = self.spent.to_json()
        return {
            "record": self.record.to_json(),
            "calls": calls,
            "feedback": self.feedback,
            "spent": spent,
            "beyond": self.is_beyond,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rollout:
        """Raises KeyError, TypeError, ValueError, AttributeError or IndexError for what is none."""
        calls = tuple(PredictorCall(str(name), dict(inputs), dict(outputs)) for name, inputs, outputs in data["calls"])
        record, spent = Record.from_json(data["record"]), SearchCost.from_json(data["spent"])
        return cls(record, calls, str(data["feedback"]), spent, bool(data["beyond"]))


@dataclass(frozen=True, slots=True)
class Key:
    """Which rollout."""

    program: str
    task: str
    draw: int
    temperature: float | None

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Key:
        program, task, draw, temperature = data
        return cls(str(program), str(task), int(draw), temperature)

    def to_json(self) -> list[Any]:
        return [self.program, self.task, self.draw, self.temperature]


class ReportingLoop:
    """A loop whose requests are noted down as demonstrations would show them."""

    def __init__(self, loop: Loop, calls: list[PredictorCall], temperature: float | None) -> None:
        self.loop = loop
        self.calls = calls
        self.temperature = temperature

    @property
    def name(self) -> str:
        return self.loop.name

    @property
    def stops(self) -> frozenset[StopReason]:
        return self.loop.stops

    def with_step_limit(self, tool_steps: int) -> ReportingLoop:
        return ReportingLoop(self.loop.with_step_limit(tool_steps), self.calls, self.temperature)

    async def run(self, query: Query, tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome:
        return await self.loop.run(query, tools, ReportingModel(model, self.calls, self.temperature), observer)


@dataclass(frozen=True, slots=True)
class RolloutRules:
    """How rollouts are drawn, and what becomes of one beyond the budget."""

    seed: int
    is_soft: bool = False
    """Such a rollout scores 0 instead of ending the compile, for optimizers that only collect."""


class Rollouts:
    """The runner of one design's program (see `dspy_seam.program.Runner`). Any number of threads may call it."""

    def __init__(
        self,
        arm: Arm,
        tasks: Mapping[str, tuple[str, Task]],
        setting: TrialContext,
        background: Background,
        log: Path,
        watcher: Watcher,
        rules: RolloutRules,
    ) -> None:
        """`tasks`: id → split and task, of the splits that an optimizer may see. `setting.meter` holds the budget.

        Raises RunError for a log that cannot be read.
        """
        self.arm = arm
        self.tasks = tasks
        self.setting = setting
        self.background = background
        self.watcher = watcher
        self.seed = rules.seed
        self.is_soft = rules.is_soft
        self.candidates: dict[str, Candidate] = {}
        """By digest, in the order in which they were tried."""
        self.search = SearchCost()
        self.evaluation = SearchCost()
        self.errored = 0
        """Rollouts that infrastructure made fail, for good."""
        self._scores: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._known: dict[Key, Future[Rollout | None]] = {}
        self.used_predictors: set[str] = set()
        """Predictors that a rollout has asked."""
        self._reported: set[Key] = set()
        self._lock = RLock()
        self._failed_in_a_row = 0
        self._last_failure = ""
        self._logged = _logged(log)
        self._log = JsonLinesLog(log)

    def close(self) -> None:
        self._log.close()

    def __call__(self, loop: Loop, program: Program, inputs: Mapping[str, Any], sampled: SampledPrediction) -> ProgramResult:
        """Raises BudgetSpent and RunStopped."""
        task_id = self._task_id(inputs)
        with self._lock:
            key = Key(self.candidate(program).digest, task_id, sampled.rollout, sampled.temperature)
            future = self._asked(key, loop, program, self.setting)
        rollout = self._scored(key, _result(future))
        if rollout is None:
            if not self.is_soft:
                raise BudgetSpent(self.setting.meter.exhausted)
            return ProgramResult({"answer": None, "score": 0.0, "feedback": "", "stop": "budget", "status": "spent"}, ())
        self.check_alive()
        record = rollout.record
        fields = {"answer": record.answer, "score": rollout.score, "feedback": rollout.feedback}
        return ProgramResult({**fields, "stop": record.stop, "status": record.status}, rollout.calls)

    @property
    def spent(self) -> SearchCost:
        """What the search took, with the rollouts that its budget cut short."""
        meter, found = self.setting.meter, self.search
        dollars = None if found.dollars is None and not meter.dollars else meter.dollars
        return SearchCost(found.trials, meter.calls, meter.tokens, dollars)

    def candidate(self, program: Program) -> Candidate:
        """The candidate that a program is, as far as it is known; a new one where it has not been seen."""
        digest = program_digest(program)
        with self._lock:
            known = self.candidates.get(digest)
            if known is None:
                known = self.candidates[digest] = Candidate(len(self.candidates), digest, program)
                if known.number == 0:
                    self.watcher.began(str(self.arm.spec), known)
                else:
                    self.watcher.tried(str(self.arm.spec), known)
            return known

    def best(self) -> Candidate:
        """The best so far, of equals the first: on all dev tasks, where several were scored on them; else on all train tasks; else
        by how far each is ahead of the design's own program, added up over the tasks that both were scored on."""
        found = [*self.candidates.values()]
        for split in ("dev", "train"):
            wanted = {name for name, (where, _) in self.tasks.items() if where == split}
            scored = {item.digest: scores for item in found if wanted <= (scores := getattr(item, split)).keys()}
            if len(scored) > 1:
                return max((item for item in found if item.digest in scored), key=lambda item: sum(scored[item.digest].values()))
        return max(found, key=lambda item: _ahead(item, found[0]))

    def dev_scores(self, loop: Loop, program: Program) -> dict[str, float]:
        """Dev task → score of the program's first rollout, errored ones left out; what is missing is run now, beyond the budget."""
        candidate = self.candidate(program)
        setting = replace(self.setting, meter=Meter())
        keys = [Key(candidate.digest, task_id, 0, None) for task_id, (split, _) in self.tasks.items() if split == "dev"]
        waiting = [self._asked(key, loop, program, setting) for key in keys]
        found = {}
        for key, future in zip(keys, waiting, strict=True):
            rollout = _result(future)
            if rollout is None:  # still under way when the search ended, and then cut short by its budget
                rollout = _result(self._asked(key, loop, program, setting))
            if (scored := self._scored(key, rollout)) is not None and scored.record.status == "scored":
                found[key.task] = scored.score
        return found

    def proposed(self, spent: SearchCost) -> None:
        """Tells the watcher of the optimizer's own requests, one call at a time."""
        with self._lock:
            self.watcher.proposed(str(self.arm.spec), spent)

    # --- one rollout ---

    def _task_id(self, inputs: Mapping[str, Any]) -> str:
        task_id = str(inputs.get("task"))
        if task_id not in self.tasks:
            raise RunStopped(f"the optimizer asked for task {task_id!r}, which is in neither train nor dev")
        return task_id

    def _asked(self, key: Key, loop: Loop, program: Program, setting: TrialContext) -> Future[Rollout | None]:
        """The rollout, under way or done; begun where nobody has asked for it."""
        with self._lock:
            future = self._known.get(key)
            if future is None:
                future = self._known[key] = self.background.submit(self._rollout(key, loop, program, setting))
            return future

    async def _rollout(self, key: Key, loop: Loop, program: Program, setting: TrialContext) -> Rollout | None:
        """None where the budget does not reach; then it may be asked for again."""
        is_beyond = setting is not self.setting
        logged = self._logged.get(key)
        if logged is not None and (is_beyond or not logged.is_beyond):
            _charge(setting.meter, logged.spent)
            return logged
        rollout = None if setting.meter.exhausted else await self._run(key, loop, program, setting, is_beyond)
        if rollout is None:
            with self._lock:
                del self._known[key]
        else:
            self._log.append({"key": key.to_json(), **rollout.to_json()})
        return rollout

    async def _run(self, key: Key, loop: Loop, program: Program, setting: TrialContext, is_beyond: bool) -> Rollout | None:
        """None where the budget ends in the middle of it."""
        task = self.tasks[key.task][1]
        calls: list[PredictorCall] = []
        spent = SearchCost(1)
        heard = ReportingLoop(loop_with(loop, program), calls, key.temperature)
        arm = replace(self.arm, name=f"{self.arm.name}@{key.program[:12]}", loop=heard)
        for attempt in range(MAX_ATTEMPTS):
            calls.clear()
            try:
                done = await run_trial(Trial(arm, task, key.draw, self.seed, attempt), setting)
            except NotRun:
                return None
            record = done.record
            spent += SearchCost(0, record.lm_calls, record.tokens, record.cost_usd)
            if record.status != "errored":
                break
        return _rollout_of(done, calls, task, spent, is_beyond)

    def _scored(self, key: Key, rollout: Rollout | None) -> Rollout | None:
        """The rollout, put to its candidate and told of when it is first asked for; on the thread that asks."""
        with self._lock:
            if rollout is None or key in self._reported:
                return rollout
            self._reported.add(key)
            self.used_predictors.update(call.predictor for call in rollout.calls)
            scores = self._scores[key.program, key.task]
            scores.append(rollout.score)
            candidate, split = self.candidates[key.program], self.tasks[key.task][0]
            mean = {**getattr(candidate, split), key.task: sum(scores) / len(scores)}
            candidate = replace(candidate, dev=mean) if split == "dev" else replace(candidate, train=mean)
            self.candidates[key.program] = candidate
            if rollout.is_beyond:
                self.evaluation += rollout.spent
            else:
                self.search += rollout.spent
            if rollout.record.status == "errored":
                self.errored += 1
                self._failed_in_a_row += 1
                self._last_failure = rollout.record.reason
            else:
                self._failed_in_a_row = 0
            self.watcher.rolled_out(str(self.arm.spec), candidate, rollout.record, self.search)
        return rollout

    def check_alive(self) -> None:
        """Raises RunStopped where nothing but failures has come for long."""
        if self._failed_in_a_row >= FIRST_FAILURES:
            raise RunStopped(f"{FIRST_FAILURES} rollouts in a row failed, the last because of {self._last_failure}")


def _ahead(one: Candidate, other: Candidate) -> float:
    """By how many solved tasks one candidate is ahead of another, where both were scored."""
    mine, theirs = {**one.train, **one.dev}, {**other.train, **other.dev}
    return sum(score - theirs[task] for task, score in mine.items() if task in theirs)


def _result(future: Future[Rollout | None]) -> Rollout | None:
    try:
        return future.result()
    except (CancelledError, asyncio.CancelledError):
        raise RunStopped("interrupted") from None
    except Exception as error:  # a full disk, a bug of ours: an optimizer would take it for a bad program
        raise RunStopped(str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}") from error


def _rollout_of(done: FinishedTrial, calls: Sequence[PredictorCall], task: Task, spent: SearchCost, is_beyond: bool) -> Rollout:
    trace = Trace.from_json(json.loads(done.trace)) if done.trace else None
    plain = tuple(PredictorCall(call.predictor, _plain(call.inputs), _plain(call.outputs)) for call in calls)
    return Rollout(done.record, plain, feedback(done.record, trace, task), spent, is_beyond)


def _plain(value: Any) -> Any:
    """Without receipts, which are the harness's, and without secrets: a demonstration is for any model and any reader."""
    if isinstance(value, str):
        return redact(strip_receipts(value))
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _charge(meter: Meter, spent: SearchCost) -> None:
    """What a logged rollout took, once more: a resumed search stops where it would have stopped."""
    meter.calls += spent.calls
    meter.tokens += spent.tokens
    meter.dollars += spent.dollars or 0.0


def _logged(path: Path) -> dict[Key, Rollout]:
    """The rollouts of a log, without the failures that it ends with: a run that stopped for them asks again."""
    made: dict[Key, Rollout] = {}
    failed: dict[Key, Rollout] = {}
    for number, line in enumerate(read_log(path), 1):
        try:
            key, rollout = Key.from_json(line["key"]), Rollout.from_json(line)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise RunError(f"{path}:{number}: no rollout: {type(error).__name__}: {error}") from None
        failed[key] = rollout
        if rollout.record.status != "errored":
            made |= failed
            failed.clear()
    return made
