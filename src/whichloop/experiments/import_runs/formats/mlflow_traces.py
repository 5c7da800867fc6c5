"""Traces of MLflow, as `Trace.to_json()` writes them: a file, a list, lines, an object with `traces`, or a folder of such.

A trace is a trial. Its assessments are scores; `--map task=PLACE,score=PLACE` names places in its `info`, such as `tags.task`.
"""

from __future__ import annotations

from collections.abc import Mapping

from whichloop.experiments.trace_formats.gathered_spans import GatheredSpans
from whichloop.experiments.trace_formats.gen_ai import as_text
from whichloop.experiments.trace_formats.mlflow_spans import read_mlflow_span, scores_of_assessments
from whichloop.experiments.trace_formats.span_trials import MEANINGS, SpanTrials, ToldOfTrace

from ..documents import documents, each_item, has, in_document
from ..foreign_file import ForeignFile
from ..foreign_trials import ForeignLog, Format, ReadingOptions
from ..places import check_meanings
from ..values import located, mapping, name_of, object_at, objects_at

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
