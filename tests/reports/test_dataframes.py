"""`whichloop.load`: tables agree with the records and with the comparison, and have columns that not every run has."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whichloop
from tests.cases import cases
from tests.conftest import make_manifest
from tests.kept import put
from tests.sealing import reseal
from whichloop.experiments.ablate.doc import run_doc
from whichloop.experiments.compare import run as compare
from whichloop.experiments.compare import tables
from whichloop.experiments.compare.results import Results, results
from whichloop.experiments.compare.run import prepare
from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.statistics import Interval
from whichloop.metrics.summary import METRICS, count_faults
from whichloop.protocol import StopReason, render_value
from whichloop.reports.dataframes import ARMS, EFFECTS, PAIRS, TASKS, TRIALS
from whichloop.reports.html.page import doc_html, report_html
from whichloop.runs.config import CompareConfig
from whichloop.runs.engine.runner import Unwatched
from whichloop.runs.store.files import RunError
from whichloop.text.doc import to_markdown
from whichloop.text.numbers import interval

TEXT = st.text(max_size=12) | st.sampled_from(["<script>alert(1)</script>", "a&b\"'", "=1+1", "\ud800", "x\x1b[31m\u202e"])
COUNTS = st.dictionaries(st.sampled_from(["wire", "tool.KeyError", "<b>"]), st.integers(1, 5), max_size=2)
FAULTS = st.builds(
    FaultRecord, st.just("wire.empty"), st.just("decide:c1"), landed=st.booleans(), absorbed=st.booleans(), recovered=st.booleans()
)


@st.composite
def runs(draw: Any) -> tuple[list[str], list[Record]]:
    """Names of arms, and records of some of their trials."""
    arms = draw(st.lists(TEXT, min_size=1, max_size=3, unique=True))
    tasks = draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    cells = [(arm, task, repeat) for task in tasks for arm in arms for repeat in range(2)]
    chosen = draw(st.lists(st.sampled_from(cells), unique=True, max_size=len(cells)))
    return arms, [draw(records(arm, task, repeat, f"c{tasks.index(task) // 2}")) for arm, task, repeat in chosen]


def records(arm: str, task: str, repeat: int, cluster: str) -> st.SearchStrategy[Record]:
    return st.builds(
        Record,
        arm=st.just(arm),
        suite=st.just("s"),
        suite_digest=st.just("d"),
        task=st.just(task),
        repeat=st.just(repeat),
        seed=st.integers(0, 2**32),
        cluster=st.just(cluster),
        status=st.sampled_from(["scored", "scored", "scored", "errored", "excluded"]),
        reason=TEXT,
        stop=st.none() | st.sampled_from([str(stop) for stop in StopReason]),
        answer=st.none() | TEXT | st.integers() | st.lists(TEXT, max_size=2),
        scores=st.fixed_dictionaries({"accuracy": st.sampled_from([0.0, 0.5, 1.0])}, optional={"steps": st.floats(0, 1)}),
        steps=st.integers(0, 9),
        calls=st.dictionaries(st.sampled_from(["decide", "answer"]), st.integers(1, 5)),
        input_tokens=st.integers(0, 10**6),
        cost_usd=st.none() | st.floats(0, 5),
        retries=COUNTS,
        errors=COUNTS,
        faults=st.lists(FAULTS, max_size=2).map(tuple),
        confidence=st.none() | st.floats(0, 1),
        false_success=st.booleans(),
        started_at=st.sampled_from([0.0, 1.7e9, 1.75e9 + 0.25, 1e15]),
    )


def write_run(folder: Path, arms: Sequence[Mapping[str, Any]], found: Sequence[Record]) -> Path:
    folder.mkdir(parents=True)
    manifest = make_manifest(config={"repeats": 2}, suite={"name": "s<i>", "tasks": 4}, profiles={}, arms=arms)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    reseal(folder / "manifest.json")
    put(folder, found)
    return folder


def loaded(arms: Sequence[str], found: Sequence[Record]) -> whichloop.Loaded:
    made = [{"arm": arm, "loop": f"loop {arm}", "options": {}, "model": "scripted", "profile": "clean"} for arm in arms]
    with tempfile.TemporaryDirectory() as scratch:
        return whichloop.load(write_run(Path(scratch) / "run", made, found))


def same(value: Any, known: Any) -> bool:
    """A table's value, and what it is to be."""
    return bool(pd.isna(value)) if known is None else bool(value == known)


