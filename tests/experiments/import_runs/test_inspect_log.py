"""Logs of Inspect: what it wrote itself, and what it may write."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.experiments.import_runs import ImportRequest, import_files
from whichloop.experiments.import_runs.foreign_file import ZSTD, ZipArchive
from whichloop.runs.store.trials import read_records


def only(found):
    """The one record."""
    (record,) = found.records
    return record


@pytest.mark.parametrize(
    ("scorer", "name"), [("letters", "letters"), ("model_graded_qa", "model_graded_qa"), ("form/length", "length")]
)
def test_a_real_log_gives_the_accuracy_that_inspect_computed(kit, scorer, name):
    log = kit.files / "capitals.eval"
    (arm,) = kit.imported(log, scorer=scorer).comparison.arms
    with log.open("rb") as file:
        header = json.loads(ZipArchive(file).read("header.json"))
    (computed,) = [one for one in header["results"]["scores"] if one["name"] == name]
    first = next(iter(computed["metrics"].values()))
    assert arm.summary.accuracy.value == pytest.approx(first["value"])


params = st.dictionaries(
    st.sampled_from(["attempts", "prompt", "tools", "nested"]),
    st.integers(0, 3)
    | st.text("ab", max_size=3)
    | st.text("c", min_size=79, max_size=82)
    | st.lists(st.integers(0, 2), min_size=1),
)


@given(one=params, other=params)
def test_arms_have_one_name_if_and_only_if_their_steps_have_the_same_arguments(kit, one, other):
    def named(arguments):
        plan = {"steps": [{"solver": "react", "params": arguments}, {"solver": "generate", "params": {"attempts": 3}}]}
        return kit.imported(kit.put(kit.log(kit.sample(1), solver=None, plan=plan))).comparison.arms[0].info.arm

    assert (named(one) == named(other)) == (one == other)


@given(st.lists(st.tuples(*[st.integers(0, 5000)] * 4), min_size=1, max_size=4), st.booleans())
def test_cached_tokens_are_counted_once_whatever_the_version(kit, calls, is_early):
    def usage(fresh, read, written, output):
        return {
            "input_tokens": fresh + (read + written) * is_early,
            "input_tokens_cache_read": read,
            "input_tokens_cache_write": written,
            "output_tokens": output,
            "total_tokens": fresh + read + written + output,
        }

    events = [{"event": "model", "output": {"usage": usage(*call)}} for call in calls]
    record = only(kit.imported(kit.put(kit.log(kit.sample(1, events=events)))))
    assert record.input_tokens == sum(fresh + read + written for fresh, read, written, _ in calls)
    assert (record.cached_tokens, record.output_tokens) == (sum(call[1] for call in calls), sum(call[3] for call in calls))


def test_the_same_question_is_told_from_another(kit):
    def digest_of(**changed):
        return only(kit.imported(kit.put(kit.log(kit.sample(1, **changed))))).suite_digest

    message = {"role": "user", "content": "What is 1?"}
    assert digest_of(input=[{**message, "id": "abc"}]) == digest_of(input=[{**message, "id": "def", "source": "input"}])
    assert digest_of(input=[message]) != digest_of(input=[{**message, "content": "What is 2?"}])
    assert digest_of(target="yes") != digest_of(target="no")
    shuffled = digest_of(choices=["a", "b"], target="A")
    assert shuffled == digest_of(choices=["b", "a"], target="B")
    assert digest_of(input="attachment://x", attachments={"x": "What is 1?"}) == digest_of(input="What is 1?")


USED = {"input_tokens": 7, "output_tokens": 2, "total_cost": 0.5}
AGAIN = {"input_tokens": 1, "output_tokens": 1, "total_cost": 0.5}
GRADED = {"input_tokens": 1000, "output_tokens": 1000, "total_cost": 9.0}
EVENTS: list[dict[str, Any]] = [
    {"event": "span_begin", "id": "s", "type": "solvers"},
    {"event": "model", "span_id": "s", "output": {"usage": USED}},
    {"event": "tool", "span_id": "s"},
    {"event": "model", "span_id": "s", "error": "503", "output": {}},
    {"event": "model", "span_id": "s", "cache": "read", "output": {"usage": AGAIN}},
    {"event": "span_begin", "id": "j", "type": "scorers"},
    {"event": "span_begin", "id": "k", "parent_id": "j", "type": "agent"},
    {"event": "model", "span_id": "k", "output": {"usage": GRADED}},
]


def test_a_folder_of_logs_is_one_comparison_zipped_or_not(kit, tmp_path):
    """Of what `inspect eval` writes of a task: one that was tried again, a repeat, another agent, and what else lies there."""

    def log(run, day, *samples, solver="react", **more):
        return kit.log(*samples, solver=solver, spec={"task_id": run, "created": f"2026-01-0{day}"}, **more)

    whole = (kit.sample(1), kit.sample(2, value="I"))
    folder = tmp_path / "logs"
    (folder / "later").mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps(log("r1", 1, kit.sample(1, value="I"), status="error")))
    (folder / "b.eval").write_bytes(kit.archive(kit.members(log("r1", 2, *whole))))
    (folder / "later/c.json").write_text(json.dumps(log("r2", 3, *whole)))
    (folder / "d.eval").write_bytes(kit.archive(kit.members(log("r3", 4, *whole, solver="plan"))))
    (folder / "eval-set.json").write_text('{"eval_set_id": "x"}')
    (folder / "notes.txt").write_text("see b")
    archive = shutil.make_archive(str(tmp_path / "logs"), "zip", tmp_path, "logs")
    for path in (folder, Path(archive)):
        made = import_files([path], ImportRequest(), kit.folder / "runs" / f"folder{next(kit.numbers)}")
        scored = [record for record in read_records(made.folder) if record.status == "scored"]
        assert sorted((one.arm.partition("/")[0], one.task, one.repeat, one.accuracy) for one in scored) == [
            *(("plan", "1", 0, 1), ("plan", "2", 0, 0)),
            *(("react", "1", 0, 1), ("react", "1", 1, 1), ("react", "2", 0, 0), ("react", "2", 1, 0)),
        ]
        assert any("a.json: tried again in" in note for note in made.notes)


def test_every_form_of_a_log_gives_the_same_records(kit):
    log = kit.log(*(kit.sample(f"a/{task}", epoch, "CI"[task % 2], events=EVENTS) for task in range(3) for epoch in (1, 2)))
    plain = kit.imported(kit.put(log))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD):
        packed = kit.imported(kit.put(kit.archive(kit.members(log), method), ".eval"))
        assert packed.digest == plain.digest
        assert {record.suite_digest for record in packed.records} == {record.suite_digest for record in plain.records}


def test_samples_in_chunks_give_the_same_records(kit):
    text, linked = "a long question", {"input": "attachment://0"}
    parts = {"input": "attachment://abc", "attachments": {"abc": text}, "metadata": {"kind": "k"}, "messages": [{"role": "user"}]}
    whole = kit.sample("t", events=EVENTS, **parts)
    alone = {name: value for name, value in whole.items() if name not in ("events", "messages", "attachments", "metadata")} | linked
    members = {name: data for name, data in kit.members(kit.log(alone)).items() if not name.startswith("samples")}
    chunks = {"sample.json": alone, "metadata.json": whole["metadata"], "messages/0.json": whole["messages"]}
    chunks |= {"events/10.json": EVENTS[10:], "events/0.json": EVENTS[:3], "events/3.json": EVENTS[3:10]}
    chunks |= {"events/stats.json": {"version": 1}, "attachments/0.json": [text]}
    members |= {f"samples/t_epoch_1/{name}": json.dumps(part).encode() for name, part in chunks.items()}
    mapped = {"cluster": "metadata.kind"}
    chunked = kit.imported(kit.put(kit.archive(members), ".eval"), columns=mapped)
    plain = kit.imported(kit.put(kit.log(whole)), columns=mapped)
    assert (chunked.digest, chunked.records) == (plain.digest, plain.records)


def test_a_log_that_breaks_off_leaves_errored_trials(kit):
    log = kit.log(kit.sample(1), spec={"dataset": {"sample_ids": [1, 2]}, "config": {"epochs": 2}})
    members = kit.members(log)
    del members["header.json"]
    started = kit.put(kit.archive({**members, "_journal/start.json": json.dumps({"eval": log["eval"]}).encode()}), ".eval")
    found = kit.imported(started)
    assert [(record.task, record.repeat, record.status) for record in found.records] == [
        *(("1", 0, "scored"), ("1", 1, "errored"), ("2", 0, "errored"), ("2", 1, "errored")),
    ]
    assert found.is_complete
