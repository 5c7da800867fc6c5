"""The baseline of a gate: a small file with a blessed run's results, task by task, and the gate's settings, to be committed.

JSON, one line per task, so that git shows a diff. It names code, servers and recordings of the user's own, and never causes one to
be used: see `whichloop.runs.permissions.allowed_config`.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, model_validator

from whichloop.experiments.compare.results import Results, results
from whichloop.metrics.gate import MARGIN, MORE, check_margin
from whichloop.metrics.record import Record
from whichloop.metrics.summary import MAX_VALUE, METRICS, PRIMARY
from whichloop.metrics.trajectory.trajectory import course, shortened
from whichloop.protocol import StopReason
from whichloop.protocol.files import read_bounded, readable
from whichloop.protocol.json_text import canonical_json, digest
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.redact import redact
from whichloop.runs.config import MAX_REPEATS, Seed
from whichloop.runs.folders import TEST, is_optimization
from whichloop.runs.manifest import ArmEntry, Manifest, SuiteEntry, TaskDigests
from whichloop.runs.store.files import RunError, write_whole
from whichloop.runs.store.trials import Traces

from .lines import digests_of_files
from .reasons import invalid_reasons

VERSION = 2
OUTCOME_DIGITS = 8
"""Hexadecimal digits of a trial's outcome: two different outcomes collide once in four billion times."""
NO_TRIAL = digest("no trial")[:OUTCOME_DIGITS]
"""In the place of the outcome of a repeat that an imported run does not have of a task."""
DIGITS = 6
"""Significant digits of a number that is not an integer."""
MAX_ANSWER = 60
"""Characters of an answer that are kept."""
MAX_ERROR = 200
"""Characters of what is wrong with a file."""
DEPTH = 4
"""Levels of the file whose entries have a line each."""
SUFFIX = ".json"
NAME = b'"whichloop_baseline"'
MIN_LIMIT_S, TIMES_SLOWEST = 10.0, 20
"""A trial of the scripted model hangs that takes so many times as long as the slowest blessed one, and at least so many seconds."""
HELD_BESIDE: Mapping[str, float] = {"tokens": MORE, "false_success_rate": MARGIN, "calls_doubled": MARGIN}
"""Metric that is judged beside accuracy where nothing else is asked for → its margin."""
Accepted = Literal["undecided", "tasks_lost", "graver_stop", "other_answers", "tasks_changed"]
"""Reasons that may be accepted: then a loss within the margin passes, and one beyond it does not."""

Amounts = Annotated[tuple[Annotated[float, Field(ge=0, lt=MAX_VALUE)] | None, ...], FailFast()]
Outcomes = Annotated[tuple[Annotated[str, Field(pattern=rf"^[0-9a-f]{{{OUTCOME_DIGITS}}}$")] | None, ...], FailFast()]
Courses = Annotated[tuple[Annotated[str, Field(pattern=r"^([0-9a-f]{6}( [0-9a-f]{6})*)?$")], ...], FailFast()]
Texts = Annotated[tuple[str | None, ...], FailFast()]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class TaskLine(_Part):
    """The results of an arm on one task: each list has one value per repeat, None if the trial was not scored."""

    metrics: dict[str, Amounts]
    stop: Texts
    answer: Texts
    outcome: Outcomes
    """Digests of everything that the trial produced, see `outcome_of`; None if it errored."""
    course: Courses = ()
    """Signatures of the trial's steps, see `whichloop.metrics.trajectory.trajectory`; empty if the run has no traces."""

    def values(self, metric: str) -> Amounts:
        """Return the values of one metric, all None if it is unknown."""
        return self.metrics.get(metric) or (None,) * len(self.stop)

    @model_validator(mode="after")
    def _of_equal_length(self) -> Self:
        if unknown := self.metrics.keys() - METRICS.keys():
            raise ValueError(f"unknown metric {shortened(min(unknown))}")
        lists = [*self.metrics.values(), self.answer, self.outcome, *([self.course] if self.course else [])]
        if any(len(each) != len(self.stop) for each in lists):
            raise ValueError(f"lists of other lengths than the {len(self.stop)} of stop")
        return self


