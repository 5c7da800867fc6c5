"""Spans of OTLP as a conversation: those of the GenAI semantic conventions, and those of OpenInference; and their attributes.

A request's span says what its prompt was and what the model replied, if its instrumentation records content; a tool's span says
what the tool ran with, gave, and whether it failed. A result without a span of its own is read from the next prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from whichloop.experiments.import_runs.values import list_at, mapping, object_at, objects_at, usage_in
from whichloop.experiments.trace_formats import gen_ai
from whichloop.metrics.trace import RequestError, TraceEvent
from whichloop.protocol import Message
from whichloop.protocol.chat import MessageRole, NativeCall
from whichloop.protocol.json_text import Json
from whichloop.protocol.wire import from_json

from .conversation import CallResult, ConversationItem, ModelTurn, events_of
from .gen_ai import as_text, message_json, message_of, messages_in, reply_in, reply_json

MAX_LEVELS = 32
"""Levels of nesting of an attribute's value that are read."""


def attribute(key: str, value: Any) -> dict[str, Any]:
    """Return a text, truth value, number, or a list of texts as an attribute."""
    return {"key": key, "value": _any_value(value)}


def attributes_of(values: Mapping[str, object]) -> list[dict[str, Json]]:
    """Return all values but None as attributes."""
    return [attribute(key, value) for key, value in values.items() if value is not None]


def _any_value(value: object) -> dict[str, Json]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    return {"stringValue": str(value)}


def read_attributes(span: Mapping[str, object]) -> dict[str, Json]:
    """Return the attributes of a span, an event or a resource by key. Raises ValueError."""
    attributes = {}
    for item in objects_at(span, "attributes", "an attribute"):
        key = item.get("key")
        if not isinstance(key, str):
            raise ValueError("an attribute has no key")
        attributes[key] = read_value(mapping(item.get("value"), f"the value of {key}"))
    return attributes


def read_value(value: Mapping[str, object], levels: int = MAX_LEVELS) -> Any:
    """Return the value of an AnyValue; None for an empty one. Raises ValueError for one that is nested too deep."""
    if levels == 0:
        raise ValueError("an attribute is nested too deep")
    if "intValue" in value:
        return int(value["intValue"]) if isinstance(value["intValue"], int | str) else None
    for name in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if name in value:
            return value[name]
    if "arrayValue" in value:
        return [
            read_value(mapping(item, "an item"), levels - 1) for item in list_at(mapping(value["arrayValue"], "a list"), "values")
        ]
    if "kvlistValue" in value:
        return dict(_pairs(objects_at(mapping(value["kvlistValue"], "an object"), "values", "an entry"), levels))
    return None


def _pairs(entries: Iterable[Mapping[str, object]], levels: int) -> Iterable[tuple[str, Any]]:
    for entry in entries:
        yield str(entry.get("key")), read_value(mapping(entry.get("value"), "an entry"), levels - 1)


ROOT = "invoke_agent"
TRIAL = "whichloop.trial"
"""Attribute with what the spans do not say of a trial of whichloop's own."""
FAILED = 2
_INFERENCE = frozenset({"chat", "generate_content", "text_completion"})
_AGENT = frozenset({ROOT, "create_agent", "invoke_workflow"})

_GEN_AI_COUNTS = (("gen_ai.usage.input_tokens",), ("gen_ai.usage.output_tokens",), ("gen_ai.usage.total_tokens",))
_OPEN_INFERENCE_COUNTS = (("llm.token_count.prompt",), ("llm.token_count.completion",), ("llm.token_count.total",))
"""Attributes of input, output and total."""

SpanKind = Literal["request", "tool", "agent", ""]


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """A span with its attributes read."""

    kind: SpanKind
    """Empty for spans of anything else."""
    attributes: Mapping[str, Any]
    span: Mapping[str, Any]
    start: int
    end: int

    @property
    def seconds(self) -> float:
        return max(self.end - self.start, 0) / 1e9

    @property
    def error(self) -> str:
        """Type of the error that the span ended with; empty if it did not."""
        status = object_at(self.span, "status")
        failed = str(status.get("code")) in (str(FAILED), "STATUS_CODE_ERROR")
        return as_text(self.attributes.get("error.type")) or ("error" if failed else "")

    @property
    def message(self) -> str:
        return as_text(object_at(self.span, "status").get("message"))


def read_span(span: Mapping[str, object]) -> ReadSpan:
    """Read a span. Raises ValueError."""
    attributes = read_attributes(span)
    return ReadSpan(_kind(attributes), attributes, span, _nanos(span, "start"), _nanos(span, "end"))


def _nanos(span: Mapping[str, object], which: str) -> int:
    name = f"{which}TimeUnixNano"
    return nanoseconds(span.get(name, 0), name)


