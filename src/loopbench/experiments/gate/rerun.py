"""Running a baseline's configuration again: what its file decides, and what only the user does."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loopbench.experiments.compare.prepare import Experiment, prepare
from loopbench.experiments.import_runs.joining import PROFILE
from loopbench.protocol.names import parse_spec
from loopbench.runs.config import CompareConfig, config_from
from loopbench.runs.permissions import NO_PERMISSIONS, Permissions, allowed_config
from loopbench.runs.registry import loops_named
from loopbench.runs.store.files import RunError

from .baseline import Baseline
from .judge import Incomparable, match_arms, missing_arms, refuse_other


@dataclass(frozen=True, slots=True)
class RerunSettings:
    """How the baseline's configuration is run again."""

    loops: Sequence[str] = ()
    """In place of the baseline's, as `--loop` takes them; whoever names a loop here allows its code."""
    seed: int | None = None
    """Another than the baseline's: fresh faults, and trials no longer pair up."""
    repeats: int | None = None
    allowed: Permissions = NO_PERMISSIONS
    """Code of the user's own, server and recording that the baseline names; server and recording may be others by now."""
    runs: Path = Path("runs")


def prepare_again(baseline: Baseline, path: Path, again: RerunSettings) -> Experiment:
    """Make the run directory of a new run.

    Raises RunError for code, a server or a recording that the baseline names and the user did not type, Incomparable if suite or
    profiles have changed or an arm is missing, ValueError for bad input, and OSError; then there is no directory.
    """
    experiment = prepare(config_again(baseline, path, again))
    try:
        refuse_other(experiment.folder, experiment.manifest, baseline)
        for lacking in missing_arms(match_arms(experiment.manifest, baseline)):
            raise Incomparable(f"{path}: {lacking}")
    except Incomparable:
        shutil.rmtree(experiment.folder)
        raise
    return experiment


def config_again(baseline: Baseline, path: Path, again: RerunSettings) -> CompareConfig:
    """The baseline's configuration, changed as was asked. Nothing is asked of a recording's model: it is replayed."""
    if PROFILE in baseline.profiles:
        raise RunError(f"{path}: blessed from another tool's files, so there is nothing to run; import new ones, and name that run")
    if "loops" not in baseline.config:
        raise ValueError(f"{path}: its run was not made here, so it cannot be run again; name a run to judge")
    allowed = again.allowed
    typed: dict[str, Any] = {
        "loops": tuple(again.loops),
        "seed": again.seed,
        "repeats": again.repeats,
        "base_url": allowed.base_url,
        "cassette": None if allowed.cassette is None else str(allowed.cassette),
        "runs": str(again.runs),
    }
    given = {name: value for name, value in typed.items() if value not in (None, ())}
    kept = {"mlflow": False, "tracking_uri": None, "looks": None, "cassette_mode": _mode(baseline.config.get("cassette_mode"))}
    config = config_from({**baseline.config, **kept, **given}, str(path), typed=given)
    code = [*allowed.code, *(name for text in again.loops for name in loops_named(parse_spec(text)))]
    return allowed_config(path, config, replace(allowed, code=code))


def _mode(recorded: Any) -> Any:
    """A recording that was made for the baseline is there by now."""
    return "replay" if recorded in ("record", "refresh") else recorded
