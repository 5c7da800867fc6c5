"""The sample of traces, the table of trials, and traces as spans."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from whichloop.metrics.record import FaultRecord, Record
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace
from whichloop.protocol import StopReason
from whichloop.reports import mlflow as tracking
from whichloop.runs.store.traces import read_trace

IN_ONE_FORK = "the comparison that is logged once"

FAULTS = st.builds(
    FaultRecord,
    st.sampled_from(["wire.empty", "tool.raises", "provider.server"]),
    st.just("decide:c1"),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def record(task: str, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "arm": "a",
        "suite": "s",
        "suite_digest": "d",
        "task": task,
        "repeat": 0,
        "seed": 1,
        "status": "scored",
    }
    return Record(**(values | {"stop": "finished", "scores": {"accuracy": 1.0}, "trace_at": (0, 1)} | changes))


RECORDS = st.lists(
    st.builds(
        record,
        st.integers(0, 99).map(str),
        status=st.sampled_from(["scored", "errored", "excluded"]),
        stop=st.sampled_from([None, *StopReason]).map(lambda stop: None if stop is None else str(stop)),
        scores=st.sampled_from([{"accuracy": 1.0}, {"accuracy": 0.0}, {}]),
        errors=st.dictionaries(st.sampled_from(["wire", "crash", "tool.KeyError", "provider.server"]), st.integers(1, 4)),
        faults=st.lists(FAULTS, max_size=2).map(tuple),
        false_success=st.booleans(),
        answer=st.none() | st.text() | st.lists(st.integers(), max_size=2),
        cost_usd=st.none() | st.floats(0, 1),
        trace_at=st.sampled_from([None, (0, 1), (0, 1)]),
        unknown=st.sampled_from([(), ("steps", "tokens")]),
    ),
    max_size=40,
    unique_by=lambda record: record.key,
)


@settings(deadline=None)
@given(RECORDS, st.randoms(use_true_random=False))
def test_a_sample_shows_every_kind_of_failure_once_at_least(records, random):
    chosen = tracking.sample(records)
    keys = [record.key for record in chosen]
    assert len(set(keys)) == len(keys) <= tracking.MAX_TRACES
    assert all(record.trace_at is not None for record in chosen)
    traced = [record for record in records if record.trace_at is not None]
    kinds = frozenset().union(*map(tracking.shows, traced))
    if len(kinds) <= tracking.MAX_TRACES:
        assert frozenset().union(*map(tracking.shows, chosen)) == kinds
    shuffled = random.sample(records, len(records))
    assert [record.key for record in tracking.sample(shuffled)] == keys


def test_a_sample_is_filled_up_with_successes():
    records = [record(f"{number:03}") for number in range(50)]
    assert tracking.sample(records) == records[: tracking.USUAL_TRACES]
    failed = [record(f"x{number}", errors={f"tool.E{number}": 1}, scores={}) for number in range(40)]
    assert len(tracking.sample(records + failed)) == tracking.MAX_TRACES


def test_each_failure_has_a_kind_of_its_own():
    plain = tracking.shows(record("t"))
    lost = FaultRecord("tool.raises", "decide:c1", landed=True)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"stop": "max_steps"}, "stop max_steps scored"),
        ({"status": "errored", "scores": {}}, "stop finished errored"),
        ({"errors": {"wire": 2}}, "error wire"),
        ({"faults": (lost,)}, "fault tool.raises"),
        ({"scores": {"accuracy": 0.0}}, "wrong"),
        ({"scores": {"accuracy": 0.0}, "false_success": True}, "false success"),
    ]
    for changes, kind in cases:
        assert kind in tracking.shows(record("t", **changes)) - plain
    for harmless in (replace(lost, landed=False), replace(lost, absorbed=True), replace(lost, recovered=True)):
        assert tracking.shows(record("t", faults=(harmless,))) == plain


@settings(deadline=None)
@given(RECORDS)
def test_the_table_has_one_row_per_trial(records):
    table = tracking.trials_table(records)
    rows = table.to_pylist()
    assert table.schema.equals(tracking.trials_table([]).schema)
    by_key = {(r.task, r.repeat): r for r in records}
    assert [(row["task"], row["repeat"]) for row in rows] == sorted(by_key)
    for row in rows:
        known = by_key[row["task"], row["repeat"]]
        assert row["accuracy"] == (known.accuracy if known.status == "scored" else None)
        assert (row["steps"], row["tokens"]) == ((None, None) if known.unknown else (known.steps, known.tokens))
        assert json.loads(row["errors"]) == known.errors
        assert [FaultRecord(**fault) for fault in json.loads(row["faults"])] == list(known.faults)
        assert row["faults_landed"] == sum(fault.landed for fault in known.faults)
        assert row["faults_absorbed"] + row["faults_recovered"] <= row["faults_landed"]
        if known.answer is None or isinstance(known.answer, str):
            assert row["answer"] == known.answer
        else:
            assert json.loads(row["answer"]) == known.answer


def test_traces_become_spans_of_every_call(run):
    for found in run.records:
        trace = read_trace(run.folder, found)
        root, *rest = tracking.trace_spans("tr-" + "ab" * 16, trace, found)
        asks = [span for span in rest if span.span_type == "CHAT_MODEL"]
        assert len(asks) == found.lm_calls
        assert sum(span.attributes["mlflow.chat.tokenUsage"]["total_tokens"] for span in asks) == found.tokens
        assert sum(span.span_type == "TOOL" for span in rest) == sum(isinstance(event, ToolRun) for event in trace.events)
        assert len({span.span_id for span in (root, *rest)}) == len(rest) + 1
        assert {span.parent_id for span in rest} <= {root.span_id}
        assert root.parent_id is None
        assert root.inputs == trace.head.query
        assert root.outputs == found.answer
        starts = [span.start_time_ns for span in rest]
        assert starts == sorted(starts)
        assert all(root.start_time_ns <= span.start_time_ns < span.end_time_ns <= root.end_time_ns for span in rest)
        assert all(span.inputs["messages"][0]["role"] == "system" for span in asks)
        events = [event for event in trace.events if isinstance(event, ModelExchange)]
        assert [len(span.inputs["messages"]) for span in asks] == [event.same + len(event.messages) for event in events]
        assert [span.outputs["choices"][0]["message"]["content"] for span in asks] == [event.reply for event in events]


def test_a_call_that_failed_is_a_span_that_failed():
    ask = {"event": "ask", "role": "decide", "same": 0, "messages": [{"role": "user", "content": "\ud800 hi"}]}
    events = [
        ask | {"error": {"kind": "provider.server", "message": "500"}, "seconds": 0.5, "fault": "provider.server"},
        ask | {"same": 1, "messages": [], "reply": "{", "tokens": [3, 1], "wire_error": "no JSON"},
        {"event": "note", "kind": "dropped", "calls": 2, "seconds": "many"},
        ask | {"reply": "", "tokens": [3, 1], "calls": [{"id": "1", "name": "add", "arguments": "{"}]},
        {"event": "tool", "tool": "add", "arguments": {"a": 1}, "status": "error", "error_type": "KeyError", "data": "x"},
    ]
    failed = record("t", stop="crashed", reason="KeyError: 'x'", scores={"accuracy": 0.0}, started_at=1.0)
    root, lost, garbled, native, tool = tracking.trace_spans("tr-" + "0a" * 16, Trace.from_json({"events": events}), failed)
    assert [span.status.description for span in (root, lost, garbled, native, tool)] == [
        "crashed: KeyError: 'x'",
        "provider.server: 500",
        "no JSON",
        "",
        "KeyError",
    ]
    assert lost.outputs is None
    assert lost.end_time_ns - lost.start_time_ns == 500_000_000
    assert lost.attributes["whichloop.fault"] == "provider.server"
    assert garbled.inputs["messages"] == lost.inputs["messages"] == [{"role": "user", "content": "? hi"}]
    assert native.outputs["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "add", "arguments": "{"}
    assert tool.outputs == "x"
    (note,) = root.events
    assert note.name == "dropped"
    assert json.loads(note.attributes["note"])["calls"] == 2
