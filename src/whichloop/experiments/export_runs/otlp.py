"""A trial as spans of OTLP in JSON, by the GenAI semantic conventions.

A trace knows how long requests took and in which order things happened, and no other times: the spans that are written follow each
other from the trial's start on, and a tool's run takes a microsecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whichloop.metrics.record import Record
from whichloop.metrics.trace import UNTOLD, ModelExchange, ToolRun, Trace, TracedCall
from whichloop.protocol import Message
from whichloop.protocol.chat import NativeCall
from whichloop.protocol.json_text import Json, digest, sha256
from whichloop.protocol.modules import package_version
from whichloop.runs.manifest import ArmEntry

from ..import_runs.chats import parsed
from ..import_runs.foreign_trials import ImportedTask
from ..import_runs.formats.otlp import EVALUATION, SPANS, read_span
from ..import_runs.own_trials import own_part
from ..import_runs.spans import FAILED, TRIAL

ROOT = "invoke_agent"
INTERNAL, CLIENT = 1, 3
"""Kinds of spans: an operation of the agent's own, and a request."""
STEP_NS = 1_000
"""Nanoseconds that anything takes at least, so that the order can be read from the times."""


def request_line(items: Sequence[Mapping[str, object]]) -> bytes:
    """Return an ExportTraceServiceRequest as a line of JSON, as the file exporter of OTLP writes it."""
    return f"{json.dumps({SPANS: list(items)}, allow_nan=False, separators=(',', ':'))}\n".encode("ascii")


def resource_spans(trace: Trace, record: Record, arm: ArmEntry, task: ImportedTask | None = None) -> dict[str, Json]:
    """Return the spans of a trial as an item of `resourceSpans`. `task`: what the import that it is of knows of its task."""
    trace_id = digest([record.arm, record.task, record.repeat, record.seed, record.started_at])[:32]
    start = now = max(round(record.started_at * 1e9), 0)
    below: list[dict[str, Any]] = []
    for name, kind, seconds, values, problem in _operations(trace, arm.model):
        end = now + max(round(seconds * 1e9), STEP_NS)
        below.append(_span(trace_id, str(len(below)), name, kind, (now, end)) | {"attributes": _attributes(values)})
        below[-1] |= {"status": {"code": FAILED, "message": problem}} if problem else {}
        now = end
    own = own_part([read_span(span).content for span in below], trace, record, arm, task)
    root = _span(trace_id, "root", f"{ROOT} {arm.loop}", INTERNAL, (start, max(now, start + round(record.wall_s * 1e9))))
    scores = [{f"{EVALUATION}.name": name, f"{EVALUATION}.score.value": float(value)} for name, value in record.scores.items()]
    root["events"] = [
        {"name": f"{EVALUATION}.result", "timeUnixNano": str(now), "attributes": _attributes(score)} for score in scores
    ]
    root["attributes"] = _attributes({**_about(trace, record, arm), TRIAL: _json(own)})
    root |= {"status": {"code": FAILED, "message": record.reason}} if record.status == "errored" else {}
    scope = {"name": "whichloop", "version": package_version("whichloop")}
    return {
        "resource": {"attributes": _attributes({"service.name": "whichloop"})},
        "scopeSpans": [{"scope": scope, "spans": [root, *below]}],
    }


def _span(trace_id: str, number: str, name: str, kind: int, times: tuple[int, int]) -> dict[str, Any]:
    span = {"traceId": trace_id, "spanId": sha256(f"{trace_id} {number}")[:16], "name": name, "kind": kind}
    parent = {} if number == "root" else {"parentSpanId": sha256(f"{trace_id} root")[:16]}
    return {**span, **parent, "startTimeUnixNano": str(times[0]), "endTimeUnixNano": str(times[1])}


