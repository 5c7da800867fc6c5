"""A person's approval: which calls wait for it, what a person is shown, and what comes of a decision."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loops.helpers import Heard, in_turn
from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper, price
from whichloop.loops import Bare, Finish, Stateless
from whichloop.loops.checkpoint import BEGUN, REFUSED, Checkpoint
from whichloop.loops.finish import Module
from whichloop.loops.resumable import EDITED, GIVEN_UP, RAISED, ApprovalRequired, Resumable
from whichloop.loops.stateless import ActivityManager
from whichloop.models.fake import FakeModel
from whichloop.protocol import Act, Answer, Loop, NativeCall, Observer, Outcome, Query, Reply, Tool, Toolbox, ToolCall
from whichloop.protocol.events import ApprovalAsked, ApprovalDecided, ToolFinished, ToolStarted

LET = {"pay": lambda arguments: False}
"""A rule that lets every call run."""


def again(checkpoint: Checkpoint, **options: Any) -> Checkpoint:
    """The checkpoint in another process."""
    return Checkpoint(json.loads(json.dumps(checkpoint.entries)), **options)


def cut_off(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint of a process that ended while the first call was at work."""
    begun = next(place for place, entry in enumerate(checkpoint.entries) if entry["kind"] == "begun")
    return Checkpoint(checkpoint.entries[: begun + 1])


class Desk:
    """A tool that gives money back and keeps what it got, and a model that asks for it."""

    def __init__(self, *asked: Mapping[str, Any], loop: Loop | None = None) -> None:
        self.loop = loop or Bare(max_steps=8)
        self.got: list[tuple[Any, ...]] = []
        calls = [Act("", (ToolCall("refund", arguments),)) for arguments in asked]
        self.model = FakeModel(*calls, then=Answer("", "Done.", 0.9 if isinstance(loop, Stateless) else None))
        self.tools = Toolbox([self.refund])

    def refund(self, order: str, cents: int = 500, force: bool = False) -> str:
        self.got.append((order, cents, force))
        return f"{order}: {cents} given back"

    def run(self, checkpoint: Checkpoint, observer: Observer | None = None) -> Outcome[Any]:
        return Resumable(self.loop, checkpoint).run_sync(Query("Give it back."), self.tools, self.model, observer or Observer())

    def stopped(self, checkpoint: Checkpoint, observer: Observer | None = None) -> ApprovalRequired:
        with pytest.raises(ApprovalRequired) as stopped:
            self.run(checkpoint, observer)
        assert stopped.value.pending == checkpoint.pending == again(checkpoint).pending
        return stopped.value


# --- what is shown, and what comes of a decision ---

JSON_ARGUMENTS = st.fixed_dictionaries(
    {"order": st.text(max_size=3)},
    optional={"cents": st.sampled_from([5, "5", 5.0, "many", None]), "force": st.sampled_from([True, 1, "yes", [1]])},
)


@given(JSON_ARGUMENTS)
def test_a_person_is_shown_the_model_s_json_and_the_tool_gets_what_it_would_have_got(arguments):
    free, guarded, checkpoint = Desk(arguments), Desk(arguments), Checkpoint(needs_approval=["refund"])
    free.run(Checkpoint())
    (waiting,) = guarded.stopped(checkpoint).pending
    assert json.dumps(dict(waiting.arguments)) == json.dumps(dict(waiting.call.arguments)) == json.dumps(arguments)
    checkpoint.approve(waiting)
    assert guarded.run(again(checkpoint)).answer == "Done."
    assert repr(guarded.got) == repr(free.got)
    assert len(guarded.got) == 1


