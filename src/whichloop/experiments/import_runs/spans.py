"""Spans of an agent, whatever convention names their attributes: which of them are requests and runs of tools, and what those say.

Read are the GenAI conventions of OpenTelemetry, OpenInference, Traceloop's, those of Vercel's AI SDK, MLflow's and LangSmith's. A
convention is some rows of the two tables here, and the walk over a trace knows none of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from whichloop.metrics.trace import RequestError

from .chats import as_messages, as_text, parsed, read_chat, read_reply, said_in
from .conversation import CallResult, ConversationItem, ModelTurn, SaidToModel
from .values import TokenUsage, usage_in

SpanKind = Literal["request", "tool", "agent", "other", ""]
_KIND = (
    *("gen_ai.operation.name", "openinference.span.kind", "mlflow.spanType", "langsmith.run_type", "langsmith.span.kind"),
    *("langfuse.observation.type", "traceloop.span.kind", "llm.request.type", "ai.operationId"),
)
"""Attributes that name what a span is of."""
_KINDS: Mapping[str, SpanKind] = {
    **dict.fromkeys(("chat", "generate_content", "text_completion", "completion", "responses", "call_llm"), "request"),
    **dict.fromkeys(("llm", "chat_model", "generation"), "request"),
    **{f"ai.{name}": "request" for name in ("generatetext.dogenerate", "generateobject.dogenerate")},
    **{f"ai.{name}": "request" for name in ("streamtext.dostream", "streamobject.dostream")},
    **dict.fromkeys(("execute_tool", "tool", "ai.toolcall"), "tool"),
    **dict.fromkeys(("invoke_agent", "create_agent", "invoke_workflow", "agent", "workflow"), "agent"),
    **{f"ai.{name}": "agent" for name in ("generatetext", "streamtext", "generateobject", "streamobject")},
    **dict.fromkeys(("embeddings", "embedding", "retrieval", "retriever", "rerank", "reranker"), "other"),
    **dict.fromkeys(("ai.embed", "ai.embed.doembed", "ai.embedmany", "ai.embedmany.doembed"), "other"),
}
"""Their values in small letters → the kind."""
_INPUTS = ("input.value", "traceloop.entity.input", "mlflow.spanInputs", "langfuse.observation.input", "inputs")
_OUTPUTS = ("output.value", "traceloop.entity.output", "mlflow.spanOutputs", "langfuse.observation.output", "outputs")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "model": (
        *("gen_ai.request.model", "llm.model_name", "mlflow.llm.model", "ls_model_name", "ai.model.id", "gen_ai.response.model"),
        "langfuse.observation.model.name",
    ),
    "agent": ("gen_ai.agent.name", "agent.name", "traceloop.workflow.name", "ai.telemetry.functionId"),
    "prompt": ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "ai.prompt.messages", *_INPUTS),
    "reply": ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", *_OUTPUTS),
    "tool": ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name"),
    "call": ("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id"),
    "arguments": ("gen_ai.tool.call.arguments", "ai.toolCall.args", "ai.toolCall.input", "tool_arguments", *_INPUTS),
    "result": ("gen_ai.tool.call.result", "ai.toolCall.result", "ai.toolCall.output", "tool_response", *_OUTPUTS),
    "asked": ("ai.prompt", *_INPUTS),
    "answer": ("ai.response.text", "ai.result.text", *_OUTPUTS),
}
"""What an attribute means → its names; the first one that a span has counts."""
_COUNTS = tuple(
    (
        *(f"gen_ai.usage.{name}_tokens", f"llm.token_count.{old}", f"gen_ai.usage.{old}_tokens", f"llm.usage.{old}_tokens"),
        *(f"ai.usage.{name}Tokens", f"ai.usage.{old}Tokens"),
    )
    for name, old in (("input", "prompt"), ("output", "completion"), ("total", "total"))
)
"""Names of the tokens of input, output and both."""
_VERCEL = ("ai.response.text", "ai.response.toolCalls", "ai.response.object", "ai.result.text", "ai.result.toolCalls")
_RAW = ("llm.output_messages", "gen_ai.completion")
"""Replies whose arguments are as the model wrote them."""
MAX_INDEX = 100_000
MAX_LEVELS = 64
FAILED = 2
TRIAL = "whichloop.trial"
"""Attribute with what the spans do not say of a trial of whichloop's own."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span, as whatever format has it."""

    id: str
    parent: str
    name: str
    start: int
    """Nanoseconds since 1970."""
    end: int
    values: Mapping[str, Any]
    """Its attributes."""
    failed: bool
    message: str
    """What is told of the failure."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The span as the file has it."""

    @property
    def kind(self) -> SpanKind:
        """Empty for a span whose attributes do not say what it is of."""
        told = (str(self.values[name]).strip('"').lower() for name in _KIND if name in self.values)
        return next((_KINDS[value] for value in told if value in _KINDS), "")

    @property
    def seconds(self) -> float:
        return max(self.end - self.start, 0) / 1e9

    @property
    def error(self) -> str:
        """Type of the error that the span ended with; empty if it did not."""
        return as_text(self.values.get("error.type")) or ("error" if self.failed else "")

    @property
    def usage(self) -> TokenUsage | None:
        return usage_in(self.values, _COUNTS)

    def of(self, meaning: str) -> Any:
        """Return the value of the first attribute that has a meaning; None if there is none."""
        return next((value for name in _NAMES[meaning] if (value := value_of(self.values, name)) is not None), None)

    @property
    def content(self) -> list[Any]:
        """What of the span is read, whatever else a collector has changed."""
        return [dict(self.values), self.error, self.message, self.seconds]


