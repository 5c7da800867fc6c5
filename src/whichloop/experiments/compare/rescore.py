"""Rescoring the answers of a run with the present scorers and expected answers, without calling models or tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whichloop.checks import suite as checks
from whichloop.datasets.task import Suite, Task
from whichloop.metrics.answers import Judgement
from whichloop.metrics.caveats import DEAD, warning_lines
from whichloop.metrics.record import SCORER, Record
from whichloop.metrics.scorers import false_success, is_abstention, reads_state, scores_of
from whichloop.metrics.statistics import Interval, interval_json
from whichloop.protocol.json_text import canonical_json
from whichloop.protocol.names import SCRIPTED
from whichloop.protocol.redact import MARK
from whichloop.protocol.values import error_text
from whichloop.runs.config import CompareConfig, config_from
from whichloop.runs.folders import refuse_optimization
from whichloop.runs.lookup import suite_of, tasks_of_split
from whichloop.runs.manifest import RunNote, write_manifest
from whichloop.runs.new_manifest import asked_digests, suite_entry, task_digests
from whichloop.runs.permissions import allowed_code, own_code
from whichloop.runs.store.files import RunError, locked
from whichloop.runs.store.trials import Traces, TrialFile, count_rows, each_record
from whichloop.text.doc import Doc, Table, lines_of
from whichloop.text.numbers import interval

from .results import Results, results

REDACTED = "their answers, or the end states that they left, were kept without what looked like secrets"


@dataclass(frozen=True, slots=True)
class Rescored:
    results: Results
    """The run with its new scores."""
    before: Results
    changes: Counter[str]
    """Arm → number of trials whose scores or status changed."""
    judged: int
    """Number of trials whose answers were judged."""
    kept_scores: Counter[str]
    """Reason why trials keep their scores → number of trials."""

    @property
    def changed(self) -> int:
        return self.changes.total()


def rescore(folder: Path, allow: Sequence[str] = (), data: Path | None = None) -> Rescored:
    """Rescore the answers of a run in place: add lines for changed records, and update the manifest to the present suite.

    `allow`: names of user code that suite, tools or scorers may use. `data`: the suite's file if it has moved. Raises RunError if
    the questions have changed or data needed for scoring was not kept, and ValueError and OSError for an unavailable suite,
    without writing anything.
    """
    refuse_optimization(folder, "judged again")
    with locked(folder):
        old = results(folder)
        manifest = old.manifest
        if manifest.imported is not None:
            raise RunError(f"{folder}: imported from another tool's files, whose scores it took over: there is nothing to judge by")
        changes = {} if data is None else {"data": str(data)}
        config = config_from({**manifest.config, **changes}, f"{folder}/manifest.json", typed=changes)
        allowed_code(folder, own_code(config.model_copy(update={"loops": ()})), allow)
        suite = suite_of(config)
        tasks = tasks_of_split(suite, config.split)[: config.tasks]
        judge = _Judge(folder, suite, {task.id: task for task in tasks})
        _check_questions(old, config, judge)
        judged = [judge.again(record) for record in old.records]
        counts = _changed(old.records, judged)
        # Lines of a newer suite come from a rescore that was killed.
        noted = {record.key: record for record in each_record(folder) if record.suite_digest == manifest.suite.digest}
        noted_of = _changed([noted.get(record.key, record) for record in old.records], judged).total()
        parts = {
            "config": {**manifest.config, "data": config.public()["data"]},
            "suite": suite_entry(config, suite, tasks),
            "task_digests": task_digests(suite, tasks, manifest.task_digests.results if manifest.task_digests else {}),
            "suite_problems": checks.quick_problems(suite, tasks),
            "rescored": (*manifest.rescored, RunNote.now(suite=manifest.suite.digest, trials=noted_of)),
        }
        now = manifest.model_copy(update=parts)
        has_moved = (now.suite, now.config) != (manifest.suite, manifest.config)
        changed = [(new, b"") for was, new in zip(old.records, judged, strict=True) if was != new]
        if changed:
            with closing(TrialFile(folder)) as file:
                file.add(changed)
        if changed or has_moved:
            write_manifest(folder, now.model_copy(update={"rows": count_rows(folder)}))
    return Rescored(results(folder), old, counts, judge.judged, judge.kept)


def _check_questions(old: Results, config: CompareConfig, judge: _Judge) -> None:
    """Raise RunError if a trial's question has changed, or its task is gone, or no longer quarantined."""
    folder, manifest, tasks, reason = old.folder, old.manifest, judge.tasks, ""
    was, now = manifest.asked, asked_digests(config, judge.suite, [*tasks.values()])
    if was is None:
        raise RunError(f"{folder}/manifest.json: asked: missing")
    if manifest.suite.max_tool_steps != (config.max_tool_steps or judge.suite.max_tool_steps):
        reason = "the step limit is another"
    elif gone := [record.task for record in old.records if record.task not in tasks]:
        reason = f"task {gone[0]} is gone"
    elif was["questions"] != now["questions"]:
        reason = "its tasks or its tools are not what they were"
        for record in old.records:
            if record.trace_at and judge.traces.read(record).head.query != tasks[record.task].query.full_text:
                reason = f"task {record.task} asks something else"
                break
    elif was.get("tools") != now.get("tools"):
        reason = f"the code of the tools in {config.tools} is another"
    elif SCRIPTED in config.models and was["plans"] != now["plans"]:
        reason = "the plans are not what they were, which the scripted model followed"
    if reason:
        raise RunError(f"{folder}: {reason}: the answers are to other questions; nothing was written; start a new run")
    for record in old.records:
        if record.status == "excluded" and record.reason.startswith("quarantined: ") and not tasks[record.task].quarantined:
            raise RunError(f"{folder}: task {record.task} was quarantined, and is not now: it has no answer; start a new run")


