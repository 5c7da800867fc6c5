"""One arm's numbers from its records."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Literal

from whichloop.protocol import StopReason

from .measures import DISTANCES, MEASURES, Measure, TableName, retention_at
from .paired import mean_interval
from .record import Record
from .statistics import ALPHA, Interval, accuracy_interval, event_rate, same_units, unit_count

PRIMARY = "accuracy"
MAX_VALUE = 1e100
"""Larger values are not measurements; their squares would overflow."""


def dollars_of_trial(record: Record) -> float | None:
    """Return what a trial costs who has no luck with a cache: US dollars uncached where that is known, else as billed; None where
    neither is."""
    return record.cost_usd if record.nominal_usd is None else record.nominal_usd


METRICS = {name: replace(measure, name=name, label=measure.label or name.replace("_", " ")) for name, measure in MEASURES.items()}
"""The measures of every arm and pair, by name. Of a share more is better unless it is a harm, of all else less."""
SHARES = frozenset(name for name, measure in METRICS.items() if measure.is_share)
"""Those in [0, 1], whose differences and margins are in points."""
GAINS = frozenset(name for name, measure in METRICS.items() if measure.is_share and not measure.is_harm)
"""Those of which more is better."""


def labels(measures: Collection[str]) -> dict[str, str]:
    """Return what tables call measures that they show together.

    Dollars as billed are plain `USD` where no uncached ones stand beside them, as of results of other tools.
    """
    label_of = {name: METRICS[name].label for name in measures}
    return label_of | ({"cost_usd": "USD"} if "cost_usd" in label_of and "nominal_usd" not in label_of else {})


def measures_of(table: TableName) -> dict[str, Measure]:
    """Return the measures whose means one table shows, in the order of its columns: money last."""
    own = [(name, measure) for name, measure in METRICS.items() if measure.table == table]
    return dict(sorted(own, key=lambda item: item[1].in_dollars))


COSTS = ("tokens", "cost_usd", "seconds")
"""What a provider, or another tool, may report of some trials and not of others."""

DeathCause = Literal["", "crashed", "never asked"]


@dataclass(frozen=True, slots=True)
class FaultCounts:
    """Disturbances of an arm's scored trials."""

    scheduled: int = 0
    landed: int = 0
    absorbed: int = 0
    """Landed, but the codec still read the same move."""
    recovered: int = 0
    """Landed, not absorbed, and the disturbed point got through later."""
    implicit: int = 0
    """Landed failures of tools that looked like results."""
    believed: int = 0
    """Implicit ones that the model took for the result."""
    implicit_wrong: int = 0
    """Implicit ones in trials that were scored wrong (accuracy < 1)."""

    @property
    def short(self) -> bool:
        """Whether fewer than 95 % of the scheduled faults have landed, so that the treatment did not take place."""
        return 100 * self.landed < 95 * self.scheduled


