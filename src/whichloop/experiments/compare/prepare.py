"""Preparing a run from a configuration: everything is looked up, the run directory is created."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whichloop._extras import is_installed, missing
from whichloop.checks import suite as checks
from whichloop.datasets.task import Suite, Task
from whichloop.metrics.caveats import listed_names
from whichloop.models.profiles import load_profile
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import BudgetConfig, CompareConfig, typed_words
from whichloop.runs.engine.job import SeenLines
from whichloop.runs.folders import new_folder
from whichloop.runs.lookup import check_answers, check_calls, check_plans, check_tasks, check_user, resolve
from whichloop.runs.manifest import Manifest, write_manifest
from whichloop.runs.new_manifest import manifest_of, question_digests
from whichloop.runs.registry import make_loop
from whichloop.runs.run_state import Retry, RunState, Spent
from whichloop.runs.schedule import Arm, PendingTrials, Trial, form_of, schedule
from whichloop.runs.trial_models import TrialModels, open_models, with_scripted_price

from .measured_forms import applies

KEPT = (
    *("data", "tools", "quarantine", "skip_unplanned", "repeats", "max_tool_steps", "price", "trial_budget", "trial_timeout_s"),
    *("tool_timeout_s", "alpha", "margin", "real_time"),
)
"""Settings of the run that the new one keeps."""
UNTOLD = ("user", "split")
"""Settings with which no command is told: it would have to repeat the size of another split."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A run that is ready to start: everything is looked up, the directory is created."""

    folder: Path
    config: CompareConfig
    """The configuration of this session, which may have other workers or another budget than the manifest."""
    suite: Suite
    tasks: Sequence[Task]
    arms: tuple[Arm, ...]
    manifest: Manifest
    trial_models: TrialModels = field(default_factory=TrialModels)
    past: RunState = field(default_factory=RunState)
    """The trials of earlier sessions."""
    retry: Retry | None = None
    """The trials to run again on request."""
    lines: SeenLines | None = None
    """Collects which lines of some files the trials come to in workers; None where nobody asks."""

    @property
    def trials(self) -> int:
        """Number of trials in the whole schedule."""
        return len(self.arms) * len(self.tasks) * self.config.repeats

    @property
    def spent(self) -> Spent:
        """The known spending of earlier sessions."""
        return self.past.spent + self.manifest.cut_short

    def missing(self) -> PendingTrials:
        """Return the trials without a record, and those to run again."""
        return PendingTrials(self._schedule, self.trials, self.past, self.retry)

    def _schedule(self) -> Iterator[Trial]:
        return schedule(self.arms, self.tasks, self.config.repeats, self.config.seed)


def without_formless(config: CompareConfig) -> tuple[CompareConfig, str]:
    """Return a configuration without those of the default loops that no measured profile by form fits, and a note that says so.

    Loops that were chosen stay: such a one is an error of `prepare`.
    """
    by_form = [name for name in config.profiles if load_profile(name).by_form]
    if "loops" in config.model_fields_set or not by_form:
        return config, ""
    fits = {loop: bool(form_of(make_loop(parse_spec(loop)))) for loop in config.loops}
    left_out = [loop for loop, is_fit in fits.items() if not is_fit]
    fitting_loops = tuple(loop for loop, is_fit in fits.items() if is_fit)
    why = f"has calls in both forms, and {listed_names(by_form)} takes loops of one form each"
    return config.model_copy(
        update={"loops": fitting_loops}
    ), f"left out: {listed_names(left_out)}, which {why}" if left_out else ""


def prepare(config: CompareConfig, folder: Path | None = None, *, is_compared: bool = True) -> Experiment:
    """Look everything up and create the run directory, `folder` or a new one. `is_compared`: its arms are, and not held to others.

    Raises ValueError for bad input, without creating anything: in a run of its own, for more tasks than there are too, and where no
    profile applies to any loop.
    """
    if config.engine == "ray" and not is_installed("ray"):
        raise missing("the engine ray", "ray")
    config = with_scripted_price(config)
    suite, tasks, arms = resolve(config)
    if folder is None:
        check_tasks(config, tasks)
    check_plans(config, suite, tasks)
    check_answers(config, suite, tasks)
    check_calls(config, suite, tasks)
    check_user(config, suite, tasks)
    models = open_models(config, arms)
    parts: dict[str, Any] = {
        **question_digests(config, suite, tasks),
        "models": models.as_manifest(),
        "suite_problems": checks.quick_problems(suite, tasks),
    }
    manifest = manifest_of(config, suite, tasks, arms).model_copy(update=parts)
    infos = [arm.info(suite.name) for arm in manifest.arms]
    if folder is None and is_compared and not any(map(applies, infos)):
        raise ValueError(
            f"profiles: {listed_names(list(dict.fromkeys(info.profile for info in infos)))} apply to no loop of this run"
        )
    folder = new_folder(config.runs, suite.name) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, manifest)
    return Experiment(folder, config, suite, tasks, arms, manifest, models)


def recording_command(config: CompareConfig) -> str:
    """Return the command that records what a run's recording lacks; empty where none says all of it."""
    public, defaults = config.public(), CompareConfig().public()
    if any(public[name] != defaults[name] for name in UNTOLD):
        return ""
    listed = [(name, each) for name in ("loops", "models", "profiles") for each in public[name]]
    chosen = [(name, public[name]) for name in ("suite", "tasks", "seed", "base_url", "cassette") if public[name] is not None]
    for name, value in public["provider"].items():
        if value != defaults["provider"][name]:
            chosen += [(f"provider.{name}", each) for each in (value if isinstance(value, list) else [value])]
    words = [word for name, value in (*listed, *chosen) for word in typed_words(name, value)]
    return shlex.join(["whichloop", "compare", *words, *kept_words(public), "-s", "cassette_mode=replay-or-record"])


def _without_none(value: Any) -> Any:
    """Return a setting without the parts that are None."""
    return {name: part for name, part in value.items() if part is not None} if isinstance(value, dict) else value


def kept_words(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of those settings of a run that a new one keeps, where they are not the defaults."""
    defaults = CompareConfig().model_dump(mode="json")
    for name in KEPT:
        value = config.get(name, defaults[name])
        if _without_none(value) != _without_none(defaults[name]):
            yield from typed_words(name, BudgetConfig(**value) if isinstance(value, dict) else value)
