"""What an optimizer asks, answered once, logged and limited: calls of a program, each an ordinary trial, and its own requests.

A rollout is identified by (program, task, draw). Repeating it costs nothing, whether the optimizer repeats itself, DSPy resubmits a
supposed straggler, or the whole optimization is replayed after a kill: with the same answers a teleprompter does the same, so that
a resume needs only the log.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from pydantic import PlainSerializer, PlainValidator

from whichloop.datasets.task import Task
from whichloop.dspy_seam.program import PredictorCall, ProgramResult, ReportingModel, SampledPrediction, loop_with
from whichloop.metrics.record import SCORER, Record
from whichloop.metrics.trace import Trace
from whichloop.models.metering import Meter, Pricing
from whichloop.models.proposer import ScriptedProposer
from whichloop.protocol import (
    SILENT,
    BudgetExceeded,
    Loop,
    Model,
    Observer,
    Outcome,
    Program,
    ProviderError,
    Query,
    Reply,
    Request,
    Toolbox,
    WrappedLoop,
    WrappedModel,
    program_digest,
)
from whichloop.protocol.json_text import digest
from whichloop.protocol.model import StreamsWhole, estimate_input, estimate_usage
from whichloop.protocol.receipts import strip_receipts
from whichloop.protocol.redact import redact
from whichloop.protocol.values import error_text
from whichloop.runs.engine.runner import FIRST_FAILURES
from whichloop.runs.schedule import MAX_ATTEMPTS, Arm, Trial
from whichloop.runs.store.files import RunError
from whichloop.runs.trial.trial import NotRun, TrialContext, run_trial
from whichloop.runs.trial.watchdog import INTERRUPTED

from .candidates import NO_COST, Candidate, JsonLinesLog, SearchCost, Watcher, plain, read_as, read_log
from .compiling import SearchOver
from .feedback import feedback

T = TypeVar("T")


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


def _record(data: Mapping[str, Any]) -> Record:
    try:
        return Record.from_json(data)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a record: {error!r}") from None


@dataclass(frozen=True, slots=True)
class Rollout:
    """The result of a rollout, without receipts, as a line of the log has it."""

    key: Key
    record: Annotated[Record, PlainValidator(_record), PlainSerializer(Record.to_json)]
    calls: tuple[PredictorCall, ...]
    feedback: str
    spent: SearchCost
    beyond: bool = False
    """Whether it ran beyond the budget, for dev scores only and not for the search."""

    @property
    def score(self) -> float:
        return self.record.scores.get("accuracy", 0.0)


@dataclass(frozen=True)
class ReportingLoop(WrappedLoop):
    """A loop that records its requests in the form of demonstrations."""

    calls: list[PredictorCall]
    temperature: float | None

    async def run(self, query: Query[Any], tools: Toolbox, model: Model, observer: Observer = SILENT) -> Outcome[Any]:
        return await self.loop.run(query, tools, ReportingModel(model, self.calls, self.temperature), observer)


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
    seed: int = 0
    is_soft: bool = False
    """Whether a rollout beyond the budget scores 0 instead of ending the compile, for optimizers that only collect."""
    candidates: dict[str, Candidate] = field(default_factory=dict)
    """Digest → candidate, in the order of trying."""
    search: SearchCost = NO_COST
    evaluation: SearchCost = NO_COST
    errored: int = 0
    judged: int = 0
    """Number of rollouts that the tasks' scorer gave a score."""
    last_failure: str = ""

    def __post_init__(self, log: Path) -> None:
        self._of_split = {split: {name for name, (own, _) in self.tasks.items() if own == split} for split in ("train", "dev")}
        self._scores: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._futures: dict[Key, Future[Rollout | None]] = {}
        self._reported: set[Key] = set()
        self._lock = threading.RLock()
        self._failed_in_a_row = 0
        self._is_winding_down = False
        self._logged = _logged(log)
        self._log = JsonLinesLog(log)

    def close(self) -> None:
        self._log.close()

    def __call__(self, loop: Loop, program: Program, inputs: Mapping[str, Any], sampled: SampledPrediction) -> ProgramResult:
        """Run or look up a rollout. Raises SearchOver and RunStopped."""
        task_id = str(inputs.get("task"))
        if task_id not in self.tasks:
            raise RunStopped(f"the optimizer asked for task {task_id!r}, which is in neither train nor dev")
        with self._lock:
            key = Key(self.candidate(program).digest, task_id, sampled.rollout, sampled.temperature)
            future = self._future(key, loop, program, self.setting)
        rollout = self._scored(_result(future))
        if rollout is None:
            if not self.is_soft:
                raise SearchOver(self.setting.meter.exhausted)
            return ProgramResult({"answer": None, "score": 0.0, "feedback": "", "stop": "budget", "status": "spent"}, ())
        if self.broken and self.errored > 2:
            raise SearchOver(self.broken, "failed")
        if self._failed_in_a_row >= FIRST_FAILURES:
            raise RunStopped(f"{FIRST_FAILURES} rollouts in a row failed, the last because of {self.last_failure}")
        record = rollout.record
        fields = {"answer": record.answer, "score": rollout.score, "feedback": rollout.feedback}
        return ProgramResult({**fields, "stop": record.stop, "status": record.status}, rollout.calls)

    @property
    def spent(self) -> SearchCost:
        """The cost of the search, including rollouts that its budget cut short."""
        meter = self.setting.meter
        return SearchCost(self.search.trials, meter.calls, meter.tokens, meter.dollars or self.search.dollars)

    @property
    def broken(self) -> str:
        """What the scorer raises, where it never gave a score; else empty."""
        return "" if self.judged or not self.last_failure.startswith(SCORER) else self.last_failure

    def candidate(self, program: Program) -> Candidate:
        """Return the candidate of a program, a new one if there is none yet."""
        digest = program_digest(program)
        with self._lock:
            return self.candidates.setdefault(digest, Candidate(len(self.candidates), digest, program))

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
        digest, setting = self.candidate(program).digest, replace(self.setting, meter=Meter())
        keys = [Key(digest, task, 0, None) for task in self.tasks if task in self._of_split["dev"]]
        waiting = [self._future(key, loop, program, setting) for key in keys]
        rollouts = [self._scored(_result(future)) for future in waiting]
        return {each.key.task: each.score for each in rollouts if each is not None and each.record.status == "scored"}

    def go_on(self) -> None:
        """Raise RunStopped once the search winds down."""
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
                self.go_on()
                future = self._futures[key] = self.background.submit(self._rollout(key, loop, program, setting))
            return future

    async def _rollout(self, key: Key, loop: Loop, program: Program, setting: TrialContext) -> Rollout | None:
        """Return the rollout; None if the budget is used up, in which case it may be requested again."""
        logged = self._logged.get(key)
        if logged is not None and (setting is not self.setting or not logged.beyond):
            setting.meter.calls += logged.spent.calls
            setting.meter.tokens += logged.spent.tokens
            setting.meter.dollars += logged.spent.dollars or 0.0
            return logged
        rollout = None if setting.meter.exhausted else await self._run(key, loop, program, setting)
        if rollout is None:
            with self._lock:
                del self._futures[key]
        else:
            self._log.append(plain(rollout))
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
                trial = await run_trial(Trial(arm, task, key.draw, self.seed, attempt), setting)
            except NotRun:
                return None
            record = trial.record
            spent += SearchCost(0, record.lm_calls, record.tokens, record.cost_usd)
            trace = Trace.from_json(json.loads(trial.trace)) if trial.trace else None
            shown = tuple(PredictorCall(each.predictor, _publishable(each.inputs), _publishable(each.outputs)) for each in calls)
            rollout = Rollout(key, record, shown, feedback(record, trace, task), spent, setting is not self.setting)
            if record.status != "errored" or record.reason.startswith(SCORER):  # which would raise again
                break
        return rollout

    def _scored(self, rollout: Rollout | None) -> Rollout | None:
        """Add a rollout to its candidate and report it on the first request, on the requesting thread."""
        with self._lock:
            if rollout is None or rollout.key in self._reported:
                return rollout
            key, record = rollout.key, rollout.record
            self._reported.add(key)
            scores = self._scores[key.program, key.task]
            scores.append(rollout.score)
            candidate, split = self.candidates[key.program], self.tasks[key.task][0]
            mean: dict[str, Any] = {split: {**getattr(candidate, split), key.task: sum(scores) / len(scores)}}
            candidate = self.candidates[key.program] = replace(candidate, **mean)
            if rollout.beyond:
                self.evaluation += rollout.spent
            else:
                self.search += rollout.spent
            if record.status == "errored":
                self.errored, self._failed_in_a_row, self.last_failure = self.errored + 1, self._failed_in_a_row + 1, record.reason
            else:
                self.judged, self._failed_in_a_row = self.judged + 1, 0
            self.watcher.rolled_out(str(self.arm.spec), candidate, record, self.search)
        return rollout


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
    for where, line in read_log(path):
        rollout = read_as(Rollout, line, where)
        failed[rollout.key] = rollout
        if rollout.record.status != "errored":
            rollouts |= failed
            failed.clear()
    return rollouts


