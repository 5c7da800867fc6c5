"""docs/product.md names every event with its fields, and every stop."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from tests.docs.pages import DOCS
from whichloop.loops import ApprovalRequired, Bare, Checkpoint, Observer, ProviderRetry, Query, Resumable, StopReason, Toolbox
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, ProviderError, RunEvent, ToolCall
from whichloop.protocol.events import EventOf

TEXT = (DOCS / "product.md").read_text("utf-8")


def section(heading: str) -> str:
    return TEXT.partition(f"\n{heading}\n\n")[2].partition("\n##")[0]


class Heard(Observer):
    streams = True

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def on_event(self, event: RunEvent) -> None:
        self.sent.append(event.as_dict())


def price(item: str) -> float:
    """What an item costs."""
    return 1.5


CALL = Act("Look.", (ToolCall("price", {"item": "tea"}),))


def heard() -> list[dict[str, Any]]:
    """The events of a run in which all goes wrong that can, and of one whose calls wait for a person."""
    observer, query, tools = Heard(), Query("What does tea cost?"), Toolbox([price])
    wandering = FakeModel(ProviderError("busy", "rate_limit"), CALL, Act("", (ToolCall("cost", {}),)), "Well.", Answer("", "2"))
    ProviderRetry(Bare(), delay_s=0).run_sync(query, tools, wandering, observer)
    checkpoint, model = Checkpoint(needs_approval=["price"]), FakeModel(CALL, CALL, CALL, Answer("", "2"))
    decisions: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (checkpoint.approve, {"arguments": {"item": 3}}),
        (checkpoint.approve, {"arguments": {"item": "milk"}}),
        (checkpoint.reject, {"reason": "too dear"}),
        (checkpoint.answer, {"result": "2"}),
    ]
    for decide, given in decisions:
        with pytest.raises(ApprovalRequired):
            Resumable(Bare(), checkpoint).run_sync(query, tools, model, observer)
        decide(checkpoint.pending[0], **given)
    assert Resumable(Bare(), checkpoint).run_sync(query, tools, model, observer).ok
    return observer.sent


def test_the_table_of_events_names_every_event_and_its_fields() -> None:
    rows = dict(re.findall(r"^\| `([A-Z]\w+)` \|[^|\n]*\|([^|\n]*)\|$", section("### Events"), re.MULTILINE))
    assert set(rows) == {event.__name__ for event in get_args(EventOf)}
    sent = heard()
    for name, told in rows.items():
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        fields = {field for event in sent if event["event"] == kind for field in event}
        assert fields, name
        assert fields - {"event"} <= set(re.findall(r"`(\w+)`", told))


def test_the_table_of_stops_names_every_stop() -> None:
    table = section("### How a run ends").split("\n\n")[1]
    first_cells = " ".join(line.split("|")[1] for line in table.splitlines())
    assert set(re.findall(r"`([a-z_]+)`", first_cells)) == {str(stop) for stop in StopReason}