class BaselineArm(ArmEntry):
    """One arm of the blessed run. The digest of its code decides nothing: the gate exists for code that changes."""

    tasks: dict[str, TaskLine]


class GateSettings(_Part):
    """How runs are judged."""

    metrics: dict[str, float]
    """Metric → margin: of a share in points from 0 to 1, of any other metric the share that it may grow by."""
    accept: tuple[Accepted, ...] = ()
    trial_timeout_s: Annotated[float, Field(gt=0, lt=MAX_VALUE)] | None = None
    """Seconds after which a trial of the scripted model hangs; None for a real model."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        for metric, margin in self.metrics.items():
            check_margin(metric, margin)
        if PRIMARY not in self.metrics:
            raise ValueError(f"metrics: {PRIMARY} is missing")
        return self

    def changed(self, metrics: Mapping[str, float], accept: Iterable[str] = ()) -> GateSettings:
        """Return the settings with other margins, more metrics and more accepted reasons. Raises ValueError for bad ones."""
        try:
            accepted = tuple(dict.fromkeys([*self.accept, *accept]))
            return GateSettings.model_validate(self.model_dump() | {"metrics": {**self.metrics, **metrics}, "accept": accepted})
        except ValidationError as error:
            raise ValueError(first_error(error)) from None


class Baseline(_Part):
    """A blessed run, and how later ones are judged."""

    whichloop_baseline: Literal[2] = 2
    created: datetime
    commit: str
    """The commit of the repository in which it was blessed; empty without one."""
    run: str
    gate: GateSettings
    versions: dict[str, int | str | None]
    packages: dict[str, str]
    """Package that was installed → its version."""
    suite: SuiteEntry
    profiles: dict[str, str]
    """Fault profile → its digest."""
    config: dict[str, Any]
    """The configuration in the run's manifest, which the gate runs again if RUN is not given."""
    seed: Seed
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)]
    asked: TaskDigests | None
    """Digests of what a trial can see; None if the blessed run told none."""
    lines: dict[str, str]
    """File that a loop is made of → digests of its lines, see `lines`."""
    arms: Annotated[dict[str, BaselineArm], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, arm in self.arms.items():
            if len(arm.tasks) != self.suite.tasks or arm.profile not in self.profiles:
                raise ValueError(f"arms.{name}: other tasks or another profile than the run has")
            if any(len(line.stop) != self.repeats for line in arm.tasks.values()):
                raise ValueError(f"arms.{name}: a task has not {self.repeats} repeats")
        return self


# --- from a run ---


def read_run(folder: Path) -> Results:
    """Read a run to bless or to judge. Raises RunError as `results` does, and for an optimization."""
    if is_optimization(folder):
        raise RunError(f"{folder}: an optimization, not a comparison; its test is one: {folder / TEST}")
    return results(folder)


def bless(
    run: Results, metrics: Mapping[str, float] = MappingProxyType({}), accept: Iterable[str] = (), kept: GateSettings | None = None
) -> Baseline:
    """Return the baseline of a run. `metrics`: metric → margin, `accept`: accepted reasons, both beside those that are `kept`.

    `kept`: None holds accuracy and what the run knows of `HELD_BESIDE`.
    Raises RunError if it is incomplete or invalid, more than 2 % of an arm errored, or an arm never asked its model, or crashed or
    hung in every trial; ValueError for bad settings.
    """
    for reason in invalid_reasons(run, blessing=True):
        raise RunError(f"{run.folder}: {reason.text}; nothing was blessed")
    manifest, suite = run.manifest, run.manifest.suite
    scored = [record for record in run.records if record.status == "scored"]
    known = [name for name in METRICS if any(stored_value(record, name) is not None for record in scored)]
    held = {name: margin for name, margin in HELD_BESIDE.items() if name in known and _knows(scored, name)}
    quick = all(arm.model == SCRIPTED for arm in manifest.arms) and not manifest.settings.real_time
    gate = kept or GateSettings(metrics={PRIMARY: MARGIN, **held})
    limit_s = max(MIN_LIMIT_S, math.ceil(TIMES_SLOWEST * max((record.wall_s for record in scored), default=0.0)))
    gate = gate.model_copy(update={"trial_timeout_s": limit_s if quick else None}).changed(metrics, accept)
    if unknown := [metric for metric in gate.metrics if not _knows(scored, metric)]:
        raise RunError(f"{run.folder}: metric {unknown[0]}: not known for all trials; nothing was blessed")
    commit = ""
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)  # noqa: S607
        commit = asked.stdout.strip()
    try:
        return Baseline(
            created=datetime.now(UTC).replace(microsecond=0),
            commit=commit,
            run=run.folder.resolve().name,
            gate=gate,
            versions=dict(manifest.versions),
            packages=packages_of(manifest),
            suite=suite,
            profiles=manifest.profiles,
            config=repeatable(manifest.config),
            seed=manifest.seed,
            repeats=manifest.settings.repeats,
            asked=manifest.task_digests,
            lines=digests_of_files({name: file for arm in manifest.arms for name, file in arm.files.items()}),
            arms={arm.arm: _arm(run, arm, known) for arm in manifest.arms},
        )
    except ValidationError as error:
        raise RunError(f"{run.folder}: manifest and records do not fit together: {first_error(error)}") from None


