"""A WireError that a model itself raises is no unreadable reply: there is none, and no design tells of one that it has not got."""

from __future__ import annotations

import contextlib

import pytest

from tests.designs import DESIGNS
from whichloop.loops import Bare, Guarded, Query, Toolbox, tool
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Loop, StopReason, ToolCall, WireError
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_loop


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


LOOPS = {"bare": Bare(), "keeps none": Bare(keep_bad_replies=False), "guarded": Guarded(Bare(), writes="confirmed")}
CALL = Act("Add.", (ToolCall("add", {"a": 1, "b": 2}),))


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("before", [(), (CALL,)], ids=["at first", "later"])
def test_it_leaves_the_loop_as_any_error_that_is_no_failure_of_a_provider(loop: Loop, before: tuple[Act, ...]) -> None:
    with pytest.raises((RuntimeError, WireError), match="of the model's own"):
        loop.run_sync(Query("1 + 2?"), Toolbox([add]), FakeModel(*before, WireError("of the model's own")))  # type: ignore[attr-defined]


@pytest.mark.parametrize("design", DESIGNS)
def test_no_design_stumbles_over_it(design: str) -> None:
    model = FakeModel(then=WireError("of the model's own"))
    loop = make_loop(parse_spec(design), tool_steps=3)
    with contextlib.suppress(WireError, RuntimeError):  # and no other error
        outcome = loop.run_sync(Query("1 + 2?"), Toolbox([add]), model)  # type: ignore[attr-defined]
        assert outcome.stop != StopReason.FINISHED
