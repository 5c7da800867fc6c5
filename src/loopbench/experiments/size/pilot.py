"""A pilot: a run as a source of variances and prices, and what is wanted of the run to come."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from loopbench.datasets.generating import MAX_SIZE
from loopbench.experiments.compare.results import Results
from loopbench.metrics.permutation import sign_flip
from loopbench.metrics.power import POWER, Spread, same_loop, spread
from loopbench.metrics.record import Record
from loopbench.metrics.summary import METRICS, PRIMARY, TaskValues, dollars, task_values
from loopbench.protocol.names import Spec, nearest, parse_spec
from loopbench.runs.config import IN_FLIGHT, IN_FLIGHT_WITHOUT_WAITS, SettingError, config_from
from loopbench.runs.lookup import suite_of, tasks_of_split
from loopbench.runs.manifest import Manifest
from loopbench.runs.registry import builtin_names, generated_suites
from loopbench.runs.store.files import RunError

Purpose = Literal["compare", "gate"]
PURPOSES: tuple[Purpose, ...] = ("compare", "gate")
MAX_RATIO = 100.0
"""Larger ones of two amounts are not looked for."""
ANOTHER = "another design"


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """What the run to come is to be able to say."""

    metric: str = PRIMARY
    margin: float | None = None
    """Of accuracy in points from 0 to 1, of any other metric a share; None: what `compare` and `gate` themselves take."""
    alpha: float | None = None
    """None: the pilot's."""
    power: float = POWER
    purposes: Sequence[Purpose] = PURPOSES

    def check(self) -> None:
        """Raise SettingError for a value out of its range."""
        if self.metric not in METRICS:
            raise SettingError("metric", f"unknown metric {self.metric!r}; there are {', '.join(METRICS)}")
        for purpose in self.purposes:
            if purpose not in PURPOSES:
                raise SettingError("purpose", f"unknown purpose {purpose!r}; {nearest(purpose, PURPOSES)}", "--for")
        most = 1 if self.metric == PRIMARY else MAX_RATIO
        if self.margin is not None and not 0 < self.margin < most:
            raise SettingError("margin", f"it must be more than 0 and less than {most:g}, got {self.margin!r}")
        if self.alpha is not None and not 0 < self.alpha < 0.5:
            raise SettingError("alpha", f"it must be more than 0 and less than 0.5, got {self.alpha!r}")
        if not 0.5 <= self.power < 1:
            raise SettingError("power", f"it must be at least 0.5 and less than 1, got {self.power!r}")


@dataclass(frozen=True, slots=True)
class TaskSupply:
    """The tasks that there are to ask."""

    tasks: int | None
    """That would be scored; None: not known."""
    suite: Spec | None = None
    """Of a suite that can be made larger."""
    size_per_task: float = 1.0
    """How much larger for one more task that is scored."""

    def suite_for(self, tasks: int) -> tuple[str | None, bool]:
        """The suite's name where it has to be made larger for so many tasks, and whether there are enough."""
        if self.tasks is None or tasks <= self.tasks:
            return None, True
        size = math.ceil(tasks * self.size_per_task)
        if self.suite is None or size > MAX_SIZE:
            return None, False
        return str(replace(self.suite, options={**self.suite.options, "size": size})), True


@dataclass(frozen=True, slots=True)
class TrialCost:
    """Of one trial of each arm."""

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
    """By arm; a second run's are further repeats."""
    loops: Mapping[str, Spread]
    """Arm → by what its own runs differ."""
    pairs: Mapping[tuple[str, str], Spread]
    """Of arms that are compared with one another; where there are none, of each arm and another design."""
    second: Mapping[str, tuple[float, float]]
    """Arm → by what the second run differs, and its p."""
    price: TrialCost
    in_flight: int
    supply: TaskSupply

    @property
    def scores(self) -> bool:
        return self.request.metric == PRIMARY

    @property
    def alone(self) -> bool:
        """No two arms are compared with one another."""
        return all(b == ANOTHER for _, b in self.pairs)


