"""The schedule: arms × tasks × repeats; what of it has ended, and what that has cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np

from whichloop.datasets.task import Suite, Task
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import Floats
from whichloop.models.profiles import FORMS, OUTSIDE, Profile, load_profile
from whichloop.protocol import ForeignLoop, Loop, render_value
from whichloop.protocol.json_text import derived_seed
from whichloop.protocol.names import SCRIPTED, Spec, parse_spec
from whichloop.protocol.redact import redact

from .config import CompareConfig
from .manifest import VENV, Spent
from .registry import make_loop
from .store.trials import count_rows, each_record

MAX_ATTEMPTS = 3
"""Attempts at a trial that infrastructure made fail, over all sessions, unless the user asks for more."""

Key = tuple[str, str, int]
"""Arm, task, repeat."""
Retry = Literal["infrastructure", "errors"]
"""Trials to run again on request: `infrastructure` means every errored trial, `errors` also those in `FAVOURED`."""

FAVOURED = frozenset({"crashed", "timeout"})
"""Stops that whichloop sets when a loop broke, which scores 0. Running such trials again favours loops that break now and then."""


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


class TrialState(NamedTuple):
    """How the last attempt at a trial ended: a few bytes, where a run may have millions of trials."""

    status: str
    stop: str | None
    attempt: int

    @classmethod
    def of(cls, record: Record) -> Self:
        return cls(record.status, record.stop, record.attempt)


@dataclass(frozen=True, slots=True)
class RunState:
    """A run's trials that have ended, and what all their attempts cost."""

    ended: Mapping[Key, TrialState] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    rows: int = 0

    def again(self, retry: Retry | None) -> dict[Key, int]:
        """Return which attempt, from 1, those trials are to have now that have a record and whose result does not stand."""
        attempts = {}
        for key, last in self.ended.items():
            if last.status == "errored":
                is_due = retry is not None or last.attempt + 1 < MAX_ATTEMPTS
            else:
                is_due = retry == "errors" and last.status == "scored" and last.stop in FAVOURED
            if is_due:
                attempts[key] = last.attempt + 1
        return attempts


def read_state(folder: Path, earlier: RunState | None = None) -> RunState:
    """Read the state of a run; return `earlier` if nothing was written since. Raises RunError."""
    rows = count_rows(folder)
    if earlier is not None and earlier.rows == rows:
        return earlier
    ended = dict[Key, TrialState]()
    costs, begins, ends = [(0, 0, 0.0)], list[float](), list[float]()
    for record in each_record(folder):
        before = ended.get(record.key)
        if before is None or before.attempt != record.attempt:  # else a row that only judges the same attempt again
            costs.append(cost_of(record))
            begins.append(record.started_at)
            ends.append(record.started_at + record.wall_s)
        ended[record.key] = TrialState.of(record)
    calls, tokens, dollars = map(sum, zip(*costs, strict=True))
    return RunState(ended, Spent(calls, tokens, dollars, covered_s(np.array(begins), np.array(ends))), rows)


def cost_of(record: Record) -> tuple[int, int, float]:
    """Return the calls, the tokens and the dollars of a trial, those of a model that plays the user included."""
    dollars = (record.cost_usd or 0.0) + (record.user_cost_usd or 0.0)
    return record.lm_calls + record.user_counts.get("calls", 0), record.tokens + (record.user_tokens or 0), dollars


def covered_s(starts: Floats, ends: Floats) -> float:
    """Return the length of the union of all trials' times."""
    order = np.lexsort((ends, starts))
    starts, ends = starts[order], ends[order]
    until = np.maximum.accumulate(np.concatenate(([0.0], ends)))[:-1]
    return math.fsum(np.maximum(0.0, ends - np.maximum(starts, until)).tolist())


@dataclass(frozen=True, slots=True)
class PendingTrials:
    """The trials of a schedule that remain to be run, each made when its turn comes."""

    cells: Callable[[], Iterator[Trial]]
    scheduled: int
    past: RunState
    retry: Retry | None

    def __iter__(self) -> Iterator[Trial]:
        again = self.past.again(self.retry)
        for trial in self.cells():
            if trial.key not in self.past.ended:
                yield trial
            elif trial.key in again:
                yield replace(trial, attempt=again[trial.key])

    def __len__(self) -> int:
        return self.scheduled - len(self.past.ended) + self.again

    @property
    def again(self) -> int:
        """Return the number of missing trials that have a record."""
        return len(self.past.again(self.retry))

    @property
    def favoured(self) -> int:
        """Return the number of missing trials that are scored already, and can only gain."""
        return sum(self.past.ended[key].status == "scored" for key in self.past.again(self.retry))
