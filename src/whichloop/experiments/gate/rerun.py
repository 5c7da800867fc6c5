"""Running the baseline's configuration again: until it is plain that a loop hangs, and the doubtful trials once more."""

from __future__ import annotations

import shlex
import shutil
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from whichloop.experiments.compare.results import Results
from whichloop.experiments.compare.run import Experiment, prepare, recording_command, run_apart
from whichloop.metrics.arm_info import IMPORTED
from whichloop.metrics.record import Record
from whichloop.protocol.names import parse_spec
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.engine.runner import Progress, Unwatched
from whichloop.runs.manifest import write_manifest
from whichloop.runs.permissions import NO_PERMISSIONS, Permissions, allowed_config
from whichloop.runs.registry import loops_named, programs_named
from whichloop.runs.schedule import RunState, TrialState
from whichloop.runs.store.trials import read_records

from .baseline import ELSEWHERE, Baseline, GateSettings, hung_before, read_run
from .judge import GateResult, doubtful_trials, judge
from .lines import unrun_lines, with_lines_watched
from .match import Incomparable, match, match_arms
from .reasons import hung, was_interrupted
from .sides import HANG_TRIALS

PROJECT = Path("pyproject.toml")
TABLE: Mapping[str, type] = {"loop": list, "allow": list, "base_url": str, "cassette": str}
"""Key of the table [tool.whichloop] → its type."""


def project_permissions(typed: Permissions = NO_PERMISSIONS, root: Path = Path()) -> Permissions:
    """Return what was typed, beside what the user's own pyproject.toml allows, in its table [tool.whichloop]. Raises ValueError."""
    path = root / PROJECT
    if not path.is_file():
        return typed
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("whichloop", {})
        for key, value in table.items():
            texts = value if isinstance(value, list) else [value]
            if not isinstance(value, TABLE.get(key, ())) or not all(isinstance(text, str) for text in texts):
                raise ValueError(f"[tool.whichloop] has {', '.join(TABLE)}; got {key} = {value!r}")
        loops = table.get("loop", ())
        code = [*_code_of(loops), *loops, *table.get("allow", ())]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    cassette = typed.cassette or (Path(table["cassette"]) if "cassette" in table else None)
    return Permissions([*code, *typed.code], typed.base_url or table.get("base_url"), cassette)


def _code_of(loops: Sequence[str]) -> list[str]:
    specs = [parse_spec(text) for text in loops]
    return [name for spec in specs for name in (*loops_named(spec), *programs_named(spec))]


def config_again(
    baseline: Baseline, path: Path, settings: Mapping[str, Any] = MappingProxyType({}), allowed: Permissions = NO_PERMISSIONS
) -> CompareConfig:
    """Return the baseline's configuration with what was asked for. A recording is replayed; its model gets no request.

    `settings`: those that were typed: `loops`, whose code is allowed by that, a `seed`, with which trials have no counterparts, or
    any other. `allowed`: the user code, server and recording that the baseline names; server and recording may differ by now.
    Raises RunError for code, a server or a recording that the baseline names and the user did not, ValueError for bad input.
    """
    if "loops" not in baseline.config or IMPORTED in baseline.profiles:
        raise ValueError(f"{path}: blessed from another tool's files, so there is nothing to run; name a run to judge")
    changes = dict(settings)
    for name, own in (("base_url", allowed.base_url), ("cassette", allowed.cassette)):
        if own is not None and baseline.config.get(name):
            changes.setdefault(name, str(own))
    blessed = {name: value for name, value in baseline.config.items() if name not in ELSEWHERE}
    for name in ("data", "quarantine"):
        if blessed.get(name) and blessed[name] not in allowed.code and not Path(blessed[name]).resolve().is_relative_to(Path.cwd()):
            raise ValueError(f"{path}: {name} {blessed[name]!r} is outside of this folder; allow that by its name: --allow FILE")
    mode = baseline.config.get("cassette_mode")
    fixed = {"mlflow": False, "tracking_uri": None, "cassette_mode": mode if mode in (None, "replay") else "replay"}
    config = config_from({**blessed, **fixed, **changes}, str(path), typed=changes)
    asks = [] if config.replays else [model for model in config.opened_models if model not in allowed.code]
    if asks:
        raise ValueError(f"{path}: it asks {', '.join(asks)}; allow that by its name: --allow {shlex.quote(asks[0])}")
    typed = _code_of(config.loops) if "loops" in settings else []
    return allowed_config(path, config, replace(allowed, code=[*allowed.code, *typed]))


