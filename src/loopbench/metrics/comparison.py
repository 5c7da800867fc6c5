"""Arms against each other: paired differences with intervals, tests and verdicts.

Arms are paired within one suite and one profile: a loop under faults against another in clean air answers no question. For each
metric all pairs are one family (Holm); accuracy is the primary one. Intervals are not adjusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

from loopbench.protocol import render_value
from loopbench.protocol.digest import canonical_json

from .record import RECORDING, Record
from .statistics import (
    ALPHA,
    Interval,
    Verdict,
    holm,
    mean_difference,
    mean_equivalence,
    score_difference,
    score_equivalence,
    sign_flip,
    unit_count,
    verdict,
)
from .summary import METRICS, PRIMARY, ArmSummary, TaskValues, summarize, task_values

MARGIN = 0.02
"""Differences up to this do not matter: points of accuracy; of any other metric, this share of the mean of both arms."""
MAX_ERRORED = 0.02
"""Share of errored trials in an arm, or its difference between two arms, beyond which verdicts carry a warning."""


@dataclass(frozen=True, slots=True)
class ArmInfo:
    """What an arm is made of; `arm` is its name in the records."""

    arm: str
    loop: str
    options: Mapping[str, Any]
    model: str
    profile: str
    suite: str


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm and what it gave."""

    info: ArmInfo
    summary: ArmSummary

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; None for what is not known."""
        info, summary = self.info, self.summary
        made: dict[str, Any] = {
            "arm": info.arm,
            "loop": info.loop,
            "options": {name: _plain(value) for name, value in info.options.items()},
            "model": info.model,
            "profile": info.profile,
            "suite": info.suite,
            "trials": summary.trials,
            "scored": summary.scored,
            "errored": summary.errored,
            "excluded": summary.excluded,
            "tasks": summary.tasks,
        }
        made |= {metric: _interval(getattr(summary, metric)) for metric in METRICS}
        return made | {
            "stops": dict(summary.stops),
            "errors": dict(summary.errors),
            "retries": dict(summary.retries),
            "faults": asdict(summary.faults),
            "recovery": _interval(summary.recovery),
            "false_success": {"count": summary.false_success, "rate": _interval(summary.false_success_rate)},
            "exclusions": dict(summary.exclusions),
            "errored_reasons": dict(summary.errored_reasons),
            "crashes": dict(summary.crashes),
        }


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arms on one metric, over the tasks scored in both: a is `verdict` than b (or equivalent to it)."""

    a: str
    b: str
    metric: str
    difference: Interval
    """a minus b, in the metric's unit."""
    units: int
    """Units of inference: clusters of tasks where templates are shared, else tasks."""
    p: float
    p_holm: float
    margin: float
    """In the metric's unit."""
    verdict: Verdict

    @property
    def family(self) -> Literal["primary", "secondary"]:
        return "primary" if self.metric == PRIMARY else "secondary"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.metric,
            "family": self.family,
            "difference": self.difference.as_dict(),
            "units": self.units,
            "p": self.p,
            "p_holm": self.p_holm,
            "margin": self.margin,
            "verdict": self.verdict.word,
            "within_margin": self.verdict.within_margin,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All arms, all pairs that make sense, and what to keep in mind when reading them."""

    arms: tuple[Arm, ...]
    pairs: tuple[Pair, ...]
    """Without those that have no task in common for which the metric is known."""
    warnings: tuple[str, ...]
    invalid: bool
    """Faults did not land as scheduled, an arm ran and no trial of it could be scored, or a recording lacked what was asked: no
    verdict of this run holds."""
    alpha: float
    margin: float

    def to_json(self, *, run: str | None = None, digest: str | None = None, wall_s: float | None = None) -> dict[str, Any]:
        """The object that `compare --json` prints; what this module does not know comes from the caller."""
        return {
            "run": run,
            "digest": digest,
            "wall_s": wall_s,
            "alpha": self.alpha,
            "margin": self.margin,
            "invalid": self.invalid,
            "warnings": list(self.warnings),
            "arms": [arm.to_json() for arm in self.arms],
            "pairs": [pair.to_json() for pair in self.pairs],
        }


def compare(records: Sequence[Record], arms: Sequence[ArmInfo], *, alpha: float = ALPHA, margin: float = MARGIN) -> Comparison:
    """Compare arms from one record per trial.

    Raises ValueError for two arms of one name, a record of an arm that is not listed, or arms of one suite whose records come from
    different versions of it.
    """
    by_arm = _by_arm(records, arms)
    compared = tuple(Arm(info, summarize(by_arm[info.arm], alpha)) for info in arms)
    matched = [(a.arm, b.arm) for a, b in combinations(arms, 2) if _comparable(a, b)]
    pairs: list[Pair] = []
    for metric, value in METRICS.items():
        values = {name: task_values(found, value) for name, found in by_arm.items()}
        tests = {names: paired_test(metric, values[names[0]], values[names[1]], alpha, margin) for names in matched}
        pairs.extend(family(metric, tests, alpha))
    unrecorded = sum(record.status == "errored" and RECORDING in record.errors for record in records)
    lacking = [f"{unrecorded} trials asked what the recording does not have; the run is invalid."] if unrecorded else []
    warnings = [*lacking, *_arm_warnings(compared), *_gap_warnings(compared), *_unit_warnings(matched, pairs, alpha)]
    short = any(arm.summary.faults.short or (arm.summary.trials and not arm.summary.scored) for arm in compared)
    invalid = short or bool(unrecorded)
    return Comparison(compared, tuple(pairs), tuple(warnings), invalid, alpha, margin)


@dataclass(frozen=True, slots=True)
class PairTest:
    """A pair before its family is known."""

    difference: Interval
    units: int
    p: float
    p_equivalence: float
    margin: float
    """In the metric's unit."""


