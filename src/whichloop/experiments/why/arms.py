"""Looking up arms and pairs by the name of an arm, or of a loop, which means all of its arms."""

from __future__ import annotations

from collections.abc import Sequence

from whichloop.experiments.compare.results import Results
from whichloop.protocol.names import SCRIPTED, meant, near, several
from whichloop.runs.store.files import RunError
from whichloop.text.numbers import short_name

from .why import comparable


def arms_named(run: Results, name: str) -> list[str]:
    """Return the arm of that name, or the arms of that loop, with or without its version; empty if there are none.

    A part of a name will do if only one loop, or only one arm, has it. Raises RunError, with their names, if several have it.
    """
    infos = [arm.info for arm in run.comparison.arms]
    arms = [info.arm for info in infos]
    matching = [name] if name in arms else [arm for arm in arms if arm.startswith(f"{name}/") or _unversioned(run, arm) == name]
    if matching:
        return matching
    loops = meant(name, list(dict.fromkeys(map(short_name, infos))))
    if len(loops) == 1:
        return [info.arm for info in infos if short_name(info) == loops[0]]
    matching = meant(name, arms)
    if len(matching) > 1:
        raise RunError(f"{run.folder}: {name!r} matches {len(matching)} arms: {several(matching)}")
    return matching


def _unversioned(run: Results, arm: str) -> str | None:
    """Return the loop of an arm without its version; None for an arm without one."""
    entry = run.manifest.arm(arm)
    if entry is None or not entry.version:
        return None
    condition = entry.profile if entry.model == SCRIPTED else entry.model
    return arm.removesuffix(f"/{condition}").replace(f"@{entry.version}", "", 1)


def pairs_named(run: Results, a: str, b: str) -> Sequence[tuple[str, str]]:
    """Return the comparable pairs between two arms or loops.

    Raises RunError for an unknown name, and for arms without the same tasks and profile.
    """
    comparable_pairs = set(comparable(run))
    pairs = [
        (one, two) for one in required_arms(run, a) for two in required_arms(run, b) if {(one, two), (two, one)} & comparable_pairs
    ]
    if not pairs:
        raise RunError(f"{run.folder}: {a} and {b} are not two arms with the same tasks and profile")
    return pairs


def required_arms(run: Results, name: str) -> list[str]:
    """Return what `arms_named` returns. Raises RunError, with the names of the arms, if that is nothing."""
    arms = arms_named(run, name)
    if not arms:
        arm_names = [arm.info.arm for arm in run.comparison.arms]
        suggestion = near(name, [*map(short_name, (arm.info for arm in run.comparison.arms)), *arm_names])
        raise RunError(f"{run.folder}: no arm {name!r}; {f'{suggestion} ' if suggestion else ''}there are {', '.join(arm_names)}")
    return arms
