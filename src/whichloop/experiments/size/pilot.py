"""A run as a pilot: by what its values vary, what a trial costs and which tasks there are; and the request for a planned run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from whichloop.experiments.compare.results import Results
from whichloop.experiments.why.losses import comparable
from whichloop.metrics.power import POWER, Spread, same_loop, spread, usual_repeats
from whichloop.metrics.record import Record
from whichloop.metrics.summary import METRICS, PRIMARY, SHARES, TaskValues, dollars_of_trial, task_values
from whichloop.protocol.names import SCRIPTED, Spec, nearest, parse_spec
from whichloop.runs.built_in import builtin_names
from whichloop.runs.config import IN_FLIGHT, IN_FLIGHT_WITHOUT_WAITS, SettingError, config_from
from whichloop.runs.lookup import suite_of, tasks_of_split
from whichloop.runs.registry import is_generated
from whichloop.runs.store.files import RunError

Purpose = Literal["compare", "gate"]
PURPOSES: tuple[Purpose, ...] = ("compare", "gate")
MAX_RATIO = 100.0
"""Maximum ratio of two amounts that is considered."""


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """What the planned run must be able to show, of which of the pilot's loops and profiles; none named: of all."""

    metric: str = PRIMARY
    margin: float | None = None
    """In points from 0 to 1 for a share, such as accuracy, else a share; None: the default of `compare` or `gate`."""
    alpha: float | None = None
    """None: the pilot's."""
    power: float = POWER
    purposes: Sequence[Purpose] = PURPOSES
    loops: Sequence[str] = ()
    profiles: Sequence[str] = ()

    def check(self) -> None:
        """Raise SettingError for a value out of its range."""
        if self.metric not in METRICS:
            raise SettingError("metric", f"unknown metric {self.metric!r}; {nearest(self.metric, METRICS)}")
        for name, value, most in (("margin", self.margin, 1 if self.metric in SHARES else MAX_RATIO), ("alpha", self.alpha, 0.5)):
            if value is not None and not 0 < value < most:
                raise SettingError(name, f"it must be more than 0 and less than {most:g}, got {value!r}")
        if not 0.5 <= self.power < 1:
            raise SettingError("power", f"it must be at least 0.5 and less than 1, got {self.power!r}")


@dataclass(frozen=True, slots=True)
class Pilot:
    """A run as a source of variances and prices."""

    request: SizeRequest
    run: Results
    """The arms that the run is planned for."""
    dead: tuple[str, ...]
    """Arms that are left out, as they crashed in every trial or never asked their model."""
    repeats: int
    values: Mapping[str, TaskValues]
    """Arm → values of the metric."""
    loops: Mapping[str, Spread]
    """Arm → the spread between its own runs."""
    pairs: Mapping[tuple[str, str], Spread]
    """Pair of compared arms → its spread, without those of `same`."""
    same: tuple[tuple[str, str], ...]
    """Pairs of compared arms that did the same in every trial, which no number of tasks tells apart."""
    price: Mapping[str, float | None]
    """What one trial of each arm takes in sum: lm_calls, tokens, cost_usd (US dollars), seconds; None if not known."""
    available: int | None
    """How many tasks a run on the suite and split would score; None if unknown."""
    suite: Spec | None
    """The suite, if it can be made larger."""
    size_per_task: float
    """By how much it is larger for one more scored task."""

    @property
    def scores(self) -> bool:
        return self.request.metric in SHARES

    @property
    def alpha(self) -> float:
        return self.run.manifest.settings.alpha if self.request.alpha is None else self.request.alpha

    @property
    def at_once(self) -> int:
        """Number of trials that had a place at once."""
        settings = self.run.manifest.settings
        waits = settings.real_time or any(model != SCRIPTED for model in settings.models)
        return settings.concurrency or (IN_FLIGHT if waits else IN_FLIGHT_WITHOUT_WAITS)

    @property
    def tasks(self) -> int:
        """The number of tasks that were scored."""
        return max(len(of_arm.values) for of_arm in self.values.values())

    @property
    def clusters(self) -> int | None:
        """How many clusters these tasks come in; None where each task stands for itself."""
        return max((each.units for each in self.loops.values() if each.is_clustered), default=None)


def read_pilot(run: Results, request: SizeRequest) -> Pilot:
    """Read a pilot.

    Raises ValueError for a bad argument, for a loop or profile that the run does not have, and for a pilot that lacks the metric,
    has one task or has dead arms alone.
    """
    request.check()
    metric, scores = METRICS[request.metric], request.metric in SHARES
    named = _arms(run, request)
    dead = tuple(arm.info.arm for arm in run.arms_to_mend if arm.info.arm in named)
    working = [arm for arm in named if arm not in dead]
    if not working:
        raise RunError(f"{run.folder}: a pilot needs a loop that works; each crashed always or never asked its model")
    first = part_of(run, working)
    infos = first.comparison.infos
    scored = {info.arm: [r for r in first.records if r.arm == info.arm and r.status == "scored"] for info in infos}
    values = {arm: of_arm for arm, records in scored.items() if (of_arm := task_values(records, metric)).values}
    if not values:
        raise RunError(f"{run.folder}: {request.metric} is unknown in every trial")
    if not scores and not any(any(of_arm.means.values()) for of_arm in values.values()):
        raise RunError(f"{run.folder}: {request.metric} is 0 in every trial, and ratios of 0 say nothing")
    own = {arm: same_loop(of_arm if scores else as_shares(of_arm), scores=scores) for arm, of_arm in values.items()}
    loops = {arm: each for arm, each in own.items() if each is not None}
    if not loops:
        raise RunError(f"{run.folder}: a pilot needs at least two scored tasks, and this run has one")
    repeats, ran = first.manifest.settings.repeats, Counter((r.arm, r.task) for r in first.records if r.status != "excluded")
    if first.manifest.imported is not None and ran:
        repeats = usual_repeats([*ran.values()])  # tasks may have unequal numbers of repeats
    same, (available, suite, size_per_task) = first.comparison.same, _supply(first)
    found = {names: _spread(*names, values, scores) for names in comparable(first) if names not in same}
    return Pilot(
        request=request,
        run=first,
        dead=dead,
        repeats=repeats,
        values=values,
        loops=loops,
        pairs={names: each for names, each in found.items() if each is not None},
        same=same,
        price=_price([records for arm, records in scored.items() if arm in values]),
        available=available,
        suite=suite,
        size_per_task=size_per_task,
    )


