"""Rollouts: an optimizer's calls of a program, each an ordinary trial, run once, logged, and limited by the design's budget.

A rollout is identified by (program, task, draw). Repeating it costs nothing, whether the optimizer repeats itself, DSPy resubmits a
supposed straggler, or the whole optimization is replayed after a kill: with the same answers a teleprompter does the same, so that
a resume needs only the log.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from whichloop.datasets.task import Task
from whichloop.dspy_seam.program import PredictorCall, ProgramResult, ReportingModel, SampledPrediction, loop_with
from whichloop.metrics.record import SCORER, Record
from whichloop.metrics.trace import Trace
from whichloop.models.metering import Meter
from whichloop.protocol import SILENT, Loop, Model, Observer, Outcome, Program, Query, Toolbox, WrappedLoop, program_digest
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.redact import redact
from whichloop.protocol.values import counted
from whichloop.runs.engine.interruption import INTERRUPTED
from whichloop.runs.engine.runner import FIRST_FAILURES
from whichloop.runs.run_state import MAX_ATTEMPTS
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.store.files import RunError
from whichloop.runs.trial.setting import NotRun, TrialContext
from whichloop.runs.trial.trial import run_trial

from .candidates import NO_COST, Candidate, SearchCost, Watcher
from .compiling import BudgetSpent
from .feedback import feedback
from .manifest import JsonLinesLog, read_log

T = TypeVar("T")
LEAST_ERRORS = 3
"""Errors from which on a scorer that raises more often than not ends a search."""


class ScorerBroken(BaseException):
    """The scorer of the tasks raises again and again; the message says what."""


class RunStopped(BaseException):
    """The run is being stopped, or every rollout fails; the message says which."""


class Background:
    """Runs coroutines for threads, on a thread of its own: optimizers are synchronous, trials and models are not.

    On exit it cancels those that are still running.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="rollouts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self._runner.close()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)


class Key(NamedTuple):
    """The identity of a rollout."""

    program: str
    task: str
    draw: int
    temperature: float | None


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

    @property
    def raised_in_scorer(self) -> bool:
        return self.record.status == "errored" and self.record.reason.startswith(SCORER)

    def line(self, key: Key) -> dict[str, Any]:
        """Return a line of the log."""
        calls = [[call.predictor, dict(call.inputs), dict(call.outputs)] for call in self.calls]
        told = {"feedback": self.feedback, "spent": self.spent.to_json(), "beyond": self.is_beyond}
        return {"key": [*key], "record": self.record.to_json(), "calls": calls, **told}

    @classmethod
    def of_line(cls, line: Mapping[str, Any]) -> tuple[Key, Rollout]:
        """Read a line of the log. Raises KeyError, TypeError, ValueError, AttributeError or IndexError for anything else."""
        program, task, draw, temperature = line["key"]
        calls = tuple(PredictorCall(str(name), dict(inputs), dict(outputs)) for name, inputs, outputs in line["calls"])
        record, spent = Record.from_json(line["record"]), SearchCost.from_json(line["spent"])
        key = Key(str(program), str(task), int(draw), temperature)
        return key, cls(record, calls, str(line["feedback"]), spent, bool(line["beyond"]))


