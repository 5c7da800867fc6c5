"""A pilot: a run as a source of variances and prices, and the request for the planned run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any, Literal

from whichloop.datasets.generating import MAX_SIZE
from whichloop.experiments.compare.results import Results
from whichloop.metrics.bootstrap import sign_flip
from whichloop.metrics.power import POWER, Spread, same_loop, spread, unseen, usual_repeats
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import alike, columns, where
from whichloop.metrics.summary import METRICS, PRIMARY, SHARES, TaskValues, dollars_of_trial, task_values
from whichloop.protocol.names import SCRIPTED, Spec, nearest, parse_spec
from whichloop.runs.built_in import builtin_names
from whichloop.runs.config import IN_FLIGHT, IN_FLIGHT_WITHOUT_WAITS, SettingError, config_from
from whichloop.runs.lookup import suite_of, tasks_of_split
from whichloop.runs.manifest import Manifest, Settings
from whichloop.runs.registry import is_generated
from whichloop.runs.store.files import RunError

Purpose = Literal["compare", "gate"]
PURPOSES: tuple[Purpose, ...] = ("compare", "gate")
MAX_RATIO = 100.0
"""Maximum ratio of two amounts that is considered."""
ANOTHER = "another design"


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """The request: what the planned run must be able to show."""

    metric: str = PRIMARY
    margin: float | None = None
    """In points from 0 to 1 for a share, such as accuracy, else a share; None: the default of `compare` or `gate`."""
    alpha: float | None = None
    """None: the pilot's."""
    power: float = POWER
    purposes: Sequence[Purpose] = PURPOSES
    loops: Sequence[str] = ()
    """The pilot's loops that the run is planned for, by their names in it; empty: all of them."""
    profiles: Sequence[str] = ()
    """The pilot's profiles that it is planned for; empty: all of them."""

    def check(self) -> None:
        """Raise SettingError for a value out of its range."""
        if self.metric not in METRICS:
            raise SettingError("metric", f"unknown metric {self.metric!r}; {nearest(self.metric, METRICS)}")
        for purpose in self.purposes:
            if purpose not in PURPOSES:
                raise SettingError("purpose", f"unknown purpose {purpose!r}; {nearest(purpose, PURPOSES)}", "--for")
        most = 1 if self.metric in SHARES else MAX_RATIO
        if self.margin is not None and not 0 < self.margin < most:
            raise SettingError("margin", f"it must be more than 0 and less than {most:g}, got {self.margin!r}")
        if self.alpha is not None and not 0 < self.alpha < 0.5:
            raise SettingError("alpha", f"it must be more than 0 and less than 0.5, got {self.alpha!r}")
        if not 0.5 <= self.power < 1:
            raise SettingError("power", f"it must be at least 0.5 and less than 1, got {self.power!r}")


@dataclass(frozen=True, slots=True)
class TaskSupply:
    """The tasks available to the planned run."""

    tasks: int | None
    """The number of tasks that would be scored; None if unknown."""
    suite: Spec | None = None
    """The spec of a suite that can be enlarged."""
    size_per_task: float = 1.0
    """The increase in size for one more scored task."""

    def suite_for(self, tasks: int) -> tuple[str | None, bool]:
        """Return the enlarged suite's name, None if no change is needed, and whether there are enough tasks."""
        if self.tasks is None or tasks <= self.tasks:
            return None, True
        size = math.ceil(tasks * self.size_per_task)
        if self.suite is None or size > MAX_SIZE:
            return None, False
        return str(replace(self.suite, options={**self.suite.options, "size": size})), True


@dataclass(frozen=True, slots=True)
class TrialCost:
    """The cost of one trial of each arm."""

    lm_calls: float | None
    tokens: float | None
    cost_usd: float | None
    wall_s: float | None


