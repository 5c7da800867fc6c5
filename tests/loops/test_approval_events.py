"""What is told of a person's approval and by which ids, and that no call gets around it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.loops.shopper import ANSWER, DESIGNS, PRICES, QUESTION, Shopper, price
from whichloop.loops.bare import Bare
from whichloop.loops.checkpoints.checkpoint import ApprovalRequired, Checkpoint, PendingCall
from whichloop.loops.finish import Finish
from whichloop.loops.resumable import Resumable
from whichloop.loops.shared.boundary import watched
from whichloop.models.fake import FakeModel
from whichloop.protocol import (
    Act,
    Answer,
    Loop,
    Message,
    Model,
    NativeCall,
    Observer,
    Outcome,
    Query,
    Reply,
    RunEvent,
    StopReason,
    Toolbox,
    ToolCall,
    run_sync,
)
from whichloop.protocol.events import ApprovalAsked, ApprovalDecided, CallInvalid, ToolFinished, ToolStarted


class Heard(Observer):
    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def on_event(self, event: RunEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def again(checkpoint: Checkpoint, **options: Any) -> Checkpoint:
    """The checkpoint in another process."""
    return Checkpoint(json.loads(json.dumps(checkpoint.entries)), **options)


def turn(loop: Loop, history: tuple[Message, ...], heard: Heard) -> Outcome[Any]:
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
    history: tuple[Message, ...] = ()
    seen: set[str] = set()
    for _ in range(2):
        heard = Heard()
        outcome = turn(DESIGNS[name](), history, heard)
        assert outcome.answer == ANSWER
        asked, decided, begun, ended = (heard.of(kind) for kind in (ApprovalAsked, ApprovalDecided, ToolStarted, ToolFinished))
        ids = {event.call.call_id for event in asked}
        assert len(ids) == len(PRICES)
        for events in (decided, begun, ended):
            assert sorted(event.call.call_id for event in events) == sorted(ids)
        assert {call.id for message in outcome.messages[len(history) :] for call in message.calls} == ids
        assert not ids & seen
        seen |= ids
        history = tuple(replace(message, content="(taken out)") for message in outcome.messages)  # so that it is asked again
        assert {(event.approved, event.by) for event in decided} == {(True, "ann")}
        for event in heard.events:
            json.dumps(event.as_dict())
    assert all(len(one) <= 40 for one in seen)  # what OpenAI takes


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


# --- what is told ---


EDIT = {"order": "A", "cents": 5, "force": False}


def refund(order: str, cents: int = 500, force: bool = False) -> str:
    """Give money back."""
    return f"{order}: {cents} given back"


def refunding(checkpoint: Checkpoint, model: Model, heard: Observer, loop: Loop | None = None) -> Outcome[Any]:
    return Resumable(loop or Bare(), checkpoint).run_sync(Query("Give it back."), Toolbox([refund]), model, heard)


def giving_back(**arguments: Any) -> FakeModel:
    return FakeModel(Act("", (ToolCall("refund", arguments),)), then=Answer("", "Done."))


def test_what_waits_is_shown_as_the_tool_gets_it_with_what_the_model_wrote_beside_it() -> None:
    checkpoint, heard = Checkpoint(needs_approval=["refund"]), Heard()
    with pytest.raises(ApprovalRequired) as stopped:
        refunding(checkpoint, giving_back(order="A", cents="700"), heard)
    (waiting,) = stopped.value.pending
    got = {"order": "A", "cents": 700, "force": False}
    assert (waiting.arguments, waiting.call.arguments) == (got, {"order": "A", "cents": "700"})
    assert again(checkpoint).pending == (waiting,)
    (asked,) = heard.of(ApprovalAsked)
    assert asked.as_dict() == {
        "event": "approval_asked",
        "tool": "refund",
        "arguments": got,
        "call_id": waiting.id,
        "version": waiting.version,
    }
    old = [{key: value for key, value in entry.items() if key != "received"} for entry in checkpoint.entries]
    assert Checkpoint(old).pending == (PendingCall(waiting.id, waiting.call, waiting.call.arguments),)


def test_a_decision_is_told_with_who_made_it_and_what_was_changed() -> None:
    checkpoint, model = Checkpoint(needs_approval=["refund"]), giving_back(order="A")
    with pytest.raises(ApprovalRequired):
        refunding(checkpoint, model, Observer())
    for decide, told in (
        (lambda one, call: one.approve(call), {"approved": True, "by": "person"}),
        (
            lambda one, call: one.approve(call, arguments=EDIT, by="ann"),
            {"approved": True, "by": "ann", "arguments": EDIT},
        ),
        (lambda one, call: one.reject(call, "too late", by="bob"), {"approved": False, "by": "bob", "reason": "too late"}),
    ):
        decided, heard = again(checkpoint), Heard()
        decide(decided, decided.pending[0])
        assert refunding(again(decided), FakeModel(then=Answer("", "Done.")), heard).answer == "Done."
        (event,) = heard.of(ApprovalDecided)
        call_id = checkpoint.pending[0].id
        assert event.as_dict() == {"event": "approval_decided", "tool": "refund", "call_id": call_id, **told}
        assert [one.call.call_id for one in heard.of(ToolStarted)] == ([call_id] if told["approved"] else [])
    with pytest.raises(TypeError, match=r"^by: give a text, not int$"):
        checkpoint.approve(checkpoint.pending[0], by=3)  # type: ignore[arg-type]


def test_a_rule_that_lets_a_call_through_is_told_as_the_one_who_decided() -> None:
    heard = Heard()
    checkpoint = Checkpoint(needs_approval={"refund": lambda arguments: arguments["cents"] > 1000})
    assert refunding(checkpoint, giving_back(order="A"), heard).answer == "Done."
    assert [(event.approved, event.by) for event in heard.of(ApprovalDecided)] == [(True, "rule")]
    assert heard.of(ApprovalAsked) == []


def test_edited_arguments_that_do_not_fit_are_asked_about_again_with_the_reason() -> None:
    checkpoint, heard = Checkpoint(needs_approval=["refund"]), Heard()
    model = giving_back(order="A")
    with pytest.raises(ApprovalRequired):
        refunding(checkpoint, model, heard)
    checkpoint.approve(checkpoint.pending[0], arguments={"order": "A", "cents": "many"})
    with pytest.raises(ApprovalRequired):
        refunding(checkpoint, model, heard)
    first, second = heard.of(ApprovalAsked)
    assert (first.problem, "cents" in second.problem, second.call.call_id) == ("", True, first.call.call_id)
    assert heard.of(ToolStarted) == heard.of(ApprovalDecided) == []


def test_a_person_may_give_the_result_of_a_call_in_its_place() -> None:
    checkpoint, heard = Checkpoint(needs_approval=["refund"]), Heard()
    with pytest.raises(ApprovalRequired):
        refunding(checkpoint, giving_back(order="A"), Observer())
    with pytest.raises(ValueError, match=r"^answer: the result must be a JSON value, not set$"):
        checkpoint.answer(checkpoint.pending[0], {1})
    checkpoint.answer(checkpoint.pending[0], {"paid": 500}, by="ann")
    model = FakeModel(then=Answer("", "Done."))
    outcome = refunding(again(checkpoint), model, heard)
    assert '\\"paid\\": 500' in model.requests[0].messages[-1].content
    (event,) = heard.of(ApprovalDecided)
    assert (event.as_dict()["result"], event.by, heard.of(ToolStarted)) == ('{"paid": 500}', "ann", [])
    assert outcome.usage is not None
    assert outcome.usage.tool_calls == 0
    assert [message.content for message in outcome.messages if message.role == "tool"] == ['{"paid": 500}']


# --- a rule is attacked ---


def forgetful(arguments: Mapping[str, Any]) -> Any:
    if arguments["cents"] > 1000:
        return True
    return None


def broken(arguments: Mapping[str, Any]) -> bool:
    raise SystemError("no database")


def above(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["cents"] > 1000 or arguments["force"])


ATTACKS: list[tuple[Any, dict[str, Any], bool]] = [
    (above, {"order": "A"}, False),
    (above, {"order": "A", "cents": "1001"}, True),
    (above, {"order": "A", "force": "true"}, True),
    (above, {"order": "A", "cents": "many"}, True),
    (above, {"order": "A", "cents": None}, True),
    (above, {"order": ["A"], "cents": 1001}, True),
    (above, {"cents": 1001}, True),
    (above, {}, True),
    (above, {"order": "A", "cents": 1001, "nothing": 1}, True),
    (forgetful, {"order": "A"}, True),
    (broken, {"order": "A"}, True),
]


@pytest.mark.parametrize(("rule", "arguments", "waits"), ATTACKS)
def test_no_call_gets_around_a_rule(rule: Any, arguments: dict[str, Any], waits: bool) -> None:
    """`validate_arguments=False`: the design hands over whatever the model wrote."""
    checkpoint, heard = Checkpoint(needs_approval={"refund": rule}), Heard()
    loop = Bare(validate_arguments=False, max_steps=2)
    try:
        refunding(checkpoint, giving_back(**arguments), heard, loop)
    except ApprovalRequired:
        assert waits
        assert heard.of(ToolStarted) == []
        return
    assert not waits


# --- calls that there are not, and several in a reply ---


def test_an_unknown_tool_is_told_as_an_invalid_call_and_nothing_else() -> None:
    for loop in (Finish(max_steps=3), Bare()):
        heard = Heard()
        model = FakeModel(Act("", (ToolCall("refnud", {}),)), Answer("", "Done."))
        loop.run_sync(Query("Give it back."), Toolbox([refund]), model, heard)
        (invalid,) = heard.of(CallInvalid)
        assert (invalid.error_type, invalid.request) == ("UnknownTool", 0)
        assert heard.of(ToolStarted) == heard.of(ToolFinished) == []


def test_a_call_that_no_reply_asked_for_is_told_as_invalid_too() -> None:
    async def run(query: Any, tools: Toolbox, model: Any, observer: Observer) -> Any:
        await tools.call(ToolCall("refnud", {}))
        return Outcome("Done.", StopReason.FINISHED, 1)

    heard = Heard()
    run_sync(watched(run, Query("Give it back."), Toolbox([refund]), FakeModel(), heard))
    (invalid,) = heard.of(CallInvalid)
    assert (invalid.request, invalid.error_type) == (None, "UnknownTool")
    assert heard.of(ToolStarted) == []


def test_a_reply_with_two_calls_waits_for_both_and_makes_each_once() -> None:
    made = Counter[str]()

    def pay(to: str) -> str:
        """Pay somebody."""
        made[to] += 1
        return f"paid {to}"

    calls = (ToolCall("pay", {"to": "ann"}), ToolCall("pay", {"to": "ann"}))
    model = FakeModel(Act("", calls), Answer("", "Done."))
    checkpoint, stops = Checkpoint(needs_approval=["pay"]), list[int]()
    for _ in range(4):
        try:
            ended: Outcome[Any] = Resumable(Finish(max_steps=3, parallel_tools=True), checkpoint).run_sync(
                Query("Pay."), Toolbox([pay]), model
            )
            break
        except ApprovalRequired as stopped:
            stops.append(made.total())
            for waiting in stopped.pending:
                checkpoint.approve(waiting)
    assert (ended.answer, made, stops) == ("Done.", Counter(ann=2), [0])


def test_a_reply_is_no_reason_for_an_id() -> None:
    """Whatever ids a model gives its calls: one that is forged to look like that of an approved call waits all the same."""
    made = Counter[str]()

    def pay(to: str) -> str:
        """Pay somebody."""
        made[to] += 1
        return "paid"

    def paying(call_id: str) -> Reply:
        return Reply("", (NativeCall(call_id, "pay", '{"to": "ann"}'),))

    checkpoint = Checkpoint(needs_approval=["pay"])
    with pytest.raises(ApprovalRequired):
        Resumable(Finish(max_steps=4), checkpoint).run_sync(Query("Pay."), Toolbox([pay]), FakeModel(paying("a")))
    first = checkpoint.pending[0].id
    checkpoint.approve(first)
    with pytest.raises(ApprovalRequired) as stopped:
        Resumable(Finish(max_steps=4), checkpoint).run_sync(Query("Pay."), Toolbox([pay]), FakeModel(paying(first)))
    assert made == Counter(ann=1)
    assert stopped.value.pending[0].id != first
