"""Trajectories in ATIF, as Harbor and some twenty command-line agents write them: a file, a folder of files, or a zip of one.

A trajectory does not say which task it was and how it was scored: `--map task=PLACE,score=PLACE` names where an agent put that.
Trajectories that whichloop exported say both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from whichloop.experiments.import_runs.foreign_file import (
    MAX_MEMBER_BYTES,
    FileTree,
    ForeignFile,
    documents,
    has,
    in_document,
    parse_json,
    task_of,
    unscored,
)
from whichloop.experiments.import_runs.foreign_trials import (
    ForeignArm,
    ForeignLog,
    ForeignTrace,
    ForeignTrial,
    Format,
    LogBuilder,
    ReadingOptions,
)
from whichloop.experiments.import_runs.places import TraceFields, check_meanings, mapped
from whichloop.experiments.import_runs.values import answer_of, label_of, located, mapping, name_of, score
from whichloop.experiments.trace_formats.atif import (
    CONTINUED,
    NEVER_TOLD,
    AtifTrajectory,
    continuation_of,
    is_atif,
    joined_trajectory,
    read_trajectory,
    steps_of,
)
from whichloop.experiments.trace_formats.conversation import answer_in, events_of, untold_of
from whichloop.experiments.trace_formats.own_trials import OwnTrial, difference, own_of, without_own
from whichloop.protocol import StopReason
from whichloop.protocol.digest import digest

MAX_PARTS = 1000
"""Maximum number of files in which one trajectory goes on: one more for each time that an agent has summarized its context."""
MAX_BYTES = MAX_MEMBER_BYTES
"""Maximum size of these files together: that of one file."""


def whole_trajectory(name: str, first: Mapping[str, Any], tree: FileTree | None) -> tuple[Mapping[str, Any], str]:
    """Return a trajectory with all in which it goes on, and a remark where a part is missing, or named again.

    `name`: of its file in the tree. Raises ValueError that names the file that cannot be read, or whose parts are too many or too
    large. A trajectory without parts is returned as it is, and not checked.
    """
    parts, part, seen, size, remark = [first], name, {name}, 0, ""
    while part := continuation_of(part, parts[-1]) or "":
        if part in seen:
            remark = f"{name}: it goes on in {part} again, which is read once"
            break
        if tree is None or part not in tree:
            remark = f"{name}: it goes on in {part}, which is not there"
            break
        seen.add(part)
        raw = tree.read(part)
        size += len(raw)
        if len(parts) > MAX_PARTS or size > MAX_BYTES:
            raise ValueError(f"{name}: it goes on in more than {MAX_PARTS} files or {MAX_BYTES} bytes")
        parts.append(_trajectory(part, raw))
    if len(parts) == 1:
        return first, remark
    with located(name):
        read_trajectory(first)  # so that what is wrong with it is said with its name
    return joined_trajectory(parts), remark


def _trajectory(name: str, raw: bytes) -> Mapping[str, Any]:
    with located(name):
        document = mapping(parse_json(raw), "the trajectory")
        read_trajectory(document)  # so that what is wrong with it is said with its name
        return document


def later_parts(tree: FileTree) -> frozenset[str]:
    """Return the names of the files in which the trajectories of others go on. What cannot be read names none.

    Of files that name each other in a circle, into which no other leads, the one with the shortest name begins it: an agent adds to
    the name of a file to make that of the file in which it goes on.
    """
    follows = dict(_continuations(tree))
    later = set(follows.values())
    reached = set[str]()
    for name in sorted(follows, key=lambda name: (name in later, len(name), name)):  # circles last, after all that leads into them
        later -= set() if name in reached else {name}
        while name in follows and name not in reached:
            reached.add(name)
            name = follows[name]
    return frozenset(later)


def _continuations(tree: FileTree) -> Iterator[tuple[str, str]]:
    """Yield each file's name and that of another one in which its trajectory goes on."""
    word = f'"{CONTINUED}"'.encode()
    for name in tree.names:
        if name.endswith(".json") and word in (raw := tree.read(name)):
            try:
                part = continuation_of(name, parse_json(raw))
            except (ValueError, RecursionError):
                continue
            if part is not None and part != name:
                yield name, part


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
