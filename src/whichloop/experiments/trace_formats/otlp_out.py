"""A trial as spans of OTLP, by the GenAI semantic conventions: the agent, and below it each request and each run of a tool.

A trace knows how long requests took and in which order things happened, and no other times: spans follow each other from the
trial's start on, and a tool's run takes a microsecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.trace import UNTOLD, ModelExchange, ToolRun, Trace, TracedCall
from whichloop.protocol import Message
from whichloop.protocol.digest import digest, sha256
from whichloop.protocol.json_text import Json
from whichloop.protocol.modules import package_version
from whichloop.runs.manifest import ArmEntry

from .gen_ai import message_json, reply_json
from .otlp_in import ROOT, TRIAL, attributes_of, children_content, told_events
from .own_trials import ImportedTask, own_part

INTERNAL, CLIENT = 1, 3
"""Kinds of spans: an operation of the agent's own, and a request."""
FAILED = 2
"""Status code of a span that ended in an error."""
STEP_NS = 1_000
"""Nanoseconds that anything takes at least, so that the order can be read from the times."""


def resource_spans(trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None = None) -> dict[str, Json]:
    """Return the spans of a trial as an item of `resourceSpans`. `task`: what the import that it is of knows of its task."""
    spans = _Spans(digest([record.arm, record.task, record.repeat, record.seed, record.started_at])[:32], arm.model)
    spans.now = max(round(record.started_at * 1e9), 0)
    start = spans.now
    for event in trace.events:
        if isinstance(event, ModelExchange):
            spans.chat(event)
        elif isinstance(event, ToolRun):
            spans.tool(event)
    own = own_part(children_content(spans.spans), told_events(spans.spans), trace, record, arm, task)
    root = spans.root(trace, record, arm, start) | {"attributes": attributes_of(_about(trace, record, arm) | {TRIAL: _json(own)})}
    scope = {"name": "whichloop", "version": package_version("whichloop")}
    resource = {"attributes": attributes_of({"service.name": "whichloop"})}
    return {"resource": resource, "scopeSpans": [{"scope": scope, "spans": [root, *spans.spans]}]}


def _about(trace: Trace, record: Record, arm: ArmEntry) -> dict[str, Json]:
    """Return the attributes of the agent's span."""
    answer = "" if record.answer is None else str(record.answer)
    return {
        "gen_ai.operation.name": ROOT,
        "gen_ai.provider.name": provider_of(arm.model),
        "gen_ai.request.model": arm.model,
        "gen_ai.agent.name": record.arm,
        "gen_ai.agent.version": arm.version or None,
        "gen_ai.conversation.id": record.name,
        "gen_ai.input.messages": _json([message_json(Message("user", trace.head.query))]),
        "gen_ai.output.messages": _json([reply_json(answer, ())]),
        "gen_ai.usage.input_tokens": None if "input_tokens" in record.unknown else record.input_tokens,
        "gen_ai.usage.output_tokens": None if "output_tokens" in record.unknown else record.output_tokens,
        "whichloop.suite": record.suite,
        "whichloop.task": record.task,
        "whichloop.repeat": record.repeat,
        "whichloop.stop": record.stop,
        "error.type": (record.stop or "errored") if record.status == "errored" else None,
    }


def provider_of(model: str) -> str:
    """Return the provider that a model's name begins with, or else the name."""
    return model.partition("/")[0]