@dataclass(frozen=True, slots=True)
class Pilot:
    """A run as a source of variances and prices."""

    request: SizeRequest
    alpha: float
    compare_margin: float
    repeats: int
    values: Mapping[str, TaskValues]
    """Arm → values; those of a second run count as further repeats."""
    loops: Mapping[str, Spread]
    """Arm → the spread between its own runs."""
    pairs: Mapping[tuple[str, str], Spread]
    """Pair of compared arms → its spread, without those of `same`; if no arms are compared, each arm with another design."""
    same: tuple[tuple[str, str], ...]
    """Pairs of compared arms that did the same in every trial, which no number of tasks tells apart."""
    second: Mapping[str, tuple[float, float]]
    """Arm → the difference of the second run, and its p-value."""
    price: TrialCost
    at_once: float
    """Number of trials that ran at once."""
    supply: TaskSupply

    @property
    def scores(self) -> bool:
        return self.request.metric in SHARES

    @property
    def alone(self) -> bool:
        """Whether no two arms are compared with each other."""
        return bool(self.pairs) and all(b == ANOTHER for _, b in self.pairs)


def read_pilot(run: Results, request: SizeRequest, second: Results | None, at_once: float) -> Pilot:
    """Read a pilot. `at_once`: what `trials_at_once` says of the whole run, which it may be a part of.

    Raises ValueError for a bad argument, runs that do not match, or a pilot without the metric.
    """
    request.check()
    scored = _scored_by_run([run] if second is None else [run, second])
    values = _values(run, scored, request.metric)
    loops = _loop_spreads(run, values, scores=request.metric in SHARES)
    settings, same = run.manifest.settings, _same(run, second)
    return Pilot(
        request=request,
        alpha=settings.alpha if request.alpha is None else request.alpha,
        compare_margin=settings.margin,
        repeats=_repeats(run),
        values=values,
        loops=loops,
        pairs=_pair_spreads(run, values, [*loops], same, scores=request.metric in SHARES),
        same=same,
        second={} if second is None else {arm: _difference(request.metric, *scored[arm]) for arm in loops},
        price=_price([_all_of(by_run) for arm, by_run in scored.items() if arm in values]),
        at_once=at_once,
        supply=_supply(run),
    )


RecordsByRun = Sequence[Sequence[Record]]
"""An arm's scored records, those of each run by themselves."""


def _scored_by_run(runs: Sequence[Results]) -> dict[str, RecordsByRun]:
    """Return arm of the first run → its scored records in each of the runs."""
    return {
        arm.info.arm: [
            [record for record in run.records if record.arm == arm.info.arm and record.status == "scored"] for run in runs
        ]
        for arm in runs[0].comparison.arms
    }


def _all_of(by_run: RecordsByRun) -> list[Record]:
    return [record for records in by_run for record in records]


def _values(run: Results, scored: Mapping[str, RecordsByRun], metric: str) -> dict[str, TaskValues]:
    """Return arm → its values of a metric, without arms of which none is known. Raises RunError where no arm has any."""
    by_arm = {arm: task_values(_all_of(by_run), METRICS[metric]) for arm, by_run in scored.items()}
    measured = {arm: values for arm, values in by_arm.items() if values.values}
    if not measured:
        raise RunError(f"{run.folder}: {metric} is unknown in every trial")
    if metric not in SHARES and not any(any(values.means.values()) for values in measured.values()):
        raise RunError(f"{run.folder}: {metric} is 0 in every trial, and ratios of 0 say nothing")
    return measured


def _loop_spreads(run: Results, values: Mapping[str, TaskValues], *, scores: bool) -> dict[str, Spread]:
    """Return arm → the spread between its own runs. Raises RunError where no arm has tasks enough for one."""
    spreads = {arm: same_loop(of_arm if scores else as_shares(of_arm), scores=scores) for arm, of_arm in values.items()}
    known_spreads = {arm: loop_spread for arm, loop_spread in spreads.items() if loop_spread is not None}
    if not known_spreads:
        raise RunError(f"{run.folder}: a pilot needs at least two scored tasks, and this run has one")
    return known_spreads


