"""The answers of a run judged again by today's scorers and expected answers: no model is asked, no tool is called."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loopbench.checks.suite import quick_problems
from loopbench.datasets.task import Suite, Task
from loopbench.metrics.judgement import Judgement
from loopbench.metrics.record import Record
from loopbench.metrics.scorers import is_abstention, reads_state, scores_of
from loopbench.metrics.statistics import Interval
from loopbench.metrics.summary import false_success
from loopbench.protocol.digest import canonical_json
from loopbench.protocol.redact import MARK
from loopbench.protocol.values import error_text
from loopbench.runs.config import CompareConfig, config_from
from loopbench.runs.folders import refuse_optimization
from loopbench.runs.lookup import suite_of, tasks_of_split
from loopbench.runs.manifest import Manifest, RunNote, write_manifest
from loopbench.runs.new_manifest import asked_of, suite_entry
from loopbench.runs.permissions import allowed_code, own_code
from loopbench.runs.store.files import RunError, append_whole, new_file, open_repaired
from loopbench.runs.store.lock import locked
from loopbench.runs.store.records import TRIALS, each_record, read_records
from loopbench.runs.store.traces import Traces

from .results import Results, results

SCORER = "scorer "
"""How the reason of a trial begins that is errored because it could not be scored."""
REDACTED = "their answers, or the end states that they left, were kept without what looked like secrets"


@dataclass(frozen=True, slots=True)
class ArmRescored:
    """What judging again did to one arm."""

    arm: str
    before: Interval | None
    """Accuracy, and so `after`; None where no trial is scored."""
    after: Interval | None
    changed: int
    """Trials whose scores, or whether they are scored, changed."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "arm": self.arm,
            "before": None if self.before is None else self.before.as_dict(),
            "after": None if self.after is None else self.after.as_dict(),
            "changed": self.changed,
        }


@dataclass(frozen=True, slots=True)
class Rescored:
    """A run whose answers were judged again."""

    found: Results
    """The run as it is now."""
    arms: tuple[ArmRescored, ...]
    judged: int
    """Trials whose answers were judged."""
    kept: Mapping[str, int]
    """Why trials keep their scores, in words → how many do."""

    @property
    def changed(self) -> int:
        return sum(arm.changed for arm in self.arms)

    def to_json(self) -> dict[str, Any]:
        """The object of `rescore --json`: names stay stable."""
        return {
            "run": str(self.found.folder.resolve()),
            "digest": self.found.digest,
            "trials": len(self.found.records),
            "judged": self.judged,
            "changed": self.changed,
            "kept": dict(self.kept),
            "arms": [arm.to_json() for arm in self.arms],
        }


def rescore(folder: Path, allow: Sequence[str] = (), data: Path | None = None) -> Rescored:
    """Judge the answers of a run again, in place: lines are added for records that change, and the manifest moves to today's suite.

    `allow`: code of the user's own that suite, tools or scorers may be made of. `data`: the file of the suite, where it is another
    by now. Raises RunError where the questions are not those of then, or something that judging needs was not kept, and ValueError
    and OSError for a suite that cannot be had; then nothing was written.
    """
    refuse_optimization(folder, "judged again")
    with locked(folder):
        before = results(folder)
        manifest = before.manifest
        if manifest.imported is not None:
            raise RunError(f"{folder}: imported from another tool's files, whose scores it took over: there is nothing to judge by")
        config = _config(folder, manifest, allow, data)
        suite = suite_of(config)
        tasks = tasks_of_split(suite, config.split)[: config.tasks]
        _check_questions(folder, manifest, config, suite, tasks)
        judge = _Judge(folder, suite, {task.id: task for task in tasks})
        _check_tasks(folder, before, judge)
        judged = [judge.again(record) for record in before.records]
        counts = _changed(before.records, judged)
        noted_of = sum(_changed(_as_the_manifest_knows(folder, before), judged).values())
        now = _manifest(manifest, config, suite, tasks, noted_of)
        has_moved = (now.suite, now.config) != (manifest.suite, manifest.config)
        if _add_lines(folder, before.records, judged) or has_moved:
            write_manifest(folder, now)
    after = results(folder)
    return Rescored(after, _arms(before, after, counts), judge.judged, dict(judge.kept))


