"""Several runs on one page: the matrix, pairs adjusted over all runs, and each run in a place of its own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.several_runs import SeveralRuns, collect, several_runs_tables, to_markdown, verdicts
from whichloop.reports.html.document import Grid
from whichloop.reports.html.overview import overview_section
from whichloop.reports.html.page import collection_html, run_title
from whichloop.runs.store.files import RunError

IN_ONE_FORK = "the run of three designs that has a page"


@pytest.fixture(scope="module")
def both(breeze: Results, calm: Results) -> SeveralRuns:
    """Three designs under two profiles, and one of them in clean air."""
    return collect([breeze, calm])


def copied(found: Results, folder: Path) -> Results:
    shutil.copytree(found.folder, folder)
    return results(folder)


def test_the_matrix_has_a_column_for_each_suite_and_profile(both):
    assert [(column.suite, column.profile) for column in both.columns] == [
        ("arithmetic", "flaky-format"),
        ("arithmetic", "flaky-tools"),
        ("arithmetic", "clean"),
    ]
    assert both.loops == ("bare", "phased", "react_extract")
    assert [set(column.places) for column in both.columns] == [set(both.loops), set(both.loops), {"bare"}]


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
    assert [found.title_of(column) for column in found.columns[::2]] == [
        f"arithmetic, flaky-format ({breeze.folder.name})",
        "arithmetic, flaky-format (again)",
    ]


def test_a_loop_is_lower_only_where_it_is_shown_to_be(both):
    for column in both.columns:
        top = max(standing.accuracy.value for standing in column.places.values())
        words = {frozenset((pair.a, pair.b)): pair.verdict.word for pair in column.pairs}
        highest = [name for name, standing in column.places.items() if standing.place == "highest"]
        tops = [name for name, standing in column.places.items() if standing.accuracy.value == top]
        assert highest == (tops if len(column.places) > 1 else [])
        for name, standing in column.places.items():
            if len(column.places) > 1 and name not in highest:
                apart = [words[frozenset((f"{name}/{column.profile}", f"{best}/{column.profile}"))] for best in highest]
                assert (standing.place == "lower") == any(word in ("better", "worse") for word in apart)


def test_verdicts_count_what_the_matrix_shows(both):
    matrix = several_runs_tables(both)[0]
    for place, loop in enumerate(both.loops, 1):
        cells = [row[place] for row in matrix.rows]
        (line,) = [line for line in verdicts(both) if line.startswith(f"{loop}: ")]
        assert f"the highest in {sum(cell.endswith('*') for cell in cells)} of {sum(row[-1] != '–' for row in matrix.rows)}" in line
        assert f"not told apart from it in {sum(cell.endswith('=') for cell in cells)}" in line


def test_an_invalid_run_counts_in_no_verdict(breeze, calm):
    broken = replace(breeze, comparison=replace(breeze.comparison, invalid=True))
    found = collect([broken, calm])
    assert verdicts(found) == []  # in the other there is one loop, which is told from none
    matrix = several_runs_tables(found)[0]
    assert [row[0] for row in matrix.rows[:2]] == ["arithmetic, flaky-format, invalid", "arithmetic, flaky-tools, invalid"]
    assert all(cell == "–" or cell.endswith("]") for row in matrix.rows for cell in row[1:])
    (shown,) = (block for block in overview_section(found).blocks if isinstance(block, Grid))
    assert "not told apart" not in str(shown.rows)


def test_to_be_alone_is_not_to_be_the_highest(both):
    assert {column.profile: column.places["bare"].place is None for column in both.columns} == {
        "flaky-format": False,
        "flaky-tools": False,
        "clean": True,
    }
    assert all(" of 2, " in line for line in verdicts(both))


def test_a_loop_without_a_common_task_is_neither_the_highest_nor_lower(breeze):
    a, b, c = (arm.info.arm for arm in breeze.comparison.arms[:3])
    pairs = tuple(pair for pair in breeze.comparison.pairs if c not in (pair.a, pair.b))
    column = collect([replace(breeze, comparison=replace(breeze.comparison, pairs=pairs))]).columns[0]
    assert [column.places[name.partition("/")[0]].place is None for name in (a, b, c)] == [False, False, True]


def test_runs_of_other_levels_are_refused(breeze, calm):
    other = replace(calm, comparison=replace(calm.comparison, alpha=0.1))
    with pytest.raises(RunError, match="different levels or margins"):
        collect([breeze, other])


def test_every_run_has_its_own_place_on_the_page(both, safe):
    found = safe(collection_html(both))
    ids = [element.attributes["id"] for element in found.elements if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    headings = [element.text.strip() for element in found.named("h2")]
    assert headings == ["Overview", "All pairs", *(run_title(run) for run in both.runs)]
    assert [element.attributes["id"] for element in found.named("details") if element.attributes.get("class") == "chapter"] == [
        "run-1",
        "run-2",
    ]
    assert {"run-1-verdict", "run-2-verdict", "run-1-cost"} <= set(ids)
    assert not {"run-1-why", "run-1-pairs"} & set(ids)  # those stand on the run's own page
    targets = {link.attributes["href"] for link in found.named("a")}
    assert {str(target)[1:] for target in targets} <= set(ids)


def test_hostile_text_stays_text_in_several_runs(breeze, calm, spoiled, hostile, safe):
    found = collect([spoiled(breeze, hostile), spoiled(calm, hostile)])
    safe(collection_html(found))
    assert "<script>" not in to_markdown(found)


def test_equal_runs_give_equal_pages(both):
    assert collection_html(collect([results(run.folder) for run in both.runs])) == collection_html(both)
