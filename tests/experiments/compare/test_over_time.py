"""A run over time: however its schedule is cut into sittings, and extensions, its results are those of one whole run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.experiments.running import Told
from tests.kept import put, rows
from whichloop.experiments.compare.reopen import extend, reopen
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.run import Experiment, prepare, run
from whichloop.metrics.caveats import Caveat
from whichloop.metrics.record import Record
from whichloop.models.profiles import Profile
from whichloop.protocol import Capabilities, ProviderError, Reply, Request
from whichloop.runs.config import CompareConfig
from whichloop.runs.permissions import Permissions, resume_flags
from whichloop.runs.schedule import covered_s, read_state
from whichloop.runs.store.files import MANIFEST, RunError, locked, read_manifest_json, write_manifest_json
from whichloop.runs.store.trials import TrialWriter, read_records

BARE = "bare(check_types=true)"


def config_of(folder: Path, **changes: Any) -> CompareConfig:
    """Bare over three tasks, without MLflow."""
    values: dict[str, Any] = {"loops": ("bare",), "suite": "arithmetic(size=9)", "tasks": 3, "profiles": ("flaky-format",)}
    return CompareConfig(**(values | {"runs": folder / "runs", "mlflow": False, "concurrency": 3} | changes))


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., CompareConfig]:
    return lambda **changes: config_of(tmp_path, **changes)


def went_on(experiment: Experiment) -> list[Record]:
    """What was run."""
    progress = Told()
    assert run(experiment, progress) == ""
    return progress.records


def begun(config: CompareConfig) -> Path:
    """The directory of a whole run."""
    experiment = prepare(config)
    assert run(experiment, Told()) == ""
    return experiment.folder


def lines(folder: Path) -> list[tuple[str, str, int]]:
    return [(row["arm"], row["task"], row["repeat"]) for row in rows(folder)]


def kill(folder: Path, kept: int) -> None:
    """As if the process had been killed when so many trials were on the disk."""
    put(folder, rows(folder)[:kept])


def change(folder: Path, **parts: Any) -> None:
    write_manifest_json(folder, read_manifest_json(folder) | parts)


STEPS: dict[str, dict[str, Any]] = {
    "loop": {"loops": (BARE,)},
    "profile": {"profiles": ("flaky-tools",)},
    "repeats": {"repeats": 2},
    "tasks": {"tasks": 5},
}

WHOLE: dict[str, Any] = {"loops": ("bare", BARE), "profiles": ("flaky-format", "flaky-tools"), "repeats": 2, "tasks": 5}


@dataclass(frozen=True)
class Stage:
    """What happens to a run between two additions."""

    kept: int
    """Trials that outlive a kill."""
    ends: bool
    """It is then gone on with to its end."""


stages = st.builds(Stage, st.integers(0, 12), st.booleans())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the whole run."""
    return results(begun(config_of(tmp_path_factory.mktemp("whole"), **WHOLE))).digest


@pytest.mark.thorough
@settings(max_examples=cases(3))
@given(order=st.permutations(sorted(STEPS)), between=st.lists(stages, min_size=5, max_size=5))
def test_sittings_and_extensions_in_any_order_give_the_results_of_one_run(whole, tmp_path_factory, order, between):
    experiment = prepare(config_of(tmp_path_factory.mktemp("parts")))
    for step, stage in zip([*order, None], between, strict=True):
        went_on(experiment)
        folder = experiment.folder
        kill(folder, stage.kept)
        if stage.ends:
            went_on(reopen(folder))
        before = {record.key for record in read_records(folder)}
        if step is not None:
            experiment = extend(folder, STEPS[step])
            assert {record.key for record in read_records(folder)} >= before
        else:
            experiment = reopen(folder)
    went_on(experiment)
    found = results(experiment.folder)
    assert (found.digest, found.is_complete) == (whole, True)
    assert len(lines(experiment.folder)) == len(set(lines(experiment.folder))) == found.scheduled


def test_every_limit_counts_what_was_spent_before(configured):
    experiment = prepare(configured(tasks=9, budget={"seconds": 1e-9}))
    stopped = run(experiment, Told())
    assert stopped.startswith("budget of ")
    progress = Told()
    assert run(reopen(experiment.folder), progress) == stopped
    assert progress.records == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=8))
def test_seconds_are_those_in_which_any_trial_was_under_way(spans):
    starts, lengths = np.array(spans, dtype=np.float64).reshape(-1, 2).T
    assert covered_s(starts, starts + lengths) == len(
        {second for start, length in spans for second in range(start, start + length)}
    )


