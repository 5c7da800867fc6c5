"""The spans of traces as they are delivered: exporters send some twice, and a file may be joined to itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from whichloop.experiments.import_runs.values import cut, name_of
from whichloop.protocol.values import counted

from .otlp_in import ReadSpan

MAX_ID = 40
"""Most characters of a span's id that are shown."""


@dataclass(frozen=True, slots=True)
class GatheredTrace:
    """A trace with each of its spans once."""

    trace_id: str
    spans: list[ReadSpan]
    beside: Mapping[str, Any]
    """What was delivered beside its first span, such as the attributes of its resource, or its own head."""


@dataclass(slots=True)
class _Delivered:
    span: Mapping[str, Any]
    """As the file has it."""
    read: ReadSpan


@dataclass(slots=True)
class _Trace:
    beside: Mapping[str, Any]
    spans: dict[str, _Delivered] = field(default_factory=dict)


@dataclass(slots=True)
class GatheredSpans:
    """All spans read so far, by trace; of those with one id in one trace the one that came last."""

    _traces: dict[str, _Trace] = field(default_factory=dict)
    _again: list[str] = field(default_factory=list)
    """The places of spans that came again as they were."""
    _other: list[str] = field(default_factory=list)
    """The places of spans that came again with another content."""

    def add(
        self, trace_id: object, span_id: object, span: Mapping[str, object], read: ReadSpan, beside: Mapping[str, object]
    ) -> None:
        """Add a span as the file has it, and as it is read. Raises ValueError for a trace without a name."""
        named = name_of(trace_id, "traceId")
        trace = self._traces.setdefault(named, _Trace(beside))
        key = str(span_id) if span_id not in (None, "") else f" {len(trace.spans)}"  # a span without an id is one of its own
        before = trace.spans.get(key)
        if before is not None:
            place = f"span {cut(key, MAX_ID)!r} of trace {cut(named, MAX_ID)!r}"
            (self._again if before.span == span else self._other).append(place)
        trace.spans[key] = _Delivered(span, read)

    @property
    def traces(self) -> Iterator[GatheredTrace]:
        """The traces, in the order of their first spans."""
        for trace_id, trace in self._traces.items():
            yield GatheredTrace(trace_id, [delivered.read for delivered in trace.spans.values()], trace.beside)

    def notes(self) -> Iterator[str]:
        """Yield what the user is told of spans that came more than once."""
        if self._again:
            spans = counted(len(self._again), "span was", "spans were")
            yield f"{spans} delivered again, such as {self._again[0]}: each counts once"
        if self._other:
            spans = counted(len(self._other), "span has", "spans have")
            yield f"{spans} the id of an earlier one and another content, such as {self._other[0]}: the later one counts"