# --- which arms ---


def _arms(run: Results, request: SizeRequest) -> list[str]:
    """Return the names of the arms that are asked for. Raises SettingError for a name that the run does not have."""
    infos = run.comparison.infos
    loops, profiles = ([info.without_profile for info in infos], [info.profile for info in infos])
    for what, named, present in (("loop", request.loops, loops), ("profile", request.profiles, profiles)):
        for name in named:
            if name not in present:
                known = nearest(name, dict.fromkeys(present))
                raise SettingError(f"{what}s", f"the run has no {what} {name!r}; {known}")
    wanted = request.loops or loops, request.profiles or profiles
    names = [info.arm for info in infos if info.without_profile in wanted[0] and info.profile in wanted[1]]
    if not names:
        raise SettingError("profiles", f"none of these loops met {' or '.join(request.profiles)} in the run")
    return names


def part_of(run: Results, names: Collection[str]) -> Results:
    """Return a run with the arms of these names alone.

    A pair over all profiles together stays where every arm of both loops does: any other one rests on arms that the part lacks.
    """
    whole = run.comparison
    arms = tuple(arm for arm in whole.arms if arm.info.arm in names)
    if len(arms) == len(whole.arms):
        return run
    cut = {arm.info.without_profile for arm in whole.arms if arm.info.arm not in names}
    part = replace(
        whole,
        arms=arms,
        pairs=tuple(pair for pair in whole.pairs if pair.a in names and pair.b in names),
        pooled=tuple(pair for pair in whole.pooled if cut.isdisjoint((pair.a, pair.b))),
        same=tuple((a, b) for a, b in whole.same if a in names and b in names),
    )
    return replace(run, records=[record for record in run.records if record.arm in names], comparison=part)


# --- by what they vary ---


def as_shares(values: TaskValues, mean: float | None = None) -> TaskValues:
    """Return amounts as the gate uses them: as shares of the mean over tasks, or of another `mean`.

    A difference of shares is nearly the logarithm of the ratio of the sums (delta method).
    """
    whole = mean or fmean([*values.means.values()]) or 1.0
    return TaskValues({task: [value / whole for value in amounts] for task, amounts in values.values.items()}, values.clusters)


def _spread(a: str, b: str, values: Mapping[str, TaskValues], scores: bool) -> Spread | None:
    """Return the spread of a pair; of amounts as shares of the mean of both arms, the unit of a comparison's margin for them."""
    if a not in values or b not in values:
        return None
    first, second = values[a], values[b]
    if scores:
        return spread(first, second)
    shared = [task for task in first.values if task in second.values]
    mean = sum(first.means[task] + second.means[task] for task in shared) / (2 * len(shared)) if shared else 0.0
    return spread(as_shares(first, mean), as_shares(second, mean), scores=False) if mean > 0 else None


# --- what they cost, and which tasks there are ---


def _price(arms: Sequence[Sequence[Record]]) -> dict[str, float | None]:
    """Return what a trial of each arm takes in sum; None for what some arm does not tell."""

    def in_sum(of: Callable[[Record], float | None]) -> float | None:
        known = [[value for record in arm if (value := of(record)) is not None] for arm in arms]
        return math.fsum(map(fmean, known)) if all(known) else None

    amounts = {"lm_calls": METRICS["lm_calls"].__call__, "tokens": METRICS["tokens"].__call__, "cost_usd": dollars_of_trial}
    return {name: in_sum(of) for name, of in amounts.items()} | {"seconds": in_sum(lambda record: record.wall_s) or None}


def _supply(run: Results) -> tuple[int | None, Spec | None, float]:
    """Return the pilot's last three fields from its manifest; a built-in suite is looked up, user code is not imported."""
    manifest = run.manifest
    ran = {(record.arm, record.task) for record in run.records if record.status != "excluded"}
    lacking = {record.task for record in run.records if (record.arm, record.task) not in ran}
    there = manifest.suite.tasks - len(lacking)  # a task whose other repeats were run is there
    unknown = None if manifest.settings.tasks is not None else there, None, 1.0
    try:
        settings = config_from(dict(manifest.config), "manifest")
        spec = parse_spec(settings.suite)
        if manifest.imported is not None or spec.name not in builtin_names("suite") or settings.tools is not None:
            return unknown
        suite = suite_of(settings)
        available = len(tasks_of_split(suite, settings.split)) * there // manifest.suite.tasks
    except (ValueError, OSError):
        return unknown
    return available, spec if is_generated(spec.name) and available else None, len(suite.tasks) / max(available, 1)
