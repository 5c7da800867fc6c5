"""The declarative face: a history that a hook has changed, mended."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.loops.finish.module_helpers import (
    BAD,
    FAIL,
    SEARCH,
    agent_of,
    assert_legal,
    contents,
    fail,
    finish,
    native,
    says,
    search,
)
from tests.loops.helpers import Script
from tests.rows import row
from whichloop.loops.finish import (
    Finish,
    Step,
)
from whichloop.protocol import (
    Message,
    Outcome,
    Query,
    StopReason,
    Tool,
    Toolbox,
    run_sync,
)


@row("B3-15", "X-2")
def test_trimming_leaves_no_call_without_result_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter > 1:
            self.history = self.history[:1] + self.history[-3:]
            trimmed.append(self.history[1]["role"])
        self.history.append({"role": "user", "content": f"s{step.counter}"})

    trimmed: list[str] = []

    model = Script(*[SEARCH] * 4, finish("ok"))
    with caplog.at_level(logging.WARNING):
        assert agent_of(model, on_step)(question="?").answer == "ok"
    for request in model.requests:
        assert_legal(request.messages)
    assert trimmed == ["tool"] * 3  # its call is gone each time
    assert contents(model.requests[-1], "tool") == ['["result 1", "result 2"]']
    assert len(caplog.records) == 1


@row("B3-15")
def test_results_without_call_are_dropped_and_calls_without_result_get_a_stub(caplog: pytest.LogCaptureFixture) -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 2:
            call = next(entry for entry in self.history if entry["role"] == "assistant")
            self.history.remove(call)
        if step.counter == 3:
            self.history.remove(next(entry for entry in self.history if entry["role"] == "tool" and entry["content"] == "two"))

    give = iter(["one", "two", "three"])
    replies = [says(native("give", f"c{index}")) for index in range(3)]
    model = Script(*replies, finish())
    with caplog.at_level(logging.WARNING):
        agent_of(model, on_step, tools=[Tool.from_function(lambda: next(give), name="give")])(question="?")
    assert contents(model.requests[2], "tool") == ["two"]
    assert [(m.call_id, m.content) for m in model.requests[3].messages if m.role == "tool"] == [
        ("c1", "(removed)"),
        ("c2", "three"),
    ]
    assert len(caplog.records) == 1


@row("B3-15")
def test_a_result_stays_with_the_nearest_call_of_its_id() -> None:
    def on_step(self: Any, step: Step) -> None:
        if step.counter == 2:
            self.history.remove(next(entry for entry in self.history if entry["role"] == "tool"))

    give = iter(["one", "two"])
    model = Script(*[says(native("give", "same"))] * 2, finish())
    agent_of(model, on_step, tools=[Tool.from_function(lambda: next(give), name="give")])(question="?")
    assert contents(model.requests[2], "tool") == ["(removed)", "two"]


ENTRIES = st.one_of(
    st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(["user", "system", "assistant", "odd"]),
        st.text(max_size=3),
    ),
    st.builds(lambda name: {"role": "tool", "content": "r", "tool_call_id": name}, st.sampled_from(["id_search", "b", ""])),
    st.builds(
        lambda names: {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in names],
        },
        st.lists(st.sampled_from(["id_search", "b", ""]), max_size=3),
    ),
    st.sampled_from([{}, None, 3, "text", Message("user", "m"), {"role": "assistant", "tool_calls": [3]}]),
)

EDITS = st.lists(st.tuples(st.sampled_from(["insert", "delete", "copy", "swap"]), st.integers(0, 20), ENTRIES), max_size=6)


@given(edits=st.lists(EDITS, min_size=1, max_size=3))
@settings(deadline=None, max_examples=cases(25))
@row("X-2", "B3-15", "B3-24")
def test_whatever_on_step_does_to_the_history_requests_stay_legal(edits: list[Any]) -> None:
    def on_step(step: Step) -> None:
        history = step.history
        for what, place, entry in edits[(step.counter - 1) % len(edits)]:
            index = place % (len(history) + 1)
            if what == "insert":
                history.insert(index, copy.deepcopy(entry))
            elif what == "delete":
                del history[index : index + 1]
            elif what == "copy":
                history[:] = copy.deepcopy(history)
            else:
                history[index:], history[:index] = history[:index], history[index:]

    model = Script(SEARCH, FAIL, BAD, SEARCH, finish())
    loop = Finish(max_steps=9, on_step=on_step)
    outcome: Outcome = run_sync(loop.run(Query("Q"), Toolbox([search, fail]), model))
    assert outcome.stop is StopReason.FINISHED
    for request in model.requests:
        assert_legal(request.messages)
