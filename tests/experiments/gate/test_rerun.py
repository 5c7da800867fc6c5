"""The baseline's configuration run again: what its file decides, and what only the user does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whichloop
from whichloop.experiments.compare.run import run
from whichloop.experiments.gate import Baseline, RerunSettings, judge, prepare_again, read_baseline, read_run, write_baseline
from whichloop.experiments.gate.ended_run import config_again
from whichloop.metrics.record import Record
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.permissions import Permissions
from whichloop.runs.store.files import RunError

FILE = Path("b.json")
OWN = "whichloop.checks.suite.reference_agents:Blind"
"""Named as code of one's own is."""


def configured(baseline: Baseline, **config: Any) -> Baseline:
    return baseline.model_copy(update={"config": {**baseline.config, **config}})


class Counting(Unwatched):
    def __init__(self) -> None:
        self.count = 0

    def finished(self, record: Record) -> None:
        self.count += 1


def test_the_same_again_is_identical_and_watched(baseline, tmp_path):
    write_baseline(tmp_path / "b.json", baseline)
    progress = Counting()
    path = tmp_path / "b.json"
    experiment = prepare_again(read_baseline(path), path, RerunSettings(runs=tmp_path / "runs"))
    run(experiment, progress)
    judged = judge(read_run(experiment.folder), read_baseline(path), path=path)
    assert (judged.outcome, progress.count) == ("identical", 96)
    assert judged.run.parent == tmp_path / "runs"
    assert judged.baseline == tmp_path / "b.json"


def test_a_run_that_is_there_is_only_read(wind, baseline, tmp_path):
    write_baseline(tmp_path / "b.json", baseline)
    assert whichloop.gate(tmp_path / "b.json", wind.folder, metrics={"tokens": 0.1}).finding.outcome == "identical"
    assert list(tmp_path.iterdir()) == [tmp_path / "b.json"]


def test_what_was_typed_wins(baseline):
    again = RerunSettings(loops=("react_extract",), seed=7, repeats=5, trial_timeout_s=3.0, runs=Path("elsewhere"))
    config = config_again(baseline, FILE, again)
    assert (config.loops, config.seed, config.repeats, config.runs) == (("react_extract",), 7, 5, Path("elsewhere"))
    assert config.trial_timeout_s == 3.0
    assert config.profiles == ("clean", "flaky-tools")
    assert config.suite == "arithmetic(size=12)"


def test_the_file_neither_tracks_nor_says_where_runs_go_nor_ends_a_run_at_a_look(baseline):
    theirs = configured(baseline, mlflow=True, tracking_uri="http://theirs", runs="/theirs", looks=3)
    config = config_again(theirs, FILE, RerunSettings())
    assert (config.mlflow, config.tracking_uri, config.runs, config.looks) == (False, None, Path("runs"), None)


@pytest.mark.parametrize(("mode", "again"), [("record", "replay"), ("refresh", "replay"), (None, None), ("replay", "replay")])
def test_a_recording_is_replayed_where_its_folder_is_typed(baseline, mode, again):
    taped = configured(baseline, cassette="tape", cassette_mode=mode)
    with pytest.raises(RunError, match=r"b\.json: this run uses the recordings in tape; type it again: --cassette tape"):
        config_again(taped, FILE, RerunSettings())
    config = config_again(taped, FILE, RerunSettings(allowed=Permissions(cassette=Path("elsewhere"))))
    assert (config.cassette, config.cassette_mode) == (Path("elsewhere"), again)


def test_a_server_is_asked_where_it_is_typed(baseline):
    served = configured(baseline, models=["openai/m"], profiles=["clean"], base_url="http://theirs/v1")
    with pytest.raises(RunError, match=r"b\.json: this run asks the server at http://theirs/v1; type it again"):
        config_again(served, FILE, RerunSettings())
    ours = RerunSettings(allowed=Permissions(base_url="http://ours/v1"))
    assert config_again(served, FILE, ours).base_url == "http://ours/v1"


def test_code_of_ones_own_is_imported_where_it_is_typed(baseline):
    own = configured(baseline, loops=["bare", OWN])
    with pytest.raises(RunError, match=rf"b\.json: this run uses {OWN}, code of your own"):
        config_again(own, FILE, RerunSettings())
    assert config_again(own, FILE, RerunSettings(allowed=Permissions(code=[OWN]))).loops == ("bare", OWN)
    assert config_again(baseline, FILE, RerunSettings(loops=(OWN,))).loops == (OWN,)
    with pytest.raises(RunError, match="code of your own"):
        config_again(configured(baseline, suite="mine:SUITE"), FILE, RerunSettings(loops=(OWN,)))


def test_a_bad_configuration_is_one_line_that_names_the_file(baseline):
    with pytest.raises(ValueError, match=r"^b\.json: repeats: 1 or more is needed, got 0$"):
        config_again(configured(baseline, repeats=0), FILE, RerunSettings())
    with pytest.raises(ValueError, match=r"^--repeats: "):
        config_again(baseline, FILE, RerunSettings(repeats=0))
    with pytest.raises(ValueError, match=r"^b\.json: its run was not made here"):
        config_again(baseline.model_copy(update={"config": {}}), FILE, RerunSettings())