def nanoseconds(value: object, what: str) -> int:
    """Return a time in nanoseconds since 1970, which JSON may hold as text. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).isdecimal() or len(str(value)) > 20:
        raise ValueError(f"{what} is not a number of nanoseconds")
    return int(value)


def _kind(attributes: Mapping[str, object]) -> SpanKind:
    operation = str(attributes.get("gen_ai.operation.name", ""))
    kind = str(attributes.get("openinference.span.kind", "")).upper()
    if operation in _INFERENCE or kind == "LLM":
        return "request"
    if operation == "execute_tool" or kind == "TOOL":
        return "tool"
    return "agent" if operation in _AGENT or kind == "AGENT" else ""


def items_of(spans: Sequence[ReadSpan]) -> tuple[ConversationItem, ...]:
    """Return what the requests and tools' runs of a trial say, in the order of their beginnings. Raises ValueError."""
    ordered = sorted((span for span in spans if span.kind in ("request", "tool")), key=lambda span: span.start)
    items: list[ConversationItem] = []
    unanswered: dict[str, str] = {}
    for span in ordered:
        if span.kind == "tool":
            values = span.attributes
            name = as_text(values.get("gen_ai.tool.name", values.get("tool.name")))
            output = values.get("gen_ai.tool.call.result", values.get("output.value"))
            error = span.error
            is_untold = values.get("whichloop.status") is not None
            item = CallResult(
                text=as_text(output) or (span.message if error else ""),
                call_id=as_text(values.get("gen_ai.tool.call.id", values.get("tool_call.id"))),
                tool=name or as_text(span.span.get("name")).removeprefix("execute_tool "),
                failed=None if is_untold else bool(error),
                error_type=None if error in ("", "error") else error,
                arguments=_arguments(values.get("gen_ai.tool.call.arguments", values.get("input.value"))),
            )
            unanswered.pop(item.call_id, None)
            items.append(item)
            continue
        turn = _turn(span)
        for message in turn.prompt or ():
            if message.role == "tool" and message.call_id in unanswered:
                items.append(CallResult(message.content, message.call_id, never_ran=unanswered.pop(message.call_id) == TRIAL))
        unanswered = {call.id: TRIAL if "whichloop.role" in span.attributes else "" for call in turn.calls if call.id}
        items.append(turn)
    return tuple(items)


def _turn(span: ReadSpan) -> ModelTurn:
    values = span.attributes
    prompt = _prompt(values)
    tokens = usage_in(values, _GEN_AI_COUNTS) or usage_in(values, _OPEN_INFERENCE_COUNTS)
    reply, thought = _reply(values)
    if reply is None and span.error:
        return ModelTurn(error=RequestError(span.error, span.message), prompt=prompt, seconds=span.seconds)
    if reply is None:
        return ModelTurn(prompt=prompt, tokens=tokens, seconds=span.seconds, is_told=False)
    return ModelTurn(reply.content, reply.calls, thought, tokens, span.seconds, prompt=prompt)


def _prompt(values: Mapping[str, object]) -> tuple[Message, ...] | None:
    """Return the messages of a request; None if the instrumentation does not record them."""
    messages = values.get("gen_ai.input.messages")
    if messages is not None:
        return (*gen_ai.read_instructions(values.get("gen_ai.system_instructions")), *gen_ai.read_messages(messages))
    return flattened_messages(values, "llm.input_messages.") or None


def _reply(values: Mapping[str, object]) -> tuple[Message | None, str]:
    """Return the first message of a reply, and its reasoning; None if the instrumentation does not record it."""
    messages = values.get("gen_ai.output.messages")
    replies = gen_ai.read_messages(messages) if messages is not None else flattened_messages(values, "llm.output_messages.")
    thought = gen_ai.reasoning_of(messages) if messages is not None else ""
    return (replies[0] if replies else None), thought


def _arguments(value: object) -> object:
    if not isinstance(value, str):
        return {} if value is None else value
    try:
        return from_json(value)
    except ValueError:
        return value


def has_raw_arguments(spans: Sequence[ReadSpan]) -> bool:
    """Tell whether every reply is told with its arguments as the model wrote them: texts, and not objects."""
    requests = [span for span in spans if span.kind == "request"]
    return bool(requests) and all(
        "gen_ai.output.messages" not in span.attributes and _reply(span.attributes)[0] for span in requests
    )


# --- trials of whichloop's own ---


def told_events(spans: Sequence[Mapping[str, object]]) -> tuple[TraceEvent, ...]:
    """Return the events that are read from spans below an agent's."""
    return events_of(items_of([read_span(span) for span in spans]))


def children_content(spans: Sequence[Mapping[str, object]]) -> list[Any]:
    """Return what of these spans the events are read from, whatever else a collector has changed."""
    return [[span.attributes, span.error, span.message, span.seconds] for span in map(read_span, spans)]


