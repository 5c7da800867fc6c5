"""How a run's loops differ from the blessed ones, and which faults never struck, of which a gate that passes says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopbench.protocol.names import value_text
from loopbench.runs.changes import VENV
from loopbench.runs.manifest import ArmEntry
from loopbench.text.counts import listed

from .baseline import BaselineArm
from .sides import Sides

FAMILIES: Mapping[str, tuple[str, str]] = {
    "wire": ("no reply was made unreadable", "flaky-format"),
    "decision": ("no call was made wrongly", "flaky-tools"),
    "tool": ("no tool failed", "flaky-tools"),
    "provider": ("no provider failed", "provider-trouble"),
}
"""Family of faults → what is true of a run that it never struck, and the built-in profile under which it strikes."""


def unseen(sides: Sequence[Sides], before: Mapping[str, BaselineArm], now: Iterable[ArmEntry]) -> Iterator[str]:
    """Yield which faults no changed loop met; nothing where none changed.

    `before`: the baseline's arms by their names; `now`: the run's arms. Faults are known of the scripted model alone.
    """
    entries = {arm.arm: arm for arm in now}
    changed = [side for side in sides if _is_changed(before[side.baseline_arm], entries[side.arm])]
    scripted = [side for side in changed if entries[side.arm].model == "scripted"]
    struck = {fault.family for side in scripted for record in side.records for fault in record.faults if fault.landed}
    missing = [found for family, found in FAMILIES.items() if family not in struck]
    if scripted and missing:
        profiles = dict.fromkeys(f"--profile {profile}" for _, profile in missing)
        yield (
            f"In this run {listed([what for what, _ in missing])}, so the gate says nothing of what the changed loop does then; "
            f"a baseline that is blessed with {listed(list(profiles))}, too, would."
        )


def loop_differences(sides: Sequence[Sides], before: Mapping[str, BaselineArm], now: Iterable[ArmEntry]) -> Iterator[str]:
    """Yield how these arms' loops and their options differ from the blessed ones, each difference once."""
    entries = {arm.arm: arm for arm in now}
    found = (_difference(before[side.baseline_arm], entries[side.arm]) for side in sides)
    yield from dict.fromkeys(said for said in found if said is not None)


def _is_changed(before: BaselineArm, now: ArmEntry) -> bool:
    """Whether the loop, its options, its version or its code are others; a baseline without a digest of the code tells less."""
    other_code = bool(before.code) and before.code != now.code
    return (before.loop, before.options, before.version) != (now.loop, now.options, now.version) or other_code


def _difference(before: BaselineArm, now: ArmEntry) -> str | None:
    """Return which options of the same loop differ; None where none does."""
    if before.loop != now.loop:
        return f"The loop is {now.loop}, where the baseline's is {before.loop}."
    names = sorted((before.options.keys() | now.options.keys()) - {VENV})
    other = [name for name in names if _value(before.options, name) != _value(now.options, name)]
    if not other:
        return None
    each = [f"{name} ({_value(now.options, name)} now, {_value(before.options, name)} in the baseline)" for name in other]
    return f"{now.loop} differs from the blessed one in {listed(each)}."


def _value(options: Mapping[str, Any], name: str) -> str:
    return value_text(options[name]) if name in options else "its default"
