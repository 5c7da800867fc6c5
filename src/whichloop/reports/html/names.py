"""Short names of arms, for charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whichloop.metrics.arm_info import ArmInfo
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
    differing = {name: value for name, value in info.options.items() if any(_differs(name, value, other) for other in others)}
    return whole.replace(f"({options})", f"({_options_text(differing) or '…'})", 1)


def _differs(name: str, value: object, other: Mapping[str, object]) -> bool:
    return name not in other or other[name] != value


def _options_text(options: Mapping[str, object]) -> str:
    """Return options as an arm's name writes them."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in sorted(options.items()))