def paired_test(metric: str, a: TaskValues, b: TaskValues, alpha: float, margin: float) -> PairTest | None:
    """Test one pair, a minus b; None where no task has a known value in both arms."""
    means_a, means_b = a.means, b.means
    tasks = [task for task in means_a if task in means_b]
    if not tasks:
        return None
    d = [means_a[task] - means_b[task] for task in tasks]
    clusters = [a.clusters[task] for task in tasks]
    p, units = sign_flip(d, clusters), unit_count(clusters)
    if metric == PRIMARY:
        return PairTest(score_difference(d, clusters, alpha), units, p, score_equivalence(d, margin, clusters), margin)
    bound = margin * sum(means_a[task] + means_b[task] for task in tasks) / (2 * len(tasks))
    return PairTest(mean_difference(d, clusters, alpha), units, p, mean_equivalence(d, bound, clusters), bound)


def family(metric: str, tests: Mapping[tuple[str, str], PairTest | None], alpha: float) -> list[Pair]:
    """The pairs of one metric, their p values adjusted for each other; without those that could not be tested."""
    known = {names: test for names, test in tests.items() if test is not None}
    p_holm = holm([test.p for test in known.values()])
    p_equivalence_holm = holm([test.p_equivalence for test in known.values()])
    pairs = []
    for (names, test), p, p_equivalence in zip(known.items(), p_holm, p_equivalence_holm, strict=True):
        advantage = test.difference.value if metric == PRIMARY else -test.difference.value
        judged = verdict(advantage, p, p_equivalence, alpha)
        pairs.append(Pair(*names, metric, test.difference, test.units, test.p, p, test.margin, judged))
    return pairs


def _by_arm(records: Sequence[Record], arms: Sequence[ArmInfo]) -> dict[str, list[Record]]:
    by_arm: dict[str, list[Record]] = {info.arm: [] for info in arms}
    if len(by_arm) != len(arms):
        raise ValueError("two arms have the same name")
    for record in records:
        if record.arm not in by_arm:
            raise ValueError(f"a record of arm {record.arm!r}, which is not among {sorted(by_arm)}")
        by_arm[record.arm].append(record)
    digests: dict[str, str] = {}
    for info in arms:
        for record in by_arm[info.arm]:
            if digests.setdefault(info.suite, record.suite_digest) != record.suite_digest:
                raise ValueError(f"suite {info.suite!r}: records of two different versions of it")
    return by_arm


def _comparable(a: ArmInfo, b: ArmInfo) -> bool:
    return (a.suite, a.profile) == (b.suite, b.profile)


def _arm_warnings(arms: Sequence[Arm]) -> list[str]:
    warnings = []
    for arm in arms:
        summary, name = arm.summary, arm.info.arm
        if not summary.scored:
            warnings.append(f"{name}: no trial was scored.")
        if summary.errored_share > MAX_ERRORED:
            warnings.append(f"{name}: {summary.errored_share:.1%} of its trials are errored and left out.")
        if summary.faults.short:
            faults = summary.faults
            warnings.append(f"{name}: only {faults.landed} of {faults.scheduled} scheduled faults landed; the run is invalid.")
    return warnings


def _gap_warnings(arms: Sequence[Arm]) -> list[str]:
    warnings = []
    for a, b in combinations(arms, 2):
        gap = abs(a.summary.errored_share - b.summary.errored_share)
        if _comparable(a.info, b.info) and gap > MAX_ERRORED:
            warnings.append(f"{a.info.arm} and {b.info.arm}: their shares of errored trials differ by {100 * gap:.1f} points.")
    return warnings


def _unit_warnings(matched: Sequence[tuple[str, str]], pairs: Sequence[Pair], alpha: float) -> list[str]:
    """Pairs without a common task, or with so few units that the sign-flip test's smallest p, 2/2ⁿ, is no less than alpha."""
    units = {(pair.a, pair.b): pair.units for pair in pairs if pair.metric == PRIMARY}
    warnings = []
    for a, b in matched:
        if (a, b) not in units:
            warnings.append(f"{a} and {b}: no task was scored in both.")
        elif 2 * 0.5 ** units[a, b] >= alpha:
            warnings.append(f"{a} and {b}: {units[a, b]} independent tasks or templates are too few to show any difference.")
    return warnings


def _interval(interval: Interval | None) -> dict[str, float | int] | None:
    return None if interval is None else interval.as_dict()


def _plain(value: Any) -> Any:
    """An option as JSON can say it: infinities and dates become text."""
    try:
        canonical_json(value)
    except (TypeError, ValueError):
        return render_value(value)
    return value
