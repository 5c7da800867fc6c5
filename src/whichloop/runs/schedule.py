"""The schedule: arms × tasks × repeats; and what has changed since a run began."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whichloop.datasets.task import Suite, Task
from whichloop.models.profiles import FORMS, OUTSIDE, Profile, load_profile
from whichloop.protocol import ForeignLoop, Loop, render_value
from whichloop.protocol.json_text import derived_seed
from whichloop.protocol.names import SCRIPTED, Spec, parse_spec
from whichloop.protocol.redact import redact

from .config import CompareConfig
from .manifest import VERSION_NAMES, ArmEntry, Manifest
from .registry import make_loop
from .run_state import Retry, RunState

MAX_TOLD = 3

VENV = "venv"
"""The option of a foreign loop that only says where its environment is."""
_PARTS_OF_ARMS = (
    *("version", "packages", "environment", "code", "files", "configuration", "program"),
    *("options", "model", "profile", "met", "loop"),
)


def manifest_changes(then: Manifest, now: Manifest) -> list[str]:
    """Return what two manifests differ in that decides what trials give, a label each; empty if nothing does."""
    found = suite_changes(then, now)
    for name in sorted(then.weights.keys() & now.weights.keys()):  # weights that are not there now are told where they are opened
        before, after = then.weights[name], now.weights[name]
        found += [f"the weights of model {name} ({before.file}, now {after.file})"] if before.sha256 != after.sha256 else []
    profiles = sorted({*then.profiles, *now.profiles})
    found += [f"fault profile {name}" for name in profiles if then.profiles.get(name) != now.profiles.get(name)]
    found += _arm_changes({arm.arm: arm for arm in then.arms}, {arm.arm: arm for arm in now.arms})
    parts = ("versions", "suite", "profiles", "arms")
    return found or [part for part in parts if getattr(then, part) != getattr(now, part)]  # such as their order


def suite_changes(then: Manifest, now: Manifest) -> list[str]:
    """Return the changes in what all arms share: versions and suite."""
    was, is_now, found = then.suite, now.suite, list[str]()
    for name in sorted({*then.versions, *now.versions}):
        before, after = then.versions.get(name), now.versions.get(name)
        found += [f"{VERSION_NAMES.get(name, name)} (version {before}, now {after})"] if before != after else []
    servers = [
        ("none", "", "") if s is None else (s.name or "unnamed", s.version, s.tools) for s in (was.tool_server, is_now.tool_server)
    ]
    pairs = (
        ("the suite", f"{was.name} {was.version}", f"{is_now.name} {is_now.version}"),
        ("the number of tasks", was.tasks, is_now.tasks),
        ("the step limit", was.max_tool_steps, is_now.max_tool_steps),
        ("the server of the tools", *(" ".join(server[:2]).strip() for server in servers)),
    )
    found += [f"{label} ({before}, now {after})" for label, before, after in pairs if before != after]
    labels = {
        f"suite {is_now.name} (its tasks, tools or expected answers)": was.digest != is_now.digest,
        f"the list of tools of the server {servers[1][0]}": servers[0][2] != servers[1][2],
        f"the code of your own that suite {is_now.name} is made of or scored by": was.code != is_now.code,
    }
    return [*found, *(label for label, changed in labels.items() if changed)]


def _arm_changes(was: Mapping[str, ArmEntry], now: Mapping[str, ArmEntry]) -> Iterator[str]:
    upgraded = {old: new for old, new in upgrades(was, now).items() if new is not None and old not in now}
    for old, new in upgraded.items():
        yield f"arm {old} (its version, now {now[new].version or 'unknown'})"
    for name, arm in now.items():
        if name not in was and name not in upgraded.values():
            yield f"arm {name} (there was none)"
        elif name in was and was[name] != arm:
            parts = [part for part in _PARTS_OF_ARMS if getattr(arm, part) != getattr(was[name], part)]
            if "code" in parts and "files" in parts:
                parts.remove("files")  # of which the code is one
            yield f"arm {name} (its {' and '.join(parts) or 'entry'})"
    yield from (f"arm {name} (there is none now)" for name in was if name not in now and name not in upgraded)


def arms_changed(then: Manifest, now: Manifest) -> bool:
    """Say whether an arm, a fault profile or a version is not what it was: all that decides trials, the suite aside."""
    return (then.arms, then.versions, then.profiles) != (now.arms, now.versions, now.profiles)


def summary(differences: Sequence[str]) -> str:
    """Return changes in one line."""
    rest = f" and {len(differences) - MAX_TOLD} more" if len(differences) > MAX_TOLD else ""
    return f"{', '.join(differences[:MAX_TOLD])}{rest}"


def upgrades(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str | None]:
    """Return arm → the only arm of the other side that differs from it in nothing but version and environment; None without one."""

    def differing_in_version(arm: Any, arms: Mapping[str, Any]) -> list[str]:
        return [name for name, other in arms.items() if other.version and _identity(other) == _identity(arm)]

    counterparts: dict[str, str | None] = {}
    for name, arm in was.items():
        found = differing_in_version(arm, now) if arm.version else []
        counterparts[name] = found[0] if len(found) == 1 and differing_in_version(now[found[0]], was) == [name] else None
    return counterparts


def _identity(arm: Any) -> tuple[Any, ...]:
    return (arm.loop, {name: value for name, value in arm.options.items() if name != VENV}, arm.model, arm.profile)


@dataclass(frozen=True, slots=True)
class Arm:
    """One column of a comparison."""

    name: str
    """`loop/profile`, or for a real model `loop/model`, with `/profile` where faults strike; unique in the run. A program's file
    appears without its folder.

    A foreign loop's version follows its name, `langchain@1.4.7/clean`.
    """
    spec: Spec
    loop: Loop
    model: str
    profile: Profile

    @property
    def profile_met(self) -> Profile:
        """The profile that the loop meets: where the arm's has one for each form of calls, that of the loop's own form."""
        return self.profile.met_by(form_of(self.loop)) if self.profile.by_form else self.profile

    @property
    def is_scripted(self) -> bool:
        return self.model == SCRIPTED


@dataclass(frozen=True, slots=True)
class Trial:
    """One cell of the schedule."""

    arm: Arm
    task: Task
    repeat: int
    run_seed: int
    attempt: int = 0
    """Number of earlier attempts that were errored."""

    @property
    def seed(self) -> int:
        """Return the trial's own seed, the same for every arm, so that trials pair up."""
        return derived_seed(self.run_seed, self.task.id, self.repeat)

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.arm.name, self.task.id, self.repeat)

    @property
    def draws(self) -> tuple[object, ...]:
        """What the trial's draws start from: nothing of its arm, so that the same stumble meets every loop."""
        return (self.run_seed, self.task.id, self.repeat)


