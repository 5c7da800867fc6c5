"""One trial, and the one boundary at which what went wrong is sorted by its cause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loopbench.datasets.task import Environment, Suite, Task
from loopbench.datasets.validity import replay
from loopbench.metrics.record import FaultRecord, Record
from loopbench.metrics.scorers import Judgement, is_abstention, scorer_named
from loopbench.metrics.summary import false_success
from loopbench.models.metering import Budget, Meter, MeteredModel, MeteredToolbox
from loopbench.models.receipts import Truth, call_digest, content_digest
from loopbench.models.scripted import Script, Scripted
from loopbench.models.tunnel import Tunnel
from loopbench.protocol import Model, Outcome, StopReason, render_value
from loopbench.protocol.digest import canonical_json

from .schedule import Arm, Trial
from .trace import Recorder

GRACE_S = 2.0
"""Seconds that a loop gets to end after it was cancelled; then it is abandoned."""


class NotRun(Exception):
    """The run's own budget is used up: the trial waits for a resume."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all trials of a run share."""

    suite: Suite
    models: Mapping[str, Model]
    """Real models by name; the scripted one is made anew for each trial."""
    timeout_s: float = 60.0
    trial_budget: Budget = field(default_factory=Budget)
    meter: Meter = field(default_factory=Meter)
    """Of the whole run."""
    real_time: bool = False
    oracles: dict[str, Mapping[str, Truth] | str] = field(default_factory=dict)
    """Task → truth of its planned calls, or why its plan does not replay; filled as tasks come up."""


@dataclass(frozen=True, slots=True)
class Done:
    """A finished trial: its record, and its trace as one line of JSON (empty where nothing ran)."""

    record: Record
    trace: bytes = b""


async def run_trial(trial: Trial, setting: Setting) -> Done:
    """Run one cell of the schedule. Raises NotRun, and passes cancellation from outside on."""
    task = trial.task
    if task.quarantined:
        return _excluded(trial, setting, f"quarantined: {task.quarantined}")
    truth: Mapping[str, Truth] = {}
    if trial.arm.is_scripted:
        if task.plan is None:
            return _excluded(trial, setting, f"no plan: {task.no_plan or 'the suite gives none'}")
        known = await _oracle(task, setting)
        if isinstance(known, str):
            return _excluded(trial, setting, f"the plan does not replay: {known}")
        truth = known

    started_at, started = time.time(), time.perf_counter()
    environment = setting.suite.open(task)
    try:
        run = _Run(trial, setting, environment, truth)
        await run.go()
        wall_s = time.perf_counter() - started
        return run.finish(started_at, wall_s)
    finally:
        environment.close()


async def _oracle(task: Task, setting: Setting) -> Mapping[str, Truth] | str:
    """The truth of each planned call, replayed once per task on fresh tools."""
    known = setting.oracles.get(task.id)
    if known is None:
        try:
            calls = await replay(task, setting.suite)
            known = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in calls}
        except ValueError as error:
            known = str(error)
        setting.oracles[task.id] = known
    return known