def _knows(scored: Sequence[Record], metric: str) -> bool:
    """Whether each scored trial has a metric, but for one that only some trials have by their nature."""
    return METRICS[metric].of_some or all(stored_value(record, metric) is not None for record in scored)


def packages_of(manifest: Manifest) -> dict[str, str]:
    """Return the versions of Python and of all packages that are installed, with those that a manifest tells in their place."""
    told = {name: version for name, version in manifest.packages.items() if version}
    return dict(sorted((_installed() | {"python": manifest.python} | told).items()))


@cache  # each is read from a file
def _installed() -> dict[str, str]:
    return {each.name: each.version for each in distributions() if each.name}


ELSEWHERE = ("name", "runs", "mlflow", "tracking_uri", "experiment", "concurrency", "workers", "engine", "address", "traces")
"""Settings for what a run is called, where it is stored and how fast it goes, which mean nothing to whoever runs it again."""


def repeatable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings needed to run it again, without unset ones."""
    repeatable = {name: value for name, value in config.items() if name not in ELSEWHERE}
    parts = {
        name: {k: v for k, v in value.items() if v is not None} for name, value in repeatable.items() if isinstance(value, Mapping)
    }
    return {name: value for name, value in (repeatable | parts).items() if value is not None and value != {}}


def _arm(run: Results, arm: ArmEntry, known: Sequence[str]) -> BaselineArm:
    by_task: dict[str, dict[int, Record]] = {}
    for record in run.records:
        if record.arm == arm.arm:
            by_task.setdefault(record.task, {})[record.repeat] = record
    traces, repeats = Traces(run.folder), range(run.manifest.settings.repeats)
    tasks = {task: _task_line(traces, [by_task[task].get(k) for k in repeats], known) for task in sorted(by_task)}
    return BaselineArm(**arm.model_dump() | {"configuration": redact(arm.configuration), "tasks": tasks})


def _task_line(traces: Traces, records: Sequence[Record | None], known: Sequence[str]) -> TaskLine:
    """Return what a task's repeats gave; None stands for one that an imported run does not have of this task."""
    values = {name: tuple(None if record is None else stored_value(record, name) for record in records) for name in known}
    courses = tuple(
        "" if record is None or not record.trace_at else " ".join(step.signature for step in course(traces.read(record)))
        for record in records
    )
    return TaskLine(
        metrics={name: of_task for name, of_task in values.items() if name == PRIMARY or any(v is not None for v in of_task)},
        stop=tuple(None if record is None else stop_of(record) for record in records),
        answer=tuple(None if record is None else answer_in_brief(record) for record in records),
        outcome=tuple(NO_TRIAL if record is None else outcome_of(record) for record in records),
        course=courses if any(courses) else (),
    )