class Proposals(StreamsWhole, WrappedModel):
    """A model that answers from the log, and otherwise from the wrapped model; the n-th repetition of a request gets the n-th
    reply."""

    def __init__(
        self, model: Model, meter: Meter, background: Background, log: Path, go_on: Callable[[], None], price: Pricing | None = None
    ) -> None:
        """Read the log. `go_on` raises where no further reply is wanted; `price` gives a reply its cost, a logged one too.

        Raises RunError for an unreadable log.
        """
        super().__init__(model)
        self.meter, self.background, self.go_on, self._price = meter, background, go_on, price
        self.spent = SearchCost()
        self._lock = Lock()
        self._logged: dict[str, deque[Reply]] = defaultdict(deque)
        for where, line in read_log(log):
            self._logged[str(line.get("request"))].append(read_as(Reply, line.get("reply"), where))
        self._log = JsonLinesLog(log)

    def close(self) -> None:
        self._log.close()

    async def complete(self, request: Request) -> Reply:
        """Return the reply; any number of threads may call, each on its own event loop.

        Raises SearchOver beyond the budget, RunStopped if the disk is full or the provider fails, else the model's exceptions.
        """
        name = digest(request.as_dict())
        reply = self._next_logged(name, request) or await self._requested(name, request)
        with self._lock:
            reply = reply if self._price is None else self._price(request, reply)
            assert reply.usage is not None
            self.meter.add(reply.usage)
            self.spent += SearchCost(0, 1, reply.usage.total_tokens, reply.usage.cost_usd)
            self.go_on()
        return reply

    def _next_logged(self, name: str, request: Request) -> Reply | None:
        """Return the next logged reply to a request; None if absent. Raises SearchOver."""
        with self._lock:
            try:
                self.meter.admit()
            except BudgetExceeded as error:
                raise SearchOver(f"the optimizer's own requests: {error}") from None
            if not self._logged[name]:
                return None
            if isinstance(self.model, ScriptedProposer):  # its draws depend on the number of requests
                self.model.skip(request)
            return self._logged[name].popleft()

    async def _requested(self, name: str, request: Request) -> Reply:
        """Request a reply now, on the event loop that the model's connections belong to."""
        try:
            reply = await asyncio.wrap_future(self.background.submit(self.model.complete(request)))
        except ProviderError as error:
            if error.kind in ("bad_request", "refused"):  # which a resumed run would meet again
                raise
            raise RunStopped(f"the model that proposes failed ({error.kind}): {error_text(error)}") from None
        reply = replace(reply, text=redact(reply.text), usage=reply.usage or estimate_usage(estimate_input(request), reply))
        try:
            self._log.append({"request": name, "reply": plain(reply)})
        except RunError as error:  # a full disk is not a failure of the optimizer
            raise RunStopped(str(error)) from None
        return reply
