"""Trials of ours as spans and as trajectories: nothing is lost, others read what happened, and what was changed is anybody's."""

from __future__ import annotations

import json
from typing import Any

from whichloop.experiments.export_runs.atif import atif_of
from whichloop.experiments.export_runs.otlp import resource_spans
from whichloop.experiments.import_runs.conversation import events_of
from whichloop.experiments.import_runs.formats.atif import EXTRA, OWN, Trajectory
from whichloop.experiments.import_runs.formats.otlp import read_span
from whichloop.experiments.import_runs.own_trials import CHANGED, OwnTrial, own_trial
from whichloop.experiments.import_runs.spans import TRIAL, Walk
from whichloop.metrics.record import Record
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace
from whichloop.runs.manifest import ArmEntry

OwnTrials = list[tuple[Record, Trace, ArmEntry]]


def spans(item: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = item["scopeSpans"][0]["spans"]
    return found


def read_back(item: dict[str, Any]) -> Any:
    root, *below = map(read_span, spans(json.loads(json.dumps(item))))
    return own_trial(json.loads(root.values[TRIAL]), [span.content for span in below])


def read_document(document: dict[str, Any]) -> Any:
    return own_trial(document[EXTRA][OWN], document["steps"])


def told(events: Any) -> Any:
    """Replies, failed requests, and runs of tools with what came of them."""
    asked = [(event.reply or "", event.error is not None) for event in events if isinstance(event, ModelExchange)]
    runs = [run for run in events if isinstance(run, ToolRun) and run.data and run.status != "untold"]
    return asked, sorted((run.call.key, run.data, run.ok) for run in runs)


def test_a_trial_of_ours_comes_back_as_it_was_and_others_read_what_happened(own_trials: OwnTrials) -> None:
    for record, trace, arm in own_trials:
        item, document = resource_spans(trace, record, arm), json.loads(json.dumps(atif_of(trace, record, arm), allow_nan=False))
        check_rules(document)
        for back in (read_back(item), read_document(document)):
            assert isinstance(back, OwnTrial)
            assert (back.trace, back.record, back.arm.loop, back.arm.profile) == (trace, record, arm.loop, "known")
        _, *below = map(read_span, spans(item))
        assert told(events_of(Walk(below).items())) == told(trace.events)
        assert told(events_of(Trajectory.read(document).items))[1] == told(trace.events)[1]


def test_what_was_changed_is_read_as_anybodys(own_trials: OwnTrials) -> None:
    record, trace, arm = own_trials[0]
    item, document = resource_spans(trace, record, arm), atif_of(trace, record, arm)
    spans(item)[1]["attributes"].append({"key": "more", "value": {"stringValue": "x"}})
    document["steps"][-1]["message"] += " changed"
    assert read_back(item) == read_document(document) == CHANGED


def check_rules(document: dict[str, Any]) -> None:
    """What ATIF demands of a document, by the models of harbor 0.26.0."""
    assert document["schema_version"] == "ATIF-v1.7"
    assert {"name", "version"} <= document["agent"].keys()
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    for step in document["steps"]:
        assert step["source"] in ("system", "user", "agent")
        assert isinstance(step["message"], str)
        assert step["source"] == "agent" or not step.keys() & {"tool_calls", "metrics", "model_name", "reasoning_content"}
        ids = [call["tool_call_id"] for call in step.get("tool_calls", []) if isinstance(call["arguments"], dict)]
        assert all(ids)
        assert len(ids) == len(set(ids)) == len(step.get("tool_calls", []))
        results = step.get("observation", {}).get("results", [])
        assert {result["source_call_id"] for result in results if "source_call_id" in result} <= set(ids)
