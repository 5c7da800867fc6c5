"""Arms against each other: paired differences with intervals, tests and verdicts.

Arms are paired within one suite and one profile: a loop under faults against another in clean air answers no question. How a pair
is decided is in `pairs`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from operator import attrgetter
from typing import Any, NamedTuple

from whichloop.protocol import render_value
from whichloop.protocol.digest import canonical_json
from whichloop.protocol.values import counted

from .arm_info import NO_LIMITS, ArmInfo, TrialLimits
from .arm_warnings import (
    cost_warnings,
    errored_warnings,
    excluded_warnings,
    is_not_the_models,
    lost_repeats_warnings,
    most_frequent,
    most_told,
    overlap_warnings,
    unsound_arm_warnings,
)
from .paired import ONCE, LookLevel
from .pairs import MARGIN, OnTask, Pair, on_few_tasks, paired_test, pairs_of_family, with_outlook, with_repeats
from .record import RECORDING, Record, records_by_arm
from .record_table import alike
from .statistics import ALPHA, interval_json, too_few_units
from .summary import (
    FAULT_COUNTS,
    METRICS,
    PRIMARY,
    ArmSummary,
    DeathCause,
    Measured,
    TaskValues,
    summarize,
    task_values,
)

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


Loops = tuple[str, str]
"""Two loops, by their arms' names without the profile."""


def pooled_values(scores: Mapping[str, TaskValues], arms: Sequence[ArmInfo]) -> list[tuple[Loops, tuple[TaskValues, TaskValues]]]:
    """Return the pairs of loops that met every profile of a suite, each with its tasks' means over the profiles.

    `scores`: arm → its values. Nothing for a suite with a single profile, whose pairs say the same. Only tasks that are known under
    every profile count.
    """
    pairs = []
    for suite in dict.fromkeys(info.suite for info in arms):
        of_suite = [info for info in arms if info.suite == suite]
        profiles = {info.profile for info in of_suite}
        if len(profiles) < 2:
            continue
        by_loop: dict[str, list[ArmInfo]] = {}
        for info in of_suite:
            by_loop.setdefault(info.without_profile, []).append(info)
        pooled = {
            loop: mean_over_profiles([scores[info.arm] for info in infos])
            for loop, infos in by_loop.items()
            if {info.profile for info in infos} == profiles
        }
        pairs += [((a, b), (pooled[a], pooled[b])) for a, b in combinations(pooled, 2)]
    return pairs


def mean_over_profiles(values: Sequence[TaskValues]) -> TaskValues:
    """Return one value per task, the mean of its means under each profile; without tasks that are unknown under any."""
    first = values[0]
    means = [of_profile.means for of_profile in values]
    tasks = [task for task in first.values if all(task in task_means for task_means in means)]
    pooled = {task: [math.fsum(task_means[task] for task_means in means) / len(means)] for task in tasks}
    return TaskValues(pooled, first.clusters, first.templates)


class Caveat(NamedTuple):
    """A warning of a comparison."""

    kind: str
    """`dead arm`, `faults did not land`, `few tasks`, …: the same words for the same thing."""
    text: str


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
        fields: dict[str, Any] = {
            "arm": info.arm,
            "loop": info.variant,
            "base_loop": info.loop,
            "options": {name: _json_value(value) for name, value in info.options.items()},
            "model": info.model,
            "profile": info.profile,
            **({"met": info.met} if info.met else {}),
            "suite": info.suite,
            "trials": summary.trials,
            "scored": summary.scored,
            "errored": summary.errored,
            "excluded": summary.excluded,
            "tasks": summary.tasks,
        }
        fields["known"] = dict(summary.known)
        fields["over_templates"] = interval_json(summary.over_templates)
        fields |= {metric: interval_json(mean) for metric, mean in summary.means.items()}
        return fields | {
            "stops": dict(summary.stops),
            "errors": dict(summary.errors),
            "retries": dict(summary.retries),
            "faults": asdict(summary.faults) if summary.tells_faults else dict.fromkeys(FAULT_COUNTS),
            "recovery": interval_json(summary.recovery),
            "retention_at": {distance: share.as_dict() for distance, share in summary.retention_at.items()},
            "false_success": {"count": summary.false_success, "rate": interval_json(summary.false_success_rate)},
            "right_unseen": summary.right_unseen,
            "exclusions": dict(summary.exclusions),
            "errored_reasons": dict(summary.errored_reasons),
            "crashes": dict(summary.crashes),
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
    """Of each family, over all looks."""
    margin: float
    pooled: tuple[Pair, ...] = ()
    """Where several profiles were run, pairs of loops on accuracy over all of them together, a family of their own (see `pooled`):
    `a` and `b` are the arms' names without the profile."""
    remarks: tuple[str, ...] = ()
    """What else a reader has to know, such as the look at which a run was stopped."""
    limits: TrialLimits = NO_LIMITS
    """What each trial might spend at most, where the run itself set such limits."""
    on_tasks: tuple[OnTask, ...] = ()
    """What each arm did on each task, where some pair's repeats were tested `within` them; else empty."""
    same: tuple[tuple[str, str], ...] = ()
    """Pairs of arms that did the same in every trial."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The texts of all warnings; what weighs most comes first."""
        return tuple(caveat.text for caveat in self.caveats)

    @property
    def crashed_arms(self) -> tuple[ArmResult, ...]:
        """The arms that crashed in every trial."""
        return tuple(arm for arm in self.arms if arm.death_cause == "crashed")

    @property
    def unasked_arms(self) -> tuple[ArmResult, ...]:
        """The arms that never asked their model, without those that crashed in every trial."""
        return tuple(arm for arm in self.arms if arm.death_cause == "never asked")

    @property
    def dead_arms(self) -> tuple[ArmResult, ...]:
        """The arms whose accuracy is not that of an agent: they crashed in every trial, or never asked their model."""
        return (*self.crashed_arms, *self.unasked_arms)

    def dead_arms_json(self) -> list[dict[str, str]]:
        """Return which arms are dead, and why, as plain JSON."""
        return [
            {"arm": arm.info.arm, "cause": arm.death_cause, "sentence": dead_arm_warning(arm).removesuffix(".")}
            for arm in self.dead_arms
        ]

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
            "warnings": [caveat._asdict() for caveat in self.caveats],
            "arms": [arm.to_json() for arm in self.arms],
            "pairs": [pair.to_json() for pair in self.pairs],
            "pooled": [pair.to_json() for pair in self.pooled],
        }