EDIT = {"order": "A", "cents": 5}
DECISIONS: list[tuple[Any, dict[str, Any], list[Any], str]] = [
    (lambda one, call: one.approve(call), {"approved": True, "by": "person"}, [("A", 700, False)], "A: 700 given back"),
    (
        lambda one, call: one.approve(call, arguments=EDIT, by="ann"),
        {"approved": True, "by": "ann", "arguments": EDIT},
        [("A", 5, False)],
        EDITED.format(arguments=json.dumps(EDIT)) + "A: 5 given back",
    ),
    (
        lambda one, call: one.reject(call.id, "too late", by="bob"),
        {"approved": False, "by": "bob", "reason": "too late"},
        [],
        f"Rejected: {REFUSED}: too late",
    ),
    (
        lambda one, call: one.answer(call.id, {"paid": 1}),
        {"approved": True, "by": "person", "result": '{"paid": 1}'},
        [],
        '{"paid": 1}',
    ),
]


@pytest.mark.parametrize(("decide", "told", "got", "read"), DECISIONS)
def test_a_decision_takes_effect_and_is_told(decide: Any, told: dict[str, Any], got: list[Any], read: str) -> None:
    desk, checkpoint, heard = Desk({"order": "A", "cents": "700"}), Checkpoint(needs_approval=["refund"]), Heard()
    stopped = desk.stopped(checkpoint, heard)
    assert str(stopped) == "waiting for a person to approve or reject: refund"
    (waiting,) = stopped.pending
    (asked,) = heard.of(ApprovalAsked)
    shown = {"tool": "refund", "call_id": waiting.call.call_id, "arguments": {"order": "A", "cents": "700"}, "id": waiting.id}
    assert asked.as_dict() == {"event": "approval_asked", **shown}
    decided = again(checkpoint)  # by another process, which knows neither the tools nor what needs approval
    decide(decided, decided.pending[0])
    assert decided.pending == ()
    outcome = desk.run(again(decided), heard)
    assert (outcome.answer, desk.got) == ("Done.", got)
    (event,) = heard.of(ApprovalDecided)
    assert event.as_dict() == {"event": "approval_decided", "tool": "refund", "call_id": waiting.call.call_id, **told}
    assert len(heard.of(ToolStarted)) == len(got)
    assert [message.content for message in outcome.messages if message.role == "tool"] == [read]
    with pytest.raises(ValueError, match=f"^no call '{waiting.id}' waits for a decision; waiting: none$"):
        decided.approve(waiting)


def test_edited_arguments_that_do_not_fit_are_asked_about_again_and_what_is_approved_then_runs() -> None:
    desk, checkpoint = Desk({"order": "A"}), Checkpoint(needs_approval=["refund"])
    (first,) = desk.stopped(checkpoint).pending
    checkpoint.approve(first, arguments={"order": "A", "cents": "many"})
    (second,) = desk.stopped(checkpoint).pending
    assert (dict(second.arguments), second.call) == ({"order": "A", "cents": "many"}, first.call)
    assert "cents" in second.problem
    with pytest.raises(ValueError, match="waits for a decision"):  # the page of before
        checkpoint.approve(first.id)
    checkpoint.approve(second, arguments={"order": "A", "cents": 60})
    assert desk.run(checkpoint).answer == "Done."
    assert desk.got == [("A", 60, False)]


def test_a_tool_gets_what_a_person_gave_and_nothing_else_also_once_its_call_was_cut_off() -> None:
    desk, checkpoint = Desk({"order": "A", "cents": 700}), Checkpoint(needs_approval=["refund"])
    checkpoint.approve(desk.stopped(checkpoint).pending[0], arguments={"order": "A", "force": True})
    desk.run(checkpoint)
    cut = cut_off(checkpoint)
    cut.approve(desk.stopped(cut).pending[0])
    desk.run(cut)
    assert desk.got == [("A", 500, True)] * 2


