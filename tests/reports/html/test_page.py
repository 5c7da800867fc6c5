"""The page of a run: what stands where, that hostile text stays text, and that nothing is ever loaded."""

from __future__ import annotations

import json
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
from tests.reports.html.made_once import page_of, sections_of
from tests.sealing import reseal, unseal
from whichloop.experiments.compare.results import results
from whichloop.experiments.run_doc import run_doc
from whichloop.metrics.comparison import compare
from whichloop.metrics.record import FaultRecord
from whichloop.reports.html.document import Grid
from whichloop.reports.html.page import report_html
from whichloop.runs.store.files import RunError, read_manifest_json
from whichloop.text.output import terminal_safe

IN_ONE_FORK = "the run of three designs that has a page"

DIRTY = ["\x1b[2J", "\u202e", "\u2066", "\x00", "\x7f", "\ud800", "\U000e0041", "\x85", "\r", "\u2028", "\ufeff"]
MARKS = ["<script>", "</script>", "</style>", "<!--", "]]>", "&amp;", '"', "'", "`", "{{ x }}", "{% x %}", "<svg/onload=x>"]
ANY = st.lists(st.sampled_from([*DIRTY, *MARKS]) | st.text(st.characters(), max_size=5), max_size=5).map("".join)
MEGABYTE = 1_000_000


# --- what stands where ---


def test_the_verdict_comes_first_and_the_manifest_last(breeze, page):
    found = page(page_of(breeze))
    (title,) = (element.text for element in found.named("h1"))
    assert title == f"{' vs '.join(_loops(breeze))} · arithmetic · flaky-format, flaky-tools"
    assert breeze.folder.name in next(element.text for element in found.named("header"))
    headings = [element.text.strip() for element in found.named("h2")]
    assert headings[0] == "Verdict"
    assert headings[-1] == "How the run was made"
    assert {"Charts", "Tables", "Recovery from faults", "Steps per trial"} <= set(headings)