def compare(
    records: Sequence[Record],
    arms: Sequence[ArmInfo],
    *,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    paired: bool = True,
    look: LookLevel = ONCE,
) -> Comparison:
    """Compare arms from one record per trial; without `paired` no pairs, whose number grows with the square of the arms'.

    `look`: at which of several looks at the run; verdicts are at alpha over all looks, intervals at this look's level.

    Raises ValueError for two arms of one name, a record of an arm that is not listed, or arms of one suite whose records come from
    different versions of it.
    """
    by_arm, rules = _by_arm(records, arms), _FamilyRules(alpha, margin, look)
    measures = _ArmMeasures(by_arm, rules.level)
    compared = tuple(ArmResult(info, summarize(by_arm[info.arm], rules.level, measures.known[info.arm])) for info in arms)
    summaries = {arm.info.arm: arm.summary for arm in compared}
    agents = [one.info for one in compared if one.summary.dead != "never asked" and not is_not_the_models(one.summary)]
    matched = [(a.arm, b.arm) for a, b in combinations(agents, 2) if paired and _comparable(a, b)]
    scores = measures.values(PRIMARY)
    of_accuracy = with_outlook(rules.decided(PRIMARY, _matched_values(matched, scores)), scores, by_arm, rules.level)
    pairs = with_repeats(of_accuracy, by_arm, agents)
    for metric in (name for name in METRICS if name != PRIMARY):
        values = measures.values(metric)
        pairs += rules.decided(metric, _matched_values(matched, values))

    same_air = [(a.info.arm, b.info.arm) for a, b in combinations(compared, 2) if _comparable(a.info, b.info)]
    unrecorded, (unreplayable, left_out) = _unrecorded_warnings(records), excluded_warnings(records)
    dead = [dead_arm_warning(arm) for arm in compared]
    apart, partial = overlap_warnings({name: summary.tasks for name, summary in summaries.items()}, _common(matched, pairs))
    return Comparison(
        arms=compared,
        pairs=tuple(pairs),
        caveats=(
            *_caveats("recording lacks requests", unrecorded),
            *_caveats("plans do not replay", unreplayable),
            *_caveats("dead arm", filter(None, dead)),
            *(Caveat(kind, text) for kind, text in unsound_arm_warnings(summaries)),
            *_caveats("no common tasks", apart),
            *_caveats("errored trials", errored_warnings(summaries, same_air)),
            *_caveats("lost repeats", lost_repeats_warnings(by_arm, same_air)),
            *_caveats("fewer common tasks", partial),
            *_caveats("tasks left out", left_out),
            *_caveats("few tasks", _unit_warnings(pairs, rules.level)),
            *_caveats("costs not known", cost_warnings(summaries, same_air)),
        ),
        invalid=bool(unrecorded or unreplayable) or any(map(_is_short, compared)) or (any(dead) and all(dead)),
        alpha=alpha,
        margin=margin,
        pooled=tuple(rules.decided(PRIMARY, pooled_values(scores, agents))) if paired else (),
        on_tasks=on_few_tasks(by_arm) if any(pair.within is not None for pair in pairs) else (),
        same=same_pairs(matched, summaries, by_arm),
    )


_TwoArms = tuple[tuple[str, str], tuple[TaskValues, TaskValues]]
"""The names of two arms, and their values of a metric."""


@dataclass(frozen=True, slots=True)
class _FamilyRules:
    """What the pairs of every family are decided by."""

    alpha: float
    margin: float
    look: LookLevel

    @property
    def level(self) -> float:
        """The level of a test alone at this look."""
        return self.look.nominal(self.alpha)

    def decided(self, metric: str, values: Iterable[_TwoArms]) -> list[Pair]:
        """Return the pairs of one family, from the values of the metric."""
        tests = {names: paired_test(metric, a, b, self.margin) for names, (a, b) in values}
        return pairs_of_family(metric, tests, self.alpha, self.look)


