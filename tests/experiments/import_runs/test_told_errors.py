"""What a file says of errors: cells that say there was none, errors without a text, and errors that stand beside a result."""

from __future__ import annotations

import pytest

from whichloop.experiments.import_runs import parse_map
from whichloop.experiments.import_runs.formats.table import ERROR_WITHOUT_TEXT, error_in


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


def test_an_unknown_status_is_read_as_an_error_as_it_is_told(kit):
    path = kit.put("task,score,state\nx,1,completed\ny,,timeout\n", ".csv")
    with pytest.raises(ValueError, match=r"status 'timeout' is none of .*; --map error=COLUMN,status=$"):
        kit.imported(path, columns={"status": "state"})
    scored, failed = kit.imported(path, columns=parse_map(["error=state,status="])).records
    assert (scored.status, scored.reason) == ("scored", "")
    assert (failed.status, failed.reason, failed.stop) == ("errored", "timeout", "crashed")
