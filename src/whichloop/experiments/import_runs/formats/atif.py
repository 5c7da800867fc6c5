"""Trajectories in ATIF, as Harbor and some twenty command-line agents write them: a file, a folder of files, or a zip of one.

A trajectory does not say which task it was and how it was scored: `--map task=PLACE,score=PLACE` names where an agent put that.
Trajectories that whichloop exported say both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from whichloop.experiments.trace_formats.atif import NEVER_TOLD, AtifTrajectory, is_atif, read_trajectory, steps_of
from whichloop.experiments.trace_formats.atif_own import own_of, without_own
from whichloop.experiments.trace_formats.continued import later_parts, whole_trajectory
from whichloop.experiments.trace_formats.conversation import answer_in, events_of, untold_of
from whichloop.experiments.trace_formats.differences import difference
from whichloop.experiments.trace_formats.own_trials import OwnTrial
from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest

from ..documents import documents, has, in_document, task_of, unscored
from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignArm, ForeignLog, ForeignTrace, ForeignTrial, Format, ReadingOptions
from ..log_builder import LogBuilder
from ..places import check_meanings, mapped
from ..trace_fields import TraceFields
from ..values import answer_of, label_of, mapping, name_of, score

MEANINGS = ("arm", "task", "score", "cluster", "suite")
SUITE = "trajectories"
"""Name of the suite of trajectories that say nothing of it."""
NO_SCORE = "a trajectory holds no score; say where it stands: --map score=PLACE, such as extra.reward"
ATIF = "atif"
"""Key in a trace's details: what the document has beside the events, so that an export gives the same document."""
_RESULT = re.compile(r"(.*/)?result\.json")
"""The file that makes a folder one of Harbor's jobs."""


def recognizes(file: ForeignFile) -> bool:
    is_job = file.tree is not None and any(map(_RESULT.fullmatch, file.tree.names))
    return not is_job and has(file, is_atif)


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read trajectories. Raises ValueError with a one-line message that names the file in the folder, and the step."""
    check_meanings(reading, MEANINGS)
    gathered = _Trajectories(reading)
    later = later_parts(file.tree) if file.tree is not None else frozenset[str]()
    for name, data in documents(file):
        if name in later:
            continue
        with in_document(file, name):
            first = mapping(data, "the trajectory")
        document, remark = whole_trajectory(name, first, file.tree)
        gathered.log_builder.notes += [remark] if remark else []
        with in_document(file, name):
            gathered.add(name, document)
    gathered.log_builder.notes.extend(gathered.fields.notes())
    return gathered.log_builder.log()


FORMAT = Format("atif", recognizes, read, mapped=True)


@dataclass(slots=True)
class _Trajectories:
    """The trials read so far."""

    reading: ReadingOptions
    log_builder: LogBuilder = field(default_factory=lambda: LogBuilder(SUITE))
    fields: TraceFields = field(init=False)

    def __post_init__(self) -> None:
        self.fields = TraceFields(self.reading)

    def add(self, name: str, data: Mapping[str, Any]) -> None:
        read_own = own_of(data)
        if isinstance(read_own, str):
            self.log_builder.notes.append(f"{name}: {read_own}")
        document = without_own(data)
        trajectory = read_trajectory(document)
        if isinstance(read_own, OwnTrial):
            arm, trial, suite, question = read_own.arm, read_own.trial, read_own.record.suite, read_own.question
        else:
            arm, trial, suite, question = self._foreign(name, document, trajectory)
        self.log_builder.add(arm, trial, question, suite)

    def _foreign(self, name: str, document: Mapping[str, Any], trajectory: AtifTrajectory) -> _TrialParts:
        reading = self.reading
        arm = _arm(trajectory, mapped(document, "arm", reading))
        task = mapped(document, "task", reading)
        task_name = task_of(name) if task is None else name_of(task, "--map task")
        value = score(mapped(document, "score", reading), reading.scale)
        suite = mapped(document, "suite", reading)
        cluster = mapped(document, "cluster", reading) if "cluster" in reading.columns else None
        trial = ForeignTrial(
            arm.name,
            task_name,
            self.log_builder.next_repeat(arm.name, task_name),
            status="excluded" if value is None else "scored",
            reason=unscored(NO_SCORE, task) if value is None else "",
            score=value,
            cluster=label_of(cluster, "--map cluster"),
            **measurements_of(trajectory),
            trace=trace_of(document, trajectory),
        )
        self.fields.add(trial, document)
        return (
            arm,
            trial,
            SUITE if suite is None else name_of(suite, "--map suite"),
            digest(trajectory.query) if trajectory.query else "",
        )


_TrialParts = tuple[ForeignArm, ForeignTrial, str, str]
"""Arm, trial, name of the suite, digest of the question."""


def _arm(trajectory: AtifTrajectory, typed: Any) -> ForeignArm:
    name = name_of(typed, "--map arm") if typed is not None else trajectory.agent
    label = name if typed is not None or trajectory.model == "unknown" else f"{name}/{trajectory.model}"
    return ForeignArm(
        label, loop=trajectory.agent, options={"version": trajectory.version} if trajectory.version else {}, model=trajectory.model
    )


def measurements_of(trajectory: AtifTrajectory) -> dict[str, Any]:
    """Return what a trajectory says of a trial's measurements and answer, by the fields of a ForeignTrial."""
    tokens = trajectory.totals.tokens or (None, None)
    answer = answer_in(trajectory.items)
    return {
        "answer": answer_of(answer or None),
        "stop": StopReason.FINISHED.value if answer else None,
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "cached_tokens": trajectory.totals.cached_tokens,
        "cost_usd": trajectory.totals.cost_usd,
        "seconds": _seconds(trajectory.timestamps),
    }


def trace_of(document: Mapping[str, Any], trajectory: AtifTrajectory) -> ForeignTrace:
    """Return the trace of a trajectory; its details keep all that is not in the events."""
    events = events_of(trajectory.items)
    rest = difference({"steps": steps_of(events)}, document)
    untold = tuple(sorted({*NEVER_TOLD, *untold_of(events)}))
    return ForeignTrace(events, trajectory.query, details=None if rest is None else {ATIF: rest}, untold=untold)


def _seconds(stamps: tuple[str, ...]) -> float | None:
    """Return the time between the first and the last step; None if fewer than two have a time that can be read."""
    try:
        times = [datetime.fromisoformat(stamp) for stamp in stamps]
        return max((times[-1] - times[0]).total_seconds(), 0.0) if len(times) > 1 else None
    except (ValueError, TypeError, OverflowError):  # not ISO 8601, or with and without a time zone
        return None
