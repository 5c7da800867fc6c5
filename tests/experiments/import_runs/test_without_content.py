"""Traces that say that requests were made, and nothing of what they said: `show` and `why` tell so in the place of steps."""

from __future__ import annotations

import json

import pytest

from whichloop.experiments.compare.results import Results
from whichloop.experiments.import_runs import parse_map
from whichloop.metrics.trace import NO_CONTENT
from whichloop.reports.dataframes import Loaded

TEXT = [{"key": "input.value", "value": {"stringValue": "How many?"}}, {"key": "output.value", "value": {"stringValue": "12"}}]


def request(number: int, *, grade: int, texts: bool) -> str:
    """A trace with one request to a model, in OTLP."""
    named = [{"key": "task", "value": {"stringValue": f"t{number}"}}, {"key": "grade", "value": {"intValue": grade}}]
    same = {"traceId": f"{number:032x}", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    chat = [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]
    root = {**same, "spanId": "aa", "name": "run", "attributes": named + TEXT * texts}
    spans = [root, {**same, "spanId": "ab", "parentSpanId": "aa", "name": "chat", "attributes": chat}]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


@pytest.fixture(scope="module")
def run(kit) -> Results:
    """Three trials: one without texts that was solved, one that was not, and one with texts that was not."""
    lines = [request(0, grade=1, texts=False), request(1, grade=0, texts=False), request(2, grade=0, texts=True)]
    found: Results = kit.imported(kit.put("\n".join(lines), ".jsonl"), columns=parse_map(["task=task,score=grade"]))
    return found


def test_why_says_so_of_those_that_were_lost(run):
    said = repr(Loaded(run).why())
    assert f"step 1: {NO_CONTENT}" in said
    assert "None" not in said
