"""Arms against each other: paired differences with intervals, tests and verdicts.

Arms are paired within one suite and one profile: a loop under faults against another in clean air answers no question. How a pair
is decided is in `pairs`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from operator import attrgetter
from typing import Any

from whichloop.protocol import render_value
from whichloop.protocol.json_text import canonical_json

from .arm_info import NO_LIMITS, ArmInfo, TrialLimits
from .caveats import (
    DEAD,
    Caveat,
    common_tasks,
    excluded_trials,
    few_units,
    in_order,
    is_not_the_models,
    lacking_trials,
    unknown_costs,
    unsound_arms,
)
from .pairs import MARGIN, OnTasks, Pair, on_few_tasks, paired_test, pairs_of_family, with_outlook, with_repeats
from .record import Record, records_by_arm
from .statistics import ALPHA, interval_json, plain
from .summary import FAULT_COUNTS, METRICS, PRIMARY, ArmSummary, DeathCause, TaskValues, all_values, summarize

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


def same_pairs(matched: Iterable[tuple[str, str]], by_arm: Mapping[str, Sequence[Record]]) -> tuple[tuple[str, str], ...]:
    """Return those of the matched arms that did the same in every trial."""
    return tuple((a, b) for a, b in matched if did_the_same(by_arm[a], by_arm[b]))


_Names = tuple[str, str]
"""Two arms, or two loops by their arms' names without the profile."""


def pooled_values(scores: Mapping[str, TaskValues], arms: Sequence[ArmInfo]) -> dict[_Names, tuple[TaskValues, TaskValues]]:
    """Return the pairs of loops that met every profile of a suite, each with its tasks' means over the profiles.

    `scores`: arm → its values. Nothing for a suite with a single profile, whose pairs say the same. Only tasks that are known under
    every profile count.
    """
    pairs: dict[_Names, tuple[TaskValues, TaskValues]] = {}
    for suite in dict.fromkeys(info.suite for info in arms):
        by_loop: dict[str, dict[str, TaskValues]] = {}
        for info in arms:
            if info.suite == suite:
                by_loop.setdefault(info.without_profile, {})[info.profile] = scores[info.arm]
        profiles = {profile for own in by_loop.values() for profile in own}
        pooled = {loop: mean_over_profiles([*own.values()]) for loop, own in by_loop.items() if len(own) == len(profiles) > 1}
        pairs |= {(a, b): (pooled[a], pooled[b]) for a, b in combinations(pooled, 2)}
    return pairs


def mean_over_profiles(values: Sequence[TaskValues]) -> TaskValues:
    """Return one value per task, the mean of its means under each profile; without tasks that are unknown under any."""
    first = values[0]
    means = [of_profile.means for of_profile in values]
    tasks = [task for task in first.values if all(task in task_means for task_means in means)]
    pooled = {task: [math.fsum(task_means[task] for task_means in means) / len(means)] for task in tasks}
    return TaskValues(pooled, first.clusters, first.templates)


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm and what it gave."""

    info: ArmInfo
    summary: ArmSummary

    @property
    def death_cause(self) -> DeathCause:
        """Why the arm's accuracy is not that of an agent, first that it crashed in every trial; empty if it is."""
        return "crashed" if self.summary.always_crashed else self.summary.dead

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with None for what is not known."""
        info, summary = self.info, self.summary
        return {
            "arm": info.arm,
            "loop": info.variant,
            "base_loop": info.loop,
            "options": {name: _json_value(value) for name, value in info.options.items()},
            "model": info.model,
            "profile": info.profile,
            **({"met": info.met} if info.met else {}),
            "suite": info.suite,
            **{name: getattr(summary, name) for name in ("trials", "scored", "errored", "excluded", "tasks")},
            "known": dict(summary.known),
            "over_templates": interval_json(summary.over_templates),
            **plain(summary.means),
            **{name: dict(getattr(summary, name)) for name in ("stops", "errors", "retries")},
            "faults": asdict(summary.faults) if summary.tells_faults else dict.fromkeys(FAULT_COUNTS),
            "recovery": interval_json(summary.recovery),
            "retention_at": plain(summary.retention_at),
            "false_success": {"count": summary.false_success, "rate": interval_json(summary.false_success_rate)},
            "right_unseen": summary.right_unseen,
            **{name: dict(getattr(summary, name)) for name in ("exclusions", "errored_reasons", "crashes")},
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All arms, all pairs that make sense, and what to keep in mind when reading them."""

    arms: tuple[ArmResult, ...]
    pairs: tuple[Pair, ...]
    """Without those that have no task in common for which the metric is known."""
    caveats: tuple[Caveat, ...]
    """What weighs most comes first: what makes the run invalid, then trials and tasks that means lack, then unknown costs."""
    invalid: bool
    """Faults did not land as scheduled, an arm ran and no trial of it could be scored, a recording lacked what was asked, a broken
    tool excluded tasks, most plans lead to wrong answers, or no arm asked its model without crashing: no verdict of this run
    holds."""
    alpha: float
    """Of each family."""
    margin: float
    pooled: tuple[Pair, ...] = ()
    """Where several profiles were run, pairs of loops on accuracy over all of them together, a family of their own (see `pooled`):
    `a` and `b` are the arms' names without the profile."""
    remarks: tuple[str, ...] = ()
    """What else a reader has to know."""
    limits: TrialLimits = NO_LIMITS
    """What each trial might spend at most, where the run itself set such limits."""
    on_tasks: OnTasks = field(default_factory=dict)
    """What each arm did on each task, where some pair's repeats were tested `within` them; else empty."""
    same: tuple[tuple[str, str], ...] = ()
    """Pairs of arms that did the same in every trial."""

    @property
    def infos(self) -> tuple[ArmInfo, ...]:
        """What the arms are made of."""
        return tuple(arm.info for arm in self.arms)

    @property
    def dead_arms(self) -> tuple[ArmResult, ...]:
        """The arms whose accuracy is not that of an agent: they crashed in every trial, or, told after those, never asked their
        model."""
        return tuple(arm for cause in ("crashed", "never asked") for arm in self.arms if arm.death_cause == cause)

    def dead_arms_json(self) -> list[dict[str, str]]:
        """Return which arms are dead, and why, as plain JSON."""
        told = {caveat.arms: caveat.text for caveat in reversed(self.caveats) if caveat.code in DEAD}
        return [{"arm": arm.info.arm, "cause": arm.death_cause, "sentence": told[arm.info.arm,]} for arm in self.dead_arms]

    def pairs_on(self, metric: str) -> tuple[Pair, ...]:
        """Return the pairs on one metric."""
        return tuple(pair for pair in self.pairs if pair.metric == metric)

    def are_same(self, a: str, b: str) -> bool:
        """Whether two arms did the same in every trial."""
        return (a, b) in self.same or (b, a) in self.same

    def to_json(self, *, run: str | None = None, digest: str | None = None, wall_s: float | None = None) -> dict[str, Any]:
        """Return the object that `compare --json` prints; what this module does not know comes from the caller."""
        return {
            "run": run,
            "digest": digest,
            "wall_s": wall_s,
            "alpha": self.alpha,
            "margin": self.margin,
            "limits": self.limits.words or None,
            "invalid": self.invalid,
            "dead_arms": self.dead_arms_json(),
            "warnings": plain(self.caveats),
            "arms": plain(self.arms),
            "pairs": plain(self.pairs),
            "pooled": plain(self.pooled),
        }