def _pair_spreads(
    run: Results, values: Mapping[str, TaskValues], arms: Sequence[str], same: Sequence[tuple[str, str]], *, scores: bool
) -> dict[tuple[str, str], Spread]:
    """Return the spreads of compared arms that are not the same; where no arms are compared, of each arm with another design."""
    compared = {names: pair_spread for names, pair_spread in _pairs(run, values, scores).items() if names not in same}
    if compared or same:
        return compared
    return {(arm, ANOTHER): _with_another(values[arm], scores) for arm in arms}


def _repeats(run: Results) -> int:
    """Return how often a task ran in each arm; of an imported run the median, as tasks may have unequal numbers of repeats."""
    ran = Counter((record.arm, record.task) for record in run.records if record.status != "excluded")
    return usual_repeats([*ran.values()]) if run.manifest.imported is not None and ran else run.manifest.settings.repeats


def as_shares(values: TaskValues, mean: float | None = None) -> TaskValues:
    """Return amounts as the gate uses them: as shares of the mean over tasks, or of another `mean`.

    A difference of shares is nearly the logarithm of the ratio of the sums (delta method).
    """
    whole = mean or fmean([*values.means.values()]) or 1.0
    return TaskValues({task: [value / whole for value in amounts] for task, amounts in values.values.items()}, values.clusters)


def _pairs(run: Results, values: Mapping[str, TaskValues], scores: bool) -> dict[tuple[str, str], Spread]:
    spreads = {}
    for a, b in combinations([arm.info for arm in run.comparison.arms if arm.info.arm in values], 2):
        if (a.suite, a.profile) == (b.suite, b.profile):
            first, second = values[a.arm], values[b.arm]
            pair_spread = spread(first, second) if scores else _spread_of_shares(first, second)
            if pair_spread is not None:
                spreads[a.arm, b.arm] = pair_spread
    return spreads


