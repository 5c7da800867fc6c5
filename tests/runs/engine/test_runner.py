"""Many trials: the same results at any concurrency and over any interruption, nothing lost, nothing twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kept import put, rows
from tests.runs.conftest import Told
from tests.sealing import reseal
from whichloop.experiments.compare.reopen import reopen
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import Experiment, prepare, run
from whichloop.metrics.record import records_digest
from whichloop.protocol import Capabilities, ProviderError, Reply, Request
from whichloop.protocol.model import StreamsWhole
from whichloop.runs.config import CompareConfig
from whichloop.runs.schedule import MAX_ATTEMPTS
from whichloop.runs.store.trials import TRIALS


def lines(folder: Path) -> list[tuple[str, str, int]]:
    """Which trial each row is of."""
    return [(row["arm"], row["task"], row["repeat"]) for row in rows(folder)]


def done(config: CompareConfig) -> Results:
    experiment = prepare(config)
    assert run(experiment, Told()) == ""
    return results(experiment.folder)


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


@pytest.mark.parametrize("kept", [0, 8, 12])
def test_a_resume_runs_what_is_missing_and_nothing_else(configured, kept):
    whole = done(configured())
    put(whole.folder, rows(whole.folder)[:kept])
    again, progress = reopen(whole.folder), Told()
    assert len(again.missing()) == whole.scheduled - kept
    run(again, progress)
    assert len(progress.records) == whole.scheduled - kept
    assert len(lines(whole.folder)) == len(set(lines(whole.folder))) == whole.scheduled
    assert results(whole.folder).digest == whole.digest


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
    assert run(reopen(experiment.folder, settings={"budget": {"calls": 100_000}}), Told()) == ""
    assert results(experiment.folder).digest == whole.digest
    assert len(lines(experiment.folder)) == len(set(lines(experiment.folder))) == whole.scheduled


class Down(StreamsWhole):
    """A provider that is out of order until told otherwise."""

    name = "openai/fake"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.works = False

    async def complete(self, request: Request) -> Reply:
        if not self.works:
            raise ProviderError("connection refused", "connection")
        return Reply('{"final_answer": "42"}')

    async def aclose(self) -> None:
        return None


@pytest.fixture
def real(configured, monkeypatch) -> tuple[Experiment, Down]:
    """An experiment on a real model that is down."""
    model = Down()
    monkeypatch.setattr("whichloop.models.local.model.open_model", lambda *arguments, **options: model)
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


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("suite", "digest"), "0" * 64, r"suite arithmetic \(its tasks, tools or expected answers\); .* whichloop resume"),
        (("profiles", "flaky-tools"), "0" * 64, "fault profile flaky-tools; .* start a new run"),
        (("versions", "policy_and_profiles"), -1, r"the scripted model \(version -1, now \d+\)"),
        (("arms", 0, "code"), "0" * 64, r"arm bare/flaky-format \(its code\); .* start a new run"),
        (("arms",), [], r"arm bare/flaky-format \(there was none\), arm bare/flaky-tools"),
        (("config", "loops"), ["bear"], "--allow bear"),
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


@pytest.mark.parametrize(
    "changes", [{"loops": ("bear",)}, {"suite": "nope"}, {"profiles": ("nope",)}, {"models": ("gpt",), "profiles": ("clean",)}]
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
