"""What the sections say is what the metrics found; one that has nothing to say is not there."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.reports.html.made_once import sections_of, why_of
from whichloop.experiments.ablate.prepare import prepare as prepare_ablation
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.optimize.candidates import SILENT
from whichloop.experiments.run_doc import run_doc
from whichloop.experiments.why.doc import task_tables, why_doc
from whichloop.metrics.sums import ranked
from whichloop.metrics.trace import ModelExchange, Note, ToolRun, Trace
from whichloop.metrics.trajectory.trajectory import course, unmatched
from whichloop.reports.html.causes import MAX_TRACES, choose_examples, find_losses
from whichloop.reports.html.document import (
    Amount,
    Banner,
    Folded,
    Grid,
    PageSection,
    Paragraph,
    SideBySide,
    Subsection,
    cell_text,
)
from whichloop.reports.html.page import report_html, sections
from whichloop.reports.html.side_by_side import MAX_PIECES, cut, side_by_side
from whichloop.runs.config import CompareConfig
from whichloop.runs.store.files import TRACES
from whichloop.runs.store.traces import read_trace

IN_ONE_FORK = "the run of three designs that has a page"


def of(found: Results, name: str, **options: Any) -> PageSection:
    return next(section for section in sections_of(found, **options) if section.id == name)


def blocks(section: PageSection | Subsection | Folded, kind: type[Any]) -> Iterator[Any]:
    for block in section.blocks:
        if isinstance(block, kind):
            yield block
        if isinstance(block, Subsection | Folded):
            yield from blocks(block, kind)


# --- why ---


def test_the_page_says_why_as_the_command_does_without_the_tasks_that_have_a_section(breeze):
    doc = why_doc(breeze, why_of(breeze, most=1), with_tasks=False)
    shown = [
        (grid.caption, grid.columns, [[cell_text(cell) for cell in row] for row in grid.rows])
        for grid in blocks(of(breeze, "why"), Grid)
    ]
    assert shown == [(table.title, table.columns, table.texts) for table in doc.tables]
    assert shown
    tasks = [table.texts for group in why_of(breeze).findings.groups for table in task_tables(group, detail=False) if table.rows]
    assert [[[cell_text(cell) for cell in row] for row in grid.rows] for grid in blocks(of(breeze, "tasks"), Grid)] == tasks


def test_each_pair_of_trials_side_by_side_has_a_place_of_its_own(breeze):
    anchors = [folded.id for folded in blocks(of(breeze, "traces"), Folded)]
    assert anchors == [f"trace-{number}" for number in range(1, len(anchors) + 1)]
    assert 1 < len(anchors) <= MAX_TRACES
    prefixed = of(breeze, "x-traces", prefix="x")
    assert {folded.id for folded in blocks(prefixed, Folded)} == {f"x-{anchor}" for anchor in anchors}


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_examples_are_as_different_as_can_be(breeze, most):
    pairs = why_of(breeze, most=1).pairs
    picked = choose_examples(pairs, most)
    kinds = [(one.loser, one.cause) for one in picked]
    assert len(picked) <= most
    assert len(set(kinds)) == len(kinds)
    assert len({(one.loser, one.task) for one in picked}) == len(picked)
    if most == 100:
        assert {kind for kind, _ in kinds} == {one.loser for pair in pairs for one in pair.divergences}


def test_a_run_of_one_arm_tells_its_own_losses(breeze):
    infos = [arm for arm in breeze.comparison.arms if arm.info.arm == "phased/flaky-tools"]
    records = tuple(record for record in breeze.records if record.arm == "phased/flaky-tools")
    alone = replace(breeze, records=records, comparison=replace(breeze.comparison, arms=tuple(infos), pairs=(), pooled=()))
    (arm,) = find_losses(alone, "").why.arms
    assert (arm.arm, arm.lost) == ("phased/flaky-tools", sum(record.accuracy < 1 for record in records))
    assert of(alone, "why").blocks
    assert "traces" not in {section.id for section in sections_of(alone)}


def test_a_run_whose_traces_are_gone_says_so_and_has_all_else(breeze, tmp_path, page):
    folder = tmp_path / breeze.folder.name
    shutil.copytree(breeze.folder, folder)
    (folder / TRACES).unlink()
    found = results(folder)
    section = of(found, "why")
    (banner,) = section.blocks
    assert isinstance(banner, Banner)
    assert (banner.title, str(tmp_path) in banner.items[0]) == ("The traces of this run cannot be read", False)
    assert "Accuracy, a minus b" in page(report_html(found)).named("main")[0].text


def test_records_without_traces_are_counted(breeze):
    records = tuple(replace(record, trace_at=None) for record in breeze.records)
    found = {section.id: section for section in sections(replace(breeze, records=records))}
    lost = sum(record.accuracy < 1 for record in records)
    assert "traces" not in found
    assert 0 < find_losses(replace(breeze, records=records), "").why.untraced <= lost
    assert found["why"].blocks


# --- side by side ---


def lost_pair(found: Results) -> tuple[Any, Any]:
    """Traces of a trial that was solved, and of one of the same task that was not."""
    one = next(one for pair in why_of(found, most=1).pairs for one in pair.divergences)
    records = {record.key: record for record in found.records}
    winner, loser = (read_trace(found.folder, records[arm, one.task, one.repeat]) for arm in (one.winner, one.loser))
    return winner, loser


def test_both_courses_are_marked_once_where_they_part(breeze):
    for section in blocks(of(breeze, "traces"), SideBySide):
        for course_ in section.trials:
            assert sum(piece.diverges_here for piece in course_.pieces) == 1
            assert course_.pieces[-1].kind == "end"
            assert course_.pieces[-1].label.startswith("stop: ")
            assert all(piece.kind != "prompt" for piece in course_.pieces if piece.diverges_here)


def test_the_mark_stands_at_the_first_step_that_the_other_does_not_have(breeze):
    winner, loser = lost_pair(breeze)
    ours, theirs = course(winner), course(loser)
    alone = sorted(unmatched([step.signature for step in ours], [step.signature for step in theirs]))
    made = side_by_side((winner, loser), "run").trials[1]
    marked = next(piece for piece in made.pieces if piece.diverges_here)
    step = theirs[alone[0]]
    event = None if step.event is None else loser.events[step.event]
    if event is None:
        assert marked.kind == "end"
    elif isinstance(event, ToolRun):
        assert marked.label.startswith(event.call.tool) or marked.text == event.fault
    else:
        assert isinstance(event, ModelExchange)
        assert marked.text.startswith((event.fault or event.reply or "")[:20])


def test_equal_courses_part_at_their_end(calm):
    trace = read_trace(calm.folder, calm.records[0])
    for made in side_by_side((trace, trace), "run").trials:
        assert [piece.diverges_here for piece in made.pieces] == [False] * (len(made.pieces) - 1) + [True]


def test_a_long_trial_keeps_its_ends_and_the_mark(calm):
    trace = read_trace(calm.folder, calm.records[0])
    notes = (Note("k", {"n": 1}),) * 300
    longer = Trace(replace(trace.head, answer="other"), (*notes, *trace.events, *notes))
    made = side_by_side((trace, longer), "run").trials[1]
    assert len(made.pieces) <= MAX_PIECES + 3
    assert any(piece.diverges_here for piece in made.pieces)
    left_out = [int(piece.text.split()[0]) for piece in made.pieces if piece.label == "left out"]
    assert sum(left_out) + len(made.pieces) - len(left_out) > 600


def test_a_text_is_cut_in_its_middle():
    assert cut("x" * 700) == "x" * 700
    text = cut("a" * 500 + "b" * 500)
    assert text.startswith("a" * 350 + "\n… 300 characters left out …\n" + "b" * 10)


# --- verdict ---


def test_the_page_begins_with_the_document_its_details_folded_under_tables(breeze):
    doc = run_doc(breeze)
    title, *shown = of(breeze, "verdict").blocks
    assert title == Paragraph(doc.title, "quiet")
    assert shown == doc.shown(detail=False)
    assert list(of(breeze, "tables").blocks) == [block for block in doc.blocks if block.detail]


def test_arms_stand_the_best_first_in_charts_and_sections(breeze):
    """Also where they do not in the comparison, whose order is the one that was typed."""
    turned = replace(breeze, comparison=replace(breeze.comparison, arms=breeze.comparison.arms[::-1]))
    for found in (breeze, turned):
        ranks = [arm.info.arm for arm in ranked(found.comparison).arms]
        for name in ("errors", "steps"):
            for grid in blocks(of(found, name), Grid):
                if grid.columns[0] == "arm":
                    shown = [cell_text(row[0]) for row in grid.rows]
                    assert shown == [arm for arm in ranks if arm in shown], grid.caption


# --- ablations ---


@pytest.fixture(scope="module")
def ablation(tmp_path_factory) -> Results:
    """Two options of a loop, together."""
    config = CompareConfig(
        loops=("finish",), profiles=("flaky-format",), suite="arithmetic(size=12)", runs=tmp_path_factory.mktemp("a"), mlflow=False
    )
    made = prepare_ablation("finish", ("parse_retries=0,2", "list_tools_in_error=false,true"), config)
    assert run(made, SILENT) == ""
    return results(made.folder)


def test_an_ablation_says_what_each_factor_does_right_after_the_verdict(ablation, safe):
    found = safe(report_html(ablation))
    assert [element.text.strip() for element in found.named("h2")][:2] == ["Verdict", "What each factor does"]
    text = found.named("main")[0].text
    assert all(fact in text for facts in run_doc(ablation).facts.values() for fact in facts)
    assert "Effects on accuracy" in [element.text for element in found.named("title")]


def test_a_comparison_that_is_no_ablation_has_no_effects(breeze):
    assert "effects" not in {section.id for section in sections_of(breeze)}


# --- tables ---


def test_bars_are_shares_and_say_their_number(breeze):
    rows = [row for section in sections_of(breeze) for grid in blocks(section, Grid) for row in grid.rows]
    amounts = [cell for row in rows for cell in row if isinstance(cell, Amount)]
    assert amounts
    assert all(0 <= amount.share <= 1 and amount.text for amount in amounts)


def test_numbers_stand_to_the_right_and_words_to_the_left():
    words = Grid("c", ("a", "b", "c"), (("x", "a is better", "–"), ("y", "–", "<0.001")))
    assert words.numeric == (False, False, True)
    assert Grid("c", ("a", "b"), (("1.", "655ee354ec15"), ("1,000 + 2", "2026-11-22"))).numeric == (True, False)


def test_commands_can_be_pasted_into_a_shell(breeze):
    arm = "finish(forced_finish=off)/flaky-tools"
    trace = lost_pair(breeze)[1]
    trace = replace(trace, head=replace(trace.head, arm=arm))
    made = side_by_side((trace, trace), "a run").trials[0]
    assert shlex.split(made.command) == ["whichloop", "show", "a run", f"{arm}/{trace.head.task}/{trace.head.repeat}"]