def scores_of(span: Mapping[str, object]) -> dict[str, float]:
    """Return the scores that a span's events name. Raises ValueError."""
    scores = {}
    for event in objects_at(span, "events", "an event"):
        if event.get("name") == "gen_ai.evaluation.result":
            values = read_attributes(event)
            value = values.get("gen_ai.evaluation.score.value")
            if isinstance(value, int | float):
                scores[as_text(values.get("gen_ai.evaluation.name"))] = float(value)
    return scores


def each_span(data: Any) -> Iterator[tuple[Mapping[str, Json], Mapping[str, Json]]]:
    """Yield the spans of an ExportTraceServiceRequest, each with its resource's attributes. Raises ValueError."""
    for item in objects_at(data, "resourceSpans", "an item of resourceSpans"):
        resource = read_attributes(object_at(item, "resource"))
        for scope in objects_at(item, "scopeSpans", "an item of scopeSpans"):
            for span in objects_at(scope, "spans", "a span"):
                yield span, resource


MAX_INDEX = 100_000
"""Largest index of a message or a call."""
_KEY = re.compile(r"(\d{1,6})\.(.+)")
_ROLES: Mapping[str, MessageRole] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "model": "assistant",
}


def flattened_messages(attributes: Mapping[str, object], prefix: str) -> tuple[Message, ...]:
    """Return the messages whose attributes begin with `prefix`, such as `llm.input_messages.`. Raises ValueError."""
    return tuple(_message(part) for part in _parts(attributes, prefix))


def _parts(attributes: Mapping[str, object], prefix: str) -> list[dict[str, Json]]:
    """Return the attributes below each index, in the order of the indices."""
    parts: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(prefix) and (match := _KEY.fullmatch(key.removeprefix(prefix))) is not None:
            if int(match[1]) > MAX_INDEX:
                raise ValueError(f"{prefix}{match[1]}: an index above {MAX_INDEX}")
            parts.setdefault(int(match[1]), {})[match[2]] = value
    return [parts[place] for place in sorted(parts)]


def _message(part: Mapping[str, Any]) -> Message:
    role = _ROLES.get(str(part.get("message.role", "user")), "user")
    texts = [as_text(content.get("message_content.text")) for content in _parts(part, "message.contents.")]
    text = as_text(part.get("message.content")) or "\n".join(text for text in texts if text)
    calls = tuple(
        NativeCall(
            as_text(call.get("tool_call.id")),
            as_text(call.get("tool_call.function.name")),
            as_text(call.get("tool_call.function.arguments")),
        )
        for call in _parts(part, "message.tool_calls.")
    )
    return Message(role, text, calls, as_text(part.get("message.tool_call_id")))


_OPERATIONS: Mapping[SpanKind, str] = {"request": "chat", "tool": "execute_tool", "agent": ROOT}


def plain_span(kind: SpanKind, inputs: Any, outputs: Any, beside: Mapping[str, Any], about: Mapping[str, Any]) -> ReadSpan:
    """Return a span.

    `beside`: ids, name, status, and its `start` and `end` in nanoseconds. `about`: what stands in its attributes, among it `model`
    and `usage`.
    """
    attributes = dict(about) | {"gen_ai.operation.name": _OPERATIONS.get(kind, "")}
    usage = about.get("usage")
    if kind == "request":
        prompt, reply = messages_in(inputs), reply_in(outputs)
        if prompt:
            attributes["gen_ai.input.messages"] = [message_json(message) for message in prompt]
        if reply is not None:
            attributes["gen_ai.output.messages"] = [reply_json(reply.content, reply.calls)]
        if isinstance(usage, Mapping):
            attributes |= {f"gen_ai.usage.{name}": usage.get(name) for name in ("input_tokens", "output_tokens", "total_tokens")}
        attributes["gen_ai.request.model"] = as_text(about.get("model")) or None
    elif kind == "tool":
        attributes |= {
            "gen_ai.tool.name": as_text(beside.get("name")),
            "gen_ai.tool.call.arguments": inputs,
            "gen_ai.tool.call.result": _value_text(outputs),
        }
    else:
        attributes |= {"input.value": _value_text(inputs), "output.value": _value_text(outputs)}
    known_attributes = {name: value for name, value in attributes.items() if value is not None}
    return ReadSpan(kind, known_attributes, beside, int(beside.get("start") or 0), int(beside.get("end") or 0))


def _value_text(data: Any) -> str | None:
    """Return inputs or outputs as text: of one value the value, of messages the last one's, and else JSON."""
    if isinstance(data, Mapping) and len(data) == 1:
        data = next(iter(data.values()))
    value = data[-1] if isinstance(data, list) and data else data
    message = message_of(value) if isinstance(value, Mapping) else None
    if message is not None:
        return message.content
    return None if data is None else as_text(data)