def test_every_attempt_counts_and_a_line_that_judges_one_again_does_not(record, tmp_path):
    with TrialWriter(tmp_path) as journal:
        journal.append(record(status="errored", calls={"decide": 3}, started_at=0.0, wall_s=2.0), b"")
        journal.append(record(attempt=1, calls={"decide": 4}, started_at=1.0, wall_s=2.0), b"")
        journal.append(record(attempt=1, calls={"decide": 4}, started_at=1.0, wall_s=2.0, scores={"accuracy": 0.0}), b"")
    past = read_state(tmp_path)
    assert (past.spent.calls, past.spent.seconds) == (7, 3.0)
    assert [(ended.status, ended.attempt) for ended in past.ended.values()] == [("scored", 1)]


def test_a_run_carries_the_profiles_of_its_users_own(configured, tmp_path):
    own = {name: Profile(name=name, forget=0.2) for name in ("mine", "added")}
    files = {name: tmp_path / f"{name}.toml" for name in own}
    for name, file in files.items():
        file.write_text(own[name].to_toml())
    folder = prepare(configured(profiles=("clean", str(files["mine"])))).folder
    assert read_manifest_json(folder)["own_profiles"] == {"mine": own["mine"].effects()}
    extend(folder, {"profiles": (str(files["added"]),)})
    assert read_manifest_json(folder)["own_profiles"] == {name: profile.effects() for name, profile in own.items()}
    assert "own_profiles" not in read_manifest_json(prepare(configured()).folder)


def test_a_cluster_is_reached_only_where_it_was_typed(configured):
    folder = prepare(configured()).folder
    config = read_manifest_json(folder)["config"]
    change(folder, config={**config, "engine": "ray", "address": "ray://10.9.9.9:10001"})
    here, there = reopen(folder).config, reopen(folder, settings={"address": "auto"}).config
    assert (here.engine, here.address) == ("local", None)
    assert (there.engine, there.address) == ("ray", "auto")


def test_a_store_is_logged_to_only_where_it_was_typed(configured):
    folder = prepare(configured()).folder
    uri = "https://user:secret@mlflow.example:5000"
    change(folder, config={**read_manifest_json(folder)["config"], "tracking_uri": uri, "mlflow": True})
    for allowed in (Permissions(), Permissions(tracking_uri="https://other.example")):
        with pytest.raises(RunError, match=r"-s tracking_uri=https://mlflow\.example:5000") as caught:
            reopen(folder, allowed)
        assert "secret" not in str(caught.value)
        with pytest.raises(RunError, match="-s tracking_uri"):
            extend(folder, {"repeats": 2}, allowed)
    typed = reopen(folder, Permissions(tracking_uri="https://me:mine@mlflow.example:5000")).config
    assert (typed.tracking_uri, typed.mlflow) == ("https://me:mine@mlflow.example:5000", True)
    assert resume_flags(typed) == ["-s", "tracking_uri=https://mlflow.example:5000"]
    without = reopen(folder, settings={"mlflow": False}).config
    assert (without.mlflow, resume_flags(without)) == (False, [])


class Down:
    """A provider that is out of order until told otherwise."""

    name = "openai/fake"
    capabilities = Capabilities()
    works = False

    async def complete(self, request: Request) -> Reply:
        if not self.works:
            raise ProviderError("connection refused", "connection")
        return Reply('{"final_answer": "42"}')


@pytest.fixture
def down(configured, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Down]:
    """A run of three trials on a model that is down, and the model; each trial was tried as often as it is by itself."""
    model = Down()
    monkeypatch.setattr("whichloop.models.local.model.open_model", lambda *arguments, **options: model)
    folder = begun(configured(models=("openai/fake",), profiles=("clean",)))
    for _ in range(3):
        went_on(reopen(folder))
    assert [(record.status, record.attempt) for record in read_records(folder)] == [("errored", 2)] * 3
    return folder, model


def test_infrastructure_is_tried_again_on_request_however_often_it_was(down):
    folder, model = down
    assert len(reopen(folder).missing()) == 0
    assert {record.attempt for record in went_on(reopen(folder, retry="infrastructure"))} == {3}
    model.works = True
    assert {(record.status, record.attempt) for record in went_on(reopen(folder, retry="infrastructure"))} == {("scored", 4)}
    assert len(reopen(folder, retry="infrastructure").missing()) == 0
    assert "retried" not in read_manifest_json(folder)


