"""Traces of MLflow, as `Trace.to_json()` writes them: a file, a list, lines, an object with `traces`, or a folder of such.

A trace is a trial. Its assessments are scores; `--map task=PLACE,score=PLACE` names places in its `info`, such as `tags.task`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..chats import as_text, parsed
from ..foreign_file import ForeignFile, each_item, holds, items_of
from ..foreign_trials import ForeignLog, Format, ReadingOptions
from ..span_trials import GatheredSpans, SpanTrace
from ..spans import Span
from ..values import located, mapping, name_of, object_at, objects_at
from .otlp import nanoseconds

TRACES = "traces"


def read_span(span: Mapping[str, Any]) -> Span:
    """Read a span."""
    values = {name: parsed(value) for name, value in object_at(span, "attributes").items()}
    status = span.get("status")
    status_fields = mapping(status, "status") if isinstance(status, Mapping) else {"code": status or span.get("status_code")}
    message = as_text(status_fields.get("message", span.get("status_message")))
    for event in () if message else objects_at(span, "events", "an event"):
        message = as_text(object_at(event, "attributes").get("exception.message")) or message
    usage = values.get("mlflow.chat.tokenUsage")
    counts = usage.items() if isinstance(usage, Mapping) else ()
    more = {"inputs": values.get("mlflow.chat.messages"), **{f"gen_ai.usage.{name}": count for name, count in counts}}
    return Span(
        *(as_text(span.get("span_id")), as_text(span.get("parent_span_id", span.get("parent_id"))), as_text(span.get("name"))),
        start=_time(span, "start"),
        end=_time(span, "end"),
        values=values | {name: value for name, value in more.items() if value is not None},
        failed="ERROR" in str(status_fields.get("code")),
        message=message,
        raw=span,
    )


def _time(span: Mapping[str, Any], which: str) -> int:
    names = (f"{which}_time_unix_nano", f"{which}_time_ns", f"{which}_time")
    return next((nanoseconds(span[name], name) for name in names if span.get(name) is not None), 0)


def scores_of(trace: SpanTrace) -> dict[str, Any]:
    """Return the valid feedback on the whole trace, by name; one of its spans says nothing of it."""
    scores = {}
    for item in objects_at(trace.beside, "assessments", "an assessment"):
        value = object_at(item, "feedback").get("value")
        is_whole = item.get("span_id") in (None, "", trace.root.id)
        if is_whole and item.get("valid") is not False and isinstance(value, bool | int | float | str):
            scores[as_text(item.get("assessment_name", item.get("name")))] = value
    return scores


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read traces."""
    traces = GatheredSpans(reading)
    for where, traced in each_item(file, TRACES, "trace"):
        with located(where):
            info = object_at(traced, "info")
            spans = objects_at(object_at(traced, "data"), "spans", "a span")
            if not spans:
                raise ValueError("it has no span")
            trace_id = as_text(info.get("trace_id", info.get("request_id"))) or where
            for span in spans:
                traces.add(name_of(trace_id, "trace_id"), read_span(span), info)
    for trace in traces.by_name.values():
        trace.scores = scores_of(trace)
    return traces.log()


FORMAT = Format("mlflow", lambda file: holds(items_of(file.first, TRACES), {"info", "data"}), read)
