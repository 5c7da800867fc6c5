"""The plant: its troubles come as often as they are meant to, and every plan gets round them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichloop.datasets import repairs
from whichloop.datasets.repairs import plant as tools
from whichloop.datasets.repairs.plant import Plant, draw_plant
from whichloop.datasets.task import Suite, Task
from whichloop.datasets.validity import carry_out, replay
from whichloop.protocol import Plan, Toolbox, ToolCall, refs, run_sync
from whichloop.protocol.tool_calls import TransientError

PLANTS = st.integers(1, 10**9)


@pytest.fixture(scope="module")
def many() -> Suite:
    return repairs.load(size=240, seed=7)


def plan_of(task: Task) -> Plan:
    assert task.plan is not None
    return task.plan


def troubled(number: int, **trouble: Any) -> tuple[Plant, str, str, float]:
    """A plant whose first machine's thermometer has this trouble; with the machine's and the sensor's number, and its value."""
    plant = draw_plant(number)
    asset, machine = next(iter(plant.machines.items()))
    sensor = machine["sensors"]["temperature"]
    plant.trouble = {f"read_sensor/{sensor}": trouble, f"open_work_order/{asset}": trouble}
    return plant, asset, sensor, plant.sensors[sensor]["value"]


@given(number=PLANTS, drops=st.integers(0, 4), reads=st.integers(1, 8))
def test_a_link_drops_as_often_as_it_should_and_then_holds(number: int, drops: int, reads: int) -> None:
    plant, _, sensor, value = troubled(number, drops=drops)
    for attempt in range(reads):
        if attempt < drops:
            with pytest.raises(tools.LinkDown, match="Try again"):
                tools.read_sensor(plant, sensor)
        else:
            assert tools.read_sensor(plant, sensor)["value"] == value
    assert issubclass(tools.LinkDown, TransientError)


@given(number=PLANTS, wrong=st.text(max_size=8))
def test_only_the_permit_of_the_ticket_gets_past_a_rate_limit(number: int, wrong: str) -> None:
    plant, _, sensor, value = troubled(number, ticket="N12345", permit="L12345")
    for permit in ("", wrong):
        with pytest.raises(tools.RateLimited, match="ticket N12345"):
            tools.read_sensor(plant, sensor, permit)
    permit = tools.wait_turn(plant, "N12345")["permit"]
    assert tools.read_sensor(plant, sensor, permit)["value"] == value
    with pytest.raises(tools.NotKnown):
        tools.wait_turn(plant, f"N{wrong}")


@given(number=PLANTS, kept=st.booleans(), tries=st.integers(1, 4))
def test_each_order_that_gets_through_is_one_more(number: int, kept: bool, tries: int) -> None:
    """Repeated blindly, an order that has arrived stands there as often as it was sent."""
    plant, asset, _, _ = troubled(number, reference="X1", kept=kept)
    before = tools.list_work_orders(plant, asset)
    for _ in range(tries):
        with pytest.raises(tools.OutcomeUnknown, match="reference X1"):
            tools.open_work_order(plant, asset, "inspect")
    after = tools.list_work_orders(plant, asset)
    assert (after[: len(before)], len(after)) == (before, len(before) + tries * kept)
    made = tools.open_work_order(plant, asset, "inspect", "X1")["work_order"]
    assert [order["work_order"] for order in tools.list_work_orders(plant, asset)].count(made) == 1
    assert len({number for number, _, _ in plant.work_orders}) == len(plant.work_orders)


@given(number=PLANTS, stale=st.integers(0, 2), quantity=st.integers(1, 100))
def test_every_quote_that_has_expired_leads_to_one_that_is_dearer(number: int, stale: int, quantity: int) -> None:
    plant = draw_plant(number)
    (name, known), (other, facts), *_ = plant.parts.items()
    plant.trouble = {f"order_part/{name}": {"stale": stale}}
    first = tools.order_part(plant, name, quantity)
    for quote, newer in zip(known["quotes"][:stale], known["quotes"][1:], strict=False):
        with pytest.raises(tools.QuoteExpired, match=newer):
            tools.order_part(plant, name, quantity, quote)
        assert plant.purchases == []
    quote = known["quotes"][stale]
    bought = tools.order_part(plant, name, quantity, quote)
    assert (first["quote"], bought["paid"]) == (known["quotes"][0], known["prices"][stale] * quantity)
    assert (bought["paid"] > first["total"]) is bool(stale)
    assert bought["budget_left"] == plant.budget - bought["paid"]
    with pytest.raises(tools.NotKnown, match="used already"):
        tools.order_part(plant, name, quantity, quote)
    assert len(plant.purchases) == 1
    facts["quotes"][0] = quote  # its own, though the number is the same
    assert tools.order_part(plant, other, quantity, quote)["paid"] == facts["prices"][0] * quantity


