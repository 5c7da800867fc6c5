"""Spans of MLflow as those of the GenAI conventions.

Source: `Span.to_dict` and `mlflow/tracing/constant.py` of mlflow 3.17: attributes are JSON in texts, `mlflow.spanType`,
`mlflow.spanInputs`, `mlflow.spanOutputs`, `mlflow.chat.tokenUsage`; earlier versions name times and statuses differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whichloop.experiments.import_runs.values import mapping, object_at, objects_at
from whichloop.protocol.wire import from_json

from .gen_ai import as_text
from .otlp_in import FAILED, ReadSpan, SpanKind, nanoseconds
from .plain_spans import plain_span

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
