"""The baseline's file: what is in it, that it comes back as it was, and that a bad one is one line that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.gate.conftest import ALL, ARM, Change, changed, failing, of
from whichloop.experiments.gate import bless, read_baseline, read_run, write_baseline
from whichloop.experiments.gate.baseline import HELD_BESIDE, MIN_LIMIT_S, TIMES_SLOWEST, outcome_of, stored_value, to_text
from whichloop.metrics.record import FaultRecord
from whichloop.metrics.summary import METRICS
from whichloop.runs.store.files import RunError, write_manifest_json


@pytest.fixture(scope="session")
def text(baseline) -> str:
    return to_text(baseline)


def test_it_holds_what_the_trials_gave_and_how_to_run_them_again(wind, baseline):
    for record in wind.records:
        line = baseline.arms[record.arm].tasks[record.task]
        assert {metric: line.values(metric)[record.repeat] for metric in METRICS} == {
            metric: stored_value(record, metric) for metric in METRICS
        }
        assert (line.stop[record.repeat], line.outcome[record.repeat]) == (record.stop, outcome_of(record))
        assert len(line.course[record.repeat].split()) >= 2
    assert (baseline.seed, baseline.repeats, baseline.suite.tasks, baseline.run) == (0, 2, 12, wind.folder.name)
    assert baseline.config["loops"] == ["bare", "finish"]
    assert not baseline.config.keys() & {"name", "runs", "mlflow", "tracking_uri", "concurrency"}


CLOCKS = {"arm", "cost_usd", "nominal_usd", "seconds", "wall_s", "started_at"}

OTHERS = {
    "answer": "another", "stop": "forced", "scores": {"accuracy": 0.5}, "steps": 77, "calls": {"decide": 77}, "tool_calls": 77,
    "input_tokens": 77, "output_tokens": 77, "errors": {"wire": 1}, "false_success": True, "trace_digest": "77",
    "faults": (FaultRecord("tool.slow", "decide:c1"),), "arm": "another", "seconds": 77.0, "wall_s": 77.0, "started_at": 77.0,
    "cost_usd": 77.0, "nominal_usd": 77.0,
}  # fmt: skip


def test_the_outcome_is_all_that_a_trial_gave_but_times_and_costs(wind):
    record = wind.records[0]
    same = {field for field, value in OTHERS.items() if outcome_of(replace(record, **{field: value})) == outcome_of(record)}
    assert same == CLOCKS


def test_what_infrastructure_spoiled_is_not_known_and_without_traces_there_is_no_course(ran):
    found = ran(loops=("bare",), profiles=("clean",), suite="arithmetic(size=60)")
    spoiled = replace(found.records[0], status="errored", reason="provider: down", trace_at=0)
    line = bless(replace(found, records=(spoiled, *found.records[1:]))).arms[ARM].tasks[spoiled.task]
    assert (line.values("accuracy"), line.stop, line.outcome, line.course) == ((None,), (None,), (None,), ())


def test_by_default_it_judges_accuracy_tokens_and_two_harms_and_what_is_asked_stands_beside_what_is_kept(wind, baseline):
    assert baseline.gate.metrics == {"accuracy": 0.02, **HELD_BESIDE}
    assert (baseline.gate.accept, baseline.gate.trial_timeout_s) == ((), 10.0)
    some = bless(changed(wind, of(call_counts={}, repeats=[0], input_tokens=0)))
    assert set(some.gate.metrics) == set(baseline.gate.metrics), "a share of some is one that some trials lack"
    chosen = bless(wind, {"accuracy": 0.05, "steps": 0.2}, ["undecided"]).gate
    assert (chosen.metrics, chosen.accept) == ({**baseline.gate.metrics, "accuracy": 0.05, "steps": 0.2}, ("undecided",))
    kept = bless(wind, {"steps": 0.3}, ["tasks_lost"], chosen.model_copy(update={"metrics": {"accuracy": 0.07}})).gate
    assert (kept.metrics, kept.accept) == ({"accuracy": 0.07, "steps": 0.3}, ("undecided", "tasks_lost"))
    with pytest.raises(RunError, match="metric cost_usd: not known for all trials; nothing was blessed"):
        bless(wind, {"cost_usd": 0.1})


@pytest.mark.parametrize("slowest", [0.1, 3.3])
def test_a_trial_hangs_after_twenty_times_the_slowest_blessed_one(wind, slowest):
    found = changed(wind, lambda record: replace(record, wall_s=slowest))
    assert bless(found).gate.trial_timeout_s == max(MIN_LIMIT_S, TIMES_SLOWEST * slowest)
    arms = tuple(arm.model_copy(update={"model": "openai/m"}) for arm in found.manifest.arms)
    assert bless(changed(found, arms=arms)).gate.trial_timeout_s is None, "a real model takes what it takes"


@pytest.mark.parametrize("old", ["", '{"whichloop_baseline": 2'])
def test_it_is_written_in_the_place_of_a_damaged_one_whole_or_not_at_all(baseline, old, tmp_path, monkeypatch):
    path = tmp_path / "b.json"
    path.write_text(old)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space") as failed:
            write_baseline(path, baseline)
    assert str(path) in str(failed.value)
    assert (path.read_text(), list(tmp_path.iterdir())) == (old, [path])
    write_baseline(path, baseline)
    assert read_baseline(path) == baseline


@pytest.mark.parametrize(("name", "there"), [("mine.json", "{}"), ("mine.json", "[1]"), ("README.md", None), ("mine", None)])
def test_a_file_that_is_no_baseline_is_never_replaced(baseline, name, there, tmp_path):
    path = tmp_path / name
    if there is not None:
        path.write_text(there)
    with pytest.raises(ValueError, match=f"{name}: "):
        write_baseline(path, baseline)
    assert [file.read_text() for file in tmp_path.iterdir()] == [there] * (there is not None)


def bad(path: Path, content: str | bytes, why: str) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=r".*") as said:
        read_baseline(path)
    assert str(said.value).startswith(f"{path}: ")
    assert why in str(said.value)
    assert "\n" not in str(said.value)


def edited(text: str, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> str:
    value = json.loads(text)
    inside = value
    for name in path[:-1]:
        inside = inside[name]
    change(inside, path[-1])
    return json.dumps(value)


TASK = ("arms", ARM, "tasks", ALL[0])


BROKEN: dict[str, Change] = {
    "8 of 96 trials are missing": lambda record: None if record.task == ALL[0] else record,
    f"{ARM}: 8.3% of its trials errored, more than 2% (2 × provider: down)": of(ALL[:1], status="errored", reason="provider: down"),
    f"{ARM}: in no trial did the loop ask its model": of(calls={}),
    f"{ARM}: every trial crashes or hangs": of(stop="crashed", reason="KeyError", scores={"accuracy": 0.0}, calls={}),
    f"{ARM}: no trial was scored": of(status="excluded"),
    "bare/flaky-tools: only 0 of ": lambda r: replace(r, faults=tuple(replace(fault, landed=False) for fault in r.faults)),
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_run_that_says_nothing_of_its_loops_is_not_blessed(wind, why):
    with pytest.raises(RunError) as said:
        bless(changed(wind, BROKEN[why]))
    assert str(said.value).startswith(f"{wind.folder}: {why}")
    assert str(said.value).endswith("; nothing was blessed")
    assert "\n" not in str(said.value)


def test_an_optimization_is_no_comparison_and_a_file_that_is_not_there_names_the_command_that_writes_it(wind, tmp_path):
    write_manifest_json(tmp_path, {**wind.manifest.to_json(), "kind": "optimization"})
    with pytest.raises(RunError, match=r"an optimization, not a comparison; its test is one: .*/test"):
        read_run(tmp_path)
    with pytest.raises(ValueError, match=r"b\.json: no such file; whichloop gate RUN --bless --output \S+/b\.json"):
        read_baseline(tmp_path / "b.json")


def test_it_comes_back_as_it_was_with_a_line_for_each_task_however_margins_and_line_breaks_were_edited(
    wind, baseline, text, tmp_path
):
    path = tmp_path / "gates" / "b.json"
    write_baseline(path, baseline)
    assert read_baseline(path) == baseline
    assert to_text(read_baseline(path)) == path.read_text() == text
    assert list(path.parent.iterdir()) == [path]
    assert text.isascii()
    for name in ALL:
        assert sum(f'"{name}": {{"metrics"' in line for line in text.splitlines()) == len(baseline.arms)
    backwards = bless(replace(wind, records=wind.records[::-1]))
    assert backwards.model_copy(update={"created": baseline.created}) == baseline, "the order of trials changes nothing"
    other = to_text(bless(changed(wind, failing(ALL[3]))).model_copy(update={"created": baseline.created})).split("\n")
    assert sum(was != now for was, now in zip(text.split("\n"), other, strict=True)) == 1, "git shows a changed task as one line"
    path.write_bytes(text.replace('"accuracy": 0.02', '"accuracy": 0.5').replace("\n", "\r\n").encode())
    assert read_baseline(path).gate == baseline.gate.changed({"accuracy": 0.5})


def field(*path: Any, to: Any) -> Callable[[str], str]:
    return lambda text: edited(text, path, lambda inside, name: inside.__setitem__(name, to))


BAD: list[tuple[Callable[[str], str | bytes], str]] = [
    (field("whichloop_baseline", to=1), "a baseline of version 1, and this is 2"),
    (field("suite", "tasks", to=3), f"arms.{ARM}: other tasks or another profile than the run has"),
    (field("seed", to="7"), "seed: Input should be a valid integer, got '7'"),
    (field("gate", "metrics", to={"accuracy": 0.1, "speed": 0.1}), "gate: unknown metric 'speed'"),
    (field("gate", "metrics", to={"steps": 0.1}), "gate: metrics: accuracy is missing"),
    (field("gate", "accept", to=["worse"]), "gate.accept.0: Input should be "),
    (field(*TASK, "metrics", "accuracy", to=[1]), "lists of other lengths than the 2 of stop"),
    (field(*TASK, "metrics", "tokens", 0, to=1e200), "metrics.tokens.0: Input should be less than 1000"),
    (lambda text: "", "not a baseline"),
    (lambda text: text.replace('\n "seed"', '\n<<<<<<< HEAD\n "seed"'), "Expecting property name"),
    (lambda text: text.replace('"seed": 0', '"seed": NaN'), "seed: Input should be a valid integer, got "),
    (lambda text: '{"whichloop_baseline": ' + "[" * 100_000, "not a baseline"),
]


@pytest.mark.parametrize(("content", "why"), BAD)
def test_a_bad_file_is_one_line_that_names_the_field_or_what_it_is(text, tmp_path, content, why):
    bad(tmp_path / "b.json", content(text), why)
