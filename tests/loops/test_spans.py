"""OpenTelemetry's spans of a run: one of the run, one of each request and call below it, without what was said."""

from __future__ import annotations

from typing import Any

import pytest

from whichloop.loops import Bare, Finish, Phased, Query, ReactExtract, Stateless, StopRun, Toolbox, ToolCall
from whichloop.loops.provider_retry import ProviderRetry
from whichloop.models.fake import FakeModel
from whichloop.protocol import SILENT, Act, Answer, Observer, ProviderError, Reply, Usage, run_sync

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from whichloop.loops.spans import Spans


def spans_of(loop: Any, model: Any, tool: Any, observer: Observer = SILENT) -> list[ReadableSpan]:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    told = Spans("shop", observer, provider.get_tracer("test"))
    run_sync(loop.run(Query("What does tea cost?"), Toolbox([tool]), model, told))
    return list(exporter.get_finished_spans())


def price(item: str) -> float:
    """Look a price up."""
    return 1.5


DESIGNS = (Bare(), Finish(max_steps=8), Phased(), ReactExtract(), Stateless())


@pytest.mark.parametrize("loop", DESIGNS, ids=lambda loop: loop.name)
def test_a_run_is_a_span_with_one_below_it_for_each_request_and_call(loop: Any) -> None:
    *inner, run = spans_of(loop, FakeModel.script([ToolCall("price", {"item": "tea"})], "1.50"), price)
    assert run.name == "invoke_agent shop"
    assert run.attributes is not None
    assert run.attributes["whichloop.stop"] == "finished"
    assert {span.name for span in inner} == {"chat", "execute_tool price"}
    assert {span.parent.span_id for span in inner if span.parent} == {run.context.span_id}
    assert "tea" not in "".join(span.to_json() for span in inner)


def test_errors_of_tools_and_providers_are_those_of_their_spans_and_keys_are_taken_out() -> None:
    def refused(item: str) -> float:
        """Look a price up."""
        raise ValueError("no access with sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")

    spans = spans_of(Bare(), FakeModel.script([ToolCall("refused", {"item": "tea"})], "none"), refused)
    (tool,) = [span for span in spans if span.name.startswith("execute_tool")]
    assert (tool.status.is_ok, tool.attributes and tool.attributes["error.type"]) == (False, "ValueError")
    assert "sk-abc" not in tool.to_json()
    *_, run = spans_of(Bare(), FakeModel(ProviderError("busy", "server")), price)
    assert run.attributes is not None
    assert run.attributes["whichloop.stop"] == "provider_error"


def test_spans_hold_the_tokens_and_the_failure_of_each_request_and_calls_at_once_have_one_each() -> None:
    reply = Reply('{"final_answer": "none"}', usage=Usage(7, 2))
    failed, asked, run = (
        dict(span.attributes or {})
        for span in spans_of(ProviderRetry(Bare(), attempts=2), FakeModel(ProviderError("busy", "server"), reply), price)
    )
    assert failed["error.type"] == "ProviderError"
    assert [(one["gen_ai.usage.input_tokens"], one["gen_ai.usage.output_tokens"]) for one in (asked, run)] == [(7, 2)] * 2
    both = Act("", tuple(ToolCall("price", {"item": item}) for item in ("tea", "milk")))
    spans = spans_of(Finish(max_steps=2, parallel_tools=True), FakeModel(both, Answer("", "3")), price)
    assert len({span.context.span_id for span in spans if span.name == "execute_tool price"}) == 2


def test_another_observer_is_told_the_same_and_a_run_that_is_cut_off_leaves_no_span_open() -> None:
    class Names(Observer):
        streams = True

        def __init__(self) -> None:
            self.names: list[str] = []

        def on_event(self, event: Any) -> None:
            self.names.append(event.name)

        def note(self, kind: str, **data: object) -> None:
            self.names.append(kind)

    said, loop = (ProviderError("busy", "server"), Answer("", "1.50")), ProviderRetry(Bare())
    directly, through = Names(), Names()
    run_sync(loop.run(Query("What does tea cost?"), Toolbox([price]), FakeModel(*said), directly))
    spans_of(loop, FakeModel(*said), price, through)
    assert through.names == directly.names
    assert {"request_failed", "provider_retry", "reply_chunk", "run_ended"} < set(through.names)

    def stops(item: str) -> float:
        """Look a price up."""
        raise StopRun("enough")

    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    told = Spans(tracer=provider.get_tracer("test"))
    model = FakeModel.script([ToolCall("stops", {"item": "tea"})], "1.50")
    with pytest.raises(StopRun):
        run_sync(Bare().run(Query("?"), Toolbox([stops]), model, told))
    ended = exporter.get_finished_spans()
    assert [span.name for span in ended] == ["chat", "execute_tool stops", "invoke_agent"]
    assert ended[-1].attributes is not None
    assert ended[-1].attributes["error.type"] == "StopRun"
