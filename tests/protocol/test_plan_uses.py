"""What a plan says of the results that it uses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tests.cases import cases
from tests.models import bench
from whichloop.protocol import Plan, PlannedCall, Ref, refs


@settings(max_examples=cases(30), deadline=None)
@given(plan=bench.plans())
def test_every_reference_is_a_use_and_every_use_a_reference(plan: Plan) -> None:
    used = {(call, path, user) for call, parts in plan.uses.items() for path, users in parts.items() for user in users}
    users: list[tuple[str | None, Any]] = [(None, plan.answer), *((call.id, call.arguments) for call in plan.calls)]
    assert used == {(ref.call, ref.path, user) for user, value in users for ref in refs(value)}


def test_an_alternative_uses_what_it_refers_to() -> None:
    other = PlannedCall("c2", "find", {"name": Ref("c1", ("name",))}, "Find it.")
    first = PlannedCall("c1", "list", {}, "List all.")
    plan = Plan((first, PlannedCall("c2", "look", {"id": Ref("c1", ("id",))}, "Find it.", (other,))), Ref("c2"))
    assert plan.uses == {"c1": {("id",): {"c2"}, ("name",): {"c2"}}, "c2": {(): {None}}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Ref("c2"), {"c2"}), ([Ref("c1"), {"n": Ref("c2")}], {"c1", "c2"}), ("three", {"c2", "c3"}), (None, set())],
)
def test_what_an_answer_rests_on(answer: Any, expected: set[str]) -> None:
    calls = (
        PlannedCall("c1", "add", {"a": 1}, "First."),
        PlannedCall("c2", "add", {"a": Ref("c1")}, "Second."),
        PlannedCall("c3", "book", {"a": 1}, "Third."),
    )
    assert Plan(calls, answer).rests_on == expected
