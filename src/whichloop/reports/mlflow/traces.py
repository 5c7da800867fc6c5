"""A sample of a run's traces in MLflow: each kind of failure at least once; and the table of all trials."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mlflow.entities import AssessmentSource, Expectation, Feedback, Span, SpanType, TraceInfo, TraceLocation, TraceState
from mlflow.tracing.constant import SpanAttributeKey, TraceMetadataKey, TraceTagKey

from whichloop.metrics.record import Record
from whichloop.metrics.summary import PRIMARY
from whichloop.metrics.trace import ModelExchange, Note, ToolRun, Trace
from whichloop.protocol import Message, StopReason, render_value
from whichloop.protocol.digest import canonical_json, digest
from whichloop.runs.store.traces import Traces

from .store import MAX_NAME, MAX_PARAM, MAX_PREVIEW, Store, clean, run_name

USUAL_TRACES, MAX_TRACES = 5, 20
"""Traces per arm: successes fill up to the usual number, kinds of failure may exceed it."""

_ENDS_WELL = frozenset({StopReason.FINISHED, StopReason.FORCED})


def sample(records: Sequence[Record]) -> list[Record]:
    """Return the trials of one arm whose traces are logged: each kind of failure once, the most telling first, then successes.

    At most MAX_TRACES, whatever the order of the records; trials without a trace are left out.
    """
    by_kinds: dict[frozenset[str], Record] = {}
    traced = sorted((record for record in records if record.trace_at is not None), key=lambda record: record.key)
    for record in traced:
        by_kinds.setdefault(shows(record), record)
    missing = frozenset().union(*by_kinds)
    chosen: list[Record] = []
    while missing and len(chosen) < MAX_TRACES:
        kinds = max(by_kinds, key=lambda kinds: len(kinds & missing))
        chosen.append(by_kinds.pop(kinds))
        missing -= kinds
    keys = {record.key for record in chosen}
    successes = [r for r in traced if r.status == "scored" and r.accuracy == 1 and r.key not in keys]
    return chosen + successes[: max(0, USUAL_TRACES - len(chosen))]


def shows(record: Record) -> frozenset[str]:
    """Return what a trial is an example of: its end, kinds of error, faults not recovered, a wrong answer, a false success."""
    kinds = {f"stop {record.stop} {record.status}", *(f"error {kind}" for kind in record.errors)}
    kinds |= {f"fault {fault.kind}" for fault in record.faults if fault.landed and not fault.absorbed and not fault.recovered}
    if record.status == "scored" and not record.is_solved:
        kinds.add("false success" if record.false_success else "wrong")
    return frozenset(kinds)


@dataclass(frozen=True, slots=True)
class TraceOwner:
    """The run and the model that traces belong to."""

    run_id: str
    model_id: str


def log_traces(store: Store, folder: Path, records: Sequence[Record], owner: TraceOwner) -> None:
    """Bring the sample up to date. A trace's id is derived from its trial, so an existing trace keeps people's remarks."""
    wanted = {
        f"tr-{digest([owner.run_id, *record.key, record.attempt, record.trace_digest])[:32]}": record for record in sample(records)
    }
    whole = _keep_only(store, owner.run_id, run_name(folder), wanted.keys())
    traces, spans = Traces(folder), list[Span]()
    for trace_id, record in wanted.items():
        if trace_id not in whole:
            trace = traces.read(record)
            info = _trace_info(trace_id, trace, record)
            info.trace_location = TraceLocation.from_experiment_id(store.experiment_id)
            info.trace_metadata = {TraceMetadataKey.SOURCE_RUN: owner.run_id, TraceMetadataKey.MODEL_ID: owner.model_id}
            info.tags["whichloop.run"] = run_name(folder)
            store.traces.start_trace(info)
            spans += trace_spans(trace_id, trace, record)
    store.traces.log_spans(store.experiment_id, spans)  # all in one transaction; the other order costs MLflow a failed insert each


def _keep_only(store: Store, run_id: str, name: str, wanted: Set[str]) -> Set[str]:
    """Delete the traces of a run that are no longer wanted; return the ids of those that are there with their spans."""
    page = store.client.search_traces(locations=[store.experiment_id], run_id=run_id, include_spans=False, max_results=100)
    ours = {trace.info.trace_id: trace.info.tags for trace in page if trace.info.tags.get("whichloop.run") == name}
    if stale := sorted(ours.keys() - wanted):
        store.client.delete_traces(store.experiment_id, trace_ids=stale)
    return {trace_id for trace_id, tags in ours.items() if TraceTagKey.SPANS_LOCATION in tags}  # a tag that comes with spans


def _trace_info(trace_id: str, trace: Trace, record: Record) -> TraceInfo:
    tags = {f"whichloop.{name}": str(getattr(record, name)) for name in ("arm", "task", "repeat", "status", "stop")}
    source = AssessmentSource(source_type="CODE", source_id="whichloop")
    assessments: list[object] = []
    if record.status == "scored":
        assessments.append(Feedback(name=PRIMARY, value=record.accuracy, source=source, trace_id=trace_id))
    if trace.head.expected is not None:
        expected = clean(trace.head.expected, MAX_PREVIEW)
        assessments.append(Expectation(name="expected", value=expected, source=source, trace_id=trace_id))
    return TraceInfo(
        trace_id=trace_id,
        trace_location=None,
        request_time=int(record.started_at * 1000),
        execution_duration=int(record.seconds * 1000),
        state=TraceState.ERROR if _failure(record) else TraceState.OK,
        request_preview=clean(trace.head.query, MAX_PREVIEW),
        response_preview="" if record.answer is None else clean(record.answer, MAX_PREVIEW),
        tags={key: clean(value, MAX_NAME) for key, value in (tags | {TraceTagKey.TRACE_NAME: record.task}).items()},
        assessments=assessments,
    )


def _failure(record: Record) -> str:
    """Return why a trial did not end by itself; empty if it did, with a right answer or a wrong one."""
    if record.status == "scored" and record.stop in _ENDS_WELL:
        return ""
    return f"{record.stop}: {record.reason}" if record.reason else str(record.stop)


@dataclass(frozen=True, slots=True)
class _Step:
    """A span that has no place and no time yet."""

    name: str
    kind: str
    inputs: Any
    outputs: Any
    error: str = ""
    more: Mapping[str, Any] | None = None
    """Attributes, as JSON values."""
    events: Sequence[Mapping[str, Any]] = ()


def trace_spans(trace_id: str, trace: Trace, record: Record) -> list[Span]:
    """Return a trial's trace as spans: the trial, and below it each model call and tool call in order.

    The journal keeps the order of events and only delays from 1 ms on: shorter ones are drawn as 1 µs.
    """
    start = clock = int(record.started_at * 1e9)
    shown_messages: dict[tuple[str, str], tuple[Message, ...]] = {}
    spans: list[Span] = []
    notes: list[dict[str, object]] = []
    for event in trace.events:
        if isinstance(event, Note):
            notes.append({"name": event.kind, "time_unix_nano": clock, "attributes": {"note": _json(event.to_json())}})
            continue
        step = _model_call(event, shown_messages) if isinstance(event, ModelExchange) else _tool_call(event)
        end = clock + (max(int(event.seconds * 1e9), 1000) if isinstance(event, ModelExchange) else 1000)
        spans.append(_span(trace_id, _ROOT + 1 + len(spans), step, (clock, end)))
        clock = end
    names = ("stop", "status", "scores", "expected", "details", "repeat")
    more = {f"whichloop.{name}": getattr(trace.head, name) for name in names}
    root = _Step(record.arm, SpanType.AGENT, trace.head.query, trace.head.answer, _failure(record), more, notes)
    return [_span(trace_id, _ROOT, root, (start, max(clock, start + int(record.seconds * 1e9)))), *spans]


def _model_call(event: ModelExchange, shown_messages: dict[tuple[str, str], tuple[Message, ...]]) -> _Step:
    """Return a model call with all its messages: the trace holds those that were new.

    The model's name is left to the run: MLflow prices a span that bears one, with LiteLLM, which fetches a list of prices.
    """
    key = (event.role, event.scope)
    shown_messages[key] = (*shown_messages.get(key, ())[: event.same], *event.messages)
    inputs: dict[str, object] = {"messages": [message.as_dict() for message in shown_messages[key]]}
    if event.tool_choice is not None:
        inputs["tool_choice"] = event.tool_choice
    input_tokens, output_tokens = event.tokens or (0, 0)
    call_fields = {"fault": event.fault or None, "move": event.move, "scope": event.scope or None}
    more = {
        SpanAttributeKey.MESSAGE_FORMAT: "openai",
        SpanAttributeKey.CHAT_USAGE: {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        },
        **{f"whichloop.{name}": value for name, value in call_fields.items() if value is not None},
    }
    error = f"{event.error.kind}: {event.error.message}" if event.error else event.wire_error or ""
    message = Message("assistant", event.reply or "", event.native_calls).as_dict()
    outputs = None if event.error else {"choices": [{"index": 0, "message": message}]}
    return _Step(event.role, SpanType.CHAT_MODEL, inputs, outputs, error, more)


def _tool_call(event: ToolRun) -> _Step:
    error = "" if event.ok else event.error_type or event.status
    more = {"whichloop.fault": event.fault} if event.fault else None
    return _Step(event.call.tool, SpanType.TOOL, event.call.arguments, event.data, error, more)


_ROOT = 1


def _span(trace_id: str, number: int, step: _Step, when: tuple[int, int]) -> Span:
    """Return a span. `number`: its place in the trace, which is its id. `when`: start and end, Unix time in ns."""
    attributes = {
        SpanAttributeKey.REQUEST_ID: trace_id,
        SpanAttributeKey.SPAN_TYPE: step.kind,
        SpanAttributeKey.INPUTS: step.inputs,
        SpanAttributeKey.OUTPUTS: step.outputs,
        **(step.more or {}),
    }
    return Span.from_dict(
        {
            "trace_id": base64.b64encode(bytes.fromhex(trace_id.removeprefix("tr-"))).decode(),
            "span_id": _span_id(number),
            "parent_span_id": None if number == _ROOT else _span_id(_ROOT),
            "name": clean(step.name, MAX_NAME) or "(no name)",
            "start_time_unix_nano": when[0],
            "end_time_unix_nano": when[1],
            "status": {"code": f"STATUS_CODE_{'ERROR' if step.error else 'OK'}", "message": clean(step.error, MAX_PREVIEW)},
            "attributes": {key: _json(value) for key, value in attributes.items()},
            "events": list(step.events),
        }
    )


def _span_id(number: int) -> str:
    return base64.b64encode(number.to_bytes(8, "big")).decode()


def _json(value: object) -> str:
    return render_value(json.dumps(value, ensure_ascii=False))


_ROWS = 10_000
"""Rows that are written at a time."""

_COLUMNS = pa.schema(
    {
        "task": pa.string(), "repeat": pa.int64(), "seed": pa.int64(), "attempt": pa.int64(), "status": pa.string(),
        "reason": pa.string(), "stop": pa.string(), "accuracy": pa.float64(), "steps": pa.int64(), "lm_calls": pa.int64(),
        "tool_calls": pa.int64(), "repeated_calls": pa.int64(), "input_tokens": pa.int64(), "output_tokens": pa.int64(),
        "tokens": pa.int64(), "cost_usd": pa.float64(), "nominal_usd": pa.float64(), "seconds": pa.float64(),
        "retries": pa.string(), "errors": pa.string(), "faults": pa.string(),
        "faults_landed": pa.int64(), "faults_absorbed": pa.int64(), "faults_recovered": pa.int64(), "false_success": pa.bool_(),
        "abstained": pa.bool_(), "confidence": pa.float64(), "cluster": pa.string(), "answer": pa.string(),
    }
)  # fmt: skip


def write_trials(records: Sequence[Record], path: Path) -> None:
    """Write all trials as a Parquet file, in the table's order, some at a time to save memory."""
    ordered = sorted(records, key=lambda record: record.key)
    with pq.ParquetWriter(path, _COLUMNS) as file:
        for start in range(0, len(ordered), _ROWS):
            file.write_table(_table(ordered[start : start + _ROWS]))