def read_pilot(found: Results, request: SizeRequest, again: Results | None) -> Pilot:
    """Raises ValueError for a bad argument, runs that do not belong together, or a pilot that says nothing of the metric."""
    request.check()
    if again is not None:
        check_again(found, again)
    runs = [found] if again is None else [found, again]
    scored = {
        arm.info.arm: [[r for r in run.records if r.arm == arm.info.arm and r.status == "scored"] for run in runs]
        for arm in found.comparison.arms
    }
    metric, scores = METRICS[request.metric], request.metric == PRIMARY
    values = {arm: task_values([r for run in by_run for r in run], metric) for arm, by_run in scored.items()}
    values = {arm: known for arm, known in values.items() if known.values}
    if not values:
        raise RunError(f"{found.folder}: {request.metric} is not known for any trial")
    if not scores and not any(any(known.means.values()) for known in values.values()):
        raise RunError(f"{found.folder}: {request.metric} is 0 in every trial, and ratios of 0 say nothing")
    loops = {arm: same_loop(known if scores else as_shares(known), scores=scores) for arm, known in values.items()}
    known_loops = {arm: varies for arm, varies in loops.items() if varies is not None}
    if not known_loops:
        raise RunError(f"{found.folder}: a pilot needs at least two scored tasks, and this run has one")
    settings = found.manifest.settings
    return Pilot(
        request=request,
        alpha=settings.alpha if request.alpha is None else request.alpha,
        compare_margin=settings.margin,
        repeats=settings.repeats,
        values=values,
        loops=known_loops,
        pairs=_pairs(found, values, scores) or {(arm, ANOTHER): _with_another(values[arm], scores) for arm in known_loops},
        second={} if again is None else {arm: _difference(request.metric, *scored[arm]) for arm in known_loops},
        price=_price([[r for run in by_run for r in run] for arm, by_run in scored.items() if arm in values]),
        in_flight=_in_flight(found.manifest.config),
        supply=_supply(found),
    )


def as_shares(values: TaskValues, mean: float | None = None) -> TaskValues:
    """Amounts as the gate takes them: as shares of the mean over tasks. A difference is then nearly the logarithm of the ratio of
    the sums (delta method). `mean`: another one than their own.
    """
    whole = mean or _mean([*values.means.values()]) or 1.0
    return TaskValues({task: [value / whole for value in found] for task, found in values.values.items()}, values.clusters)


def _pairs(found: Results, values: Mapping[str, TaskValues], scores: bool) -> dict[tuple[str, str], Spread]:
    made = {}
    for a, b in combinations([arm.info for arm in found.comparison.arms if arm.info.arm in values], 2):
        if (a.suite, a.profile) == (b.suite, b.profile):
            first, second = values[a.arm], values[b.arm]
            varies = spread(first, second) if scores else _spread_of_shares(first, second)
            if varies is not None:
                made[a.arm, b.arm] = varies
    return made


def _spread_of_shares(a: TaskValues, b: TaskValues) -> Spread | None:
    """Of differences as shares of the mean of both arms, which a margin of amounts is in a comparison."""
    both = [task for task in a.values if task in b.values]
    mean = sum(a.means[task] + b.means[task] for task in both) / (2 * len(both)) if both else 0.0
    if mean <= 0:
        return None
    first, second = (TaskValues({t: [v / mean for v in found] for t, found in x.values.items()}, x.clusters) for x in (a, b))
    return spread(first, second, scores=False)


def _with_another(values: TaskValues, scores: bool) -> Spread:
    """An arm beside a design that varies as much and finds difficult what it likes: two designs hardly differ by more."""
    mean = 1.0 if scores else _mean([*values.means.values()]) or 1.0
    own = TaskValues({t: [v / mean for v in found] for t, found in values.values.items()}, values.clusters)
    still = TaskValues({task: [0.0] * len(found) for task, found in values.values.items()}, values.clusters)
    varies = spread(own, still, scores=scores)
    assert varies is not None  # as many tasks as the arm itself has
    return replace(varies, difference=0.0, between=2 * varies.between, within_b=varies.within_a)