def compare(
    records: Sequence[Record],
    arms: Sequence[ArmInfo],
    *,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    paired: bool = True,
) -> Comparison:
    """Compare arms from one record per trial; without `paired` no pairs, whose number grows with the square of the arms'.

    Raises ValueError for two arms of one name, a record of an arm that is not listed, or arms of one suite whose records come from
    different versions of it.
    """
    by_arm = _by_arm(records, arms)

    def decided(metric: str, both: Mapping[_Names, tuple[TaskValues, TaskValues]]) -> list[Pair]:
        tests = {names: paired_test(metric, a, b, margin) for names, (a, b) in both.items()}
        return pairs_of_family(metric, tests.items(), alpha)

    values = {arm: all_values(own) for arm, own in by_arm.items()}
    scores = {arm: own[PRIMARY] for arm, own in values.items()}
    compared = tuple(ArmResult(info, summarize(by_arm[info.arm], alpha, values[info.arm])) for info in arms)
    summaries = {arm.info.arm: arm.summary for arm in compared}
    agents = [one.info for one in compared if one.summary.dead != "never asked" and not is_not_the_models(one.summary)]
    matched = _matched(agents) if paired else []
    pairs = with_outlook(decided(PRIMARY, {(a, b): (scores[a], scores[b]) for a, b in matched}), scores, by_arm, alpha)
    pairs = with_repeats(pairs, by_arm, agents)
    for metric in (name for name in METRICS if name != PRIMARY):
        pairs += decided(metric, {(a, b): (values[a][metric], values[b][metric]) for a, b in matched})
    same_air = _matched(arms)
    common = dict.fromkeys(matched, 0) | {(pair.a, pair.b): pair.difference.n for pair in pairs if pair.metric == PRIMARY}
    caveats = (
        *excluded_trials(records),
        *unsound_arms(summaries),
        *common_tasks({name: summary.tasks for name, summary in summaries.items()}, common),
        *lacking_trials(summaries, by_arm, same_air),
        *few_units(pairs, alpha),
        *unknown_costs(summaries, same_air),
    )
    unsound = {"recording lacks requests", "plans do not replay", "faults did not land"} & {caveat.code for caveat in caveats}
    is_unscored = any(summary.trials and not summary.scored for summary in summaries.values())
    return Comparison(
        arms=compared,
        pairs=tuple(pairs),
        caveats=in_order(caveats),
        invalid=bool(unsound) or is_unscored or (bool(compared) and all(arm.death_cause for arm in compared)),
        alpha=alpha,
        margin=margin,
        pooled=tuple(decided(PRIMARY, pooled_values(scores, agents))) if paired else (),
        on_tasks=on_few_tasks(by_arm) if any(pair.within is not None for pair in pairs) else {},
        same=same_pairs(matched, by_arm),
    )


def _matched(arms: Sequence[ArmInfo]) -> list[_Names]:
    return [(a.arm, b.arm) for a, b in combinations(arms, 2) if (a.suite, a.profile) == (b.suite, b.profile)]


def _by_arm(records: Sequence[Record], arms: Sequence[ArmInfo]) -> Mapping[str, Sequence[Record]]:
    by_arm = records_by_arm(records, arms)
    if len(by_arm) != len(arms):
        raise ValueError("two arms have the same name")
    if sum(map(len, by_arm.values())) < len(records):
        other = next(record.arm for record in records if record.arm not in by_arm)
        raise ValueError(f"a record of arm {other!r}, which is not among {sorted(by_arm)}")
    digests: dict[str, str] = {}
    for info in arms:
        for record in by_arm[info.arm]:
            if digests.setdefault(info.suite, record.suite_digest) != record.suite_digest:
                raise ValueError(f"suite {info.suite!r}: records of two different versions of it")
    return by_arm


def _json_value(value: Any) -> Any:
    """Return an option's value as JSON can express it: infinities and dates become text."""
    try:
        canonical_json(value)
    except (TypeError, ValueError):
        return render_value(value)
    return value
