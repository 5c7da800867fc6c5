"""How large a run has to be, worked out from a pilot: what chance alone does, what the pilot could show, what a margin takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import stats

from loopbench.metrics import gate
from loopbench.metrics.power import (
    POWER,
    Spread,
    difference_power,
    equivalence_power,
    fewest_units,
    pass_power,
    regression_power,
    same_loop,
    smallest,
    spread,
    tasks_of,
)
from loopbench.metrics.record import Record
from loopbench.metrics.statistics import sign_flip
from loopbench.metrics.summary import METRICS, PRIMARY, TaskValues, dollars, task_values

from .compare import Results, suite_of, tasks_of_split
from .config import IN_FLIGHT, IN_FLIGHT_WITHOUT_WAITS, config_from
from .journal import RunError
from .registry import builtin_names, generated_suites, parse_spec

Purpose = Literal["compare", "gate"]
REPEATS = (1, 2, 3, 5, 10)
MOST_LOG = math.log(100.0)
"""Ratios beyond it are not looked for."""
FEW_UNITS = 50
"""Fewer leave the variance itself much in doubt."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the run to come is to be able to say."""

    metric: str = PRIMARY
    margin: float | None = None
    """Of accuracy in points from 0 to 1, of any other metric a share; None: what `compare` and `gate` themselves take."""
    alpha: float | None = None
    """None: the pilot's."""
    power: float = POWER
    purposes: tuple[Purpose, ...] = ("compare", "gate")

    def check(self) -> None:
        """Raises ValueError that names the argument."""
        if self.metric not in METRICS:
            raise ValueError(f"--metric: unknown metric {self.metric!r}; there are {', '.join(METRICS)}")
        if self.margin is not None and not (0 < self.margin < (1 if self.metric == PRIMARY else 100)):
            raise ValueError(f"--margin: more than 0 is wanted{', less than 1' * (self.metric == PRIMARY)}, got {self.margin!r}")
        if self.alpha is not None and not 0 < self.alpha < 0.5:
            raise ValueError(f"--alpha: between 0 and 0.5, got {self.alpha!r}")
        if not 0.5 <= self.power < 1:
            raise ValueError(f"--power: from 0.5 to less than 1, got {self.power!r}")


@dataclass(frozen=True, slots=True)
class Noise:
    """By what two runs of one arm with fresh seeds differ, at the pilot's size."""

    arm: str
    sd: float
    """Of accuracy in points; of any other metric of the logarithm of the ratio."""
    band: float
    """Half the width of the band that holds all but alpha of the differences."""
    at_most: bool
    """One trial per task: what varies within tasks is not known, and bounded by all that varies."""
    again: float | None = None
    """By what the second run did differ."""
    p: float | None = None
    """That it is no more than chance (sign-flip)."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What the pilot's own size can show of a pair (a, b), or of an arm; None: nothing, however large."""

    names: tuple[str, ...]
    difference: float | None
    """Smallest one that is likely to be shown: a pair's difference, an arm's drop."""
    margin: float | None
    """Smallest one within which equal designs are likely to be shown equivalent, or an unchanged arm to pass."""


@dataclass(frozen=True, slots=True)
class Size:
    """One way to be sure enough."""

    repeats: int
    tasks: int
    trials: int
    """Of all arms."""
    lm_calls: float
    tokens: float
    cost_usd: float | None
    seconds: float | None
    suite: str
    """What the suite has to be for so many tasks, `name(size=…)`; empty where it has as many, or cannot grow."""
    short: bool
    """The suite has fewer tasks, and cannot grow."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a comparison of the pilot's arms, or a gate over them, takes."""

    purpose: Purpose
    margin: float
    level: float
    """Of one test: alpha over the tests of the family."""
    reaches: tuple[Reach, ...]
    sizes: tuple[Size, ...]
    """The fewest trials first."""

    @property
    def best(self) -> Size | None:
        """The smallest one that the suite has the tasks for."""
        return next((size for size in self.sizes if not size.short), None)


