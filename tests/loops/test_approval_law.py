"""The law of approvals: what a rule, a person and the events are shown is what the tool's function gets, or the call waits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, SecretStr, field_serializer

from tests.cases import cases
from whichloop.loops.bare import Bare
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired, Checkpoint, PendingCall
from whichloop.loops.checkpoints.checkpoint_file import CheckpointFile
from whichloop.loops.checkpoints.replay import UNSETTLED
from whichloop.loops.checkpoints.replayed_toolbox import CHANGED, CONVERTED, CUT_OFF
from whichloop.loops.finish import Finish
from whichloop.loops.resumable import Resumable
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, NativeCall, Observer, Query, Reply, RunEvent, Toolbox, ToolCall
from whichloop.protocol.events import ApprovalDecided, EventOf, LoopNote, ToolStarted
from whichloop.protocol.values import plain_value


class Hidden(BaseModel):
    cents: int = Field(exclude=True)


class InEuros(BaseModel):
    cents: int

    @field_serializer("cents")
    def said(self, value: int) -> int:
        return value // 100


class Whole(BaseModel):
    cents: int = 5


@dataclass
class Line:
    cents: int


def in_cents(euros: int) -> int:
    return euros * 100


KINDS: dict[str, tuple[Any, Callable[[int], Any], bool]] = {
    "int": (int, lambda n: n, True),
    "int from text": (int, str, True),
    "Decimal": (Decimal, lambda n: f"{n}.50", True),
    "dataclass": (Line, lambda n: {"cents": n}, True),
    "model": (Whole, lambda n: {"cents": n}, True),
    "default of a model": (Whole, lambda n: {}, True),
    "list": (list[Line], lambda n: [{"cents": n}, {"cents": str(n)}], True),
    "validator that changes again": (Annotated[int, AfterValidator(in_cents)], lambda n: n, False),
    "field left out": (Hidden, lambda n: {"cents": n}, False),
    "serializer": (InEuros, lambda n: {"cents": n}, False),
    "secret": (SecretStr, str, False),
}
"""The type of an argument, how a model writes a number of cents in it, and whether its JSON form converts back."""


class Desk:
    """A tool with one argument, its runs in one checkpoint, and what its function, its rule and its events have got."""

    def __init__(self, kind: Any, written: Any, *, asks: bool = True, **others: Any) -> None:
        self.got: list[Any] = []
        self.judged: list[Any] = []
        self.decided: list[ApprovalDecided] = []
        self.started: list[Any] = []
        self.entries: list[dict[str, Any]] = []
        self.asks = asks
        self.written = {"value": written, **others}

        def pay(value: Any, currency: str = "EUR") -> str:
            """Pay."""
            self.got.append(value)
            return "paid"

        pay.__annotations__["value"] = kind
        pay.__annotations__["currency"] = str
        self.tools = Toolbox([pay], check_arguments=True)

    def work(self) -> PendingCall | None:
        """Run until the call waits or the run ends, from what is stored as JSON, and return what waits."""
        checkpoint = Checkpoint(self.entries, needs_approval={"pay": self.rule})
        model = FakeModel(Act("", (ToolCall("pay", self.written),)), then=Answer("", "Done."))
        if self.entries:
            model = FakeModel(then=Answer("", "Done."))
        desk = self

        class Heard(Observer):
            def on_event(self, event: RunEvent) -> None:
                if isinstance(event, ApprovalDecided):
                    desk.decided.append(event)
                if isinstance(event, ToolStarted):
                    desk.started.append(event.as_dict()["arguments"])

        try:
            Resumable(Bare(), checkpoint).run_sync(Query("Pay."), self.tools, model, Heard())
        except ApprovalRequired as stopped:
            return stopped.pending[0]
        finally:
            self.entries = json.loads(json.dumps(checkpoint.entries))
        return None

    def approve(self, call: PendingCall, arguments: Any = None) -> PendingCall | None:
        checkpoint = Checkpoint(self.entries)
        checkpoint.approve(call, arguments=arguments)
        self.entries = json.loads(json.dumps(checkpoint.entries))
        return self.work()

    def rule(self, arguments: Any) -> bool:
        self.judged.append(arguments["value"])
        return self.asks


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=cases(5))
@given(cents=st.integers(-3, 99_999))
def test_what_is_shown_is_what_the_tool_gets_and_what_is_not_shown_whole_says_so(name: str, cents: int) -> None:
    kind, write, is_whole = KINDS[name]
    desk = Desk(kind, write(cents))
    shown = desk.work()
    assert shown is not None
    assert desk.got == []
    assert desk.approve(shown) is None
    assert desk.judged[0] == desk.got[0]
    assert type(desk.judged[0]) is type(desk.got[0])
    assert shown.arguments == {"value": plain_value(desk.got[0]), "currency": "EUR"}
    assert desk.started == [shown.arguments]
    if is_whole:
        assert shown.problem == ""
    elif cents not in (0, -1):  # 0 is 0 in any unit
        assert f"what the tool gets, {desk.got[0]!r}" in shown.problem


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=cases(6))
@given(edits=st.lists(st.none() | st.tuples(st.integers(0, 9_999), st.sampled_from([None, "EUR", "USD"])), min_size=1, max_size=3))
def test_an_edit_that_becomes_something_else_waits_until_that_is_approved(name: str, edits: list[Any]) -> None:
    kind, write, _ = KINDS[name]
    desk = Desk(kind, write(7))
    shown, agreed = desk.work(), None
    for edit in edits:
        if shown is None:
            break
        arguments = None
        if edit is not None:
            arguments = {"value": write(edit[0])} | ({} if edit[1] is None else {"currency": edit[1]})
        agreed = shown.arguments if arguments is None else {"currency": "EUR"} | arguments
        shown = desk.approve(shown, arguments)
    while shown is not None:
        assert shown.problem.startswith(CONVERTED)
        agreed = shown.arguments
        shown = desk.approve(shown)
    (paid,) = desk.got
    assert agreed is not None
    assert plain_value(paid) == agreed["value"]
    (decided,) = desk.decided
    assert decided.arguments is None or decided.arguments == agreed


def test_an_edit_in_the_form_that_is_shown_is_never_converted_unseen() -> None:
    kind, write, _ = KINDS["validator that changes again"]
    desk = Desk(kind, write(6))
    shown = desk.work()
    assert shown is not None
    again = desk.approve(shown, dict(shown.arguments))
    assert again is not None
    assert (shown.arguments["value"], again.arguments["value"], desk.got) == (600, 60_000, [])


def test_a_default_that_is_left_out_of_an_edit_was_shown_or_is_shown() -> None:
    desk = Desk(int, 6)
    shown = desk.work()
    assert shown is not None
    assert desk.approve(shown, {"value": 5}) is None  # EUR, as was shown
    assert desk.got == [5]
    desk = Desk(int, 6, currency="USD")
    shown = desk.work()
    assert shown is not None
    again = desk.approve(shown, {"value": 5})
    assert again is not None
    assert again.problem == f"{CONVERTED} (currency): approve what is shown now"
    assert again.arguments == {"value": 5, "currency": "EUR"}
    assert desk.approve(again) is None


class Payment(BaseModel):
    cents: int
    id: UUID = Field(default_factory=uuid4)
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))


@dataclass
class Booking:
    cents: int
    id: UUID = field(default_factory=uuid4)


@pytest.mark.parametrize("kind", [Payment, Booking, list[Payment]])
def test_an_id_that_the_tools_type_makes_is_the_one_that_was_shown_and_approved(kind: Any) -> None:
    written: Any = {"cents": 5}
    desk = Desk(kind, [written, written] if kind == list[Payment] else written)
    shown = desk.work()
    assert shown is not None
    assert shown.problem == ""
    assert desk.approve(shown) is None
    assert desk.started == [shown.arguments]
    assert not any("other arguments" in str(entry) for entry in desk.entries)  # the model has nothing to learn of it
    kinds = [entry["kind"] for entry in desk.entries]
    desk.entries = desk.entries[: kinds.index("begun") + 1]  # the process died over the call
    again = desk.work()
    assert again is not None
    assert (again.problem, again.arguments) == (CUT_OFF, shown.arguments)
    assert desk.approve(again) is None
    assert desk.got[0] == desk.got[1]
    assert desk.started == [shown.arguments] * 2


def test_an_edit_that_leaves_out_an_id_is_made_with_the_one_that_is_shown_then() -> None:
    desk = Desk(Payment, {"cents": 5})
    shown = desk.work()
    assert shown is not None
    again = desk.approve(shown, {"value": {"cents": 4}})
    assert again is not None
    assert again.problem == f"{CONVERTED} (value): approve what is shown now"
    assert desk.approve(again) is None
    assert desk.started == [again.arguments]
    (paid,) = desk.got
    assert paid.cents == 4


SETTING = {"currency": "EUR"}


class Priced(BaseModel):
    cents: int
    currency: str = Field(default_factory=lambda: SETTING["currency"])


def test_a_default_that_has_changed_since_a_person_was_shown_it_is_the_one_that_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(Priced, {"cents": 5})
    shown = desk.work()
    assert shown is not None
    monkeypatch.setitem(SETTING, "currency", "USD")
    assert desk.approve(shown) is None
    assert desk.got == [Priced(cents=5, currency="EUR")]


def test_a_type_that_has_changed_since_the_call_was_shown_waits_again() -> None:
    factor = {"by": 1}
    desk = Desk(Annotated[int, AfterValidator(lambda value: value * factor["by"])], 6)
    shown = desk.work()
    assert shown is not None
    factor["by"] = 100
    again = desk.approve(shown)
    assert again is not None
    assert again.problem.startswith(f"{CHANGED} (value): approve what is shown now")
    assert (desk.got, again.arguments["value"]) == ([], 600)
    assert desk.approve(again) is None
    assert desk.got == [600]


def test_a_value_that_is_new_whatever_is_given_says_that_no_approval_settles_it() -> None:
    numbers = itertools.count()
    kind = Annotated[int, AfterValidator(lambda value: value + next(numbers))]
    desk = Desk(kind, 6)
    shown = desk.work()
    for _ in range(2):
        assert shown is not None
        assert shown.problem.endswith(UNSETTLED.format(names="value"))
        assert "approve what is shown now" not in shown.problem
        shown = desk.approve(shown)
    assert desk.got == []
    assert shown is not None
    checkpoint = Checkpoint(desk.entries)
    checkpoint.answer(shown, "paid by hand")
    desk.entries = checkpoint.entries
    assert desk.work() is None
    let = Desk(kind, 6, asks=False)
    assert let.work() is not None  # what the rule would judge is not what the function would get


@pytest.mark.parametrize("said", [0, 1, "", "no", None])
def test_a_rule_that_says_neither_true_nor_false_makes_the_call_wait_and_is_named(
    said: Any, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(int, 3)
    desk.asks = said
    assert desk.work() is not None
    assert f"the rule of pay returned {said!r}, which is neither True nor False" in caplog.text
    desk.entries, desk.asks = [], False
    assert desk.work() is None


def test_a_rule_cannot_change_what_the_tool_gets() -> None:
    desk = Desk(list[Line], [{"cents": 3}], asks=False)

    def spoils(arguments: Any) -> bool:
        arguments["value"][0].cents = 9
        arguments["value"].append("more")
        return False

    desk.rule = spoils  # type: ignore[method-assign]
    assert desk.work() is None
    assert desk.got == [[Line(3)]]


@pytest.mark.parametrize(
    ("loop", "beside"),
    [
        (
            Finish(max_steps=4),
            Reply("", (NativeCall("a", "pay", '{"value": 3}'), NativeCall("b", "__finish__", '{"answer": "Done."}'))),
        ),
        (Bare(), Reply('{"tool_name": "pay", "arguments": {"value": 3}, "final_answer": "Done."}')),
    ],
    ids=["finish", "bare"],
)
def test_a_call_that_is_dropped_beside_an_answer_is_warned_of_and_told(
    loop: Any, beside: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    desk, notes = Desk(int, 3), list[LoopNote]()

    class Heard(Observer):
        def on_event(self, event: EventOf[Any]) -> None:
            if isinstance(event, LoopNote) and event.kind == "not_run":
                notes.append(event)

    Resumable(loop, Checkpoint()).run_sync(Query("Pay."), desk.tools, FakeModel(beside), Heard())
    assert (desk.got, len(notes)) == ([], 1)
    assert "pay: called beside the answer, so that it was not called; see finish_with_tools" in caplog.text


def test_a_call_that_was_cut_off_waits_with_the_arguments_that_it_had_begun_with() -> None:
    desk = Desk(int, 6)
    shown = desk.work()
    assert shown is not None
    assert desk.approve(shown, {"value": 5}) is None
    kinds = [entry["kind"] for entry in desk.entries]
    desk.entries = desk.entries[: kinds.index("begun") + 1]
    again = desk.work()
    assert again is not None
    assert again.problem == CUT_OFF
    assert again.arguments == {"value": 5, "currency": "EUR"}
    assert desk.approve(again) is None
    assert desk.got == [5, 5]


# --- decisions without effect ---


def test_the_second_of_two_who_decide_in_one_file_is_told(tmp_path: Path) -> None:
    decisions: list[tuple[Callable[[Checkpoint, PendingCall], None], str]] = [
        (lambda one, call: one.approve(call, by="ann"), "was approved by ann already"),
        (lambda one, call: one.reject(call, "no"), "was rejected by a person already"),
        (lambda one, call: one.answer(call, 3, by="bob"), "was given a result by bob already"),
    ]
    for number, (decide, told) in enumerate(decisions):
        path, desk = tmp_path / f"{number}.jsonl", Desk(int, 3)
        desk.work()
        path.write_text("".join(json.dumps(entry) + "\n" for entry in desk.entries))
        first, second = CheckpointFile(path), CheckpointFile(path)
        (call,) = second.pending
        decide(first, call)
        before = path.read_bytes()
        for late, _ in decisions:
            with pytest.raises(ValueError, match=rf"^no call '{call.id}' waits for a decision; it {told}; waiting: none$"):
                late(second, call)
        assert path.read_bytes() == before
        model = FakeModel(then=Answer("", "Done."))
        Resumable(Bare(), CheckpointFile(path)).run_sync(Query("Pay."), desk.tools, model)
        with pytest.raises(ValueError, match=r"it has its result already; waiting: none$"):
            first.reject(call, "too late")
    path.unlink()
    with pytest.raises(ValueError, match=r"waiting: none$"):
        second.approve(call)
    assert not path.exists()


def test_a_decision_that_could_not_be_stored_does_not_count() -> None:
    desk = Desk(int, 3)
    desk.work()

    def full(entry: Any) -> None:
        raise OSError("the disk is full")

    checkpoint = Checkpoint(desk.entries, on_entry=full)
    with pytest.raises(OSError, match="full"):
        checkpoint.approve(checkpoint.pending[0])
    assert checkpoint.entries == desk.entries
    assert len(checkpoint.pending) == 1


def test_an_entry_that_could_not_be_brought_to_the_disk_is_not_left_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, desk = tmp_path / "run.jsonl", Desk(int, 3)
    desk.work()
    path.write_text("".join(json.dumps(entry) + "\n" for entry in desk.entries))
    checkpoint, before = CheckpointFile(path), path.read_bytes()

    def fails(file: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("whichloop.loops.checkpoints.checkpoint_file.os.fsync", fails)
    with pytest.raises(OSError, match="gone"):
        checkpoint.approve(checkpoint.pending[0])
    assert path.read_bytes() == before
    assert len(CheckpointFile(path).pending) == 1
