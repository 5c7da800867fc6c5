"""A call that failed and got through when it was made again: its plan is learned, and replays."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets.importing.own_tools import RECORDED
from whichloop.experiments.learn_plans.imported_suite import imported_suite


def trajectory(outcomes: list[bool], answer: str = "12") -> dict[str, Any]:
    """Return a trajectory that makes one call again and again. `outcomes`: whether it got through each time."""
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "How many lines does a.csv have?"}]
    for number, got_through in enumerate(outcomes, 2):
        call = {"tool_call_id": f"c{number}", "function_name": "count", "arguments": {"file": "a.csv"}}
        result = {
            "source_call_id": f"c{number}",
            "content": "12" if got_through else "timeout",
            "extra": {"is_error": not got_through},
        }
        step = {"step_id": number, "source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [result]}}
        steps.append(step)
    steps.append({"step_id": len(steps) + 1, "source": "agent", "message": answer})
    head = {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "careful", "version": "1"}}
    return {**head, "steps": steps, "extra": {"task": "count-lines", "reward": 1}}


COLUMNS = {"task": "extra.task", "score": "extra.reward"}


@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_a_recorded_call_gives_what_it_gave_when_it_got_through(kit, outcomes):
    found = kit.imported(kit.put(trajectory(outcomes)), columns=COLUMNS)
    suite = imported_suite(found.folder, found.manifest, found.records)
    (call,) = suite.tasks[0].world[RECORDED]
    assert (call["failed"], call["result"]) == ((False, "12") if any(outcomes) else (True, "timeout"))