def _about(trace: Trace, record: Record, arm: ArmEntry) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": ROOT,
        "gen_ai.provider.name": arm.model.partition("/")[0],
        "gen_ai.request.model": arm.model,
        "gen_ai.agent.name": record.arm,
        "gen_ai.agent.version": arm.version or None,
        "gen_ai.conversation.id": record.name,
        "gen_ai.input.messages": _json([_message(Message("user", trace.head.query))]),
        "gen_ai.output.messages": _json([_reply("" if record.answer is None else str(record.answer), ())]),
        "gen_ai.usage.input_tokens": None if "input_tokens" in record.unknown else record.input_tokens,
        "gen_ai.usage.output_tokens": None if "output_tokens" in record.unknown else record.output_tokens,
        "whichloop.suite": record.suite,
        "whichloop.task": record.task,
        "whichloop.repeat": record.repeat,
        "whichloop.stop": record.stop,
        "error.type": (record.stop or "errored") if record.status == "errored" else None,
    }


def _operations(trace: Trace, model: str) -> Iterator[tuple[str, int, float, dict[str, Any], str]]:
    """Yield name, kind, seconds, attributes and problem of each request and each run of a tool."""
    shown: dict[tuple[str, str], tuple[Message, ...]] = {}
    opened: list[tuple[str, TracedCall]] = []
    for event in trace.events:
        if isinstance(event, ModelExchange):
            key = (event.role, event.scope)
            shown[key] = (*shown.get(key, ())[: event.same], *event.messages)
            problem = event.error.message or "failed" if event.error else ""
            yield f"chat {model}", CLIENT, event.seconds, _request(event, shown[key], model), problem
            if event.calls:
                ids = [call.id for call in event.native_calls] if event.native_calls else [""] * len(event.calls)
                opened = list(zip(ids, event.calls, strict=False))
        elif isinstance(event, ToolRun):
            answered = next((item for item in opened if item[1].key == event.call.key), None)
            if answered is not None:
                opened.remove(answered)
            problem = "" if event.ok else event.result[:200] or "failed"
            yield f"execute_tool {event.call.tool}", INTERNAL, 0.0, _run(event, answered[0] if answered else ""), problem


def _request(event: ModelExchange, prompt: Sequence[Message], model: str) -> dict[str, Any]:
    reply = None if event.reply is None else _reply(event.reply, event.native_calls)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": model.partition("/")[0],
        "gen_ai.request.model": model,
        "gen_ai.input.messages": _json([_message(message) for message in prompt]),
        "gen_ai.output.messages": reply and _json([reply]),
        "gen_ai.response.finish_reasons": reply and [reply["finish_reason"]],
        "gen_ai.usage.input_tokens": event.tokens[0] if event.tokens else None,
        "gen_ai.usage.output_tokens": event.tokens[1] if event.tokens else None,
        "error.type": event.error.kind if event.error else None,
        "whichloop.role": event.role,
        "whichloop.scope": event.scope or None,
        "whichloop.fault": event.fault or None,
    }


def _run(run: ToolRun, call_id: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": run.call.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id or None,
        "gen_ai.tool.call.arguments": _json(run.call.arguments),
        "gen_ai.tool.call.result": run.data,
        "error.type": None if run.ok else run.error_type or "error",
        "whichloop.fault": run.fault or None,
        "whichloop.status": run.status if run.status == UNTOLD else None,
    }


def _attributes(values: Mapping[str, object]) -> list[dict[str, Json]]:
    return [{"key": key, "value": _any_value(value)} for key, value in values.items() if value is not None]


def _any_value(value: object) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}


def _reply(text: str, calls: Sequence[NativeCall]) -> dict[str, Any]:
    return _message(Message("assistant", text, tuple(calls))) | {"finish_reason": "tool_call" if calls else "stop"}


def _message(message: Message) -> dict[str, Any]:
    """Return a message with its parts. A call's arguments are an object, or the raw text where that is written otherwise."""
    if message.role == "tool":
        return {"role": "tool", "parts": [{"type": "tool_call_response", "id": message.call_id, "response": message.content}]}
    texts = [{"type": "text", "content": message.content}] if message.content or not message.calls else []
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _arguments(call.arguments)} for call in message.calls
    ]
    return {"role": message.role, "parts": [*texts, *calls]}


def _arguments(raw: str) -> Any:
    value = parsed(raw)
    return value if isinstance(value, dict) and _json(value) == raw else raw


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
