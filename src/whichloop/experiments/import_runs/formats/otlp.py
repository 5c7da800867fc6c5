"""Spans in the JSON encoding of OTLP, an object or a line for each request, by any of the conventions in `spans.py`.

One trace is one trial. Its task and score are what `--map task=KEY,score=KEY` names among the attributes of its root span and
resource; without a word on the score it is the one result of an evaluation that the root span has as an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..chats import as_text
from ..foreign_file import ForeignFile, documents
from ..foreign_trials import ForeignLog, Format, ReadingOptions
from ..span_trials import GatheredSpans
from ..spans import FAILED, Span
from ..values import list_at, located, mapping, object_at, objects_at

EVALUATION = "gen_ai.evaluation"
SPANS = "resourceSpans"
MAX_SPANS = 1_000_000
MAX_LEVELS = 32


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read traces."""
    traces, number = GatheredSpans(reading), 0
    for name, data in documents(file):
        with located(name):
            for item in objects_at(mapping(data, "the request"), SPANS, f"an item of {SPANS}"):
                resource = read_attributes(object_at(item, "resource"))
                scopes = objects_at(item, "scopeSpans", "an item of scopeSpans")
                for span in (span for scope in scopes for span in objects_at(scope, "spans", "a span")):
                    number += 1
                    if number > MAX_SPANS:
                        raise ValueError(f"more than {MAX_SPANS} spans")
                    traces.add(span.get("traceId"), read_span(span), resource)
    for trace in traces.by_name.values():
        trace.scores = _scores_of(trace.root)
    return traces.log()


FORMAT = Format("otlp", lambda file: isinstance(file.first, dict) and SPANS in file.first, read)


def read_span(span: Mapping[str, Any]) -> Span:
    """Read a span."""
    status = object_at(span, "status")
    return Span(
        *(as_text(span.get("spanId")), as_text(span.get("parentSpanId")), as_text(span.get("name"))),
        start=nanoseconds(span.get("startTimeUnixNano", 0), "startTimeUnixNano"),
        end=nanoseconds(span.get("endTimeUnixNano", 0), "endTimeUnixNano"),
        values=read_attributes(span),
        failed=str(status.get("code")) in (str(FAILED), "STATUS_CODE_ERROR"),
        message=as_text(status.get("message")),
        raw=span,
    )


def nanoseconds(value: object, what: str) -> int:
    """Return a time in nanoseconds since 1970, which JSON may hold as text."""
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).isdecimal() or len(str(value)) > 20:
        raise ValueError(f"{what} is not a number of nanoseconds")
    return int(value)


def read_attributes(span: Mapping[str, object]) -> dict[str, Any]:
    """Return the attributes of a span, an event or a resource by key."""
    attributes = {}
    for item in objects_at(span, "attributes", "an attribute"):
        if not isinstance(item.get("key"), str):
            raise ValueError("an attribute has no key")
        attributes[item["key"]] = _read_value(mapping(item.get("value"), f"the value of {item['key']}"))
    return attributes


def _read_value(value: Mapping[str, Any], levels: int = MAX_LEVELS) -> Any:
    """Return the value of an AnyValue; None for an empty one."""
    if levels == 0:
        raise ValueError("an attribute is nested too deep")
    if "intValue" in value:
        return int(value["intValue"]) if isinstance(value["intValue"], int | str) else None
    if "arrayValue" in value:
        items = list_at(mapping(value["arrayValue"], "a list"), "values")
        return [_read_value(mapping(item, "an item"), levels - 1) for item in items]
    if "kvlistValue" in value:
        entries = objects_at(mapping(value["kvlistValue"], "an object"), "values", "an entry")
        return {str(entry.get("key")): _read_value(mapping(entry.get("value"), "an entry"), levels - 1) for entry in entries}
    return next((value[name] for name in ("stringValue", "boolValue", "doubleValue", "bytesValue") if name in value), None)


def _scores_of(span: Span) -> dict[str, Any]:
    """Return the results of evaluations that a span's events name, as numbers or in words."""
    scores: dict[str, Any] = {}
    for event in objects_at(span.raw, "events", "an event"):
        if event.get("name") == f"{EVALUATION}.result":
            values = read_attributes(event)
            number = values.get(f"{EVALUATION}.score.value")
            told = number if isinstance(number, int | float) else values.get(f"{EVALUATION}.score.label")
            scores |= {as_text(values.get(f"{EVALUATION}.name")): told} if isinstance(told, int | float | str) else {}
    return scores
