"""The schedule: arms × tasks × repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from whichloop.datasets.task import Suite, Task
from whichloop.models.profiles import FORMS, Profile, load_profile
from whichloop.protocol import ForeignLoop, Loop, render_value
from whichloop.protocol.digest import derived_seed
from whichloop.protocol.names import SCRIPTED, Spec, parse_spec
from whichloop.protocol.redact import redact
from whichloop.runs.changes import VENV
from whichloop.runs.config import CompareConfig
from whichloop.runs.run_state import Retry, RunState

from .registry import make_loop


@dataclass(frozen=True, slots=True)
class Arm:
    """One column of a comparison."""

    name: str
    """`loop/profile`, or `loop/model` for a real model; unique within the run. A program's file appears without its folder.

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


def make_arms(config: CompareConfig, suite: Suite) -> tuple[Arm, ...]:
    """Return loops × models × profiles, each loop under the suite's step limit. Raises ValueError for a bad name or option."""
    limit = config.max_tool_steps or suite.max_tool_steps
    arms = []
    for profile in [load_profile(name) for name in config.profiles]:
        for model in config.models:
            for text in config.loops:
                spec = parse_spec(text)
                _check_for_secrets(spec)
                loop = make_loop(spec, limit)
                _check_form(profile, spec, loop)
                name = f"{_label(spec, loop)}/{profile.name if model == SCRIPTED else model}"
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
    """Raise ValueError for a loop that does not say which form of a profile it meets."""
    if profile.by_form and not form_of(loop):
        native, text = (profile.met_by(form).name for form in FORMS)
        raise ValueError(
            f"profile {profile.name} is {native} for loops with native calls and {text} for those with calls in text, and loop "
            f"{spec.name} does not say which it has: run it under one of the two, or give a loop of yours the attribute calls_in, "
            "'native' or 'text'"
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
    """The whole schedule."""
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
