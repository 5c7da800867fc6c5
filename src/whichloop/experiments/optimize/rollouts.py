"""Rollouts: an optimizer's calls of a program, each an ordinary trial, run once, logged, and limited by the design's budget.

A rollout is identified by (program, task, draw). Repeating it costs nothing, whether the optimizer repeats itself, DSPy resubmits a
supposed straggler, or the whole optimization is replayed after a kill: with the same answers a teleprompter does the same, so that
a resume needs only the log.
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

from whichloop.datasets.task import Task
from whichloop.dspy_seam.program import PredictorCall, ProgramResult, ReportingModel, SampledPrediction, loop_with
from whichloop.metrics.record import SCORER, Record
from whichloop.metrics.trace import Trace
from whichloop.models.metering import Meter
from whichloop.protocol import SILENT, Loop, Model, Observer, Outcome, Program, Query, StopReason, Toolbox, program_digest
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.redact import redact
from whichloop.runs.engine.interruption import INTERRUPTED
from whichloop.runs.engine.runner import FIRST_FAILURES
from whichloop.runs.run_state import MAX_ATTEMPTS
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.store.files import RunError
from whichloop.runs.trial.setting import NotRun, TrialContext
from whichloop.runs.trial.trial import run_trial

from .candidates import Candidate, SearchCost, Watcher
from .event_loop_thread import Background
from .feedback import feedback
from .manifest import JsonLinesLog, read_log
from .raising import LEAST_ERRORS, BudgetSpent, Raising


class ScorerBroken(BaseException):
    """The scorer of the tasks raises again and again; the message says what."""


class RunStopped(BaseException):
    """The run is being stopped, or every rollout fails; the message says which."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The result of a rollout, without receipts."""

    record: Record
    calls: tuple[PredictorCall, ...]
    feedback: str
    spent: SearchCost
    """The cost of all its attempts."""
    is_beyond: bool = False
    """Whether it ran beyond the budget, for dev scores only and not for the search."""

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
        """Read plain JSON. Raises KeyError, TypeError, ValueError, AttributeError or IndexError for anything else."""
        calls = tuple(PredictorCall(str(name), dict(inputs), dict(outputs)) for name, inputs, outputs in data["calls"])
        record, spent = Record.from_json(data["record"]), SearchCost.from_json(data["spent"])
        return cls(record, calls, str(data["feedback"]), spent, bool(data["beyond"]))


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of a rollout."""

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
    """A loop that records its requests in the form of demonstrations."""

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
    """The seed of rollouts, and the treatment of those beyond the budget."""

    seed: int
    is_soft: bool = False
    """Whether one beyond the budget scores 0 instead of ending the compile, for optimizers that only collect."""


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
        """Digest → candidate, in the order of trying."""
        self.search = SearchCost()
        self.evaluation = SearchCost()
        self.errored = 0
        """Number of rollouts that finally failed because of infrastructure."""
        self.scorer = Raising()
        """How often the tasks' scorer judged a rollout, and how often it raised."""
        self._train = {name for name, (split, _) in tasks.items() if split == "train"}
        self._instructions: set[tuple[tuple[str, str], ...]] = set()
        """Those of all programs so far."""
        self._scores: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._futures: dict[Key, Future[Rollout | None]] = {}
        self.used_predictors: set[str] = set()
        """The predictors that a rollout has used."""
        self._reported: set[Key] = set()
        self._lock = RLock()
        self._failed_in_a_row = 0
        self._last_failure = ""
        self._is_winding_down = False
        self._logged = _logged(log)
        self._log = JsonLinesLog(log)

    def close(self) -> None:
        self._log.close()

    def __call__(self, loop: Loop, program: Program, inputs: Mapping[str, Any], sampled: SampledPrediction) -> ProgramResult:
        """Run or look up a rollout. Raises BudgetSpent, ScorerBroken and RunStopped."""
        task_id = self._task_id(inputs)
        with self._lock:
            key = Key(self.candidate(program).digest, task_id, sampled.rollout, sampled.temperature)
            future = self._future(key, loop, program, self.setting)
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
        """The cost of the search, including rollouts that its budget cut short."""
        meter, search = self.setting.meter, self.search
        dollars = None if search.dollars is None and not meter.dollars else meter.dollars
        return SearchCost(search.trials, meter.calls, meter.tokens, dollars)

    def candidate(self, program: Program, *, is_whole: bool = False) -> Candidate:
        """Return the candidate of a program, a new one if there is none yet; `is_whole`: it counts as tried, whatever it is."""
        digest = program_digest(program)
        with self._lock:
            candidate = self.candidates.get(digest)
            if candidate is None:
                candidate = self.candidates[digest] = Candidate(len(self.candidates), digest, program, counts=not self.candidates)
                if candidate.number == 0:
                    self.watcher.began(str(self.arm.spec), candidate)
            instructions = _instructions(program)
            if is_whole or instructions not in self._instructions:
                candidate = self._counting(candidate)
            self._instructions.add(instructions)
            return candidate

    def _counting(self, candidate: Candidate) -> Candidate:
        """Return a candidate that counts as tried from now on, and report it if it did not before."""
        if not candidate.counts:
            candidate = self.candidates[candidate.digest] = replace(candidate, counts=True)
            self.watcher.tried(str(self.arm.spec), candidate)
        return candidate

    @property
    def tried(self) -> int:
        """The number of programs that count as tried."""
        return sum(candidate.counts for candidate in self.candidates.values())

    def best(self) -> Candidate:
        """Return the best candidate so far, the first of equals: by all dev tasks if several were scored on them, else by all train
        tasks, else by the total lead over the design's own program on the tasks that both were scored on."""
        tried = [*self.candidates.values()]
        for split in ("dev", "train"):
            names = {name for name, (split_of_task, _) in self.tasks.items() if split_of_task == split}
            scored = {item.digest: scores for item in tried if names <= (scores := getattr(item, split)).keys()}
            if len(scored) > 1:
                return max((item for item in tried if item.digest in scored), key=lambda item: sum(scored[item.digest].values()))
        return max(tried, key=lambda item: _lead(item, tried[0]))

    def dev_scores(self, loop: Loop, program: Program) -> dict[str, float]:
        """Return dev task → score of the program's first rollout without errored ones; missing ones run now, beyond the budget."""
        candidate = self.candidate(program)
        setting = replace(self.setting, meter=Meter())
        keys = [Key(candidate.digest, task_id, 0, None) for task_id, (split, _) in self.tasks.items() if split == "dev"]
        scores = {}
        for some in (keys[:LEAST_ERRORS], keys[LEAST_ERRORS:]):  # the first few tell whether the scorer works at all
            if self.scorer.is_broken:
                break
            waiting = [self._future(key, loop, program, setting) for key in some]
            for key, future in zip(some, waiting, strict=True):
                rollout = _result(future)
                if rollout is None:  # still running when the search ended, then cut short by its budget
                    rollout = _result(self._future(key, loop, program, setting))
                if (scored := self._scored(key, rollout)) is not None and scored.record.status == "scored":
                    scores[key.task] = scored.score
        return scores

    def proposed(self, spent: SearchCost) -> None:
        """Report the optimizer's own requests to the watcher, one call at a time. Raises RunStopped once the search winds down."""
        with self._lock:
            self.watcher.proposed(str(self.arm.spec), spent)
            if self._is_winding_down:
                raise RunStopped(INTERRUPTED)

    def wind_down(self) -> int:
        """Begin no further rollout; return the number of those that are under way, which end and are kept."""
        with self._lock:
            self._is_winding_down = True
            return sum(not future.done() for future in self._futures.values())

    # --- one rollout ---

    def _task_id(self, inputs: Mapping[str, Any]) -> str:
        task_id = str(inputs.get("task"))
        if task_id not in self.tasks:
            raise RunStopped(f"the optimizer asked for task {task_id!r}, which is in neither train nor dev")
        return task_id

    def _future(self, key: Key, loop: Loop, program: Program, setting: TrialContext) -> Future[Rollout | None]:
        """Return the future of a rollout, started if it is new. Raises RunStopped for a new one once the search winds down."""
        with self._lock:
            future = self._futures.get(key)
            if future is None:
                if self._is_winding_down:
                    raise RunStopped(INTERRUPTED)
                future = self._futures[key] = self.background.submit(self._rollout(key, loop, program, setting))
            return future

    async def _rollout(self, key: Key, loop: Loop, program: Program, setting: TrialContext) -> Rollout | None:
        """Return the rollout; None if the budget is used up, in which case it may be requested again."""
        is_beyond = setting is not self.setting
        logged = self._logged.get(key)
        if logged is not None and (is_beyond or not logged.is_beyond):
            setting.meter.calls += logged.spent.calls
            setting.meter.tokens += logged.spent.tokens
            setting.meter.dollars += logged.spent.dollars or 0.0
            return logged
        rollout = None if setting.meter.exhausted else await self._run(key, loop, program, setting, is_beyond)
        if rollout is None:
            with self._lock:
                del self._futures[key]
        else:
            self._log.append({"key": key.to_json(), **rollout.to_json()})
        return rollout

    async def _run(self, key: Key, loop: Loop, program: Program, setting: TrialContext, is_beyond: bool) -> Rollout | None:
        """Run the trial; None if the budget ends during it."""
        task = self.tasks[key.task][1]
        calls: list[PredictorCall] = []
        spent = SearchCost(1)
        reporting_loop = ReportingLoop(loop_with(loop, program), calls, key.temperature)
        arm = replace(self.arm, name=f"{self.arm.name}@{key.program[:12]}", loop=reporting_loop)
        for attempt in range(MAX_ATTEMPTS):
            calls.clear()
            try:
                trial = await run_trial(Trial(arm, task, key.draw, self.seed, attempt), setting)
            except NotRun:
                return None
            record = trial.record
            spent += SearchCost(0, record.lm_calls, record.tokens, record.cost_usd)
            if record.status != "errored" or _raised_in_scorer(record):  # which would raise again
                break
        trace = Trace.from_json(json.loads(trial.trace)) if trial.trace else None
        plain = tuple(PredictorCall(call.predictor, _publishable(call.inputs), _publishable(call.outputs)) for call in calls)
        return Rollout(trial.record, plain, feedback(trial.record, trace, task), spent, is_beyond)

    def _scored(self, key: Key, rollout: Rollout | None) -> Rollout | None:
        """Add a rollout to its candidate and report it on the first request, on the requesting thread."""
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
            if split == "dev" or self._train <= candidate.train.keys():
                candidate = self._counting(candidate)
            if rollout.is_beyond:
                self.evaluation += rollout.spent
            else:
                self.search += rollout.spent
            if _raised_in_scorer(rollout.record):
                self.scorer.failed(rollout.record.reason)
            elif rollout.record.status == "errored":
                self.errored += 1
                self._failed_in_a_row += 1
                self._last_failure = rollout.record.reason
            else:
                self._failed_in_a_row = 0
                self.scorer.returned()
            self.watcher.rolled_out(str(self.arm.spec), candidate, rollout.record, self.search)
        return rollout

    def check_alive(self) -> None:
        """Raise ScorerBroken or RunStopped after many failures."""
        if self.scorer.is_broken:
            raise ScorerBroken(f"{self.scorer.first} (it {self.scorer})")
        if self._failed_in_a_row >= FIRST_FAILURES:
            raise RunStopped(f"{FIRST_FAILURES} rollouts in a row failed, the last because of {self._last_failure}")


