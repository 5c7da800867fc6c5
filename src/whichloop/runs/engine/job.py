"""The description of a run that an engine needs and passes to its workers."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from whichloop.datasets.task import Suite
from whichloop.models.metering import Budget, Meter
from whichloop.protocol.json_text import Json
from whichloop.protocol.names import own_folder
from whichloop.runs.config import BudgetConfig, CompareConfig
from whichloop.runs.manifest import Manifest
from whichloop.runs.schedule import Arm
from whichloop.runs.trial.setting import TrialContext
from whichloop.runs.trial_models import TrialModels

from .seen_lines import SeenLines

COMPARED = ("versions", "suite", "profiles", "arms")


@dataclass(frozen=True, slots=True)
class Job:
    """The description of a run that an engine needs."""

    config: CompareConfig
    suite: Suite
    arms: tuple[Arm, ...]
    manifest: Manifest
    trial_models: TrialModels
    meter: Meter
    """The meter of the whole run."""
    lines: SeenLines | None = None
    """Collects which lines of some files the trials come to in workers; None where nobody asks."""


def setup_of(job: Job, workers: int) -> bytes:
    """Return what one of so many workers is told, as JSON: the configuration with its share of the limits, what the run
    has spent by now, and what it must find.

    Keys of providers are left out: a worker reads them from its own environment.
    """
    share = job.config.provider
    provider = share.model_copy(
        update={
            "requests_per_minute": _share(share.requests_per_minute, workers),
            "tokens_per_minute": _share(share.tokens_per_minute, workers),
        }
    )
    concurrency = max(1, job.config.in_flight // workers)
    alone = {"workers": None, "engine": "local", "address": None}  # what it does itself, it does in one process
    config = job.config.model_copy(update={"provider": provider, "concurrency": concurrency, **alone})
    return json.dumps(
        {
            "config": config.model_dump(mode="json"),
            "manifest": compared(job.manifest),
            "models": job.manifest.models,
            "spent": [job.meter.calls, job.meter.tokens, job.meter.dollars],
            "path": [*sys.path, *own_folder()],
            "lines": [] if job.lines is None else job.lines.paths,
        }
    ).encode()


def compared(manifest: Manifest) -> dict[str, Json]:
    """Return the parts of a manifest that must be the same in every process that runs trials of one run."""
    return manifest.model_dump(mode="json", include=set(COMPARED), exclude_unset=True)


def _share(limit: int | None, workers: int) -> int | None:
    return None if limit is None else max(1, limit // workers)


def setting_of(config: CompareConfig, suite: Suite, answers: TrialModels, meter: Meter) -> TrialContext:
    """Return what all trials of a run share in one process; `answers` is ready to answer in its event loop."""
    return TrialContext(
        suite, answers, config.trial_timeout_s, budget_of(config.trial_budget), meter, config.real_time, config.tool_timeout_s
    )


def budget_of(config: BudgetConfig) -> Budget:
    """Return the limits that a configuration sets."""
    return Budget(config.calls, config.tokens, config.dollars, config.seconds)
