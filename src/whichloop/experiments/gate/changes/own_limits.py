"""A loop's own default limit, which a comparison replaces by one of its own: no trial shows what a change of it does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import PRIMARY
from whichloop.protocol.names import Spec, parse_spec
from whichloop.runs.manifest import ArmEntry, Manifest

from ..data.baseline import BaselineArm
from ..data.outcome import PASSES, GateArm


def held_open(arms: Sequence[GateArm], before: Mapping[str, BaselineArm], now: Iterable[ArmEntry]) -> tuple[GateArm, ...]:
    """Return the arms, undecided where they would pass and a default limit is another than in the baseline.

    `before`: the baseline's arms by their names; `now`: the run's arms.
    """
    entries = {arm.arm: arm for arm in now}
    return tuple(_held(arm, other_limits(before[arm.baseline_arm], entries[arm.arm])) for arm in arms)


def tested_lines(arms: Iterable[GateArm]) -> list[GateLine]:
    """Return the lines that more tasks may decide: none of them tests a default limit."""
    return [line for arm in arms if not arm.limit_alone for line in arm.lines]


def _held(arm: GateArm, limits: tuple[tuple[str, str], ...]) -> GateArm:
    alone = bool(limits) and any(line.metric == PRIMARY and line.outcome in PASSES for line in arm.lines)
    lines = [replace(line, outcome="undecided") if alone and line.metric == PRIMARY else line for line in arm.lines]
    return replace(arm, lines=tuple(lines), limits=limits, limit_alone=alone)


def other_limits(before: BaselineArm, now: ArmEntry) -> tuple[tuple[str, str], ...]:
    """Return what is to be said of each limit whose default is another, and how to test it; nothing of one unknown to a side."""
    limits = sorted(before.own_limits.keys() & now.own_limits.keys())
    return tuple(
        (
            f"its default {name} is {now.own_limits[name]}, was {before.own_limits[name]}, and no trial tests it, since a "
            "comparison sets its own limit",
            f"gate it as {Spec(now.loop, {**now.options, name: now.own_limits[name]})}",
        )
        for name in limits
        if before.own_limits[name] != now.own_limits[name]
    )


def lower_defaults(manifest: Manifest) -> list[str]:
    """Return, a sentence for each loop, that its own default limit is below the one that the comparison gave it, so that a product
    which leaves the default as it is may do worse than these trials."""
    sentences = [
        f"{entry.loop}: its default {name} is {default}, and the comparison gave it {limit}, so no trial shows how it does with "
        f"{default}; to judge that, compare and bless {Spec(entry.loop, {**entry.options, name: default})}"
        for entry in manifest.arms
        for name, default in entry.own_limits.items()
        if (limit := _given(entry, name, manifest.suite.max_tool_steps)) is not None and default < limit
    ]
    return list(dict.fromkeys(sentences))


def _given(entry: ArmEntry, name: str, tool_steps: int | None) -> int | None:
    """Return what the comparison set a limit to, which a design may count otherwise than the comparison's steps with tools; these,
    where the manifest does not tell it."""
    try:
        value = parse_spec(entry.configuration).options.get(name)
    except ValueError:
        return tool_steps
    return value if isinstance(value, int) else tool_steps


def other_loops(manifest: Manifest, arms: Collection[str]) -> list[str]:
    """Return the run's loops as they are typed, those of these arms with their own default limits as options."""
    limited = [entry for entry in manifest.arms if entry.arm in arms]
    if not limited:
        return []
    return list(dict.fromkeys(_with_limits(text, limited) for text in manifest.settings.loops))


def old_and_new(manifest: Manifest, limited: Mapping[str, BaselineArm]) -> list[str]:
    """Return the loops whose default limit is another, as they are typed with their old default limits, and then with the new ones.

    `limited`: such an arm of the run → its arm of the baseline.
    """
    entries = [entry for entry in manifest.arms if entry.arm in limited]
    loops = [
        str(Spec(entry.loop, {**entry.options, **limits}))
        for entry in entries
        for limits in (limited[entry.arm].own_limits, entry.own_limits)
    ]
    return list(dict.fromkeys(loops))


def _with_limits(text: str, limited: Iterable[ArmEntry]) -> str:
    spec = parse_spec(text)
    for entry in limited:
        if (spec.name, dict(spec.options)) == (entry.loop, dict(entry.options)):
            return str(replace(spec, options={**spec.options, **entry.own_limits}))
    return text
