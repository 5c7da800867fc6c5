"""The limits that a run set to what each trial may spend, in words, and how many trials of each loop ended at one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whichloop.metrics.arm_info import TrialLimits
from whichloop.metrics.record import Record
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted
from whichloop.runs.config import CompareConfig
from whichloop.text.numbers import limit_text

_AT_STEP_LIMIT = (StopReason.MAX_STEPS, StopReason.FORCED)


def trial_limits(config: Mapping[str, Any]) -> TrialLimits:
    """Return the limits of a trial that a run set itself. `config`: that of a manifest, none of an imported run."""
    limits = list(_limits(config))
    *others, last = [words for words, _ in limits] or [""]  # name all of them, however many there are
    words = f"at most {' and '.join(filter(None, [', '.join(others), last]))} a trial" if last else ""
    return TrialLimits(words, frozenset(stop for _, stops in limits for stop in stops))


def _limits(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[StopReason, ...]]]:
    """Yield each limit with its unit, and how trials end that reach it."""
    budget = config.get("trial_budget") or {}
    for name, unit in (("tokens", "token"), ("calls", "model call")):
        if (limit := budget.get(name)) is not None:
            yield counted(limit, unit), (StopReason.BUDGET,)
    if (limit := budget.get("dollars")) is not None:
        yield f"${limit_text(limit)} uncached", (StopReason.BUDGET,)
    if (limit := budget.get("seconds")) is not None:
        yield f"{limit:g} s of the budget", (StopReason.BUDGET,)
    if (limit := config.get("max_tool_steps")) is not None:
        yield counted(limit, "tool step"), _AT_STEP_LIMIT
    by_default = CompareConfig.model_fields["trial_timeout_s"].default
    if (limit := config.get("trial_timeout_s", by_default)) != by_default:
        yield f"{limit:g} s", (StopReason.TIMEOUT,)


def ended_at_limit(records: Sequence[Record], limits: Mapping[str, int]) -> dict[str, int]:
    """Return how many trials of each arm ended at its step limit, that of `limits`, and not at another of its design."""

    def is_at_limit(record: Record) -> bool:
        return record.stop in _AT_STEP_LIMIT and max(record.steps, record.tool_calls) >= limits[record.arm]

    return Counter(record.arm for record in records if is_at_limit(record))
