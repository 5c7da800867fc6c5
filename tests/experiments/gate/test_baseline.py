"""The baseline's file: what is in it, that it comes back as it was, and that a bad one is one line that says what is wrong."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.sealing import reseal
from whichloop.experiments.compare.results import Results
from whichloop.experiments.gate import Baseline, bless, read_baseline, read_run, write_baseline
from whichloop.experiments.gate.changes.baseline_changes import blessed_crashes, changes, replaced
from whichloop.experiments.gate.data.baseline import outcome_of, stored_value, to_text
from whichloop.experiments.gate.data.damaged import DamagedBaseline
from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.summary import METRICS
from whichloop.runs.config import config_from
from whichloop.runs.store.files import RunError, write_manifest_json

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session")
def blessed(wind) -> Baseline:
    return bless(wind)


@pytest.fixture(scope="session")
def text(blessed) -> str:
    return to_text(blessed)


# --- what is in it ---


def test_it_holds_what_the_trials_gave(wind, blessed):
    for record in wind.records:
        line = blessed.arms[record.arm].tasks[record.task]
        for metric in METRICS:
            assert line.values(metric)[record.repeat] == stored_value(record, metric)
        assert line.stop[record.repeat] == record.stop
        assert line.outcome[record.repeat] == outcome_of(record)
        assert line.course is not None
        assert len(line.course[record.repeat].split()) >= 2
    context = (
        "retention",
        "prefix_stability",
        "tokens_with_cache",
        "false_success_rate",
        "calls_lost",
        "calls_doubled",
        "results_mispaired",
    )
    assert blessed.metrics == ("accuracy", "steps", "lm_calls", "tokens", "seconds", *context)
    assert (blessed.seed, blessed.repeats, blessed.suite.tasks) == (0, 2, 12)
    known = config_from(blessed.config, "baseline").public()  # what is left out is what a comparison does by itself
    elsewhere = ("name", "runs", "mlflow", "tracking_uri", "experiment", "concurrency")
    assert known == wind.manifest.config | {name: known[name] for name in elsewhere}
    assert not blessed.config.keys() & set(elsewhere)
    assert list(blessed.arms) == [arm.arm for arm in wind.manifest.arms]


def test_it_is_small_and_has_one_line_per_task(wind, blessed, text):
    assert len(text) / len(wind.records) < 300
    for name, arm in blessed.arms.items():
        for task in arm.tasks:
            assert sum(f'"{task}": {{"accuracy"' in line for line in text.splitlines()) == len(blessed.arms), name
    assert text.isascii()


def test_the_order_of_trials_changes_nothing(wind, blessed):
    backwards = replace(wind, records=wind.records[::-1])
    assert bless(backwards).model_copy(update={"created": ""}) == blessed.model_copy(update={"created": ""})


def test_without_traces_it_has_no_course(altered):
    found = bless(altered(lambda record: replace(record, trace_at=None)))
    assert {line.course for arm in found.arms.values() for line in arm.tasks.values()} == {None}


def test_what_infrastructure_spoiled_is_not_known(ran):
    found: Results = ran(loops=("bare",), profiles=("clean",), suite="arithmetic(size=12)")
    spoiled = replace(found.records[0], status="errored", reason="provider: down")
    made = bless(replace(found, records=(spoiled, *found.records[1:])))
    line = made.arms["bare/clean"].tasks[spoiled.task]
    assert (line.accuracy, line.stop, line.outcome) == ((None,), (None,), (None,))


# Of a trial, what is measured by a clock or named by the run's own names is no outcome.
CLOCKS = {"arm", "seed", "suite_digest", "cost_usd", "nominal_usd", "seconds", "wall_s", "started_at", "trace_at", "retries"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("answer", "another"),
        ("stop", "forced"),
        ("scores", {"accuracy": 0.5}),
        ("steps", 77),
        ("calls", {"decide": 77}),
        ("tool_calls", 77),
        ("input_tokens", 77),
        ("output_tokens", 77),
        ("errors", {"wire": 1}),
        ("false_success", True),
        ("trace_digest", "77"),
        ("faults", (FaultRecord("tool.slow", "decide:c1"),)),
        ("arm", "another"),
        ("seconds", 77.0),
        ("wall_s", 77.0),
        ("started_at", 77.0),
        ("cost_usd", 77.0),
        ("nominal_usd", 77.0),
    ],
)
def test_the_outcome_is_all_that_a_trial_gave_but_times_and_costs(wind, field, value):
    record: Record = wind.records[0]
    assert (outcome_of(replace(record, **{field: value})) == outcome_of(record)) == (field in CLOCKS)


# --- what is refused ---


def refused(found: Results, why: str) -> None:
    with pytest.raises(RunError) as said:
        bless(found)
    assert why in str(said.value)
    assert str(said.value).startswith(f"{found.folder}: ")
    assert "\n" not in str(said.value)


def test_an_incomplete_run_is_refused(altered):
    refused(altered(lambda record: None if record.task == "arithmetic-0001" else record), "8 of 96 trials are missing")


def test_a_run_that_a_look_ended_is_refused_in_its_own_words(fresh):
    found = fresh(profiles=("clean",), suite="arithmetic(size=40)", looks=2, margin=0.5)
    refused(found, "--looks ended it after 20 of 40 tasks, and a gate needs all of them: run it without --looks")


def test_a_run_whose_trials_failed_is_refused(altered):
    first = {"arm": "bare/clean", "task": "arithmetic-0001"}
    found = altered(lambda r: replace(r, status="errored") if (r.arm, r.task) == tuple(first.values()) else r)
    refused(found, "bare/clean: 8.3% of its trials are errored, more than 2%")


def test_a_run_of_which_nothing_was_scored_is_refused(altered):
    refused(altered(lambda r: replace(r, status="excluded") if r.arm == "bare/clean" else r), "bare/clean: no trial was scored")


def test_a_run_whose_faults_did_not_land_is_refused(altered):
    found = altered(lambda r: replace(r, faults=tuple(replace(fault, landed=False) for fault in r.faults)))
    refused(found, "scheduled faults landed; the run is invalid")


def test_an_optimization_is_refused(wind, tmp_path):
    write_manifest_json(tmp_path, {**wind.manifest.to_json(), "kind": "optimization"})
    with pytest.raises(RunError, match=r"an optimization, not a comparison; its test is one: .*/test"):
        read_run(tmp_path)
    assert read_run(wind.folder).digest == wind.digest


# --- the file ---


def test_it_comes_back_as_it_was(blessed, tmp_path):
    path = tmp_path / "gates" / "b.json"
    write_baseline(path, blessed)
    assert read_baseline(path) == blessed
    assert to_text(read_baseline(path)) == path.read_text()
    assert list(path.parent.iterdir()) == [path]


def test_it_is_written_whole_or_not_at_all(blessed, tmp_path, monkeypatch):
    path = tmp_path / "b.json"
    path.write_text("old")
    monkeypatch.setattr("os.fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_baseline(path, blessed)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def read(path: Path, content: str | bytes) -> Baseline:
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    reseal(path)
    return read_baseline(path)


def tried(path: Path, content: str) -> tuple[Baseline | None, str]:
    """The baseline, or what is said in its place; no other error may leave."""
    try:
        return read(path, content), ""
    except ValueError as error:
        return None, str(error)


def bad(path: Path, content: str | bytes, why: str) -> None:
    with pytest.raises(ValueError, match=r".*") as said:
        read(path, content)
    assert str(said.value).startswith(f"{path}: ")
    assert why in str(said.value)
    assert "\n" not in str(said.value)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a JSON value."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [path, *(place for name, item in items for place in places(item, (*path, name)))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**30) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(SHARED, max_examples=cases(75))
@given(data=st.data())
def test_a_damaged_file_is_one_line_or_a_baseline_all_the_same(text, tmp_path, data):
    value = json.loads(text)
    for arm in value["arms"].values():
        arm["tasks"] = dict(list(arm["tasks"].items())[:2])
    value["suite"]["tasks"] = 2
    place = data.draw(st.sampled_from(places(value)[1:]))
    inside = value
    for name in place[:-1]:
        inside = inside[name]
    if data.draw(st.booleans()) and isinstance(inside, dict):
        del inside[place[-1]]
    else:
        inside[place[-1]] = data.draw(JSON)
    path = tmp_path / "b.json"
    found, said = tried(path, json.dumps(value))
    assert (found is None) == said.startswith(f"{path}: ")
    assert "\n" not in said
    assert len(said) < 600
    if found is not None:
        write_baseline(path, found)
        assert read_baseline(path) == found


@SHARED
@given(content=st.binary(max_size=60) | st.text(max_size=60))
def test_what_is_no_baseline_is_one_line(tmp_path, content):
    bad(tmp_path / "b.json", content, "not a baseline")


@SHARED
@given(share=st.floats(0, 0.999))
def test_a_torn_file_is_one_line(text, tmp_path, share):
    bad(tmp_path / "b.json", text[: int(share * len(text))].rstrip(), "not a baseline")


def edited(text: str, *path: Any, to: Any) -> str:
    value = copy.deepcopy(json.loads(text))
    inside = value
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = to
    return json.dumps(value)


TASK = ("arms", "bare/clean", "tasks", "arithmetic-0001")


@pytest.mark.parametrize(
    ("path", "to", "why"),
    [
        (("whichloop_baseline",), 2, "a baseline of version 2, this whichloop reads 1"),
        (("seed",), "7", "seed: Input should be a valid integer, got '7'"),
        (("repeats",), 0, "repeats: Input should be greater than or equal to 1, got 0"),
        (("repeats",), 3, "arms.bare/clean.tasks.arithmetic-0001: 2 values, and repeats is 3"),
        (("suite", "tasks"), 13, "arms.bare/clean.tasks: 12 tasks, and suite.tasks says 13"),
        (("profiles",), {}, "arms.bare/clean.profile: 'clean' is not among profiles"),
        (("metrics",), ["accuracy", "speed"], "metrics: unknown metric 'speed'"),
        (("metrics",), ["steps"], "metrics: accuracy is missing"),
        (("arms",), {}, "arms: Dictionary should have at least 1 item"),
        (("arms", "bare/clean", "speed"), 1, "arms.bare/clean.speed: Extra inputs are not permitted"),
        ((*TASK, "accuracy"), [1], "accuracy: 1 values beside 2 of stop"),
        ((*TASK, "accuracy", 1), 1.5, "arms.bare/clean.tasks.arithmetic-0001.accuracy.1: Input should be less than or equal to 1"),
        ((*TASK, "steps", 0), -1, "steps.0: Input should be greater than or equal to 0, got -1"),
        ((*TASK, "tokens", 0), 1e200, "tokens.0: Input should be less than 1000"),
        ((*TASK, "outcome", 0), "xyz", "outcome.0: String should match pattern"),
        ((*TASK, "course", 0), "abc", "course.0: String should match pattern"),
    ],
)
def test_a_bad_field_is_named(text, tmp_path, path, to, why):
    bad(tmp_path / "b.json", edited(text, *path, to=to), why)


def test_names_that_stand_twice_and_numbers_that_are_none_are_refused(text, tmp_path):
    """As a merge gone wrong leaves them."""
    line = next(line for line in text.splitlines() if line.startswith('    "arithmetic-0001"'))
    bad(tmp_path / "b.json", text.replace(line, f"{line}\n{line}", 1), "duplicate key 'arithmetic-0001'")
    bad(tmp_path / "b.json", text.replace('"seed": 0', '"seed": NaN'), "NaN is not JSON")
    bad(
        tmp_path / "b.json",
        f"<<<<<<< HEAD\n{text}",
        "left both in it; take one side with git checkout --ours -- ",
    )


# --- what a new one changes ---


def test_changes_are_told_arm_by_arm(wind, blessed, altered):
    assert changes(blessed, bless(wind)) == []
    fallen = bless(altered(lambda r: replace(r, scores={"accuracy": 0.0}) if r.task == "arithmetic-0001" else r))
    said = changes(blessed, fallen)
    assert "arm bare/clean: of 12 tasks 1 changed; accuracy 1.000 -> 0.917" in said
    fewer = blessed.model_copy(update={"arms": {"bare/clean": blessed.arms["bare/clean"]}, "seed": 7})
    assert changes(blessed, fewer)[:2] == ["seed: 0 -> 7", "arm finish/clean: gone"]
    assert changes(fewer, blessed)[1] == "arm finish/clean: new"
    moved = blessed.model_copy(update={"task_digests": {**blessed.task_digests, "arithmetic-0001": "0" * 12}})
    assert changes(blessed, moved) == ["tasks: 1 task changed (arithmetic-0001)"]


def test_a_pointer_of_git_lfs_is_told_as_one_and_may_be_replaced(blessed, tmp_path):
    path = tmp_path / "b.json"
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n")
    with pytest.raises(DamagedBaseline, match=r"b\.json: not a baseline, but a pointer of Git LFS to one; git lfs pull fetches it"):
        read_baseline(path)
    assert replaced(path, blessed) == [
        "it replaces a baseline that could not be read: not a baseline, but a pointer of Git LFS to one"
    ]


def test_an_error_names_the_file_that_was_typed(blessed, tmp_path):
    (tmp_path / "b.json").mkdir()
    with pytest.raises(OSError, match=r"b\.json") as failed:
        write_baseline(tmp_path / "b.json", blessed)
    assert (failed.value.filename, failed.value.filename2) == (str(tmp_path / "b.json"), None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.json"]


def test_a_damaged_baseline_may_be_replaced_and_another_file_not(text, blessed, tmp_path):
    path = tmp_path / "b.json"
    assert replaced(path, blessed) == []
    path.write_text(text.replace("finished", "crashed", 1))
    with pytest.raises(DamagedBaseline, match=r"was written; bless it again$"):
        read_baseline(path)
    (tmp_path / ".git").mkdir()
    cure = r"take an intact version back with git checkout COMMIT -- .* \(git log -- .* lists them\), or bless it again$"
    with pytest.raises(DamagedBaseline, match=rf"was written; {cure}"):
        read_baseline(path)
    told = "it replaces a baseline that could not be read: not a baseline: its checksum does not fit, so it was damaged or edited"
    assert replaced(path, blessed) == [f"{told} after it was written"]
    path.write_text(f"<<<<<<< HEAD\n{text}")
    assert replaced(path, blessed)[0].startswith("it replaces a baseline that could not be read: ")
    path.write_text('{"mine": 1}')
    with pytest.raises(ValueError, match="not a baseline"):
        replaced(path, blessed)


def test_line_breaks_of_windows_damage_no_baseline(text, blessed, tmp_path):
    (tmp_path / "b.json").write_bytes(text.encode("ascii").replace(b"\n", b"\r\n"))
    assert read_baseline(tmp_path / "b.json") == blessed


def test_to_bless_says_how_many_trials_crash(wind, altered):
    assert blessed_crashes(wind.records) == []
    crashing = altered(lambda r: replace(r, stop="crashed", reason="KeyError: 'x'") if r.task == "arithmetic-0001" else r)
    said = "8 of 96 trials crash (8 × KeyError: 'x'), and the gate takes that for what the loop does"
    assert blessed_crashes(crashing.records) == [said]
    (ended,) = blessed_crashes(crashing.records, imported=True)
    assert ended.startswith("8 of 96 trials were ended by an error, as the file says (8 × KeyError: 'x')")
    assert ended.endswith("takes that for what the agent does")
