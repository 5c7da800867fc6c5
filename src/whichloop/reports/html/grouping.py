"""Put arms, effects and counts in order: by group, by key, by frequency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol, TypeVar

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import ArmResult

from .names import group_name

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Kind = TypeVar("Kind", bound=str)


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their key, both in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def arms_by_group(arms: Sequence[ArmResult]) -> dict[str, list[ArmResult]]:
    """Return arms by suite and profile, in their order."""
    return group_by(arms, lambda arm: group_name(arm.info))


class OfArm(Protocol):
    """What is known of an arm, by its name."""

    @property
    def arm(self) -> str: ...


Known = TypeVar("Known", bound=OfArm)


def in_order(entries: Iterable[Known], arms: Sequence[ArmInfo]) -> list[Known]:
    """Return what is known of arms in the order of the arms."""
    place = {info.arm: number for number, info in enumerate(arms)}
    return sorted(entries, key=lambda one: place[one.arm])


def by_frequency(counts: Counter[Kind]) -> list[Kind]:
    """Return the kinds that were counted, the most frequent first, equally frequent ones by name."""
    return sorted(counts, key=lambda kind: (-counts[kind], kind))
