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
from whichloop.metrics.trace import ModelExchange, ToolRun
from whichloop.runs.store.trials import read_records, read_trace


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


VALUES: dict[Any, float] = {"C": 1, "P": 0.5, "I": 0, "N": 0, True: 1, False: 0, 0.25: 0.25, "0.75": 0.75, "yes": 1, "False": 0}


LIMITS: dict[str | None, str] = {
    **{None: "finished", "message": "max_steps", "turn": "max_steps", "time": "timeout", "working": "timeout"},
    **{"token": "budget", "cost": "budget", "context": "context_overflow", "operator": "terminated", "custom": "terminated"},
}


def test_values_and_limits_are_those_of_inspect(kit):
    samples = [kit.sample(number, value=value) for number, value in enumerate(VALUES, 1)]
    found = sorted(kit.imported(kit.put(kit.log(*samples))).records, key=lambda record: int(record.task))
    assert [record.accuracy for record in found] == list(VALUES.values())
    limits = [None if limit is None else {"type": limit, "limit": 3.0} for limit in LIMITS]
    samples = [kit.sample(number, limit=limit) for number, limit in enumerate(limits, 1)]
    found = sorted(kit.imported(kit.put(kit.log(*samples))).records, key=lambda record: int(record.task))
    assert [record.stop for record in found] == list(LIMITS.values())


params = st.dictionaries(
    st.sampled_from(["attempts", "prompt", "tools", "nested"]),
    st.integers(0, 3)
    | st.text("ab", max_size=3)
    | st.text("c", min_size=79, max_size=82)
    | st.lists(st.integers(0, 2), min_size=1),
)


@pytest.mark.parametrize("key", ["params", "params_passed"])
@given(one=params, other=params)
def test_arms_have_one_name_if_and_only_if_their_steps_have_the_same_arguments(kit, key, one, other):
    def named(arguments):
        plan = {"steps": [{"solver": "react", key: arguments}, {"solver": "generate", "params": {"attempts": 3}}]}
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


def transcript():
    """A tool that is called twice, the first time with arguments that cannot be parsed; long texts are attachments."""
    broken = {"id": "c1", "function": "find", "arguments": {}, "parse_error": "Error parsing:\n\n{'name': An\n\nbad"}
    good = {"id": "c2", "function": "find", "arguments": {"name": "Ann"}}
    pool = [
        {"role": "system", "content": "attachment://1"},
        {"role": "user", "content": [{"type": "text", "text": "Where is Ann?"}]},
        {"role": "assistant", "content": "", "tool_calls": [broken]},
        {"role": "tool", "content": "no", "tool_call_id": "c1", "function": "find"},
    ]

    def model(refs, message, **more):
        output = {"choices": [{"message": message}], "usage": {"input_tokens": 10, "output_tokens": 2}}
        return {"event": "model", "input": [], "input_refs": [refs], "output": output, "working_time": 0.5, **more}

    said = {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "room 7"}]}
    return {
        "events_data": {"messages": pool},
        "attachments": {"1": "You find people."},
        "events": [
            model([0, 2], pool[2]),
            {"event": "tool", "id": "c1", "function": "find", "arguments": {}, "error": {"type": "parsing", "message": "no"}},
            {"event": "model", "input_refs": [[0, 4]], "error": "late", "output": {}},
            model([0, 4], {"role": "assistant", "content": "", "tool_calls": [good]}),
            {"event": "tool", "id": "c2", "function": "find", "arguments": {"name": "Ann"}, "result": "room 7"},
            model([0, 4], said),
        ],
    }


def test_a_transcript_is_the_trace(kit):
    found = kit.imported(kit.put(kit.log(kit.sample(1, **transcript()))))
    record = only(found)
    assert dict(record.errors) == {"wire": 1, "tool.InvalidArguments": 1, "provider": 1}
    trace = read_trace(found.folder, record)
    assert (trace.head.query, trace.head.expected) == ("What is 1?", "yes")
    asked = [event for event in trace.events if isinstance(event, ModelExchange)]
    assert [(event.move_kind, event.seconds, event.tokens, event.same, len(event.messages)) for event in asked] == [
        ("", 0.5, (10, 2), 0, 2),
        ("", 0.0, None, 2, 2),
        ("act", 0.5, (10, 2), 4, 0),
        ("answer", 0.5, (10, 2), 4, 0),
    ]
    assert asked[0].messages[0].content == "You find people."
    assert asked[0].native_calls[0].arguments == "{'name': An"
    assert asked[3].move == {"move": "answer", "thought": "hm", "value": "room 7"}
    assert [(run.data, run.status, run.error_type) for run in trace.events if isinstance(run, ToolRun)] == [
        ("no", "error", "InvalidArguments"),
        ("room 7", "success", None),
    ]
    assert trace.head.untold == ("provider", "wire")


def test_without_events_the_messages_are_the_trace(kit):
    call = {"id": "c1", "function": "find", "arguments": {"name": "Ann"}}
    messages = [
        {"role": "user", "content": "Where is Ann?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {
            "role": "tool",
            "content": "Tool find not found",
            "tool_call_id": "c1",
            "error": {"type": "parsing", "message": "not found"},
        },
        {"role": "assistant", "content": "I do not know"},
    ]
    found = kit.imported(kit.put(kit.log(kit.sample(1, messages=messages))))
    record = only(found)
    assert (record.tool_calls, dict(record.errors), "lm_calls" in record.unknown) == (0, {"tool.UnknownTool": 1}, True)
    kinds = [event.move_kind for event in read_trace(found.folder, record).events if isinstance(event, ModelExchange)]
    assert kinds == ["act", "answer"]