class _Run:
    """The moving parts of one trial."""

    def __init__(self, trial: Trial, setting: Setting, environment: Environment, truth: Mapping[str, Truth]) -> None:
        self.trial = trial
        self.setting = setting
        self.environment = environment
        self.truth = truth
        self.recorder = Recorder()
        self.tunnel: Tunnel | None = None
        self.scripted: Scripted | None = None
        if trial.arm.is_scripted:
            self.tunnel = Tunnel(real_time=setting.real_time, slow_s=trial.arm.profile.slow_s)
        self.tools = MeteredToolbox(environment.tools, self.recorder, self.tunnel)
        self.recorder.tools = self.tools
        self.meter = Meter(setting.trial_budget, setting.meter)
        self.model = MeteredModel(self._inner_model(trial.arm), self.meter, self.recorder, self.tunnel)
        self.outcome = Outcome(None, StopReason.CRASHED, 0)
        self.crash = ""

    def _inner_model(self, arm: Arm) -> Model:
        if not arm.is_scripted:
            return self.setting.models[arm.model]
        task, profile = self.trial.task, arm.profile
        assert task.plan is not None
        specs = {tool.name: tool.spec for tool in self.tools}
        script = Script(task.plan, self.truth, profile, self.trial.run_seed, task.id, self.trial.repeat, specs)
        self.scripted = Scripted(script, self.tunnel)
        return self.scripted

    async def go(self) -> None:
        """Run the loop to its end, its crash or the time limit."""
        loop = self.trial.arm.loop
        running = asyncio.ensure_future(loop.run(self.trial.task.query, self.tools, self.model, self.recorder))
        try:
            done, _ = await asyncio.wait({running}, timeout=self.setting.timeout_s)
        except asyncio.CancelledError:  # Ctrl-C: the trial runs again on resume
            running.cancel()
            await asyncio.wait({running}, timeout=GRACE_S)
            raise
        if not done:
            self._end(StopReason.TIMEOUT, f"no end within {self.setting.timeout_s:g} s")
            running.cancel()
            done, _ = await asyncio.wait({running}, timeout=GRACE_S)
            if not done:
                self._end(StopReason.TIMEOUT, f"no end within {self.setting.timeout_s:g} s, and cancellation was swallowed")
            else:
                _retrieve(running)
            return
        self._take(running)

    def _take(self, running: asyncio.Future[Outcome]) -> None:
        """What a loop that ended by itself left. Raises NotRun when the run's budget is used up."""
        if self.meter.refused:  # whether the loop let BudgetExceeded through or swallowed it
            if self.setting.meter.exhausted:
                raise NotRun(self.setting.meter.exhausted)
            self._end(StopReason.BUDGET, self.meter.refused)
            _retrieve(running)
            return
        try:
            outcome = running.result()
            if not isinstance(outcome, Outcome):
                raise TypeError(f"run() gave a {type(outcome).__name__}, not an Outcome")
        except asyncio.CancelledError:
            self._end(StopReason.CANCELLED, "the loop cancelled itself")
        except Exception as error:  # the boundary to the design under test: whatever leaves it is a crash of it
            self._end(StopReason.CRASHED, f"{type(error).__name__}: {render_value(str(error))}")
            self.recorder.errors["crash"] += 1
        else:
            self.outcome = outcome

    def _end(self, stop: StopReason, why: str) -> None:
        self.outcome, self.crash = Outcome(None, stop, self.recorder.steps), why

    def finish(self, started_at: float, wall_s: float) -> Done:
        """Score what there is, and put the record and the trace together."""
        trial, recorder = self.trial, self.recorder
        if self.tunnel is not None:
            self.tunnel.settle(self.truth)
        faults = tuple(
            FaultRecord(fault.kind, str(fault.point), fault.landed, fault.absorbed, fault.recovered)
            for fault in (self.tunnel.disturbances if self.tunnel is not None else ())
        )
        answer = _json_safe(self.outcome.answer)
        errored = self._infrastructure()
        accuracy, problem = (0.0, "") if errored else self._score(answer)
        errored = errored or problem
        abstained = isinstance(answer, str) and is_abstention(answer)
        simulated_s = self.tunnel.simulated_s if self.tunnel is not None else 0.0
        record = Record(
            **_head(trial, self.setting),
            status="errored" if errored else "scored",
            reason=errored or self.crash,
            stop=self.outcome.stop.value,
            answer=answer,
            scores={} if errored else {"accuracy": accuracy},
            steps=recorder.steps,
            calls=dict(sorted(recorder.calls.items())),
            tool_calls=recorder.tool_calls,
            input_tokens=recorder.usage.input_tokens,
            output_tokens=recorder.usage.output_tokens,
            cached_tokens=recorder.usage.cached_tokens,
            tokens_estimated=recorder.usage.estimated,
            cost_usd=recorder.usage.cost_usd,
            errors=dict(sorted(recorder.errors.items())),
            faults=faults,
            false_success=not errored
            and false_success(
                accuracy=accuracy,
                stop=self.outcome.stop.value,
                abstained=abstained,
                faults=faults,
                planned_call_unknown=self.scripted is not None and bool(self.scripted.unknown),
            ),
            abstained=abstained,
            confidence=self.outcome.confidence,
            trace_digest=recorder.digest(),
            seconds=wall_s + simulated_s,
            wall_s=wall_s,
            simulated_s=simulated_s,
            started_at=started_at,
            attempt=trial.attempt,
        )
        return Done(record, recorder.line(self._trace_head(record)))

    def _infrastructure(self) -> str:
        """Why the trial says nothing about the loop; empty where it does."""
        failure = self.recorder.provider_failure
        if failure is not None and self.outcome.stop is StopReason.PROVIDER_ERROR:
            return f"provider: {failure}"
        if self.scripted is not None and self.outcome.stop is StopReason.TIMEOUT:
            return f"time limit met by a scripted trial, whose time is virtual: {self.crash}"
        return ""

    def _score(self, answer: Any) -> tuple[float, str]:
        """Accuracy in [0, 1], and what went wrong with the scoring itself."""
        task = self.trial.task
        try:
            judgement = Judgement(task, answer, self.outcome.stop.value, self.environment.state())
            score = scorer_named(task.scorer)(judgement)
            if not 0 <= score <= 1:  # NaN too
                raise ValueError(f"gave {score!r}, which is not in [0, 1]")
            return score, ""
        except Exception as error:  # our bug or the suite's, never the loop's: the trial is errored, not wrong
            return 0.0, f"scorer {task.scorer}: {type(error).__name__}: {error}"

    def _trace_head(self, record: Record) -> dict[str, Any]:
        task = self.trial.task
        return {
            "arm": record.arm,
            "task": record.task,
            "repeat": record.repeat,
            "query": task.query.full_text,
            "expected": task.expected,
            "answer": record.answer,
            "stop": record.stop,
            "status": record.status,
            "reason": record.reason,
            "scores": record.scores,
            "details": _brief(self.outcome.details),
        }


def _retrieve(running: asyncio.Future[Outcome]) -> None:
    """Look at how a task ended, so that asyncio does not report its exception as lost."""
    if not running.cancelled():
        running.exception()


def _head(trial: Trial, setting: Setting) -> dict[str, Any]:
    return {
        "arm": trial.arm.name,
        "suite": setting.suite.name,
        "suite_digest": setting.suite.digest,
        "task": trial.task.id,
        "repeat": trial.repeat,
        "seed": trial.seed,
        "cluster": str(trial.task.labels.get("cluster", "")),
    }


def _excluded(trial: Trial, setting: Setting, reason: str) -> Done:
    return Done(Record(**_head(trial, setting), status="excluded", reason=reason, started_at=time.time()))


def _json_safe(value: Any) -> Any:
    """The answer as JSON can say it; what it cannot say becomes text."""
    if isinstance(value, str):
        return render_value(value)
    try:
        canonical_json(value)
    except (TypeError, ValueError, RecursionError):
        return render_value(value)
    return value


def _brief(details: Mapping[str, Any]) -> dict[str, Any]:
    """What a design adds that the events do not show already: short plain values."""
    return {key: value for key, value in details.items() if isinstance(value, str | int | float | bool)}