def outcome_of(record: Record) -> str | None:
    """Return a short digest of a trial's results without times and costs; None if it failed because of infrastructure."""
    if record.status == "errored":
        return None
    content = [
        record.status, record.answer, record.stop, dict(record.scores), record.steps, dict(record.calls), record.tool_calls,
        record.input_tokens, record.output_tokens, dict(record.errors), record.false_success, record.trace_digest,
        [[fault.kind, fault.point, fault.landed, fault.absorbed, fault.recovered] for fault in record.faults],
    ]  # fmt: skip
    return digest(content)[:OUTCOME_DIGITS]


def answer_in_brief(record: Record) -> str | None:
    """Return an answer as a baseline stores it, a text in quotes; None if the trial is not scored."""
    return shortened(canonical_json(record.answer), MAX_ANSWER) if record.status == "scored" else None


def stop_of(record: Record) -> str | None:
    """Return a record's stop as a baseline stores it."""
    return record.stop if record.status == "scored" else None


def stored_value(record: Record, metric: str) -> float | None:
    """Return a metric's value as stored in a baseline; None if it is unknown or the trial is not scored."""
    value = METRICS[metric](record) if record.status == "scored" else None
    if value is None or not 0 <= value < MAX_VALUE:
        return None
    return value if float(value).is_integer() else float(f"{value:.{DIGITS}g}")


def hung_before(arm: BaselineArm) -> bool:
    """Whether a blessed trial of an arm ended at its time limit."""
    return any(StopReason.TIMEOUT in line.stop for line in arm.tasks.values())


# --- the file ---


def to_text(baseline: Baseline) -> str:
    """Return the file's text, ASCII only: a line for each task, and for each entry of what stands above it."""
    return _laid_out(baseline.model_dump(mode="json"), 0) + "\n"


def _laid_out(value: Any, depth: int) -> str:
    if not isinstance(value, dict) or not value or depth >= DEPTH:
        return json.dumps(value, allow_nan=False)
    indent = "\n" + " " * (depth + 1)
    entries = (f"{indent}{json.dumps(name)}: {_laid_out(item, depth + 1)}" for name, item in value.items())
    return f"{{{','.join(entries)}\n{' ' * depth}}}"


def bless_as(path: Path, run: Results, metrics: Mapping[str, float], accept: Iterable[str]) -> tuple[Baseline, Baseline | None]:
    """Write a run as the baseline of a file, with the settings of the one that is there, and return both. Raises as `bless`."""
    old = None
    if path.exists():
        with suppress(ValueError):  # a damaged one is replaced
            old = read_baseline(path)
    new = bless(run, metrics, accept, None if old is None else old.gate)
    write_baseline(path, new)
    return new, old


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write the file atomically and create its folder, in the place of another baseline, be it a damaged one.

    Raises ValueError for another name than NAME.json, or a file that is something else; OSError.
    """
    if path.suffix.lower() != SUFFIX:
        raise ValueError(f"{path}: a baseline is a file NAME{SUFFIX}")
    if path.exists() and (there := read_bounded(path)).strip() and NAME not in there:
        raise ValueError(f"{path}: not a baseline; it stays as it is")
    text = readable(to_text(baseline).encode("ascii"), path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises ValueError with a one-line message that names the file and the field, and OSError."""
    if not path.exists():
        raise ValueError(f"{path}: no such file; whichloop gate RUN --bless --output {path} writes one")
    text = read_bounded(path)
    if NAME not in text:
        raise ValueError(f"{path}: not a baseline")
    try:
        version = json.loads(text).get("whichloop_baseline")
        if version != VERSION:
            raise ValueError(f"{path}: a baseline of version {shortened(repr(version))}, and this is {VERSION}: bless it anew")
        return Baseline.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(f"{path}: {first_error(error)}") from None
    except (AttributeError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not a baseline: {shortened(str(error))}") from None


def first_error(error: ValidationError) -> str:
    """Return the first thing that is wrong, in one line: field, what is allowed, and what is there."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    value = "" if first["type"] in ("missing", "value_error") else f", got {shortened(repr(first['input']))}"
    told = shortened(first["msg"].removeprefix("Value error, "), MAX_ERROR)
    return f"{f'{shortened(field)}: ' if field else ''}{told}{value}"
