"""Many trials: the same results at any concurrency and over any interruption, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kept import put, rows
from tests.runs.conftest import Told
from tests.sealing import reseal
from whichloop.datasets.task import Suite
from whichloop.experiments.compare.reopen import SessionSettings, reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import Experiment, prepare, run
from whichloop.metrics.record import records_digest
from whichloop.models.metering import Meter
from whichloop.models.profiles import load_profile
from whichloop.protocol import BudgetExceeded, Capabilities, Chunk, Loop, Outcome, ProviderError, Reply, Request, StopReason
from whichloop.protocol.names import Spec
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import SLICE, Unwatched, run_trials
from whichloop.runs.permissions import Permissions
from whichloop.runs.run_state import MAX_ATTEMPTS
from whichloop.runs.schedule import Arm, Trial
from whichloop.runs.store.files import RunError
from whichloop.runs.store.trials import TRIALS, TrialWriter, read_records
from whichloop.runs.trial.trial import NotRun, TrialContext, run_trial


def trials_of(suite: Suite, loop: Loop) -> list[Trial]:
    arm = Arm("arm", Spec("loop", {}), loop, "scripted", load_profile("clean"))
    return [Trial(arm, task, 0, 0) for task in suite.tasks]


def lines(folder: Path) -> list[tuple[str, str, int]]:
    """Which trial each row is of."""
    return [(row["arm"], row["task"], row["repeat"]) for row in rows(folder)]


def done(config: CompareConfig) -> Results:
    experiment = prepare(config)
    assert run(experiment, Told()) == ""
    return results(experiment.folder)


# --- digests ---


def test_results_are_equal_at_any_concurrency(configured):
    found = [done(configured(concurrency=concurrency, suite="arithmetic(size=6)", repeats=2)) for concurrency in (1, 3, 64)]
    assert len({one.digest for one in found}) == 1
    for one in found:
        assert len(lines(one.folder)) == len(set(lines(one.folder))) == one.scheduled == 2 * 6 * 2
        assert one.is_complete


def test_another_seed_gives_other_results(configured):
    assert done(configured(seed=1)).digest != done(configured(seed=2)).digest


def test_an_arms_results_do_not_depend_on_the_arms_beside_it(configured):
    def of_bare(config: CompareConfig) -> str:
        return records_digest([record for record in done(config).records if record.arm == "bare/flaky-tools"])

    alone = of_bare(configured(profiles=("flaky-tools",)))
    assert alone == of_bare(configured(loops=("bare(check_types=true)", "bare"), profiles=("flaky-tools", "stubborn")))


def test_progress_hears_of_each_trial_once(configured):
    experiment, progress = prepare(configured(repeats=2)), Told()
    run(experiment, progress)
    heard = [record.key for record in progress.records]
    assert len(heard) == len(set(heard)) == experiment.trials
    assert set(heard) == set(lines(experiment.folder))


def test_a_resume_of_a_finished_run_runs_nothing(configured):
    first = done(configured())
    before = rows(first.folder)
    again, progress = reopen(first.folder), Told()
    assert len(again.missing()) == len(list(again.missing())) == 0
    assert run(again, progress) == ""
    assert progress.records == []
    assert rows(first.folder) == before


@pytest.mark.parametrize("kept", [0, 8, 11])
def test_a_resume_runs_what_is_missing_and_nothing_else(configured, kept):
    whole = done(configured())
    put(whole.folder, rows(whole.folder)[:kept])
    again, progress = reopen(whole.folder), Told()
    assert len(again.missing()) == whole.scheduled - kept
    run(again, progress)
    assert len(progress.records) == whole.scheduled - kept
    assert len(lines(whole.folder)) == len(set(lines(whole.folder))) == whole.scheduled
    assert results(whole.folder).digest == whole.digest


def test_a_run_that_another_process_went_on_with_meanwhile_is_not_done_again(configured):
    fresh = prepare(configured())
    stale = reopen(fresh.folder)
    run(fresh, Told())
    progress = Told()
    run(stale, progress)
    assert progress.records == []


# --- interruption ---


def test_cancellation_keeps_what_was_finished(configured):
    experiment, progress = prepare(configured(suite="arithmetic(size=200)")), Told()

    async def go() -> None:
        setting = TrialContext(experiment.suite)
        with TrialWriter(experiment.folder) as opened:
            execute = partial(run_trial, setting=setting)
            running = asyncio.create_task(run_trials(experiment.missing(), execute, opened, progress, 8))
            while len(progress.records) < 20:
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(go())
    kept = lines(experiment.folder)
    assert 20 <= len(kept) == len(set(kept)) == len(progress.records) < experiment.trials


def test_the_runs_budget_stops_cleanly_and_a_resume_finishes(configured):
    whole = done(configured())
    experiment = prepare(configured(budget={"calls": 50}, concurrency=4))
    stopped = run(experiment, Told())
    assert stopped == "budget of 50 model calls used up"
    found = results(experiment.folder)
    assert 0 < len(found.records) < found.scheduled
    assert not found.is_complete
    assert sum(record.lm_calls for record in found.records) <= 50
    before = rows(experiment.folder)
    assert run(reopen(experiment.folder), Told()) == stopped  # nothing is run: the budget is the whole run's
    assert rows(experiment.folder) == before
    assert run(reopen(experiment.folder, session=SessionSettings({"budget": {"calls": 100_000}})), Told()) == ""
    assert results(experiment.folder).digest == whole.digest
    assert len(lines(experiment.folder)) == len(set(lines(experiment.folder))) == whole.scheduled


def test_replies_to_the_first_trials_are_not_kept_waiting_until_all_have_begun(tiny, written, tmp_path):
    begun: list[str] = []
    seen: list[int] = []

    async def execute(trial: Trial) -> Any:
        begun.append(trial.task.id)
        await asyncio.sleep(0)  # a reply that comes at once
        seen.append(len(begun))
        raise NotRun("no more")

    async def go() -> None:
        with TrialWriter(tmp_path / "run") as kept:
            await run_trials(trials_of(tiny(), written(execute)) * (3 * SLICE), execute, kept, Unwatched(), 3 * SLICE)

    (tmp_path / "run").mkdir()
    asyncio.run(go())
    assert seen[0] <= 2 * SLICE


def test_a_run_that_another_process_stops_lets_no_request_through_though_its_own_meter_has_no_budget():
    class Stopped(Meter):
        exhausted = "stopped elsewhere"  # as that of a worker process says

    meter = Meter(parent=Stopped())
    with pytest.raises(BudgetExceeded, match="stopped elsewhere"):
        meter.admit()
    assert (meter.refused, meter.calls) == ("stopped elsewhere", 0)


def test_what_ended_is_on_the_disk_within_a_second_though_no_other_trial_ends(tiny, written, tmp_path, monkeypatch):
    monkeypatch.setattr("whichloop.runs.store.trials.BATCH_S", 0.05)
    suite = tiny()
    suite = replace(suite, tasks=tuple(replace(suite.tasks[0], id=name) for name in ("quick", "slow")))
    seen: list[list[str]] = []

    async def slow_after_the_first(query: Any, tools: Any, model: Any, observer: Any) -> Outcome:
        started.append(1)
        if len(started) == 2:
            await asyncio.sleep(0.4)
            seen.append([record.task for record in read_records(tmp_path)])
        return Outcome("42", StopReason.FINISHED, 0)

    started: list[int] = []
    with TrialWriter(tmp_path) as opened:
        execute = partial(run_trial, setting=TrialContext(suite))
        asyncio.run(run_trials(trials_of(suite, written(slow_after_the_first)), execute, opened, Told(), 2))
    assert seen == [["quick"]]


def test_a_disk_that_fails_ends_the_run_with_one_plain_error(configured, monkeypatch):
    experiment = prepare(configured())

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("whichloop.runs.store.trials.TrialFile._add", full)
    with pytest.raises(RunError, match=r"trials\.sqlite: database or disk is full; what was written before is whole"):
        run(experiment, Told())
    monkeypatch.undo()
    assert lines(experiment.folder) == []
    assert run(reopen(experiment.folder), Told()) == ""
    assert results(experiment.folder).is_complete


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_swallows_cancellation_does_not_keep_the_run_from_ending(tiny, written, tmp_path, monkeypatch):
    monkeypatch.setattr("whichloop.runs.trial.trial.GRACE_S", 0.1)

    async def immortal(*arguments: Any) -> Outcome:
        while True:
            with contextlib.suppress(BaseException):
                await asyncio.sleep(0.01)

    suite, began = tiny(), time.monotonic()
    with TrialWriter(tmp_path) as opened:
        execute = partial(run_trial, setting=TrialContext(suite, timeout_s=0.1))
        asyncio.run(run_trials(trials_of(suite, written(immortal)), execute, opened, Told(), 2))
    assert time.monotonic() - began < 5
    assert [record.stop for record in read_records(tmp_path)] == ["timeout"]


# --- errored trials ---


class Down:
    """A provider that is out of order until told otherwise."""

    name = "openai/fake"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.works = False

    async def complete(self, request: Request) -> Reply:
        if not self.works:
            raise ProviderError("connection refused", "connection")
        return Reply('{"final_answer": "42"}')

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(reply=await self.complete(request))

    async def aclose(self) -> None:
        return None


@pytest.fixture
def real(configured, monkeypatch) -> tuple[Experiment, Down]:
    """An experiment on a real model that is down."""
    model = Down()
    monkeypatch.setattr("whichloop.runs.real_models.open_model", lambda *arguments, **options: model)
    return prepare(configured(models=("openai/fake",), profiles=("clean",), suite="arithmetic(size=3)")), model


def test_errored_trials_are_tried_again_on_resume_a_bounded_number_of_times(real):
    experiment, _ = real
    run(experiment, Told())
    for attempt in range(1, MAX_ATTEMPTS + 2):
        found = results(experiment.folder)
        assert [record.status for record in found.records] == ["errored"] * 3
        assert {record.attempt for record in found.records} == {min(attempt, MAX_ATTEMPTS) - 1}
        assert {record.reason for record in found.records} == {"provider: connection refused"}
        again = reopen(experiment.folder)
        assert len(again.missing()) == (3 if attempt < MAX_ATTEMPTS else 0)
        run(again, Told())
    assert len(lines(experiment.folder)) == 3 * MAX_ATTEMPTS


def test_a_trial_that_gets_through_on_resume_counts_once(real):
    experiment, model = real
    run(experiment, Told())
    model.works = True
    assert run(reopen(experiment.folder), Told()) == ""
    found = results(experiment.folder)
    assert [(record.status, record.attempt) for record in found.records] == [("scored", 1)] * 3
    assert found.comparison.arms[0].summary.trials == 3
    assert len(reopen(experiment.folder).missing()) == 0


# --- what a resume refuses ---


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("suite", "digest"), "0" * 64, r"suite arithmetic \(its tasks, tools or expected answers\); .* whichloop resume"),
        (("suite", "tasks"), 3, r"the number of tasks \(3, now 6\)"),
        (("profiles", "flaky-tools"), "0" * 64, "fault profile flaky-tools; .* start a new run"),
        (("versions", "policy_and_profiles"), -1, r"the scripted model \(version -1, now \d+\)"),
        (("arms", 0, "code"), "0" * 64, r"arm bare/flaky-format \(its code\); .* start a new run"),
        (("arms", 0, "configuration"), "Bare()", r"arm bare/flaky-format \(its configuration\)"),
        (("arms",), [], r"arm bare/flaky-format \(there was none\), arm bare/flaky-tools"),
        (("config", "loops"), ["bear"], "--allow bear"),
        (("config", "tsks"), 3, "manifest.json: tsks: there is no such setting; did you mean 'tasks'"),
    ],
)
def test_a_run_whose_ground_has_changed_is_not_continued(configured, path, value, said):
    experiment = prepare(configured())
    file = experiment.folder / "manifest.json"
    manifest = json.loads(file.read_text())
    inner = manifest
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    file.write_text(json.dumps(manifest))
    reseal(file)
    with pytest.raises(ValueError, match=said) as caught:
        reopen(experiment.folder)
    assert "\n" not in str(caught.value)
    assert not (experiment.folder / TRIALS).exists()


def test_an_option_of_any_kind_survives_the_manifest(configured, tmp_path, monkeypatch):
    (tmp_path / "own_options.py").write_text(
        "import datetime\n"
        "class Mine:\n"
        "    name, stops = 'mine', frozenset()\n"
        "    def __init__(self, when: datetime.date, rate: float = 1.0, tags: frozenset[str] = frozenset()): pass\n"
        "    def with_step_limit(self, n): return self\n"
        "    async def run(self, *arguments): raise NotImplementedError\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    experiment = prepare(
        configured(loops=("own_options:Mine(when=2020-01-01, rate=inf, tags=['a', 'b'])",), suite="arithmetic(size=2)")
    )
    assert experiment.manifest.arms[0].options == {"rate": "Infinity", "tags": ["a", "b"], "when": "2020-01-01"}
    with pytest.raises(RunError, match="--allow own_options:Mine"):
        reopen(experiment.folder)
    run(reopen(experiment.folder, Permissions(code=["own_options:Mine"])), Told())
    assert results(experiment.folder).comparison.arms[0].summary.stops == {"crashed": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {"loops": ("bear",)},
        {"loops": ("bare", "bare()")},
        {"suite": "nope"},
        {"suite": "gsm8k"},
        {"profiles": ("nope",)},
        {"profiles": ("nope.toml",)},
        {"models": ("gpt",), "profiles": ("clean",)},
    ],
)
def test_bad_input_leaves_nothing_behind(configured, changes):
    config = configured(**changes)
    with pytest.raises((ValueError, OSError)) as caught:
        prepare(config)
    assert "\n" not in str(caught.value)
    assert not config.runs.exists()


def test_a_suites_name_cannot_lead_out_of_the_runs_folder(configured, tmp_path, monkeypatch):
    (tmp_path / "own_named.py").write_text(
        "from dataclasses import replace\n"
        "from whichloop.datasets.arithmetic import load\n"
        "def suite(): return replace(load(size=1), name='../../x y/' + 'n' * 300)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = configured(suite="own_named:suite")
    folder = prepare(config).folder
    assert folder.resolve().parent == config.runs.resolve()
    assert " " not in folder.name
