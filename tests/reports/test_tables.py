"""Columns that not every run has: intervals over templates, variants of a loop, and measures that somebody adds."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import whichloop
from tests.cases import cases
from tests.reports.test_dataframes import loaded, runs
from whichloop.experiments.ablate.doc import run_doc
from whichloop.experiments.compare import tables
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare, run
from whichloop.experiments.compare.tables import arms_csv
from whichloop.metrics import summary
from whichloop.metrics.arm_info import ArmInfo
from whichloop.metrics.measures import Measure
from whichloop.metrics.record import Record
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import MAX_VALUE, METRICS
from whichloop.protocol import render_value
from whichloop.reports import dataframes
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


def test_only_templates_have_their_columns(shared: Results, single: Results) -> None:
    one, other = load(shared.folder), load(single.folder)
    assert one.arms.over_templates.notna().all()
    assert other.arms.over_templates.isna().all()


LOOPS = ("finish", "finish(parse_retries=0)", "provider_retry(loop=bare)")


@pytest.fixture(scope="module")
def variants(tmp_path_factory) -> whichloop.Loaded:
    profiles = ("flaky-format", "flaky-tools")
    return whichloop.compare(LOOPS, "arithmetic(size=6)", profiles, runs=tmp_path_factory.mktemp("runs"), mlflow=False)


def test_tables_name_loops_as_the_verdict_does(variants):
    rows = variants.verdict.rows
    assert {row.loop for row in rows} == set(LOOPS)
    for frame in (variants.trials, variants.arms, pd.read_csv(io.StringIO(arms_csv(variants.comparison)))):
        assert set(frame["loop"]) == set(LOOPS)
        assert set(frame["base_loop"]) == {"finish", "provider_retry"}
    means = variants.trials.groupby("loop")["accuracy"].mean()
    assert {row.loop: row.accuracy for row in rows} == pytest.approx(means.to_dict())


NAMES = st.from_regex(r"[a-z]{1,6}(\([a-z]=[0-9]\))?", fullmatch=True)


@given(NAMES, st.sampled_from(["scripted", "openai/gpt-4o-mini"]), st.sampled_from(["clean", "calm/own"]))
def test_a_variant_has_neither_profile_nor_model_in_its_name(loop, model, profile):
    arm = f"{loop}/{profile if model == 'scripted' else model}"
    assert ArmInfo(arm, loop.partition("(")[0], {}, model, profile, "s").variant == loop


Value = Callable[[Record], float | None]

VALUES: dict[str, Value] = {
    "step_share": lambda record: record.steps / 10,
    "even_seed": lambda record: float(record.seed % 2),  # a field of the trial's own, which kinds of trials lack
    "confident": lambda record: record.confidence,
    "beyond": lambda _: MAX_VALUE,
}


def add(patch: pytest.MonkeyPatch, values: dict[str, Value]) -> None:
    added = {name: Measure(value, "", in_trials=True, name=name, label=name) for name, value in values.items()}
    for module in (summary, dataframes):
        patch.setattr(module, "METRICS", {**METRICS, **added})


@pytest.mark.parametrize("names", [["step_share"], ["confident", "beyond"], ["step_share", "even_seed"]])
@settings(max_examples=cases(4))
@given(drawn=runs())
def test_an_added_measure_is_a_column_of_trials(names, drawn):
    arms, found = drawn
    with pytest.MonkeyPatch.context() as patch:
        add(patch, {name: VALUES[name] for name in names})
        trials = loaded(arms, found).trials
    records = {render_value(record.name): record for record in found}
    assert set(names) <= set(trials.columns)
    for name in names:
        assert trials[name].dtype == "float64"
        for trial, value in zip(trials["trial"], trials[name], strict=True):
            record = records[trial]
            right = VALUES[name](record) if record.status == "scored" and name != "beyond" else None
            assert pd.isna(value) if right is None else value == right


def test_a_measure_with_the_name_of_a_column_leaves_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, {"repeated_calls": lambda _: 7.0})
    record = Record("a", "s", "d", "t1", 0, 0, "scored", scores={"accuracy": 1.0}, repeated_calls=4)
    trials = loaded(["a"], [record]).trials
    assert trials["repeated_calls"].tolist() == [4]
    assert str(trials["repeated_calls"].dtype) == "int64"
