"""Comparisons as documents, one run or several side by side: matrix, verdict, warnings, limits and tables, by their facts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from tests.experiments.running import ran as run_of
from whichloop.experiments.compare.doc import basis, compare_doc
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.several_runs import SeveralRuns, collect, several_doc
from whichloop.experiments.compare.tables import pairs_table
from whichloop.runs.config import BudgetConfig
from whichloop.runs.store.files import RunError
from whichloop.text.doc import Table, to_terminal

LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
STRESS = ("flaky-format", "flaky-tools")
TASKS = 40


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Results]:
    return lambda **settings: run_of(tmp_path_factory.mktemp("runs"), **settings)


@pytest.fixture(scope="module")
def five(ran: Callable[..., Results]) -> Results:
    """The README's main job on a few of its tasks."""
    return ran(loops=LOOPS, profiles=STRESS, suite=f"arithmetic(size={TASKS})")


def column(table: Table, name: str) -> dict[str, Any]:
    """The values of a column by row."""
    place = table.columns.index(name)
    return {str(row[0]): getattr(row[place], "value", None) for row in table.rows}


@pytest.mark.parametrize("width", [80, 100, 10_000])
def test_the_answer_of_five_loops_has_at_most_twelve_lines_and_the_same_facts_at_any_width(five: Results, width: int) -> None:
    doc = compare_doc(five)
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        to_terminal(doc, console)
    printed = captured.get().splitlines()
    assert len(printed) <= 12
    assert max(map(len, printed)) <= width
    words = " ".join(" ".join(printed).split())
    assert all(text in words for row in doc.tables[0].texts for text in row)
    assert all(f"{label} {text}" in words for label, texts in doc.facts.items() for text in texts)


def test_the_verdict_its_price_its_basis_and_its_doubts_are_lines(five):
    found, told = five.verdict, compare_doc(five).facts
    assert found.decision is not None
    assert told[found.decision.outcome][0].startswith(", ".join(found.decision.loops))
    assert told["Basis"] == ["scripted model, stress rates"]
    assert compare_doc(five).data["answer"]["outcome"] == found.decision.outcome.lower()
    data = compare_doc(five).data
    assert [data["basis"]] == told["Basis"]
    assert {row["loop"]: row["at_limit"] for row in data["answer"]["rows"]} == column(compare_doc(five).tables[0], "limit")


@pytest.fixture(scope="module")
def both(breeze: Results, calm: Results) -> SeveralRuns:
    return collect([breeze, calm])


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


LIMIT = "at most 2,000 tokens a trial"


def test_every_trial_beyond_the_limit_ended_by_it_unsolved_with_its_answer_kept(limited):
    beyond = [record for record in limited.records if record.tokens > 2000]
    assert beyond == [record for record in limited.records if record.stop == "budget"]
    assert {record.accuracy for record in beyond} == {0.0}
    assert any(record.answer is not None for record in beyond)
    assert all(re.fullmatch(r"budget of 2,000 tokens exceeded: [2-9],\d{3}", record.reason) for record in beyond)


def test_the_matrix_has_a_row_for_each_loop_and_the_amounts_of_its_arms(five):
    matrix = compare_doc(five).tables[0]
    assert matrix.columns[:6] == ("loop", *STRESS, "steps", "errors", "tokens")
    arms = {(arm.info.variant, arm.info.profile): arm.summary for arm in five.comparison.arms}
    for profile in STRESS:
        assert column(matrix, profile) == {loop: arms[loop, profile].accuracy.value for loop in column(matrix, "steps")}
    means = {}
    for loop, steps in column(matrix, "steps").items():
        own = [arms[loop, profile] for profile in STRESS]
        assert steps == pytest.approx(sum(each.means["steps"].value for each in own) / 2)
        assert column(matrix, "tokens")[loop] == pytest.approx(sum(each.means["tokens"].value for each in own) / 2)
        assert column(matrix, "errors")[loop] == sum(sum(each.errors.values()) for each in own) / (2 * TASKS)
        assert column(matrix, "wrong")[loop] == sum(each.false_success for each in own)
        means[loop] = sum(each.accuracy.value for each in own)
    assert [row[0] for row in matrix.rows] == sorted(means, key=lambda loop: -means[loop])


def test_the_table_of_pairs_shows_a_minus_b_by_the_accuracies_of_its_arms(five):
    table = pairs_table("pairs", five.comparison.pairs_on("accuracy"))
    accuracy = {arm.info.arm: arm.summary.accuracy.value for arm in five.comparison.arms}
    shown = [(row[0], row[1], float(row[table.columns.index("difference")].split()[0])) for row in table.texts]
    assert any(difference for _, _, difference in shown)
    assert [each[2] for each in shown] == [pytest.approx(accuracy[a] - accuracy[b], abs=6e-4) for a, b, _ in shown]