def _config(folder: Path, manifest: Manifest, allow: Sequence[str], data: Path | None) -> CompareConfig:
    typed = {} if data is None else {"data": str(data)}
    config = config_from({**manifest.config, **typed}, f"{folder}/manifest.json", typed=typed)
    allowed_code(folder, own_code(config.model_copy(update={"loops": ()})), allow)
    return config


# --- whether the same was asked ---


def _check_questions(folder: Path, manifest: Manifest, config: CompareConfig, suite: Suite, tasks: Sequence[Task]) -> None:
    """Raises RunError if a trial would be asked something else today."""
    if manifest.suite.max_tool_steps != (config.max_tool_steps or suite.max_tool_steps):
        raise RunError(_other(folder, "the step limit is another"))
    known, now = manifest.asked, asked_of(config, suite, tasks)
    if known is None:
        raise RunError(f"{folder}/manifest.json: asked: missing")
    if known.questions != now.questions:
        raise RunError(_other(folder, _which(folder, tasks) or "its tasks or its tools are not what they were"))
    if known.tools != now.tools:
        raise RunError(_other(folder, f"the code of the tools in {config.tools} is another"))
    if "scripted" in config.models and known.plans != now.plans:
        raise RunError(_other(folder, "the plans are not what they were, which the scripted model followed"))


def _other(folder: Path, why: str) -> str:
    return f"{folder}: {why}: the answers are to other questions; nothing was written; start a new run"


def _which(folder: Path, tasks: Sequence[Task]) -> str:
    """Return the first task whose question is known to be another; empty if that cannot be known."""
    known, traces = {task.id: task for task in tasks}, Traces(folder)
    for record in read_records(folder):
        if record.task not in known:
            return f"task {record.task} is gone"
        if record.trace_at is not None and traces.read(record).head.query != known[record.task].query.full_text:
            return f"task {record.task} asks something else"
    return ""


def _check_tasks(folder: Path, before: Results, judge: _Judge) -> None:
    """Raise RunError if the tasks are not those of the run, or one of them was left out and is not any more."""
    for record in before.records:
        task = judge.tasks.get(record.task)
        if task is None:
            raise RunError(_other(folder, f"task {record.task} is gone"))
        if record.status == "excluded" and record.reason.startswith("quarantined: ") and not task.quarantined:
            raise RunError(f"{folder}: task {task.id} was quarantined, and is not now: it has no answer; start a new run")
    if before.manifest.looks is not None and len(judge.tasks) != before.manifest.suite.tasks:
        raise RunError(_other(folder, "there are more tasks than the plan of its looks has"))


# --- judging ---


