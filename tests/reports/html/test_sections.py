"""What the sections say is what the metrics found; one that has nothing to say is not there."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.reports.html.made_once import sections_of, why_of
from whichloop.experiments.ablate.prepare import AblationRequest
from whichloop.experiments.ablate.prepare import prepare as prepare_ablation
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.experiments.optimize.candidates import SILENT
from whichloop.experiments.run_doc import run_doc
from whichloop.experiments.why.base_rates import doubts_in_words
from whichloop.experiments.why.why import ArmLosses
from whichloop.metrics.sums import ranked
from whichloop.metrics.trace import ModelExchange, Note, ToolRun, Trace
from whichloop.metrics.trajectory.trajectory import course, unmatched
from whichloop.reports.html.causes import MAX_TRACES, choose_examples, find_losses
from whichloop.reports.html.document import (
    Amount,
    Banner,
    Folded,
    Grid,
    Items,
    PageLink,
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
from whichloop.text.numbers import p_value

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


def test_causes_are_counted_as_why_counts_them(breeze):
    explained = why_of(breeze)
    lost = {(pair.a, pair.b): pair for pair in explained.pairs}
    section = of(breeze, "why")
    alone = {arm.arm: arm for arm in explained.arms}
    parts = [block for block in section.blocks if isinstance(block, Subsection)]
    assert [part.title for part in parts] == ["arithmetic, flaky-format", "arithmetic, flaky-tools"]
    rows = 0
    for part in parts:
        sums, *unread, meanings, rates, folded = (block for block in part.blocks if block not in doubts_of(part, alone))
        assert isinstance(sums, Grid)
        assert isinstance(meanings, Items)
        assert [item.partition(": ")[0] for item in meanings.items] == list(sums.columns[2:])
        assert isinstance(folded, Folded)
        check_rates(rates, part, alone)
        profile = part.title.partition(", ")[2]
        own = [arm for name, arm in alone.items() if name.endswith(f"/{profile}") and "parse" in arm.causes]
        assert len(unread) == bool(own)
        for each in unread:
            assert isinstance(each, Paragraph)
            assert all(
                f"{fault.removeprefix('wire.')} {n} (" in each.text for arm in own for fault, n in arm.kinds["parse"].items()
            )
        for row in sums.rows:
            arm = alone[f"{cell_text(row[0])}/{profile}"]
            assert cell_text(row[1]) == f"{arm.lost} of {arm.trials}"
            counts = dict(zip(sums.columns[2:], map(int, map(cell_text, row[2:])), strict=True))
            assert {cause: count for cause, count in counts.items() if count} == dict(arm.causes)
        (grid,) = folded.blocks
        assert isinstance(grid, Grid)
        for row in grid.rows:
            loser, winner = (f"{cell_text(cell)}/{profile}" for cell in row[:2])
            pair = lost.get((loser, winner)) or lost[winner, loser]
            assert cell_text(row[2]) == str(pair.only_a if pair.b == loser else pair.only_b)
            counts = dict(zip(grid.columns[3:], map(int, map(cell_text, row[3:])), strict=True))
            assert {cause: count for cause, count in counts.items() if count} == dict(pair.causes[loser])
            rows += 1
    assert rows == sum(bool(count) for pair in explained.pairs for count in (pair.only_a, pair.only_b))


def doubts_of(part: Subsection, alone: Mapping[str, ArmLosses]) -> list[Items]:
    """Return the list of causes that are not shown to be one; none where every cause stands."""
    profile = part.title.partition(", ")[2]
    arms = [arm for name, arm in alone.items() if name.endswith(f"/{profile}")]
    told = [f"{short(arm)}: {doubt}" for arm in arms for doubt in doubts_in_words(arm.causes, arm.base_rates)]
    listed = [block for block in part.blocks if isinstance(block, Items) and " in doubt (" in " ".join(block.items)]
    assert sorted(item for block in listed for item in block.items) == sorted(told)
    return listed


def short(arm: ArmLosses) -> str:
    return arm.arm.partition("/")[0]


def check_rates(folded: object, part: Subsection, alone: Mapping[str, ArmLosses]) -> None:
    """The table has every base rate of the arms of its profile."""
    assert isinstance(folded, Folded)
    (grid,) = folded.blocks
    assert isinstance(grid, Grid)
    profile = part.title.partition(", ")[2]
    arms = [arm for name, arm in alone.items() if name.endswith(f"/{profile}")]
    rates = {(short(arm), str(cause)): rate for arm in arms for cause, rate in arm.base_rates.items()}
    assert len(rates) == len(grid.rows) > 0
    for name, cause, lost, solved, p, stands in (tuple(map(cell_text, row)) for row in grid.rows):
        rate = rates.pop((name, cause))
        assert (lost, solved) == (f"{rate.lost} of {rate.of_lost}", f"{rate.solved} of {rate.of_solved}")
        assert p == p_value(rate.p)
        assert stands == ("not shown" if rate.is_doubtful else "stands")


def test_every_cause_of_every_pair_has_an_example_with_its_command(breeze):
    section = of(breeze, "why")
    (examples,) = [grid for grid in blocks(section, Grid) if grid.caption == "Lost trials"]
    trials = {f"{record.arm}/{record.task}/{record.repeat}": record for record in breeze.records}
    told_of = set()
    for trial, winner, cause, detail, _, command in (tuple(map(cell_text, row)) for row in examples.rows):
        assert command == f"whichloop show {breeze.folder.name} {trial}"
        record = trials[trial]
        assert record.accuracy < 1
        assert trials[f"{winner}/{record.task}/{record.repeat}"].accuracy == 1
        assert detail.endswith(".")
        told_of.add((record.arm, cause))
    assert told_of == {(one.loser, one.cause) for pair in why_of(breeze).pairs for one in pair.divergences}


def test_links_lead_to_the_trials_side_by_side_and_no_further(breeze):
    why_, traces = of(breeze, "why"), of(breeze, "traces")
    anchors = [folded.id for folded in blocks(traces, Folded)]
    links = [cell.to for grid in blocks(why_, Grid) for row in grid.rows for cell in row if isinstance(cell, PageLink)]
    assert sorted(links) == sorted(anchors) == [f"trace-{number}" for number in range(1, len(anchors) + 1)]
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
    (grid,) = [block for block in of(alone, "why").blocks if isinstance(block, Grid)]
    assert cell_text(grid.rows[0][0]) == "phased"
    assert cell_text(grid.rows[0][1]) == f"{sum(record.accuracy < 1 for record in records)} of {len(records)}"
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
    said, ended = found["why"].blocks
    assert isinstance(said, Paragraph)
    assert isinstance(ended, Items)
    assert all(re.search(r": \d+ × \w+", each) for each in ended.items)
    assert f"{find_losses(replace(breeze, records=records), '').why.untraced} lost trials have no trace" in said.text
    assert find_losses(replace(breeze, records=records), "").why.untraced <= lost


# --- tasks ---


def test_tasks_that_nobody_solved_and_flaky_ones_are_named(breeze):
    groups = why_of(breeze).findings.groups
    section = of(breeze, "tasks")
    for group, part in zip(groups, [block for block in section.blocks if isinstance(block, Subsection)], strict=True):
        said = str(part.blocks)
        assert all(task in said for kind in ("unsolved", "flaky") for task in group.of_kind(kind)[:10])
        (listed,) = [grid for folded in blocks(part, Folded) for grid in folded.blocks]
        assert len(listed.rows) == min(len(group.notable), 40)
        assert {cell_text(row[0]) for row in listed.rows} <= {task.task for task in group.notable}


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
    wanted = AblationRequest("finish", ("parse_retries=0,2", "list_tools_in_error=false,true"))
    config = CompareConfig(
        loops=("finish",), profiles=("flaky-format",), suite="arithmetic(size=12)", runs=tmp_path_factory.mktemp("a"), mlflow=False
    )
    made = prepare_ablation(wanted, config)
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