@settings(max_examples=cases(10))
@given(runs())
def test_trials_are_the_records(drawn):
    arms, found = drawn
    run = loaded(arms, found)
    trials, variants = run.trials, {arm.info.arm: arm.info.variant for arm in run.comparison.arms}
    ordered = sorted(found, key=lambda record: (record.status == "excluded", arms.index(record.arm), record.task, record.repeat))
    assert len(trials) == len(ordered)
    for (_, row), record in zip(trials.iterrows(), ordered, strict=True):
        assert row["trial"] == render_value(f"{record.arm}/{record.task}/{record.repeat}")
        for name in ("arm", "task", "cluster", "status", "reason", "stop", "answer"):
            value = getattr(record, name)
            assert same(row[name], None if value is None else render_value(value))
        for name in ("repeat", "seed", "steps", "lm_calls", "tokens", "cost_usd", "confidence", "false_success", "attempt"):
            assert same(row[name], getattr(record, name))
        assert (row["loop"], row["base_loop"]) == tuple(map(render_value, (variants[record.arm], f"loop {record.arm}")))
        assert same(row["accuracy"], record.accuracy if record.status == "scored" else None)
        assert same(row.get("scores.steps"), record.scores.get("steps"))  # no score takes the place of a count
        faults = count_faults([record])
        assert all(row[f"faults.{name}"] == getattr(faults, name) for name in ("scheduled", "landed"))
        known = record.started_at if 0 < record.started_at < 1e10 else None
        assert same(row["started_at"].timestamp() if row["started_at"] is not pd.NaT else None, known)
    for family in ("errors", "retries", "calls"):
        for kind in {kind for record in found for kind in getattr(record, family)}:
            counts = [getattr(record, family).get(kind, 0) for record in ordered]
            assert list(trials[f"{family}.{kind}"]) == counts
            assert trials[f"{family}.{kind}"].dtype == "int64"


@settings(max_examples=cases(10))
@given(runs())
def test_arms_and_pairs_are_the_comparison(drawn):
    run = loaded(*drawn)
    variants = {arm.info.arm: arm.info.variant for arm in run.comparison.arms}
    for (_, row), arm in zip(run.arms.iterrows(), run.comparison.arms, strict=True):
        assert row["arm"] == render_value(arm.info.arm)
        assert (row["trials"], row["scored"], row["errored"]) == (arm.summary.trials, arm.summary.scored, arm.summary.errored)
        for metric in METRICS:
            interval = arm.summary.means[metric]
            for end, name in (("value", ""), ("low", "_low"), ("high", "_high")):
                assert same(row.get(f"{metric}{name}"), None if interval is None else interval.as_dict()[end])
            assert interval is None or row[f"{metric}_n"] == interval.n
        assert {name: row[f"stops.{name}"] for name in arm.summary.stops} == arm.summary.stops
    for (_, row), pair in zip(run.pairs.iterrows(), run.comparison.pairs, strict=True):
        assert (row["a"], row["b"], row["metric"]) == (render_value(pair.a), render_value(pair.b), pair.metric)
        for end, name in (("value", ""), ("low", "_low"), ("high", "_high")):
            assert same(row[f"difference{name}"], pair.difference.as_dict()[end])
        assert (row["loop_a"], row["loop_b"]) == tuple(render_value(variants[arm]) for arm in (pair.a, pair.b))
        assert row["profile"] == "clean"
        assert (row["p_holm"], row["verdict"]) == (pair.p_holm, pair.verdict.word)
        for size, name in product(("fewer", "more"), ("tasks", "trials", "cost_usd", "chance")):
            told = None if pair.outlook is None else getattr(getattr(pair.outlook, size), name)
            assert same(row.get(f"outlook.{size}.{name}"), told)


@settings(max_examples=cases(4))
@given(runs())
def test_the_first_columns_do_not_depend_on_what_came_out(drawn):
    run, empty = loaded(*drawn), loaded(drawn[0], [])
    firsts = {"trials": TRIALS, "arms": ARMS, "pairs": PAIRS, "tasks": TASKS, "effects": EFFECTS}
    for name, first in firsts.items():
        table = getattr(run, name)
        assert tuple(table.columns[: len(first)]) == tuple(getattr(empty, name).columns[: len(first)]) == first
        assert "object" not in set(map(str, table.dtypes))
        pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(table.to_parquet())), table)