def test_the_contents_name_every_section(breeze, page):
    found = page(page_of(breeze))
    ids = [element.attributes["id"] for element in found.elements if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    links = [element for element in found.named("a") if "nav" in element.parents]
    assert [link.text for link in links] == [element.text.strip() for element in found.named("h2")]
    targets = {link.attributes["href"] for link in found.named("a")}
    assert {target[1:] for target in targets} <= set(ids)


def labels(found: Any) -> list[str]:
    """The labels of the answer's lines."""
    return [element.text for element in found.named("dt")]


def _loops(found: Any) -> tuple[str, str]:
    """The loop that is the most accurate on average, and the others."""
    first, *others = (row.loop for row in found.verdict.rows)
    return first, ", ".join(others)


def test_a_name_that_was_given_is_the_title_and_what_was_compared_stands_below(calm, tmp_path, page):
    folder = tmp_path / calm.folder.name
    shutil.copytree(calm.folder, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["name"] = "before the <b>rewrite</b>"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    reseal(folder / "manifest.json")
    found = page(report_html(results(folder)))
    assert [element.text for element in found.named("h1", "title")][:2] == ["before the <b>rewrite</b>"] * 2
    assert "bare · arithmetic · clean" in found.named("header")[0].text


@pytest.mark.parametrize("run", ["breeze", "calm"])
def test_headings_landmarks_tables_and_charts_can_be_read_aloud(run, page, request):
    found = page(page_of(request.getfixturevalue(run)))
    levels = [int(element.tag[1]) for element in found.elements if re.fullmatch(r"h[1-6]", element.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert {"header", "nav", "main"} <= {element.tag for element in found.elements}
    first = next(element for element in found.named("a"))
    assert (first.attributes["href"], first.attributes["class"]) == ("#main", "skip")
    for place, element in enumerate(found.elements):
        if element.tag == "table":
            around, caption = found.elements[place - 1].attributes, found.elements[place + 1]
            assert (around["tabindex"], around["role"]) == ("0", "region")
            assert around["aria-label"] == (caption.text if caption.tag == "caption" else "results")
        if element.tag == "th":
            assert element.attributes["scope"] == ("col" if "thead" in element.parents else "row")
        if element.tag == "svg" and "svg" not in element.parents:
            named = element.attributes.get("role") == "img" and [found.elements[place + n].tag for n in (1, 2)] == ["title", "desc"]
            assert named or element.attributes.get("aria-hidden") == "true"


def test_every_row_is_as_wide_as_its_head(breeze):
    def grids(blocks: Any) -> Any:
        for block in blocks:
            yield from [block] if isinstance(block, Grid) else grids(getattr(block, "blocks", ()))

    found = [grid for section in sections_of(breeze) for grid in grids(section.blocks)]
    assert len(found) > 10
    for grid in found:
        assert {len(row) for row in grid.rows} == {len(grid.columns)}


def test_numbers_are_those_of_the_comparison(breeze, page):
    text = page(page_of(breeze)).named("main")[0].text
    for arm in breeze.comparison.arms:
        found = arm.summary.accuracy
        assert f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]" in text
    assert all(fact in text for facts in run_doc(breeze).facts.values() for fact in facts)


# --- what there is nothing to say about ---


def test_one_arm_in_clean_air_has_no_pairs_no_front_no_repeats_and_no_recovery(calm, page):
    found = page(page_of(calm))
    headings = {element.text.strip() for element in found.named("h2")}
    assert headings.isdisjoint({"Recovery from faults", "What each factor does"})
    assert {"Verdict", "Charts", "Tables", "Steps per trial", "How the run was made"} <= headings
    titles = {element.text for element in found.named("summary")}
    assert not [title for title in titles if title.startswith(("Accuracy, a minus b", "Accuracy against", "Repeats"))]
    assert "Adopt" not in labels(found)


def test_a_run_without_a_result_has_a_page(calm, tmp_path, page):
    shutil.copy(calm.folder / "manifest.json", tmp_path)
    unseal(tmp_path)
    found = page(report_html(results(tmp_path)))
    assert "incomplete: 0 of 6 trials" in found.named("main")[0].text
    assert "Next" in labels(found)


def test_an_invalid_run_says_so_first_and_gives_no_verdict(breeze, page):
    lost = FaultRecord("wire.empty", "decide:c1")
    records = tuple(replace(record, faults=(lost,)) for record in breeze.records)
    infos = [arm.info for arm in breeze.comparison.arms]
    found = page(report_html(replace(breeze, records=records, comparison=compare(records, infos))))
    assert labels(found)[0] == "Invalid"
    assert not {"Adopt", "Tie", "Depends", "Undecided"} & set(labels(found))
    assert "only 0 of 20 scheduled faults landed" in found.named("main")[0].text


def test_a_run_is_called_by_its_folder_wherever_the_command_runs(calm, page, monkeypatch):
    monkeypatch.chdir(calm.folder)
    text = report_html(results(Path()))
    assert [element.text for element in page(text).named("h1")] == ["bare · arithmetic · clean"]
    assert calm.folder.name in page(text).named("header")[0].text
    assert text == page_of(calm)


@pytest.mark.parametrize(
    ("name", "value"), [("profiles", [1]), ("packages", "x"), ("imported", "x"), ("imported", {"from": [{}]}), ("arms", None)]
)
def test_a_damaged_manifest_is_bad_input(calm, tmp_path, name, value):
    (tmp_path / "manifest.json").write_text(json.dumps({**calm.manifest.to_json(), name: value}))
    reseal(tmp_path / "manifest.json")
    with pytest.raises(RunError, match=rf"manifest\.json: {name}"):
        results(tmp_path)


# --- text that is not ours ---


def test_hostile_text_stays_text(breeze, spoiled, hostile, safe):
    text = report_html(spoiled(breeze, hostile))
    found = safe(text)
    assert terminal_safe(hostile) in found.named("h1")[0].text + found.named("main")[0].text
    assert "49" not in re.findall(r"\{\{ ?49 ?\}\}", text)


@settings(max_examples=cases(10), suppress_health_check=[HealthCheck.too_slow])
@example("")
@example("</title><script>alert(1)</script>")
@given(ANY)
def test_any_text_stays_text(calm, spoiled, safe, text):
    made = report_html(spoiled(calm, text))
    found = safe(made)
    assert "Verdict" in [element.text.strip() for element in found.named("h2")]


# --- the file ---


def test_equal_run_directories_give_equal_bytes(breeze, tmp_path):
    copied = tmp_path / "elsewhere" / breeze.folder.name
    shutil.copytree(breeze.folder, copied)
    again = results(copied)
    assert report_html(replace(again, records=tuple(again.records))) == page_of(breeze)


def test_a_page_is_no_larger_than_a_mail_may_be(breeze):
    assert len(page_of(breeze).encode()) < 1.5 * MEGABYTE


@pytest.mark.slow  # the page above is held to a limit, too
def test_the_page_of_a_whole_comparison_is_no_larger_either(comparing, tmp_path, safe):
    loops, profiles = ("bare", "finish", "phased", "react_extract", "stateless"), ("flaky-format", "flaky-tools")
    text = report_html(comparing(tmp_path, loops=loops, profiles=profiles, tasks=6))
    assert len(text.encode()) < 0.24 * MEGABYTE
    safe(text)


def test_long_texts_do_not_make_a_long_page(calm, spoiled):
    before, after = len(page_of(calm)), len(report_html(spoiled(calm, "x" * 5_000)))
    assert after < before + 1.5 * MEGABYTE


def test_the_manifest_stands_on_the_page_as_it_is(calm, page):
    found = page(page_of(calm))
    shown = next(element.text for element in found.named("code") if element.text.startswith("{"))
    assert json.loads(shown) == read_manifest_json(Path(calm.folder))
