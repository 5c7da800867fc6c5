"""Traces of MLflow, as `Trace.to_json()` writes them: a file, a list, lines, an object with `traces`, or a folder of such.

A trace is a trial. Its assessments are scores; `--map task=PLACE,score=PLACE` names places in its `info`, such as `tags.task`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.experiments.import_runs.foreign_file import ForeignFile, documents, each_item, has, in_document
from whichloop.experiments.import_runs.foreign_trials import ForeignLog, Format, ReadingOptions
from whichloop.experiments.import_runs.places import check_meanings
from whichloop.experiments.import_runs.values import located, mapping, name_of, object_at, objects_at
from whichloop.experiments.trace_formats.gen_ai import as_text
from whichloop.experiments.trace_formats.otlp_in import FAILED, ReadSpan, SpanKind, nanoseconds, plain_span
from whichloop.experiments.trace_formats.span_trials import MEANINGS, GatheredSpans, SpanTrials, ToldOfTrace
from whichloop.protocol.wire import from_json

_KINDS: Mapping[str, SpanKind] = {"CHAT_MODEL": "request", "LLM": "request", "TOOL": "tool", "AGENT": "agent"}


def read_mlflow_span(span: Mapping[str, object]) -> ReadSpan:
    """Read a span. Raises ValueError."""
    attributes = {name: _parsed(value) for name, value in object_at(span, "attributes").items()}
    status = span.get("status")
    status_fields = mapping(status, "status") if isinstance(status, Mapping) else {"code": status or span.get("status_code")}
    usage = attributes.get("mlflow.chat.tokenUsage")
    beside = {
        "spanId": as_text(span.get("span_id")),
        "parentSpanId": as_text(span.get("parent_span_id", span.get("parent_id"))),
        "name": as_text(span.get("name")),
        "status": {"code": FAILED if "ERROR" in str(status_fields.get("code")) else 0, "message": _message(span, status_fields)},
    }
    return plain_span(
        _KINDS.get(str(attributes.get("mlflow.spanType")).upper(), ""),
        attributes.get("mlflow.spanInputs", attributes.get("mlflow.chat.messages")),
        attributes.get("mlflow.spanOutputs"),
        beside | {"start": _time(span, "start"), "end": _time(span, "end")},
        {"usage": usage, "model": attributes.get("mlflow.llm.model")} | attributes,
    )


def _parsed(value: object) -> object:
    try:
        return from_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _time(span: Mapping[str, object], which: str) -> int:
    for name in (f"{which}_time_unix_nano", f"{which}_time_ns", f"{which}_time"):
        if span.get(name) is not None:
            return nanoseconds(span[name], name)
    return 0


def _message(span: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return what an error said: the status' message, or else the exception that the span noted."""
    text = as_text(status.get("message", span.get("status_message")))
    for event in () if text else objects_at(span, "events", "an event"):
        text = as_text(object_at(event, "attributes").get("exception.message")) or text
    return text


def scores_of_assessments(info: Mapping[str, object]) -> dict[str, float]:
    """Return the feedback on a trace that is a number or a truth value, by name. Raises ValueError."""
    scores = {}
    for item in objects_at(info, "assessments", "an assessment"):
        value = object_at(item, "feedback").get("value")
        if isinstance(value, bool | int | float):
            scores[as_text(item.get("assessment_name", item.get("name")))] = float(value)
    return scores


TRACES = "traces"


def is_mlflow(data: object) -> bool:
    """Whether JSON holds traces as MLflow exports them."""
    first = next(iter(each_item(data, TRACES)), None)
    return isinstance(first, Mapping) and isinstance(first.get("info"), Mapping) and isinstance(first.get("data"), Mapping)


def recognizes(file: ForeignFile) -> bool:
    return has(file, is_mlflow)


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read traces. Raises ValueError with a one-line message that names the document and the trace."""
    check_meanings(reading, MEANINGS)
    delivered = GatheredSpans()
    for name, data in documents(file):
        for number, item in enumerate(each_item(data, TRACES), 1):
            with in_document(file, name, f"trace {number}"):
                traced = mapping(item, "the trace")
                info = object_at(traced, "info")
                spans = objects_at(object_at(traced, "data"), "spans", "a span")
                if not spans:
                    raise ValueError("it has no span")
                trace_id = name_of(as_text(info.get("trace_id", info.get("request_id"))) or f"{name} {number}", "trace_id")
                for span in spans:
                    delivered.add(trace_id, span.get("span_id"), span, read_mlflow_span(span), info)
    gathered = SpanTrials(reading)
    gathered.log_builder.notes.extend(delivered.notes())
    for trace in delivered.traces:
        with located(f"trace {trace.trace_id}"):
            gathered.add(trace.trace_id, trace.spans, ToldOfTrace(trace.beside, scores_of_assessments(trace.beside)))
    return gathered.log("mlflow")


FORMAT = Format("mlflow", recognizes, read, mapped=True)
