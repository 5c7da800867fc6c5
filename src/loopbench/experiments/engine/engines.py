"""Which engine carries a run's trials out: this process, worker processes, or a Ray cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from loopbench.datasets.task import Suite
from loopbench.models.metering import Budget, Meter

from ..answering import Answering
from ..config import BudgetConfig, CompareConfig
from ..schedule import Arm
from ..trial import Setting, run_trial
from .runner import Execute, Progress


@dataclass(frozen=True, slots=True)
class Job:
    """What an engine is to know of a run."""

    config: CompareConfig
    suite: Suite
    arms: tuple[Arm, ...]
    manifest: Mapping[str, Any]
    answering: Answering
    meter: Meter
    """Of the whole run."""


@asynccontextmanager
async def opened(job: Job, progress: Progress) -> AsyncIterator[Execute]:
    """What carries trials out, for as long as the block lasts. Raises WorkerError where no worker can be had."""
    async with job.answering.opened() as answers:
        yield partial(run_trial, setting=setting_of(job, answers))


def setting_of(job: Job, answers: Answering) -> Setting:
    """What all trials of a run share in one process; `answers` is ready to answer in its event loop."""
    config = job.config
    return Setting(
        job.suite,
        answers,
        config.trial_timeout_s,
        budget_of(config.trial_budget),
        job.meter,
        config.real_time,
        config.tool_timeout_s,
    )


def budget_of(config: BudgetConfig) -> Budget:
    return Budget(config.calls, config.tokens, config.dollars, config.seconds)
