"""Spans in the JSON encoding of OTLP, an object or a line for each request: GenAI semantic conventions, and OpenInference.

One trace is one trial. Its task and score are what `--map task=KEY,score=KEY` names among the attributes of its root span and
resource; without a word on the score it is the one result of an evaluation that the root span has as an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whichloop.experiments.trace_formats.otlp_in import each_span, read_span, scores_of
from whichloop.experiments.trace_formats.span_trials import MEANINGS, GatheredSpans, SpanTrials, ToldOfTrace, root_of

from ..foreign_file import ForeignFile, parse_line
from ..foreign_trials import ForeignLog, Format, ReadingOptions
from ..places import check_meanings
from ..values import located, mapping

SPANS = "resourceSpans"
MAX_SPANS = 1_000_000


def recognizes(file: ForeignFile) -> bool:
    return SPANS in file.top_level or SPANS in file.first_row


def read(file: ForeignFile, reading: ReadingOptions) -> ForeignLog:
    """Read traces. Raises ValueError with a one-line message that names the line, or the trace and what is wrong in it."""
    check_meanings(reading, MEANINGS)
    delivered = GatheredSpans()
    number = 0
    for where, data in _requests(file):
        with located(where):
            for span, resource in each_span(mapping(data, "the request")):
                number += 1
                if number > MAX_SPANS:
                    raise ValueError(f"more than {MAX_SPANS} spans")
                delivered.add(span.get("traceId"), span.get("spanId"), span, read_span(span), resource)
    gathered = SpanTrials(reading)
    gathered.log_builder.notes.extend(delivered.notes())
    for trace in delivered.traces:
        with located(f"trace {trace.trace_id}"):
            gathered.add(trace.trace_id, trace.spans, ToldOfTrace(trace.beside, scores_of(root_of(trace.spans).span)))
    return gathered.log()


FORMAT = Format("otlp", recognizes, read, mapped=True)


def _requests(file: ForeignFile) -> Iterator[tuple[str, Any]]:
    if SPANS in file.top_level:
        yield "the file", file.json_object
        return
    for number, line in enumerate(file.content().splitlines(), 1):
        if line.strip():
            with located(f"line {number}"):
                data = parse_line(line)
            yield f"line {number}", data