@dataclass(frozen=True)
class ReportingLoop(WrappedLoop):
    """A loop that records its requests in the form of demonstrations."""

    calls: list[PredictorCall]
    temperature: float | None

    async def run(self, query: Query[Any], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[Any]:
        return await self.loop.run(query, tools, ReportingModel(model, self.calls, self.temperature), observer)


class RolloutRules(NamedTuple):
    """The seed of rollouts, and the treatment of those beyond the budget."""

    seed: int
    is_soft: bool = False
    """Whether one beyond the budget scores 0 instead of ending the compile, for optimizers that only collect."""


@dataclass
class Rollouts:
    """The runner of one design's program (see `dspy_seam.program.Runner`). Any number of threads may call it.

    Raises RunError for a log that cannot be read.
    """

    arm: Arm
    tasks: Mapping[str, tuple[str, Task]]
    """Id → split and task, of the splits that an optimizer may see."""
    setting: TrialContext
    """Its meter holds the budget."""
    background: Background
    log: InitVar[Path]
    watcher: Watcher
    rules: RolloutRules
    candidates: dict[str, Candidate] = field(default_factory=dict)
    """Digest → candidate, in the order of trying."""
    search: SearchCost = NO_COST
    evaluation: SearchCost = NO_COST
    errored: int = 0
    """Number of rollouts that finally failed because of infrastructure."""
    judged: int = 0
    """Number of rollouts that the tasks' scorer gave a score."""
    scorer_errors: list[str] = field(default_factory=list)
    """What it raised on others."""

    def __post_init__(self, log: Path) -> None:
        self._of_split = {split: {name for name, (own, _) in self.tasks.items() if own == split} for split in ("train", "dev")}
        self._instructions: set[tuple[str, ...]] = set()
        self._scores: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._futures: dict[Key, Future[Rollout | None]] = {}
        self._reported: set[Key] = set()
        self._lock = threading.RLock()
        self._failed_in_a_row, self._last_failure = 0, ""
        self._is_winding_down = False
        self._logged = _logged(log)
        self._log = JsonLinesLog(log)

    def close(self) -> None:
        self._log.close()

    def __call__(self, loop: Loop, program: Program, inputs: Mapping[str, Any], sampled: SampledPrediction) -> ProgramResult:
        """Run or look up a rollout. Raises BudgetSpent, ScorerBroken and RunStopped."""
        task_id = str(inputs.get("task"))
        if task_id not in self.tasks:
            raise RunStopped(f"the optimizer asked for task {task_id!r}, which is in neither train nor dev")
        with self._lock:
            key = Key(self.candidate(program).digest, task_id, sampled.rollout, sampled.temperature)
            future = self._future(key, loop, program, self.setting)
        rollout = self._scored(key, _result(future))
        if rollout is None:
            if not self.rules.is_soft:
                raise BudgetSpent(self.setting.meter.exhausted)
            return ProgramResult({"answer": None, "score": 0.0, "feedback": "", "stop": "budget", "status": "spent"}, ())
        if self.is_broken:
            raise ScorerBroken(self.broken)
        if self._failed_in_a_row >= FIRST_FAILURES:
            raise RunStopped(f"{FIRST_FAILURES} rollouts in a row failed, the last because of {self._last_failure}")
        record = rollout.record
        fields = {"answer": record.answer, "score": rollout.score, "feedback": rollout.feedback}
        return ProgramResult({**fields, "stop": record.stop, "status": record.status}, rollout.calls)

    @property
    def spent(self) -> SearchCost:
        """The cost of the search, including rollouts that its budget cut short."""
        meter, search = self.setting.meter, self.search
        dollars = None if search.dollars is None and not meter.dollars else meter.dollars
        return SearchCost(search.trials, meter.calls, meter.tokens, dollars)

    @property
    def is_broken(self) -> bool:
        """Whether the scorer raises again and again, so that the search ends."""
        return len(self.scorer_errors) >= max(LEAST_ERRORS, self.judged + 1)

    @property
    def broken(self) -> str:
        """What a scorer raises that raises again and again, or each of the few times that it was called; else empty."""
        errors = self.scorer_errors
        if not self.is_broken and (self.judged or not errors):
            return ""
        return f"{errors[0]} (it raised in {len(errors)} of {counted(self.judged + len(errors), 'call')})"

    def candidate(self, program: Program, *, is_whole: bool = False) -> Candidate:
        """Return the candidate of a program, a new one if there is none yet; `is_whole`: it counts as tried, whatever it is."""
        digest = program_digest(program)
        with self._lock:
            candidate = self.candidates.get(digest)
            if candidate is None:
                candidate = self.candidates[digest] = Candidate(len(self.candidates), digest, program, counts=not self.candidates)
            instructions = tuple(prompt.instructions for prompt in program.values())
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

    def best(self) -> Candidate:
        """Return the best candidate so far, the first of equals: by all dev tasks if several were scored on them, else by all train
        tasks, else by the total lead over the design's own program on the tasks that both were scored on."""
        tried = [*self.candidates.values()]
        for split, names in sorted(self._of_split.items()):
            whole = [item for item in tried if names <= getattr(item, split).keys()]
            if len(whole) > 1:
                return max(whole, key=lambda item: sum(getattr(item, split).values()))
        own = {**tried[0].train, **tried[0].dev}
        scored = {item.digest: {**item.train, **item.dev} for item in tried}
        return max(tried, key=lambda item: sum(score - own[task] for task, score in scored[item.digest].items() if task in own))

    def dev_scores(self, loop: Loop, program: Program) -> dict[str, float]:
        """Return dev task → score of the program's first rollout without errored ones; missing ones run now, beyond the budget."""
        candidate = self.candidate(program)
        setting = replace(self.setting, meter=Meter())
        keys = [Key(candidate.digest, task_id, 0, None) for task_id in self.tasks if task_id in self._of_split["dev"]]
        scores = {}
        for some in (keys[:LEAST_ERRORS], keys[LEAST_ERRORS:]):  # the first few tell whether the scorer works at all
            if self.is_broken:
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
        rollout = None if setting.meter.exhausted else await self._run(key, loop, program, setting)
        if rollout is None:
            with self._lock:
                del self._futures[key]
        else:
            self._log.append(rollout.line(key))
        return rollout

    async def _run(self, key: Key, loop: Loop, program: Program, setting: TrialContext) -> Rollout | None:
        """Run the trial; None if the budget ends during it."""
        task = self.tasks[key.task][1]
        calls: list[PredictorCall] = []
        spent = SearchCost(1)
        reporting_loop = ReportingLoop(loop_with(loop, program), calls, key.temperature)
        arm = replace(self.arm, name=f"{self.arm.name}@{key.program[:12]}", loop=reporting_loop)
        for attempt in range(MAX_ATTEMPTS):
            calls.clear()
            try:
                trial = await run_trial(Trial(arm, task, key.draw, self.rules.seed, attempt), setting)
            except NotRun:
                return None
            record = trial.record
            spent += SearchCost(0, record.lm_calls, record.tokens, record.cost_usd)
            trace = Trace.from_json(json.loads(trial.trace)) if trial.trace else None
            plain = tuple(PredictorCall(call.predictor, _publishable(call.inputs), _publishable(call.outputs)) for call in calls)
            rollout = Rollout(record, plain, feedback(record, trace, task), spent, setting is not self.setting)
            if record.status != "errored" or rollout.raised_in_scorer:  # which would raise again
                break
        return rollout

    def _scored(self, key: Key, rollout: Rollout | None) -> Rollout | None:
        """Add a rollout to its candidate and report it on the first request, on the requesting thread."""
        with self._lock:
            if rollout is None or key in self._reported:
                return rollout
            self._reported.add(key)
            scores = self._scores[key.program, key.task]
            scores.append(rollout.score)
            candidate, split = self.candidates[key.program], self.tasks[key.task][0]
            mean = {**getattr(candidate, split), key.task: sum(scores) / len(scores)}
            candidate = replace(candidate, dev=mean) if split == "dev" else replace(candidate, train=mean)
            self.candidates[key.program] = candidate
            if split == "dev" or self._of_split["train"] <= candidate.train.keys():
                candidate = self._counting(candidate)
            if rollout.is_beyond:
                self.evaluation += rollout.spent
            else:
                self.search += rollout.spent
            self._count(rollout)
            self.watcher.rolled_out(str(self.arm.spec), candidate, rollout.record, self.search)
        return rollout

    def _count(self, rollout: Rollout) -> None:
        """Count a rollout that failed, or that the scorer judged."""
        if rollout.raised_in_scorer:
            self.scorer_errors.append(rollout.record.reason)
        elif rollout.record.status == "errored":
            self.errored += 1
            self._failed_in_a_row += 1
            self._last_failure = rollout.record.reason
        else:
            self._failed_in_a_row = 0
            self.judged += 1


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
            key, rollout = Rollout.of_line(line)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise RunError(f"{path}:{number}: not a rollout: {type(error).__name__}: {error}") from None
        failed[key] = rollout
        if rollout.record.status != "errored":
            rollouts |= failed
            failed.clear()
    return rollouts
