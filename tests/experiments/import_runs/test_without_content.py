"""Traces that say that requests were made, and nothing of what they said: `show` and `why` tell so in the place of steps."""

from __future__ import annotations

import json
import re

import pytest

from whichloop.experiments.compare.results import Results
from whichloop.experiments.import_runs import parse_map
from whichloop.metrics.trace import NO_CONTENT
from whichloop.metrics.trajectory.causes import Loss
from whichloop.reports.dataframes import Loaded
from whichloop.reports.html.page import report_html
from whichloop.text.doc import Lines, TraceLines

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


@pytest.mark.parametrize("task", ["t0", "t1"])
def test_a_trial_without_texts_is_shown_to_have_no_content(run, task):
    shown = Loaded(run).show(f"run/{task}/0")
    steps, prompts, ending = shown.doc.blocks[1:]
    assert isinstance(steps, TraceLines)
    assert isinstance(prompts, TraceLines)
    assert isinstance(ending, Lines)
    assert steps.lines == (NO_CONTENT,)
    assert [text for label, text in ending.items if label in ("Stop", "Answer", "Expected")] == ["–", "–", "–"]
    assert not any("None" in line or "(empty)" in line for line in (repr(shown), *prompts.lines))


def test_a_trial_with_texts_shows_them(run):
    lines = repr(Loaded(run).show("run/t2/0")).splitlines()
    assert NO_CONTENT not in "\n".join(lines)
    assert "How many?" in lines[1]
    assert any("12" in line for line in lines)


def test_why_says_so_of_those_that_were_lost(run):
    said = repr(Loaded(run).why())
    assert f"step 1: {NO_CONTENT}" in said
    assert "None" not in said


def test_an_answer_that_is_not_told_is_a_dash_beside_calls_that_are(kit):
    path = kit.put(
        {
            "schema_version": "ATIF-v1.6",
            "session_id": "s",
            "agent": {"name": "careful", "version": "1.0"},
            "steps": [
                {"step_id": 1, "source": "user", "message": "Count."},
                {
                    "step_id": 2,
                    "source": "agent",
                    "message": "",
                    "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "wc"}}],
                    "observation": {"results": [{"source_call_id": "c", "content": "12"}]},
                },
            ],
            "extra": {"task": "count", "reward": 0},
        }
    )
    run = kit.imported(path, columns=parse_map(["task=extra.task,score=extra.reward"]))
    lines = repr(Loaded(run).show("count")).splitlines()
    assert any("bash(command='wc') → 12" in line for line in lines)
    assert " 2. – → –" in lines
    assert "None" not in "\n".join(lines)


def test_losses_of_imported_agents_speak_of_agents_and_leave_quotations_as_they_are(kit):
    loss = Loss("crash", "the loop crashed, and 'the loop' was told so; the loop gave up", 1)
    assert loss.of("agent").detail == "the agent crashed, and 'the loop' was told so; the agent gave up"
    assert loss.of("loop") == loss
    rows = [
        {"schema_version": "ATIF-v1.6", "session_id": name, "agent": {"name": name, "version": "1"}}
        | {"extra": {"task": "t", "score": score}}
        | {
            "steps": [
                {"step_id": 1, "source": "user", "message": "How many?"},
                {"step_id": 2, "source": "agent", "message": answer},
            ]
        }
        for name, answer, score in (("careful", "12", 1), ("hasty", "13", 0))
    ]
    found = kit.imported(*map(kit.put, rows), columns=parse_map(["task=extra.task,score=extra.score"]))
    page = report_html(found)
    section = page.partition("Why trials were lost")[2].partition("</section>")[0]
    assert "hasty" in section
    assert "loop" not in re.sub("whichloop", "", section)
