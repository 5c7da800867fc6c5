"""The baseline of a gate: a small file with the results of a blessed run, task by task, meant to be committed and diffed.

JSON, one line per task; names in a fixed order, tasks sorted by id. It names code, servers and recordings of the user's own, and
never causes one to be used: see `whichloop.runs.permissions.allowed_config`.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, field_validator, model_validator

from whichloop.experiments.compare.results import Results, results
from whichloop.metrics.record import Record
from whichloop.metrics.record_table import records_digest
from whichloop.metrics.summary import MAX_VALUE, METRICS, PRIMARY
from whichloop.metrics.trajectory.trajectory import course, shortened
from whichloop.protocol.digest import canonical_json, digest, open_document, seal_document
from whichloop.protocol.files import naming, read_bounded, readable
from whichloop.protocol.json_text import load_json
from whichloop.protocol.modules import package_version
from whichloop.protocol.values import counted
from whichloop.runs.config import MAX_REPEATS, Positive, Seed
from whichloop.runs.folders import TEST, is_optimization
from whichloop.runs.store.files import RunError
from whichloop.runs.store.traces import Traces

from .damaged import CONFLICT, POINTER, DamagedBaseline, cure_of, has_conflict
from .line_digests import defaults_of, digests_of_files
from .troubles import by_arm_of, slowest_s, troubles

VERSION = 1
OUTCOME_DIGITS = 8
"""Hexadecimal digits of a trial's outcome: two different outcomes collide once in four billion times."""
NO_TRIAL = digest("no trial")[:OUTCOME_DIGITS]
"""In the place of the outcome of a repeat that an imported run does not have of a task."""
DIGITS = 6
"""Significant digits of a number that is not an integer."""
MAX_SHOWN = 60
"""Characters of a bad value that an error shows."""
NAME = b'"whichloop_baseline"'
MAX_HEAD_BYTES = 200
"""A baseline names itself within them."""