def value_of(values: Mapping[str, Any], name: str) -> Any:
    """Return an attribute, or the list whose items stand in attributes of their own: `llm.input_messages.0.message.role`."""
    if name in values:
        return values[name]
    tree: dict[str, Any] = {}
    for key in values:
        if re.match(r"\.\d", key[len(name) : len(name) + 2]) and key.startswith(name):
            inner, (*path, last) = tree, key[len(name) + 1 :].split(".", MAX_LEVELS)
            for part in path:
                deeper = inner.setdefault(part, {})
                inner = deeper if isinstance(deeper, dict) else {}
            inner[last] = values[key]
    return _with_lists(tree, name) if tree else None


def _with_lists(value: Any, name: str) -> Any:
    """Return objects whose keys are all indices as lists."""
    if not isinstance(value, dict):
        return value
    inner = {key: _with_lists(item, name) for key, item in value.items()}
    if not all(key.isascii() and key.isdecimal() and len(key) < 20 for key in inner):
        return inner
    if (largest := max(map(int, inner))) > MAX_INDEX:
        raise ValueError(f"{name}.{largest}: an index above {MAX_INDEX}")
    return [inner[key] for key in sorted(inner, key=int)]


# --- the walk ---


@dataclass(slots=True)
class Walk:
    """What happened in a trace, each request and each run of a tool once."""

    spans: Sequence[Span]
    requests: list[Span] = field(default_factory=list)
    tools: list[Span] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names of spans that name a model, and are neither requests nor around some."""
    unread: list[str] = field(default_factory=list)
    """Why the messages of a request were not read."""

    def __post_init__(self) -> None:
        above = {span.id: span for span in self.spans}
        ancestors = {id(span): list(_ancestors(span, above)) for span in self.spans}
        kinds = {id(span): self._kind(span) for span in self.spans}
        inside: dict[int, list[Span]] = defaultdict(list)
        for span in self.spans:
            if kinds[id(span)] in ("request", "model"):
                for outer in ancestors[id(span)]:
                    inside[id(outer)].append(span)
        innermost = {
            id(span): [one for one in inner if id(one) not in inside] for span in self.spans if (inner := inside.get(id(span)))
        }
        for span in self.spans:
            kind = kinds[id(span)]
            around = [one for one in ancestors[id(span)] if kinds[id(one)] == kind]
            if kind == "model" and id(span) not in inside and not around:
                self.unknown.append(span.name)
            elif kind == "request" and id(span) not in inside:
                alone = [one.values for one in around if len(innermost[id(one)]) == 1 and one.kind]
                self.requests.append(
                    replace(span, values={name: value for values in (*alone[::-1], span.values) for name, value in values.items()})
                )
            elif kind == "tool" and not any(
                one.of("tool") == span.of("tool") and not _asked_between(one, span, above) for one in around
            ):
                self.tools.append(span)

    @staticmethod
    def _kind(span: Span) -> str:
        """Return a span's kind; of one that says none and names a model `request` if it tells of one, and else `model`."""
        if span.kind or not isinstance(span.of("model"), str):
            return span.kind or ("tool" if "gen_ai.tool.name" in span.values else "")
        return (
            "request"
            if span.usage or value_of(span.values, "gen_ai.completion") or "gen_ai.output.messages" in span.values
            else "model"
        )

    @property
    def is_whole(self) -> bool:
        """Whether the requests can be counted."""
        return bool(self.requests) and not self.unknown

    @property
    def has_raw_arguments(self) -> bool:
        """Whether every reply is told with its arguments as the model wrote them."""
        replied = [one for one in self.requests if not one.error]
        return bool(replied) and all(any(value_of(one.values, name) for name in _RAW) for one in replied)

    def items(self) -> tuple[ConversationItem, ...]:
        """Return what they say, in the order of their beginnings."""
        items: list[ConversationItem] = []
        open_calls: dict[str, bool] = {}
        """Id of a call that no tool's span has answered → whether the agent itself answers it, as ours say."""
        ran = {id(span) for span in self.tools}
        for span in sorted((*self.requests, *self.tools), key=lambda span: span.start):
            if id(span) in ran:
                items.append(result := _result(span))
                open_calls.pop(result.call_id, None)
                continue
            turn, prompt = self._turn(span)
            for item in prompt:
                if isinstance(item, CallResult) and item.call_id in open_calls:
                    items.append(replace(item, never_ran=open_calls.pop(item.call_id)))
            open_calls = {call.id: "whichloop.role" in span.values for call in turn.calls if call.id}
            items.append(turn)
        return tuple(items)

    def _turn(self, span: Span) -> tuple[ModelTurn, list[ConversationItem]]:
        """Return a request with its reply, and what its prompt says."""
        prompt: list[ConversationItem] = []
        reply: ModelTurn | None = None
        try:
            prompt = prompt_of(span)
            reply = reply_of(span)
        except ValueError as error:
            self.unread.append(f"{span.name}: {error}")
        shown = as_messages(prompt) or None
        if reply is not None:
            return replace(reply, tokens=span.usage, seconds=span.seconds, prompt=shown), prompt
        if span.error:
            return ModelTurn(error=RequestError(span.error, span.message), prompt=shown, seconds=span.seconds), prompt
        return ModelTurn(prompt=shown, tokens=span.usage, seconds=span.seconds, is_told=False), prompt


