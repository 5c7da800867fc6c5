"""Trials in worker processes: the same records as in one process, whatever a trial does to its worker."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from whichloop.experiments.compare import run as running
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import MAX_SHARING, MIN_SHARED, prepare, run, run_apart, workers_for
from whichloop.runs.engine import pool
from whichloop.runs.engine.job import SeenLines
from whichloop.runs.engine.messages import WorkerError
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.manifest import read_manifest
from whichloop.runs.permissions import Permissions
from whichloop.runs.schedule import read_state
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import read_records

CLEAN = ("clean",)


def test_results_are_those_of_one_process(ran, undisturbed, workers_of):
    asked = {"loops": ("bare", "finish", "phased"), "suite": "arithmetic(size=3)", "repeats": 2}
    here, there = undisturbed(**asked), ran(**asked, workers=2, concurrency=5)
    assert there.is_whole
    assert there.digest == here.digest
    assert there.told.notes == []
    assert _without_times(there) == _without_times(here)
    heard = [record.key for record in there.told.records]
    assert len(heard) == len(set(heard)) == there.experiment.trials
    assert workers_of(os.getpid()) == []


def _without_times(found):
    """All that records hold but times and places: floats, tuples and numbers of steps come through whole."""
    records = sorted(found.records, key=lambda record: record.key)
    return [replace(record, seconds=0, wall_s=0, started_at=0, trace_at=0) for record in records]


@pytest.mark.thorough
def test_a_trial_that_kills_its_process_is_given_up_and_harms_no_other(nasty, ran, undisturbed):
    alone = undisturbed(profiles=CLEAN)
    loops = ("bare", "nasty:Exits", "nasty:Dies", "nasty:LeavesAChild", "nasty:Prints")
    found = ran(loops=loops, suite="arithmetic(size=6)", tasks=1, profiles=CLEAN, workers=1, concurrency=2)
    assert found.is_whole
    (exits,), (dies,), (leaves,) = map(found.of, ("Exits", "Dies", "LeavesAChild"))
    assert (exits.status, exits.stop) == ("scored", "crashed")
    assert exits.reason.startswith("SystemExit: code of a loop, a tool or a suite called os._exit(7) at nasty.py:")
    for died in (dies, leaves):
        assert (died.status, died.reason) == ("errored", "its worker process died (signal 9) three times")
    assert found.of("bare")[0].trace_digest == alone.of("bare")[0].trace_digest
    assert [record.stop for record in found.of("Prints")] == ["finished"]
    assert any("died (signal 9)" in note for note in found.told.notes)


@pytest.mark.thorough
def test_a_loop_that_blocks_is_ended_with_its_process_and_the_others_are_as_if_alone(nasty, ran, undisturbed):
    """Whatever code holds it up: Python's, or one in C that never gives Python its turn."""
    asked = {"suite": "arithmetic(size=1)", "profiles": ("flaky-tools",)}
    alone = undisturbed(loops=("bare", "finish"), **asked)
    loops = ("bare", "nasty:HoldsOn", "nasty:Swallows", "finish")
    found = ran(loops=loops, **asked, workers=2, concurrency=4, trial_timeout_s=0.5)
    assert found.is_whole
    for loop in ("HoldsOn", "Swallows"):
        (busy,) = found.of(loop)
        assert (busy.status, busy.stop, busy.accuracy) == ("scored", "timeout", 0.0)
        assert "let nothing else run" in busy.reason
        assert "its process was killed" in busy.reason
        assert re.search(r" at nasty\.py:\d+$", busy.reason)
    kept = {record.key: record.trace_digest for record in found.records if "nasty" not in record.arm}
    assert kept == {record.key: record.trace_digest for record in alone.records}


@pytest.mark.thorough
@pytest.mark.parametrize(("loop", "is_whole"), [("Prints", True), ("HoldsOn", False)])
def test_of_the_lines_of_a_trial_whose_worker_is_lost_nobody_claims_to_know(nasty, configured, told, loop, is_whole):
    """It may have come to any of them: a gate that named those that no trial ran might name some that this one did."""
    asked = {"loops": (f"nasty:{loop}",), "suite": "arithmetic(size=1)", "profiles": CLEAN, "trial_timeout_s": 0.5}
    experiment = replace(prepare(configured(**asked, workers=1)), lines=SeenLines({"nasty.py": nasty}))
    assert run(experiment, told()) == ""
    assert experiment.lines is not None
    assert bool(experiment.lines.of("nasty.py")) is is_whole
    assert experiment.lines.is_whole is is_whole


