"""Several runs side by side: one matrix, one verdict, and pairs adjusted over all of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.compare.several_runs import SeveralRuns, collect, several_doc
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.files import RunError


def compared(folder: Path, *loops: str, profiles: tuple[str, ...]) -> Results:
    made = prepare(CompareConfig(loops=loops, profiles=profiles, suite="arithmetic(size=10)", repeats=2, runs=folder, mlflow=False))
    assert run(made, Unwatched()) == ""
    return results(made.folder)


@pytest.fixture(scope="module")
def breeze(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Three designs under two profiles."""
    profiles = ("flaky-format", "flaky-tools")
    return compared(tmp_path_factory.mktemp("breeze"), "bare", "phased", "react_extract", profiles=profiles)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """One of them in clean air."""
    return compared(tmp_path_factory.mktemp("calm"), "bare", profiles=("clean",))


@pytest.fixture(scope="module")
def both(breeze: Results, calm: Results) -> SeveralRuns:
    return collect([breeze, calm])


def test_each_column_has_the_places_of_its_own_loops_and_a_loop_alone_has_none(both):
    assert list(both.verdict.columns) == ["arithmetic, flaky-format", "arithmetic, flaky-tools", "arithmetic, clean"]
    assert {row.loop: set(row.cells) for row in both.verdict.rows} == {
        "bare": set(both.verdict.columns),
        "phased": set(both.verdict.columns[:2]),
        "react_extract": set(both.verdict.columns[:2]),
    }
    assert both.verdict.row("bare").cells["arithmetic, clean"].place == ""
    matrix = several_doc(both).tables[0]
    assert [row[0] for row in matrix.rows] == list(both.verdict.columns)


def test_p_is_adjusted_over_all_pairs_of_all_runs(breeze, tmp_path):
    shutil.copytree(breeze.folder, tmp_path / "again")
    found = collect([breeze, results(tmp_path / "again")])
    pairs = [pair for column in found.columns for pair in column.pairs]
    single = [pair for pair in breeze.comparison.pairs if pair.metric == "accuracy"]
    assert [(pair.a, pair.b, pair.p, pair.difference.value) for pair in pairs] == 2 * [
        (pair.a, pair.b, pair.p, pair.difference.value) for pair in single
    ]
    assert all(pair.p <= pair.p_holm <= len(pairs) * pair.p + 1e-12 for pair in pairs)
    assert all(together.level <= alone.level for together, alone in zip(pairs, single, strict=False))
    assert all(together.p_holm >= alone.p_holm for together, alone in zip(pairs, single, strict=False))
    assert [column.name for column in found.columns[::2]] == [
        f"arithmetic, flaky-format ({breeze.folder.name})",
        "arithmetic, flaky-format (again)",
    ]


def test_a_loop_is_worse_only_where_it_is_shown_to_be(both):
    for column in both.columns[:2]:
        cells = {row.loop: row.cells[column.name] for row in both.verdict.rows}
        best = [loop for loop, cell in cells.items() if cell.place == "best"]
        assert {cells[loop].accuracy.value for loop in best} == {max(cell.accuracy.value for cell in cells.values())}
        apart = {
            frozenset(name.partition("/")[0] for name in (p.a, p.b)) for p in column.pairs if p.verdict.word in ("better", "worse")
        }
        for loop, cell in cells.items():
            assert (cell.place == "worse") == (loop not in best and any(frozenset((loop, other)) in apart for other in best))


def test_an_invalid_run_counts_in_no_verdict_and_one_of_another_level_is_refused(breeze, calm):
    broken = replace(breeze, comparison=replace(breeze.comparison, invalid=True))
    found = collect([broken, calm])
    assert found.verdict.decision is None  # in the other there is one loop
    assert all(cell.place == "" for row in found.verdict.rows for cell in row.cells.values())
    assert several_doc(found).facts["Invalid"] == [breeze.folder.name]
    other = replace(calm, comparison=replace(calm.comparison, alpha=0.1))
    with pytest.raises(RunError, match="different levels or margins"):
        collect([breeze, other])