class _ArmMeasures:
    """Reads the measures of all arms one by one; of each measure's values only what the arms' summaries say of them is kept."""

    def __init__(self, by_arm: Mapping[str, Sequence[Record]], level: float) -> None:
        self.known: dict[str, dict[str, Measured]] = {arm: {} for arm in by_arm}
        self._by_arm = by_arm
        self._level = level

    def values(self, metric: str) -> dict[str, TaskValues]:
        """Return each arm's values of a metric, by task."""
        values = {arm: task_values(records, METRICS[metric]) for arm, records in self._by_arm.items()}
        for arm, own in values.items():
            self.known[arm][metric] = Measured.of(metric, own, self._level)
        return values


def _matched_values(matched: Sequence[tuple[str, str]], values: Mapping[str, TaskValues]) -> list[_TwoArms]:
    """Return the names of each two arms that are compared, and their values."""
    return [((a, b), (values[a], values[b])) for a, b in matched]


def _unrecorded_warnings(records: Sequence[Record]) -> list[str]:
    """Warn of trials that asked what the recording does not have."""
    unrecorded = sum(record.status == "errored" and RECORDING in record.errors for record in alike(records))
    return [f"{counted(unrecorded, 'trial')} asked what the recording does not have; the run is invalid."] if unrecorded else []


def _is_short(arm: ArmResult) -> bool:
    """Whether so few of an arm's faults landed, or so few of its trials could be scored, that the run is invalid."""
    summary = arm.summary
    return summary.faults.short or bool(summary.trials and not summary.scored)


def _by_arm(records: Sequence[Record], arms: Sequence[ArmInfo]) -> Mapping[str, Sequence[Record]]:
    by_arm = records_by_arm(records, arms)
    if len(by_arm) != len(arms):
        raise ValueError("two arms have the same name")
    if sum(map(len, by_arm.values())) < len(records):
        other = next(record.arm for record in alike(records) if record.arm not in by_arm)
        raise ValueError(f"a record of arm {other!r}, which is not among {sorted(by_arm)}")
    digests: dict[str, str] = {}
    for info in arms:
        for record in alike(by_arm[info.arm]):
            if digests.setdefault(info.suite, record.suite_digest) != record.suite_digest:
                raise ValueError(f"suite {info.suite!r}: records of two different versions of it")
    return by_arm


def _comparable(a: ArmInfo, b: ArmInfo) -> bool:
    return (a.suite, a.profile) == (b.suite, b.profile)


def _caveats(kind: str, texts: Iterable[str]) -> Iterator[Caveat]:
    return (Caveat(kind, text) for text in texts)


def dead_arm_warning(arm: ArmResult) -> str:
    """Say why the accuracy of an arm is not that of an agent; empty if it is."""
    name, summary = arm.info.arm, arm.summary
    if summary.always_crashed:
        crashed = f"{name}: every trial crashed ({summary.scored} of {summary.scored}){most_frequent(summary.crashes)}"
        unasked = "; it never asked its model, and it is compared with no other arm" if summary.dead == "never asked" else ""
        return f"{crashed}{unasked}."
    if summary.dead == "never asked" and summary.always_late:
        late = f"{name}: every trial ran out of time ({summary.scored} of {summary.scored}){most_told(summary.late)}"
        return f"{late}; it never asked its model, and it is compared with no other arm."
    if summary.dead == "never asked":
        return (
            f"{name}: it never asked its model in {counted(summary.scored, 'trial')}: its accuracy is not that of an agent, "
            "and it is compared with no other arm."
        )
    return ""


def _common(matched: Sequence[tuple[str, str]], pairs: Sequence[Pair]) -> dict[tuple[str, str], int]:
    """Return how many tasks are scored in both arms of each pair."""
    return dict.fromkeys(matched, 0) | {(pair.a, pair.b): pair.difference.n for pair in pairs if pair.metric == PRIMARY}


def _unit_warnings(pairs: Sequence[Pair], alpha: float) -> list[str]:
    """Warn of pairs that cannot show any difference of other tasks: they have too few units."""
    few = [pair for pair in pairs if pair.metric == PRIMARY and too_few_units(pair.units, alpha)]
    if not few:
        return []
    first, most = f"{few[0].a} and {few[0].b}", max(few, key=lambda pair: pair.units)
    named = first if len(few) == 1 else f"{counted(len(few), 'pair')}, such as {first}"
    one = "cluster of tasks" if most.units < most.difference.n else "independent task"
    many = "clusters of tasks" if most.units < most.difference.n else "independent tasks"
    return [f"{named}: {counted(most.units, f'{one} is', f'{many} are')} too few to show any difference."]


def _json_value(value: Any) -> Any:
    """Return an option's value as JSON can express it: infinities and dates become text."""
    try:
        canonical_json(value)
    except (TypeError, ValueError):
        return render_value(value)
    return value
