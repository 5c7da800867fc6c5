"""Arms and pairs of arms by what a user calls them: an arm's own name, or a loop's, which means all of its arms."""

from __future__ import annotations

from collections.abc import Sequence

from loopbench.experiments.compare.results import Results
from loopbench.runs.store.files import RunError

from .why import comparable


def arms_named(found: Results, name: str) -> list[str]:
    """Return the arm of that name, or the arms of that loop; empty if there are none."""
    arms = [arm.info.arm for arm in found.comparison.arms]
    return [name] if name in arms else [arm for arm in arms if arm.startswith(f"{name}/")]


def pairs_named(found: Results, a: str, b: str) -> Sequence[tuple[str, str]]:
    """Return the comparable pairs between two arms or loops.

    Raises RunError for a name that no arm has, and for arms that did not meet the same tasks under the same profile.
    """
    every = set(comparable(found))
    pairs = [(one, two) for one in known_arms(found, a) for two in known_arms(found, b) if {(one, two), (two, one)} & every]
    if not pairs:
        raise RunError(f"{found.folder}: {a} and {b} are not two arms that met the same tasks under the same profile")
    return pairs


def known_arms(found: Results, name: str) -> list[str]:
    """Return what `arms_named` returns. Raises RunError, with the arms that there are, if that is nothing."""
    arms = arms_named(found, name)
    if not arms:
        raise RunError(f"{found.folder}: no arm {name!r}; there are {', '.join(arm.info.arm for arm in found.comparison.arms)}")
    return arms
