"""Files of a run: the manifest is written whole, each compressed trace is read by itself, and what was not kept is told."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.kept import JSON
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.experiments.fit_profile.fit import fit_run
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.files import RunError, TracePolicy, read_manifest_json, write_manifest_json
from whichloop.runs.store.trials import read_trace

CELLS = st.lists(st.tuples(st.text(max_size=5), st.integers(0, 3)), unique=True, max_size=30)


@given(CELLS, st.integers(1, 40), st.integers(), st.randoms())
def test_a_sample_is_that_of_so_many_cells_for_all_arms_and_in_any_order(record, cells, size, seed, order):
    kept = TracePolicy.of(f"sample={size}", cells, seed)
    assert len(kept.cells) == min(size, len(cells))
    shuffled = list(cells)
    order.shuffle(shuffled)
    assert TracePolicy.of(f"sample={size}", shuffled, seed) == kept
    for task, repeat in cells:
        asked = {kept.keeps(record(arm=arm, task=task, repeat=repeat, scores={"accuracy": 0.0})) for arm in ("a", "b")}
        assert asked == {(task, repeat) in kept.cells}


@given(st.integers(1, 10), st.integers(), st.integers(0, 40))
def test_where_cells_are_added_no_new_one_of_the_old_is_drawn(size, seed, many):
    """So that a run which is extended has all traces of its new sample that can be had."""
    cells = [(f"t{number}", 0) for number in range(40)]
    before = cells[:many]
    old, new = (TracePolicy.of(f"sample={size}", part, seed).cells for part in (before, cells))
    assert new & set(before) <= old


def test_another_seed_draws_another_sample():
    cells = [(f"t{number}", 0) for number in range(60)]
    assert len({TracePolicy.of("sample=6", cells, seed) for seed in range(5)}) == 5


def test_failures_are_what_did_not_solve_its_task(record):
    kept = TracePolicy.of("failures", (), 0)
    assert not kept.keeps(record())
    assert kept.keeps(record(scores={"accuracy": 0.5}))
    assert kept.keeps(record(status="errored", scores={}))
    assert not any(TracePolicy.of("none", (), 0).keeps(record(scores={"accuracy": score})) for score in (0.0, 1.0))


def ran(folder: Path, traces: str, **config: Any) -> Results:
    loops, profiles = ("bare", "react_extract"), ("flaky-format",)
    settings = {"loops": loops, "profiles": profiles, "suite": "arithmetic(size=8)", "repeats": 2} | config
    experiment = prepare(CompareConfig(runs=folder, mlflow=False, traces=traces, **settings))
    assert run(experiment, Unwatched()) == ""
    return results(experiment.folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Results:
    """A run that kept all traces."""
    return ran(tmp_path_factory.mktemp("all"), "all")


@pytest.fixture(scope="module")
def failures(tmp_path_factory) -> Results:
    return ran(tmp_path_factory.mktemp("failures"), "failures")


@pytest.fixture(scope="module")
def some(tmp_path_factory) -> Results:
    return ran(tmp_path_factory.mktemp("sample"), "sample=5", concurrency=3)


@pytest.fixture(scope="module")
def untraced(tmp_path_factory) -> Results:
    return ran(tmp_path_factory.mktemp("none"), "none")


def traced(found: Results) -> set[tuple[str, str, int]]:
    return {record.key for record in found.records if record.trace_at}


def test_what_is_kept_changes_no_result(whole, failures, some, untraced):
    assert len({found.digest for found in (whole, failures, some, untraced)}) == 1
    assert traced(whole) == {record.key for record in whole.records}
    assert traced(failures) == {record.key for record in whole.records if record.accuracy < 1}
    assert traced(untraced) == set()
    cells = {(task, repeat) for _, task, repeat in traced(some)}
    assert traced(some) == {record.key for record in whole.records if (record.task, record.repeat) in cells}
    assert len(cells) == 5
    for found in (whole, failures, some):
        for record in found.records:
            if record.key in traced(found):
                assert read_trace(found.folder, record).head.task == record.task


def test_a_trace_that_was_not_kept_is_said_not_to_have_been(failures, some, untraced):
    for found, kept in [(failures, "failures"), (some, "sample=5"), (untraced, "none")]:
        record = next(record for record in found.records if not record.trace_at)
        with pytest.raises(RunError, match=f"trial {re.escape(record.name)} has no trace [(]traces={kept}; scored "):
            read_trace(found.folder, record)


def test_rates_are_not_fitted_to_failures_alone(whole, failures, some, untraced):
    with pytest.raises(RunError, match="only the traces of failures were kept"):
        fit_run(failures.folder)
    with pytest.raises(RunError, match="no traces to fit"):
        fit_run(untraced.folder)
    assert fit_run(some.folder).trials == len(traced(some))
    assert fit_run(whole.folder).trials == len(whole.records)


@settings(max_examples=cases(20))
@given(st.dictionaries(st.text(st.characters()), JSON, max_size=4))
def test_a_manifest_is_read_back(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("run")
    write_manifest_json(folder, data | {"config": {}})
    assert read_manifest_json(folder) == data | {"config": {}}
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"config": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_manifest_is_refused_in_one_line(tmp_path, raw):
    (tmp_path / "manifest.json").write_bytes(raw)
    with pytest.raises(RunError, match=r"manifest\.json") as caught:
        read_manifest_json(tmp_path)
    assert "\n" not in str(caught.value)
    shutil.rmtree(tmp_path)
    with pytest.raises(RunError, match="not a run directory"):
        read_manifest_json(tmp_path)
