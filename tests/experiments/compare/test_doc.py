"""A comparison as a document: the matrix, the verdict's lines, the warnings and the tables, by their facts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from whichloop.experiments.compare.doc import basis, compare_doc
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.compare.several_runs import collect, several_doc
from whichloop.experiments.compare.tables import arms_csv
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.text.doc import Table, to_terminal

LOOPS = ("bare", "finish", "phased", "react_extract", "stateless")
STRESS = ("flaky-format", "flaky-tools")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Results]:
    def make(**settings: Any) -> Results:
        made = prepare(CompareConfig(runs=tmp_path_factory.mktemp("runs"), mlflow=False, **settings))
        run(made, Unwatched())
        return results(made.folder)

    return make


@pytest.fixture(scope="module")
def five(ran: Callable[..., Results]) -> Results:
    """The README's main job on a third of its tasks."""
    return ran(loops=LOOPS, profiles=STRESS, suite="arithmetic(size=100)")


def column(table: Table, name: str) -> dict[str, Any]:
    """The values of a column by row."""
    place = table.columns.index(name)
    return {str(row[0]): getattr(row[place], "value", None) for row in table.rows}


def test_the_matrix_has_a_row_for_each_loop_and_the_amounts_of_its_arms(five):
    table = compare_doc(five).tables[0]
    assert table.columns[:6] == ("loop", *STRESS, "steps", "errors", "tokens")
    arms = {(arm.info.variant, arm.info.profile): arm.summary for arm in five.comparison.arms}
    for profile in STRESS:
        assert column(table, profile) == {loop: arms[loop, profile].accuracy.value for loop in column(table, "steps")}
    for loop, steps in column(table, "steps").items():
        own = [arms[loop, profile] for profile in STRESS]
        assert steps == pytest.approx(sum(each.means["steps"].value for each in own) / 2)
        assert column(table, "tokens")[loop] == pytest.approx(sum(each.means["tokens"].value for each in own) / 2)
        assert column(table, "errors")[loop] == sum(sum(each.errors.values()) for each in own) / 200
        assert column(table, "wrong")[loop] == sum(each.false_success for each in own)
    assert [row[0] for row in table.rows] == sorted(arms_by_mean(five), key=lambda loop: -arms_by_mean(five)[loop])


def test_each_arm_has_its_own_interval_in_the_matrix_and_in_the_table_of_arms(five):
    matrix, arms = compare_doc(five).tables[:2]
    assert arms.title == "Arms"
    accuracies = {row[0]: row[arms.columns.index("accuracy")] for row in arms.texts}
    cells = {(row[0], name): text for row in matrix.texts for name, text in zip(matrix.columns, row, strict=True)}
    for arm in five.comparison.arms:
        own = arm.summary.accuracy
        told = (accuracies[arm.info.arm], cells[arm.info.variant, arm.info.profile])
        for digits, text in zip((3, 2), told, strict=True):
            low, high = map(float, text.partition("[")[2].partition("]")[0].split(", "))
            assert (low, high) == (round(own.low, digits), round(own.high, digits))


def arms_by_mean(run: Results) -> dict[str, float]:
    means: dict[str, list[float]] = {}
    for arm in run.comparison.arms:
        assert arm.summary.accuracy is not None
        means.setdefault(arm.info.variant, []).append(arm.summary.accuracy.value)
    return {loop: sum(each) / len(each) for loop, each in means.items()}


def test_marks_are_those_of_the_pairs(five):
    table = compare_doc(five).tables[0]
    for number, profile in enumerate(STRESS, 1):
        values = column(table, profile)
        best = f"{max(values, key=lambda loop: values[loop])}/{profile}"
        turned = [each for pair in five.comparison.pairs_on("accuracy") for each in (pair, pair.turned) if each.a == best]
        worse = {pair.b.partition("/")[0] for pair in turned if pair.verdict.word == "better"}
        texts = {row[0]: row[number] for row in table.texts}
        assert {loop for loop, text in texts.items() if text.endswith(" <")} == worse
        assert texts[best.partition("/")[0]].endswith(" *")


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


