"""Pages: the document and its charts, the verdict first; hostile text stays text, and nothing is ever loaded."""

from __future__ import annotations

import functools
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.kept import execute
from whichloop.experiments.ablate.doc import run_doc
from whichloop.experiments.compare.results import results
from whichloop.experiments.compare.several_runs import collect, several_doc
from whichloop.experiments.optimize.config import OptimizeConfig, SearchConfig
from whichloop.experiments.optimize.doc import optimize_doc
from whichloop.experiments.optimize.prepare import prepare as prepare_optimization
from whichloop.experiments.optimize.result import OptimizationResult, optimization_result
from whichloop.experiments.optimize.run import run as optimize
from whichloop.experiments.why.doc import why_doc
from whichloop.experiments.why.losses import losses_explained
from whichloop.metrics.comparison import compare
from whichloop.metrics.record import FaultRecord
from whichloop.reports.html.charts import READ
from whichloop.reports.html.page import collection_html, optimization_html, report_html
from whichloop.runs.config import CompareConfig
from whichloop.text.doc import Doc, Table
from whichloop.text.output import terminal_safe

IN_ONE_FORK = "the run of three designs that has a page"

DIRTY = ["\x1b[2J", "\u202e", "\u2066", "\x00", "\x7f", "\ud800", "\U000e0041", "\x85", "\r", "\u2028", "\ufeff"]
MARKS = ["<script>", "</script>", "</style>", "<!--", "]]>", "&amp;", '"', "'", "`", "{{ x }}", "{% x %}", "<svg/onload=x>"]
ANY = st.lists(st.sampled_from([*DIRTY, *MARKS]) | st.text(st.characters(), max_size=5), max_size=5).map("".join)


@functools.cache
def page_at(folder: Path) -> str:
    return report_html(results(folder))


def tables_of(found: Any) -> list[list[str]]:
    """The texts of each table of a page, its heading first."""
    tables: list[list[str]] = []
    for element in found.elements:
        if element.tag == "table":
            tables.append([])
        if element.tag in ("th", "td"):
            tables[-1].append(element.text)
    return tables


def check_document(found: Any, doc: Doc) -> None:
    """A page has every table of a document once, and every fact."""
    shown = tables_of(found)
    for table in doc.tables:
        assert shown.count([*map(terminal_safe, table.columns), *(terminal_safe(cell) for row in table.texts for cell in row)]) == 1
    text = found.named("main")[0].text
    assert all(terminal_safe(fact) in text for facts in doc.facts.values() for fact in facts)


def labels(found: Any) -> list[str]:
    """The labels of the answer's lines."""
    return [element.text for element in found.named("dt")]


def headings(found: Any) -> list[str]:
    return [element.text.strip() for element in found.named("h2")]


def test_a_page_is_the_document_of_the_run_and_six_charts_the_answer_first(breeze, safe):
    found = safe(page_at(breeze.folder))
    (title,) = (element.text for element in found.named("h1"))
    first, *others = (row.loop for row in breeze.verdict.rows)
    assert title == f"{first} vs {', '.join(others)} · arithmetic · flaky-format, flaky-tools"
    assert breeze.folder.name in found.named("header")[0].text
    check_document(found, run_doc(breeze))
    here = replace(breeze, folder=Path(breeze.folder.name))
    check_document(found, why_doc(here, losses_explained(breeze)))
    captions = [READ[name] for name in ("accuracy", "cost", "causes", "divergence", "steps", "tokens")]
    assert [element.text for element in found.named("figcaption")] == captions
    order = [element.tag for element in found.elements if element.tag in ("dl", "table", "figure", "details")]
    assert order[0] == "dl"
    assert order.index("figure") < order.index("details")
    assert headings(found) == ["Why trials were lost", "How the run was made"]
    assert {breeze.digest, breeze.manifest.created} <= {element.text for element in found.named("td")}