Score = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, lt=MAX_VALUE)]
Seconds = Annotated[float, Field(ge=0, lt=MAX_VALUE)]
Amounts = Annotated[tuple[Amount | None, ...], FailFast()]  # a million wrong ones would take a gigabyte to say so
Outcome = Annotated[str, Field(pattern=rf"^[0-9a-f]{{{OUTCOME_DIGITS}}}$")]
Course = Annotated[str, Field(pattern=r"^([0-9a-f]{6}( [0-9a-f]{6})*)?$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class TaskLine(_Part):
    """The results of an arm on one task: each field has one value per repeat, None if the trial was not scored.

    The known measures other than accuracy are fields by their names.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Amounts]

    accuracy: Annotated[tuple[Score | None, ...], FailFast()]
    stop: Annotated[tuple[str | None, ...], FailFast()]
    outcome: Annotated[tuple[Outcome | None, ...], FailFast()]
    """Digests of everything that the trial produced, see `outcome_of`; None if it errored."""
    answer: Annotated[tuple[str | None, ...] | None, FailFast()] = None
    """The answers in brief, see `answer_in_brief`; omitted in an older baseline."""
    course: Annotated[tuple[Course, ...] | None, FailFast()] = None
    """Signatures of the trial's steps, see `whichloop.metrics.trajectory.trajectory`; omitted if the run has no traces."""

    def values(self, metric: str) -> Amounts:
        """Return the values of one metric, all None if it is unknown."""
        values = self.accuracy if metric == PRIMARY else self.__pydantic_extra__.get(metric)
        return values if values is not None else (None,) * len(self.stop)

    def first(self, repeats: int) -> TaskLine:
        """Return the results of the first repeats alone."""
        return self.model_copy(update={name: values[:repeats] for name, values in self.lists().items()})

    def lists(self) -> dict[str, tuple[Any, ...]]:
        """Return the known fields in the order of the file: measures, then what came of each trial."""
        ends = {"stop": self.stop, "answer": self.answer, "outcome": self.outcome, "course": self.course}
        return (
            {PRIMARY: self.accuracy}
            | self.__pydantic_extra__
            | {name: values for name, values in ends.items() if values is not None}
        )

    @model_validator(mode="after")
    def _measures_of_equal_length(self) -> Self:
        for name in self.__pydantic_extra__:
            if name not in METRICS:
                raise ValueError(f"unknown measure {_short_repr(name)}; there are {', '.join(METRICS)}")
        for name, values in self.lists().items():
            if len(values) != len(self.stop):
                raise ValueError(f"{name}: {len(values)} values beside {len(self.stop)} of stop")
        return self


class BaselineArm(_Part):
    """One arm of the blessed run."""

    loop: str
    options: dict[str, Any]
    model: str
    profile: str
    code: str = ""
    """The sha256 of the loop's code. It decides nothing, since the gate exists for code that changes; notes tell that it did."""
    files: dict[str, str] = Field(default_factory=dict)
    """File of the user's project that the loop is made of, what it imports included → its short digest; empty for a loop of ours,
    and in an older baseline."""
    version: str = ""
    """Version of a foreign loop."""
    met: str = ""
    """The profile that the arm met, where `profile` has one for each form of calls; else empty."""
    own_limits: dict[str, int] = Field(default_factory=dict)
    """Options that the comparison's step limit set → their defaults; left out where there are none, or none were told."""
    defaults: dict[str, str] = Field(default_factory=dict)
    """Other fields of an own loop that nobody typed → their values, see `defaults_of`; left out as `own_limits` are."""
    digest: str
    """The sha256 of the arm's records."""
    tasks: dict[str, TaskLine]


class BaselineSuite(_Part):
    """The suite of the blessed run."""

    name: str
    version: str
    digest: str
    tasks: Positive
    max_tool_steps: Positive | None = None
    code: str = ""
    """The sha256 of user code that creates or scores tasks; empty if there is none."""
    files: dict[str, str] = Field(default_factory=dict)
    """File of this code → its short digest; left out where there is none, or the baseline is an older one."""
    imports: dict[str, str] | None = None
    """Other file of the user's project that this code imports → its short digest; left out of an older baseline."""


class Baseline(_Part):
    """A blessed run."""

    whichloop_baseline: Literal[1] = 1
    created: str
    run: Annotated[str, Field(pattern=r"^(\.?[^/\\\x00.][^/\\\x00]*)?$")] = ""
    """Name of the blessed run's folder, which has the traces of its trials where it stands; empty in an older baseline."""
    versions: dict[str, int | str | None]
    suite: BaselineSuite
    profiles: dict[str, str]
    """Fault profile → its digest."""
    own_profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Fault profile from a file → what it did."""
    config: dict[str, Any]
    """The configuration in the run's manifest, which the gate runs again if RUN is not given."""
    seed: Seed
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)]
    metrics: Annotated[tuple[str, ...], FailFast()]
    """The metrics known in at least one arm."""
    shared_digest: str = ""
    """Digest of what all tasks have in common; empty if the blessed run told none of its tasks' digests."""
    task_digests: dict[str, str] = Field(default_factory=dict)
    """Task → digest of all that it is, by which a changed suite is told task by task."""
    slowest_s: Seconds | None = None
    """Wall time of the slowest scored trial, by which the gate knows one that hangs; None in an older baseline."""
    lines: dict[str, str] = Field(default_factory=dict)
    """File that a loop is made of → digests of its lines, see `line_digests`; none of a file that was not found as it was run."""
    arms: Annotated[dict[str, BaselineArm], Field(min_length=1)]

    @property
    def files(self) -> frozenset[str]:
        """The files of the user's project that the blessed loops, and the suite, were made of."""
        of_suite = {*self.suite.files, *(self.suite.imports or ())}
        return frozenset(of_suite).union(*(arm.files for arm in self.arms.values()))

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in METRICS:
                raise ValueError(f"unknown metric {_short_repr(name)}")
        if PRIMARY not in names:
            raise ValueError(f"{PRIMARY} is missing")
        return names

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, arm in self.arms.items():
            if len(arm.tasks) != self.suite.tasks:
                raise ValueError(f"arms.{name}.tasks: {counted(len(arm.tasks), 'task')}, and suite.tasks says {self.suite.tasks}")
            if arm.profile not in self.profiles:
                raise ValueError(f"arms.{name}.profile: {_short_repr(arm.profile)} is not among profiles")
            for task, line in arm.tasks.items():
                if len(line.stop) != self.repeats:
                    raise ValueError(f"arms.{name}.tasks.{task}: {len(line.stop)} values, and repeats is {self.repeats}")
        return self


# --- from a run ---


def read_run(folder: Path) -> Results:
    """Read a run to bless or to judge. Raises RunError as `results` does, and for an optimization."""
    if is_optimization(folder):
        raise RunError(f"{folder}: an optimization, not a comparison; its test is one: {folder / TEST}")
    return results(folder)