@dataclass(slots=True)
class _Spans:
    """The spans below the agent's so far."""

    trace_id: str
    model: str
    now: int = 0
    """Nanoseconds since 1970 at which the next one begins."""
    spans: list[dict[str, Any]] = field(default_factory=list)
    shown: dict[tuple[str, str], tuple[Message, ...]] = field(default_factory=dict)
    open: list[tuple[str, TracedCall]] = field(default_factory=list)
    """Calls that nothing has answered yet, with their ids."""

    def root(self, trace: Trace, record: Record, arm: ArmEntry, start: int) -> dict[str, Any]:
        """Return the agent's span, without its attributes; its events are the scores."""
        events = [
            {"name": "gen_ai.evaluation.result", "timeUnixNano": str(self.now), "attributes": attributes_of(score)}
            for score in _scores(record.scores)
        ]
        end = max(self.now, start + round(record.wall_s * 1e9))
        span = self._span(f"{ROOT} {arm.loop}", INTERNAL, start, end) | {"spanId": self.root_id, "events": events}
        del span["parentSpanId"]
        return span | ({"status": {"code": FAILED, "message": record.reason}} if record.status == "errored" else {})

    @property
    def root_id(self) -> str:
        return sha256(f"{self.trace_id} root")[:16]

    def _span(self, name: str, kind: int, start: int, end: int) -> dict[str, Json]:
        return {
            "traceId": self.trace_id,
            "spanId": sha256(f"{self.trace_id} {len(self.spans)}")[:16],
            "parentSpanId": self.root_id,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
        }

    def _add(self, name: str, kind: int, seconds: float, values: Mapping[str, object], problem: str) -> None:
        end = self.now + max(round(seconds * 1e9), STEP_NS)
        span = self._span(name, kind, self.now, end) | {"attributes": attributes_of(values)}
        if problem:
            span["status"] = {"code": FAILED, "message": problem}
        self.spans.append(span)
        self.now = end

    def chat(self, event: ModelExchange) -> None:
        """Add a request with its reply, or with the error that came in its place."""
        key = (event.role, event.scope)
        prompt = (*self.shown.get(key, ())[: event.same], *event.messages)
        self.shown[key] = prompt
        replied = [] if event.reply is None else [reply_json(event.reply, event.native_calls)]
        values = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_of(self.model),
            "gen_ai.request.model": self.model,
            "gen_ai.input.messages": _json([message_json(message) for message in prompt]),
            "gen_ai.output.messages": _json(replied) if replied else None,
            "gen_ai.response.finish_reasons": [reply["finish_reason"] for reply in replied] or None,
            "gen_ai.usage.input_tokens": event.tokens[0] if event.tokens else None,
            "gen_ai.usage.output_tokens": event.tokens[1] if event.tokens else None,
            "error.type": event.error.kind if event.error else None,
            "whichloop.role": event.role,
            "whichloop.scope": event.scope or None,
            "whichloop.fault": event.fault or None,
        }
        self._add(f"chat {self.model}", CLIENT, event.seconds, values, event.error.message or "failed" if event.error else "")
        if event.native_calls:
            self.open = [(call.id, traced) for call, traced in zip(event.native_calls, event.calls, strict=False)]
        elif event.calls:
            self.open = [("", call) for call in event.calls]

    def tool(self, run: ToolRun) -> None:
        """Add a run of a tool with its result."""
        opened_call = next((item for item in self.open if item[1].key == run.call.key), None)
        if opened_call is not None:
            self.open.remove(opened_call)
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": run.call.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": (opened_call[0] or None) if opened_call is not None else None,
            "gen_ai.tool.call.arguments": _json(run.call.arguments),
            "gen_ai.tool.call.result": run.data,
            "error.type": None if run.ok else run.error_type or "error",
            "whichloop.fault": run.fault or None,
            "whichloop.status": run.status if run.status == UNTOLD else None,
        }
        self._add(f"execute_tool {run.call.tool}", INTERNAL, 0.0, values, "" if run.ok else run.result[:200] or "failed")


def _scores(scores: Mapping[str, float]) -> Iterator[dict[str, Json]]:
    for name, value in scores.items():
        yield {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": float(value)}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def request_line(items: Sequence[Mapping[str, object]]) -> bytes:
    """Return an ExportTraceServiceRequest as a line of JSON, as the file exporter of OTLP writes it."""
    return f"{json.dumps({'resourceSpans': list(items)}, allow_nan=False, separators=(',', ':'))}\n".encode("ascii")