CRASHING = """
from whichloop.protocol import Outcome, StopReason
class Mine:
    name, stops = "own", frozenset()
    def with_step_limit(self, tool_steps): return self
    async def run(self, query, tools, model, observer=None):
        if broken: raise RuntimeError("broken")
        return Outcome("1", StopReason.FINISHED, 0)
broken = True
"""


def test_what_crashed_is_run_again_on_request_only_and_the_results_say_so_for_good(configured, tmp_path, monkeypatch):
    (tmp_path / "own_crashing.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(tmp_path)
    folder = begun(configured(loops=("own_crashing:Mine",), profiles=("clean",)))
    allowed = Permissions(["own_crashing:Mine"])
    for retry in (None, "infrastructure"):
        assert len(reopen(folder, allowed, retry=retry).missing()) == 0
    importlib.import_module("own_crashing").broken = False  # type: ignore[attr-defined]
    again = reopen(folder, allowed, retry="errors")
    assert (again.missing().favoured, again.missing().again) == (3, 3)
    assert {(record.stop, record.attempt) for record in went_on(again)} == {("finished", 1)}
    note = read_manifest_json(folder)["retried"]
    assert [(entry["what"], entry["trials"]) for entry in note] == [("errors", 3)]
    assert Caveat("run again", (), {"trials": 3}) in results(folder).comparison.caveats
    assert len(reopen(folder, allowed, retry="errors").missing()) == 0


def test_what_records_and_trials_cut_short_have_spent_counts_and_a_larger_budget_is_of_the_whole_run_too(configured):
    experiment = prepare(configured(tasks=9, budget={"calls": 20}))
    assert run(experiment, Told()) == "budget of 20 model calls used up"
    assert reopen(experiment.folder).spent.calls == 20
    recorded = sum(record.lm_calls for record in read_records(experiment.folder))
    assert read_manifest_json(experiment.folder)["cut_short"]["calls"] == 20 - recorded > 0
    assert run(reopen(experiment.folder, settings={"budget": {"calls": 30}}), Told()) == "budget of 30 model calls used up"
    assert reopen(experiment.folder).spent.calls == 30
    assert read_manifest_json(experiment.folder)["config"]["budget"]["calls"] == 20


def test_what_is_typed_wins_over_the_manifest_and_is_not_written_but_what_results_depend_on_stays(configured):
    folder = begun(configured(concurrency=5))
    before = (folder / MANIFEST).read_bytes()
    again = reopen(folder, settings={"concurrency": 2, "budget": {"tokens": 10}, "mlflow": True})
    assert (again.config.concurrency, again.config.budget.tokens, again.config.mlflow) == (2, 10, True)
    went_on(again)
    assert (folder / MANIFEST).read_bytes() == before
    with pytest.raises(ValueError, match="seed: it stays as it was"):
        reopen(folder, settings={"seed": 3})


UNADDED: list[tuple[dict[str, Any], str]] = [
    ({}, "nothing is added: name a loop"),
    ({"tasks": 2}, "tasks: the new total, 2, is less than the 3 that the run has"),
    ({"loops": ("bare",)}, "loops: 'bare' is given twice"),
    ({"models": ("openai/x",)}, "profile flaky-format has no fault of tools or providers"),
]


def test_what_cannot_be_added_is_told_and_nothing_is_written(configured):
    folder = begun(configured())

    def refused(additions: dict[str, Any], said: str) -> None:
        before = (folder / MANIFEST).read_bytes()
        with pytest.raises(ValueError, match=said) as caught:
            extend(folder, additions)
        assert "\n" not in str(caught.value)
        assert (folder / MANIFEST).read_bytes() == before

    for additions, said in UNADDED:
        refused(additions, said)
    with locked(folder):
        refused({"repeats": 2}, "another process is writing")
    change(folder, arms=[read_manifest_json(folder)["arms"][0] | {"code": "0" * 64}])
    refused({"repeats": 2}, r"arm bare/flaky-format \(its code\)")


def test_a_schedule_is_counted_without_being_made_and_a_sitting_that_knows_nothing_of_an_extension_is_refused(configured):
    folder = begun(configured())
    for kept in (2, 0, 1):
        put(folder, rows(folder)[:kept])
        missing = reopen(folder).missing()
        assert len(missing) == len([*missing]) == 3 - kept
        went_on(reopen(folder))
    put(folder, rows(folder)[:1])
    stale = reopen(folder)
    went_on(extend(folder, {"repeats": 2}))
    before = rows(folder)
    with pytest.raises(RunError, match="another process has changed this run meanwhile; type the command again"):
        run(stale, Told())
    assert rows(folder) == before