BEGAN = {"event": "info", "data": "began"}


REQUEST = {"event": "model", "output": {"usage": {"input_tokens": 7, "output_tokens": 2}}}


def test_a_real_log_is_read_sample_by_sample(kit):
    found = kit.imported(kit.files / "capitals.eval", scorer="letters", columns={"cluster": "metadata.continent"})
    records = {(record.task, record.repeat): record for record in found.records}
    assert (len(records), {record.arm for record in found.records}) == (8, {"twice/mockllm/model"})
    first = records["peru", 0]
    assert (first.status, first.accuracy, first.stop, first.answer, first.cluster) == ("scored", 0, "finished", "Cusco", "america")
    assert (first.steps, first.lm_calls, first.cost_usd) == (2, 2, 0.004)
    assert (first.input_tokens, first.cached_tokens, first.output_tokens) == (26, 6, 10)  # and not the grader's 100 and 50
    assert dict(first.scores) == {"accuracy": 0.0, "model_graded_qa": 1.0}
    japan = records["japan", 1]
    assert (japan.stop, japan.accuracy, japan.steps) == ("max_steps", 0.5, 1)
    spoiled = [(records[task, 1].status, records[task, 1].reason) for task in ("mali", "france")]
    assert spoiled == [("errored", "RuntimeError('connection reset by peer')"), ("errored", "not scored: grader_failed")]
    (arm,) = found.comparison.arms
    assert (arm.summary.scored, arm.summary.errored, arm.summary.false_success_rate) == (6, 2, None)
    for record in found.records:  # requests without the scorers' own: one in the sample with a limit, none after an error
        events = read_trace(found.folder, record).events if record.trace_at else ()
        assert len([event for event in events if isinstance(event, ModelExchange)]) == record.lm_calls
    assert sorted(record.lm_calls for record in found.records) == [0, 1, 2, 2, 2, 2, 2, 2]


def test_an_error_is_seen_and_may_count_and_what_was_not_scored_is_never_a_failure(kit):
    broken = kit.sample(2, error={"message": "no\nnetwork"}) | {"scores": {}}
    unscored = (kit.sample(3, value=float("nan")), kit.sample(4) | {"scores": None})
    path = kit.put(kit.log(kit.sample(1), broken, *unscored))
    seen, counted = (kit.imported(path, errors_as_failures=counts).records for counts in (False, True))
    assert (seen[1].status, seen[1].reason, dict(seen[1].scores)) == ("errored", "no network", {})
    assert (counted[1].stop, counted[1].accuracy, counted[1].reason) == ("crashed", 0.0, "no network")
    assert [record.status for record in counted] == ["scored", "scored", "errored", "errored"]


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
    for path in (kit.put({**log, "status": "cancelled"}), started):
        found = kit.imported(path)
        there = [(record.task, record.repeat, record.status == "scored") for record in found.records]
        assert there == [("1", 0, True), ("1", 1, False), ("2", 0, False), ("2", 1, False)]
        assert {record.status for record in found.records[1:]} == {"errored"}
        assert "not run: the log ends with status" in found.records[1].reason
        assert found.is_complete


def test_scorers_calls_are_not_the_agents_and_without_events_the_totals_are_taken(kit):
    usage = {"gpt": {"input_tokens": 1008, "output_tokens": 1003, "total_cost": 9.5}}
    record = only(kit.imported(kit.put(kit.log(kit.sample(1, events=EVENTS, model_usage=usage)))))
    assert (record.lm_calls, record.tool_calls, record.steps) == (2, 1, 2)
    assert (record.input_tokens, record.output_tokens, record.cost_usd) == (8, 3, 0.5)
    cached = {"input_tokens": 5, "output_tokens": 2, "input_tokens_cache_read": 3, "input_tokens_cache_write": 1}
    totals = {"a": cached, "b": {"input_tokens": 1, "output_tokens": 1, "total_cost": 0.1}}
    record = only(kit.imported(kit.put(kit.log(kit.sample(1, model_usage=totals, messages=[{"role": "assistant"}])))))
    assert (record.input_tokens, record.cached_tokens, record.output_tokens, record.cost_usd) == (10, 3, 3, None)
    assert (record.steps, "lm_calls" in record.unknown) == (1, True)


def test_calls_that_are_not_logged_are_unknown_where_no_sample_has_any_and_none_where_others_have_some(kit):
    """A solver that wraps an agent of another kind sets the output itself, so that nothing but other events is in the log."""
    (arm,) = kit.imported(kit.put(kit.log(*(kit.sample(number, events=[BEGAN]) for number in range(3))))).comparison.arms
    assert arm.summary.dead == ""
    assert [arm.summary.means[name] for name in ("steps", "lm_calls", "tokens", "cost_usd")] == [None] * 4
    records = kit.imported(kit.put(kit.log(kit.sample(1, events=[BEGAN]), kit.sample(2, events=[REQUEST])))).records
    told = sorted((record.task, record.lm_calls, "lm_calls" in record.unknown) for record in records)
    assert told == [("1", 0, False), ("2", 1, False)]