@pytest.mark.parametrize("workers", [None, 1])
def test_what_trials_leave_behind_is_not_waited_for(nasty, ran, workers):
    loops = ("nasty:Hangs", "nasty:Lingers")[: 2 if workers else 1]  # no process but a worker ends beside a task that swallows all
    found = ran(loops=loops, suite="arithmetic(size=2)", profiles=CLEAN, workers=workers, trial_timeout_s=0.3)
    assert found.is_whole


def test_one_worker_begins_no_call_once_the_runs_budget_is_spent(ran):
    """However quick its trials are: it does not wait to hear of it."""
    found = ran(loops=("finish",), suite="arithmetic(size=4)", workers=1, concurrency=1, budget={"calls": 20})
    assert found.stopped == "budget of 20 model calls used up"
    spent = read_state(found.experiment.folder).spent + read_manifest(found.experiment.folder).cut_short
    assert len(found.records) < found.experiment.trials
    assert spent.calls == 20


def test_a_recording_has_one_writer(configured, tmp_path):
    with pytest.raises(ValueError, match="only one process may record"):
        configured(cassette=tmp_path, cassette_mode="record", workers=2)


def test_other_code_than_this_process_has_is_refused(nasty, configured, told):
    """The file changes after this process has read it, and before its workers do."""
    experiment = prepare(configured(loops=("nasty:Prints",), profiles=CLEAN, workers=2))
    nasty.write_text(nasty.read_text().replace('print("printed"', 'print("something else"'))
    with pytest.raises(WorkerError, match=r"worker [12]: it has other code or data than this process: arms changed"):
        run(experiment, told())


@pytest.mark.thorough
def test_where_every_worker_dies_at_its_start_the_run_ends_with_one_line(nasty, configured, told, monkeypatch):
    monkeypatch.setattr(pool, "MAX_IDLE_DEATHS", 2)
    experiment = prepare(configured(loops=("nasty:Prints",), profiles=CLEAN, workers=1))
    nasty.write_text("import os\nos._exit(3)\n")
    with pytest.raises(WorkerError, match=r"worker 3 died \(exit code 3\), as did 2 before it, and nothing was done"):
        run(experiment, told())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("loop", "said"),
    [("Leaves", "SystemExit 0"), ("CancelsAll", "CancelledError"), ("StopsTheLoop", "RuntimeError Event loop stopped")],
)
def test_what_ends_the_event_loop_is_told_and_leaves_a_run_to_go_on_with(nasty, ran, tmp_path, loop, said):
    with pytest.raises(RunError, match=rf"code of a loop or a tool ended the run \({said}.*--workers N") as caught:
        ran(loops=("bare", f"nasty:{loop}"), suite="arithmetic(size=2)", profiles=CLEAN, concurrency=1)
    assert "\n" not in str(caught.value)
    (folder,) = (tmp_path / "runs").iterdir()
    assert [record.arm for record in read_records(folder)] == ["bare/clean"]
    assert len(reopen(folder, Permissions(code=[f"nasty:{loop}"])).missing()) == 3


@pytest.mark.thorough
def test_files_of_the_current_folder_do_not_replace_what_a_worker_begins_with(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logging.py").write_text("raise RuntimeError('not this one')\n")
    assert ran(suite="arithmetic(size=2)", workers=1).is_whole


def test_many_quick_trials_are_shared_among_processors(configured, monkeypatch):
    config, counts = configured(loops=("bare", "repeat_guard(inner=finish)")), {}
    for processors in (1, 2, MAX_SHARING, 64):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, n=processors: set(range(n)))
        counts[processors] = workers_for(config, MIN_SHARED)
    assert counts == {1: 0, 2: 2, MAX_SHARING: MAX_SHARING, 64: MAX_SHARING}
    assert workers_for(config, MIN_SHARED - 1) == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"loops": ("bare", "own:Loop")},
        {"loops": ("bare", 'repeat_guard(inner="own:Loop")')},
        {"loops": ("program(command=agent)",)},
        {"models": ("openai/gpt-4o-mini",), "profiles": ("clean",)},
        {"suite": "own:tasks"},
        {"engine": "ray"},
        {"real_time": True},
    ],
    ids=str,
)
def test_what_is_not_ours_or_is_set_stays_in_one_process(configured, monkeypatch, changed):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert workers_for(configured(), MIN_SHARED) == 2
    assert workers_for(configured(**changed), MIN_SHARED) == 0


def test_shared_trials_give_the_digest_of_one_process(configured, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(running, "MIN_SHARED", 2)
    shared, alone = prepare(configured()), prepare(configured())
    assert (run_apart(shared, Unwatched()), run(alone, Unwatched())) == ("", "")
    assert results(shared.folder).digest == results(alone.folder).digest
    assert results(shared.folder).manifest.settings.workers is None
