"""OpenTelemetry's spans of a run, by its semantic conventions for generative AI. Needs the extra `spans`."""

from __future__ import annotations

from typing import Any

from whichloop._extras import needed_by
from whichloop.protocol import SILENT, Observer
from whichloop.protocol.events import (
    EventOf,
    ReplyReceived,
    RequestFailed,
    RequestStarted,
    RunEnded,
    ToolFinished,
    ToolStarted,
)

with needed_by(__name__, is_module=True):
    from opentelemetry import trace
    from opentelemetry.trace import Span, Status, StatusCode, Tracer


class Spans(Observer):
    """Makes the spans of one run: `loop.run(query, tools, model, Spans("support"))`.

    A span `invoke_agent` below the current one, and below it a span `chat` for each request and one `execute_tool` for each call.
    They hold names, ids, tokens and errors; what was said and what tools gave is left out.
    """

    def __init__(self, name: str = "", observer: Observer = SILENT, tracer: Tracer | None = None) -> None:
        """`name`: of the agent. `observer`: is told what this one is told. `tracer`: None takes that of the global provider."""
        self.name = name
        self.observer = observer
        self.streams = observer.streams
        self.tracer = tracer or trace.get_tracer("whichloop")
        self._run: Span | None = None
        self._open: dict[tuple[str, int], Span] = {}

    def note(self, kind: str, **data: object) -> None:
        self.observer.note(kind, **data)

    def on_event(self, event: EventOf[Any]) -> None:
        if self._run is None:
            self._run = self.tracer.start_span(f"invoke_agent {self.name}".strip())
            self._run.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self.name})
        match event:
            case RequestStarted():
                self._begin("chat", event.number, "chat", {"whichloop.role": event.request.role.value})
            case ReplyReceived():
                usage = event.reply.usage
                tokens = {} if usage is None else _tokens(usage.input_tokens, usage.output_tokens)
                self._end("chat", event.number, tokens | {"gen_ai.response.finish_reasons": (event.reply.finish_reason,)})
            case RequestFailed():
                self._end("chat", event.number, {}, event.error)
            case ToolStarted():
                names = {"gen_ai.tool.name": event.call.name, "gen_ai.tool.call.id": str(event.call.call_id)}
                self._begin("execute_tool", event.number, f"execute_tool {event.call.name}", names)
            case ToolFinished():
                seen = event.observation
                self._end("execute_tool", event.number, {}, None if seen.ok else f"{seen.error_type}: {seen.data}")
            case RunEnded():
                self._end_run(event)
        self.observer.on_event(event)

    def _begin(self, kind: str, number: int, name: str, attributes: dict[str, str]) -> None:
        assert self._run is not None
        span = self._open[kind, number] = self.tracer.start_span(name, trace.set_span_in_context(self._run))
        span.set_attributes({"gen_ai.operation.name": kind, **attributes})

    def _end(self, kind: str, number: int, attributes: dict[str, Any], error: Exception | str | None = None) -> None:
        span = self._open.pop((kind, number))
        span.set_attributes(attributes)
        _fail(span, error)
        span.end()

    def _end_run(self, event: RunEnded[Any]) -> None:
        assert self._run is not None
        for span in self._open.values():  # cut off with the run
            span.end()
        if event.outcome is not None:
            usage = event.outcome.usage
            self._run.set_attribute("whichloop.stop", event.outcome.stop.value)
            self._run.set_attributes({} if usage is None else _tokens(usage.input_tokens, usage.output_tokens))
        _fail(self._run, event.error)
        self._run.end()


def _tokens(given: int | None, taken: int | None) -> dict[str, Any]:
    return {} if given is None or taken is None else {"gen_ai.usage.input_tokens": given, "gen_ai.usage.output_tokens": taken}


def _fail(span: Span, error: BaseException | str | None) -> None:
    if error is not None:
        kind = error.partition(":")[0] if isinstance(error, str) else type(error).__name__
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR, kind))
