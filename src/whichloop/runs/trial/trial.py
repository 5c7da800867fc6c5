"""Run one trial, and sort at one boundary whatever went wrong by its cause."""

from __future__ import annotations

import time
from collections.abc import Mapping

from whichloop.datasets.task import Environment, Task
from whichloop.datasets.validity import replay
from whichloop.metrics.record import UNREPLAYABLE
from whichloop.models.receipts import Truth, call_digest, content_digest
from whichloop.protocol.redact import logger_of
from whichloop.protocol.values import error_text
from whichloop.runs.schedule import Trial

from .finished import finished_trial
from .loop_run import LoopRun
from .record import errored, excluded
from .setting import FinishedTrial, NotRun, TrialContext
from .trial_parts import PlayedUser, TrialParts
from .watchdog import BlockingTime

MAX_ORACLES = 4096
"""Maximum number of tasks whose replayed plan is kept: all arms of a task run one after the other."""

logger = logger_of(__name__)


async def run_trial(trial: Trial, setting: TrialContext) -> FinishedTrial:
    """Run one cell of the schedule. Raises NotRun, and passes cancellation from outside on."""
    started_at, started = time.time(), time.perf_counter()
    try:
        truth = await _truth(trial, setting)
        if isinstance(truth, str):
            return excluded(trial, setting, truth)
        environment = setting.suite.open(trial.task)
        try:
            user = PlayedUser(setting.trial_models, trial, setting.meter)
            parts = TrialParts(trial, setting, user.play(environment), truth, user)
            parts.clock.started = started
            run = LoopRun(parts)
            await run.run_to_its_end()
            return finished_trial(parts, run.end(), started_at)
        finally:
            _close(environment, trial)
    except NotRun:
        raise
    except Exception as error:  # the suite's environment, or a bug of ours: a loop's own exceptions are caught before
        logger.debug("trial %s", trial.key, exc_info=True)
        return errored(trial, setting, f"{type(error).__name__}: {error_text(error)}", started_at)


async def _truth(trial: Trial, setting: TrialContext) -> Mapping[str, Truth] | str:
    """Return what a scripted model goes by; or why the task cannot be asked."""
    task = trial.task
    if task.quarantined:
        return f"quarantined: {task.quarantined}"
    if not trial.arm.is_scripted:
        return {}
    if task.plan is None:
        return f"no plan: {task.no_plan or 'the suite gives none'}"
    truths = await _oracle(task, setting)
    return f"{UNREPLAYABLE}{truths}" if isinstance(truths, str) else truths


def _close(environment: Environment, trial: Trial) -> None:
    try:
        environment.close()
    except Exception as error:  # what the trial gave stands all the same
        logger.warning("%s: closing its environment failed: %s: %s", trial.task.id, type(error).__name__, error_text(error))


async def _oracle(task: Task, setting: TrialContext) -> Mapping[str, Truth] | str:
    """Return the truth of each planned call, replayed once per task on fresh tools."""
    truths = setting.oracles.get(task.id)
    if truths is None:
        try:
            with BlockingTime(f"the replay of {task.id}").inherited():  # a tool of the suite may hang in place
                calls = await replay(task, setting.suite, setting.tool_timeout_s)
            truths = {call.call_id: Truth(call_digest(call.tool, call.arguments), content_digest(call.text)) for call in calls}
            if len({truth.call for truth in truths.values()}) < len(truths):
                truths = "two of its calls have the same receipt; change an argument or the tool's name"
        except ValueError as error:
            truths = str(error)
        if len(setting.oracles) >= MAX_ORACLES:
            del setting.oracles[next(iter(setting.oracles))]
        setting.oracles[task.id] = truths
    return truths