def bless(run: Results) -> Baseline:
    """Return the baseline of a run.

    Raises RunError if it is incomplete or invalid, more than 2 % of an arm errored, or an arm is dead: it never asked its model, or
    crashed or hung in every trial.
    """
    for trouble in troubles(run):
        cure = f": {trouble.cure}" if trouble.cure else ""
        raise RunError(f"{run.folder}: {trouble.reason}; nothing was blessed{cure}")
    manifest, repeats = run.manifest, run.manifest.settings.repeats
    by_arm = by_arm_of(run)
    suite = manifest.suite.to_json()
    known_metrics = _known_metrics(run.records)
    try:
        return Baseline(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            run=run.folder.resolve().name,
            versions={"whichloop": package_version("whichloop"), **manifest.versions},
            suite=BaselineSuite(**{name: suite[name] for name in BaselineSuite.model_fields if name in suite}),
            profiles=manifest.profiles,
            own_profiles=manifest.own_profiles,
            config=_repeatable(manifest.config),
            seed=manifest.seed,
            repeats=repeats,
            metrics=known_metrics,
            slowest_s=slowest_s(run.records),
            lines=digests_of_files({name: file for arm in manifest.arms for name, file in arm.files.items()}),
            shared_digest="" if manifest.task_digests is None else manifest.task_digests.shared,
            task_digests={} if manifest.task_digests is None else manifest.task_digests.tasks,
            arms={
                arm.arm: BaselineArm(
                    loop=arm.loop,
                    options=arm.options,
                    model=arm.model,
                    profile=arm.profile,
                    code=arm.code,
                    files=arm.files,
                    **({"version": arm.version} if arm.version else {}),
                    **({"met": arm.met} if arm.met else {}),
                    own_limits=arm.own_limits,
                    defaults=defaults_of(arm),
                    digest=records_digest(by_arm[arm.arm]),
                    tasks=_task_lines(run.folder, by_arm[arm.arm], repeats, known_metrics),
                )
                for arm in manifest.arms
            },
        )
    except ValidationError as error:
        raise RunError(f"{run.folder}: manifest and records do not fit together: {' '.join(str(error).split())}") from None


def _known_metrics(records: Sequence[Record]) -> tuple[str, ...]:
    """Return the metrics that some scored trial has."""
    scored = [record for record in records if record.status == "scored"]
    return tuple(name for name, metric in METRICS.items() if any(_known(metric(record)) for record in scored))


_ELSEWHERE = ("name", "runs", "mlflow", "tracking_uri", "experiment", "concurrency", "workers", "engine", "address", "traces")
"""Settings for what a run is called, where it is stored and how fast it goes, which mean nothing to whoever runs it again."""


def _repeatable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings needed to run it again, without unset ones."""
    repeatable = {name: value for name, value in config.items() if name not in _ELSEWHERE}
    parts = {
        name: {k: v for k, v in value.items() if v is not None} for name, value in repeatable.items() if isinstance(value, Mapping)
    }
    return {name: value for name, value in (repeatable | parts).items() if value is not None and value != {}}


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
    return shortened(canonical_json(record.answer), MAX_SHOWN) if record.status == "scored" else None


def stored_value(record: Record, metric: str) -> float | None:
    """Return a metric's value as stored in a baseline; None if it is unknown or the trial is not scored."""
    value = METRICS[metric](record) if record.status == "scored" else None
    if value is None or not _known(value):
        return None
    return value if float(value).is_integer() else float(f"{value:.{DIGITS}g}")


def _signatures(traces: Traces, record: Record) -> str | None:
    """Return the step signatures of a trial; None if it has no trace. Raises RunError for a damaged one."""
    return None if record.trace_at is None else " ".join(step.signature for step in course(traces.read(record)))


def _known(value: float | None) -> bool:
    return value is not None and 0 <= value < MAX_VALUE


def _task_lines(folder: Path, records: Sequence[Record], repeats: int, metrics: Sequence[str]) -> dict[str, TaskLine]:
    by_task: dict[str, dict[int, Record]] = {}
    for record in records:
        by_task.setdefault(record.task, {})[record.repeat] = record
    traces = Traces(folder)
    return {task: _task_line(traces, [by_task[task].get(k) for k in range(repeats)], metrics) for task in sorted(by_task)}


