"""Running a baseline's configuration again: what its file decides, and what only the user decides."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whichloop.experiments.compare.prepare import Experiment, prepare
from whichloop.metrics.arm_info import IMPORTED
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions, allowed_config
from whichloop.runs.registry import loops_named, programs_named
from whichloop.runs.store.files import RunError

from .comparable import Incomparable, refuse_other
from .data.baseline import Baseline
from .data.damaged import missing_files_told
from .running import with_stall_limit
from .watched_lines import with_lines_watched


@dataclass(frozen=True, slots=True)
class RerunSettings:
    """The settings for running the baseline's configuration again."""

    loops: Sequence[str] = ()
    """Loops as `--loop` takes them, which replace the baseline's; naming a loop here allows its code."""
    seed: int | None = None
    """A seed other than the baseline's, which gives fresh faults; trials are then no longer paired."""
    repeats: int | None = None
    allowed: Permissions = NO_PERMISSIONS
    """The user code, server and recording that the baseline names; server and recording may differ by now."""
    trial_timeout_s: float | None = None
    """Time limit for one trial, in seconds; None: the baseline's, or less where its trials were quick, see `with_stall_limit`."""
    runs: Path = Path("runs")
    common: bool = False
    """Where the suite has changed, the tasks that are the same in both are to be judged: they get the baseline's step limit."""


def prepare_again(baseline: Baseline, path: Path, settings: RerunSettings) -> Experiment:
    """Make the run directory of a new run.

    Raises RunError for code, a server or a recording that the baseline names and the user did not type, Incomparable if suite or
    profiles have changed or an arm is missing, ValueError for bad input, and OSError; then there is no directory.
    """
    config = config_again(baseline, path, settings)
    with missing_files_told(baseline.config, f"the configuration of the baseline {path}"):
        experiment = prepare(config, is_compared=False)
    refuse_before_it_runs(experiment, path, baseline, common=settings.common)
    experiment = with_lines_watched(experiment, baseline)
    return experiment if settings.trial_timeout_s is not None else with_stall_limit(experiment, baseline)


def refuse_before_it_runs(experiment: Experiment, path: Path, baseline: Baseline, *, common: bool) -> None:
    """Raise Incomparable, and remove the run's directory, where a run that is ready to start could not be judged; `path`: the
    baseline's file, which the user knows."""
    try:
        refuse_other(path, experiment.manifest, baseline, common=common)
    except Incomparable:
        shutil.rmtree(experiment.folder)
        raise


def config_again(baseline: Baseline, path: Path, settings: RerunSettings) -> CompareConfig:
    """Return the baseline's configuration with the requested changes. A recording is replayed; its model gets no request."""
    if IMPORTED in baseline.profiles:
        raise RunError(f"{path}: blessed from another tool's files, so there is nothing to run; import new ones, and name that run")
    if "loops" not in baseline.config:
        raise ValueError(f"{path}: its run was not made here, so it cannot be run again; name a run to judge")
    permissions = settings.allowed
    options: dict[str, Any] = {
        "loops": tuple(settings.loops),
        "seed": settings.seed,
        "repeats": settings.repeats,
        "trial_timeout_s": settings.trial_timeout_s,
        "base_url": permissions.base_url,
        "cassette": None if permissions.cassette is None else str(permissions.cassette),
        "runs": str(settings.runs),
        "max_tool_steps": baseline.suite.max_tool_steps if settings.common else None,
    }
    changes = {name: value for name, value in options.items() if value not in (None, ())}
    fixed = {"mlflow": False, "tracking_uri": None, "looks": None, "cassette_mode": _mode(baseline.config.get("cassette_mode"))}
    config = config_from({**baseline.config, **fixed, **changes}, str(path), typed=changes)
    typed = [parse_spec(text) for text in settings.loops]
    code = [*permissions.code, *(name for spec in typed for name in (*loops_named(spec), *programs_named(spec)))]
    return allowed_config(path, config, replace(permissions, code=code))


def _mode(recorded: Any) -> Any:
    """Return `replay` for a mode that made the recording, which exists by now."""
    return "replay" if recorded in ("record", "refresh") else recorded