def trials_table(records: Sequence[Record]) -> pa.Table:
    """Return a row per trial, sorted by task and repeat; mappings are JSON, the answer is text, accuracy is null if not scored.

    What an imported record does not tell is null.
    """
    return _table(sorted(records, key=lambda record: record.key))


def _table(records: Sequence[Record]) -> pa.Table:
    return pa.table([pa.array(_cells(field.name, records), field.type) for field in _COLUMNS], _COLUMNS)


def _cells(name: str, records: Sequence[Record]) -> list[Any]:
    cell_of = _MADE.get(name)
    if cell_of is not None:
        return [cell_of(record) for record in records]
    return [None if record.unknown and name in record.unknown else getattr(record, name) for record in records]


def _json_of(name: str) -> Callable[[Record], str]:
    """Return a function that gives a mapping of a record as JSON; most are empty."""
    return lambda record: canonical_json(mapping) if (mapping := getattr(record, name)) else "{}"


def _faults(record: Record) -> str:
    return canonical_json([fault.to_json() for fault in record.faults]) if record.faults else "[]"


def _answer(record: Record) -> str | None:
    return None if record.answer is None else render_value(record.answer)


_MADE: Mapping[str, Callable[[Record], Any]] = {
    "reason": lambda record: clean(record.reason, MAX_PARAM) if record.reason else "",
    "accuracy": lambda record: record.accuracy if record.status == "scored" else None,
    "retries": _json_of("retries"),
    "errors": _json_of("errors"),
    "faults": _faults,
    "faults_landed": lambda record: sum(fault.landed for fault in record.faults),
    "faults_absorbed": lambda record: sum(fault.landed and fault.absorbed for fault in record.faults),
    "faults_recovered": lambda record: sum(fault.landed and fault.recovered and not fault.absorbed for fault in record.faults),
    "answer": _answer,
}
"""Columns that are not a field of a record, or have another form."""
