"""The input and the result of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from whichloop.datasets.task import Suite
from whichloop.metrics.record import Record
from whichloop.models.metering import Budget, Meter
from whichloop.models.receipts import Truth
from whichloop.protocol.tools import DEFAULT_TIME_LIMIT_S
from whichloop.runs.trial_models import TrialModels

MAX_ANSWER_CHARS = 100_000
"""Maximum length of an answer that is scored and kept; the rest is cut off."""
MAX_REASON_CHARS = 2_000


class NotRun(Exception):
    """The run's budget is used up: the trial waits for a resume."""


@dataclass(frozen=True, slots=True)
class TrialContext:
    """The context that all trials of a run share."""

    suite: Suite
    trial_models: TrialModels = field(default_factory=TrialModels)
    timeout_s: float = 60.0
    trial_budget: Budget = field(default_factory=Budget)
    meter: Meter = field(default_factory=Meter)
    """The meter of the whole run."""
    real_time: bool = False
    tool_timeout_s: float = DEFAULT_TIME_LIMIT_S
    """Time limit in seconds for a tool that sets none of its own."""
    oracles: dict[str, Mapping[str, Truth] | str] = field(default_factory=dict)
    """Task → truth of its planned calls, or why its plan does not replay; filled as tasks come up."""


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A finished trial: its record, and its trace as one line of JSON (empty where nothing ran)."""

    record: Record
    trace: bytes = b""