class _Judge:
    """Judges one record after the other."""

    def __init__(self, folder: Path, suite: Suite, tasks: Mapping[str, Task]) -> None:
        self.folder = folder
        self.suite = suite
        self.tasks = tasks
        self.judged = 0
        self.kept = Counter[str]()
        self._traces = Traces(folder)

    def again(self, record: Record) -> Record:
        """The record as it would be had its trial been judged today. Raises RunError for one that cannot be judged."""
        task = self.tasks[record.task]
        moved = replace(
            record,
            suite=self.suite.name,
            suite_digest=self.suite.digest,
            cluster=self.suite.cluster_of(task),
            template=str(task.labels.get("template", "")),
        )
        if record.status == "excluded" or (record.status == "errored" and not record.reason.startswith(SCORER)):
            return moved
        if task.quarantined:
            return _left_out(moved, task)
        state, is_known = self._state(record, task)
        if record.status == "errored" and not is_known:  # what failed may have been the state: a resume runs it again
            return moved
        if MARK in canonical_json([record.answer, state]):
            self.kept[REDACTED] += 1
            return moved
        self.judged += 1
        return self._scored(moved, task, state)

    def _scored(self, record: Record, task: Task, state: Any) -> Record:
        answer = None if record.gave_up else record.answer
        try:
            scores = scores_of(Judgement(task, answer, record.stop, state))
        except Exception as error:  # the suite's scorer, which may be the user's own
            if record.status == "errored":
                return record
            why = f"scorer {task.scorer}: {type(error).__name__}: {error_text(error)}"
            raise RunError(f"{self.folder}: trial {record.name}: {why}; nothing was written") from None
        abstained = isinstance(record.answer, str) and is_abstention(record.answer) and not record.gave_up
        return replace(
            record,
            status="scored",
            reason="" if record.status == "errored" else record.reason,
            scores=scores,
            abstained=abstained,
            false_success=false_success(
                accuracy=scores["accuracy"],
                stop=record.stop,
                abstained=abstained,
                faults=record.faults,
                planned_call_unknown=record.plan_unseen,
            ),
        )

    def _state(self, record: Record, task: Task) -> tuple[Any, bool]:
        """The end state that the trial left, where scores depend on it, and whether it is known.

        Raises RunError where a scored trial's is not.
        """
        if task.end_state is None and not reads_state(task.scorer):
            return None, True
        found = {} if record.trace_at is None else self._traces.read(record).head.end_state or {}
        if "found" in found and not (record.status == "errored" and task.end_state is not None and found["found"] is None):
            return found["found"], True
        if record.status == "errored":
            return None, False
        raise RunError(
            f"{self.folder}: trial {record.name}: the end state that it left was not kept, and task {task.id} is judged by it; "
            "nothing was written; start a new run with the same settings and with --traces all, which keeps it"
        )


def _left_out(record: Record, task: Task) -> Record:
    """Return the record of a trial whose task is quarantined."""
    kept = ("arm", "suite", "suite_digest", "task", "repeat", "seed", "cluster", "template", "started_at", "attempt")
    values = {name: getattr(record, name) for name in kept}
    return Record(**values, status="excluded", reason=f"quarantined: {task.quarantined}")


# --- what is written ---


def _add_lines(folder: Path, before: Sequence[Record], judged: Sequence[Record]) -> int:
    """Lines for the records that differ, all of them or none: a kill in between leaves the file as it was. Gives their number."""
    lines = [now.line(now.trace_at) for was, now in zip(before, judged, strict=True) if was != now]
    if not lines:
        return 0
    path, scratch = folder / TRIALS, folder / f"{TRIALS}.part"
    with path.open("rb") as source, new_file(scratch) as copy:
        shutil.copyfileobj(source, copy)
    with open_repaired(scratch) as file:
        append_whole(file, b"".join(lines), scratch)
    scratch.replace(path)
    return len(lines)


def _manifest(manifest: Manifest, config: CompareConfig, suite: Suite, tasks: Sequence[Task], changed: int) -> Manifest:
    """Return the manifest as it is after answers were judged again."""
    parts = {
        "config": {**manifest.config, "data": config.public()["data"]},
        "suite": suite_entry(config, suite, tasks),
        "suite_problems": quick_problems(suite, tasks),
        "rescored": (*manifest.rescored, RunNote.now(suite=manifest.suite.digest, trials=changed)),
    }
    return manifest.model_copy(update=parts)


def _as_the_manifest_knows(folder: Path, before: Results) -> list[Record]:
    """The records as they were judged on the manifest's suite: lines of a newer one are those of a rescore that was killed."""
    suite = before.manifest.suite.digest
    if all(record.suite_digest == suite for record in before.records):
        return list(before.records)
    known = {record.key: record for record in each_record(folder) if record.suite_digest == suite}
    return [known.get(record.key, record) for record in before.records]


def _changed(before: Sequence[Record], judged: Sequence[Record]) -> Counter[str]:
    """Arm → trials that count otherwise than they did."""
    return Counter(now.arm for was, now in zip(before, judged, strict=True) if (was.status, was.scores) != (now.status, now.scores))


def _arms(before: Results, after: Results, changed: Mapping[str, int]) -> tuple[ArmRescored, ...]:
    was = {arm.info.arm: arm.summary.accuracy for arm in before.comparison.arms}
    return tuple(
        ArmRescored(arm.info.arm, was[arm.info.arm], arm.summary.accuracy, changed.get(arm.info.arm, 0))
        for arm in after.comparison.arms
    )