def test_the_basis_names_what_the_verdict_rests_on_and_an_invalid_run_has_none(five: Results, ran: Callable[..., Results]) -> None:
    calm = ran(loops=("bare", "finish"), profiles=("clean",), suite="arithmetic(size=4)")
    measured = ran(loops=("bare",), profiles=("text-2024",), suite="arithmetic(size=4)")
    assert (basis(calm), basis(measured)) == ("scripted model, no faults", "scripted model, rates of text-2024")
    invalid = Results(five.folder, five.manifest, five.records, replace(five.comparison, invalid=True))
    told = compare_doc(invalid).facts
    assert told["Invalid"] == ["no verdict of this run holds"]
    assert not {"Adopt", "Tie", "Depends", "Undecided"} & told.keys()


# --- several runs ---

TEN: dict[str, Any] = {"suite": "arithmetic(size=10)", "repeats": 2}


@pytest.fixture(scope="module")
def breeze(ran: Callable[..., Results]) -> Results:
    return ran(loops=("bare", "phased", "react_extract"), profiles=STRESS, **TEN)


@pytest.fixture(scope="module")
def calm(ran: Callable[..., Results]) -> Results:
    return ran(loops=("bare",), profiles=("clean",), **TEN)


def test_each_column_has_the_places_of_its_own_loops_worse_only_where_shown_and_a_loop_alone_has_none(both):
    columns = ["arithmetic, flaky-format", "arithmetic, flaky-tools", "arithmetic, clean"]
    assert list(both.verdict.columns) == columns == [row[0] for row in several_doc(both).tables[0].texts]
    own = {"bare": set(columns), "phased": set(columns[:2]), "react_extract": set(columns[:2])}
    assert {row.loop: set(row.cells) for row in both.verdict.rows} == own
    assert both.verdict.row("bare").cells["arithmetic, clean"].place == ""
    for column in both.columns[:2]:
        cells = {row.loop: row.cells[column.name] for row in both.verdict.rows}
        best = [loop for loop, cell in cells.items() if cell.place == "best"]
        assert {cells[loop].accuracy.value for loop in best} == {max(cell.accuracy.value for cell in cells.values())}
        shown = [pair for pair in column.pairs if pair.verdict.word in ("better", "worse")]
        apart = {frozenset(name.partition("/")[0] for name in (pair.a, pair.b)) for pair in shown}
        for loop, cell in cells.items():
            assert (cell.place == "worse") == (loop not in best and any(frozenset((loop, other)) in apart for other in best))


def test_an_invalid_run_counts_in_no_verdict_and_one_of_another_level_is_refused(breeze, calm):
    broken = replace(breeze, comparison=replace(breeze.comparison, invalid=True))
    found = collect([broken, calm])
    assert found.verdict.decision is None  # in the other there is one loop
    assert all(cell.place == "" for row in found.verdict.rows for cell in row.cells.values())
    assert several_doc(found).facts["Invalid"] == [breeze.folder.name]
    with pytest.raises(RunError, match="different levels or margins"):
        collect([breeze, replace(calm, comparison=replace(calm.comparison, alpha=0.1))])


# --- limits of trials ---


@pytest.fixture(scope="module")
def limited(ran: Callable[..., Results]) -> Results:
    budget = BudgetConfig(tokens=2000)
    return ran(loops=("bare", "finish"), profiles=("flaky-format",), suite="arithmetic(size=8)", trial_budget=budget)


def test_the_limit_stands_in_the_title_with_what_was_seen_and_what_ended_there_is_a_column(limited):
    doc = compare_doc(limited)
    matrix = doc.tables[0]
    assert LIMIT in limited.title
    assert LIMIT in doc.title
    place = matrix.columns.index("limit")
    stopped = {arm.info.loop: arm.summary.stops.get("budget", 0) for arm in limited.comparison.arms}
    assert sum(stopped.values()) > 0
    assert {row[0]: int(row[place]) for row in matrix.texts} == stopped
    assert json.loads(json.dumps(limited.to_json()))["limits"] == LIMIT
    assert "Next" not in doc.facts
    some = tuple(record for record in limited.records if record.task != limited.records[0].task)
    one_arm = tuple(record for record in limited.records if record.arm == limited.records[0].arm)
    part, alone = (Results(limited.folder, limited.manifest, records, limited.comparison) for records in (some, one_arm))
    assert "incomplete: 14 of 16 trials, 7 of 8 tasks seen" in part.title
    assert alone.title.endswith("incomplete: 8 of 16 trials")
    assert compare_doc(part).facts["Next"] == [f"whichloop resume {limited.folder}"]
