"""A new run under today's code that takes over the trials of an older one that today's code would have run on the same ground."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from loopbench.checks.suite import quick_problems
from loopbench.metrics.record import Record, records_digest
from loopbench.runs.changes import quoted, suite_changes, summary
from loopbench.runs.folders import new_name, refuse_optimization
from loopbench.runs.manifest import Manifest, Note, write_manifest
from loopbench.runs.permissions import NO_PERMISSIONS, Permissions, resume_flags
from loopbench.runs.run_state import read_state
from loopbench.runs.store.files import RunError
from loopbench.runs.store.journal import Journal
from loopbench.runs.store.lock import locked
from loopbench.runs.store.records import read_records
from loopbench.runs.store.traces import Traces

from .prepare import Experiment
from .reopen import UNCHANGED, Reopened, SessionSettings, look_again


def fork(folder: Path, allowed: Permissions = NO_PERMISSIONS, session: SessionSettings = UNCHANGED) -> Experiment:
    """A new run directory beside a run's, with its records and traces of every arm that is what it was; all else is to be run.

    Raises RunError where nothing has changed, or nothing can be taken over, and ValueError; then there is no new directory. A kill
    on the way leaves none either, but a hidden one, named `.NAME.part`, that nothing reads.
    """
    refuse_optimization(folder, "forked")
    begun = look_again(folder, allowed, session)
    if not begun.changes:
        words = [quoted(folder), *resume_flags(begun.config)]
        raise RunError(f"{folder}: nothing has changed since this run began; go on with it: loopbench resume {' '.join(words)}")
    if begun.config.cassette is not None and not begun.config.replays:
        raise RunError(f"{folder}: this run records, and a recording is of one run; start a new run with a recording of its own")
    with locked(folder):
        records = _that_hold(begun)
        answers = begun.trial_models()
        made = _made(begun, records)
    return Experiment(
        made,
        begun.config,
        begun.suite,
        begun.tasks,
        begun.arms,
        _manifest(begun, records),
        answers,
        read_state(made),
        session.retry,
    )


def _that_hold(begun: Reopened) -> list[Record]:
    """The records of arms on the same ground. Raises RunError where there is none."""
    then, now = begun.manifest, begun.today
    anew = "start a new run with the same settings"
    shared = suite_changes(then, now)
    if shared:
        raise RunError(f"{begun.folder}: nothing can be taken over, all trials rest on what has changed: {summary(shared)}; {anew}")
    hold = {arm.arm for arm in now.arms if then.arm(arm.arm) == arm and then.profiles[arm.profile] == now.profiles[arm.profile]}
    records = [record for record in read_records(begun.folder) if record.arm in hold]
    if not records:
        raise RunError(f"{begun.folder}: nothing can be taken over: no arm that is what it was has a trial; {anew}")
    return records


def _manifest(begun: Reopened, records: Sequence[Record]) -> Manifest:
    """Today's, and what else the older one has to say; what it spent in trials without a record is no matter of the new run."""
    source = {"run": begun.folder.resolve().name, "digest": records_digest(records), "trials": len(records)}
    kept = {name: value for name, value in begun.manifest.to_json().items() if name not in ("cut_short", "extended", *NOTES)}
    now = {name: value for name, value in begun.today.to_json().items() if name != "config"}
    notes = {name: [note.to_json() for note in found] for name, found in notes_on(begun.manifest, records).items() if found}
    problems = quick_problems(begun.suite, begun.tasks)
    return Manifest.model_validate(kept | now | notes | {"suite_problems": problems, "forked_from": source})


NOTES = ("retried", "rescored")


def notes_on(manifest: Manifest, records: Sequence[Record]) -> dict[str, tuple[Note, ...]]:
    """Return what a manifest notes of records that another run takes over: at most as many as a note can mean."""
    most = {"retried": sum(record.attempt > 0 for record in records), "rescored": len(records)}
    return {
        name: tuple(note.model_copy(update={"trials": min(note.trials, count)}) for note in getattr(manifest, name))
        if count
        else ()
        for name, count in most.items()
    }


def _made(begun: Reopened, records: Sequence[Record]) -> Path:
    """The directory, which bears its name once it is whole."""
    folder = begun.folder.resolve().parent / new_name(begun.suite.name)
    scratch = folder.with_name(f".{folder.name}.part")
    scratch.mkdir()
    try:
        _copy(begun.folder, records, scratch)
        write_manifest(scratch, _manifest(begun, records))
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return begun.folder.parent / folder.name if begun.folder.name == begun.folder.resolve().name else folder


def _copy(source: Path, records: Sequence[Record], into: Path) -> None:
    """Records with their traces. Raises RunError for a trace that cannot be read."""
    traces = Traces(source)
    with Journal(into) as journal:
        for record in records:
            line = b""
            if record.trace_at is not None:
                line = json.dumps(traces.read(record), separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
            journal.append(replace(record, trace_at=None), line)