def _same(run: Results, second: Results | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of arms that did the same in every trial, of a second run, too."""
    again = run if second is None else second
    return tuple(names for names in run.comparison.same if again.comparison.are_same(*names))


def _spread_of_shares(a: TaskValues, b: TaskValues) -> Spread | None:
    """Return the spread of differences as shares of the mean of both arms, the unit of a comparison's margin for amounts."""
    shared = [task for task in a.values if task in b.values]
    mean = sum(a.means[task] + b.means[task] for task in shared) / (2 * len(shared)) if shared else 0.0
    if mean <= 0:
        return None
    first, second = (TaskValues({t: [v / mean for v in amounts] for t, amounts in x.values.items()}, x.clusters) for x in (a, b))
    return spread(first, second, scores=False)


def _with_another(values: TaskValues, scores: bool) -> Spread:
    """Return the spread of an arm and a design that varies as much and fails on other tasks, about the largest possible."""
    mean = 1.0 if scores else fmean([*values.means.values()]) or 1.0
    real = TaskValues({t: [v / mean for v in amounts] for t, amounts in values.values.items()}, values.clusters)
    zero = TaskValues({task: [0.0] * len(amounts) for task, amounts in values.values.items()}, values.clusters)
    both = spread(real, zero, scores=scores)
    assert both is not None  # as many tasks as the arm itself has
    floor = unseen(both.units, scores=scores)  # how often the other design differs was not seen at all
    return replace(both, difference=0.0, between=2 * both.between, within_b=both.within_a, floor=floor)


def _difference(metric: str, first: Sequence[Record], second: Sequence[Record]) -> tuple[float, float]:
    """Return the difference of a second run over the tasks scored in both, and its p-value."""
    a, b = (task_values(records, METRICS[metric]) for records in (first, second))
    if metric not in SHARES:
        whole = fmean([*a.means.values(), *b.means.values()])
        a, b = as_shares(a, whole), as_shares(b, whole)
    old, new = a.means, b.means
    shared = [task for task in old if task in new]
    if not shared:
        return 0.0, 1.0
    d = [new[task] - old[task] for task in shared]
    return math.fsum(d) / len(d), sign_flip(d, [a.clusters[task] for task in shared]).two_sided


def _price(arms: Sequence[Sequence[Record]]) -> TrialCost:
    costs = [[cost for record in arm if (cost := dollars_of_trial(record)) is not None] for arm in arms]
    wall_s = math.fsum(fmean([record.wall_s for record in arm]) for arm in arms)
    return TrialCost(
        _per_round("lm_calls", arms),
        _per_round("tokens", arms),
        math.fsum(map(fmean, costs)) if all(costs) else None,
        wall_s or None,
    )


def _per_round(metric: str, arms: Sequence[Sequence[Record]]) -> float | None:
    """Return the metric of one trial per arm; None if an imported arm lacks it."""
    values = [[value for record in arm if (value := METRICS[metric](record)) is not None] for arm in arms]
    return math.fsum(map(fmean, values)) if all(values) else None


def trials_at_once(run: Results) -> float:
    """Return how many trials of a run were in progress at once: as many as had a place, or fewer if processors lacked."""
    places, ran = _in_flight(run.manifest.settings), where(run.records, lambda record: record.status != "excluded")
    if len(ran) < places:
        return places
    begins, lasted = columns(ran, ("started_at", "wall_s"))
    busy, until = 0.0, -math.inf
    for begin, end in sorted(zip(begins.tolist(), (begins + lasted).tolist(), strict=True)):
        busy += max(0.0, end - max(begin, until))  # a run that was resumed did nothing in between
        until = max(until, end)
    return min(places, float(lasted.sum()) / busy) if busy else places


def _in_flight(settings: Settings) -> int:
    if settings.concurrency:
        return settings.concurrency
    waits = settings.real_time or any(model != SCRIPTED for model in settings.models)
    return IN_FLIGHT if waits else IN_FLIGHT_WITHOUT_WAITS


def _supply(run: Results) -> TaskSupply:
    """Return the supply from the manifest; a built-in suite is looked up, user code is not imported."""
    manifest = run.manifest
    ran = manifest.suite.tasks
    there = ran - _left_out(run.records)
    looked_up = None if manifest.imported is not None else _looked_up(manifest.config)
    if looked_up is None:
        return TaskSupply(None if manifest.settings.tasks is not None else there)
    spec, size, of_split = looked_up
    available = of_split * there // ran
    return TaskSupply(available, spec if is_generated(spec.name) and available else None, size / max(available, 1))


def _left_out(records: Sequence[Record]) -> int:
    """Return how many tasks some arm has no trial of: one whose other repeats were run is there."""
    there = {(record.arm, record.task) for record in alike(records) if record.status != "excluded"}
    return len({record.task for record in alike(records) if (record.arm, record.task) not in there})


def _looked_up(config: Mapping[str, Any]) -> tuple[Spec, int, int] | None:
    """Return a built-in suite's spec, its size, and that of the run's split; None if unavailable."""
    try:
        compare_config = config_from(dict(config), "manifest")
        spec = parse_spec(compare_config.suite)
        if spec.name not in builtin_names("suite") or compare_config.tools is not None:
            return None
        suite = suite_of(compare_config)
        return spec, len(suite.tasks), len(tasks_of_split(suite, compare_config.split))
    except (ValueError, OSError):
        return None


def check_second(run: Results, second: Results) -> None:
    """Raise ValueError unless two runs share suite, profiles, arms and repeats but not their draws."""
    first, other = run.manifest, second.manifest
    if run.folder.resolve() == second.folder.resolve():
        raise SettingError("again", f"{second.folder} is the same run")
    for part, a, b in (
        ("suite", first.suite.digest, other.suite.digest),
        ("set of fault profiles", first.profiles, other.profiles),
        ("set of arms", _built(first), _built(other)),
        ("number of repeats", first.settings.repeats, other.settings.repeats),
    ):
        if a != b:
            raise SettingError("again", f"{second.folder} is not a second run of {run.folder}: it has another {part}")
    if first.seed == other.seed and any(arm.model == SCRIPTED for arm in first.arms):
        raise SettingError("again", f"both runs have seed {first.seed}, with which the scripted model does the same in both")


def _built(manifest: Manifest) -> list[tuple[Any, ...]]:
    return [(arm.arm, arm.loop, arm.options, arm.model, arm.profile, arm.code) for arm in manifest.arms]