class _Judge:
    def __init__(self, folder: Path, suite: Suite, tasks: Mapping[str, Task]) -> None:
        self.folder = folder
        self.suite = suite
        self.tasks = tasks
        self.judged = 0
        self.kept = Counter[str]()
        self.traces = Traces(folder)

    def again(self, record: Record) -> Record:
        """Return the record with today's scores. Raises RunError for one that cannot be scored."""
        task = self.tasks[record.task]
        now = replace(
            record,
            suite=self.suite.name,
            suite_digest=self.suite.digest,
            cluster=self.suite.cluster_of(task),
            template=str(task.labels.get("template", "")),
        )
        if record.status == "excluded" or (record.status == "errored" and not record.reason.startswith(SCORER)):
            return now
        if task.quarantined:
            fields = ("arm", "suite", "suite_digest", "task", "repeat", "seed", "cluster", "template", "started_at", "attempt")
            values = {name: getattr(now, name) for name in fields}
            return Record(**values, status="excluded", reason=f"quarantined: {task.quarantined}")
        state, is_known = self._state(record, task)
        if record.status == "errored" and not is_known:  # the state itself may have failed: a resume runs the trial again
            return now
        if MARK in canonical_json([record.answer, state]):
            self.kept[REDACTED] += 1
            return now
        self.judged += 1
        return self._scored(now, task, state)

    def _scored(self, record: Record, task: Task, state: object) -> Record:
        answer = None if record.gave_up else record.answer
        try:
            scores = scores_of(Judgement(task, answer, record.stop, state))
        except Exception as error:  # the suite's scorer, which may be user code
            if record.status == "errored":
                return record
            reason = f"{SCORER}{task.scorer}: {type(error).__name__}: {error_text(error)}"
            raise RunError(f"{self.folder}: trial {record.name}: {reason}; nothing was written") from None
        abstained = isinstance(record.answer, str) and is_abstention(record.answer) and not record.gave_up
        return replace(
            record,
            status="scored",
            reason="" if record.status == "errored" else record.reason,
            scores=scores,
            abstained=abstained,
            false_success=false_success(
                accuracy=scores["accuracy"],
                answered=record.answer is not None and not abstained and not record.gave_up,
                faults=record.faults,
                planned_call_unknown=record.plan_unseen,
            ),
        )

    def _state(self, record: Record, task: Task) -> tuple[Any, bool]:
        """Return the trial's end state, if scores depend on it, and whether it is known.

        Raises RunError if it is unknown for a scored trial.
        """
        if task.end_state is None and not reads_state(task.scorer):
            return None, True
        end_state = {} if not record.trace_at else self.traces.read(record).head.end_state or {}
        if "found" in end_state and not (record.status == "errored" and task.end_state is not None and end_state["found"] is None):
            return end_state["found"], True
        if record.status == "errored":
            return None, False
        raise RunError(
            f"{self.folder}: trial {record.name}: the end state that it left was not kept, and task {task.id} is judged by it; "
            "nothing was written; start a new run with the same settings and with -s traces=all, which keeps it"
        )


def _changed(before: Sequence[Record], judged: Sequence[Record]) -> Counter[str]:
    """Return arm → number of trials whose scores or status changed."""
    return Counter(now.arm for was, now in zip(before, judged, strict=True) if (was.status, was.scores) != (now.status, now.scores))


def rescored_doc(rescored: Rescored) -> Doc:
    """Return which arms' accuracy changed."""
    run, compared = rescored.results, rescored.results.comparison
    was = {arm.info.arm: arm.summary.accuracy for arm in rescored.before.comparison.arms}
    arms = [(name, was[name], arm.summary.accuracy) for arm in compared.arms for name in [arm.info.arm]]
    rows = tuple((name, _accuracy(old), _accuracy(new), str(rescored.changes[name])) for name, old, new in arms)
    lines = lines_of(
        ("Changed", f"{rescored.changed:,} trials"),
        ("Kept", [f"{count:,} trials: {why}" for why, count in rescored.kept_scores.items()]),
        ("Invalid", "no verdict of this run holds" if compared.invalid else ""),
        ("Warning", warning_lines([each for each in compared.caveats if each.code in DEAD])),
    )
    data = {
        "run": str(run.folder.resolve()),
        "digest": run.digest,
        "invalid": compared.invalid,
        "dead_arms": compared.dead_arms_json(),
        "trials": len(run.records),
        "judged": rescored.judged,
        "changed": rescored.changed,
        "kept": dict(rescored.kept_scores),
        "arms": [
            {"arm": name, "before": interval_json(old), "after": interval_json(new), "changed": rescored.changes[name]}
            for name, old, new in arms
        ],
    }
    title = f"{rescored.judged:,} of {len(run.records):,} trials judged again"
    return Doc(title, (Table("", ("arm", "before", "after", "changed"), rows), lines), data)


def _accuracy(accuracy: Interval | None) -> str:
    return "–" if accuracy is None else f"{interval(accuracy, 3)} (n = {accuracy.n})"
