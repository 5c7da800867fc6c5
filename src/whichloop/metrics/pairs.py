"""Two arms on one metric: their paired difference, and the verdict that its family leaves them.

For each metric all pairs are one family; accuracy is the primary one. A pair's interval is at the level that its family leaves
it, and so never contradicts the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from .arm_info import IMPORTED, ArmInfo
from .outlook import Outlook, pair_outlook
from .paired import SCORES, PairedFlip, judge_family
from .power import spread
from .record import Record
from .statistics import Interval, PairVerdict, VerdictWord, are_too_few_to_plan, interval_json, plain, verdict
from .summary import GAINS, METRICS, PRIMARY, SHARES, TaskValues, dollars_of_trial, task_values
from .within_tasks import WithinTasks, paired_within_tasks, unpaired_within_tasks

MAX_FEW_TASKS = 8
"""Tasks up to which each is told by itself, and repeats are tested for what they show of these tasks alone."""


OnTasks = Mapping[str, Mapping[str, tuple[float, int]]]
"""Arm → task → the scores of its scored trials together (of scores 0 and 1 how many were solved), and how many trials."""


def on_few_tasks(by_arm: Mapping[str, Sequence[Record]]) -> OnTasks:
    """Return what each arm did on each task, in the order of tasks."""
    values = {arm: task_values(records, METRICS[PRIMARY]).values for arm, records in by_arm.items()}
    return {arm: {task: (math.fsum(scores), len(scores)) for task, scores in own.items()} for arm, own in values.items() if own}


MARGIN = 0.02
"""Differences up to this do not matter: points of a share such as accuracy; of any other metric, this share of both arms' mean."""
AT_BUDGET = "accuracy_at_budget"
"""Accuracy where trials beyond a budget score nothing: see `views`."""
_IN_POINTS = SHARES | {AT_BUDGET}
_MORE_IS_BETTER = GAINS | {AT_BUDGET}


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
    verdict: PairVerdict
    level: float
    """At which the family tested this pair: alpha where it is the only one. `difference` holds 0 iff p_holm >= alpha."""
    outlook: Outlook | None = None
    """What more tasks are likely to decide of accuracy, where it is undecided. None too where too many would be needed, and where
    units are too few to plan with."""
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
        names = {name: getattr(self, name) for name in ("a", "b", "metric", "family")}
        intervals = {"difference": self.difference.as_dict(), "over_templates": interval_json(self.over_templates)}
        numbers = {name: getattr(self, name) for name in ("units", "p", "p_holm", "level", "margin")}
        said = {"verdict": self.verdict.word, "within_margin": self.verdict.within_margin, "outlook": plain(self.outlook)}
        return names | intervals | numbers | said


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


def pairs_of_family(metric: str, tests: Iterable[tuple[tuple[str, str], PairTest | None]], alpha: float) -> list[Pair]:
    """Return the pairs of one metric, decided together as one family, in which two arms may meet more than once.

    A pair that could not be tested is left out.
    """
    known = [(names, test) for names, test in tests if test is not None]
    decisions = judge_family([(test.flip, test.margin) for _, test in known], alpha)
    pairs = []
    for ((a, b), test), decided in zip(known, decisions, strict=True):
        difference, over = decided.difference, test.over_templates
        advantage = difference.value if metric in _MORE_IS_BETTER else -difference.value
        word = verdict(advantage, decided.p_holm, decided.p_equivalence_holm, alpha)
        over_templates = None if over is None else replace(over.interval(decided.level), n=over.units, units=None)
        tested = (decided.p, decided.p_holm, test.margin, word, decided.level)
        pairs.append(Pair(a, b, metric, difference, test.flip.units, *tested, over_templates=over_templates))
    return pairs


def with_outlook(
    pairs: Sequence[Pair], scores: Mapping[str, TaskValues], by_arm: Mapping[str, Sequence[Record]], alpha: float
) -> list[Pair]:
    """Return the pairs; each undecided one with the sizes at which a run of its two arms alone may decide it.

    A pair with too few units to plan with stays without: nothing that is known of it tells a size.
    """
    prices: dict[str, float] = {}  # of one trial, over the scored ones whose price is known
    for arm, records in by_arm.items():
        known = [cost for record in records if record.status == "scored" and (cost := dollars_of_trial(record)) is not None]
        if known:
            prices[arm] = math.fsum(known) / len(known)
    completed = []
    for pair in pairs:
        is_few = are_too_few_to_plan(pair.units, alpha, is_clustered=pair.units < pair.difference.n)
        varies = spread(scores[pair.a], scores[pair.b]) if pair.verdict.word == "undecided" and not is_few else None
        if varies is not None:
            price = fmean((prices[pair.a], prices[pair.b])) if prices.keys() >= {pair.a, pair.b} else None
            pair = replace(pair, outlook=pair_outlook(varies, margin=pair.margin, alpha=alpha, cost_usd=price))
        completed.append(pair)
    return completed


def with_repeats(pairs: Sequence[Pair], by_arm: Mapping[str, Sequence[Record]], arms: Sequence[ArmInfo]) -> list[Pair]:
    """Return the pairs; each one on few tasks with what its repeats show of these very tasks.

    The p of that test is multiplied by the number of such pairs (Bonferroni). Repeats of imported arms are not paired: nothing says
    that the third one of one arm shares anything with the third one of another.
    """
    tested = sum(pair.difference.n <= MAX_FEW_TASKS for pair in pairs)
    imported = {info.arm for info in arms if info.profile == IMPORTED}
    completed = []
    for pair in pairs:
        test = unpaired_within_tasks if pair.a in imported else paired_within_tasks
        within = test(by_arm[pair.a], by_arm[pair.b]) if pair.difference.n <= MAX_FEW_TASKS else None
        if within is not None:
            pair = replace(pair, within=within._replace(p=min(1.0, within.p * tested)))
        completed.append(pair)
    return completed