def test_the_basis_names_what_the_verdict_rests_on(five: Results, ran: Callable[..., Results]) -> None:
    calm = ran(loops=("bare", "finish"), profiles=("clean",), suite="arithmetic(size=4)")
    measured = ran(loops=("bare",), profiles=("text-2024",), suite="arithmetic(size=4)")
    assert (basis(calm), basis(measured)) == ("scripted model, no faults", "scripted model, rates of text-2024")


def test_loops_that_did_the_same_in_every_trial_are_named(ran: Callable[..., Results]) -> None:
    found = ran(loops=("bare", "bare(check_types=true)", "finish"), profiles=("clean",), suite="arithmetic(size=6)")
    assert found.same_loops == [["bare", "bare(check_types=true)"]]
    assert compare_doc(found).facts["Same"] == ["bare, bare(check_types=true)"]


def test_few_tasks_with_many_repeats_decide_for_these_tasks(ran: Callable[..., Results]) -> None:
    found = ran(loops=("bare", "stateless"), profiles=("flaky-format",), suite="arithmetic(size=4)", repeats=20)
    assert found.verdict.is_of_these_tasks
    assert compare_doc(found).facts["Adopt"] == ["bare (on these 4 tasks)"]
    (solved,) = [
        block for block in compare_doc(found).blocks if isinstance(block, Table) and block.title.startswith("Trials of each")
    ]
    assert len(solved.columns) == 5
    assert all(cell.endswith(" of 20") for row in solved.texts for cell in row[1:])


def test_every_pair_has_its_own_numbers_in_the_table(five):
    (table,) = [each for each in compare_doc(five).tables if each.title == "Accuracy, a minus b"]
    pairs = five.comparison.pairs_on("accuracy")
    assert [tuple(row[:2]) for row in table.texts] == [(pair.a, pair.b) for pair in pairs]
    for row, pair in zip(table.texts, pairs, strict=True):
        assert row[2].startswith(f"{pair.difference.value:.3f}"[:6])
        assert row[table.columns.index("tasks")] == "100"
    own = [pair for pair in pairs if pair.p < 0.2]
    assert min(pair.p_holm for pair in pairs) == pytest.approx(min(1, len(pairs) * min(pair.p for pair in own)))


def test_details_are_all_tables_and_none_is_empty(five):
    details = [each for each in compare_doc(five).tables if each.detail]
    begins = ("Arms", "What happened", "Accuracy, a minus b", "Accuracy over all profiles", "Other measures", "Accuracy against")
    assert not [begin for begin in begins if not any(each.title.startswith(begin) for each in details)]
    assert all(each.rows and len({len(row) for row in (each.columns, *each.rows)}) == 1 for each in details)


def test_several_runs_have_one_verdict_adjusted_over_all_their_pairs(five: Results, ran: Callable[..., Results]) -> None:
    events = ran(loops=("bare", "finish"), profiles=STRESS, suite="events", tasks=40)
    both = collect([five, events])
    doc = several_doc(both)
    names = [f"{suite}, {profile}" for suite in ("arithmetic", "events") for profile in STRESS]
    assert list(both.verdict.columns) == names
    assert [row[0] for row in doc.tables[0].texts] == names
    alone = {(pair.a, pair.b): pair.p_holm for pair in five.comparison.pairs_on("accuracy")}
    joint = {(pair.a, pair.b): pair.p_holm for each in both.columns[:2] for pair in each.pairs}
    assert alone.keys() == joint.keys()
    assert all(joint[pair] >= alone[pair] - 1e-12 for pair in alone)
    assert both.verdict.decision is not None
    assert doc.facts[both.verdict.decision.outcome]


def test_csv_has_a_line_for_each_arm_with_its_own_numbers(five):
    rows = list(csv.DictReader(io.StringIO(arms_csv(five.comparison))))
    assert [row["arm"] for row in rows] == [arm.info.arm for arm in five.comparison.arms]
    for row, arm in zip(rows, five.comparison.arms, strict=True):
        assert float(row["accuracy.value"]) == pytest.approx(arm.summary.accuracy.value)


def test_an_invalid_run_says_so_and_has_no_verdict(five):
    invalid = Results(five.folder, five.manifest, five.records, replace(five.comparison, invalid=True))
    told = compare_doc(invalid).facts
    assert told["Invalid"] == ["no verdict of this run holds"]
    assert not {"Adopt", "Tie", "Depends", "Undecided"} & told.keys()
