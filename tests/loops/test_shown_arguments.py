"""What is shown of a call's arguments: their JSON form converts back to an equal argument, or `problem` says that it does not."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, SecretStr
from pydantic.alias_generators import to_camel

from tests.cases import cases
from whichloop.loops import ApprovalRequired, Checkpoint, Finish, PendingCall, Query, Resumable, Toolbox, ToolCall
from whichloop.loops.finish import Module
from whichloop.loops.shared.received_arguments import shown_arguments, unlike_shown
from whichloop.loops.stateless import ActivityManager
from whichloop.models.fake import FakeModel
from whichloop.protocol import Tool


class Reason(enum.Enum):
    LATE = "late"
    BROKEN = "broken"


class Level(enum.IntEnum):
    LOW = 1


class Place(enum.Enum):
    HERE = (1, 2)


@dataclass
class Line:
    reason: Reason
    cents: int


class Order(BaseModel):
    reasons: set[Reason]
    due: date


class Wire(BaseModel):
    """Read by its aliases alone."""

    model_config = ConfigDict(alias_generator=to_camel)
    unit_cents: int
    all_reasons: set[Reason] = set()


class Both(Wire):
    """Read by its fields' names, too."""

    model_config = ConfigDict(populate_by_name=True)


WIRED = st.fixed_dictionaries({"unitCents": st.integers()}, optional={"allReasons": st.lists(st.sampled_from(["late", "broken"]))})
REASONS = st.sampled_from(["late", "broken"])
KINDS: dict[str, tuple[Any, st.SearchStrategy[Any], bool]] = {
    "enum": (Reason, REASONS, True),
    "enum of numbers": (Level, st.just(1), True),
    "enum or null": (Reason | None, REASONS | st.none(), True),
    "list of enum": (list[Reason], st.lists(REASONS), True),
    "set of enum": (set[Reason], st.lists(REASONS), True),
    "dict of enum": (dict[str, Reason], st.dictionaries(st.text(), REASONS), True),
    "enum as key": (dict[Reason, int], st.dictionaries(REASONS, st.integers(), min_size=1), False),
    "tuple": (tuple[int, str], st.tuples(st.integers(), st.text()).map(list), True),
    "tuple of enum": (tuple[Reason, ...], st.lists(REASONS), True),
    "dict of numbers": (dict[int, str], st.dictionaries(st.integers().map(str), st.text()), True),
    "dataclass": (Line, st.fixed_dictionaries({"reason": REASONS, "cents": st.integers()}), True),
    "model": (Order, st.fixed_dictionaries({"reasons": st.lists(REASONS), "due": st.dates().map(str)}), True),
    "model with aliases": (Wire, WIRED, True),
    "models with aliases": (dict[str, list[Wire]], st.dictionaries(st.text(), st.lists(WIRED)), True),
    "true or a number": (bool | int, st.booleans() | st.integers(0, 1), True),
    "Decimal": (Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str), True),
    "date": (date, st.dates().map(str), True),
    "UUID": (UUID, st.uuids().map(str), True),
    "path": (Path, st.just("/tmp/x"), True),
    "literal": (Literal["a", "b"], st.sampled_from(["a", "b"]), True),
    "float": (float, st.floats(allow_nan=False, allow_infinity=False), True),
    "datetime": (datetime, st.datetimes().map(str) | st.datetimes(timezones=st.just(UTC)).map(str), True),
    "time": (time, st.times().map(str), True),
    "timedelta": (timedelta, st.timedeltas(timedelta(-9999), timedelta(9999)).map(timedelta.total_seconds), True),
    "bytes": (bytes, st.text(min_size=1), False),
    "secret": (SecretStr, st.text(min_size=1, alphabet="abc"), False),
}
"""The type of an argument, what a model writes of it, and whether its JSON form is to convert back."""


def tool_of(kind: Any) -> Toolbox:
    def pay(value: Any) -> str:
        """Pay."""
        return "paid"

    pay.__annotations__["value"] = kind
    return Toolbox([pay], check_arguments=True)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=cases(10))
