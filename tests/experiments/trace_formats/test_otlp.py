"""Spans of OTLP both ways: nothing of ours is lost, and a real reader of OTLP takes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from whichloop.experiments.trace_formats.otlp_in import read_span, told_events
from whichloop.experiments.trace_formats.otlp_out import request_line, resource_spans
from whichloop.experiments.trace_formats.own_trials import CHANGED, OwnTrial
from whichloop.experiments.trace_formats.span_trials import own_of, root_of
from whichloop.metrics.record import Record
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace
from whichloop.runs.manifest import ArmEntry

OwnTrials = list[tuple[Record, Trace, ArmEntry]]


def spans(item: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = item["scopeSpans"][0]["spans"]
    return found


def read_back(item: dict[str, Any]) -> Any:
    read = [read_span(span) for span in spans(json.loads(json.dumps(item)))]
    root = root_of(read)
    return own_of(root, [span for span in read if span is not root])


def test_a_trial_of_ours_comes_back_as_it_was(own_trials: OwnTrials) -> None:
    for record, trace, arm in own_trials:
        back = read_back(resource_spans(trace, record, arm))
        assert isinstance(back, OwnTrial)
        assert (back.trace, back.record) == (trace, record)


def test_others_read_in_it_what_was_asked_called_and_given(own_trials: OwnTrials) -> None:
    for record, trace, arm in own_trials:
        _, *below = spans(resource_spans(trace, record, arm))
        told = told_events(below)
        asked = [(event.reply or "", event.error is not None) for event in trace.events if isinstance(event, ModelExchange)]
        assert [(event.reply or "", event.error is not None) for event in told if isinstance(event, ModelExchange)] == asked
        ran = [(run.call.key, run.data, run.ok) for run in trace.events if isinstance(run, ToolRun)]
        found = [(run.call.key, run.data, run.ok) for run in told if isinstance(run, ToolRun) and run.status != "untold"]
        assert found == ran


def test_spans_have_the_names_and_attributes_of_the_conventions(own_trials: OwnTrials) -> None:
    record, trace, arm = next(trial for trial in own_trials if "finish" in trial[0].arm and trial[0].tool_calls)
    root, *below = spans(resource_spans(trace, record, arm))
    assert root["name"] == f"invoke_agent {arm.loop}"
    assert {span["name"].partition(" ")[0] for span in below} == {"chat", "execute_tool"}
    assert {span["parentSpanId"] for span in below} == {root["spanId"]}
    assert len({span["traceId"] for span in (root, *below)}) == 1
    assert len({span["spanId"] for span in (root, *below)}) == 1 + len(below)
    (chat, tool) = (next(span for span in below if span["name"].startswith(kind)) for kind in ("chat", "execute_tool"))
    assert {item["key"] for item in chat["attributes"]} >= {
        *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.input.messages"),
        *("gen_ai.output.messages", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons"),
    }
    assert {item["key"] for item in tool["attributes"]} >= {
        "gen_ai.tool.name",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    }
    starts = [int(span["startTimeUnixNano"]) for span in below]
    assert starts == sorted(starts)


def test_a_changed_span_is_read_as_anybodys(own_trials: OwnTrials) -> None:
    record, trace, arm = own_trials[0]
    item = resource_spans(trace, record, arm)
    spans(item)[1]["attributes"].append({"key": "more", "value": {"stringValue": "x"}})
    assert read_back(item) == CHANGED


def test_a_line_is_a_request_of_otlp(own_trials: OwnTrials) -> None:
    """The protocol's own definition reads it: field names, ids, and 64-bit numbers as texts."""
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    record, trace, arm = own_trials[0]
    line = json.loads(request_line([resource_spans(trace, record, arm)]))
    for span in spans(line["resourceSpans"][0]):  # protobuf's own JSON has ids in base64, OTLP's in hexadecimal
        for name in ("traceId", "spanId", "parentSpanId"):
            assert len(bytes.fromhex(span.pop(name, "00" * 8))) in (8, 16)
    request = json_format.ParseDict(line, service.ExportTraceServiceRequest())
    read = request.resource_spans[0].scope_spans[0].spans
    assert len(read) == 1 + len([event for event in trace.events if isinstance(event, ModelExchange | ToolRun)])
    assert read[0].events[0].name == "gen_ai.evaluation.result"
