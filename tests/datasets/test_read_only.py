"""A tool that a suite calls read-only leaves the end state as it is, over all calls of the plans; the others are told by name."""

from __future__ import annotations

from typing import Any

import pytest

from whichloop.datasets.task import Environment
from whichloop.datasets.validity import carry_out
from whichloop.protocol import Observation, Toolbox, ToolCall, run_sync
from whichloop.protocol.names import parse_spec
from whichloop.runs.registry import make_suite

WRITES = {
    "arithmetic": set(),
    "agriculture": set(),
    "library": set(),
    "tables": set(),
    "typed": set(),
    "long_haul": set(),
    "events": {"hold_seats", "book", "cancel_booking"},
    "repairs": {"open_work_order", "order_part"},
    "ecommerce": {"refund_line", "exchange_line", "match_price", "give_credit", "change_address", "combine_orders"},
    "errands": {"buy", "send_parcel", "pay_bill", "return_book", "empty_into_purse"},
}


class Watching(Toolbox):
    """Compares the end state before and after each call."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment.tools)
        self.environment = environment
        self.changed = set[str]()

    async def call(self, call: ToolCall, **how: Any) -> Observation:
        before = self.environment.state()
        seen = await super().call(call, **how)
        if self.environment.state() != before:
            self.changed.add(call.name)
        return seen


@pytest.mark.parametrize("name", WRITES)
def test_only_tools_that_may_write_change_the_end_state(name: str) -> None:
    suite = make_suite(parse_spec(name))
    changed, may_write = set[str](), set[str]()
    for task in suite.tasks[:6]:
        if task.plan is None:
            continue
        environment = suite.open(task)
        watched = Watching(environment)
        run_sync(carry_out(task, task.plan.calls, watched))
        environment.close()
        changed |= watched.changed
        may_write |= {tool.name for tool in watched if not tool.read_only}
    assert may_write == WRITES[name]
    assert changed <= may_write
    assert bool(changed) == bool(may_write)
