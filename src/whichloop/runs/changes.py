"""Say what has changed since a run began."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from whichloop.runs.manifest import ArmEntry, Manifest, SuiteEntry, ToolServerEntry

from .manifest import VERSION_NAMES

MAX_TOLD = 3
"""Maximum number of changes that a message names; it counts the rest."""

VENV = "venv"
"""The option of a foreign loop that only says where its environment is."""
_PARTS_OF_ARMS = (
    *("version", "packages", "environment", "code", "files", "configuration", "program"),
    *("options", "model", "profile", "met", "loop"),
)


def manifest_changes(then: Manifest, now: Manifest) -> list[str]:
    """Return what two manifests differ in that decides what trials give, in words; empty if nothing does."""
    differences = [
        *suite_changes(then, now),
        *_weights_changes(then, now),
        *_profile_changes(then, now),
        *_arm_changes(_arms(then), _arms(now)),
    ]
    parts = ("versions", "suite", "profiles", "arms")
    return differences or [part for part in parts if getattr(then, part) != getattr(now, part)]  # such as their order


def suite_changes(then: Manifest, now: Manifest) -> list[str]:
    """Return the changes in what all arms share: versions and suite."""
    return [*_version_changes(then, now), *_suite_changes(then.suite, now.suite)]


def arms_changed(then: Manifest, now: Manifest) -> bool:
    """Say whether an arm, a fault profile or a version is not what it was: all that decides trials, the suite aside."""
    same = len(then.arms) == len(now.arms) and all(map(_same_arm, then.arms, now.arms))
    return not same or (then.versions, then.profiles) != (now.versions, now.profiles)


def _same_arm(was: ArmEntry, now: ArmEntry) -> bool:
    """Say whether an arm is what it was, as far as a run of an older whichloop tells, which knew no files of a loop."""
    return was == (now if was.files else now.model_copy(update={"files": {}}))


def summary(differences: Sequence[str]) -> str:
    """Return changes in one line."""
    rest = f" and {len(differences) - MAX_TOLD} more" if len(differences) > MAX_TOLD else ""
    return f"{', '.join(differences[:MAX_TOLD])}{rest}"


def shell_quoted(folder: Path) -> str:
    """Return a run directory as it is typed again."""
    return shlex.quote(str(folder))


def _arms(manifest: Manifest) -> dict[str, ArmEntry]:
    return {arm.arm: arm for arm in manifest.arms}


def _version_changes(then: Manifest, now: Manifest) -> Iterator[str]:
    for name in sorted({*then.versions, *now.versions}):
        was, is_now = then.versions.get(name), now.versions.get(name)
        if was != is_now:
            yield f"{VERSION_NAMES.get(name, name)} (version {was}, now {is_now})"


def _suite_changes(was: SuiteEntry, now: SuiteEntry) -> Iterator[str]:
    if (was.name, was.version) != (now.name, now.version):
        yield f"the suite ({was.name} {was.version}, now {now.name} {now.version})"
    elif was.digest != now.digest:
        yield f"suite {now.name} (its tasks, tools or expected answers)"
    if was.tasks != now.tasks:
        yield f"the number of tasks ({was.tasks}, now {now.tasks})"
    if was.max_tool_steps != now.max_tool_steps:
        yield f"the step limit ({was.max_tool_steps}, now {now.max_tool_steps})"
    if was.tool_server != now.tool_server:
        yield _server_change(was.tool_server, now.tool_server)
    if was.code != now.code or (was.imports is not None and was.imports != now.imports):
        yield f"the code of your own that suite {now.name} is made of or scored by"


def _server_change(was: ToolServerEntry | None, now: ToolServerEntry | None) -> str:
    """Say what has changed about the server that gives the tools."""
    if was is None or now is None or was.name != now.name:
        before, after = ("none" if entry is None else entry.name or "unnamed" for entry in (was, now))
        return f"the server of the tools ({before}, now {after})"
    if was.tools != now.tools:
        return f"the list of tools of the server {now.name}"
    return f"the version of the server {now.name} ({was.version}, now {now.version})"


def _weights_changes(then: Manifest, now: Manifest) -> Iterator[str]:
    """Yield the local models that are not what they were; weights that are not there now are told where they are opened."""
    for name in sorted(then.weights.keys() & now.weights.keys()):
        if then.weights[name].sha256 != now.weights[name].sha256:
            yield f"the weights of model {name} ({then.weights[name].file}, now {now.weights[name].file})"


def _profile_changes(then: Manifest, now: Manifest) -> Iterator[str]:
    for name in sorted({*then.profiles, *now.profiles}):
        if then.profiles.get(name) != now.profiles.get(name):
            yield f"fault profile {name}"


def _arm_changes(was: Mapping[str, ArmEntry], now: Mapping[str, ArmEntry]) -> Iterator[str]:
    upgraded = {old: new for old, new in upgrades(was, now).items() if new is not None and old not in now}
    for old, new in upgraded.items():
        yield f"arm {old} (its version, now {now[new].version or 'unknown'})"
    for name, arm in now.items():
        if name in upgraded.values():
            continue
        if name not in was:
            yield f"arm {name} (there was none)"
        elif not _same_arm(was[name], arm):
            parts = [part for part in _PARTS_OF_ARMS if getattr(arm, part) != getattr(was[name], part)]
            if "code" in parts and "files" in parts:
                parts.remove("files")  # of which the code is one
            yield f"arm {name} (its {' and '.join(parts) or 'entry'})"
    for name in was:
        if name not in now and name not in upgraded:
            yield f"arm {name} (there is none now)"


class VersionedArm(Protocol):
    """What says which arms differ in nothing but the version of a foreign loop."""

    @property
    def loop(self) -> str: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def model(self) -> str: ...
    @property
    def profile(self) -> str: ...
    @property
    def version(self) -> str: ...


def upgrades(was: Mapping[str, VersionedArm], now: Mapping[str, VersionedArm]) -> dict[str, str | None]:
    """Return arm → the only arm of the other side that differs from it in nothing but version and environment; None without one."""

    def differing_in_version(arm: VersionedArm, arms: Mapping[str, VersionedArm]) -> list[str]:
        return [name for name, other in arms.items() if other.version and _identity(other) == _identity(arm)]

    counterparts: dict[str, str | None] = {}
    for name, arm in was.items():
        candidates = differing_in_version(arm, now) if arm.version else []
        counterparts[name] = (
            candidates[0] if len(candidates) == 1 and differing_in_version(now[candidates[0]], was) == [name] else None
        )
    return counterparts


def _identity(arm: VersionedArm) -> tuple[Any, ...]:
    return (arm.loop, {name: value for name, value in arm.options.items() if name != VENV}, arm.model, arm.profile)
