"""The ids of calls in events, and what is told of a call that cannot be made."""

from __future__ import annotations

from tests.loops.shopper import QUESTION, price
from tests.loops.test_approval import Heard
from whichloop.loops.bare import Bare
from whichloop.loops.finish import Finish
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Query, Toolbox, ToolCall
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