def prepare_again(baseline: Baseline, path: Path, config: CompareConfig) -> Experiment:
    """Make the run directory of a new run. Raises Incomparable as `match`, ValueError and OSError; then there is no directory."""
    experiment = prepare(config, is_compared=False)
    try:
        match(path, experiment.manifest, baseline)
    except Incomparable:
        shutil.rmtree(experiment.folder)
        raise
    blessed = {name: digest for arm in baseline.arms.values() for name, digest in arm.files.items()}
    experiment = with_lines_watched(experiment, blessed, baseline.lines)
    limit, default = baseline.gate.trial_timeout_s, CompareConfig.model_fields["trial_timeout_s"].default
    if limit is None or config.trial_timeout_s != default or limit > default or not _is_scripted(config):
        return experiment
    return replace(experiment, config=config.model_copy(update={"trial_timeout_s": limit}))


def _is_scripted(config: CompareConfig) -> bool:
    return not config.opened_models and config.cassette is None and not config.real_time


class _Hangs(Exception):
    """A loop hangs."""


class _Watching(Unwatched):
    """Progress that ends the run once the first trials of an arm have all hung, or as many of all were interrupted."""

    def __init__(self, progress: Progress, arms: Sequence[str]) -> None:
        """`arms`: those of which no blessed trial hung."""
        self._progress = progress
        self._ended, self._hung = Counter[str](), Counter(dict.fromkeys(arms, 0))
        self._interrupted = 0

    def finished(self, record: Record) -> None:
        """Pass a record on. Raises _Hangs."""
        self._progress.finished(record)
        self._ended[record.arm] += 1
        if hung(record) and record.arm in self._hung:
            self._hung[record.arm] += 1
            self._interrupted += was_interrupted(record)
            if self._interrupted == HANG_TRIALS or self._ended[record.arm] == self._hung[record.arm] == HANG_TRIALS:
                raise _Hangs

    def noted(self, text: str) -> None:
        self._progress.noted(text)

    def interrupted(self, text: str) -> None:
        self._progress.interrupted(text)


def run_and_judge(
    experiment: Experiment, progress: Progress, baseline: Baseline, settings: GateSettings, path: Path
) -> tuple[Results, GateResult]:
    """Run an experiment, unless a loop hangs, and its doubtful trials once more; return its results and the judgement.

    Raises KeyboardInterrupt, which leaves a run that can be resumed, and Incomparable as `judge` does.
    """
    matched = match_arms(experiment.manifest, baseline)
    able = [arm for old, arm in matched.items() if arm is not None and not hung_before(baseline.arms[old])]
    try:
        if stopped := run_apart(experiment, _Watching(progress, able)):
            progress.noted(f"stopped early: {stopped}")
    except _Hangs:
        progress.noted("a loop hangs, so the run ends")
    results = read_run(experiment.folder)
    again = run_doubtful_again(experiment, results, baseline) if _is_scripted(experiment.config) else ()
    judged = judge(results, baseline, settings=settings, path=path, again=again)
    recordings, config = experiment.trial_models.recordings, experiment.config
    record: tuple[str, ...] = ()
    if recordings is not None and recordings.first_miss:
        loops = () if list(config.loops) == list(baseline.config["loops"]) else config.loops
        typed = [word for loop in loops for word in ("--loop", loop)]
        typed += ["-s", f"cassette={config.cassette}", *(["-s", f"base_url={config.base_url}"] if config.base_url else [])]
        record = (recording_command(config), shlex.join(["whichloop", "gate", "--baseline", str(path), *typed]))
    return results, replace(judged, unrun=unrun_lines(experiment, baseline.lines), record=record)


def run_doubtful_again(experiment: Experiment, results: Results, baseline: Baseline) -> Sequence[Record]:
    """Run the trials once more that chance may have made what they are, of the scripted model, and return what they gave."""
    keys = doubtful_trials(results, baseline)
    if not keys:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        write_manifest(Path(folder), experiment.manifest)
        past = RunState({record.key: TrialState.of(record) for record in results.records if record.key not in keys})
        run_apart(replace(experiment, folder=Path(folder), past=past, lines=None), Unwatched())
        return read_records(Path(folder))