def _ancestors(span: Span, above: Mapping[str, Span]) -> Iterator[Span]:
    seen = {id(span)}
    while (outer := above.get(span.parent)) is not None and id(outer) not in seen and len(seen) <= MAX_LEVELS:
        seen.add(id(outer))
        yield outer
        span = outer


def _asked_between(outer: Span, span: Span, above: Mapping[str, Span]) -> bool:
    """Tell whether another agent or request stands between two runs of one tool, so that they are two."""
    for one in _ancestors(span, above):
        if one is outer:
            return False
        if one.kind in ("agent", "request"):
            return True
    return False


# --- what a span says ---


def prompt_of(span: Span) -> list[ConversationItem]:
    """Return the messages that a request or an agent was given; none if that is not recorded."""
    system = span.values.get("gen_ai.system_instructions")
    told = read_chat({"instructions": parsed(system), "input": parsed(span.of("prompt"))})
    return [item for item in told if not (isinstance(item, SaidToModel) and item.role == "system" and not item.text)]


def reply_of(span: Span) -> ModelTurn | None:
    """Return the reply to a request; None if it is not recorded."""
    if any(span.values.get(name) for name in _VERCEL):
        text, calls, made, *old = (span.values.get(name) for name in _VERCEL)
        parts = [{"type": "tool-call", **call} for call in parsed(calls or old[1]) or () if isinstance(call, Mapping)]
        return read_reply({"role": "assistant", "content": [as_text(text or made or old[0]), *parts]})
    return read_reply(parsed(span.of("reply")))


def _result(span: Span) -> CallResult:
    output = span.of("result")
    if "langsmith.run_type" in span.values or "mlflow.spanType" in span.values:
        output = said_in(output)
    error, arguments = span.error, parsed(span.of("arguments"))
    if isinstance(arguments, Mapping) and "inputs" in arguments and "input_str" in arguments:  # Traceloop's, of LangChain
        arguments = arguments["inputs"]
    elif isinstance(arguments, Mapping) and arguments.keys() == {"args", "kwargs"}:
        arguments = arguments["kwargs"] or {"args": arguments["args"]}
    return CallResult(
        as_text(output) or (span.message if error else ""),
        as_text(span.of("call")),
        as_text(span.of("tool")) or span.name.removeprefix("execute_tool "),
        None if "whichloop.status" in span.values else bool(error),
        None if error in ("", "error") else error,
        {} if arguments is None else arguments,
    )