FAULT_COUNTS = tuple(item.name for item in fields(FaultCounts))


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """What one arm gave. Only scored trials enter counts of stops, errors and faults, and means; None: nothing is known.

    Retries are counted over all trials: they are the provider's doing.
    """

    trials: int
    scored: int
    errored: int
    excluded: int
    tasks: int
    """With at least one scored trial."""
    means: Mapping[str, Interval | None]
    """Measure → its mean over the tasks where it is known."""
    known: Mapping[str, int]
    """Measure of `COSTS` → scored trials where it is known."""
    stops: Mapping[str, int]
    """Stop reason → trials."""
    errors: Mapping[str, int]
    """Kind of error → occurrences."""
    retries: Mapping[str, int]
    """Kind of provider failure → how often it was asked again after one."""
    faults: FaultCounts
    recovery: Interval | None
    """recovered / (landed - absorbed)."""
    implicit_wrong: Interval | None
    """Share of the landed implicit failures whose trial was scored wrong."""
    false_success: int | None
    """Trials."""
    right_unseen: int | None
    """Trials scored right though no prompt showed the scripted model what the answer rests on."""
    not_asked_for: float
    """Share of the calls that no reply of the scripted model asked for, and whose results a prompt showed it."""
    exclusions: Mapping[str, int]
    """Reason → trials."""
    crashes: Mapping[str, int]
    """What left a loop that crashed → trials."""
    errored_reasons: Mapping[str, int]
    """Reason → trials."""
    dead: DeathCause = ""
    """Why the scored trials say nothing about an agent: all of them crashed, or in none was the model asked. Empty if they do."""
    retention_at: Mapping[str, Interval] = field(default_factory=dict)
    """Range of distances → share of the results that prompts still show, a mean over the tasks that needed one."""
    tells_faults: bool = True
    """Whether any source tells which faults struck; no other tool's does, and `faults` is then empty."""
    over_templates: Interval | None = None
    """Accuracy with the templates as units, `n` of them; None where they are the units anyway, or none are shared."""
    late: Mapping[str, int] = field(default_factory=dict)
    """What is told of trials that ran out of time → trials; what differs in its seconds alone is one, as of the first trial."""

    @property
    def accuracy(self) -> Interval | None:
        return self.means[PRIMARY]

    @property
    def false_success_rate(self) -> Interval | None:
        """Share of the scored trials with a wrong answer given as done, see `false_success`, as a mean over tasks."""
        return self.means["false_success_rate"]

    @property
    def always_crashed(self) -> bool:
        """Whether every scored trial crashed, and there are some."""
        return bool(self.scored) and sum(self.crashes.values()) == self.scored

    @property
    def errored_share(self) -> float:
        """The share of errored trials among those that were to be scored."""
        return self.errored / max(self.scored + self.errored, 1)


@dataclass(frozen=True)  # no slots: means are computed once
class TaskValues:
    """One metric of one arm, task by task."""

    values: Mapping[str, Sequence[float]]
    """Task → one value per scored repeat; tasks without a known value are left out."""
    clusters: Mapping[str, str]
    """Task → cluster."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Task → template; without those of unknown template."""

    def shared_templates(self, tasks: Iterable[str]) -> list[str] | None:
        """Return each task's template; None where they make the same units as the clusters do, or a single one."""
        task_list = list(tasks)
        templates = [self.templates.get(task, "") for task in task_list]
        is_one = len(set(templates)) == 1
        return None if is_one or same_units(templates, [self.clusters[task] for task in task_list]) else templates

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean of each task over its repeats, by task."""
        return {task: math.fsum(values) / len(values) for task, values in self.values.items()}


def measured_value(record: Record, metric: Callable[[Record], float | None]) -> float | None:
    """Return a metric of a scored trial; None for any other trial, and for a value that is not finite or beyond all measure."""
    value = metric(record) if record.status == "scored" else None
    return float(value) if value is not None and abs(value) < MAX_VALUE else None  # NaN is not


def task_values(records: Iterable[Record], metric: Callable[[Record], float | None]) -> TaskValues:
    """Sort a metric's values by task, in an order that no trial's end decides: sums are equal to the last digit.

    Values that are not finite, or beyond all measure, count as not known.
    """
    values: dict[str, list[float]] = {}
    clusters: dict[str, str] = {}
    templates: dict[str, str] = {}
    for record in sorted(records, key=attrgetter("task", "repeat")):
        value = measured_value(record, metric)
        if value is not None:
            values.setdefault(record.task, []).append(value)
            clusters[record.task] = record.cluster
            if record.template:
                templates[record.task] = record.template
    return TaskValues(values, clusters, templates)


def all_values(records: Sequence[Record]) -> dict[str, TaskValues]:
    """Return the values of each measure, task by task, of one arm's records."""
    scored = [record for record in records if record.status == "scored"]
    return {name: task_values(scored, measure) for name, measure in METRICS.items()}