@dataclass(frozen=True, slots=True)
class Sizing:
    """All that is said of a pilot."""

    run: str
    metric: str
    alpha: float
    power: float
    tasks: int
    """Scored in the pilot."""
    repeats: int
    arms: int
    suite: str
    suite_tasks: int | None
    """None: not known."""
    noise: tuple[Noise, ...]
    plans: tuple[Plan, ...]
    doubts: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object of `--json`: names stay stable."""
        return {
            "run": self.run,
            "metric": self.metric,
            "alpha": self.alpha,
            "power": self.power,
            "pilot": {"tasks": self.tasks, "repeats": self.repeats, "arms": self.arms},
            "suite": {"suite": self.suite, "tasks": self.suite_tasks},
            "noise": [
                {"arm": n.arm, "sd": n.sd, "low": -n.band, "high": n.band, "at_most": n.at_most, "again": n.again, "p": n.p}
                for n in self.noise
            ],
            "plans": [_plan_json(plan) for plan in self.plans],
            "doubts": list(self.doubts),
        }


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "for": plan.purpose,
        "margin": plan.margin,
        "level": plan.level,
        "reach": [{"names": list(reach.names), "difference": reach.difference, "margin": reach.margin} for reach in plan.reaches],
        "sizes": [_size_json(size) for size in plan.sizes],
        "best": None if plan.best is None else _size_json(plan.best),
    }


def _size_json(size: Size) -> dict[str, Any]:
    return {
        "repeats": size.repeats,
        "tasks": size.tasks,
        "trials": size.trials,
        "lm_calls": size.lm_calls,
        "tokens": size.tokens,
        "cost_usd": size.cost_usd,
        "seconds": size.seconds,
        "suite": size.suite or None,
        "enough_tasks": not size.short,
    }


def size(found: Results, wanted: Wanted, again: Results | None = None) -> Sizing:
    """Work out from a pilot what a run takes. `again`: a second run of the same configuration with another seed.

    Raises ValueError for bad arguments, a metric that the pilot does not know, fewer than two tasks, or runs that do not belong
    together.
    """
    wanted.check()
    pilot = _Pilot.of(found, wanted, again)
    plans = tuple(_PLANS[purpose](pilot) for purpose in wanted.purposes)
    return Sizing(
        run=str(found.folder),
        metric=wanted.metric,
        alpha=pilot.alpha,
        power=wanted.power,
        tasks=max(len(values.values) for values in pilot.values.values()),
        repeats=pilot.repeats,
        arms=len(pilot.values),
        suite=str(found.manifest["suite"]["name"]),
        suite_tasks=pilot.suite.tasks,
        noise=_noise(pilot, again),
        plans=plans,
        doubts=tuple(_doubts(pilot, found, again)),
    )


# --- the pilot ---


@dataclass(frozen=True, slots=True)
class _Tasks:
    """How many tasks there are to ask."""

    tasks: int | None
    """That would be scored; None where that is not known."""
    grows: Callable[[int], str] | None = None
    """The suite's name for so many scored tasks; None where it cannot be made larger."""


@dataclass(frozen=True, slots=True)
class _Pilot:
    """A run as a source of variances and prices."""

    wanted: Wanted
    alpha: float
    repeats: int
    records: Mapping[str, Sequence[Record]]
    """Arm → scored trials, those of a second run among them."""
    values: Mapping[str, TaskValues]
    pairs: tuple[tuple[str, str], ...]
    """Arms that are compared with one another."""
    suite: _Tasks
    in_flight: int
    compare_margin: float

    @classmethod
    def of(cls, found: Results, wanted: Wanted, again: Results | None) -> _Pilot:
        if again is not None:
            check_again(found, again)
        config = found.manifest["config"]
        records = {arm.info.arm: _scored(found, arm.info.arm, again) for arm in found.comparison.arms}
        values = {arm: task_values(trials, METRICS[wanted.metric]) for arm, trials in records.items()}
        values = {arm: known for arm, known in values.items() if known.values}
        if not values:
            raise RunError(f"{found.folder}: {wanted.metric} is not known of any trial")
        if max(len(known.values) for known in values.values()) < 2:
            raise RunError(f"{found.folder}: one task is no pilot: nothing is known of how tasks differ; run at least two")
        infos = [arm.info for arm in found.comparison.arms if arm.info.arm in values]
        return cls(
            wanted,
            wanted.alpha or config["alpha"],
            int(config["repeats"]),
            records,
            values,
            tuple((a.arm, b.arm) for a, b in combinations(infos, 2) if (a.suite, a.profile) == (b.suite, b.profile)),
            _tasks_there(found),
            _in_flight(config),
            config["margin"],
        )

    @property
    def scores(self) -> bool:
        return self.wanted.metric == PRIMARY


def _scored(found: Results, arm: str, again: Results | None) -> list[Record]:
    runs = (found.records,) if again is None else (found.records, again.records)
    return [record for records in runs for record in records if record.arm == arm and record.status == "scored"]


def check_again(found: Results, again: Results) -> None:
    """Raises ValueError unless two runs have the same suite, profiles and arms, and draws of their own."""
    one, other = found.manifest, again.manifest
    for what, first, second in (
        ("the suite", one["suite"]["digest"], other["suite"]["digest"]),
        ("the fault profiles", one.get("profiles"), other.get("profiles")),
        ("the arms", _arms_of(one), _arms_of(other)),
        ("the number of repeats", one["config"]["repeats"], other["config"]["repeats"]),
    ):
        if first != second:
            raise ValueError(f"--again: {what} of {again.folder} differ from those of {found.folder}".replace("suite of", "suite of"))
    if found.folder.resolve() == again.folder.resolve():
        raise ValueError("--again: that is the same run; a second one with another --seed is wanted")
    if one["seed"] == other["seed"] and any(arm["model"] == "scripted" for arm in one["arms"]):
        raise ValueError(f"--again: both runs have seed {one['seed']}, so that the scripted model does the same in both; use another --seed")