def test_the_id_of_another_run_or_a_wrong_argument_decides_nothing() -> None:
    checkpoints = [Checkpoint(needs_approval=["refund"]) for _ in range(2)]
    one, other = (Desk({"order": "A"}).stopped(checkpoint).pending[0] for checkpoint in checkpoints)
    assert (one.call, one.call.call_id, one.id != other.id) == (other.call, other.call.call_id, True)
    for wrong in (other, other.id, one.call.call_id):
        with pytest.raises(ValueError, match="waits for a decision"):
            checkpoints[0].approve(wrong)
    mistakes: list[dict[str, Any]] = [
        {"arguments": [1]},
        {"arguments": {"cents": {1}}},
        {"arguments": {"cents": float("nan")}},
        {"by": 3},
    ]
    for mistake in mistakes:
        with pytest.raises(ValueError, match=r"^arguments must be"):
            checkpoints[0].approve(one, **mistake)
    with pytest.raises(ValueError, match=r"result JSON"):
        checkpoints[0].answer(one, {1})
    assert checkpoints[0].pending == (one,)


def test_of_two_people_who_decide_at_once_the_one_who_rejects_counts() -> None:
    for verdicts in ([True, False], [False, True], [True, True]):
        desk, checkpoint = Desk({"order": "A"}), Checkpoint(needs_approval=["refund"])
        (waiting,) = desk.stopped(checkpoint).pending
        entries = list(checkpoint.entries)
        for verdict in verdicts:
            reviewer = Checkpoint(checkpoint.entries)
            reviewer.approve(waiting) if verdict else reviewer.reject(waiting, "no")
            entries += reviewer.entries[-1:]
        assert desk.run(Checkpoint(entries)).answer == "Done."
        assert len(desk.got) == all(verdicts)


# --- which calls wait ---


@pytest.mark.parametrize(
    "loop", [Finish(max_steps=4), Bare(), Stateless(enable_error_recovery=False, response_style=None)], ids=lambda loop: loop.name
)
def test_a_person_is_not_asked_about_a_call_that_will_be_refused_anyway(loop: Loop) -> None:
    desk = Desk({"order": "A", "cents": "many"}, {"order": "A"}, loop=loop)
    desk.tools = Toolbox([desk.refund], check_arguments=True)
    (waiting,) = desk.stopped(Checkpoint(needs_approval=["refund"])).pending
    assert waiting.call.arguments == {"order": "A"}


def above(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["cents"] > 1000 or arguments["force"])


def forgetful(arguments: Mapping[str, Any]) -> Any:
    return True if arguments["cents"] > 1000 else None


def broken(arguments: Mapping[str, Any]) -> bool:
    raise SystemError("no database")


ATTACKS: list[tuple[Any, dict[str, Any], bool, str]] = [
    (above, {"order": "A"}, False, ""),
    (above, {"order": "A", "cents": "many"}, True, "raised TypeError"),
    (above, {"order": ["A"], "cents": 1001}, True, ""),
    (above, {}, True, "raised"),
    (above, {"order": "A", "cents": 1001, "nothing": 1}, True, "raised"),
    (forgetful, {"order": "A"}, True, "returned None"),
    (broken, {"order": "A"}, True, "raised SystemError: no database"),
    (lambda name, arguments: False, {"order": "A"}, True, "raised TypeError"),
]


@pytest.mark.parametrize(("rule", "arguments", "waits", "problem"), ATTACKS)
def test_no_call_gets_around_a_rule(rule: Any, arguments: dict[str, Any], waits: bool, problem: str) -> None:
    """`validate_arguments=False`: the design hands over whatever the model wrote."""
    desk, heard = Desk(arguments, loop=Bare(validate_arguments=False, max_steps=2)), Heard()
    checkpoint = Checkpoint(needs_approval={"refund": rule})
    if waits:
        (waiting,) = desk.stopped(checkpoint, heard).pending
        assert problem in waiting.problem
        assert bool(problem) == bool(waiting.problem)
        assert (heard.of(ToolStarted), desk.got) == ([], [])
    else:
        desk.run(checkpoint, heard)
        assert [(event.approved, event.by) for event in heard.of(ApprovalDecided)] == [(True, "rule")]
        assert len(desk.got) == 1


