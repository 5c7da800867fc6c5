"""The same call is what the tool's function gets: however it is written, it is not made a second time unseen."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from tests.cases import cases
from whichloop.loops import (
    ApprovalRequired,
    Bare,
    Checkpoint,
    Finish,
    Guarded,
    Microcompact,
    Phased,
    ProviderRetry,
    Query,
    ReactExtract,
    RepeatGuard,
    Resumable,
    Stateless,
    Toolbox,
    ToolCall,
)
from whichloop.loops.checkpoints.checkpoint_entries import equal_calls, equality_key, equality_keys
from whichloop.loops.checkpoints.replayed_toolbox import BESIDE, EARLIER, MADE
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Loop


class Hidden(BaseModel):
    cents: int = Field(exclude=True)
    id: UUID = Field(default_factory=uuid4)


@dataclass
class Line:
    cents: int
    reason: str = "goodwill"


class Open(BaseModel, extra="allow"):
    """Takes fields that it does not name."""


def in_zone(minutes: int, hours: int) -> str:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    return at.astimezone(timezone(timedelta(hours=hours))).isoformat()


KINDS: dict[str, tuple[Any, list[Callable[[int], Any]]]] = {
    "int": (int, [lambda n: n, str, float, lambda n: f" {n} "]),
    "float": (float, [lambda n: n, float, lambda n: f"{n}.0", str]),
    "Decimal": (Decimal, [lambda n: n, lambda n: f"{n}.00", lambda n: f"{n}.0", float]),
    "text": (str, [str]),
    "bool or text": (bool | str, [lambda n: f"n{n}"]),
    "dataclass": (Line, [lambda n: {"cents": n}, lambda n: {"cents": str(n), "reason": "goodwill"}]),
    "list": (list[Line], [lambda n: [{"cents": n}], lambda n: [{"reason": "goodwill", "cents": float(n)}]]),
    "left out, with an id of its own": (Hidden, [lambda n: {"cents": n}, lambda n: {"cents": str(n)}]),
    "secret": (SecretStr, [lambda n: f"key {n}"]),
    "set": (set[int], [lambda n: [n, 7], lambda n: ["7", n]]),
    "time": (datetime, [lambda n: in_zone(n, 0), lambda n: in_zone(n, 2)]),
    "field that the type does not name": (Open, [lambda n: {"cents": n}, lambda n: {"cents": float(n)}]),
    "very large or very small": (Decimal, [lambda n: f"{n}E+999999", lambda n: f"{n}0E+999998", lambda n: f"{n}.0E999999"]),
    "more digits than are calculated with": (Decimal, [lambda n: f"{'7' * 40}.{n + 100}", lambda n: f"{'7' * 40}.{n + 100}00"]),
    "untyped": (Any, [lambda n: n, float]),
}
"""The type of an argument, and the ways in which a model writes one value of it."""


def paying(kind: Any) -> Toolbox:
    def pay(value: Any, currency: str = "EUR") -> str:
        """Pay."""
        return "paid"

    pay.__annotations__["value"] = kind
    pay.__annotations__["currency"] = str
    return Toolbox([pay])


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=cases(12))
@given(data=st.data(), one=st.integers(-99, 99), other=st.integers(-99, 99))
def test_respellings_of_equal_arguments_are_equal_calls_and_others_are_not(name: str, data: Any, one: int, other: int) -> None:
    kind, ways = KINDS[name]
    tools = paying(kind)

    def drawn(value: int) -> str:
        arguments: dict[str, Any] = {"value": data.draw(st.sampled_from(ways))(value)}
        default = data.draw(st.sampled_from([{}, {"currency": "EUR"}]))
        return equality_key(ToolCall("pay", {**default, **arguments}), tools)

    assert (drawn(one) == drawn(other)) == (one == other)
    assert drawn(one) != equality_key(ToolCall("pay", {"value": ways[0](one), "currency": "USD"}), tools)


def test_what_cannot_be_converted_is_compared_as_it_was_written() -> None:
    tools = paying(int)
    many, more = (equality_key(ToolCall("pay", {"value": value}), tools) for value in (["many"], ["more"]))
    assert many != more
    assert many == equality_key(ToolCall("pay", {"value": ["many"]}), tools)
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    assert equality_key(ToolCall("pay", {"value": deep}), paying(Any)) == equality_key(
        ToolCall("pay", {"value": deep}), paying(Any)
    )
    assert equality_key(ToolCall("none", {"a": True}), tools) != equality_key(ToolCall("none", {"a": 1}), tools)


class Bank:
    """A tool that pays, and raises after its first payment unless it is sound."""

    def __init__(self, *, sound: bool = False) -> None:
        self.paid: list[int] = []
        self.sound = sound

    def refund(self, order: str, cents: int, reason: str = "goodwill") -> str:
        """Pay back."""
        self.paid.append(cents)
        if len(self.paid) == 1 and not self.sound:
            raise OSError("connection lost after paying")
        return "ok"

    def run(self, loop: Loop, checkpoint: Checkpoint, *calls: Mapping[str, Any]) -> str | None:
        """Run until a call waits, and return its problem; None at the end. `calls`: arguments that the model asks for now."""
        model = FakeModel.script([ToolCall("refund", {"order": "A7", **given}) for given in calls], "Done.")
        try:
            Resumable(loop, checkpoint).run_sync(Query("?"), Toolbox([self.refund]), model)
        except ApprovalRequired as stopped:
            return stopped.pending[0].problem
        return None


LET = {"refund": lambda arguments: False}
ASK = {"refund": lambda arguments: arguments["cents"] > 1_000}
RESPELLED = [{"cents": "4200"}, {"cents": 4200.0}, {"cents": 4200, "reason": "goodwill"}]
LOOPS: dict[str, Loop] = {"finish": Finish(max_steps=8), "bare": Bare(), "stateless": Stateless(response_style=None)}


def stored(checkpoint: Checkpoint, rule: Any, *, old: bool = False) -> Checkpoint:
    """The checkpoint in another process; `old`: as an earlier version had written it."""
    entries = json.loads(json.dumps(checkpoint.entries))
    left_out = {"like", "version"} if old else set()
    return Checkpoint([{key: entry[key] for key in entry if key not in left_out} for entry in entries], needs_approval=rule)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("again", RESPELLED, ids=str)
def test_a_call_that_may_have_acted_is_not_made_again_however_it_is_written(name: str, again: dict[str, Any]) -> None:
    bank, checkpoint = Bank(), Checkpoint(needs_approval=LET)
    assert "connection lost" in str(bank.run(LOOPS[name], checkpoint, {"cents": 4200}))
    (first,) = checkpoint.pending
    checkpoint.reject(first, "I look it up")
    for old in (False, True):
        assert bank.run(LOOPS[name], stored(checkpoint, LET, old=old), again) == EARLIER.format(id=first.id)
    assert bank.run(LOOPS[name], stored(checkpoint, LET), {"cents": 4201}) is None
    assert bank.paid == [4200, 4201]


@pytest.mark.parametrize("again", RESPELLED, ids=str)
def test_a_call_that_has_its_result_says_so_however_it_is_written(again: dict[str, Any]) -> None:
    bank, checkpoint = Bank(sound=True), Checkpoint(needs_approval=["refund"])
    assert bank.run(Bare(), checkpoint, {"cents": 4200}) == ""
    (first,) = checkpoint.pending
    checkpoint.approve(first)
    assert bank.run(Bare(), checkpoint, again) == MADE.format(id=first.id, result="ok")
    assert bank.paid == [4200]


def test_equal_calls_of_one_reply_know_of_each_other_however_they_are_written() -> None:
    calls = tuple(ToolCall("refund", {"order": "A7", "cents": cents}) for cents in (4200, "4200"))
    rules: list[tuple[Any, str, list[int]]] = [(["refund"], BESIDE, []), (LET, EARLIER, [4200])]
    for rule, problem, paid in rules:
        bank, checkpoint = Bank(), Checkpoint(needs_approval=rule)
        model = FakeModel(Act("", calls), then=Answer("", "Done."))
        with pytest.raises(ApprovalRequired):
            Resumable(Finish(max_steps=4, parallel_tools=True), checkpoint).run_sync(Query("?"), Toolbox([bank.refund]), model)
        first, second = checkpoint.pending
        assert (second.problem, bank.paid) == (problem.format(id=first.id), paid)


def test_what_ran_of_an_edited_call_is_what_is_remembered() -> None:
    bank, checkpoint = Bank(), Checkpoint(needs_approval=ASK)
    assert bank.run(Bare(), checkpoint, {"cents": 4200}) == ""
    (first,) = checkpoint.pending
    checkpoint.approve(first, arguments={"order": "A7", "cents": 900, "reason": "goodwill"})
    assert "connection lost" in str(bank.run(Bare(), checkpoint))
    checkpoint.reject(checkpoint.pending[0], "I look it up")
    for old in (False, True):
        assert bank.run(Bare(), stored(checkpoint, ASK, old=old), {"cents": "900"}) == EARLIER.format(id=first.id)
    assert bank.run(Bare(), stored(checkpoint, ASK), {"cents": 901}) is None
    assert bank.paid == [900, 901]


def test_an_edit_to_what_may_have_acted_waits_once_more() -> None:
    bank, checkpoint = Bank(), Checkpoint(needs_approval=ASK)
    assert "connection lost" in str(bank.run(Bare(), checkpoint, {"cents": 900}))
    (first,) = checkpoint.pending
    checkpoint.reject(first, "I look it up")
    assert bank.run(Bare(), checkpoint, {"cents": 4200}) == ""
    checkpoint.approve(checkpoint.pending[0], arguments={"order": "A7", "cents": 900, "reason": "goodwill"})
    assert bank.run(Bare(), checkpoint) == EARLIER.format(id=first.id)
    assert (checkpoint.pending[0].arguments["cents"], bank.paid) == (900, [900])
    checkpoint.approve(checkpoint.pending[0])
    assert bank.run(Bare(), checkpoint) is None
    assert bank.paid == [900, 900]


def test_a_result_that_a_person_gave_is_that_of_the_call_which_was_shown() -> None:
    bank, checkpoint = Bank(sound=True), Checkpoint(needs_approval=["refund"])
    bank.run(Bare(), checkpoint, {"cents": 4200})
    (first,) = checkpoint.pending
    checkpoint.answer(first, "paid by hand")
    assert bank.run(Bare(), checkpoint, {"cents": "4200"}) == MADE.format(id=first.id, result="paid by hand")
    again = ToolCall("refund", checkpoint.pending[0].call.arguments, "refund-x-1")
    found = equal_calls(checkpoint.entries, "refund-x-1", equality_keys(again, Toolbox([bank.refund])))
    assert [(one.is_answered, one.waits) for one in found] == [(True, False), (False, True)]


WRAPPERS: dict[str, Callable[[Loop], Loop]] = {
    "repeat_guard": RepeatGuard,
    "microcompact": Microcompact,
    "provider_retry": ProviderRetry,
    "guarded": lambda loop: Guarded(loop, writes="confirmed"),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("design", [Finish(max_steps=8), Bare(), ReactExtract(), Stateless(), Phased()], ids=lambda loop: loop.name)
def test_no_design_and_no_wrapper_makes_it_again(wrapper: str, design: Loop) -> None:
    bank, checkpoint, loop = Bank(), Checkpoint(needs_approval=LET), WRAPPERS[wrapper](design)
    assert "connection lost" in str(bank.run(loop, checkpoint, {"cents": 4200}))
    (first,) = checkpoint.pending
    checkpoint.reject(first, "I look it up")
    assert bank.run(loop, checkpoint, {"cents": "4200", "reason": "goodwill"}) == EARLIER.format(id=first.id)
    assert bank.paid == [4200]