def _task_line(traces: Traces, records: Sequence[Record | None], metrics: Sequence[str]) -> TaskLine:
    """Return what a task's repeats gave; None stands for one that an imported run does not have of this task."""
    courses = [None if record is None else _signatures(traces, record) for record in records]
    values = {name: tuple(None if record is None else stored_value(record, name) for record in records) for name in metrics}
    return TaskLine(
        **{
            name: of_repeats
            for name, of_repeats in values.items()
            if any(value is not None for value in of_repeats) or name == PRIMARY
        },
        stop=tuple(None if record is None or record.status != "scored" else record.stop for record in records),
        answer=tuple(None if record is None else answer_in_brief(record) for record in records),
        outcome=tuple(NO_TRIAL if record is None else outcome_of(record) for record in records),
        course=tuple(of_repeats or "" for of_repeats in courses) if any(of_repeats is not None for of_repeats in courses) else None,
    )


# --- the file ---


def to_text(baseline: Baseline) -> str:
    """Return the file's text, ASCII only, with its checksum as the last field."""
    absent = {name for name in ("own_profiles", "shared_digest", "task_digests", "lines") if not getattr(baseline, name)}
    head = baseline.model_dump(mode="json", exclude={"arms", *absent}, exclude_none=True)
    if not baseline.suite.files:
        del head["suite"]["files"]
    lines = [f" {_json(name)}: {_by_task(value) if name == 'task_digests' else _json(value)}," for name, value in head.items()]
    arms = ",\n".join(f"  {_json(name)}: {_arm_text(arm)}" for name, arm in baseline.arms.items())
    text = "\n".join(["{", *lines, ' "arms": {', arms, " }", "}", ""])
    return seal_document(text.encode("ascii")).decode("ascii")


def _by_task(values: Mapping[str, str]) -> str:
    """Return an object with a line per task, so that a diff shows which tasks are others."""
    tasks = ",\n".join(f"  {_json(task)}: {_json(values[task])}" for task in sorted(values))
    return f"{{\n{tasks}\n }}"


def _arm_text(arm: BaselineArm) -> str:
    absent = {name for name in ("files", "own_limits", "defaults") if not getattr(arm, name)}
    head = arm.model_dump(mode="json", exclude={"tasks", *absent})
    lines = [f"   {_json(name)}: {_json(value)}," for name, value in head.items()]
    tasks = ",\n".join(f"    {_json(task)}: {_task_text(arm.tasks[task])}" for task in sorted(arm.tasks))
    return "\n".join(["{", *lines, '   "tasks": {', tasks, "   }", "  }"])


def _task_text(line: TaskLine) -> str:
    return _json({name: list(map(_short_number, values)) for name, values in line.lists().items()})


def _short_number(value: float | str | None) -> float | int | str | None:
    """Return 5 for 5.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write the file atomically and create its folder. Raises OSError, also if it would be too large to be read."""
    text = readable(to_text(baseline).encode("ascii"), path)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with naming(path):
        try:
            with scratch.open("xb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises ValueError with a one-line message that names the file and the field, and OSError.

    The error is a DamagedBaseline where the file is, or once was, a baseline, so that another may be written in its place.
    """
    text = read_bounded(path).replace(b"\r\n", b"\n")  # so git writes them on Windows; no value in the file holds a line break
    if not text.strip():
        raise DamagedBaseline(path, "not a baseline: it is empty", cure_of(path, text))
    if text.startswith(POINTER):
        raise DamagedBaseline(path, "not a baseline, but a pointer of Git LFS to one", cure_of(path, text))
    if has_conflict(text) and (text.startswith(CONFLICT) or NAME in text):
        raise DamagedBaseline(path, "git could not merge two versions of it, and left both in it", cure_of(path, text))
    if NAME not in text[:MAX_HEAD_BYTES]:
        raise ValueError(f"{path}: not a baseline: it does not begin with whichloop_baseline")
    try:
        data = load_json(open_document(text).decode("utf-8"), finite=True)
    except ValueError as error:
        raise DamagedBaseline(path, f"not a baseline: {error}", cure_of(path, text)) from None
    if not isinstance(data, dict) or "whichloop_baseline" not in data:
        raise ValueError(f"{path}: not a baseline: it does not begin with whichloop_baseline")
    if data["whichloop_baseline"] != VERSION:
        version = _short_repr(data["whichloop_baseline"])
        raise DamagedBaseline(path, f"a baseline of version {version}, this whichloop reads {VERSION}")
    try:
        return Baseline.model_validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    reason = first["msg"].removeprefix("Value error, ")
    value = f", got {_short_repr(first['input'])}" if first["type"] not in ("missing", "value_error") else ""
    raise DamagedBaseline(path, f"{f'{field}: ' if field else ''}{reason}{value}", cure_of(path, text))


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
