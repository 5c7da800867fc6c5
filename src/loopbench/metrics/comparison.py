"""Arms against each other: paired differences with intervals, tests and verdicts.

Arms are paired within one suite and one profile: a loop under faults against another in clean air answers no question. For each
metric all pairs are one family (see `families`); accuracy is the primary one. A pair's interval is at the level that its
family leaves it, and so never contradicts the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, Literal

from loopbench.protocol import render_value
from loopbench.protocol.counts import counted
from loopbench.protocol.digest import canonical_json

from .arm_info import ArmInfo, are_imported
from .arm_warnings import cost_warnings, errored_warnings, lost_repeats_warnings, unsound_arm_warnings
from .families import judge_family
from .few_tasks import MAX_FEW_TASKS, OnTask, on_few_tasks
from .few_units import are_too_few_to_plan, too_few_units
from .left_out import excluded_warnings, most_frequent, overlap_warnings
from .outlook import Outlook, pair_outlook
from .paired import SCORES, PairedFlip
from .pooled import pooled_values
from .power import spread
from .record import RECORDING, Record
from .record_table import alike, checked_by_arm, where
from .same_trials import same_pairs
from .solved_costs import NO_SOLVED_COSTS, UNITS, SolvedCosts
from .spending import ONCE, LookLevel
from .statistics import ALPHA, Interval, Verdict, VerdictWord, verdict
from .summary import (
    FAULT_COUNTS,
    GAINS,
    METRICS,
    PRIMARY,
    SHARES,
    ArmSummary,
    MeasuredMean,
    TaskValues,
    death_cause,
    is_scored,
    mean_dollars,
    measured_mean,
    summarize,
    task_values,
)
from .trial_limits import NO_LIMITS, TrialLimits
from .within_tasks import WithinTasks, WithinTest, paired_within_tasks, unpaired_within_tasks

MARGIN = 0.02
"""Differences up to this do not matter: points of a share such as accuracy; of any other metric, this share of both arms' mean."""
AT_BUDGET = "accuracy_at_budget"
"""Accuracy where trials beyond a budget score nothing: see `views`."""
_IN_POINTS = SHARES | {AT_BUDGET}
_MORE_IS_BETTER = GAINS | {AT_BUDGET}


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm and what it gave."""

    info: ArmInfo
    summary: ArmSummary

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with None for what is not known."""
        info, summary = self.info, self.summary
        fields: dict[str, Any] = {
            "arm": info.arm,
            "loop": info.variant,
            "base_loop": info.loop,
            "options": {name: _plain(value) for name, value in info.options.items()},
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
        fields["over_templates"] = _interval(summary.over_templates)
        fields |= {metric: _interval(mean) for metric, mean in summary.means.items()}
        return fields | {
            "stops": dict(summary.stops),
            "errors": dict(summary.errors),
            "retries": dict(summary.retries),
            "faults": asdict(summary.faults) if summary.tells_faults else dict.fromkeys(FAULT_COUNTS),
            "recovery": _interval(summary.recovery),
            "retention_at": {distance: share.as_dict() for distance, share in summary.retention_at.items()},
            "false_success": {"count": summary.false_success, "rate": _interval(summary.false_success_rate)},
            "right_unseen": summary.right_unseen,
            "exclusions": dict(summary.exclusions),
            "errored_reasons": dict(summary.errored_reasons),
            "crashes": dict(summary.crashes),
        }


_OPPOSITE: Mapping[VerdictWord, VerdictWord] = {"better": "worse", "worse": "better"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arms on one metric, over the tasks scored in both: a is `verdict` than b (or equivalent to it)."""

    a: str
    b: str
    metric: str
    difference: Interval
    """a minus b, in the metric's unit, at confidence 1 - `level`."""
    units: int
    """Units of inference: clusters of tasks where templates are shared, else tasks."""
    p: float
    p_holm: float
    margin: float
    """In the metric's unit."""
    verdict: Verdict
    level: float
    """At which the family tested this pair: alpha where it is the only one, and the run is looked at once. `difference` holds 0 iff
    p_holm >= alpha."""
    outlook: Outlook | None = None
    """What more tasks are likely to decide of accuracy, where it is undecided. None too where too many would be needed, and where
    units are too few to plan with."""
    look: int | None = None
    """The look at the run that decided it, whose numbers these are; None in a run without looks, and where it is undecided."""
    over_templates: Interval | None = None
    """Of accuracy, the difference with the templates as units, `n` of them, at the same confidence; it decides nothing.

    None too where the two do not agree on what the tasks were made from."""

    within: WithinTasks | None = None
    """Of accuracy, on few tasks: what repeats show of these very tasks, its p adjusted for all such pairs."""

    @property
    def family(self) -> Literal["primary", "secondary"]:
        return "primary" if self.metric == PRIMARY else "secondary"

    @property
    def turned(self) -> Pair:
        """The same pair with b as its first arm: b minus a, and the opposite verdict."""
        over = None if self.over_templates is None else self.over_templates.turned
        opposite = replace(self.verdict, word=_OPPOSITE.get(self.verdict.word, self.verdict.word))
        within = None if self.within is None else self.within.turned
        difference = self.difference.turned
        return replace(self, a=self.b, b=self.a, difference=difference, over_templates=over, verdict=opposite, within=within)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            "family": self.family,
            "difference": self.difference.as_dict(),
            "over_templates": _interval(self.over_templates),
            "units": self.units,
            "p": self.p,
            "p_holm": self.p_holm,
            "level": self.level,
            "margin": self.margin,
            "verdict": self.verdict.word,
            "within_margin": self.verdict.within_margin,
            "outlook": None if self.outlook is None else self.outlook.to_json(),
            "look": self.look,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All arms, all pairs that make sense, and what to keep in mind when reading them."""

    arms: tuple[ArmResult, ...]
    pairs: tuple[Pair, ...]
    """Without those that have no task in common for which the metric is known."""
    main_warnings: tuple[str, ...]
    """What weighs most comes first: what makes the run invalid, then trials and tasks that means lack."""
    invalid: bool
    """Faults did not land as scheduled, an arm ran and no trial of it could be scored, a recording lacked what was asked, a broken
    tool excluded tasks, or no arm asked its model without crashing: no verdict of this run holds."""
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
    cost_warnings: tuple[str, ...] = ()
    """Costs that are not known of all trials; they weigh least."""
    solved_costs: SolvedCosts = NO_SOLVED_COSTS
    """What arms solved and spent on each task, where they are compared."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """All warnings; what weighs most comes first."""
        return (*self.main_warnings, *self.cost_warnings)

    def are_same(self, a: str, b: str) -> bool:
        """Whether two arms did the same in every trial."""
        return (a, b) in self.same or (b, a) in self.same

    def to_json(self, *, run: str | None = None, digest: str | None = None, wall_s: float | None = None) -> dict[str, Any]:
        """The object that `compare --json` prints; what this module does not know comes from the caller."""
        return {
            "run": run,
            "digest": digest,
            "wall_s": wall_s,
            "alpha": self.alpha,
            "margin": self.margin,
            "limits": self.limits.words or None,
            "invalid": self.invalid,
            "warnings": list(self.warnings),
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
    Raises ValueError as `checked_by_arm` does.
    """
    by_arm, level = checked_by_arm(records, arms), look.nominal(alpha)
    agents = [info for info in arms if death_cause(where(by_arm[info.arm], is_scored)) != "never asked"]
    matched = [(a.arm, b.arm) for a, b in combinations(agents, 2) if paired and _comparable(a, b)]
    pairs: list[Pair] = []
    spent: dict[str, Mapping[str, TaskValues]] = {}
    measured: dict[str, Mapping[str, MeasuredMean]] = {}
    scores = {name: task_values(found, METRICS[PRIMARY]) for name, found in by_arm.items()}
    for metric, value in METRICS.items():
        values = scores if metric == PRIMARY else {name: task_values(found, value) for name, found in by_arm.items()}
        measured[metric] = {name: measured_mean(metric, own, level) for name, own in values.items()}
        if metric in UNITS and matched:
            spent[metric] = values
        tests = {names: paired_test(metric, values[names[0]], values[names[1]], margin) for names in matched}
        found = pairs_of_family(metric, tests, alpha, look)
        pairs.extend(_with_repeats(with_outlook(found, scores, by_arm, level), by_arm, agents) if metric == PRIMARY else found)
    compared = tuple(_arm_result(info, by_arm[info.arm], level, measured) for info in arms)
    unrecorded = sum(record.status == "errored" and RECORDING in record.errors for record in alike(records))
    lacking = [f"{counted(unrecorded, 'trial')} asked what the recording does not have; the run is invalid."] if unrecorded else []
    unreplayable, left_out = excluded_warnings(records)
    dead = [*map(dead_arm_warning, compared)]
    summaries, same_air = {arm.info.arm: arm.summary for arm in compared}, _under_same_conditions(compared)
    apart, partial = overlap_warnings({name: summary.tasks for name, summary in summaries.items()}, _common(matched, pairs))
    warnings = [
        *lacking,
        *unreplayable,
        *filter(None, dead),
        *unsound_arm_warnings(summaries),
        *apart,
        *errored_warnings(summaries, same_air),
        *lost_repeats_warnings(by_arm, same_air),
        *partial,
        *left_out,
        *_unit_warnings(pairs, level),
    ]
    short = any(arm.summary.faults.short or (arm.summary.trials and not arm.summary.scored) for arm in compared)
    invalid = short or bool(unrecorded) or bool(unreplayable) or (any(dead) and all(dead))
    together = pooled_values(scores, agents) if paired else []
    pooled = pairs_of_family(PRIMARY, {names: paired_test(PRIMARY, *values, margin) for names, values in together}, alpha, look)
    on_tasks = on_few_tasks(by_arm) if any(pair.within is not None for pair in pairs) else ()
    return Comparison(
        *(compared, tuple(pairs), tuple(warnings), invalid, alpha, margin, tuple(pooled)),
        on_tasks=on_tasks,
        same=same_pairs(matched, summaries, by_arm),
        cost_warnings=tuple(cost_warnings(summaries, same_air)),
        solved_costs=SolvedCosts(scores, spent, level / len(matched)) if matched else NO_SOLVED_COSTS,
    )


def _arm_result(
    info: ArmInfo, records: Sequence[Record], level: float, measured: Mapping[str, Mapping[str, MeasuredMean]]
) -> ArmResult:
    """Return an arm with what it gave. `measured`: metric → arm → what it comes to."""
    return ArmResult(info, summarize(records, level, {metric: by_arm[info.arm] for metric, by_arm in measured.items()}))


@dataclass(frozen=True, slots=True)
class PairTest:
    """A pair before its family is known."""

    flip: PairedFlip
    margin: float
    """In the metric's unit."""
    over_templates: PairedFlip | None = None
    """Of accuracy, where templates make other units than clusters do."""


def paired_test(metric: str, a: TaskValues, b: TaskValues, margin: float, *, reach: float = SCORES) -> PairTest | None:
    """Pair two arms, a minus b; None where no task has a known value in both. `reach`: of scores, how far two can lie apart."""
    means_a, means_b = a.means, b.means
    tasks = [task for task in means_a if task in means_b]
    if not tasks:
        return None
    d = [means_a[task] - means_b[task] for task in tasks]
    clusters = [a.clusters[task] for task in tasks]
    if metric in _IN_POINTS:
        agree = all(a.templates.get(task) == b.templates.get(task) for task in tasks)
        templates = a.shared_templates(tasks) if metric == PRIMARY and agree else None
        over = None if templates is None else PairedFlip(d, templates, reach=reach)
        return PairTest(PairedFlip(d, clusters, reach=reach), margin, over)
    mean = sum(means_a[task] + means_b[task] for task in tasks) / (2 * len(tasks))
    return PairTest(PairedFlip(d, clusters, reach=None), margin * mean)


def pairs_of_family(
    metric: str, tests: Mapping[tuple[str, str], PairTest | None], alpha: float, look: LookLevel = ONCE
) -> list[Pair]:
    """Return the pairs of one metric, decided together as one family; a pair that could not be tested is left out."""
    return judged(metric, [(names, test) for names, test in tests.items() if test is not None], alpha, look)


def judged(metric: str, tests: Sequence[tuple[tuple[str, str], PairTest]], alpha: float, look: LookLevel = ONCE) -> list[Pair]:
    """Return the pairs of one metric, decided together as one family, in which two arms may meet more than once."""
    decisions = judge_family([(test.flip, test.margin) for _, test in tests], alpha, look)
    pairs = []
    for (names, test), decided in zip(tests, decisions, strict=True):
        advantage = decided.difference.value if metric in _MORE_IS_BETTER else -decided.difference.value
        word = verdict(advantage, decided.p_holm, decided.p_equivalence_holm, alpha)
        over = test.over_templates
        over_templates = None if over is None else replace(over.interval(decided.level), n=over.units, units=None)
        pair = Pair(
            *(*names, metric, decided.difference, test.flip.units, decided.p, decided.p_holm, test.margin, word, decided.level)
        )
        pairs.append(replace(pair, over_templates=over_templates))
    return pairs


def undecided(pair: Pair) -> Pair:
    """Return the pair without its verdict and its outlook, as it stands before anything is decided."""
    return replace(pair, verdict=Verdict("undecided", within_margin=False), outlook=None)


def _comparable(a: ArmInfo, b: ArmInfo) -> bool:
    return (a.suite, a.profile) == (b.suite, b.profile)


def with_outlook(
    pairs: Sequence[Pair], scores: Mapping[str, TaskValues], by_arm: Mapping[str, Sequence[Record]], alpha: float
) -> list[Pair]:
    """Return the pairs; each undecided one with the sizes at which a run of its two arms alone may decide it.

    A pair with too few units to plan with stays without: nothing that is known of it tells a size.
    """
    prices = {arm: mean_dollars(records) for arm, records in by_arm.items()}
    completed = []
    for pair in pairs:
        is_few = are_too_few_to_plan(pair.units, alpha, is_clustered=pair.units < pair.difference.n)
        is_open = pair.verdict.word == "undecided" and not is_few
        varies = spread(scores[pair.a], scores[pair.b]) if is_open else None
        if varies is not None:
            a, b = prices[pair.a], prices[pair.b]
            price = None if a is None or b is None else (a + b) / 2
            pair = replace(pair, outlook=pair_outlook(varies, margin=pair.margin, alpha=alpha, cost_usd=price))
        completed.append(pair)
    return completed


def _with_repeats(pairs: Sequence[Pair], by_arm: Mapping[str, Sequence[Record]], arms: Sequence[ArmInfo]) -> list[Pair]:
    """Return the pairs; each one on few tasks with what its repeats show of these very tasks.

    The p of that test is multiplied by the number of such pairs (Bonferroni). Repeats of imported arms are not paired: nothing says
    that the third one of one arm shares anything with the third one of another.
    """
    tested = sum(pair.difference.n <= MAX_FEW_TASKS for pair in pairs)
    imported = {info.arm for info in arms if are_imported([info])}
    completed = []
    for pair in pairs:
        test: WithinTest = unpaired_within_tasks if pair.a in imported else paired_within_tasks
        shown = test(by_arm[pair.a], by_arm[pair.b]) if pair.difference.n <= MAX_FEW_TASKS else None
        completed.append(
            pair if shown is None else replace(pair, within=replace(shown, p=min(1.0, shown.p * tested), tested=tested))
        )
    return completed


def dead_arm_warning(arm: ArmResult) -> str:
    """Say why the accuracy of an arm is not that of an agent; empty if it is."""
    name, summary = arm.info.arm, arm.summary
    if summary.dead and sum(summary.crashes.values()) == summary.scored:
        crashed = f"{name}: every trial crashed ({summary.scored} of {summary.scored}){most_frequent(summary.crashes)}"
        unasked = "; it never asked its model, and it is compared with no other arm" if summary.dead == "never asked" else ""
        return f"{crashed}{unasked}."
    if summary.dead == "never asked":
        return (
            f"{name}: it never asked its model in {counted(summary.scored, 'trial')}: its accuracy is not that of an agent, "
            "and it is compared with no other arm."
        )
    return ""


def _under_same_conditions(arms: Sequence[ArmResult]) -> list[tuple[str, str]]:
    """Return the pairs of arms of one suite and profile, also those of which one never asked its model."""
    return [(a.info.arm, b.info.arm) for a, b in combinations(arms, 2) if _comparable(a.info, b.info)]


def _common(matched: Sequence[tuple[str, str]], pairs: Sequence[Pair]) -> dict[tuple[str, str], int]:
    """Return how many tasks are scored in both arms of each pair."""
    return dict.fromkeys(matched, 0) | {(pair.a, pair.b): pair.difference.n for pair in pairs if pair.metric == PRIMARY}


def _unit_warnings(pairs: Sequence[Pair], alpha: float) -> list[str]:
    """Warn of pairs that cannot show any difference: they have too few units, and no repeats were tested in their place."""
    few = [pair for pair in pairs if pair.metric == PRIMARY and pair.within is None and too_few_units(pair.units, alpha)]
    if not few:
        return []
    first, most = f"{few[0].a} and {few[0].b}", max(few, key=lambda pair: pair.units)
    named = first if len(few) == 1 else f"{counted(len(few), 'pair')}, such as {first}"
    one = "cluster of tasks" if most.units < most.difference.n else "independent task"
    many = "clusters of tasks" if most.units < most.difference.n else "independent tasks"
    return [f"{named}: {counted(most.units, f'{one} is', f'{many} are')} too few to show any difference."]


def _interval(interval: Interval | None) -> dict[str, float | int | None] | None:
    return None if interval is None else interval.as_dict()


def _plain(value: Any) -> Any:
    """Return an option's value as JSON can express it: infinities and dates become text."""
    try:
        canonical_json(value)
    except (TypeError, ValueError):
        return render_value(value)
    return value
