"""The interval over templates stands beside the one over tasks wherever accuracy and difference are told."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from whichloop.experiments.ablate.doc import run_doc
from whichloop.experiments.compare import tables
from whichloop.experiments.compare.prepare import prepare
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import run
from whichloop.metrics.statistics import Interval
from whichloop.reports.dataframes import load
from whichloop.reports.html.page import report_html
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.text.doc import UNFOLDED, Doc, to_markdown, to_terminal
from whichloop.text.numbers import interval


def compared(folder: Path, suite: str) -> Results:
    made = prepare(CompareConfig(loops=("bare", "stateless"), suite=suite, profiles=("flaky-format",), runs=folder, mlflow=False))
    run(made, Unwatched())
    return results(made.folder)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run of more tasks than templates."""
    return compared(tmp_path_factory.mktemp("shared"), "ecommerce(size=24)")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run with a template for each task."""
    return compared(tmp_path_factory.mktemp("single"), "arithmetic(size=10)")


SURFACES: dict[str, Callable[[Results], str]] = {
    "terminal": lambda found: shown_with_details(run_doc(found)),
    "Markdown": lambda found: to_markdown(run_doc(found)),
    "page": report_html,
    "notebook": lambda found: load(found.folder)._repr_html_(),
}


def shown_with_details(doc: Doc) -> str:
    console = Console(file=io.StringIO(), width=UNFOLDED, color_system=None)
    with console.capture() as captured:
        to_terminal(doc, console, detail=True)
    return captured.get()


def over(found: Results) -> tuple[Sequence[Interval | None], Sequence[Interval | None]]:
    """Return the intervals over templates of arms and of pairs on accuracy."""
    arms = [arm.summary.over_templates for arm in found.comparison.arms]
    return arms, [pair.over_templates for pair in found.comparison.pairs if pair.metric == "accuracy"]


@pytest.mark.parametrize("name", SURFACES)
def test_every_surface_tells_both(shared: Results, name: str) -> None:
    told = SURFACES[name](shared).replace("\\", "")  # Markdown escapes brackets
    arms, pairs = over(shared)
    assert None not in (*arms, *pairs)
    assert all(interval(wanted, 3) in told for wanted in (*arms, *pairs))
    assert tables.OTHERS in told


@pytest.mark.parametrize("name", SURFACES)
def test_no_surface_speaks_of_templates_where_they_say_nothing(single: Results, name: str) -> None:
    assert set(map(tuple, over(single))) == {(None, None), (None,)}
    assert tables.OTHERS not in SURFACES[name](single)


def flat(found: Interval) -> dict[str, Any]:
    return {
        "over_templates": found.value,
        "over_templates_low": found.low,
        "over_templates_high": found.high,
        "over_templates_n": found.n,
    }


def test_numbers_for_programs_have_it(shared: Results) -> None:
    arms, pairs = over(shared)
    frames = load(shared.folder)
    made = shared.to_json()
    table = list(csv.DictReader(io.StringIO(tables.arms_csv(shared.comparison))))
    for place, wanted in enumerate(arms):
        assert wanted is not None
        assert frames.arms.iloc[place][list(flat(wanted))].to_dict() == flat(wanted)
        assert made["arms"][place]["over_templates"] == wanted.as_dict()
        assert float(table[place]["over_templates.low"]) == wanted.low
    for place, wanted in enumerate(pairs):
        assert wanted is not None
        on_accuracy = frames.pairs[frames.pairs.metric == "accuracy"]
        assert on_accuracy.iloc[place][list(flat(wanted))].to_dict() == flat(wanted)
        assert made["pairs"][place]["over_templates"] == wanted.as_dict()


def test_only_templates_have_their_columns(shared: Results, single: Results) -> None:
    one, other = load(shared.folder), load(single.folder)
    assert one.arms.over_templates.notna().all()
    assert other.arms.over_templates.isna().all()
