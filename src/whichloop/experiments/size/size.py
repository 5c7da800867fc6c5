"""The result of a size calculation from a pilot."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from whichloop.experiments.compare.results import Results
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import Comparison
from whichloop.metrics.record_table import where
from whichloop.metrics.summary import PRIMARY, SHARES
from whichloop.protocol.names import nearest
from whichloop.runs.config import SettingError
from whichloop.runs.store.files import RunError
from whichloop.text.numbers import listed_names, short_name

from .caveats import caveats
from .pilot import Pilot, SizeRequest, check_second, read_pilot, trials_at_once
from .sizes import PLANS, Noise, SizeOption, noise

DEAD = "crashed in every trial or never asked its model"
"""What keeps an arm out of a pilot."""


def part_of(comparison: Comparison, belongs: Callable[[ArmInfo], bool]) -> Comparison:
    """Return the arms that belong to a part, their pairs, and which of them did the same.

    A pair over all profiles together stays where every arm of both loops belongs: any other one rests on arms that the part lacks.
    """
    arms = tuple(arm for arm in comparison.arms if belongs(arm.info))
    names = {arm.info.arm for arm in arms}
    incomplete_loops = {arm.info.without_profile for arm in comparison.arms if arm.info.arm not in names}
    return replace(
        comparison,
        arms=arms,
        pairs=tuple(pair for pair in comparison.pairs if {pair.a, pair.b} <= names),
        pooled=tuple(pair for pair in comparison.pooled if incomplete_loops.isdisjoint((pair.a, pair.b))),
        same=tuple(pair for pair in comparison.same if names.issuperset(pair)),
    )


def part_of_run(run: Results, loops: Sequence[str], profiles: Sequence[str]) -> Results:
    """Return a run with the arms of these loops under these profiles alone; nothing named stands for all of them.

    Raises SettingError for a loop or a profile that the run does not have, and where none of these loops met one of these profiles.
    """
    if not loops and not profiles:
        return run
    infos = [arm.info for arm in run.comparison.arms]
    for what, chosen, present in (
        ("loop", loops, [short_name(info) for info in infos]),
        ("profile", profiles, [info.profile for info in infos]),
    ):
        for name in chosen:
            if name not in present:
                raise SettingError(
                    f"{what}s", f"the run has no {what} {name!r}; {nearest(name, dict.fromkeys(present))}", f"--{what}"
                )
    of_loops = [info for info in infos if not loops or short_name(info) in loops]
    names = {info.arm for info in of_loops if not profiles or info.profile in profiles}
    if not names:
        raise SettingError("profiles", f"none of these loops met {' or '.join(profiles)} in the run", "--profile")
    return _with_arms(run, names)


def without_dead_arms(run: Results, dead: Collection[str]) -> Results:
    """Return a run without its dead arms, whose names are `dead`. Raises RunError where no arm is left."""
    names = {arm.info.arm for arm in run.comparison.arms if arm.info.arm not in dead}
    if not names:
        raise RunError(
            f"{run.folder}: a pilot needs a loop that works, and each {DEAD} here; whichloop report {shlex.quote(str(run.folder))} "
            "says why"
        )
    return _with_arms(run, names) if dead else run


def _with_arms(run: Results, names: Collection[str]) -> Results:
    """Return a run with the arms of these names alone."""
    comparison = part_of(run.comparison, lambda info: info.arm in names)
    return replace(run, records=where(run.records, lambda record: record.arm in names), comparison=comparison)


@dataclass(frozen=True, slots=True)
class Sizing:
    """The result of a size calculation."""

    run: str
    metric: str
    alpha: float
    power: float
    tasks: int
    """Number of tasks scored in the pilot."""
    clusters: int | None
    """Number of clusters that these tasks come in; None where each task stands for itself."""
    repeats: int
    suite: str
    suite_tasks: int | None
    """Number of tasks of the suite that would be scored; None if unknown."""
    split: str | None
    """Split of the suite that the pilot's tasks are of, and those of the planned run; None: all tasks."""
    profiles: int
    """Number of profiles of the pilot that the run is planned for."""
    noise: tuple[Noise, ...]
    plans: tuple[SizeOption, ...]
    caveats: tuple[str, ...]
    """The caveats, a sentence each."""
    same: tuple[tuple[str, ...], ...] = ()
    """Loops or arms that did the same in every trial of the pilot, of which no size is told."""
    loops: tuple[str, ...] = ()
    """The pilot's loops that the run is planned for; empty: all of them."""
    only_profiles: tuple[str, ...] = ()
    """The pilot's profiles that it is planned for; empty: all of them."""
    likely: int | None = None
    """The number of tasks that the pilot's own verdict names."""

    @property
    def is_ratio(self) -> bool:
        """Whether differences and margins are ratios."""
        return self.metric not in SHARES

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints; its names are stable."""
        return {
            "run": self.run,
            "metric": self.metric,
            "alpha": self.alpha,
            "power": self.power,
            "pilot": {"tasks": self.tasks, "clusters": self.clusters, "repeats": self.repeats},
            "suite": {"name": self.suite, "tasks": self.suite_tasks, "split": self.split},
            "loops": list(self.loops),
            "profiles": list(self.only_profiles),
            "noise": [asdict(noise) for noise in self.noise],
            "plans": [plan.to_json() for plan in self.plans],
            "doubts": list(self.caveats),
            "same": [list(names) for names in self.same],
            "likely": self.likely,
        }


def size(run: Results, request: SizeRequest, again: Results | None = None) -> Sizing:
    """Compute the size that a run needs from a pilot. `again`: a second run of the same configuration with another seed.

    Arms that crashed in every trial, or never asked their model, are left out. Raises ValueError for bad arguments, for loops or
    profiles that the pilot does not have, for a pilot that lacks the metric, has one task or has dead arms alone, and for runs that
    do not match.
    """
    if again is not None:
        check_second(run, again)
    at_once = trials_at_once(run)
    chosen = [part_of_run(each, request.loops, request.profiles) for each in ([run] if again is None else [run, again])]
    dead = tuple(dict.fromkeys(arm.info.arm for each in chosen for arm in each.arms_to_mend))
    run, *others = (without_dead_arms(each, dead) for each in chosen)
    again = others[0] if others else None
    pilot = read_pilot(run, request, again, at_once)
    present = {short_name(arm.info) for arm in run.comparison.arms}
    purposes = [purpose for purpose in request.purposes if purpose != "compare" or pilot.pairs]
    return Sizing(
        run=str(run.folder),
        metric=request.metric,
        alpha=pilot.alpha,
        power=request.power,
        tasks=max(len(arm.values) for arm in pilot.values.values()),
        clusters=max((spread.units for spread in pilot.loops.values() if spread.is_clustered), default=None),
        repeats=pilot.repeats,
        suite=run.manifest.suite.name,
        suite_tasks=pilot.supply.tasks,
        split=run.manifest.settings.split,
        profiles=len({arm.info.profile for arm in run.comparison.arms}),
        loops=tuple(loop for loop in request.loops if loop in present),
        only_profiles=tuple(request.profiles),
        noise=tuple(noise(pilot, arm) for arm in pilot.loops),
        plans=tuple(PLANS[purpose](pilot) for purpose in purposes),
        caveats=(*_left_out(dead), *caveats(pilot, run, again)),
        same=_same(pilot, run) if "compare" in request.purposes else (),
        likely=_likely(run) if request.metric == PRIMARY and "compare" in request.purposes else None,
    )


def _left_out(dead: Sequence[str]) -> list[str]:
    """Return which dead arms the sizes leave out, if any."""
    which = "which" if len(dead) == 1 else "each of which"
    return [f"Left out of these sizes: {listed_names(dead)}, {which} {DEAD}."] if dead else []


def _same(pilot: Pilot, run: Results) -> tuple[tuple[str, ...], ...]:
    """Return the loops that did the same under every profile, and the pairs of arms that did so under some of them."""
    groups = [tuple(loops) for loops in run.same_loops]
    loops = {arm.info.arm: arm.info.variant for arm in run.comparison.arms}
    grouped = [pair for pair in pilot.same if any({loops[pair[0]], loops[pair[1]]} <= set(group) for group in groups)]
    return (*groups, *(pair for pair in pilot.same if pair not in grouped))


def _likely(run: Results) -> int | None:
    decision = run.verdict.decision
    return None if decision is None else decision.tasks
