"""Several runs on one page: the matrix, pairs adjusted over all runs, and each run in a place of its own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.several_runs import SeveralRuns, collect, several_doc
from whichloop.reports.html.page import collection_html, run_title
from whichloop.runs.store.files import RunError
from whichloop.text.doc import to_markdown

IN_ONE_FORK = "the run of three designs that has a page"


@pytest.fixture(scope="module")
def both(breeze: Results, calm: Results) -> SeveralRuns:
    """Three designs under two profiles, and one of them in clean air."""
    return collect([breeze, calm])


def copied(found: Results, folder: Path) -> Results:
    shutil.copytree(found.folder, folder)
    return results(folder)


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
    found = collect([breeze, copied(breeze, tmp_path / "again")])
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


def test_an_invalid_run_counts_in_no_verdict(breeze, calm):
    broken = replace(breeze, comparison=replace(breeze.comparison, invalid=True))
    found = collect([broken, calm])
    assert found.verdict.decision is None  # in the other there is one loop
    assert all(cell.place == "" for row in found.verdict.rows for cell in row.cells.values())
    assert several_doc(found).facts["Invalid"] == [breeze.folder.name]


def test_runs_of_other_levels_are_refused(breeze, calm):
    other = replace(calm, comparison=replace(calm.comparison, alpha=0.1))
    with pytest.raises(RunError, match="different levels or margins"):
        collect([breeze, other])


def test_every_run_has_its_own_place_on_the_page(both, safe):
    found = safe(collection_html(both))
    ids = [element.attributes["id"] for element in found.elements if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    headings = [element.text.strip() for element in found.named("h2")]
    assert headings == ["Verdict", *(run_title(run) for run in both.runs)]
    assert [element.attributes["id"] for element in found.named("details") if element.attributes.get("class") == "chapter"] == [
        "run-1",
        "run-2",
    ]
    assert {"run-1-verdict", "run-2-verdict", "run-1-charts"} <= set(ids)
    assert not {"run-1-why", "run-1-tables"} & set(ids)  # those stand on the run's own page
    targets = {link.attributes["href"] for link in found.named("a")}
    assert {str(target)[1:] for target in targets} <= set(ids)


def test_hostile_text_stays_text_in_several_runs(breeze, calm, spoiled, hostile, safe):
    found = collect([spoiled(breeze, hostile), spoiled(calm, hostile)])
    safe(collection_html(found))
    assert "<script>" not in to_markdown(several_doc(found))


def test_equal_runs_give_equal_pages(both):
    assert collection_html(collect([results(run.folder) for run in both.runs])) == collection_html(both)
