"""What a file says of errors: cells that say there was none, errors without a text, and errors that stand beside a result."""

from __future__ import annotations

import re

import pytest

from whichloop.experiments.import_runs import parse_map
from whichloop.experiments.import_runs.table_rows import ERROR_WITHOUT_TEXT, error_in
from whichloop.metrics.trace import ModelExchange
from whichloop.metrics.trajectory.divergence import cause_of
from whichloop.runs.store.trials import read_trace


@pytest.mark.parametrize("cell", [False, "False", "FALSE", 0, "0", 0.0, "no", "None", "null", "nan", "ok", "", None, [], "-"])
def test_a_cell_that_says_there_was_none_is_no_error(kit, cell):
    assert error_in(cell) == ""
    rows = [{"task": "x", "score": 1, "error": cell}, {"task": "y", "score": None, "error": cell}]
    scored, blank = kit.imported(kit.put(rows)).records
    assert (scored.reason, blank.reason, blank.stop) == ("", "the score is blank", None)


@pytest.mark.parametrize("cell", [True, "True", 1, "1", "yes"])
def test_a_cell_that_says_there_was_one_is_an_error_without_a_text(kit, cell):
    rows = [{"task": "x", "score": None, "error": cell}, {"task": "y", "score": 1, "error": False}]
    failed, _ = kit.imported(kit.put(rows)).records
    assert (failed.status, failed.reason, failed.stop) == ("errored", ERROR_WITHOUT_TEXT, "crashed")
    failed, _ = kit.imported(kit.put(rows), errors_as_failures=True).records
    assert (failed.status, failed.accuracy) == ("scored", 0.0)


def test_any_other_cell_is_the_text_of_an_error(kit):
    assert error_in("no such file") == "no such file"
    assert error_in("1 error") == "1 error"


def test_an_error_in_a_message_of_inspect_is_what_the_model_was_shown(kit):
    """A tool's message has no content where the call failed, and the providers of Inspect send the model `Error: …` for it."""
    call = {"id": "c1", "function": "price", "arguments": {"item": 10}}
    asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    told = {"type": "unknown", "message": "the shop is down"}
    failed = {"role": "tool", "content": "", "tool_call_id": "c1", "function": "price", "error": told}
    said = {"role": "assistant", "content": "I do not know"}
    user = {"role": "user", "content": "What does it cost?"}

    def model(shown, reply):
        return {"event": "model", "input": shown, "output": {"choices": [{"message": reply}]}}

    events = [
        model([user], asked),
        {"event": "tool", "id": "c1", "function": "price", "arguments": {"item": 10}, "result": "", "error": told},
        model([user, asked, failed], said),
    ]
    found = kit.imported(kit.put(kit.log(kit.sample("x", value="I", events=events, output={"completion": "I do not know"}))))
    (record,) = found.records
    requests = [event for event in read_trace(found.folder, record).events if isinstance(event, ModelExchange)]
    assert requests[-1].messages[-1].content == "Error: the shop is down"
    loss = cause_of(read_trace(found.folder, record), record)
    assert "price(item=10) failed once (unknown: the shop is down)" in loss.detail
    assert "did not show" not in loss.detail


def test_an_unknown_status_is_read_as_an_error_as_it_is_told(kit):
    path = kit.put("task,score,state\nx,1,completed\ny,,timeout\n", ".csv")
    with pytest.raises(ValueError, match="status 'timeout' is none of") as caught:
        kit.imported(path, columns={"status": "state"})
    typed = re.search(r"--map (error=\S+,status=);", str(caught.value))
    assert typed is not None
    scored, failed = kit.imported(path, columns=parse_map([typed[1]])).records
    assert (scored.status, scored.reason) == ("scored", "")
    assert (failed.status, failed.reason, failed.stop) == ("errored", "timeout", "crashed")