@given(number=PLANTS, hall=st.sampled_from(["A", "B", "C"]), renewed=st.booleans())
def test_pages_hold_each_alarm_once_whatever_becomes_of_a_cursor(number: int, hall: Any, renewed: bool) -> None:
    plant = draw_plant(number)
    old = plant.cursors[hall][0]
    plant.trouble = {f"list_alarms/{old}": {"goes_on": "K99999"}} if renewed else {}
    seen: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        try:
            page = tools.list_alarms(plant, hall, cursor)
            seen, cursor = seen + page["alarms"], page["next"]
        except tools.CursorExpired as error:
            assert (cursor, renewed) == (old, True)
            cursor = str(error).rstrip(".").split()[-1]
    assert seen == plant.alarms[hall]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (tools.find_machine, ["moon rocket"], "no machine named 'moon rocket'"),
        (tools.describe_machine, ["A1"], "no machine with asset number A1"),
        (tools.read_sensor, ["T1"], "no sensor T1"),
        (tools.read_calibrated, ["T1"], "no sensor T1"),
        (tools.wait_turn, ["N1"], "no ticket N1"),
        (tools.list_alarms, ["A", "K1"], "no cursor K1"),
        (tools.open_work_order, ["A1", "inspect"], "asset number A1"),
        (tools.order_part, ["B1", 2], "no part B1"),
        (tools.order_part, [next(iter(draw_plant(3).parts)), 2, "Q1"], "no quote Q1"),
    ],
)
def test_errors_say_what_is_wrong(tool: Callable[..., object], arguments: list[Any], message: str) -> None:
    plant = draw_plant(3)
    before = plant.state()
    with pytest.raises(tools.NotKnown, match=message):
        tool(plant, *arguments)
    assert plant.state() == before


def test_what_an_error_says_is_used_after_it_only(many: Suite) -> None:
    """A literal that stands in an error's text, and not in the question, comes with that call before it."""
    used = 0
    for task in many.tasks:
        plan, before = plan_of(task), dict[str, frozenset[str]]()
        for call in plan.calls:
            needs = plan.dependencies[call.id]
            before[call.id] = needs.union(*(before[name] for name in needs))
        errors = {result.call_id: result.text for result in run_sync(replay(task, many)) if result.failed}
        for call in plan.calls:
            for value in call.arguments.values():
                said = {name for name, text in errors.items() if isinstance(value, str) and value and value in text}
                if said and value not in task.query.text and not any(refs(value)):
                    used += 1
                    assert said & (before[call.id] | {call.id}), (task.id, call.id, value)
    assert used > 100


def test_every_trouble_comes_up_and_no_three_errors_in_a_row() -> None:
    """A design that gives up after three errors in a row must have a chance."""
    snapshot, kinds = repairs.load(), Counter[str]()
    for task in snapshot.tasks:
        drops = {key: trouble.get("drops", 0) for key, trouble in task.world["trouble"].items()}
        kinds.update(name for trouble in task.world["trouble"].values() for name in trouble)
        row = 0
        for result in run_sync(replay(task, snapshot)):
            thing = next(iter(result.arguments.values()))
            row += drops.pop(f"{result.tool}/{thing}", 0)
            row = row + 1 if result.failed else 0
            assert row < 3, task.id
    expected = {"drops", "ticket", "shows", "moved_to", "stale", "successor", "withdrawn", "goes_on", "lost", "kept"}
    assert expected <= kinds.keys()


def test_a_write_that_is_repeated_makes_the_end_state_wrong(many: Suite) -> None:
    for task in many.tasks:
        if task.labels["template"] in ("retired", "in_doubt", "alarm"):
            with closing(many.open(task)) as environment:
                done = run_sync(carry_out(task, plan_of(task).calls, Toolbox(environment.tools)))
                assert environment.state() == task.end_state
                write = next(call for call in reversed(done) if call.tool == "open_work_order")
                run_sync(Toolbox(environment.tools).call(ToolCall(write.tool, write.arguments)))
                assert environment.state() != task.end_state, task.id