def summarize(records: Sequence[Record], alpha: float = ALPHA, values: Mapping[str, TaskValues] | None = None) -> ArmSummary:
    """Return the summary of one arm's records, one per trial; repeats are reduced to task means before any interval.

    `values`: what `all_values` gives of them, if known.
    """
    values = all_values(records) if values is None else values
    scored = [record for record in records if record.status == "scored"]
    statuses, faults = Counter(record.status for record in records), count_faults(scored)
    scores = values[PRIMARY].values
    templates = values[PRIMARY].shared_templates(scores)
    over = None
    if templates is not None:
        over = replace(accuracy_interval([*scores.values()], templates, alpha), n=unit_count(templates), units=None)
    shown = {name: task_values(scored, partial(retention_at, distance=name)) for name in DISTANCES}
    not_asked_for = sum(record.call_counts.get("not_asked_for", 0) for record in scored)
    return ArmSummary(
        trials=len(records),
        scored=len(scored),
        errored=statuses["errored"],
        excluded=statuses["excluded"],
        tasks=len({record.task for record in scored}),
        means={name: _mean(of, alpha, is_share=METRICS[name].is_share) for name, of in values.items()},
        known={name: sum(map(len, values[name].values.values())) for name in COSTS},
        stops=_counted(record.stop for record in scored if record.stop is not None),
        errors=_summed(record.errors for record in scored),
        retries=_summed(record.retries for record in records),
        faults=faults,
        recovery=event_rate(faults.recovered, faults.landed - faults.absorbed, alpha),
        implicit_wrong=event_rate(faults.implicit_wrong, faults.implicit, alpha),
        false_success=_trials_with("false_success", scored, told_by="false_success"),
        right_unseen=_trials_with("right_unseen", scored, told_by="answer_unseen"),
        not_asked_for=not_asked_for / max(1, sum(record.tool_calls for record in scored)),
        exclusions=_counted(record.reason for record in records if record.status == "excluded"),
        crashes=Counter(record.reason for record in scored if record.stop == StopReason.CRASHED),
        errored_reasons=_counted(record.reason for record in records if record.status == "errored"),
        dead=death_cause(scored),
        retention_at={name: share for name, of in shown.items() if (share := _mean(of, alpha, is_share=True)) is not None},
        tells_faults=not records or any(record.tells_faults for record in records),
        over_templates=over,
        late=_late(scored),
    )


def death_cause(scored: Sequence[Record]) -> DeathCause:
    """Return why an arm's scored trials say nothing about an agent; a trial whose calls are not known counts as one with calls."""
    calls = METRICS["lm_calls"]
    if scored and not any(calls(record) != 0 or record.stop == StopReason.BUDGET for record in scored):  # the budget may forbid all
        return "never asked"
    return "crashed" if scored and all(record.stop == StopReason.CRASHED for record in scored) else ""


_SECONDS = re.compile(r"\d+(\.\d+)? s\b")


def _late(scored: Sequence[Record]) -> Counter[str]:
    trials, first = Counter[str](), dict[str, str]()
    for record in scored:
        if record.stop == StopReason.TIMEOUT:
            trials[first.setdefault(_SECONDS.sub("", record.reason), record.reason)] += 1
    return trials


def _trials_with(name: str, scored: Sequence[Record], *, told_by: str) -> int | None:
    """Return how many trials have a flag; None where no source tells it. `told_by`: the field that it rests on."""
    known_records = [record for record in scored if told_by not in record.unknown]
    return sum(getattr(record, name) for record in known_records) if known_records or not scored else None


def count_faults(records: Sequence[Record]) -> FaultCounts:
    """Count the faults of records by what became of them: every one was scheduled; what did not land was neither absorbed nor
    recovered."""
    faults = [fault for record in records for fault in record.faults]
    return FaultCounts(
        scheduled=len(faults),
        landed=sum(fault.landed for fault in faults),
        absorbed=sum(fault.landed and fault.absorbed for fault in faults),
        recovered=sum(fault.landed and fault.recovered and not fault.absorbed for fault in faults),
        implicit=sum(fault.landed and fault.implicit for fault in faults),
        believed=sum(fault.landed and fault.believed for fault in faults),
        implicit_wrong=sum(fault.landed and fault.implicit for one in records if not one.is_solved for fault in one.faults),
    )


def _mean(of: TaskValues, alpha: float, *, is_share: bool) -> Interval | None:
    if not of.values:
        return None
    clusters = list(of.clusters.values())
    if is_share:
        return accuracy_interval(list(of.values.values()), clusters, alpha)
    return mean_interval(list(of.means.values()), clusters, alpha)


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for each in filter(None, counts):
        total.update(each)
    return dict(sorted((+total).items()))


def _counted(said: Iterable[str]) -> dict[str, int]:
    """Return the counts sorted by name, so that equal records in any order give an equal summary."""
    return dict(sorted(Counter(said).items()))