def test_what_an_imported_record_does_not_tell_is_not_known():
    told = Record("a", "s", "d", "t1", 0, 0, "scored", steps=3)
    silent = Record("a", "s", "d", "t2", 0, 0, "scored", unknown=("steps", "tool_calls", "false_success", "faults"))
    trials = loaded(["a"], [told, silent]).trials
    for name, value in (("steps", 3), ("tool_calls", 0), ("false_success", False), ("faults.landed", 0)):
        assert trials[name][0] == value
        assert pd.isna(trials[name][1])
    assert str(trials["steps"].dtype) == "Int64"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A run of two arms, two repeats, with faults."""
    runs = tmp_path_factory.mktemp("loaded") / "runs"
    config = CompareConfig(
        loops=("bare", "bare(max_steps=2)"), tasks=6, repeats=2, profiles=("flaky-tools",), runs=runs, mlflow=False
    )
    experiment = prepare(config)
    assert compare.run(experiment, Unwatched()) == ""
    return experiment.folder


def test_a_run_is_found_by_path_by_name_and_as_the_latest(folder, monkeypatch, tmp_path):
    whole = whichloop.load(folder)
    assert len(whole.trials) == 24
    assert (repr(whole), whole._repr_html_()) == (str(whole.doc), doc_html(whole.doc))
    monkeypatch.chdir(folder.parent.parent)
    for run in (str(folder), folder.name, f"runs/{folder.name}", "latest", Path("latest")):
        assert whichloop.load(run).results.records == whole.results.records
    monkeypatch.chdir(tmp_path)
    assert whichloop.load("latest", runs=folder.parent).results.digest == whole.results.digest


def test_every_trial_gives_its_trace(folder):
    run = whichloop.load(folder)
    for trial, calls, answer in zip(run.trials["trial"], run.trials["lm_calls"], run.trials["answer"], strict=True):
        trace = run.trace(trial)
        assert f"{trace['arm']}/{trace['task']}/{trace['repeat']}" == trial
        assert sum(event["event"] == "ask" for event in trace["events"]) == calls
        assert same(answer, None if trace["answer"] is None else render_value(trace["answer"]))
    with pytest.raises(RunError, match="matches 2"):
        run.trace("bare/flaky-tools/arithmetic-0001")


def test_one_trial_is_shown_as_a_document(folder):
    run = whichloop.load(folder)
    shown = run.show(run.trials[run.trials["accuracy"] < 1]["trial"].iloc[0])
    assert repr(shown) == str(shown.doc)
    hostile = replace(shown, doc=replace(shown.doc, title="<script>alert(1)</script>"))
    assert "&lt;script&gt;" in hostile._repr_html_()
    assert "<script" not in hostile._repr_html_()
    with pytest.raises(RunError, match="matches 2"):
        run.show("bare/flaky-tools/arithmetic-0001")


def test_a_bad_run_is_one_line(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    broken = {
        "empty": {},
        "no manifest": {"manifest.json": "[]"},
        "no arms": {"manifest.json": '{"config": {}}'},
        "no records": {"trials.sqlite": "[]\n" * 40},
    }
    for name, files in broken.items():
        if files:
            shutil.copytree(folder, tmp_path / name)
        else:
            (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    for run in (*broken, "latest", "nowhere", "x" * 5000, "a\0b", ""):
        with pytest.raises(RunError) as caught:
            whichloop.load(run)
        assert "\n" not in str(caught.value)


def compared(folder: Path, suite: str) -> Results:
    made = prepare(CompareConfig(loops=("bare", "stateless"), suite=suite, profiles=("flaky-format",), runs=folder, mlflow=False))
    compare.run(made, Unwatched())
    return results(made.folder)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run of more tasks than templates."""
    return compared(tmp_path_factory.mktemp("shared"), "ecommerce(size=24)")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run with a template for each task."""
    return compared(tmp_path_factory.mktemp("single"), "arithmetic(size=10)")


def over(found: Results) -> tuple[Sequence[Interval | None], Sequence[Interval | None]]:
    """Return the intervals over templates of arms and of pairs on accuracy."""
    arms = [arm.summary.over_templates for arm in found.comparison.arms]
    return arms, [pair.over_templates for pair in found.comparison.pairs if pair.metric == "accuracy"]


def test_the_document_and_its_page_tell_both_and_neither_speaks_of_templates_where_they_say_nothing(
    shared: Results, single: Results
) -> None:
    arms, pairs = over(shared)
    assert None not in (*arms, *pairs)
    for told in (to_markdown(run_doc(shared)).replace("\\", ""), report_html(shared)):  # Markdown escapes brackets
        assert all(interval(wanted, 3) in told for wanted in (*arms, *pairs))
        assert tables.OTHERS in told
    assert set(map(tuple, over(single))) == {(None, None), (None,)}
    assert tables.OTHERS not in to_markdown(run_doc(single)) + report_html(single)
