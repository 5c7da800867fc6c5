"""The ids of calls in events, and what is told of a call that cannot be made."""

from __future__ import annotations

from typing import Any

from tests.loops.shopper import QUESTION, price
from tests.loops.test_approval import Heard
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.loops.shared.boundary import watched
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Observer, Outcome, Query, StopReason, Toolbox, ToolCall, run_sync
from whichloop.protocol.events import CallInvalid, ToolFinished, ToolStarted


def test_equal_calls_have_ids_that_differ_and_a_models_own_ids_count_for_nothing() -> None:
    call = ToolCall("price", {"item": "tea"})
    heard = Heard()
    model = FakeModel(*[Act("", (call, call))] * 2, Answer("", "Done."))
    Finish(max_steps=4).run_sync(Query(QUESTION), Toolbox([price]), model, heard)
    ids = [event.call.call_id for event in heard.of(ToolStarted)]
    assert len(set(ids)) == 4
    assert [event.call.call_id for event in heard.of(ToolFinished)] == ids
    natives = [native.id for request in model.requests[-1:] for message in request.messages for native in message.calls]
    assert natives == ["call_0", "call_1", "call_2", "call_3"]


def test_an_unknown_tool_is_told_as_an_invalid_call_and_nothing_else() -> None:
    for loop in (Finish(max_steps=3), Bare()):
        heard = Heard()
        model = FakeModel(Act("", (ToolCall("refnud", {}),)), Answer("", "Done."))
        loop.run_sync(Query(QUESTION), Toolbox([price]), model, heard)
        (invalid,) = heard.of(CallInvalid)
        assert (invalid.error_type, invalid.request) == ("UnknownTool", 0)
        assert heard.of(ToolStarted) == heard.of(ToolFinished) == []


def test_a_call_that_no_reply_asked_for_is_told_as_invalid_too() -> None:
    async def run(query: Any, tools: Toolbox, model: Any, observer: Observer) -> Any:
        await tools.call(ToolCall("refnud", {}))
        return Outcome("Done.", StopReason.FINISHED, 1)

    heard = Heard()
    run_sync(watched(run, Query(QUESTION), Toolbox([price]), FakeModel(), heard))
    (invalid,) = heard.of(CallInvalid)
    assert (invalid.request, invalid.error_type) == (None, "UnknownTool")
    assert heard.of(ToolStarted) == []
