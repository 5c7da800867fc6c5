"""The part of a pilot that a run is planned for: some of its loops, under some of its profiles, without dead arms."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace

from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.verdict.parts import part_of
from whichloop.metrics.record_table import where
from whichloop.protocol.names import nearest
from whichloop.runs.config import SettingError
from whichloop.runs.store.files import RunError
from whichloop.text.numbers import short_name

DEAD = "crashed in every trial or never asked its model"
"""What keeps an arm out of a pilot."""


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