def test_headings_landmarks_tables_and_charts_can_be_read_aloud(breeze, safe):
    found = safe(page_at(breeze.folder))
    levels = [int(element.tag[1]) for element in found.elements if re.fullmatch(r"h[1-6]", element.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for place, element in enumerate(found.elements):
        if element.tag == "table":
            around, caption = found.elements[place - 1].attributes, found.elements[place + 1]
            assert (around["tabindex"], around["role"]) == ("0", "region")
            assert around["aria-label"] == (caption.text if caption.tag == "caption" else element.attributes["aria-label"])
        if element.tag == "th":
            assert element.attributes["scope"] == ("col" if "thead" in element.parents else "row")
        if element.tag == "svg" and "svg" not in element.parents:
            assert element.attributes["role"] == "img"
            assert [found.elements[place + n].tag for n in (1, 2)] == ["title", "desc"]
            assert all(found.elements[place + n].text for n in (1, 2))


def test_an_invalid_run_says_so_first_and_gives_no_verdict(breeze, safe):
    lost = FaultRecord("wire.empty", "decide:c1")
    records = tuple(replace(record, faults=(lost,)) for record in breeze.records)
    infos = [arm.info for arm in breeze.comparison.arms]
    found = safe(report_html(replace(breeze, records=records, comparison=compare(records, infos))))
    assert labels(found)[0] == "Invalid"
    assert not {"Adopt", "Tie", "Depends", "Undecided"} & set(labels(found))
    assert "only 0 of 20 scheduled faults landed" in found.named("main")[0].text


def test_a_run_whose_traces_are_gone_says_so_and_has_all_else(breeze, tmp_path, safe):
    folder = tmp_path / breeze.folder.name
    shutil.copytree(breeze.folder, folder)
    execute(folder, "DELETE FROM traces")
    found = safe(report_html(results(folder)))
    assert headings(found)[0] == "The traces of this run cannot be read"
    assert str(tmp_path) not in found.named("main")[0].text
    check_document(found, run_doc(results(folder)))


def test_hostile_text_stays_text(breeze, calm, spoiled, hostile, safe):
    spoiled_run = spoiled(breeze, hostile)
    found = safe(text := report_html(spoiled_run))
    assert terminal_safe(hostile) in found.named("h1")[0].text + found.named("main")[0].text
    assert "49" not in re.findall(r"\{\{ ?49 ?\}\}", text)
    safe(collection_html(collect([spoiled_run, spoiled(calm, hostile)])))


@settings(max_examples=cases(5), suppress_health_check=[HealthCheck.too_slow])
@example("")
@example("</title><script>alert(1)</script>")
@given(ANY)
def test_any_text_stays_text(calm, spoiled, safe, text):
    assert headings(safe(report_html(spoiled(calm, text))))[-1] == "How the run was made"


def test_equal_run_directories_give_equal_bytes_wherever_they_are(breeze, tmp_path, monkeypatch):
    copied = tmp_path / "elsewhere" / breeze.folder.name
    shutil.copytree(breeze.folder, copied)
    monkeypatch.chdir(copied)
    assert report_html(results(Path())) == page_at(breeze.folder)


def test_several_runs_have_their_document_and_a_chart_of_all_columns(breeze, calm, safe):
    both = collect([breeze, calm])
    found = safe(collection_html(both))
    check_document(found, several_doc(both))
    assert [element.text for element in found.named("figcaption")] == [READ["runs"]]
    assert {column.name for column in both.columns} <= {text.text for text in found.named("text")}
    assert {run.folder.name for run in both.runs} <= {element.text for element in found.named("th")}
    assert collection_html(collect([results(run.folder) for run in both.runs])) == collection_html(both)


@pytest.fixture(scope="module")
def optimized(tmp_path_factory) -> OptimizationResult:
    """One design, a few rollouts."""
    folder = tmp_path_factory.mktemp("o")
    compare = CompareConfig(
        loops=("bare",), profiles=("teachable",), suite="arithmetic(size=60)", tasks=6, runs=folder, mlflow=False
    )
    made = prepare_optimization(OptimizeConfig(compare=compare, search=SearchConfig(train=4, dev=4)))
    assert optimize(made) == ""
    return optimization_result(made.folder)


def test_an_optimization_has_its_gains_and_prompts_before_its_test(optimized, safe):
    found = safe(optimization_html(optimized))
    doc, test = optimize_doc(optimized), optimized.test
    assert test is not None
    for each in (doc, run_doc(test)):
        tables = tuple(table for table in each.tables if isinstance(table, Table) and table.title)
        check_document(found, replace(each, blocks=tables))
    assert headings(found)[0] == "Test"
    assert [element.text for element in found.named("figcaption")][:2] == [READ["gains"], READ["accuracy"]]
    (changed,) = (element.text for element in found.named("pre"))
    assert changed.splitlines()[:2] == ["--- old prompts", f"+++ program {optimized.designs[0].ended.chosen}"]
    assert optimization_html(optimization_result(optimized.folder)) == optimization_html(optimized)


def test_hostile_text_in_an_optimization_stays_text(optimized, hostile, safe):
    def evil(candidate):
        prompts = {
            f"{name}{hostile}": replace(prompt, instructions=f"{candidate.number}{hostile}", demos=({hostile: hostile},))
            for name, prompt in candidate.program.items()
        }
        return replace(candidate, program=prompts)

    (design,) = optimized.designs
    ended = replace(design.ended, reason=hostile, warnings=(hostile,))
    spoiled = replace(design, tried=tuple((evil(candidate), cost) for candidate, cost in design.tried), design=hostile, ended=ended)
    safe(optimization_html(replace(optimized, designs=(spoiled,))))
    safe(optimization_html(replace(optimized, designs=(spoiled,), test=None, gains=None)))
