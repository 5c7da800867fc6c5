"""Whether two arms did the same in every trial: such arms are one design under two names, as far as a run can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from .record import Record
from .summary import PRIMARY, ArmSummary

_COURSE = (
    *("status", "reason", "stop", "answer", "scores", "steps", "calls", "tool_calls", "errors", "retries", "trace_digest"),
    *("input_tokens", "output_tokens", "cached_tokens", "cost_usd", "nominal_usd", "false_success"),
)
"""Fields that tell how a trial went: its outcome, answer, calls, tokens and dollars, and the digest of its moves."""
_course = attrgetter(*_COURSE)


def did_the_same(a: Sequence[Record], b: Sequence[Record]) -> bool:
    """Whether two arms have the same trials, and each went alike in both; False where no trace tells how one went."""
    if len(a) != len(b) or not a:
        return False
    first = {(record.task, record.repeat): record for record in a}
    return all(
        record.trace_digest and (other := first.get((record.task, record.repeat))) is not None and _course(record) == _course(other)
        for record in b
    )


def same_pairs(
    matched: Sequence[tuple[str, str]], summaries: Mapping[str, ArmSummary], by_arm: Mapping[str, Sequence[Record]]
) -> tuple[tuple[str, str], ...]:
    """Return those of the matched arms that did the same in every trial."""
    return tuple((a, b) for a, b in matched if _went_alike(summaries[a], summaries[b]) and did_the_same(by_arm[a], by_arm[b]))


def _went_alike(a: ArmSummary, b: ArmSummary) -> bool:
    """Whether the means of two arms leave it open that they did the same in every trial, so that their trials are looked at."""
    return a.stops == b.stops and all(_mean(a, metric) == _mean(b, metric) for metric in (PRIMARY, "tokens"))


def _mean(summary: ArmSummary, metric: str) -> float | None:
    mean = summary.means[metric]
    return None if mean is None else mean.value