@given(data=st.data())
def test_what_is_shown_converts_back_or_says_that_it_does_not(name: str, data: st.DataObject) -> None:
    kind, written, converts = KINDS[name]
    tools, call = tool_of(kind), ToolCall("pay", {"value": data.draw(written)})
    tool = tools.get("pay")
    assert tool is not None
    assert tool.arguments is not None
    shown = shown_arguments(call, tools)
    assert json.loads(json.dumps(shown)) == shown
    try:
        is_equal = tool.arguments.bind(dict(shown)) == tool.arguments.bind(dict(call.arguments))
    except ValueError:
        is_equal = False
    assert (unlike_shown(call, tools) == "") == is_equal
    assert is_equal or not converts


@pytest.mark.parametrize(
    ("kind", "written", "shown"),
    [
        (Reason, "late", "late"),
        (tuple[int, str], [1, "a"], [1, "a"]),
        (Line, {"reason": "late", "cents": "5"}, {"reason": "late", "cents": 5}),
        (datetime, "2026-03-01 09:30:00+00:00", "2026-03-01T09:30:00+00:00"),
        (list[date], ["2026-03-01"], ["2026-03-01"]),
        (timedelta, "P1DT2H", "P1DT7200S"),
        (timedelta, -1.5, "-P0DT1.500000S"),
        (Wire, {"unitCents": "5", "allReasons": ["late", "broken"]}, {"unitCents": 5, "allReasons": ["broken", "late"]}),
        (Both, {"unitCents": 5}, {"unit_cents": 5, "all_reasons": []}),
    ],
)
def test_a_person_gives_back_what_was_shown(kind: Any, written: Any, shown: Any) -> None:
    checkpoint, tools = Checkpoint(needs_approval=["pay"]), tool_of(kind)
    model = FakeModel.script([ToolCall("pay", {"value": written})], "Done.")
    loop = Resumable(Finish(max_steps=3), checkpoint)
    with pytest.raises(ApprovalRequired):
        loop.run_sync(Query("Pay."), tools, model)
    (waiting,) = checkpoint.pending
    assert waiting == PendingCall(waiting.id, waiting.call, {"value": shown})
    checkpoint.approve(waiting, arguments=dict(waiting.arguments))
    assert loop.run_sync(Query("Pay."), tools, model).answer == "Done."


class Unspeakable(enum.Enum):
    """Its JSON form raises."""

    ONE = "one"

    @property
    def value(self) -> Any:
        raise LookupError("no value")


def test_an_argument_whose_json_form_raises_is_shown_as_text_also_beside_others() -> None:
    def pay(value: Any, cents: int) -> str:
        """Pay."""
        return "paid"

    tools = Toolbox([Tool.from_function(pay)])
    shown = shown_arguments(ToolCall("pay", {"value": Unspeakable.ONE, "cents": "5"}), tools)
    assert shown == {"value": "Unspeakable.ONE", "cents": 5}
    lacking: Mapping[str, Any] = {"cents": "many"}
    assert shown_arguments(ToolCall("pay", lacking), tools) == lacking  # the tool gets nothing: what was written is shown


@pytest.mark.parametrize("name", ["needs_approval", "checkpoint"])
@pytest.mark.parametrize(("base", "instead"), [(Module, "Finish(max_steps=…)"), (ActivityManager, "Stateless()")])
def test_a_class_whose_calls_cannot_wait_says_what_can(base: type, instead: str, name: str) -> None:
    told = f"run Resumable({instead}, Checkpoint(needs_approval=[…])), which does both"
    with pytest.raises(TypeError) as error:
        type("Desk", (base,), {name: ["refund"], "__doc__": "Pay."})
    assert str(error.value).startswith(f"Desk.{name}: ")
    assert str(error.value).endswith(told)
    type("Desk", (base,), {name: lambda self: None, "__doc__": "Pay."})