@given(
    force=st.sampled_from([True, False, "true", "false", "yes", "no", 1, 0, None]),
    cents=st.sampled_from([None, 1, "2", 5000, "6000"]),
    check=st.booleans(),
)
def test_a_rule_judges_what_the_tool_gets_whatever_the_model_wrote(force, cents, check):
    written = {"order": "A", **({} if force is None else {"force": force}), **({} if cents is None else {"cents": cents})}
    desk = Desk(written)
    desk.tools = Toolbox([desk.refund], check_arguments=check)
    checkpoint = Checkpoint(needs_approval={"refund": lambda got: got["force"] is True or got["cents"] >= 5000})
    try:
        desk.run(checkpoint)
    except ApprovalRequired:
        assert desk.got == []
    else:
        ((_, paid, was_forced),) = desk.got
        assert was_forced is not True
        assert paid < 5000


def test_a_call_that_a_rule_let_run_and_that_was_cut_off_waits_even_if_needs_approval_is_left_out() -> None:
    desk, checkpoint = Desk({"order": "A"}), Checkpoint(needs_approval={"refund": lambda arguments: False})
    desk.run(checkpoint)
    desk.stopped(cut_off(checkpoint))
    assert len(desk.got) == 1


def test_a_name_that_no_tool_has_guards_nothing_and_is_told() -> None:
    with pytest.raises(TypeError, match=r"^needs_approval: "):
        Checkpoint(needs_approval="refund")
    with pytest.raises(TypeError, match=r"^refusals: "):
        Checkpoint(refusals=cast(Any, [BaseException]))
    with pytest.raises(ValueError, match=r"^needs_approval: no tool is named 'refnud'"):
        Desk().run(Checkpoint(needs_approval=["refnud"]))


def turn(loop: Loop, history: Any, heard: Heard) -> Outcome[Any]:
    """A turn in which each price waits for a person, who lets it be asked."""
    checkpoint = Checkpoint(needs_approval=["price"])
    while True:
        try:
            return Resumable(loop, checkpoint).run_sync(Query(QUESTION, history=history), Toolbox([price]), Shopper(), heard)
        except ApprovalRequired as stopped:
            for waiting in stopped.pending:
                checkpoint.approve(waiting, by="ann")
            checkpoint = again(checkpoint, needs_approval=["price"])


@pytest.mark.parametrize("name", DESIGNS)
def test_a_call_has_one_id_in_all_events_in_the_approval_and_in_the_messages(name: str) -> None:
    seen: set[str] = set()
    for history in ((), ({"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."})):
        heard = Heard()
        outcome = turn(DESIGNS[name](), history, heard)
        assert outcome.answer == ANSWER
        asked, *others = (heard.of(kind) for kind in (ApprovalAsked, ApprovalDecided, ToolStarted, ToolFinished))
        ids = {event.call.call_id for event in asked}
        assert len(ids) == len(PRICES)
        for events in others:
            assert sorted(event.call.call_id for event in events) == sorted(ids)
        assert {call.id for message in outcome.messages[len(history) :] for call in message.calls} == ids
        assert not ids & seen
        seen |= ids
        assert {(event.approved, event.by) for event in others[0]} == {(True, "ann")}
        for event in heard.events:
            json.dumps(event.as_dict())
    assert all(len(one) <= 40 for one in seen)  # what OpenAI takes


def test_a_reply_is_no_reason_for_an_id() -> None:
    """Whatever ids a model gives its calls: one that is forged to look like that of an approved call waits all the same."""
    desk, checkpoint = Desk(loop=Finish(max_steps=4)), Checkpoint(needs_approval=["refund"])
    desk.model = FakeModel(Reply("", (NativeCall("a", "refund", '{"order": "A"}'),)))
    (first,) = desk.stopped(checkpoint).pending
    checkpoint.approve(first)
    desk.model = FakeModel(Reply("", (NativeCall(first.call.call_id, "refund", '{"order": "A"}'),)))
    (second,) = desk.stopped(checkpoint).pending
    assert (len(desk.got), second.id != first.id, second.call.call_id != first.call.call_id) == (1, True, True)


