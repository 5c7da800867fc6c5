"""The limits that a run set to what each trial may spend, in words, and how many trials of each loop ended at one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from whichloop.metrics.arm_info import TRIAL_LIMITS, TrialLimits
from whichloop.metrics.comparison import ArmResult, Comparison
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import alike, where
from whichloop.protocol import StopReason
from whichloop.protocol.values import counted, joined
from whichloop.runs.config import CompareConfig
from whichloop.text.numbers import MAX_NAMES, dollars_text, limit_text, short_name

from .verdict_old.sentence import AnswerSentence

_LOST_AT = frozenset({StopReason.BUDGET, StopReason.TIMEOUT})
"""How trials end that spent more than they might, and so are not solved."""
_AT_STEP_LIMIT = (StopReason.MAX_STEPS, StopReason.FORCED)
OFTEN = 0.2
"""Share of a loop's trials that end at the suite's step limit from which on it is said."""
_LAST_CALL = ", not counting its last call"
"""What is said of a run by the rule before the present one: see `TRIAL_LIMITS_VERSION`."""


def trial_limits(config: Mapping[str, Any], versions: Mapping[str, Any], suite_steps: int | None = None) -> TrialLimits:
    """Return the limits of a trial that a run set itself. `config`, `versions`: those of a manifest, none of an imported run.

    `suite_steps`: the tool steps of a trial that its manifest has, which are the suite's unless its configuration has them.
    """
    limits = list(_limits(config))
    *others, last = [words for words, _ in limits] or [""]  # name all of them, however many there are
    words = f"at most {' and '.join(filter(None, [', '.join(others), last]))} a trial" if last else ""
    return TrialLimits(
        f"{words}{_LAST_CALL * is_by_former_rule(config, versions)}",
        frozenset(stop for _, stops in limits for stop in stops),
        suite_steps if config.get("max_tool_steps") is None else None,
    )


def is_by_former_rule(config: Mapping[str, Any], versions: Mapping[str, Any]) -> bool:
    """Whether the last call of the run's trials could go beyond a limit, and what it answered counted."""
    budget = config.get("trial_budget") or {}
    return TRIAL_LIMITS not in versions and any(budget.get(name) is not None for name in ("tokens", "dollars", "seconds"))


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


def limits_sentences(comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield that the verdict holds under the run's limits to a trial, and how many trials of each loop ended at one."""
    limits = comparison.limits
    if not limits.words:
        return
    trials = _by_loop(comparison, lambda arm: sum(arm.summary.stops.get(stop, 0) for stop in limits.stops))
    scored = _by_loop(comparison, lambda arm: arm.summary.scored)
    holds = f"All of this is for {limits.words}"
    if not any(trials.values()):
        yield AnswerSentence(f"{holds}, which no trial reached", is_basis=True)
        return
    ordered = sorted(trials, key=lambda loop: -trials[loop])
    shown_loops = ordered if len(ordered) <= MAX_NAMES + 1 else [loop for loop in ordered if trials[loop]][:MAX_NAMES]
    rest = [trials[loop] for loop in ordered if loop not in shown_loops]
    each = ""
    if len({*scored.values()}) == 1:
        each = f", of {next(iter(scored.values())):,}{' each' if len(scored) > 1 else ''}"
    counts = [f"{loop} {trials[loop] or 'none'}{'' if each else f' of {scored[loop]:,}'}" for loop in shown_loops]
    others = [f"{counted(len(rest), 'other')} {f'{sum(rest)} in all' if any(rest) else 'none'}"] if rest else []
    reached = ", ".join([*counts, *others])
    lost = limits.stops <= _LOST_AT and not limits.words.endswith(_LAST_CALL)
    what = "trials that needed more, and so are not solved" if lost else "trials that ended there"
    yield AnswerSentence(f"{holds}; {what}{each}: {reached}", is_basis=True)


def ended_at_limit(records: Sequence[Record], steps: int) -> dict[str, int]:
    """Return how many trials of each arm ended at a step limit of so many steps, and not at one of the loop's own."""

    def is_at_limit(record: Record) -> bool:
        return record.stop in _AT_STEP_LIMIT and max(record.steps, record.tool_calls) >= steps

    return Counter(record.arm for record in alike(where(records, is_at_limit)))


def suite_limit_sentences(comparison: Comparison) -> Iterator[AnswerSentence]:
    """Yield which loops ended many of their trials at the suite's own step limit: with more steps they may stand elsewhere."""
    limit = comparison.limits.suite_steps
    if limit is None:
        return
    ended = _by_loop(comparison, lambda arm: comparison.limits.ended.get(arm.info.arm, 0))
    scored = _by_loop(comparison, lambda arm: arm.summary.scored)
    often = sorted((loop for loop in ended if ended[loop] and ended[loop] >= OFTEN * scored[loop]), key=lambda loop: -ended[loop])
    if not often:
        return
    shown = often if len(often) <= MAX_NAMES + 1 else often[:MAX_NAMES]
    rest = [counted(len(often) - len(shown), "other")] if len(often) > len(shown) else []
    counts = joined([*(f"{loop} in {ended[loop]:,} of {counted(scored[loop], 'trial')}" for loop in shown), *rest])
    at, more = f"ended at the suite's limit of {counted(limit, 'tool step')}", f"--max-tool-steps {2 * limit}"
    text = f"{counts} {at}: {more} tells where {'it stands' if len(often) == 1 else 'they stand'} with twice as many"
    yield AnswerSentence(text, f"{joined([*shown, *rest])} often {at}: try {more}", may_be_left_out=True)


def _by_loop(comparison: Comparison, trials: Callable[[ArmResult], int]) -> dict[str, int]:
    """Return the sum over the arms of each loop, by its short name."""
    sums: dict[str, int] = {}
    for arm in comparison.arms:
        name = short_name(arm.info)
        sums[name] = sums.get(name, 0) + trials(arm)
    return sums


def impossible_limit(comparison: Comparison) -> AnswerSentence | None:
    """Return that a limit is below what every loop needs: none solved anything, and most trials of each ended at it. Else None."""
    summaries = [arm.summary for arm in comparison.arms if arm.summary.scored]
    stops = comparison.limits.stops
    is_so = (
        bool(summaries)
        and bool(stops)
        and all(
            summary.accuracy is not None
            and summary.accuracy.value == 0
            and sum(summary.stops.get(stop, 0) for stop in stops) > summary.scored / 2
            for summary in summaries
        )
    )
    if not is_so or not stops <= _LOST_AT:
        return None
    unit = "nominal_usd" if all(summary.means["nominal_usd"] is not None for summary in summaries) else "tokens"
    spent = [(mean.value, short_name(arm.info)) for arm in comparison.arms if (mean := arm.summary.means[unit]) is not None]
    text = "Nothing was solved: the limit is below what every loop needs"
    if spent:
        least, loop = min(spent)
        amount = f"${dollars_text(least)} uncached" if unit == "nominal_usd" else counted(round(least), "token")
        text += f"; {loop}, which spent the least, had spent {amount} a trial when it was stopped"
    return AnswerSentence(f"{text}. A run without the limit tells what a solved task takes", f"{text}: run without it first")
