"""The trace of one trial, to read: what was asked, said, decided and seen, with faults where they struck."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.lost_trials import LOST, record
from whichloop.experiments.why.trial import trial_doc
from whichloop.loops.bare import Bare
from whichloop.metrics.trace import ModelExchange, ToolRun, Trace, TracedCall
from whichloop.protocol import Outcome, StopReason, ToolCall
from whichloop.text.doc import TraceLines as TraceBlock
from whichloop.text.trace_text import MAX_CHARS, Block, JudgedTrace, as_judged, blocks


def shown(trace: Trace, *, full: bool = False, judged_again: bool = False, is_imported: bool = False) -> list[Block]:
    return list(blocks(JudgedTrace(trace, judged_again, is_imported), full=full))


@pytest.fixture
def struck(one_trial, arithmetic_suite, tmp_path) -> Trace:
    """The trace of a trial whose every reply is cut off, until the loop gives up."""
    file = tmp_path / "cut.toml"
    file.write_text('name = "cut"\n[rates]\n"wire.truncated" = 1.0\n[clears]\nnever = 1\n')
    return Trace.from_json(json.loads(one_trial(Bare(), arithmetic_suite, profile=str(file)).trace))


def test_a_failed_trial_is_explained_by_fault_reply_error_and_stop(struck, arithmetic_suite):
    found = shown(struck)
    kinds = [block.kind for block in found]
    assert kinds[0] == "head"
    assert arithmetic_suite.tasks[0].query.text in found[0].text
    first = kinds.index("fault")
    assert [block.kind for block in found[first : first + 3]] == ["fault", "reply", "error"]
    assert found[first].text == "wire.truncated"
    assert found[first + 1].text.startswith('{"thought"')
    assert (found[first + 2].label, "JSON" in found[first + 2].text) == ("unreadable", True)
    assert found[-1].kind == "end"
    assert found[-1].label == "stop: error_valve"
    assert f"expected: {arithmetic_suite.tasks[0].expected}" in found[-1].text
    assert "accuracy 0" in found[-1].text
    assert kinds.count("fault") == 3


def test_equal_steps_that_follow_each_other_are_told_once(struck):
    unread = next(event for event in struck.events if isinstance(event, ModelExchange))

    def said(times: int) -> list[str]:
        trace = replace(struck, events=(unread,) * times)
        doc = trial_doc(Path("run"), JudgedTrace(trace, judged_again=False), record())
        steps = next(block for block in doc.blocks if isinstance(block, TraceBlock))
        return list(steps.lines[1:])

    first, *others = said(3)
    assert first.startswith(" 1. decide → ")
    assert (others[0].strip(), others[1][:4]) == ("the same 2 times more, to step 3", " 4. ")
    assert [line[:4] for line in said(2)] == [" 1. ", " 2. ", " 3. "]


@pytest.mark.parametrize(
    ("status", "error_type", "fault", "label"),
    [
        ("success", None, "", "add (success)"),
        ("success", None, "tool.slow", "add (success)"),
        ("success", None, "tool.garbage", "add (noise, which the loop was told is a success)"),
        ("error", "TimeoutError", "tool.hangs", "add (error, TimeoutError)"),
    ],
)
def test_a_run_of_a_tool_that_gave_noise_is_not_called_a_success(struck, status, error_type, fault, label):
    run = ToolRun(TracedCall("add", {"a": 1}), status, "data", error_type, fault)
    observation = next(block for block in shown(replace(struck, events=(run,))) if block.kind == "observation")
    assert observation.label == label


def test_a_call_stands_beside_its_result_where_the_loop_altered_it():
    pieces = [(block.label, block.text) for block in shown(Trace.from_json(LOST["other arguments than were written"][0]))]
    place = pieces.index(("run as", 'mul {"a": 4, "b": 4}'))
    assert pieces[place - 1] == ("act", 'mul {"a": 3, "b": 4}')
    assert pieces[place + 1] == ("mul (success)", "16")


def test_an_answer_that_was_judged_again_is_shown_with_the_scores_that_count(one_trial, tiny):
    done = one_trial(Bare(), tiny())
    trace = Trace.from_json(json.loads(done.trace))
    assert as_judged(trace, done.record).trace is trace
    assert as_judged(trace, done.record).to_json() == json.loads(done.trace)
    again = as_judged(trace, replace(done.record, scores={"accuracy": 0.0}))
    assert again.to_json() == json.loads(done.trace) | {"scores": {"accuracy": 0.0}, "judged_again": True}
    end = shown(again.trace, judged_again=again.judged_again)[-1].text
    assert end.endswith("expected then: 42\nscores: accuracy 0")


def test_long_texts_are_cut_unless_all_is_asked_for(one_trial, tiny, written):
    async def run(query: Any, tools: Any, model: Any, observer: Any) -> Outcome:
        observer.note("long", text="y" * 50_000)
        await tools.call(ToolCall("double", {"n": 1}))
        return Outcome("x" * 50_000, StopReason.FINISHED, 0)

    trace = Trace.from_json(json.loads(one_trial(written(run), tiny()).trace))
    cut = next(block for block in shown(trace) if block.kind == "note")
    assert len(cut.text) < MAX_CHARS + 100
    assert "characters left out; --full shows them" in cut.text
    whole = next(block for block in shown(trace, full=True) if block.kind == "note")
    assert len(whole.text) > 50_000
    assert len(shown(trace)) == len(shown(trace, full=True))


@given(st.text(st.characters()), st.text(st.characters()), st.text())
def test_the_trace_of_any_texts_can_be_shown(one_trial, tiny, written, note, argument, answer):
    async def run(query: Any, tools: Any, model: Any, observer: Any) -> Outcome:
        observer.note("said", text=note)
        await tools.call(ToolCall("double", {argument: argument}))
        return Outcome(answer, StopReason.FINISHED, 0)

    trace = Trace.from_json(json.loads(one_trial(written(run), tiny()).trace))
    for full in (False, True):
        found = shown(trace, full=full)
        assert [block.kind for block in found] == ["head", "note", "observation", "end"]
        assert f"answer: {answer}" in found[-1].text or len(answer) > MAX_CHARS