def _instructions(program: Program) -> tuple[tuple[str, str], ...]:
    return tuple((name, prompt.instructions) for name, prompt in program.items())


def _raised_in_scorer(record: Record) -> bool:
    return record.status == "errored" and record.reason.startswith(SCORER)


def _lead(candidate: Candidate, other: Candidate) -> float:
    """Return the lead of one candidate over another in solved tasks, over the tasks that both were scored on."""
    scores, other_scores = {**candidate.train, **candidate.dev}, {**other.train, **other.dev}
    return sum(score - other_scores[task] for task, score in scores.items() if task in other_scores)


def _result(future: Future[Rollout | None]) -> Rollout | None:
    try:
        return future.result()
    except (CancelledError, asyncio.CancelledError):
        raise RunStopped(INTERRUPTED) from None
    except Exception as error:  # a full disk or our own bug, which an optimizer would treat as a bad program
        raise RunStopped(str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}") from error


def _publishable(value: Any) -> Any:
    """Return a value without the harness's receipts and without secrets, because any model or reader may see a demonstration."""
    if isinstance(value, str):
        return redact(strip_receipts(value))
    if isinstance(value, Mapping):
        return {name: _publishable(item) for name, item in value.items()}
    return [_publishable(item) for item in value] if isinstance(value, list) else value


def _logged(path: Path) -> dict[Key, Rollout]:
    """Return the rollouts of a log without the failures at its end, which a resumed run repeats."""
    rollouts: dict[Key, Rollout] = {}
    failed: dict[Key, Rollout] = {}
    for number, line in enumerate(read_log(path), 1):
        try:
            key, rollout = Key.from_json(line["key"]), Rollout.from_json(line)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise RunError(f"{path}:{number}: not a rollout: {type(error).__name__}: {error}") from None
        failed[key] = rollout
        if rollout.record.status != "errored":
            rollouts |= failed
            failed.clear()
    return rollouts
