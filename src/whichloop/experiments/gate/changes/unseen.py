"""How a run's loops differ from the blessed ones, and which faults never struck, of which a gate that passes says nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from whichloop.experiments.gate.data.baseline import Baseline, BaselineArm
from whichloop.experiments.gate.data.line_digests import defaults_of
from whichloop.experiments.gate.data.outcome import PASSES, GateArm
from whichloop.experiments.gate.data.sides import Sides
from whichloop.metrics.gate import GateLine
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trajectory.trajectory import shortened
from whichloop.protocol.names import SCRIPTED, Spec, parse_spec, value_text
from whichloop.runs.built_in import builtin_names, options_of
from whichloop.runs.manifest import ArmEntry, Manifest
from whichloop.runs.registry import find
from whichloop.runs.schedule import VENV
from whichloop.text.numbers import listed_names

from .changed_code import code_change, other_loop_files

MAX_VALUE = 40
"""Characters of an option's value that a sentence shows."""
FAMILIES: Mapping[str, tuple[str, str]] = {
    "wire": ("no reply was made unreadable", "flaky-format"),
    "decision": ("no call was made wrongly", "flaky-tools"),
    "tool": ("no tool failed", "flaky-tools"),
    "provider": ("no provider failed", "provider-trouble"),
}
"""Family of faults → what is true of a run that it never struck, and the built-in profile under which it strikes."""


def unseen(sides: Sequence[Sides], before: Mapping[str, BaselineArm], now: Iterable[ArmEntry]) -> tuple[tuple[str, str], ...]:
    """Return which faults no changed loop met, each with a profile that has them; nothing where none changed.

    `before`: the baseline's arms by their names; `now`: the run's arms. Faults are known of the scripted model alone.
    """
    entries = {arm.arm: arm for arm in now}
    changed = [side for side in sides if is_changed(before[side.baseline_arm], entries[side.arm])]
    scripted = [side for side in changed if entries[side.arm].model == SCRIPTED]
    struck = {fault.family for side in scripted for record in side.records for fault in record.faults if fault.landed}
    return tuple(fault_and_profile for family, fault_and_profile in FAMILIES.items() if family not in struck) if scripted else ()


def loop_differences(sides: Sequence[Sides], before: Mapping[str, BaselineArm], now: Iterable[ArmEntry]) -> Iterator[str]:
    """Yield how these arms' loops and their options differ from the blessed ones, each difference once."""
    entries = {arm.arm: arm for arm in now}
    sentences = (_difference(before[side.baseline_arm], entries[side.arm]) for side in sides)
    yield from dict.fromkeys(sentence for sentence in sentences if sentence is not None)


def changed_files(sides: Sequence[Sides], before: Mapping[str, BaselineArm], now: Iterable[ArmEntry]) -> tuple[str, ...]:
    """Return the files of the loops, what these import included, that changed since the baseline, sorted."""
    entries = {arm.arm: arm for arm in now}
    return tuple(sorted({name for side in sides for name in other_loop_files(before[side.baseline_arm], entries[side.arm])}))


def changed_files_sentence(files: Sequence[str]) -> Iterator[str]:
    """Yield a sentence that names these files; nothing where there are none."""
    if files:
        yield f"Changed since the baseline, of the files that the loop is made of: {listed_names(list(files))}."


def is_changed(before: BaselineArm, now: ArmEntry) -> bool:
    """Whether the loop, its options, its version or its code are others; a baseline without a digest of the code tells less."""
    other_code = bool(before.code) and (before.code != now.code or bool(other_loop_files(before, now)))
    return (before.loop, before.options, before.version) != (now.loop, now.options, now.version) or other_code


def _difference(before: BaselineArm, now: ArmEntry) -> str | None:
    """Return which options of the same loop differ, and which defaults of an own one; None where none does."""
    if before.loop != now.loop:
        return f"The loop is {now.loop}, where the baseline's is {before.loop}."
    names = sorted((before.options.keys() | now.options.keys()) - {VENV})
    other = [
        name for name in names if (name in before.options, before.options.get(name)) != (name in now.options, now.options.get(name))
    ]
    each = [f"{name} is {_value(now, name)} now, {_value(before, name)} in the baseline" for name in other]
    each += _other_defaults(before.defaults, defaults_of(now))
    return f"{now.loop}: {'; '.join(each)}." if each else None


def _other_defaults(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return which fields have another default on either side; nothing where the baseline has none, as an older one."""
    return [
        f"{name} is {now[name]} by default now, {before[name]} in the baseline"
        for name in before
        if name in now and before[name] != now[name]
    ]


def _value(arm: BaselineArm | ArmEntry, name: str) -> str:
    if name in arm.options:
        return shortened(value_text(arm.options[name]), MAX_VALUE)
    if name in arm.own_limits:
        return f"the comparison's own limit (the default is {arm.own_limits[name]})"
    if (default := (arm.defaults if isinstance(arm, BaselineArm) else defaults_of(arm)).get(name)) is not None:
        return f"{default} by default"
    option = options_of(find("loop", arm.loop)).get(name) if arm.loop in builtin_names("loop") else None
    return "its default" if option is None else f"{shortened(value_text(option.default), MAX_VALUE)} by default"


def only_the_seed_differs(sides: Iterable[Sides], baseline: Baseline, manifest: Manifest) -> bool:
    """Whether code, options and the scripted model are the blessed ones, and the seed alone, which draws the faults, is not."""
    if manifest.seed == baseline.seed or manifest.settings.repeats != baseline.repeats or code_change(manifest, baseline):
        return False
    entries = {arm.arm: arm for arm in manifest.arms}
    pairs = [(baseline.arms[side.baseline_arm], entries[side.arm]) for side in sides]
    return all(
        was.code and not is_changed(was, now) and was.model == now.model == SCRIPTED and was.met == now.met for was, now in pairs
    )


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