def _difference(metric: str, first: Sequence[Record], second: Sequence[Record]) -> tuple[float, float]:
    """By what a second run differs, over the tasks that both scored, and the p that it is chance."""
    one, other = (task_values(records, METRICS[metric]) for records in (first, second))
    if metric != PRIMARY:
        whole = _mean([*one.means.values(), *other.means.values()])
        one, other = as_shares(one, whole), as_shares(other, whole)
    before, after = one.means, other.means
    both = [task for task in before if task in after]
    if not both:
        return 0.0, 1.0
    d = [after[task] - before[task] for task in both]
    return math.fsum(d) / len(d), sign_flip(d, [one.clusters[task] for task in both]).two_sided


def _price(arms: Sequence[Sequence[Record]]) -> TrialCost:
    costs = [[known for record in arm if (known := dollars(record)) is not None] for arm in arms]
    wall_s = math.fsum(_mean([record.wall_s for record in arm]) for arm in arms)
    return TrialCost(
        _per_round("lm_calls", arms),
        _per_round("tokens", arms),
        math.fsum(map(_mean, costs)) if all(costs) else None,
        wall_s or None,
    )


def _per_round(metric: str, arms: Sequence[Sequence[Record]]) -> float | None:
    """None where an imported arm does not tell it."""
    known = [[value for record in arm if (value := METRICS[metric](record)) is not None] for arm in arms]
    return math.fsum(map(_mean, known)) if all(known) else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _in_flight(config: Mapping[str, Any]) -> int:
    if config.get("concurrency"):
        return int(config["concurrency"])
    waits = config.get("real_time") or any(model != "scripted" for model in config.get("models", ()))
    return IN_FLIGHT if waits else IN_FLIGHT_WITHOUT_WAITS


def _supply(found: Results) -> TaskSupply:
    """From the manifest; a built-in suite is looked up, code of the user's own is not imported."""
    manifest = found.manifest
    ran = manifest.suite.tasks
    scored = 1 - len({record.task for record in found.records if record.status == "excluded"}) / ran
    looked_up = None if manifest.imported is not None else _looked_up(manifest.config)
    if looked_up is None:
        return TaskSupply(None if manifest.settings.tasks is not None else math.floor(ran * scored))
    spec, whole, of_split = looked_up
    there = math.floor(of_split * scored)
    return TaskSupply(there, spec if spec.name in generated_suites() and there else None, whole / max(there, 1))


def _looked_up(config: Mapping[str, Any]) -> tuple[Spec, int, int] | None:
    """A built-in suite's name, its tasks, and those of the run's split; None where it cannot be had."""
    try:
        made = config_from(dict(config), "manifest")
        spec = parse_spec(made.suite)
        if spec.name not in builtin_names("suite") or made.tools is not None:
            return None
        suite = suite_of(made)
        return spec, len(suite.tasks), len(tasks_of_split(suite, made.split))
    except (ValueError, OSError):
        return None


def check_again(found: Results, again: Results) -> None:
    """Raises ValueError unless two runs have suite, profiles, arms and repeats in common, and draws of their own."""
    one, other = found.manifest, again.manifest
    if found.folder.resolve() == again.folder.resolve():
        raise SettingError("again", f"{again.folder} is the same run")
    for what, here, there in (
        ("suite", one.suite.digest, other.suite.digest),
        ("set of fault profiles", one.profiles, other.profiles),
        ("set of arms", _built(one), _built(other)),
        ("number of repeats", one.settings.repeats, other.settings.repeats),
    ):
        if here != there:
            raise SettingError("again", f"{again.folder} is not a second run of {found.folder}: it has another {what}")
    if one.seed == other.seed and any(arm.model == "scripted" for arm in one.arms):
        raise SettingError("again", f"both runs have seed {one.seed}, with which the scripted model does the same in both")


def _built(manifest: Manifest) -> list[tuple[Any, ...]]:
    return [(arm.arm, arm.loop, arm.options, arm.model, arm.profile, arm.code) for arm in manifest.arms]