# --- calls that may have acted ---


class NoSuchOrder(Exception):
    """The tool's own refusal, before it has acted."""


class Unpaid(NoSuchOrder):
    """A kind of it."""


class Bank:
    """A tool that pays, and then raises or hangs the first time."""

    def __init__(self, raised: BaseException | None) -> None:
        self.raised, self.paid = raised, 0
        self.model = FakeModel.script([ToolCall("pay", {"order": 1})], "Done.")

    async def pay(self, order: int) -> str:
        self.paid += 1
        if self.paid == 1 and self.raised is None:
            await asyncio.Event().wait()
        if self.paid == 1 and self.raised is not None:
            raise self.raised
        return f"paid in call {self.paid}"

    def run(self, loop: Loop, checkpoint: Checkpoint) -> Outcome[Any]:
        tools = Toolbox([Tool.from_function(self.pay, time_limit_s=None if self.paid else 0.02)])
        return Resumable(loop, checkpoint).run_sync(Query("Pay."), tools, self.model)


ENDS = [None, ConnectionError("reset"), SystemExit(3), ValueError("no JSON"), TimeoutError("late")]


@pytest.mark.parametrize(("name", "raised"), in_turn(DESIGNS, ENDS), ids=repr)
def test_a_guarded_call_without_a_result_may_have_acted_and_waits(name: str, raised: BaseException | None) -> None:
    loop, bank, checkpoint = DESIGNS[name](), Bank(raised), Checkpoint(needs_approval=LET, refusals=[NoSuchOrder, OSError])
    is_late = raised is None or isinstance(raised, TimeoutError)
    if isinstance(raised, ConnectionError):
        checkpoint.refusals = ()
    for _ in range(2):
        with pytest.raises(ApprovalRequired):
            bank.run(loop, checkpoint)
    problem = GIVEN_UP if is_late else RAISED.format(error=f"{type(raised).__name__}: {raised}")
    assert (bank.paid, [one.problem for one in checkpoint.pending]) == (1, [problem])
    decisions: list[tuple[Any, str, int]] = [
        (Checkpoint.approve, "paid in call 2", 2),
        (lambda one, call: one.answer(call, "paid, says the bank"), "paid, says the bank", 1),
        (lambda one, call: one.reject(call, "look it up"), f"Rejected: {REFUSED}: look it up {BEGUN}", 1),
    ]
    for decide, read, paid in decisions:
        bank.paid, bank.model = 1, FakeModel.script([], "Done.")
        decided = again(checkpoint)
        decide(decided, decided.pending[0])
        outcome = bank.run(loop, decided)
        assert ([message.content for message in outcome.messages if message.role == "tool"], bank.paid) == ([read], paid)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_refusal_is_an_error_that_the_model_reads(is_named: bool) -> None:
    bank, checkpoint = Bank(Unpaid("no order 1")), Checkpoint(needs_approval=["pay"] if is_named else LET, refusals=[NoSuchOrder])
    if is_named:
        with pytest.raises(ApprovalRequired):
            bank.run(Finish(max_steps=4), checkpoint)
        checkpoint.approve(checkpoint.pending[0])
    outcome = bank.run(Finish(max_steps=4), checkpoint)
    assert (outcome.answer, bank.paid) == ("Done.", 1)
    assert any("Unpaid: no order 1" in message.content for message in outcome.messages)


@pytest.mark.parametrize("owner", [Module, ActivityManager])
def test_a_class_that_asks_for_approval_by_an_attribute_is_refused_since_its_runs_wait_for_nobody(owner: type) -> None:
    with pytest.raises(TypeError, match=r"Careful\.needs_approval has no effect here: use Resumable"):
        type("Careful", (owner,), {"needs_approval": ("pay",)})
    assert type("Own", (owner,), {"needs_approval": lambda self: None})