def make_arms(config: CompareConfig, suite: Suite) -> tuple[Arm, ...]:
    """Return loops × models × profiles, each loop under its limit of steps. Raises ValueError for a bad name or option."""
    arms = []
    for profile in [load_profile(name) for name in config.profiles]:
        for model in config.models:
            for text in config.loops:
                spec = parse_spec(text)
                _check_for_secrets(spec)
                loop = make_loop(spec, config.max_tool_steps, suite.max_tool_steps)
                if model == SCRIPTED:
                    _check_form(profile, spec, loop)
                elif (profile.kinds or profile.by_form) and OUTSIDE.isdisjoint(profile.kinds):
                    raise ValueError(f"profile {profile.name} has no fault of tools or providers: {model} makes its own mistakes")
                places = [profile.name] if model == SCRIPTED else [model, *([profile.name] if profile.kinds else [])]
                name = "/".join([_label(spec, loop), *places])
                arms.append(Arm(name, spec, loop, model, profile))
    names = [arm.name for arm in arms]
    if len(set(names)) != len(names):
        hint = "; give one of them a name of its own, label=…" if any(hasattr(arm.loop, "label") for arm in arms) else ""
        raise ValueError(f"two arms are both called {next(n for n in names if names.count(n) > 1)!r}{hint}")
    return tuple(arms)


def form_of(loop: Loop) -> str:
    """Return how a loop has calls written: `native` or `text`; empty where that is mixed, or not known."""
    form = getattr(loop, "calls_in", "")
    return form if form in FORMS else ""


def _check_form(profile: Profile, spec: Spec, loop: Loop) -> None:
    if profile.by_form and not form_of(loop):
        native, text = (profile.met_by(form).name for form in FORMS)
        raise ValueError(
            f"profile {profile.name} is {native} for native calls and {text} for calls in text; loop {spec.name} mixes them, "
            f"or does not say which it has (calls_in): run it under {native} or {text}"
        )


def _label(spec: Spec, loop: Loop) -> str:
    """Return a loop as its arm is named. Raises ValueError for a foreign loop that is not installed."""
    if not isinstance(loop, ForeignLoop):
        return spec.label
    options = {name: Path(value).name if name == VENV else value for name, value in spec.options.items()}
    command = options.pop("command", "")
    title = options.pop("label", "") or command or spec.name
    return Spec(f"{title}@{loop.version}" if loop.version else title, options, spec.program).label


def _check_for_secrets(spec: Spec) -> None:
    """Raise ValueError, without repeating the value, if an option holds a secret: an arm's name would show it everywhere."""
    for name, value in spec.options.items():
        text = render_value(value)
        if redact(text) != text:
            raise ValueError(
                f"loop {spec.name}: option {name} holds what looks like a secret, or the value of one in the environment"
            )


def schedule(arms: Sequence[Arm], tasks: Sequence[Task], repeats: int, seed: int) -> Iterator[Trial]:
    """Yield all trials; arms change fastest, so that an interrupted run can still be compared."""
    for repeat in range(repeats):
        for task in tasks:
            for arm in arms:
                yield Trial(arm, task, repeat, seed)


@dataclass(frozen=True, slots=True)
class PendingTrials:
    """The trials of a schedule that remain to be run, each made when its turn comes."""

    cells: Callable[[], Iterator[Trial]]
    scheduled: int
    past: RunState
    retry: Retry | None

    def __iter__(self) -> Iterator[Trial]:
        for trial in self.cells():
            attempt = self.past.next_attempt(trial.key, self.retry)
            if attempt is not None:
                yield replace(trial, attempt=attempt) if attempt else trial

    def __len__(self) -> int:
        return self.scheduled - len(self.past.ended) + self.again

    @property
    def again(self) -> int:
        """Return the number of missing trials that have a record."""
        return sum(self.past.next_attempt(key, self.retry) is not None for key in self.past.ended)

    @property
    def favoured(self) -> int:
        """Return the number of missing trials that are scored already."""
        past = self.past
        return sum(past.is_favoured(key) and past.next_attempt(key, self.retry) is not None for key in past.ended)
