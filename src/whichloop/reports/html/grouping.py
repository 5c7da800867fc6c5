"""Put arms, effects and counts in order, by group, by key, by frequency; and their names on the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.comparison import ArmResult
from whichloop.protocol.names import value_text
from whichloop.text.numbers import short_name

MAX_CHARS = 24
"""Longer names leave out the options that all arms of the same loop share."""


def group_name(info: ArmInfo) -> str:
    """Return the name of the group in which an arm is compared: its suite and profile."""
    return f"{info.suite}, {info.profile}"


def chart_names(arms: Sequence[ArmInfo]) -> dict[str, str]:
    """Return each arm's name on a chart: without the profile, and if still long, only with the options in which it differs."""
    names = {info.arm: _name(info, arms) for info in arms}
    wholes = {info.arm: short_name(info) for info in arms}
    shared = {name for name in names.values() if len({wholes[arm] for arm in names if names[arm] == name}) > 1}
    return {arm: wholes[arm] if name in shared else name for arm, name in names.items()}


def _name(info: ArmInfo, arms: Sequence[ArmInfo]) -> str:
    whole, options = short_name(info), _options_text(info.options)
    if len(whole) <= MAX_CHARS or not options:
        return whole
    others = [other.options for other in arms if other.loop == info.loop]
    differing = {
        name: value for name, value in info.options.items() if any(name not in other or other[name] != value for other in others)
    }
    return whole.replace(f"({options})", f"({_options_text(differing) or '…'})", 1)


def _options_text(options: Mapping[str, object]) -> str:
    """Return options as an arm's name writes them."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in sorted(options.items()))


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
